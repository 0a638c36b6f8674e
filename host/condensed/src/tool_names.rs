//! The tool of each call id. JP names a response after the last request with its id, also if that request comes later.

use std::collections::HashMap;

use jp_compact_core::event::{Event, Kind};
use jp_compact_core::text;

use crate::id_numbers::IdNumbers;

/// The tool of an id that has only responses.
const UNKNOWN: u32 = 0;

/// The maximum size of the names.
const NAME_BYTES_MAX: usize = 4 << 20;

pub(crate) struct ToolNames {
    ids: IdNumbers,
    /// The tool of each id.
    tools: Vec<u32>,
    names: Vec<String>,
    /// The number of each name, by its stored bytes.
    by_name: HashMap<Box<[u8]>, u32>,
    name_bytes: usize,
}

impl Default for ToolNames {
    fn default() -> Self {
        Self {
            ids: IdNumbers::default(),
            tools: Vec::new(),
            names: vec!["unknown".to_owned()],
            by_name: HashMap::new(),
            name_bytes: 0,
        }
    }
}

impl ToolNames {
    /// Adds the id of a half of a call, and the tool of a request. Returns the number of the id.
    pub(crate) fn add(&mut self, event: &Event, bytes: &[u8]) -> u32 {
        let next = self.tools.len() as u32;
        let id = self.ids.number(event.id.slice(bytes), next);
        if id == next {
            self.tools.push(UNKNOWN);
        }
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
        self.ids.find(event.id.slice(bytes))
    }

    /// Adds the stored name of a tool. Returns its number.
    pub(crate) fn name(&mut self, stored: &[u8]) -> u32 {
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
        self.ids.has_collided()
    }

    /// Returns whether there are more than `ids` ids, or too many names.
    pub(crate) fn is_full(&self, ids: usize) -> bool {
        self.tools.len() > ids || self.name_bytes > NAME_BYTES_MAX
    }
}
