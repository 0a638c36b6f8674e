//! The tool of each call id. JP names a response after the last request with its id, also if that request comes later.
//! Ids are held as digests with random keys, so that memory does not grow with their length. An equal digest of two ids
//! is less likely than a failure of the memory.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use jp_compact_core::event::{Event, Kind};
use jp_compact_core::text;

/// The tool of an id that has only responses.
const UNKNOWN: u32 = 0;

/// The maximum size of the names.
const NAME_BYTES_MAX: usize = 4 << 20;

pub(crate) struct ToolNames {
    keys: [RandomState; 2],
    /// The number of each id.
    ids: HashMap<u64, (u32, u32), BuildHasherDefault<IsHashed>>,
    /// The tool of each id.
    tools: Vec<u32>,
    names: Vec<String>,
    /// The number of each name, by its stored bytes.
    by_name: HashMap<Box<[u8]>, u32>,
    name_bytes: usize,
    /// The stored id of the last event, and its number.
    last: (Vec<u8>, u32),
    /// Whether two ids have the same key.
    collided: bool,
}

impl Default for ToolNames {
    fn default() -> Self {
        Self {
            keys: Default::default(),
            ids: HashMap::default(),
            tools: Vec::new(),
            names: vec!["unknown".to_owned()],
            by_name: HashMap::new(),
            name_bytes: 0,
            last: (Vec::new(), 0),
            collided: false,
        }
    }
}

impl ToolNames {
    /// Adds the id of a half of a call, and the tool of a request. Returns the number of the id.
    pub(crate) fn add(&mut self, event: &Event, bytes: &[u8]) -> u32 {
        let stored = event.id.slice(bytes);
        // A response nearly always comes directly after its request.
        if self.last.0 != stored {
            let (key, check) = self.key(stored);
            let next = self.tools.len() as u32;
            let (first_check, number) = *self.ids.entry(key).or_insert((check, next));
            self.collided |= first_check != check;
            if number == next {
                self.tools.push(UNKNOWN);
            }
            self.last.0.clear();
            self.last.0.extend_from_slice(stored);
            self.last.1 = number;
        }
        let id = self.last.1;
        if event.kind == Kind::ToolRequest {
            self.tools[id as usize] = self.name(event.name.slice(bytes));
        }
        id
    }

    /// Sets the tool of a request's id, if the id was added.
    pub(crate) fn set(&mut self, event: &Event, bytes: &[u8]) {
        if let Some(id) = self.find(event, bytes) {
            self.tools[id as usize] = self.name(event.name.slice(bytes));
        }
    }

    /// Returns the number of the id of a half of a call.
    pub(crate) fn find(&self, event: &Event, bytes: &[u8]) -> Option<u32> {
        let (key, check) = self.key(event.id.slice(bytes));
        self.ids.get(&key).filter(|(first_check, _)| *first_check == check).map(|(_, number)| *number)
    }

    fn key(&self, stored: &[u8]) -> (u64, u32) {
        let id = text::unquote_bytes(stored);
        (self.keys[0].hash_one(&*id), self.keys[1].hash_one(&*id) as u32)
    }

    fn name(&mut self, stored: &[u8]) -> u32 {
        if let Some(number) = self.by_name.get(stored) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(text::unquote(stored).into_owned());
        self.by_name.insert(stored.into(), number);
        self.name_bytes += 2 * stored.len() + 96;
        number
    }

    /// Returns the number of different tools, including `unknown`.
    pub(crate) fn tools(&self) -> usize {
        self.names.len()
    }

    /// Returns the number of the tool of an id.
    pub(crate) fn tool_of(&self, id: u32) -> usize {
        self.tools.get(id as usize).map_or(0, |tool| *tool as usize)
    }

    pub(crate) fn name_of(&self, tool: usize) -> &str {
        &self.names[tool]
    }

    /// Returns whether two ids cannot be told apart.
    pub(crate) fn has_collided(&self) -> bool {
        self.collided
    }

    /// Returns whether there are more than `ids` ids, or too many names.
    pub(crate) fn is_full(&self, ids: usize) -> bool {
        self.tools.len() > ids || self.name_bytes > NAME_BYTES_MAX
    }
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
