//! `jp-compact lint`: checks whether a provider would accept the view of a conversation.

use std::ffi::OsString;

use clap::Parser;
use jp_compact_core::Survey;
use jp_compact_core::lint::{self, Violation};
use jp_compact_core::projection::project;
use jp_compact_core::render::{Provider, render_unrepaired};
use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{LintDocument, ViolationReport};
use jp_compact_transcripts::Transcript;

use crate::args::{FormatArgs, Providers, providers};
use crate::error::Report;
use crate::exit::Exit;
use crate::human::{counted, relative_path};
use crate::input::read_as;
use crate::lines::EscapedLines;
use crate::output;

/// The page that describes the rules. `tests/documents.rs` checks that it has every rule.
const RULES: &str = "docs/reference/lint-rules.md";

/// Check the view of a conversation against the rules of providers
///
/// Without --provider, only the rules for views are checked (G1-G5). The exit code is 3 if a rule is violated, but not
/// for a warning.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  jp-compact lint 17738399468\n  jp-compact lint events.json --provider all --json | jq .violations\n  jp-compact lint 17738399468 --provider ollama --context-window 8192"
)]
pub(crate) struct Args {
    /// A conversation folder, events.json, id, another agent's file, or -
    ///
    /// `-` reads stdin.
    transcript: OsString,
    #[command(flatten)]
    input: FormatArgs,
    /// Also check the request body against this provider's rules
    #[arg(long, value_name = "PROVIDER", value_parser = providers())]
    provider: Option<Providers>,
    /// Warn if the view has more tokens than this num_ctx of Ollama
    #[arg(long, value_name = "TOKENS", requires = "provider")]
    context_window: Option<u64>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, environment: &Environment) -> Result<Exit, Report> {
    let read = read_as(&args.transcript, args.input.format, environment)?;
    let violations = violations(args, &read.stream);
    let warnings = violations.iter().filter(|violation| violation.is_warning()).count();
    let errors = violations.len() - warnings;
    if args.json {
        let names = |providers: &Providers| providers.0.iter().map(ToString::to_string).collect();
        output::json_line(&LintDocument {
            path: read.path.to_string_lossy().into_owned(),
            conversation_id: read.id.clone(),
            providers: args.provider.as_ref().map(names),
            clean: errors == 0,
            violations: violations.iter().map(violation_report).collect(),
        })?;
    } else {
        let path = relative_path(&read.path, environment);
        let summary = match (errors, warnings) {
            (0, 0) => "clean".into(),
            (0, warnings) => format!("clean, with {}", counted(warnings, "warning")),
            (errors, 0) => counted(errors, "violation"),
            (errors, warnings) => {
                format!("{}, {}", counted(errors, "violation"), counted(warnings, "warning"))
            }
        };
        let mut text = EscapedLines::single(format_args!("{path}: {summary}"));
        text.list("  ", violations.iter().map(|violation| format!("  {violation}")));
        rule_pages(&violations).iter().for_each(|page| text.line(format_args!("  see {page}")));
        output::text(&text)?;
    }
    Ok(if errors == 0 { Exit::Done } else { Exit::Gate })
}

fn violation_report(Violation { rule, provider, turn, event, message }: &Violation) -> ViolationReport {
    ViolationReport {
        rule: rule.to_string(),
        provider: provider.map(|provider| provider.to_string()),
        turn: *turn,
        event: *event,
        message: message.clone(),
    }
}

/// Returns the page of each violated rule once, in the order of the violations.
fn rule_pages(violations: &[Violation]) -> Vec<String> {
    let mut pages = Vec::new();
    for violation in violations {
        let page = format!("{RULES}#{}", violation.rule.to_string().to_lowercase());
        if !pages.contains(&page) {
            pages.push(page);
        }
    }
    pages
}

/// Returns the violations, including warnings.
fn violations(args: &Args, stream: &Transcript) -> Vec<Violation> {
    let view = project(stream);
    let mut violations = lint::check_view(stream, stream.overlays(), &view);
    for provider in args.provider.iter().flat_map(|providers| &providers.0) {
        violations.extend(lint::check_body(*provider, &render_unrepaired(stream, &view, *provider)));
        if *provider == Provider::Ollama
            && let Some(window) = args.context_window
        {
            let tokens = Survey::new(stream).estimate.view_tokens(&view);
            violations.extend(lint::check_window(tokens, window));
        }
    }
    violations
}
