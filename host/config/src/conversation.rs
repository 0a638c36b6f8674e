//! The settings of one conversation: a layer in a file next to its transcript. `config set` writes it. The file may
//! come with a cloned repository, so it has the limits of a workspace file, and its values are not the user's own.

use jp_compact_core::Stream;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::small_file::{self, CONFIGURATION};
use jp_compact_runtime::trust;
use jp_compact_store::{self as store, LOCK_WAIT, Place, ReplaceError, SidecarFile};
use serde_json::{Map, Value, json};

use super::find::{ConfigFiles, other_owner_warning, unreadable};
use super::layer::{self, Leaf};
use super::merge::Merged;
use super::origin::{ConfigError, Source};
use super::{Config, Error, JpSettings, checks, load_with};

/// The first line of the file.
const HEADER: &str = "# Settings of one conversation, written by `jp-compact config set`.\n";

/// A change of the settings.
#[derive(Debug, Clone, Copy)]
pub enum SettingsChange<'a> {
    /// Sets these `KEY=VALUE` pairs.
    Set(&'a [String]),
    /// Removes these keys, with all keys below them.
    Unset(&'a [String]),
}

/// The settings after a change.
#[derive(Debug)]
pub struct ChangedSettings {
    /// The files that have the settings, one next to each copy of the conversation. They do not exist if there are no
    /// settings.
    pub files: Vec<std::path::PathBuf>,
    /// The settings, in the form of a configuration file.
    pub settings: Map<String, Value>,
    /// The configuration of the conversation with these settings.
    pub config: Config,
}

/// Reads the settings of a conversation. Returns the layer, or `None` if there are no settings.
pub(super) fn read(
    environment: &Environment,
    place: &Place,
    warnings: &mut Vec<String>,
) -> Result<Option<(Source, String)>, Box<ConfigError>> {
    for path in store::settings_paths(place) {
        if let Some(owner) = trust::other_owner(&path) {
            warnings.push(other_owner_warning(&path, owner));
            continue;
        }
        let bytes = store::read_small(&path, CONFIGURATION, environment);
        let text = bytes.and_then(|bytes| bytes.map(small_file::text).transpose());
        let source = Source::Conversation(path);
        if let Some(text) = text.map_err(|error| unreadable(&source, &error))? {
            return Ok(Some((source, text)));
        }
    }
    Ok(None)
}

/// Returns the origin and the text of the settings of a conversation. If two results are equal, so are the settings.
/// `None` if the conversation has no settings.
///
/// # Errors
/// The settings cannot be read.
pub fn conversation_settings(
    environment: &Environment,
    place: &Place,
) -> Result<Option<(Source, String)>, Error> {
    read(environment, place, &mut Vec::new()).map_err(Error::Invalid)
}

/// Changes the settings of a conversation, next to all of its copies. Nothing is written if the configuration would be
/// invalid.
///
/// # Errors
/// A key or value is invalid, a removed key is not set, or a file cannot be written.
pub fn change_settings(
    environment: &Environment,
    place: &Place,
    stream: &Stream,
    change: SettingsChange<'_>,
) -> Result<ChangedSettings, Error> {
    let files = SidecarFile::settings_of(place);
    let jp = JpSettings::read(environment, Some(place), Some(stream));
    let mut result = None;
    for file in &files {
        let replaced = file.replace(LOCK_WAIT, |_| {
            // The other copies get the same settings as the first copy.
            if let Some((_, text)) = &result {
                return Ok(Option::<String>::clone(text).map(String::into_bytes));
            }
            let source = Source::Conversation(file.path().to_path_buf());
            let current = read(environment, place, &mut Vec::new()).map_err(Error::Invalid)?;
            let current = current.map(|(_, text)| text).unwrap_or_default();
            let table = changed_table(&source, &current, change)?;
            let text = if table.is_empty() { None } else { Some(to_text(&source, &table)?) };
            let layer = text.clone().map(|text| (source, text));
            let config = load_with(environment, Some(place), layer, &[], &[], jp.clone())?;
            result =
                Some((ChangedSettings { files: Vec::new(), settings: to_map(&table), config }, text.clone()));
            Ok(text.map(String::into_bytes))
        });
        replaced.map_err(|error| match error {
            ReplaceError::Store(error) => Error::Store(error),
            ReplaceError::Build(error) => error,
        })?;
    }
    let Some((changed, _)) = result else { return Err(Error::NoSettingsFile) };
    Ok(ChangedSettings { files: files.iter().map(|file| file.path().to_path_buf()).collect(), ..changed })
}

/// Returns the changed settings as a table.
fn changed_table(source: &Source, current: &str, change: SettingsChange<'_>) -> Result<toml::Table, Error> {
    let invalid = |error| Error::Invalid(Box::new(error));
    let mut settings = Merged::default();
    settings.add_layer(layer::parse(source, current).map_err(invalid)?);
    match change {
        SettingsChange::Set(pairs) => {
            for pair in pairs {
                let rejected =
                    |source| Error::RejectedSetting { setting: pair.clone(), source: Box::new(source) };
                settings.add_layer(parse_pair(source, pair).map_err(rejected)?);
            }
        }
        SettingsChange::Unset(keys) => {
            for key in keys {
                let path = layer::parse_key(key).filter(|path| settings.remove(path));
                path.ok_or_else(|| Error::NotSet { key: key.clone() })?;
            }
        }
    }
    Ok(settings.table())
}

/// Parses `KEY=VALUE` under the rules for the settings of a conversation.
fn parse_pair(source: &Source, pair: &str) -> Result<Vec<Leaf>, ConfigError> {
    let (typed, text) = layer::from_pair(pair)?;
    let leaves = layer::parse(&typed, &text)?;
    checks::check_text(&text, source).map_or(Ok(leaves), Err)
}

fn to_text(source: &Source, table: &toml::Table) -> Result<String, Error> {
    let too_large = |message: String| Error::Invalid(Box::new(ConfigError::new(source, message)));
    let text = toml::to_string(table).map_err(|error| too_large(error.to_string()))?;
    let text = HEADER.to_owned() + &text;
    if text.len() as u64 > CONFIGURATION {
        return Err(too_large(format!("it would have more than {CONFIGURATION} bytes")));
    }
    Ok(text)
}

fn to_map(table: &toml::Table) -> Map<String, Value> {
    match json!(table) {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Adds the settings of a conversation to the files of a configuration, before the files of the command line.
pub(super) fn add_layer(files: &mut ConfigFiles, layer: Option<(Source, String)>) {
    let is_typed = |(source, _): &(Source, String)| matches!(source, Source::File(_));
    let position = files.layers.iter().position(is_typed).unwrap_or(files.layers.len());
    files.layers.splice(position..position, layer);
}
