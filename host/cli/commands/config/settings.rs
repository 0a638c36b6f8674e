//! The change of the settings of one conversation, and its report. `config set` and `config unset` share it.

use std::ffi::OsString;

use jp_compact_config::{ChangedSettings, SettingsChange, Source, change_settings};
use jp_compact_engine::compact;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::trust::quoted;
use jp_compact_schema::document::ConfigSettingsReport;
use serde_json::json;

use crate::error::Report;
use crate::exit::Exit;
use crate::lines::EscapedLines;
use crate::output;

/// Changes the settings of a conversation, and reports the result.
pub(super) fn change(
    conversation: &OsString,
    change: SettingsChange<'_>,
    as_json: bool,
    environment: &Environment,
) -> Result<Exit, Report> {
    let opened = compact::open(conversation, environment)?;
    let changed = change_settings(environment, &opened.place, &opened.stream, change)?;
    let files: Vec<String> = changed.files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
    let document = ConfigSettingsReport { files, settings: changed.settings.clone() };
    if as_json {
        output::json_line(&document)?;
        return Ok(Exit::Done);
    }
    let text = text(&changed);
    output::info("settings changed", &json!({ "report": document }), &text);
    Ok(Exit::Done)
}

fn text(changed: &ChangedSettings) -> EscapedLines {
    let verb = if changed.settings.is_empty() { "removed" } else { "wrote" };
    let mut text = EscapedLines::new();
    for file in &changed.files {
        text.line(format_args!("{verb} {}", file.display()));
    }
    let foreign = changed.config.foreign(|_| true);
    let of_conversation = foreign.iter().find(|value| matches!(value.origin.source, Source::Conversation(_)));
    if let Some(target) = of_conversation.and_then(|value| changed.config.scope().shown_with(&value.origin)) {
        text.line(format_args!(
            "note: with these settings, a model is asked only after `jp-compact config trust {}`",
            quoted(&target)
        ));
    }
    text
}
