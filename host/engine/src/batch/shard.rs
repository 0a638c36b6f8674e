//! A shard: one of N parts of all transcripts. The part of a transcript depends only on its relative path.
//! Machines with different roots and start times therefore agree.

use std::str::FromStr;

use jp_compact_schema::report::ShardOf;

/// One part: `I/N`, with I starting at 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    // Invariant: index < of.
    index: u64,
    of: u64,
}

impl Shard {
    /// Returns whether a path relative to its root is in this part.
    #[must_use]
    pub fn holds(self, below: &[u8]) -> bool {
        mixed(below) % self.of == self.index
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((index, of)) if index < of => Ok(Self { index, of }),
            Some((_, 0)) => Err("N must be at least 1; expected I/N such as 0/4".into()),
            Some((index, of)) => Err(format!("parts are numbered from 0, and {index} is not below {of}")),
            None => Err("expected I/N such as 0/4, the first of four parts".into()),
        }
    }
}

impl From<Shard> for ShardOf {
    fn from(Shard { index, of }: Shard) -> Self {
        Self { index, of }
    }
}

/// FNV-1a with a final mix, because hashes of short paths differ only in the low bits.
fn mixed(bytes: &[u8]) -> u64 {
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
        let found = text.parse::<Shard>().map(|shard| (shard.index, shard.of));
        match (found, expect) {
            (Err(what), Err(part)) => assert!(what.contains(part), "{what}"),
            (found, expect) => assert_eq!(found, expect.map_err(str::to_owned)),
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
        for of in [1, 2, 3, 7] {
            let mut sizes = vec![0_usize; of];
            for number in 0..10_000 {
                let path = format!("17738{number:05}-a/events.json");
                let holding: Vec<usize> = (0..of)
                    .filter(|index| format!("{index}/{of}").parse::<Shard>().unwrap().holds(path.as_bytes()))
                    .collect();
                assert_eq!(holding.len(), 1, "{path} is in {holding:?} of {of}");
                sizes[holding[0]] += 1;
            }
            let even = 10_000 / of;
            assert!(sizes.iter().all(|size| size.abs_diff(even) < even / 5 + 1), "{sizes:?}");
        }
    }
}
