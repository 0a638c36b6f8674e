//! `jp-compact config untrust`: withdraws the approval of a folder, even if the folder no longer exists.

use std::path::PathBuf;

use clap::Parser;
use jp_compact_config as config;
use jp_compact_engine::consent::Approvals;
use jp_compact_runtime::environment::{Environment, real_path};
use jp_compact_schema::document::ConfigUntrustReport;
use jp_compact_store as store;
use serde_json::json;

use super::approvals::approvals_report;
use crate::error::Report;
use crate::exit::Exit;
use crate::lines::EscapedLines;
use crate::output;

/// Withdraw the approval of a folder
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The folder, a folder in its workspace, or a conversation
    #[arg(value_name = "DIR", default_value = ".")]
    path: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let approvals = Approvals::open(environment);
    let folder = environment.cwd.join(&args.path);
    // The path may also be a conversation, or inside an approved workspace.
    let place = store::locate(args.path.as_os_str(), environment).ok();
    let in_folder = Environment { cwd: real_path(&folder), ..environment.clone() };
    let scopes = [config::scope(environment, place.as_ref()), config::scope(&in_folder, None)];
    let candidates = [Some(&*folder), scopes[0].approval_folder(), scopes[1].root()];
    let (mut folder, mut withdrawn) = (&*folder, false);
    for candidate in candidates.into_iter().flatten() {
        if approvals.withdraw(candidate).map_err(approvals_report)? {
            (folder, withdrawn) = (candidate, true);
            break;
        }
    }
    let folder = real_path(folder);
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
