//! A shard: one of N parts of all transcripts. The shard of a transcript depends only on its path in the searched
//! folder, or on the typed path of a single file. Therefore, machines with different roots and start times agree.

use std::str::FromStr;

use jp_compact_schema::report::ShardOf;

/// One part: `I/N`, with I starting at 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    // Invariant: index < count.
    index: u64,
    /// The number of all shards.
    count: u64,
}

impl Shard {
    /// Returns whether a path relative to its root is in this part.
    #[must_use]
    pub fn contains(self, relative_path: &[u8]) -> bool {
        hash(relative_path) % self.count == self.index
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers =
            text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) if index < count => Ok(Self { index, count }),
            Some((_, 0)) => Err("N must be at least 1; expected I/N such as 0/4".into()),
            Some((index, count)) => {
                Err(format!("parts are numbered from 0, and {index} is not below {count}"))
            }
            None => Err("expected I/N such as 0/4, the first of four parts".into()),
        }
    }
}

impl From<Shard> for ShardOf {
    fn from(Shard { index, count }: Shard) -> Self {
        Self { index, of: count }
    }
}

/// Returns the FNV-1a hash, mixed again because the hashes of short paths differ only in the low bits.
fn hash(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    });
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Result<(u64, u64), &str>) {
        let result = text.parse::<Shard>().map(|shard| (shard.index, shard.count));
        match (result, expect) {
            (Err(message), Err(part)) => assert!(message.contains(part), "{message}"),
            (result, expect) => assert_eq!(result, expect.map_err(str::to_owned)),
        }
    }

    #[test]
    fn parts_are_numbered_from_0() {
        check("0/1", Ok((0, 1)));
        check("3/4", Ok((3, 4)));
        check("4/4", Err("4 is not below 4"));
        check("0/0", Err("N must be at least 1"));
        check("1", Err("expected I/N"));
        check("-1/4", Err("expected I/N"));
        check("a/b", Err("expected I/N"));
    }

    #[test]
    fn each_path_is_in_one_part_and_parts_have_similar_sizes() {
        for count in [1, 2, 3, 7] {
            let mut sizes = vec![0_usize; count];
            for number in 0..10_000 {
                let path = format!("17738{number:05}-a/events.json");
                let shards: Vec<usize> = (0..count)
                    .filter(|index| {
                        format!("{index}/{count}").parse::<Shard>().unwrap().contains(path.as_bytes())
                    })
                    .collect();
                assert_eq!(shards.len(), 1, "{path} is in {shards:?} of {count}");
                sizes[shards[0]] += 1;
            }
            let mean = 10_000 / count;
            assert!(sizes.iter().all(|size| size.abs_diff(mean) < mean / 5 + 1), "{sizes:?}");
        }
    }
}
