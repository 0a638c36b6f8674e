//! The inline form of JP's `--compact=SPEC`: `POLICIES[:RANGE]`, such as `s:..-3`, `r+t`, or `t=sreq:5..-3`. The form
//! counts turns from 1, like the strings of JP's `rules`. The parsed result counts from 0, as everywhere else. Steps
//! (`t:5.2..`) are our extension, and are counted from 0 in the form, too.

use crate::call::{self, Call, ToolsMode};
use jp_compact_core::Bound;
use jp_compact_core::position::Position;
use jp_compact_core::select::Selection;

/// Parses an inline form. Without a range, its calls use the range of the run.
///
/// # Errors
/// The text is not an inline form.
pub fn parse(text: &str) -> Result<Vec<Call>, String> {
    let (policies, turns) = match text.split_once(':') {
        Some((policies, turns)) => (policies, Some(parse_range(turns.trim())?)),
        None => (text, None),
    };
    let (mut reasoning, mut tools, mut summary) = (false, None, None);
    for policy in policies.split('+').map(str::trim) {
        let (name, mode) = match policy.split_once('=') {
            Some((name, mode)) => (name.trim(), Some(mode.trim())),
            None => (policy, None),
        };
        match (name, mode) {
            ("r" | "reasoning", None) => reasoning = true,
            ("s" | "summarize", None) => summary = Some(Call::summary(None, None)),
            ("t" | "tools", None) => tools = Some(ToolsMode::Strip),
            ("t" | "tools", Some(mode)) => tools = Some(mode.parse()?),
            ("r" | "reasoning" | "s" | "summarize", Some(_)) => {
                return Err(format!("`{name}` takes no value: `{policy}`"));
            }
            _ => {
                return Err(format!(
                    "expected `r` (reasoning), `t` or `t=MODE` (tools) or `s` (summarize), joined by `+`, not \
                     `{policy}`"
                ));
            }
        }
    }
    let calls = call::calls_for_policies(reasoning, tools, summary);
    Ok(match turns {
        Some(turns) => calls.into_iter().map(|call| call.with_range(turns)).collect(),
        None => calls,
    })
}

/// Parses `FROM..TO`, both inclusive. Without `FROM` or `TO`, the range begins or ends with the conversation. A single
/// number is `FROM`, or `TO` if it is negative.
fn parse_range(text: &str) -> Result<Selection, String> {
    const START: Bound = Bound::turn(0);
    const END: Bound = Bound::FromEnd(0);
    let (from, to) = match text.split_once("..") {
        Some((from, to)) => (parse_bound(from)?.unwrap_or(START), parse_bound(to)?.unwrap_or(END)),
        None => match parse_bound(text)? {
            Some(to @ Bound::FromEnd(_)) => (START, to),
            Some(from) => (from, END),
            None => return Err("expected turns after `:`, such as `..-3`".into()),
        },
    };
    Ok(Selection { from: Some(from), to: Some(to), ..Selection::default() })
}

fn parse_bound(text: &str) -> Result<Option<Bound>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let number = |digits: &str| -> Result<usize, String> {
        let digits = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
            format!(
                "expected a turn (`5`, counted from 1), a step (`5.2`), or turns from the end (`-3`), not `{text}`"
            )
        })
    };
    if let Some(turns) = text.strip_prefix('-') {
        return Ok(Some(Bound::FromEnd(number(turns)?)));
    }
    let (turn, step) = match text.split_once('.') {
        Some((turn, step)) => (turn, Some(number(step)?)),
        None => (text, None),
    };
    match number(turn)?.checked_sub(1) {
        Some(turn) => Ok(Some(Bound::At(Position { turn, step }))),
        None => Err("turn `0` does not exist: in the inline form, turns are counted from 1".into()),
    }
}
