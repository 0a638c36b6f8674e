//! The evaluation of strategies: each strategy compacts prefixes of transcripts, and the rest of a transcript shows
//! which texts the view should have kept. This crate writes nothing to disk, and never prints.
//!
//! The interface is not stable.

mod automatic;
mod cuts;
mod gates;
mod options;
mod outcome;
pub mod page;
mod page_data;
mod replay;
mod report;
mod rounds;
mod run;
mod subject;
mod transcript;
mod typed_row;

pub use gates::{EvalGates, RecallGate, is_fixed_control, recall_of};
pub use options::{
    DEFAULT_THRESHOLD, DEFAULT_WINDOW, DescribeError, EvalOptions, MakeRuns, ROUNDS, RowKind, RowSpec,
    prepare_run,
};
pub use page::{Evaluation, PageCut, PageEvent, PageRow};
pub use run::{EvalRequest, OpenTranscript, evaluate, evaluate_opened};
pub use typed_row::TypedRow;
