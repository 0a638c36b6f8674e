//! The outline: each event's envelope and no bodies, in columns. Types only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Columns of one length, a row an event, in the order of `seq`; beside them two tables and two lists.
/// Unknown columns are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outline {
    /// Table: the event types that occur.
    pub types: Vec<String>,
    /// Table: the tools that occur.
    pub tools: Vec<String>,
    /// Column: the event's number in the stream.
    pub seq: Vec<u64>,
    /// Column: its turn.
    pub turn: Vec<usize>,
    /// Column: its type, an index of `types`.
    pub r#type: Vec<usize>,
    /// Column: its tool, an index of `tools`; null for what is no tool event.
    pub tool: Vec<Option<usize>>,
    /// Column: the `seq` of the other half of its call; null where there is none.
    pub pair: Vec<Option<u64>>,
    /// Column: the bytes of its text, decoded; of arguments, those of all keys and values.
    pub bytes: Vec<u64>,
    /// Column: its size in tokens.
    pub tokens: Vec<u64>,
    /// List: the `seq` of each response that is an error.
    pub error: Vec<u64>,
    /// List: the `seq` of each event that the view no longer shows as it is: left out, emptied, replaced, or
    /// under a summary.
    #[serde(default)]
    pub hidden: Vec<u64>,
}

impl Outline {
    /// How many events it holds, if the columns are of one length.
    #[must_use]
    pub fn rows(&self) -> Option<usize> {
        let rows = self.seq.len();
        let columns = [
            self.turn.len(),
            self.r#type.len(),
            self.tool.len(),
            self.pair.len(),
            self.bytes.len(),
            self.tokens.len(),
        ];
        columns.iter().all(|&column| column == rows).then_some(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_only_when_every_column_has_them() {
        let mut outline = Outline::default();
        assert_eq!(outline.rows(), Some(0));
        outline.seq.push(4);
        assert_eq!(outline.rows(), None);
    }
}
