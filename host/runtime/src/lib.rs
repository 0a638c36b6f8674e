//! The plugin host as a framework: a program that is not `jp-compact` can embed it. It returns values and never prints.
//! It must not know transcripts, configuration files, or models.
//!
#![doc = include_str!("../README.md")]
//! ```no_run
#![doc = include_str!("../examples/embed.rs")]
//! ```

pub mod allowed_root;
pub mod clock;
pub mod describe_cache;
pub mod digest;
pub mod environment;
pub mod jail;
pub mod options;
pub mod private_file;
pub mod process;
pub mod registry;
pub mod session;
pub mod small_file;
pub mod trust;
