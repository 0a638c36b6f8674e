//! JP's own `conversation.compaction.rules`: an array (or `{ value = [...] }`, as JP stores it) of inline forms or of
//! tables `{ keep_first, keep_last, reasoning, tool_calls, summary }`. Each rule is a separate compaction with its own
//! turns. By default, JP keeps the first and the last turn (docs/reference/store.md#bounds-in-jps-rules).

use jiff::SignedDuration;
use jp_compact_core::call::{self, Call};
use jp_compact_core::select::{Keep, KeepLast, Selection};
use jp_compact_core::{Bound, inline};
use serde_json::{Map, Value};

use crate::config::{Profile, RULES};

/// The turns that JP keeps by default.
const KEPT: Selection = Selection {
    from: Some(Bound::turn(1)),
    to: Some(Bound::FromEnd(1)),
    keep_last: KeepLast { turns: None, steps: None, tokens: None },
    keep: Keep::DEFAULT,
};

/// Converts rules to a profile. Returns `None` if there are none.
///
/// # Errors
/// The first rule that is not supported.
pub(super) fn profile(rules: &Value) -> Result<Option<Profile>, String> {
    let rules = match rules {
        Value::Null => return Ok(None),
        Value::Object(merged) => merged.get("value").unwrap_or(rules),
        other => other,
    };
    let rules = rules.as_array().ok_or("expected an array")?;
    let mut calls = Vec::new();
    for (place, rule) in rules.iter().enumerate() {
        let of_rule = match rule {
            Value::String(text) => inline::parse(text),
            Value::Object(table) => of_table(table),
            _ => Err("expected a table, or a text such as `s:..-3`".into()),
        };
        let of_rule = of_rule.map_err(|what| format!("rule {}: {what}", place + 1))?;
        calls.extend(of_rule.into_iter().map(|call| Call { range: call.range.or(Some(KEPT)), ..call }));
    }
    let profile = |calls| Profile {
        name: RULES.to_owned(),
        calls,
        keep_last: KeepLast::default(),
        keep_first: None,
        trigger_ratio: None,
    };
    Ok((!calls.is_empty()).then(|| profile(calls)))
}

fn of_table(table: &Map<String, Value>) -> Result<Vec<Call>, String> {
    let mut range = KEPT;
    let (mut reasoning, mut tools, mut summary) = (false, None, None);
    for (key, value) in table {
        match (key.as_str(), value) {
            (_, Value::Null) => {}
            ("keep_first", kept) => range.from = Some(end(kept, End::First)?),
            ("keep_last", kept) => range.to = Some(end(kept, End::Last)?),
            ("reasoning", Value::String(word)) if word == "strip" => reasoning = true,
            ("tool_calls", Value::String(word)) => tools = Some(word.parse()?),
            ("summary", Value::Object(of_summary)) => summary = Some(self::summary(of_summary)),
            ("reasoning" | "tool_calls" | "summary", other) => return Err(format!("`{key}` is {other}")),
            _ => return Err(format!("`{key}` is unknown")),
        }
    }
    let calls = call::of_policies(reasoning, tools, summary);
    if calls.is_empty() {
        return Err("it has no `reasoning`, `tool_calls` or `summary`".into());
    }
    Ok(calls.into_iter().map(|call| call.over(range)).collect())
}

/// The end of the conversation that a bound keeps.
#[derive(Clone, Copy)]
enum End {
    First,
    Last,
}

/// Parses a bound as JP does. A number may be a string, as JP writes it.
fn end(kept: &Value, end: End) -> Result<Bound, String> {
    let text = match kept {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_u64() => number.to_string(),
        other => return Err(format!("expected a number of turns or a text such as \"5h\", not `{other}`")),
    };
    if text.eq_ignore_ascii_case("last-compaction") || text.eq_ignore_ascii_case("last") {
        return Ok(match end {
            End::First => Bound::AfterLast,
            // It sets no bound.
            End::Last => Bound::FromEnd(0),
        });
    }
    if let Some(turn) = text.strip_prefix('@') {
        let turn: usize = turn.parse().map_err(|_| format!("`{text}` is not a turn"))?;
        let turn = turn.checked_sub(1).ok_or("turns are counted from 1 here, so turn `@0` does not exist")?;
        return Ok(Bound::turn(turn));
    }
    if let Some(turns) = text.strip_prefix('-') {
        return turns.parse().map(Bound::FromEnd).map_err(|_| format!("`{text}` is not a number of turns"));
    }
    if let Ok(turns) = text.parse() {
        return Ok(match end {
            End::First => Bound::turn(turns),
            End::Last => Bound::FromEnd(turns),
        });
    }
    let time = humantime::parse_duration(&text).ok().and_then(|time| SignedDuration::try_from(time).ok());
    let time = time.ok_or_else(|| {
        format!(
            "expected a number of turns, a turn (`@2`), turns from the end (`-3`), a time such as `5h` or \
             `last-compaction`, not `{text}`"
        )
    })?;
    Ok(match end {
        End::First => Bound::WithinFirst(time),
        End::Last => Bound::Ago(time),
    })
}

fn summary(of_summary: &Map<String, Value>) -> Call {
    let model = of_summary.get("model").and_then(|model| {
        let (provider, name) = super::parts(model.get("id").unwrap_or(model))?;
        Some(format!("{}/{}", provider?, name?))
    });
    Call::summary(model.as_deref(), of_summary.get("instructions").and_then(Value::as_str))
}
