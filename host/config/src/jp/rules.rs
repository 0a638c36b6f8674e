//! JP's own `conversation.compaction.rules`: an array of inline forms or of tables `{ keep_first, keep_last, reasoning,
//! tool_calls, summary }`. JP stores the array as `{ value = [...] }`. Each rule is a separate compaction with its own
//! turns. By default, JP keeps the first and the last turn (docs/reference/store.md#bounds-in-jps-rules).

use crate::call::{self, Call};
use crate::inline;
use jiff::SignedDuration;
use jp_compact_core::Bound;
use jp_compact_core::select::{Keep, KeepLast, Selection};
use serde_json::{Map, Value};

use crate::{Profile, RULES_PROFILE};

/// The turns that a rule compacts by default: all except the first and the last.
const DEFAULT_RANGE: Selection = Selection {
    from: Some(Bound::turn(1)),
    to: Some(Bound::FromEnd(1)),
    keep_last: KeepLast { turns: None, steps: None, tokens: None },
    keep: Keep::DEFAULT,
};

/// Converts rules to a profile. Returns `None` if there are no rules.
///
/// # Errors
/// A rule is not supported. Only the first such rule is reported.
pub(super) fn to_profile(rules: &Value) -> Result<Option<Profile>, String> {
    let rules = match rules {
        Value::Null => return Ok(None),
        Value::Object(table) => table.get("value").unwrap_or(rules),
        value => value,
    };
    let rules = rules.as_array().ok_or("expected an array")?;
    let mut calls = Vec::new();
    for (number, rule) in (1..).zip(rules) {
        let rule_calls = match rule {
            Value::String(text) => inline::parse(text),
            Value::Object(table) => parse_table(table),
            _ => Err("expected a table, or a text such as `s:..-3`".into()),
        };
        for call in rule_calls.map_err(|reason| format!("rule {number}: {reason}"))? {
            calls.push(Call { range: call.range.or(Some(DEFAULT_RANGE)), ..call });
        }
    }
    if calls.is_empty() {
        return Ok(None);
    }
    Ok(Some(Profile {
        name: RULES_PROFILE.to_owned(),
        calls,
        keep_last: KeepLast::default(),
        keep_first: None,
        trigger_ratio: None,
    }))
}

fn parse_table(table: &Map<String, Value>) -> Result<Vec<Call>, String> {
    let mut range = DEFAULT_RANGE;
    let (mut strips_reasoning, mut tools_mode, mut summary) = (false, None, None);
    for (key, value) in table {
        match (key.as_str(), value) {
            (_, Value::Null) => {}
            ("keep_first", bound) => range.from = Some(parse_bound(bound, Side::First)?),
            ("keep_last", bound) => range.to = Some(parse_bound(bound, Side::Last)?),
            ("reasoning", Value::String(policy)) if policy == "strip" => strips_reasoning = true,
            ("tool_calls", Value::String(policy)) => tools_mode = Some(policy.parse()?),
            ("summary", Value::Object(table)) => summary = Some(parse_summary(table)),
            ("reasoning" | "tool_calls" | "summary", value) => return Err(format!("`{key}` is {value}")),
            _ => return Err(format!("`{key}` is unknown")),
        }
    }
    let calls = call::calls_for_policies(strips_reasoning, tools_mode, summary);
    if calls.is_empty() {
        return Err("it has no `reasoning`, `tool_calls` or `summary`".into());
    }
    Ok(calls.into_iter().map(|call| call.with_range(range)).collect())
}

/// The side of the conversation that a bound keeps.
#[derive(Clone, Copy)]
enum Side {
    First,
    Last,
}

/// Parses a bound as JP does. JP also writes numbers as strings.
fn parse_bound(value: &Value, side: Side) -> Result<Bound, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_u64() => number.to_string(),
        _ => return Err(format!("expected a number of turns or a text such as \"5h\", not `{value}`")),
    };
    if text.eq_ignore_ascii_case("last-compaction") || text.eq_ignore_ascii_case("last") {
        return Ok(match side {
            Side::First => Bound::AfterLast,
            // JP keeps no turn on this side.
            Side::Last => Bound::FromEnd(0),
        });
    }
    if let Some(turn) = text.strip_prefix('@') {
        let turn: usize = turn.parse().map_err(|_| format!("`{text}` is not a turn"))?;
        let turn =
            turn.checked_sub(1).ok_or("turn `@0` does not exist: after `@`, turns are counted from 1")?;
        return Ok(Bound::turn(turn));
    }
    if let Some(turns) = text.strip_prefix('-') {
        return turns.parse().map(Bound::FromEnd).map_err(|_| format!("`{text}` is not a number of turns"));
    }
    if let Ok(turns) = text.parse() {
        return Ok(match side {
            Side::First => Bound::turn(turns),
            Side::Last => Bound::FromEnd(turns),
        });
    }
    let duration = humantime::parse_duration(&text).ok();
    let duration = duration.and_then(|duration| SignedDuration::try_from(duration).ok()).ok_or_else(|| {
        format!(
            "expected a number of turns, a turn (`@2`), turns from the end (`-3`), a time such as `5h` or \
             `last-compaction`, not `{text}`"
        )
    })?;
    Ok(match side {
        Side::First => Bound::WithinFirst(duration),
        Side::Last => Bound::Ago(duration),
    })
}

fn parse_summary(table: &Map<String, Value>) -> Call {
    let model = table.get("model").and_then(|model| {
        let (provider, name) = super::provider_and_name(model.get("id").unwrap_or(model))?;
        Some(format!("{}/{}", provider?, name?))
    });
    Call::summary(model.as_deref(), table.get("instructions").and_then(Value::as_str))
}
