//! The `jp-compact` executable, end to end: real files, real strategies, an environment of its own. Rules are
//! tested in core; here is what a person or a script meets.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test may panic, starts what people start, and says what it could not see"
)]

mod aimock;
mod auto;
mod bad_input;
mod bounds;
mod collapse;
mod compact;
mod config;
mod consent;
mod consent_sources;
mod digest;
mod doctor;
mod door;
mod errors;
mod flood;
mod foreign;
mod forge;
mod fork;
mod goldens;
mod guard;
mod hints;
mod interrupt;
mod j_cli;
mod lint;
mod listing;
mod live;
mod llm;
mod mcp;
mod mcp_client;
mod mcp_fence;
mod micro;
mod options;
mod print;
mod profiles;
mod query;
mod real_jp;
mod replies;
mod reset;
mod resolve;
mod rfd_064;
mod sdks;
mod sent;
mod show;
mod small_files;
mod spool;
mod stats;
mod store;
mod strategies;
mod summarize;
mod support;
mod unasked;
mod with_jp;
mod workspaces;
