//! The error report of the approvals file.

use jp_compact_engine::consent::RecordError;

use crate::error::Report;
use crate::exit::Exit;

pub(super) fn failed(error: RecordError) -> Report {
    let mut report =
        Report::new(Exit::NotTrusted, "failed to read or write the approvals", Some(&error.hint()));
    report.causes.push(error.to_string());
    report
}
