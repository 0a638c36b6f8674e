//! `jp-compact config untrust`: withdraws the approval of a folder, even if the folder no longer exists.

use std::path::PathBuf;

use clap::Parser;
use jp_compact_config as config;
use jp_compact_engine::consent::Approvals;
use jp_compact_runtime::environment::{Environment, real_path};
use jp_compact_schema::document::ConfigUntrustReport;
use serde_json::json;

use super::approvals::approvals_report;
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::EscapedLines;
use crate::output;

/// Withdraw the approval of a folder
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The folder, or a folder in its workspace
    #[arg(value_name = "DIR", default_value = ".")]
    path: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let approvals = Approvals::open(environment);
    let folder = environment.cwd.join(&args.path);
    let mut withdrawn = approvals.withdraw(&folder).map_err(approvals_report)?;
    if !withdrawn {
        // The folder may be inside an approved workspace.
        let in_folder = Environment { cwd: real_path(&folder), ..environment.clone() };
        if let Some(root) = config::scope(&in_folder, None).root() {
            withdrawn = approvals.withdraw(root).map_err(approvals_report)?;
        }
    }
    let document = ConfigUntrustReport { path: folder.to_string_lossy().into_owned(), withdrawn };
    if args.json {
        output::json_line(&document)?;
        return Ok(Exit::Done);
    }
    let folder = folder.display();
    let text = if withdrawn {
        EscapedLines::single(format_args!("withdrew the approval of {folder}"))
    } else {
        EscapedLines::single(format_args!("{folder} has no approval"))
    };
    output::info("withdrew an approval", &json!({ "report": document }), &text);
    Ok(Exit::Done)
}
