//! JSON Schemas of tagged enums that accept unknown tags.
//!
//! Serde's `other` accepts every unknown tag, but schemars would publish a variant with the tag `unknown`.

use schemars::Schema;
use serde_json::{Value, json};

pub(crate) fn by_type(schema: &mut Schema) {
    open(schema, "type");
}

pub(crate) fn by_kind(schema: &mut Schema) {
    open(schema, "kind");
}

/// Changes the branch `unknown` to accept each tag that no other branch has.
fn open(schema: &mut Schema, tag: &str) {
    let Some(branches) = schema.get_mut("oneOf").and_then(Value::as_array_mut) else { return };
    let pointer = format!("/properties/{tag}/const");
    let is_unknown = |branch: &Value| branch.pointer(&pointer).is_some_and(|name| name == "unknown");
    let known: Vec<Value> = branches
        .iter()
        .filter(|branch| !is_unknown(branch))
        .filter_map(|branch| branch.pointer(&pointer).cloned())
        .collect();
    for branch in branches.iter_mut().filter(|branch| is_unknown(branch)) {
        branch["properties"][tag] = json!({"type": "string", "not": {"enum": known}});
    }
}
