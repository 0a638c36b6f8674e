//! The numbers of ids. Ids are held as digests with random keys, so that memory does not grow with their length. An equal
//! digest of two ids is less likely than a failure of the memory.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use jp_compact_core::text;

#[derive(Default)]
pub struct IdNumbers {
    keys: [RandomState; 2],
    /// A second digest of each id, and the number of the id.
    numbers: HashMap<u64, (u32, u32), BuildHasherDefault<IsHashed>>,
    /// The stored id of the last call, and its number.
    last: Option<(Vec<u8>, u32)>,
    /// Whether two ids have the same key.
    collided: bool,
}

impl IdNumbers {
    /// Returns the number of a stored id, which is a JSON string. A new id gets the number `next`.
    pub fn number(&mut self, stored: &[u8], next: u32) -> u32 {
        // The second half of a call nearly always comes directly after the first.
        match &mut self.last {
            Some((last, number)) if last == stored => *number,
            last => {
                let (key, check) = key(&self.keys, stored);
                let (first_check, number) = *self.numbers.entry(key).or_insert((check, next));
                self.collided |= first_check != check;
                let (last, last_number) = last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(stored);
                *last_number = number;
                number
            }
        }
    }

    /// Returns the number of a stored id, if it has one.
    pub(crate) fn find(&self, stored: &[u8]) -> Option<u32> {
        let (key, check) = key(&self.keys, stored);
        self.numbers.get(&key).filter(|(first_check, _)| *first_check == check).map(|(_, number)| *number)
    }

    /// Returns whether two ids cannot be told apart.
    pub(crate) fn has_collided(&self) -> bool {
        self.collided
    }
}

fn key(keys: &[RandomState; 2], stored: &[u8]) -> (u64, u32) {
    let id = text::unquote_bytes(stored);
    (keys[0].hash_one(&*id), keys[1].hash_one(&*id) as u32)
}

/// A hasher for keys that are already hashes: it returns them unchanged.
#[derive(Default)]
struct IsHashed(u64);

impl Hasher for IsHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}
