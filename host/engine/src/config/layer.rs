//! Parses one layer into values by key, each with its line. Errors are detected here, because the line is
//! known here. Pure functions.

use jp_compact_schema::Hint;
use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::checks;
use super::file::{File, ToolCompaction};
use super::origin::{ConfigError, Origin, Source};

/// The keys that lead to a value.
pub(super) type Path = Vec<String>;

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leaf {
    pub(super) path: Path,
    pub(super) value: toml::Value,
    pub(super) origin: Origin,
}

/// Parses a layer.
///
/// # Errors
/// The first error with its position.
pub(super) fn read(source: &Source, text: &str) -> Result<Vec<Leaf>, ConfigError> {
    let toml_error = |error: toml::de::Error| match error.span() {
        Some(span) => ConfigError::at(source, text, span.start, error.message()),
        None => ConfigError::new(source, error.message()),
    };
    let table = DeTable::parse(text).map_err(toml_error)?;
    if let Some((offset, mut wrong)) = checks::check(table.get_ref(), source) {
        wrong.at = ConfigError::at(source, text, offset, "").at;
        return Err(wrong);
    }
    toml::from_str::<File>(text).map_err(toml_error)?;
    let mut leaves = Vec::new();
    // Computed once, because a file in a cloned repository may have tens of thousands of values.
    let ends: Vec<usize> = text.match_indices('\n').map(|(end, _)| end).collect();
    walk(table.get_ref(), &mut Vec::new(), &mut |path, value| {
        let line = ends.partition_point(|&end| end < value.span().start) + 1;
        let is_file = !matches!(source, Source::Set(_) | Source::BuiltIn);
        let origin = Origin { source: source.clone(), line: is_file.then_some(line) };
        leaves.extend(normalized(path, value, &origin));
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

fn walk(table: &DeTable<'_>, path: &mut Path, leaf: &mut impl FnMut(&Path, &Spanned<DeValue<'_>>)) {
    for (key, value) in table {
        path.push(key.get_ref().to_string());
        match value.get_ref() {
            DeValue::Table(inner) if !is_replaced_whole(path) => walk(inner, path, leaf),
            _ => leaf(path, value),
        }
        path.pop();
    }
}

/// Returns whether a table is replaced as a whole and not merged key by key.
fn is_replaced_whole(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(path.as_slice(), ["conversation", "compaction", "profiles", _, "tool_calls"])
}

/// Normalizes a value for merging. The one-word hint of a tool becomes its two halves.
fn normalized(path: &Path, value: &Spanned<DeValue<'_>>, origin: &Origin) -> Vec<Leaf> {
    let whole = || ValueDeserializer::from(value.clone());
    let leaf = |path: Path, value| Leaf { path, value, origin: origin.clone() };
    let is_hint = path.len() == 4 && path[..2] == ["conversation", "tools"] && path[3] == "compaction";
    if is_hint && let Ok(ToolCompaction(hint)) = ToolCompaction::deserialize(whole()) {
        let word = |half| if half == Hint::Keep { "keep" } else { "strip" };
        let halves = [("request", hint.request), ("response", hint.response)];
        let halves = halves.into_iter().filter_map(|(key, half)| Some((key, half?)));
        return halves
            .map(|(key, half)| leaf([path, &[key.to_owned()][..]].concat(), word(half).into()))
            .collect();
    }
    toml::Value::deserialize(whole()).map(|value| leaf(path.clone(), value)).into_iter().collect()
}
