//! One layer, parsed into values by key, each with its line. Each layer is checked completely before layers are merged,
//! because the position of an error is not known after that. Pure functions.

use jp_compact_schema::Hint;
use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::checks;
use super::file::{File, ToolCompaction};
use super::origin::{ConfigError, Origin, Source};

/// The keys that lead to a value.
pub(super) type KeyPath = Vec<String>;

/// A value with its key and its origin.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leaf {
    pub(super) path: KeyPath,
    pub(super) value: toml::Value,
    pub(super) origin: Origin,
}

/// Parses a layer.
///
/// # Errors
/// The layer is invalid. The first error is returned, with its position.
pub(super) fn parse(source: &Source, text: &str) -> Result<Vec<Leaf>, ConfigError> {
    let toml_error = |error: toml::de::Error| match error.span() {
        Some(span) => ConfigError::new(source, error.message()).with_position(text, span.start),
        None => ConfigError::new(source, error.message()),
    };
    let table = DeTable::parse(text).map_err(toml_error)?;
    if let Some((offset, error)) = checks::check(table.get_ref(), source) {
        return Err(error.with_position(text, offset));
    }
    // The built-in defaults are valid, and are decoded when layers are merged.
    if *source != Source::BuiltIn {
        toml::from_str::<File>(text).map_err(toml_error)?;
    }
    let mut leaves = Vec::new();
    // Line ends are searched once, because a file in a cloned repository may have tens of thousands of values.
    let line_ends: Vec<usize> = text.match_indices('\n').map(|(end, _)| end).collect();
    walk(table.get_ref(), &mut Vec::new(), &mut |path, value| {
        let line = line_ends.partition_point(|&end| end < value.span().start) + 1;
        let is_file = !matches!(source, Source::Set(_) | Source::BuiltIn);
        let origin = Origin { source: source.clone(), line: is_file.then_some(line) };
        leaves.extend(normalize(path, value, &origin));
    });
    Ok(leaves)
}

/// Parses `--set key=value`. The value is TOML, or otherwise a string.
///
/// # Errors
/// The text has no `=`.
pub(super) fn from_pair(pair: &str) -> Result<(Source, String), ConfigError> {
    let source = Source::Set(pair.to_owned());
    let Some((key, value)) = pair.split_once('=') else {
        return Err(ConfigError::new(
            &source,
            "expected `key=value`, such as `conversation.compaction.keep_last=5`",
        ));
    };
    let value = match DeValue::parse(value) {
        Ok(_) => value.to_owned(),
        Err(_) => toml::Value::String(value.to_owned()).to_string(),
    };
    Ok((source, format!("{key} = {value}")))
}

/// Parses a dotted key, such as `conversation.compaction.keep_last`. Returns `None` if it is not a key.
pub(super) fn parse_key(key: &str) -> Option<KeyPath> {
    let mut table = toml::from_str::<toml::Table>(&format!("{key} = 0")).ok()?;
    let mut path = KeyPath::new();
    loop {
        let mut entries = std::mem::take(&mut table).into_iter();
        let (Some((key, value)), None) = (entries.next(), entries.next()) else { return None };
        path.push(key);
        match value {
            toml::Value::Table(inner) => table = inner,
            _ => return Some(path),
        }
    }
}

/// Calls `visit` for each value that is merged as a whole. An empty table is such a value, because it defines something:
/// a summary without options, or a provider with its built-in settings.
fn walk(table: &DeTable<'_>, path: &mut KeyPath, visit: &mut impl FnMut(&KeyPath, &Spanned<DeValue<'_>>)) {
    for (key, value) in table {
        path.push(key.get_ref().to_string());
        match value.get_ref() {
            DeValue::Table(inner) if !inner.is_empty() && !is_merged_as_whole(path) => {
                walk(inner, path, visit);
            }
            _ => visit(path, value),
        }
        path.pop();
    }
}

/// Returns whether a table replaces the table of an earlier layer as a whole.
fn is_merged_as_whole(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(path.as_slice(), ["conversation", "compaction", "profiles", _, "tool_calls"])
}

/// Converts a value to the form that is merged. A tool hint of one word becomes the keys `request` and `response`.
fn normalize(path: &KeyPath, value: &Spanned<DeValue<'_>>, origin: &Origin) -> Vec<Leaf> {
    let deserializer = || ValueDeserializer::from(value.clone());
    let leaf = |path: KeyPath, value| Leaf { path, value, origin: origin.clone() };
    let is_hint = path.len() == 4 && path[..2] == ["conversation", "tools"] && path[3] == "compaction";
    if is_hint && let Ok(ToolCompaction(tool_hint)) = ToolCompaction::deserialize(deserializer()) {
        let mut leaves = Vec::new();
        for (key, hint) in [("request", tool_hint.request), ("response", tool_hint.response)] {
            let Some(hint) = hint else { continue };
            let text = if hint == Hint::Keep { "keep" } else { "strip" };
            leaves.push(leaf([path, &[key.to_owned()][..]].concat(), text.into()));
        }
        return leaves;
    }
    toml::Value::deserialize(deserializer()).map(|value| leaf(path.clone(), value)).into_iter().collect()
}
