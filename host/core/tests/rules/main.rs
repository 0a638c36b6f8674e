//! The rules of the core as data: an input and its expected result. JP's golden cases are in `goldens.rs`.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod append;
mod auto;
mod bad_input;
mod bounds;
mod build;
mod estimate;
mod fork;
mod grammar;
mod halves;
mod history;
mod incremental_index;
mod jp_view;
mod lint;
mod overlap;
mod pairs;
mod position;
mod properties;
mod render;
mod replies;
mod report;
mod request;
mod rfd_064;
mod select;
mod shared_overlays;
mod shown;
mod source;
mod spec;
mod step_overlays;
mod step_selection;
mod step_summaries;
mod steps;
mod texts;
mod validate;
