//! Formatting of a ledger as Markdown for a model. Quoted text cannot close its fence. Omissions are counted in the text.

use std::fmt::Write as _;

use jp_compact_strategy::schema::Range;
use jp_compact_strategy::text::shorten;

use crate::file_op::FileOp;
use crate::ledger::{Action, CommandRuns, FileHistory, Ledger};
use crate::status::CallStatus;

/// The limits for each list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListLimits {
    /// The limit of requests and earlier summaries together, in eighths of the digest's limit. `None` for no limit.
    quoted_eighths: Option<usize>,
    last_chars: usize,
    files: usize,
    commands: usize,
    errors: usize,
}

/// The limits to try, the largest first. The last one lists no file, command, or error, so a digest of any range fits.
pub(crate) const LIMITS: [ListLimits; 6] = [
    ListLimits { quoted_eighths: None, last_chars: 16_000, files: 1_000, commands: 300, errors: 50 },
    ListLimits { quoted_eighths: None, last_chars: 8_000, files: 500, commands: 100, errors: 20 },
    ListLimits { quoted_eighths: Some(4), last_chars: 4_000, files: 300, commands: 50, errors: 10 },
    ListLimits { quoted_eighths: Some(4), last_chars: 2_000, files: 100, commands: 20, errors: 5 },
    ListLimits { quoted_eighths: Some(4), last_chars: 500, files: 20, commands: 10, errors: 2 },
    ListLimits { quoted_eighths: Some(2), last_chars: 100, files: 0, commands: 0, errors: 0 },
];
/// The limits for a list of facts, the largest first.
pub(crate) const FACT_LIMITS: [ListLimits; 6] = [
    ListLimits { quoted_eighths: None, last_chars: 0, files: 200, commands: 100, errors: 10 },
    ListLimits { quoted_eighths: None, last_chars: 0, files: 80, commands: 40, errors: 5 },
    ListLimits { quoted_eighths: None, last_chars: 0, files: 40, commands: 20, errors: 3 },
    ListLimits { quoted_eighths: None, last_chars: 0, files: 20, commands: 10, errors: 2 },
    ListLimits { quoted_eighths: None, last_chars: 0, files: 10, commands: 5, errors: 1 },
    ListLimits { quoted_eighths: None, last_chars: 0, files: 0, commands: 0, errors: 0 },
];
/// A message of the user is quoted up to this number of characters, because longer messages contain pasted text.
const REQUEST_CHARS_MAX: usize = 2_000;
/// The length of older messages if the digest would exceed its limit.
const OLD_REQUEST_CHARS_MAX: usize = 200;
/// An earlier summary is quoted up to this number of characters.
const SUMMARY_CHARS_MAX: usize = 16_000;
const COMMAND_CHARS_MAX: usize = 300;
const ERROR_CHARS_MAX: usize = 1_000;
const PATH_CHARS_MAX: usize = 300;

/// Returns the summary text. `bytes_max` is the limit of the digest.
pub(crate) fn render(range: Range, ledger: &Ledger, limits: ListLimits, bytes_max: usize) -> String {
    let mut out = origin(range);
    let lists = [&ledger.requests, &ledger.summaries].iter().filter(|list| !list.is_empty()).count();
    let quoted = |eighths: usize| bytes_max * eighths / 8 / lists.max(1);
    let bytes = limits.quoted_eighths.map_or(usize::MAX, quoted);
    let requests = QuoteLimits { chars: REQUEST_CHARS_MAX, old_chars: OLD_REQUEST_CHARS_MAX, bytes };
    texts(&mut out, "What the user asked", ["message", "messages"], &ledger.requests, requests);
    let chars = SUMMARY_CHARS_MAX.min(bytes / 2);
    let summaries = QuoteLimits { chars, old_chars: chars / 4, bytes };
    texts(&mut out, "Earlier summaries", ["summary", "summaries"], &ledger.summaries, summaries);
    attachments(&mut out, ledger, limits);
    files(&mut out, ledger, limits);
    commands(&mut out, ledger, limits);
    errors(&mut out, ledger, limits);
    if let Some(last) = &ledger.last {
        out.push_str("\n## What the assistant said last\n\n");
        quote(&mut out, &shorten(last, limits.last_chars));
    }
    out
}

/// Returns only the files, the commands, and the open errors, for use next to another summary.
pub(crate) fn render_facts(range: Range, ledger: &Ledger, limits: ListLimits) -> String {
    let mut out = origin(range);
    errors(&mut out, ledger, limits);
    files(&mut out, ledger, limits);
    commands(&mut out, ledger, limits);
    out
}

fn origin(range: Range) -> String {
    let range = range.to_string();
    let (initial, rest) = range.split_at(1);
    format!(
        "{}{rest} of this conversation, as listed by a program from its events. No model wrote this.\n",
        initial.to_ascii_uppercase()
    )
}

/// The limits of a list of quoted texts.
struct QuoteLimits {
    /// The maximum length of a text, in characters. It applies to the newest texts, in three quarters of `bytes`.
    chars: usize,
    /// The maximum length of the other texts. The oldest ones are only counted.
    old_chars: usize,
    /// The maximum size of the list.
    bytes: usize,
}

fn texts(
    out: &mut String,
    title: &str,
    [one, many]: [&str; 2],
    texts: &[(usize, String)],
    limits: QuoteLimits,
) {
    if texts.is_empty() {
        return;
    }
    let quoted = |(turn, text): &(usize, String), chars_max: usize| {
        let mut quoted = format!("\nTurn {turn}:\n");
        quote(&mut quoted, &shorten(text, chars_max));
        quoted
    };
    let (mut shown, mut bytes, mut shortens) = (Vec::new(), 0, false);
    for (age, text) in texts.iter().rev().enumerate() {
        let (mut next, mut chars) = (quoted(text, limits.chars), limits.chars);
        // The newest text is always quoted, and is whole if it fits.
        while age == 0 && next.len() > limits.bytes && chars > 0 {
            chars = chars / 4 * 3;
            next = quoted(text, chars);
        }
        shortens = shortens || (age > 0 && bytes + next.len() > limits.bytes / 4 * 3);
        if shortens {
            next = quoted(text, limits.old_chars);
        }
        bytes += next.len();
        if bytes > limits.bytes {
            break;
        }
        shown.push(next);
    }
    let _ = write!(out, "\n## {title}\n");
    left_out(out, texts.len() - shown.len(), one, many);
    shown.iter().rev().for_each(|text| out.push_str(text));
}

fn attachments(out: &mut String, ledger: &Ledger, limits: ListLimits) {
    let attached = ledger.attachments.in_order();
    if attached.is_empty() {
        return;
    }
    out.push_str("\n## Attachments\n\n");
    let shown = latest(&attached, limits.files);
    for (name, turn) in shown {
        let _ = writeln!(out, "- {}: in turn {turn}", code(name, PATH_CHARS_MAX));
    }
    left_out(out, attached.len() - shown.len(), "attachment", "attachments");
}

fn files(out: &mut String, ledger: &Ledger, limits: ListLimits) {
    let files = ledger.files.in_order();
    let shown = latest(&files, limits.files);
    for (title, ops) in [
        ("Files written", &[FileOp::Created, FileOp::Modified][..]),
        ("Files deleted", &[FileOp::Deleted]),
        ("Files read", &[FileOp::Read]),
    ] {
        let files = shown.iter().filter(|(_, file)| ops.contains(&file.changed.unwrap_or(file.last).0));
        let lines: Vec<String> = files.map(|(path, file)| line(path, file)).collect();
        if !lines.is_empty() {
            let _ = write!(out, "\n## {title}\n\n{}", lines.concat());
        }
    }
    left_out(out, files.len() - shown.len(), "file", "files");
}

fn line(path: &str, file: &FileHistory) -> String {
    let (op, turn) = file.last;
    let last = match op {
        FileOp::Read => "read",
        FileOp::Created => "created",
        FileOp::Modified => "modified",
        FileOp::Deleted => "deleted",
    };
    let changed = file.changed.filter(|changed| *changed != file.last);
    let changed = changed.map_or(String::new(), |(_, turn)| format!("changed in turn {turn}, "));
    format!("- {}: {changed}{last} in turn {turn}\n", code(path, PATH_CHARS_MAX))
}

fn commands(out: &mut String, ledger: &Ledger, limits: ListLimits) {
    let commands = ledger.commands.in_order();
    if commands.is_empty() {
        return;
    }
    out.push_str("\n## Commands\n\n");
    let shown = latest(&commands, limits.commands);
    for (line, CommandRuns { turn, times, status }) in shown {
        let ended = status.map_or("no answer".into(), ended);
        let runs = if *times > 1 { format!(", the last of {times} runs") } else { String::new() };
        let _ = writeln!(out, "- {}: {ended} in turn {turn}{runs}", code(line, COMMAND_CHARS_MAX));
    }
    left_out(out, commands.len() - shown.len(), "command", "commands");
}

fn errors(out: &mut String, ledger: &Ledger, limits: ListLimits) {
    let errors = ledger.errors.in_order();
    if errors.is_empty() {
        return;
    }
    out.push_str("\n## Errors still open\n");
    let shown = latest(&errors, limits.errors);
    for (action, open) in shown {
        let description = match action {
            Action::Read(path) => format!("reading {}", code(path, PATH_CHARS_MAX)),
            Action::Write(path) => format!("writing {}", code(path, PATH_CHARS_MAX)),
            Action::Command(line) | Action::Other(line) => code(line, COMMAND_CHARS_MAX),
        };
        let _ = write!(out, "\n{description}, {} in turn {}:\n", ended(open.status), open.turn);
        quote(out, &shorten(open.text.trim_end(), ERROR_CHARS_MAX));
    }
    left_out(out, errors.len() - shown.len(), "error", "errors");
}

fn latest<T>(all: &[T], count: usize) -> &[T] {
    &all[all.len().saturating_sub(count)..]
}

fn left_out(out: &mut String, count: usize, one: &str, many: &str) {
    if count > 0 {
        let _ = write!(out, "\n{count} earlier {} left out.\n", if count == 1 { one } else { many });
    }
}

fn ended(status: CallStatus) -> String {
    match status {
        CallStatus::Exit(code) => format!("exit {code}"),
        CallStatus::Done => "done".into(),
        CallStatus::Failed => "failed".into(),
    }
}

/// Returns the length of the longest run of backticks.
fn ticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// Quotes an untrusted text in a fence that the text does not contain.
fn quote(out: &mut String, text: &str) {
    let fence = "`".repeat((ticks(text) + 1).max(3));
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _ = write!(out, "{fence}\n{text}{end}{fence}\n");
}

/// Quotes an untrusted text on one line.
fn code(text: &str, chars_max: usize) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let line = line.join(" ");
    let cut = match line.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{} [...]", &line[..end]),
        None => line,
    };
    let tick = "`".repeat(ticks(&cut) + 1);
    let blank = if cut.starts_with('`') || cut.ends_with('`') { " " } else { "" };
    format!("{tick}{blank}{cut}{blank}{tick}")
}
