//! The options of a strategy: as typed, or from a file, checked against the strategy's `options_schema`, with
//! its defaults filled in.

use std::fs;

use jp_compact_core::spec::{self, Options};
use jp_compact_schema::Description;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

use crate::environment::Environment;

/// What the options of a request are.
///
/// # Errors
/// A fragment that names the option, and what was expected.
pub fn resolve(
    options: &Options,
    description: &Description,
    environment: &Environment,
) -> Result<Map<String, Value>, String> {
    let schema = description.options_schema.as_ref();
    let mut resolved = match options {
        Options::Pairs(pairs) => spec::typed(pairs, schema)?,
        Options::Whole(whole) => whole.clone(),
        Options::File(file) => {
            let path = environment.cwd.join(file);
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("failed to read {}: {error}", path.display()))?;
            spec::whole(&text).map_err(|error| format!("{}: {error}", path.display()))?
        }
    };
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let stranger =
        resolved.keys().find(|key| !properties.is_some_and(|properties| properties.contains_key(*key)));
    if let Some(key) = stranger {
        return Err(spec::unknown(key, properties));
    }
    let given = !resolved.is_empty();
    for (name, property) in properties.into_iter().flatten() {
        if let Some(default) = property.get("default")
            && !resolved.contains_key(name)
        {
            resolved.insert(name.clone(), default.clone());
        }
    }
    // Without an option typed there is nothing that a user could mend.
    if let Some(schema) = schema.filter(|_| given) {
        check(schema, &resolved)?;
    }
    Ok(resolved)
}

fn check(schema: &Value, options: &Map<String, Value>) -> Result<(), String> {
    let validator = jsonschema::validator_for(schema)
        .map_err(|error| format!("the strategy's `options_schema` is no JSON Schema: {error}"))?;
    let options = Value::Object(options.clone());
    validator.validate(&options).map_err(|error| {
        let what = match error.kind() {
            // All of them: the user has to choose one.
            ValidationErrorKind::Enum { options } => {
                let values: Vec<_> = options.as_array().into_iter().flatten().map(Value::to_string).collect();
                format!("{} is not one of {}", error.instance(), values.join(", "))
            }
            _ => error.to_string(),
        };
        match error.instance_path().to_string().trim_start_matches('/') {
            "" => what,
            option => format!("option `{option}`: {what}"),
        }
    })
}
