//! End-to-end tests of the `jp-compact` executable, with real files and real strategies in an isolated environment.
//! They check output, exit codes, and files. Core has unit tests of the rules.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests may panic, start processes, and print which checks they skip"
)]

mod agent_formats;
mod agent_profile;
mod aimock;
mod authors;
mod auto;
mod bad_input;
mod bounds;
mod cache_cost;
mod collapse;
mod compact;
mod completions;
mod config;
mod consent;
mod consent_sources;
mod constraints;
mod conversation_config;
mod diff;
mod digest;
mod doctor;
mod errors;
mod eval;
mod extract;
mod fork;
mod goldens;
mod guard;
mod help;
mod hints;
mod hook;
mod images;
mod information;
mod interrupt;
mod j_cli;
mod jp_handshake;
mod jp_interop;
mod jp_plugin;
mod json_documents;
mod json_log;
mod large_transcripts;
mod lint;
mod llm;
mod long_life;
mod lost_paths;
mod mcp;
mod mcp_boundary;
mod mcp_client;
mod mcp_client_loop;
mod mcp_sessions;
mod micro;
mod model_requests;
mod newest_wins;
mod options;
mod output_escaping;
mod output_limits;
mod page;
mod print;
mod profiles;
mod query;
mod real_jp;
mod replies;
mod reset;
mod resolve;
mod rfd_064;
mod sdks;
mod second_writer;
mod selections;
mod session_folders;
mod session_fork;
mod shared_overlays;
mod show;
mod sidecars;
mod signed_thinking;
mod small_files;
mod spool;
mod stats;
mod step_summaries;
mod steps;
mod store;
mod strategies;
mod summarize;
mod support;
mod token_counts;
mod trim;
mod verbose;
mod windows;
mod workspaces;
