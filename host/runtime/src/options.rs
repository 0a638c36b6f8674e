//! Strategy options from the command line, the configuration, or a file. They are validated against
//! `options_schema`, and defaults are filled in.

use jp_compact_core::spec::{self, Options};
use jp_compact_schema::Description;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

use crate::environment::Environment;
use crate::small_file;

/// The option for the topic that the strategy should preserve.
pub const FOCUS: &str = "focus";

/// Resolves the options of a request.
///
/// # Errors
/// The file cannot be read, or an option is unknown or invalid. The error names the option.
pub fn resolve(
    options: &Options,
    description: &Description,
    environment: &Environment,
) -> Result<Map<String, Value>, String> {
    let schema = description.options_schema.as_ref();
    let mut resolved = match options {
        Options::Pairs(pairs) => spec::parse_values(pairs, schema)?,
        Options::Object(whole) => whole.clone(),
        Options::File(file) => {
            let path = environment.cwd.join(file);
            let text = small_file::read_named(&path, small_file::CONFIGURATION)
                .and_then(small_file::text)
                .map_err(|error| format!("failed to read {}: {error}", path.display()))?;
            spec::parse_object(&text).map_err(|error| format!("{}: {error}", path.display()))?
        }
    };
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let accepts_unlisted = schema.is_some_and(spec::accepts_unlisted);
    let is_known = |key: &str| properties.is_some_and(|properties| properties.contains_key(key));
    if let Some(key) = resolved.keys().find(|key| !accepts_unlisted && !is_known(key)) {
        return Err(spec::unknown_option(key, properties));
    }
    for (name, default) in defaults(description) {
        resolved.entry(name).or_insert(default);
    }
    if let Some(schema) = schema {
        check(schema, &resolved)?;
    }
    Ok(resolved)
}

/// Sets the option `focus` if the strategy has one.
///
/// # Errors
/// The option does not accept this text.
pub fn focus(options: &mut Map<String, Value>, description: &Description, text: &str) -> Result<(), String> {
    let schema = description.options_schema.as_ref();
    match schema
        .filter(|schema| schema.get("properties").and_then(|properties| properties.get(FOCUS)).is_some())
    {
        None => Ok(()),
        Some(schema) => {
            options.insert(FOCUS.to_owned(), text.into());
            check(schema, options)
        }
    }
}

/// Returns whether the default options of a strategy are valid.
#[must_use]
pub fn takes_defaults(description: &Description) -> bool {
    description.options_schema.as_ref().is_none_or(|schema| check(schema, &defaults(description)).is_ok())
}

/// Returns the default options of a strategy.
#[must_use]
pub fn defaults(description: &Description) -> Map<String, Value> {
    let schema = description.options_schema.as_ref();
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let default =
        |(name, property): (&String, &Value)| Some((name.clone(), property.get("default")?.clone()));
    properties.into_iter().flatten().filter_map(default).collect()
}

fn check(schema: &Value, options: &Map<String, Value>) -> Result<(), String> {
    let validator = jsonschema::validator_for(schema)
        .map_err(|error| format!("the strategy's `options_schema` is not a valid JSON Schema: {error}"))?;
    let options = Value::Object(options.clone());
    validator.validate(&options).map_err(|error| {
        let reason = match error.kind() {
            // Lists all values, because the user must choose one.
            ValidationErrorKind::Enum { options } => {
                let values: Vec<_> = options.as_array().into_iter().flatten().map(Value::to_string).collect();
                format!("{} is not one of {}", error.instance(), values.join(", "))
            }
            _ => error.to_string(),
        };
        match error.instance_path().to_string().as_str() {
            "" => reason,
            pointer => format!("option `{pointer}`: {reason}"),
        }
    })
}
