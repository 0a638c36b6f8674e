//! What a tool answers: the text that the command prints, beside it what `--json` prints. A failure is an answer
//! too: the message, the causes, the hint and the exit code of the command.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use crate::error::Report;

/// What came of a call.
pub(super) struct Done {
    pub(super) text: String,
    /// None where the text is all there is.
    pub(super) json: Option<Value>,
}

/// The answer to a call.
pub(super) fn answer(done: Result<Done, Report>) -> CallToolResult {
    match done {
        Ok(Done { text, json }) => {
            let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
            result.structured_content = json;
            result
        }
        Err(report) => {
            let text = format!("{}\nexit code: {}\n", report.text().as_str(), report.code);
            let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
            result.structured_content = Some(json!({ "error": report }));
            result
        }
    }
}
