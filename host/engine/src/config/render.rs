//! Formats the configuration as an equivalent TOML file, or as JSON.

use jp_compact_schema::document::{CallReport, ConfigReport, ProfileReport};
use serde_json::{Map, Value, json};

use super::layer::Path;
use super::{Config, DEFAULT_PROFILE, Profile};

impl Config {
    /// Formats the configuration as an equivalent file. With `explain`, each value is followed by its origin.
    /// Settings from JP's files are comments, because they have no key here.
    #[must_use]
    pub fn to_toml(&self, explain: bool) -> String {
        let mut rows: Vec<(&[String], &String, String)> = Vec::new();
        for (path, value, origin) in self.merged.iter() {
            let Some((last, table)) = path.split_last() else { continue };
            // JP's rules replace the built-in default. A file that names the default profile would select it instead.
            if *path == DEFAULT_PROFILE && value.as_str() != Some(&self.default_profile) {
                continue;
            }
            // A comment ends with its line, but typed text may have several lines.
            let comment = origin.to_string().replace(char::is_control, " ");
            let suffix = if explain { format!("  # {comment}") } else { String::new() };
            rows.push((table, last, format!("{} = {value}{suffix}\n", key(last))));
        }
        // The keys of a table come together, before its subtables.
        rows.sort_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1)));
        let (mut text, mut open): (String, Option<&[String]>) = (String::new(), None);
        for (table, _, row) in rows {
            if open != Some(table) {
                let name: Vec<String> = table.iter().map(|name| key(name)).collect();
                text += &format!("{}[{}]\n", if open.is_some() { "\n" } else { "" }, name.join("."));
                open = Some(table);
            }
            text += &row;
        }
        for line in self.of_jp() {
            text += &format!("\n# {line}");
        }
        text.trim_end().to_owned() + "\n"
    }

    /// Returns the configuration for programs: values, calls of the profiles, and origins.
    #[must_use]
    pub fn document(&self) -> ConfigReport {
        let merged = self.merged.iter().map(|(path, _, origin)| (dotted(path), origin.to_string()));
        let of_jp = self.jp.model.iter().map(|(_, origin)| ("assistant.model".into(), origin.to_string()));
        let profiles = self.profiles.iter().map(|(name, profile)| (name.clone(), of_profile(profile)));
        ConfigReport {
            config: match json!(self.merged.table()) {
                Value::Object(values) => values,
                _ => Map::new(),
            },
            default_profile: self.default_profile.clone(),
            profiles: profiles.collect(),
            assistant_model: self.assistant_model.as_ref().map(ToString::to_string),
            origins: merged.chain(of_jp).collect(),
            warnings: self.warnings.clone(),
        }
    }

    /// Returns the settings from JP's files that apply.
    fn of_jp(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some((model, origin)) = &self.jp.model {
            lines.push(format!("the conversation's own model is {model}  ({origin})"));
        }
        if let Some((profile, origin)) = &self.jp.rules {
            let default = if self.default_profile == profile.name { ", the default one" } else { "" };
            lines.push(format!("profile `{}`{default}, is JP's own rules  ({origin})", profile.name));
            let calls = profile.calls.iter().map(|call| {
                let options = if call.options.is_empty() {
                    String::new()
                } else {
                    format!(" {}", Value::Object(call.options.clone()))
                };
                format!("  {}{options}", call.strategy)
            });
            lines.extend(calls);
        }
        lines
    }
}

fn of_profile(profile: &Profile) -> ProfileReport {
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

fn dotted(path: &Path) -> String {
    path.iter().map(|name| key(name)).collect::<Vec<_>>().join(".")
}

/// Quotes a TOML key if necessary.
fn key(name: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !name.is_empty() && name.bytes().all(bare) {
        return name.to_owned();
    }
    // JSON escapes are valid in TOML.
    Value::from(name).to_string()
}
