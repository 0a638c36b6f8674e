//! Compaction of many transcripts in one run. This module finds them, distributes them over threads, and
//! reports each when it is finished. It never prints. It keeps only the position of the report line of a
//! finished transcript in memory.

mod context;
mod entry;
mod gates;
mod junit;
mod out;
mod previous_report;
mod report;
mod run;
mod shard;
mod transcript;
mod unsynced;
mod walk;

pub use context::{BatchConfig, Describe};
pub use entry::failed_search_entry;
pub use gates::{Gate, GateScope, Gates, Tally};
pub use junit::{Suite, write as write_junit};
pub use out::ViewFolder;
pub use previous_report::PreviousReport;
pub use report::{ReportLines, ReportSummary};
pub use run::{BatchEnd, BatchError, BatchEvent, run};
pub use shard::Shard;
pub use walk::{Fault, FoundFiles};
