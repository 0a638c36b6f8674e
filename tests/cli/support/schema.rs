//! JSON Schemas that reject members which they do not name. The published schemas accept unknown members, because later
//! versions may add some.

use serde_json::Value;

/// Makes a schema reject every member that it does not list.
pub(crate) fn close_schema(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.values_mut().for_each(close_schema);
            if members.contains_key("properties") && !members.contains_key("additionalProperties") {
                members.insert("unevaluatedProperties".to_owned(), false.into());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close_schema),
        _ => {}
    }
}
