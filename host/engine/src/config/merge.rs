//! The layers put together, key by key: the later wins, and every value knows where it came from.

use std::collections::{BTreeMap, BTreeSet};

use super::layer::{Leaf, Path};
use super::origin::Origin;

/// Every value, by its key.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Merged {
    leaves: BTreeMap<Path, (toml::Value, Origin)>,
}

impl Merged {
    /// Puts a layer on top.
    pub(super) fn put(&mut self, layer: Vec<Leaf>) {
        // A profile that is written in one form takes nothing of the other from the layers below.
        let written: BTreeSet<_> = layer.iter().filter_map(|leaf| form(&leaf.path)).collect();
        self.leaves
            .retain(|path, _| form(path).is_none_or(|(name, form)| !written.contains(&(name, form.other()))));
        for Leaf { path, value, origin } in layer {
            self.leaves.insert(path, (value, origin));
        }
    }

    /// Every value in the order of its keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Path, &toml::Value, &Origin)> {
        self.leaves.iter().map(|(path, (value, origin))| (path, value, origin))
    }

    /// Where the value of a key came from.
    pub(super) fn origin(&self, path: &[&str]) -> Option<&Origin> {
        let path: Path = path.iter().map(|&key| key.to_owned()).collect();
        self.leaves.get(&path).map(|(_, origin)| origin)
    }

    /// Where the values below a key came from.
    pub(super) fn origins_below(&self, path: &[&str]) -> impl Iterator<Item = &Origin> {
        let below = |leaf: &Path| leaf.iter().map(String::as_str).take(path.len()).eq(path.iter().copied());
        self.leaves.iter().filter(move |(leaf, _)| below(leaf)).map(|(_, (_, origin))| origin)
    }

    /// All as one table.
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

/// The two forms of a profile: RFD 064's policies, or strategies.
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

/// The profile that a key belongs to, and the form that it says, where it says one.
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
