//! The configuration, formatted as an equivalent TOML file or as JSON.

use jp_compact_schema::document::{CallReport, ConfigReport, ProfileReport};
use serde_json::{Map, Value, json};

use super::layer::parse_key;
use super::{
    AGENT_PROFILE, Config, DEFAULT_NAME, DEFAULT_PROFILE, Error, Origin, Profile, Source, compaction_key,
};

/// Returns whether a terminal shows every character of a text.
type IsShown<'a> = &'a dyn Fn(&str) -> bool;

impl Config {
    /// Formats the configuration as an equivalent file. With `explain`, a comment after each value names its origin.
    /// Settings from JP's files are written as comments, because a configuration file has no keys for them. A value or
    /// key for which `is_shown` returns false is written with escapes.
    #[must_use]
    pub fn to_toml(&self, explain: bool, is_shown: IsShown<'_>) -> String {
        // The table, the key, and the line of each value.
        let mut rows: Vec<(&[String], &String, String)> = Vec::new();
        let is_for_agent = self.merged.iter().any(|(path, value, _)| self.differs_for_agent(path, value));
        for (path, value, origin) in self.merged.iter() {
            let Some((name, table)) = path.split_last() else { continue };
            // If JP's rules are the default profile, the formatted file must not set `default_profile`. Otherwise, it
            // would override the rules when it is read.
            if *path == DEFAULT_PROFILE && value.as_str() != Some(&self.default_profile) {
                continue;
            }
            if is_for_agent && self.is_replaced_for_agent(path, value, origin) {
                continue;
            }
            // A comment is one line, but the text of a `--set` may have several.
            let origin = origin.to_string().replace(char::is_control, " ");
            let comment = if explain { format!("  # {origin}") } else { String::new() };
            rows.push((table, name, row_text(name, value, is_shown) + &comment + "\n"));
        }
        // In TOML, the keys of a table must precede its subtables.
        rows.sort_by_key(|&(table, name, _)| (table, name));
        let (mut text, mut current_table): (String, Option<&[String]>) = (String::new(), None);
        for (table, _, row) in rows {
            if current_table != Some(table) {
                let separator = if current_table.is_some() { "\n" } else { "" };
                text += separator;
                if !table.is_empty() {
                    let path: Vec<_> = table.iter().map(|name| key_text(name, is_shown)).collect();
                    text += &format!("[{}]\n", path.join("."));
                }
                current_table = Some(table);
            }
            text += &row;
        }
        if self.default_profile == AGENT_PROFILE && self.merged.is_built_in(&DEFAULT_PROFILE) {
            text += &format!("\n# the default profile for this transcript is `{AGENT_PROFILE}`");
        }
        for line in self.jp_settings() {
            text += &format!("\n# {line}");
        }
        text.trim_end().to_owned() + "\n"
    }

    /// Returns whether [`Config::for_agent_transcript`] replaced this value.
    fn differs_for_agent(&self, path: &[String], value: &toml::Value) -> bool {
        if *path == DEFAULT_PROFILE {
            self.default_profile == AGENT_PROFILE && value.as_str() != Some(AGENT_PROFILE)
        } else if *path == compaction_key(&["auto", "profile"]) {
            value.as_str() != Some(&self.auto.profile)
        } else {
            *path == compaction_key(&["auto", "min_turns"])
                && value.as_integer() != i64::try_from(self.auto.min_turns).ok()
        }
    }

    /// Returns whether the formatted file must not set a value. [`Config::for_agent_transcript`] replaces only
    /// built-in values, and does nothing if a layer defines the profile `default`.
    fn is_replaced_for_agent(&self, path: &[String], value: &toml::Value, origin: &Origin) -> bool {
        let table = compaction_key(&["profiles", DEFAULT_NAME]);
        let is_in_table = path.get(..table.len()).is_some_and(|start| *start == *table);
        (is_in_table && origin.source == Source::BuiltIn) || self.differs_for_agent(path, value)
    }

    /// Returns the merged values, with those of [`Config::for_agent_transcript`].
    fn effective_values(&self) -> toml::Value {
        let mut values = toml::Value::Table(self.merged.table());
        for (path, old, _) in self.merged.iter().filter(|(path, old, _)| self.differs_for_agent(path, old)) {
            if let Some(slot) = path.iter().try_fold(&mut values, |table, name| table.get_mut(name)) {
                *slot = match old {
                    toml::Value::Integer(_) => i64::try_from(self.auto.min_turns).unwrap_or(i64::MAX).into(),
                    _ if *path == DEFAULT_PROFILE => self.default_profile.clone().into(),
                    _ => self.auto.profile.clone().into(),
                };
            }
        }
        values
    }

    /// Returns the value of a dotted key as TOML: one line, or the lines of a table.
    ///
    /// # Errors
    /// The configuration has no such value.
    pub fn value(&self, key: &str, is_shown: IsShown<'_>) -> Result<String, Error> {
        let mut value = self.effective_values();
        for name in parse_key(key).ok_or_else(|| self.no_value(key))? {
            value = value.get(&name).cloned().ok_or_else(|| self.no_value(key))?;
        }
        Ok(match value {
            toml::Value::Table(table) => {
                let text = table.to_string();
                let rows = || table.iter().map(|(name, value)| row_text(name, value, is_shown) + "\n");
                if is_shown(&text) { text } else { rows().collect() }
            }
            value => value_text(&value, is_shown) + "\n",
        })
    }

    fn no_value(&self, key: &str) -> Error {
        Error::NoValue {
            key: key.to_owned(),
            known: self.merged.iter().map(|(path, ..)| dotted(path)).collect(),
        }
    }

    /// Returns the configuration for programs: values, calls of the profiles, and origins.
    #[must_use]
    pub fn document(&self) -> ConfigReport {
        let merged = self.merged.iter().map(|(path, _, origin)| (dotted(path), origin.to_string()));
        let jp_model = self.jp.model.iter().map(|(_, origin)| ("assistant.model".into(), origin.to_string()));
        let profiles = self.profiles.iter().map(|(name, profile)| (name.clone(), profile_report(profile)));
        ConfigReport {
            config: match json!(self.effective_values()) {
                Value::Object(values) => values,
                _ => Map::new(),
            },
            default_profile: self.default_profile.clone(),
            profiles: profiles.collect(),
            assistant_model: self.assistant_model.as_ref().map(ToString::to_string),
            origins: merged.chain(jp_model).collect(),
            warnings: self.warnings.clone(),
        }
    }

    /// Describes the settings from JP's files that apply, one line each.
    fn jp_settings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some((model, origin)) = &self.jp.model {
            lines.push(format!("the conversation's own model is {model}  ({origin})"));
        }
        let applies = |rules: &Profile| self.profiles.get(&rules.name) == Some(rules);
        if let Some((profile, origin)) = self.jp.rules.as_ref().filter(|(rules, _)| applies(rules)) {
            let noun = if self.default_profile == profile.name { "the default profile" } else { "profile" };
            lines.push(format!("{noun} `{}` contains JP's own rules  ({origin})", profile.name));
            for call in &profile.calls {
                lines.push(if call.options.is_empty() {
                    format!("  {}", call.strategy)
                } else {
                    format!("  {} {}", call.strategy, Value::Object(call.options.clone()))
                });
            }
        }
        lines
    }
}

fn profile_report(profile: &Profile) -> ProfileReport {
    let calls = profile
        .calls
        .iter()
        .map(|call| CallReport { strategy: call.strategy.clone(), options: call.options.clone() });
    ProfileReport {
        calls: calls.collect(),
        keep_first: profile.keep_first,
        keep_last: profile.keep_last.turns,
        keep_steps: profile.keep_last.steps,
        keep_tokens: profile.keep_last.tokens,
        trigger_ratio: profile.trigger_ratio,
    }
}

fn dotted(path: &[String]) -> String {
    path.iter().map(|name| quote_key(name)).collect::<Vec<_>>().join(".")
}

fn row_text(name: &str, value: &toml::Value, is_shown: IsShown<'_>) -> String {
    format!("{} = {}", key_text(name, is_shown), value_text(value, is_shown))
}

/// Formats a value. If a character of it is not shown, its strings are written in ASCII, because another escape than
/// TOML's would change the value.
fn value_text(value: &toml::Value, is_shown: IsShown<'_>) -> String {
    let text = value.to_string();
    match value {
        _ if is_shown(&text) => text,
        toml::Value::String(string) => ascii_string(string),
        toml::Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| value_text(item, is_shown)).collect();
            format!("[{}]", items.join(", "))
        }
        toml::Value::Table(table) => {
            let rows: Vec<_> = table.iter().map(|(name, value)| row_text(name, value, is_shown)).collect();
            format!("{{ {} }}", rows.join(", "))
        }
        _ => text,
    }
}

fn key_text(name: &str, is_shown: IsShown<'_>) -> String {
    let key = quote_key(name);
    if is_shown(&key) { key } else { ascii_string(name) }
}

/// Quotes a string in TOML. Only printable ASCII is not escaped.
fn ascii_string(text: &str) -> String {
    // JSON escapes are valid in TOML.
    let escape = |character: char| match u32::from(character) {
        0x20..=0x7e => character.to_string(),
        code @ 0..=0xffff => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    };
    Value::from(text).to_string().chars().map(escape).collect()
}

/// Quotes a TOML key if necessary.
fn quote_key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !name.is_empty() && name.bytes().all(is_bare) {
        return name.to_owned();
    }
    // JSON escapes are valid in TOML.
    Value::from(name).to_string()
}
