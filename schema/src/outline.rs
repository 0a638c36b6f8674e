//! The outline: the envelopes of all events in columns, without their bodies.

use serde::{Deserialize, Serialize};

/// The envelopes of the events. The columns have the same length, with one row per event, in the order of `seq`. There
/// are also two tables and two lists. Strategies ignore unknown members.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "generate", derive(schemars::JsonSchema))]
pub struct Outline {
    /// Table: the event types that occur.
    pub types: Vec<String>,
    /// Table: the tools that occur.
    pub tools: Vec<String>,
    /// Column: the event's number in the stream.
    pub seq: Vec<u64>,
    /// Column: the event's turn.
    pub turn: Vec<usize>,
    /// Column: the event's type, as an index of `types`.
    pub r#type: Vec<usize>,
    /// Column: the event's tool, as an index of `tools`. Null for other events.
    pub tool: Vec<Option<usize>>,
    /// Column: the `seq` of the other half of the tool call. Null if there is none.
    pub pair: Vec<Option<u64>>,
    /// Column: the size of the event's decoded text, in bytes. For arguments, the size of all keys and values.
    pub bytes: Vec<u64>,
    /// Column: the event's size in tokens.
    pub tokens: Vec<u64>,
    /// List: the `seq` of each failed tool response.
    pub error: Vec<u64>,
    /// List: the `seq` of each event that the view does not show unchanged: it is omitted, stripped, replaced, or
    /// covered by a summary.
    #[serde(default)]
    pub hidden: Vec<u64>,
    /// Column: the event's step within its turn. Null for events of the user, which belong to no step. Present only with
    /// the feature `steps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Vec<Option<usize>>>,
}

impl Outline {
    /// Returns the number of events, or `None` if the columns differ in length.
    #[must_use]
    pub fn rows(&self) -> Option<usize> {
        let rows = self.seq.len();
        let column_lengths = [
            self.turn.len(),
            self.r#type.len(),
            self.tool.len(),
            self.pair.len(),
            self.bytes.len(),
            self.tokens.len(),
        ];
        let steps_fit = self.step.as_ref().is_none_or(|steps| steps.len() == rows);
        let columns_fit = column_lengths.iter().all(|&length| length == rows);
        (steps_fit && columns_fit).then_some(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_requires_columns_of_equal_length() {
        let mut outline = Outline::default();
        assert_eq!(outline.rows(), Some(0));
        outline.seq.push(4);
        assert_eq!(outline.rows(), None);
    }
}
