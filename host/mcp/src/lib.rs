//! Parts of the MCP server that need no command line: the filter of its input, the arguments of tools, pages, the
//! search, and schemas. The tools themselves are in the command line, because they call its commands.
//!
//! The interface is not stable.
#![expect(missing_docs, reason = "the interface is not stable, so only unclear names need a comment")]

mod arguments;
mod input;
mod page;
mod recall;
mod schema;
mod search;

pub use arguments::{
    CompactArguments, ExpandArguments, InspectArguments, ListArguments, PrintArguments, ResetArguments,
    SearchArguments,
};
pub use input::{FilteredInput, REFUSED};
pub use page::{Page, page};
pub use recall::{ToolAnswer, changes, expand, find_text, page_of, session_path, sessions_of};
pub use schema::{result_schema, with_choices, with_single_types};
pub use search::{EventMatch, event_text, search};
