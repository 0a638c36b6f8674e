//! A strategy with options as the user types them: `NAME`, `NAME:key=value,key=value`, `NAME:{...}`, or `NAME:@FILE`.
//! The strategy's `options_schema` determines the types of values.

use std::str::FromStr;

use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub name: String,
    pub options: Options,
}

/// Options as the user typed them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Options {
    /// Keys and values as text, in order, without duplicate keys.
    Pairs(Vec<(String, String)>),
    /// A JSON object.
    Object(Map<String, Value>),
    /// The name of a file with a JSON object.
    File(String),
}

impl Options {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Pairs(pairs) => pairs.is_empty(),
            Self::Object(whole) => whole.is_empty(),
            Self::File(_) => false,
        }
    }
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, options) = match text.split_once(':') {
            None => (text, Options::Pairs(Vec::new())),
            Some((name, options)) => (name, parse_options(options)?),
        };
        if name.is_empty() {
            return Err("expected NAME or NAME:key=value,key=value".into());
        }
        Ok(Self { name: name.to_owned(), options })
    }
}

fn parse_options(text: &str) -> Result<Options, String> {
    if let Some(file) = text.strip_prefix('@') {
        return if file.is_empty() {
            Err("expected a file name after `@`".into())
        } else {
            Ok(Options::File(file.into()))
        };
    }
    if text.trim_start().starts_with('{') {
        return parse_object(text).map(Options::Object);
    }
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in split_at_commas(text) {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(format!("expected `key=value`, not `{pair}`"));
        };
        if pairs.iter().any(|(known, _)| known == key) {
            return Err(format!("option `{key}` is given twice"));
        }
        pairs.push((key.to_owned(), value.to_owned()));
    }
    Ok(Options::Pairs(pairs))
}

/// Parses options in the form of a JSON object.
///
/// # Errors
/// When it is not a JSON object, or has a duplicate key.
pub fn parse_object(text: &str) -> Result<Map<String, Value>, String> {
    /// Reads an object, and rejects duplicate keys.
    struct Unique;
    impl<'de> serde::de::Visitor<'de> for Unique {
        type Value = Map<String, Value>;
        fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            out.write_str("a JSON object of options")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
            let mut map = Map::new();
            while let Some((key, value)) = members.next_entry::<String, Value>()? {
                if map.contains_key(&key) {
                    return Err(serde::de::Error::custom(format_args!("option `{key}` is given twice")));
                }
                map.insert(key, value);
            }
            Ok(map)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let map =
        serde::Deserializer::deserialize_map(&mut deserializer, Unique).map_err(|error| error.to_string())?;
    deserializer.end().map_err(|error| error.to_string())?;
    Ok(map)
}

/// Splits a text at commas outside of quotes and brackets.
fn split_at_commas(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0usize);
    let (mut in_quotes, mut is_escaped) = (false, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_quotes => is_escaped = true,
            b'"' => in_quotes = !in_quotes,
            _ if in_quotes => {}
            b'[' | b'{' | b'(' => depth += 1,
            b']' | b'}' | b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Converts options to the types in a schema. A value is parsed as JSON unless the schema expects a string.
///
/// # Errors
/// When an option is not in the schema, or a value is not valid JSON.
pub fn parse_values(
    pairs: &[(String, String)],
    schema: Option<&Value>,
) -> Result<Map<String, Value>, String> {
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let mut options = Map::new();
    for (key, text) in pairs {
        let open_schema = schema.filter(|schema| accepts_unlisted(schema));
        let fallback = open_schema.map(|schema| schema.get("additionalProperties").unwrap_or(&Value::Null));
        let Some(property) = properties.and_then(|properties| properties.get(key)).or(fallback) else {
            return Err(unknown_option(key, properties));
        };
        let value = if is_string_only(property) {
            Value::String(text.clone())
        } else {
            serde_json::from_str(text)
                .map_err(|error| format!("option `/{key}`: expected JSON, not `{text}`: {error}"))?
        };
        options.insert(key.clone(), value);
    }
    Ok(options)
}

/// Returns whether a schema accepts options that are not in its `properties`. Unlike in JSON Schema, the default is no.
/// Otherwise a misspelled option would not be an error.
#[must_use]
pub fn accepts_unlisted(schema: &Value) -> bool {
    ["additionalProperties", "patternProperties", "unevaluatedProperties"]
        .iter()
        .any(|keyword| schema.get(*keyword).is_some_and(|value| *value != Value::Bool(false)))
}

/// Returns the message for an unknown option, with the list of known options.
#[must_use]
pub fn unknown_option(key: &str, properties: Option<&Map<String, Value>>) -> String {
    let known: Vec<_> = properties.into_iter().flat_map(Map::keys).map(|key| format!("`{key}`")).collect();
    match known.as_slice() {
        [] => format!("option `{key}` is unknown; the strategy has no options"),
        known => format!("option `{key}` is unknown; known options: {}", known.join(", ")),
    }
}

/// Returns whether a property accepts strings only.
fn is_string_only(property: &Value) -> bool {
    let alternatives = ["oneOf", "anyOf"].iter().find_map(|key| property.get(*key)).and_then(Value::as_array);
    match (property.get("type"), property.get("enum"), property.get("const"), alternatives) {
        (Some(Value::String(kind)), ..) => kind == "string",
        (Some(_), ..) => false,
        (None, Some(Value::Array(values)), ..) => values.iter().all(Value::is_string),
        (None, None, Some(value), _) => value.is_string(),
        (None, None, None, Some(alternatives)) => alternatives.iter().all(is_string_only),
        _ => false,
    }
}
