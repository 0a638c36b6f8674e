//! Merges the layers key by key. Later layers win, and every value keeps its origin.

use std::collections::{BTreeMap, BTreeSet};

use super::layer::{Leaf, Path};
use super::origin::{Origin, Source};

/// The merged values by key.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Merged {
    leaves: BTreeMap<Path, (toml::Value, Origin)>,
}

impl Merged {
    /// Adds a layer that overrides the earlier ones.
    pub(super) fn put(&mut self, layer: Vec<Leaf>) {
        // A profile that a layer writes in one form inherits nothing from the other form in earlier layers.
        let written: BTreeSet<_> = layer.iter().filter_map(|leaf| form(&leaf.path)).collect();
        self.leaves
            .retain(|path, _| form(path).is_none_or(|(name, form)| !written.contains(&(name, form.other()))));
        // A nearer layer that says what to keep at the end replaces all that a farther one says about it. The `--set`
        // options are one layer.
        let typed = layer.iter().any(|leaf| matches!(leaf.origin.source, Source::Set(_)));
        let kept: BTreeSet<Path> =
            layer.iter().filter_map(|leaf| kept_by(&leaf.path)).map(<[_]>::to_vec).collect();
        self.leaves.retain(|path, (_, origin)| {
            let stays = typed && matches!(origin.source, Source::Set(_));
            stays || kept_by(path).is_none_or(|table| !kept.contains(table))
        });
        for Leaf { path, value, origin } in layer {
            self.leaves.insert(path, (value, origin));
        }
    }

    /// Returns every value in the order of the keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Path, &toml::Value, &Origin)> {
        self.leaves.iter().map(|(path, (value, origin))| (path, value, origin))
    }

    /// Returns the origin of the value of a key.
    pub(super) fn origin(&self, path: &[&str]) -> Option<&Origin> {
        let path: Path = path.iter().map(|&key| key.to_owned()).collect();
        self.leaves.get(&path).map(|(_, origin)| origin)
    }

    /// Returns the origins of the values below a key.
    pub(super) fn origins_below(&self, path: &[&str]) -> impl Iterator<Item = &Origin> {
        let below = |leaf: &Path| leaf.iter().map(String::as_str).take(path.len()).eq(path.iter().copied());
        self.leaves.iter().filter(move |(leaf, _)| below(leaf)).map(|(_, (_, origin))| origin)
    }

    /// Returns all values as one table.
    pub(super) fn table(&self) -> toml::Table {
        let mut root = toml::Table::new();
        for (path, value, _) in self.iter() {
            let Some((last, above)) = path.split_last() else { continue };
            let mut table = &mut root;
            for key in above {
                let inner = table.entry(key.clone()).or_insert_with(|| toml::Table::new().into());
                if !inner.is_table() {
                    *inner = toml::Table::new().into();
                }
                table = inner.as_table_mut().expect("it was made one");
            }
            table.insert(last.clone(), value.clone());
        }
        root
    }
}

/// The two forms of a profile: the policies of RFD 064, or strategies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Policies,
    Strategies,
}

impl Form {
    fn other(self) -> Self {
        match self {
            Self::Policies => Self::Strategies,
            Self::Strategies => Self::Policies,
        }
    }
}

/// The keys that say what to keep at the end.
const KEEP_LAST: [&str; 3] = ["keep_last", "keep_steps", "keep_tokens"];

/// Returns the table of a key that says what to keep at the end.
fn kept_by(path: &[String]) -> Option<&[String]> {
    let (key, table) = path.split_last()?;
    let is_compaction = table.first().is_some_and(|first| first == "conversation");
    (is_compaction && KEEP_LAST.contains(&key.as_str())).then_some(table)
}

/// Returns the profile that a key belongs to, and the form that the key implies.
fn form(path: &Path) -> Option<(&str, Form)> {
    let [conversation, compaction, profiles, name, key, ..] = path.as_slice() else { return None };
    if [conversation, compaction, profiles] != ["conversation", "compaction", "profiles"] {
        return None;
    }
    let form = match key.as_str() {
        "strategies" => Form::Strategies,
        "reasoning" | "tool_calls" | "summary" => Form::Policies,
        _ => return None,
    };
    Some((name, form))
}
