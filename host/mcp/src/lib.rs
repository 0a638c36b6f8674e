//! Parts of the MCP server that need no command line: the filter of its input, the tools with their arguments and
//! schemas, pages, and the search. The calls of the tools are in the command line, because they share code with its
//! commands.
//!
//! The interface is not stable.
#![expect(missing_docs, reason = "the interface is not stable, so only unclear names need a comment")]

mod arguments;
mod catalog;
mod documents;
mod input;
mod page;
mod recall;
mod schema;
mod search;
mod strategy_choice;
mod takes_effect;

pub use arguments::{
    CompactArguments, ExpandArguments, ForkArguments, InspectArguments, ListArguments, PrintArguments,
    ResetArguments, SearchArguments,
};
pub use catalog::{INSTRUCTIONS, ToolDescription, ToolEffect, tool_names, tools};
pub use documents::{CompactAnswer, FoundEvent, SearchAnswer, TextPage};
pub use input::{FilteredInput, REFUSED};
pub use page::{Page, page};
pub use recall::{
    ReadTranscript, ToolAnswer, changes, expand, find_text, page_of, session_path, sessions_of,
};
pub use search::{event_text, search};
pub use strategy_choice::ClientChoice;
pub use takes_effect::takes_effect;
