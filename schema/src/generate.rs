//! The parts of the JSON Schemas that the derives of `schemars` cannot express.
//!
//! Only the feature `generate` compiles them, for the test that compares the published schemas with the types.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::name::{NAME_BYTES_MAX, NAME_PATTERN, StrategyName};

impl JsonSchema for StrategyName {
    fn schema_name() -> Cow<'static, str> {
        "StrategyName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The name of a strategy: lower-case words joined by single hyphens.",
            "type": "string",
            "pattern": NAME_PATTERN,
            "maxLength": NAME_BYTES_MAX,
        })
    }
}

pub(crate) fn transcript(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["array", "object", "string"] })
}

pub(crate) fn transcript_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["array", "object", "string", "null"] })
}

/// Requires exactly one of `transcript` and `path`.
pub(crate) fn one_source(schema: &mut Schema) {
    let requires = |present: &str, absent: &str| {
        json_schema!({
            "required": [present],
            "properties": { present: { "not": { "type": "null" } }, absent: { "type": "null" } },
        })
    };
    let branches = [requires("transcript", "path"), requires("path", "transcript")].map(Value::from);
    schema.insert("oneOf".into(), Value::from(branches.to_vec()));
}

pub(crate) fn accept_unknown_types(schema: &mut Schema) {
    accept_unknown(schema, "type");
}

pub(crate) fn accept_unknown_kinds(schema: &mut Schema) {
    accept_unknown(schema, "kind");
}

/// Changes the branch `unknown` to accept each tag that no other branch has.
fn accept_unknown(schema: &mut Schema, tag: &str) {
    let Some(branches) = schema.get_mut("oneOf").and_then(Value::as_array_mut) else { return };
    let pointer = format!("/properties/{tag}/const");
    let is_unknown = |branch: &Value| branch.pointer(&pointer).is_some_and(|value| value == "unknown");
    let known_tags: Vec<Value> = branches
        .iter()
        .filter(|branch| !is_unknown(branch))
        .filter_map(|branch| branch.pointer(&pointer).cloned())
        .collect();
    for branch in branches.iter_mut().filter(|branch| is_unknown(branch)) {
        branch["properties"][tag] = json!({"type": "string", "not": {"enum": known_tags}});
    }
}
