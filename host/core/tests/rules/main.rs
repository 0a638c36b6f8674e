//! The rules of the core, each as data: an input, and what must come of it. JP's golden cases are in
//! `goldens.rs`.
#![expect(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

mod append;
mod arrival;
mod auto;
mod bad_input;
mod bounds;
mod build;
mod estimate;
mod fork;
mod grammar;
mod halves;
mod history;
mod inline;
mod jp_view;
mod lint;
mod overlap;
mod pairs;
mod properties;
mod record;
mod render;
mod replies;
mod report;
mod request;
mod rfd_064;
mod select;
mod source;
mod spec;
mod spoken;
mod validate;
