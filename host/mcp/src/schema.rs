//! Schemas of tools in the form that all clients accept: each property has one type, and a result is an object.

use serde_json::{Map, Value, json};

/// Removes `null` from the types of properties. A client leaves out an optional property, so `null` is not needed, and
/// some clients refuse two types.
pub(crate) fn with_single_types(schema: &mut Map<String, Value>) {
    for value in schema.values_mut() {
        simplify(value);
    }
}

/// Adds the list of values that a property accepts.
pub(crate) fn with_choices(schema: &mut Map<String, Value>, property: &str, choices: &[&str]) {
    let property = schema.get_mut("properties").and_then(|properties| properties.get_mut(property));
    if let Some(Value::Object(property)) = property {
        property.insert("enum".to_owned(), choices.into());
    }
}

fn simplify(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(Value::Array(types)) = members.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = &**types {
                    let only = only.clone();
                    members.insert("type".to_owned(), only);
                }
            }
            members.values_mut().for_each(simplify);
        }
        Value::Array(values) => values.iter_mut().for_each(simplify),
        _ => {}
    }
}

/// Returns the schema of a result: the document, or the failure.
pub(crate) fn result_schema(document: Value, failure: Value) -> Map<String, Value> {
    let mut definitions = Map::new();
    let mut alternatives = Vec::new();
    for mut schema in [document, failure] {
        if let Some(members) = schema.as_object_mut() {
            members.remove("$schema");
            if let Some(Value::Object(own)) = members.remove("$defs") {
                definitions.extend(own);
            }
        }
        alternatives.push(schema);
    }
    let schema = json!({ "type": "object", "anyOf": alternatives, "$defs": definitions });
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_properties_have_one_type() {
        let mut schema = json!({"properties": {"a": {"type": ["string", "null"]}, "b": {"type": "string"}}});
        with_single_types(schema.as_object_mut().unwrap());
        assert_eq!(schema["properties"], json!({"a": {"type": "string"}, "b": {"type": "string"}}));
    }

    #[test]
    fn result_is_an_object_with_all_definitions() {
        let schema =
            result_schema(json!({"$defs": {"A": {}}, "type": "object"}), json!({"$defs": {"B": {}}}));
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["$defs"], json!({"A": {}, "B": {}}));
    }
}
