//! The merge of the layers, key by key. Later layers win, and every value keeps its origin.

use std::collections::{BTreeMap, BTreeSet};

use super::layer::{KeyPath, Leaf};
use super::origin::{Origin, Source};

/// The merged values by key. An empty table is a value only as long as no key below it has a value.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Merged {
    leaves: BTreeMap<KeyPath, (toml::Value, Origin)>,
}

impl Merged {
    /// Adds a layer that overrides all earlier layers.
    pub(super) fn add_layer(&mut self, layer: Vec<Leaf>) {
        self.remove_other_forms(&layer);
        self.remove_keep_last(&layer);
        self.remove_built_in_ratios(&layer);
        for Leaf { path, value, origin } in layer {
            if is_empty_table(&value) && self.has_keys_below(&path) {
                continue;
            }
            for length in 1..path.len() {
                let parent = &path[..length];
                if self.leaves.get(parent).is_some_and(|(value, _)| is_empty_table(value)) {
                    self.leaves.remove(parent);
                }
            }
            self.leaves.insert(path, (value, origin));
        }
    }

    /// Returns whether a key is a table with values.
    fn has_keys_below(&self, path: &KeyPath) -> bool {
        let mut following = self.leaves.range(path.clone()..).map(|(leaf, _)| leaf);
        following.find(|leaf| *leaf != path).is_some_and(|leaf| leaf.starts_with(path))
    }

    /// Removes the policies of a profile if this layer gives it strategies, and its strategies if this layer gives it
    /// policies.
    fn remove_other_forms(&mut self, layer: &[Leaf]) {
        let new_forms: BTreeSet<_> = layer.iter().filter_map(|leaf| profile_form(&leaf.path)).collect();
        self.leaves.retain(|path, _| match profile_form(path) {
            Some((name, form)) => !new_forms.contains(&(name, form.other())),
            None => true,
        });
    }

    /// Removes the values of `keep_last`, `keep_steps`, and `keep_tokens` if this layer sets one of these keys in the
    /// same table. All `--set` options together count as one layer, so they do not remove values of each other.
    fn remove_keep_last(&mut self, layer: &[Leaf]) {
        let is_set_option = |origin: &Origin| matches!(origin.source, Source::Set(_));
        let layer_is_set_option = layer.iter().any(|leaf| is_set_option(&leaf.origin));
        let tables: BTreeSet<KeyPath> =
            layer.iter().filter_map(|leaf| keep_last_table(&leaf.path)).map(<[_]>::to_vec).collect();
        self.leaves.retain(|path, (_, origin)| {
            let is_same_layer = layer_is_set_option && is_set_option(origin);
            is_same_layer || keep_last_table(path).is_none_or(|table| !tables.contains(table))
        });
    }

    /// Removes the built-in trigger ratios of profiles if another layer sets a ratio for all profiles.
    fn remove_built_in_ratios(&mut self, layer: &[Leaf]) {
        let sets_ratio =
            |leaf: &Leaf| leaf.path == AUTO_TRIGGER_RATIO && leaf.origin.source != Source::BuiltIn;
        if layer.iter().any(sets_ratio) {
            self.leaves.retain(|path, (_, origin)| {
                origin.source != Source::BuiltIn || !is_profile_trigger_ratio(path)
            });
        }
    }

    /// Removes the value of a key, and the values of all keys below it. Returns whether there was one.
    pub(super) fn remove(&mut self, path: &[String]) -> bool {
        let count = self.leaves.len();
        self.leaves.retain(|leaf, _| !leaf.starts_with(path));
        self.leaves.len() < count
    }

    /// Returns every value in the order of the keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&KeyPath, &toml::Value, &Origin)> {
        self.leaves.iter().map(|(path, (value, origin))| (path, value, origin))
    }

    /// Returns the origin of the value of a key.
    pub(super) fn origin(&self, path: &[&str]) -> Option<&Origin> {
        let path: KeyPath = path.iter().map(|&key| key.to_owned()).collect();
        self.leaves.get(&path).map(|(_, origin)| origin)
    }

    /// Returns whether a key has its built-in value or no value.
    pub(super) fn is_built_in(&self, path: &[&str]) -> bool {
        self.origin(path).is_none_or(|origin| origin.source == Source::BuiltIn)
    }

    /// Returns the origins of the values below a key.
    pub(super) fn origins_below(&self, path: &[&str]) -> impl Iterator<Item = &Origin> {
        let is_below =
            |leaf: &KeyPath| leaf.iter().map(String::as_str).take(path.len()).eq(path.iter().copied());
        self.leaves.iter().filter(move |(leaf, _)| is_below(leaf)).map(|(_, (_, origin))| origin)
    }

    /// Returns all values as one table.
    pub(super) fn table(&self) -> toml::Table {
        let mut root = toml::Table::new();
        for (path, value, _) in self.iter() {
            let Some((key, parents)) = path.split_last() else { continue };
            let mut table = &mut root;
            for parent in parents {
                let inner = table.entry(parent.clone()).or_insert_with(|| toml::Table::new().into());
                if !inner.is_table() {
                    *inner = toml::Table::new().into();
                }
                table = inner.as_table_mut().expect("any other value was replaced by a table");
            }
            table.insert(key.clone(), value.clone());
        }
        root
    }
}

fn is_empty_table(value: &toml::Value) -> bool {
    value.as_table().is_some_and(toml::Table::is_empty)
}

/// The two forms of a profile: the policies of RFD 064, or strategies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ProfileForm {
    Policies,
    Strategies,
}

impl ProfileForm {
    fn other(self) -> Self {
        match self {
            Self::Policies => Self::Strategies,
            Self::Strategies => Self::Policies,
        }
    }
}

/// The key for the trigger ratio of all profiles.
const AUTO_TRIGGER_RATIO: [&str; 4] = ["conversation", "compaction", "auto", "trigger_ratio"];

/// Returns whether a key is the trigger ratio of one profile.
fn is_profile_trigger_ratio(path: &[String]) -> bool {
    matches!(path, [conversation, compaction, profiles, _, ratio]
        if conversation == "conversation" && compaction == "compaction" && profiles == "profiles" && ratio == "trigger_ratio")
}

/// The keys for the turns, steps, or tokens to keep at the end.
const KEEP_LAST: [&str; 3] = ["keep_last", "keep_steps", "keep_tokens"];

/// Returns the table that contains a key of [`KEEP_LAST`]. `None` for any other key.
fn keep_last_table(path: &[String]) -> Option<&[String]> {
    let (key, table) = path.split_last()?;
    let is_conversation = table.first().is_some_and(|first| first == "conversation");
    (is_conversation && KEEP_LAST.contains(&key.as_str())).then_some(table)
}

/// Returns the profile that a key belongs to, and its form. `None` if the key implies no form.
fn profile_form(path: &KeyPath) -> Option<(&str, ProfileForm)> {
    let [conversation, compaction, profiles, name, key, ..] = path.as_slice() else { return None };
    if [conversation, compaction, profiles] != ["conversation", "compaction", "profiles"] {
        return None;
    }
    let form = match key.as_str() {
        "strategies" => ProfileForm::Strategies,
        "reasoning" | "tool_calls" | "summary" => ProfileForm::Policies,
        _ => return None,
    };
    Some((name, form))
}
