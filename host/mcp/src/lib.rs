//! Parts of the MCP server that need no command line: the filter of its input. The tools are in the command line, because
//! they do what its commands do.
//!
//! The interface is not stable.

mod input;

pub use input::{FilteredInput, REFUSED};
