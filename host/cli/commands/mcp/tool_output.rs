//! The result of a tool: the text of the command, and its `--json` document. A failure is also a result, with the message,
//! causes, hint and exit code.

use jp_compact_mcp::ToolAnswer;
use rmcp::model::{CallToolResult, ContentBlock};

use crate::error::Report;

/// Converts the outcome of a call to the result of the protocol.
pub(super) fn result(outcome: Result<ToolAnswer, Report>) -> CallToolResult {
    match outcome {
        Ok(ToolAnswer { text, json }) => {
            let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
            result.structured_content = json;
            result
        }
        Err(report) => {
            let text = format!("{}\nexit code: {}\n", report.text().as_str(), report.exit.code());
            let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
            result.structured_content = serde_json::to_value(report.failure(None)).ok();
            result
        }
    }
}
