//! The error report for the approvals that `config trust` and `config untrust` read and write.

use jp_compact_engine::consent::ApprovalsError;

use crate::error::Report;
use crate::exit::Exit;

pub(super) fn approvals_report(error: ApprovalsError) -> Report {
    let mut report =
        Report::new(Exit::NotTrusted, "failed to read or write the approvals", Some(&error.hint()));
    report.causes.push(error.to_string());
    report
}
