//! Many transcripts in one run: found, shared out over threads, reported as they come. Returns values, never prints,
//! and holds no more of a transcript that is done than where its line is.

mod gates;
mod junit;
mod known;
mod one;
mod out;
mod report;
mod run;
mod shard;
mod tell;
mod walk;

pub use gates::{Gate, Gates, Scope, Tally, saved_percent};
pub use junit::{Suite, write as write_junit};
pub use known::Known;
pub use out::Out;
pub use report::{Lines, Written};
pub use run::{Ended, How, Told, Work, run};
pub use shard::Shard;
pub use tell::fault;
pub use walk::{Fault, Files};
