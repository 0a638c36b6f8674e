//! JSON Schemas of tagged enums that accept unknown tags.
//!
//! Serde's `other` accepts every unknown tag, but schemars would publish a variant with the tag `unknown`.

use schemars::Schema;
use serde_json::{Value, json};

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
