//! A strategy and its options as people type them: `NAME`, `NAME:key=value,key=value`, `NAME:{...}`,
//! `NAME:@FILE`. What a value means depends on what the strategy's `options_schema` wants.

use std::str::FromStr;

use serde_json::{Map, Value};

/// A strategy as it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Its name; or a path, once there are such.
    pub name: String,
    /// Its options.
    pub options: Options,
}

/// Options as they were typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Options {
    /// Key and value as text, in order; no key twice.
    Pairs(Vec<(String, String)>),
    /// All at once.
    Whole(Map<String, Value>),
    /// All at once, in the file of this name.
    File(String),
}

impl Options {
    /// Whether nothing was typed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Pairs(pairs) => pairs.is_empty(),
            Self::Whole(whole) => whole.is_empty(),
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
            Err("`@` without a file".into())
        } else {
            Ok(Options::File(file.into()))
        };
    }
    if text.trim_start().starts_with('{') {
        return whole(text).map(Options::Whole);
    }
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in split(text) {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(format!("expected `key=value`, not `{pair}`"));
        };
        if pairs.iter().any(|(other, _)| other == key) {
            return Err(format!("option `{key}` is given twice"));
        }
        pairs.push((key.to_owned(), value.to_owned()));
    }
    Ok(Options::Pairs(pairs))
}

/// Reads options that are given all at once.
///
/// # Errors
/// When it is no JSON object, or a key stands in it twice.
pub fn whole(text: &str) -> Result<Map<String, Value>, String> {
    /// An object that refuses a key's second coming.
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

/// Cuts at commas that stand outside quotes and brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0usize);
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' | b'(' => depth += 1,
            b']' | b'}' | b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// What typed options mean under a schema: a value is JSON where the schema wants something other than a
/// string, else text.
///
/// # Errors
/// An option that the schema does not know, or a value that is no JSON where it must be.
pub fn typed(pairs: &[(String, String)], schema: Option<&Value>) -> Result<Map<String, Value>, String> {
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let mut options = Map::new();
    for (key, text) in pairs {
        let others = schema.filter(|schema| takes_others(schema));
        let other = others.map(|schema| schema.get("additionalProperties").unwrap_or(&Value::Null));
        let Some(property) = properties.and_then(|properties| properties.get(key)).or(other) else {
            return Err(unknown(key, properties));
        };
        let value = if wants_text(property) {
            Value::String(text.clone())
        } else {
            serde_json::from_str(text)
                .map_err(|error| format!("option `/{key}`: expected JSON, not `{text}`: {error}"))?
        };
        options.insert(key.clone(), value);
    }
    Ok(options)
}

/// Whether a schema speaks of options that its `properties` do not name. One that says nothing of others has none: a
/// misspelt option must not count as left out.
#[must_use]
pub fn takes_others(schema: &Value) -> bool {
    ["additionalProperties", "patternProperties", "unevaluatedProperties"]
        .iter()
        .any(|word| schema.get(*word).is_some_and(|others| *others != Value::Bool(false)))
}

/// Says which options there are.
#[must_use]
pub fn unknown(key: &str, properties: Option<&Map<String, Value>>) -> String {
    let known: Vec<_> = properties.into_iter().flat_map(Map::keys).map(|key| format!("`{key}`")).collect();
    match known.as_slice() {
        [] => format!("option `{key}` is unknown; the strategy has no options"),
        known => format!("option `{key}` is unknown; the strategy knows {}", known.join(", ")),
    }
}

/// Whether a property takes a string and nothing else.
fn wants_text(property: &Value) -> bool {
    let alternatives = ["oneOf", "anyOf"].iter().find_map(|key| property.get(*key)).and_then(Value::as_array);
    match (property.get("type"), property.get("enum"), property.get("const"), alternatives) {
        (Some(Value::String(kind)), ..) => kind == "string",
        (Some(_), ..) => false,
        (None, Some(Value::Array(values)), ..) => values.iter().all(Value::is_string),
        (None, None, Some(value), _) => value.is_string(),
        (None, None, None, Some(alternatives)) => alternatives.iter().all(wants_text),
        _ => false,
    }
}
