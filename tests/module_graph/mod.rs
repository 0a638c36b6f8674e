//! The module graph of each crate of the workspace, and its cycles.
//!
//! Cargo refuses cycles between crates, but not between the modules of a crate. A module in a cycle
//! cannot be read or moved alone. The list of known cycles must stay empty.
//!
//! The rules:
//!
//! - A module is a file. Inline modules belong to their file. Code that only tests compile is left out.
//! - An edge is a path in code: in a `use`, an expression, a type, an attribute or a macro call. A re-export is
//!   resolved, so that `crate::Stream` is an edge to `stream`. A method call names no path and is not an edge.
//! - Each level is a separate graph. The top level has the modules that the crate root declares, each with all of its
//!   submodules. Each module with submodules has a level of its own for them.
//! - Only edges between siblings count. A parent declares and calls its children, and a child uses the types of its
//!   parent (`super::Error`): this is a common pattern in Rust, and other modules see parent and children as one unit.
//!   The same applies to the crate root and its modules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super::sources::Source;

/// The dependencies of sibling modules: each module, and the siblings that it names.
pub(crate) type Level = BTreeMap<String, BTreeSet<String>>;

/// The modules of one crate.
pub(crate) struct Crate<'a> {
    /// The folder of the crate root.
    pub(crate) folder: String,
    /// Module paths without `crate`, for example `store::lock`. The crate root is the empty path.
    modules: BTreeMap<String, &'a Source>,
}

impl<'a> Crate<'a> {
    /// Takes the sources below a folder that ends with `/`, except for the sources of other crates.
    pub(crate) fn new(folder: &str, others: &[String], sources: &'a [Source]) -> Self {
        let inner_folders: Vec<&String> =
            others.iter().filter(|other| *other != folder && other.starts_with(folder)).collect();
        let mut modules = BTreeMap::new();
        for source in sources {
            let Some(file) = source.file.strip_prefix(folder) else { continue };
            let is_in_other_crate = inner_folders.iter().any(|other| source.file.starts_with(&***other));
            if is_in_other_crate || source.only_for_tests {
                continue;
            }
            modules.insert(module_path(file), source);
        }
        Self { folder: folder.to_owned(), modules }
    }

    /// Returns the numbers of modules and lines.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.modules.len(), self.modules.values().map(|source| source.lines).sum())
    }

    /// Returns the graph of each level that has at least two modules. The key is the parent's path.
    pub(crate) fn levels(&self) -> BTreeMap<String, Level> {
        let mut levels: BTreeMap<String, Level> = BTreeMap::new();
        for module in self.modules.keys().filter(|module| !module.is_empty()) {
            let (parent, name) = split_last(module);
            levels.entry(parent.to_owned()).or_default().entry(name.to_owned()).or_default();
        }
        for (from, source) in &self.modules {
            for name in source.production() {
                for to in self.targets(from, &name.path, 0) {
                    if let Some((parent, user, used)) = siblings(from, &to)
                        && let Some(uses) = levels.get_mut(parent).and_then(|level| level.get_mut(user))
                    {
                        uses.insert(used.to_owned());
                    }
                }
            }
        }
        levels.retain(|_, level| level.len() > 1);
        levels
    }

    /// Returns glob imports from the crate itself, because their edges cannot be read.
    pub(crate) fn globs(&self) -> Vec<String> {
        let is_own_path = |path: &str| {
            let first = path.split("::").next().unwrap_or_default();
            ["crate", "self", "super"].contains(&first) || self.modules.contains_key(first)
        };
        let mut globs = Vec::new();
        for source in self.modules.values() {
            let names =
                source.production().filter(|name| name.path.ends_with("::*") && is_own_path(&name.path));
            globs.extend(names.map(|name| format!("{} imports {}", source.file, name.path)));
        }
        globs
    }

    /// Returns the modules that define the item at a path. For a path of another crate, there are none.
    fn targets(&self, from: &str, path: &str, depth: usize) -> Vec<String> {
        let path = path.trim_end_matches('!');
        let mut segments = path.split("::").peekable();
        let mut module = from.to_owned();
        match segments.peek() {
            Some(&"crate") => module = String::new(),
            Some(&"self" | &"super") => {}
            Some(first) if self.modules.contains_key(&join(from, first)) => {}
            _ => return Vec::new(),
        }
        while let Some(segment) = segments.next() {
            if segment == "super" {
                module = split_last(&module).0.to_owned();
            } else if self.modules.contains_key(&join(&module, segment)) {
                module = join(&module, segment);
            } else if !["crate", "self"].contains(&segment) {
                let rest: Vec<&str> = segments.collect();
                return self.through_import(module, segment, &rest, depth);
            }
        }
        vec![module]
    }

    /// Follows the name in a module to where it is imported from. Without an import, the module defines it.
    fn through_import(&self, module: String, name: &str, rest: &[&str], depth: usize) -> Vec<String> {
        let imported = self.modules.get(&module).and_then(|source| source.imports.get(name));
        let mut targets_of_imports = Vec::new();
        for path in imported.into_iter().flatten().filter(|_| depth < 8) {
            let path = [&[path.as_str()], rest].concat().join("::");
            targets_of_imports.extend(self.targets(&module, &path, depth + 1));
        }
        if targets_of_imports.is_empty() { vec![module] } else { targets_of_imports }
    }
}

/// Returns the folders of the crate roots: libraries and executables, from `cargo metadata`.
pub(crate) fn folders(metadata: &Value) -> Vec<String> {
    let root = Path::new(metadata["workspace_root"].as_str().expect("cargo names the root"));
    let mut folders = Vec::new();
    for package in metadata["packages"].as_array().expect("cargo lists packages") {
        for target in package["targets"].as_array().expect("cargo lists targets") {
            let file = Path::new(target["src_path"].as_str().expect("a target has a file"));
            let kinds = target["kind"].as_array().expect("a target has kinds");
            let is_crate = kinds.iter().any(|kind| kind == "lib" || kind == "bin");
            let file = file.strip_prefix(root).expect("a target is below the root");
            if is_crate && (file.ends_with("main.rs") || file.ends_with("lib.rs")) {
                let folder = file.parent().and_then(Path::to_str).expect("a file is in a folder");
                folders.push(format!("{folder}/"));
            }
        }
    }
    folders.sort();
    folders
}

/// Returns the strongly connected components with more than one module, sorted.
pub(crate) fn cycles(level: &Level) -> Vec<Vec<String>> {
    let reachable: BTreeMap<&String, BTreeSet<&String>> =
        level.keys().map(|module| (module, reachable(level, module))).collect();
    let mut cycles = BTreeSet::new();
    for (module, reached) in &reachable {
        let is_mutual = |other: &&&String| reachable[**other].contains(module);
        let cycle: Vec<String> = reached.iter().filter(is_mutual).map(|other| (**other).clone()).collect();
        if cycle.len() > 1 {
            cycles.insert(cycle);
        }
    }
    cycles.into_iter().collect()
}

fn reachable<'a>(level: &'a Level, from: &'a String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut pending = vec![from];
    while let Some(module) = pending.pop() {
        for next in level[module].iter().filter(|next| **next != *module) {
            if reached.insert(next) {
                pending.push(next);
            }
        }
    }
    reached
}

/// Returns a level as text, lowest module first: a line for each module, with the siblings that it uses.
pub(crate) fn print(level: &Level, indent: &str) -> String {
    let mut modules: Vec<(usize, &String)> =
        level.keys().map(|module| (reachable(level, module).len(), module)).collect();
    modules.sort();
    let mut text = String::new();
    for (_, module) in modules {
        let uses: Vec<&str> = level[module].iter().map(String::as_str).collect();
        let uses = if uses.is_empty() { "nothing".to_owned() } else { uses.join(", ") };
        writeln!(text, "{indent}{module} uses {uses}").expect("a string takes text");
    }
    for cycle in cycles(level) {
        writeln!(text, "{indent}CYCLE: {}", cycle.join(", ")).expect("a string takes text");
    }
    text
}

/// Returns the module path of a file in the folder of a crate root.
fn module_path(file: &str) -> String {
    let path = file.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if path == "lib" || path == "main" { String::new() } else { path.replace('/', "::") }
}

/// Returns the common parent of two modules, and its two children that are or contain these modules. Returns `None` if
/// one module contains the other.
fn siblings<'a>(from: &'a str, to: &'a str) -> Option<(&'a str, &'a str, &'a str)> {
    let mut parent = 0;
    for (a, b) in from.split("::").zip(to.split("::")) {
        if a != b {
            let both_named = !a.is_empty() && !b.is_empty();
            return both_named.then(|| (from[..parent].trim_end_matches("::"), a, b));
        }
        parent += a.len() + 2;
    }
    None
}

fn split_last(module: &str) -> (&str, &str) {
    module.rsplit_once("::").unwrap_or(("", module))
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}
