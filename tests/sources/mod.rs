//! The reader of Rust sources: the paths that a file names, resolved through the file's own imports, including paths
//! inside macros and attributes.
//!
//! It parses the syntax, because a search in the text finds words in comments and misses `use a::{b::c}`. It must
//! report every path in the file, and may report more. The rules about paths are in `tests/walls/`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use syn::buffer::{Cursor, TokenBuffer};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, Meta, UseTree};

/// One source file.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// The path from the root of the project, with `/`.
    pub(crate) file: String,
    pub(crate) lines: usize,
    /// Whether only tests compile the file. Not set for the root's `tests/`.
    pub(crate) only_for_tests: bool,
    /// Whether the first line is a module header, `//! ...`.
    pub(crate) opens_with_doc: bool,
    /// Whether a comment has an example that `cargo test` runs.
    pub(crate) has_doc_example: bool,
    pub(crate) names: Vec<Name>,
    /// The imports of production code: a local name, and the paths that it may mean.
    pub(crate) imports: Imports,
    /// The types that production code defines with the visibility `pub` or `pub(crate)`.
    pub(crate) public_types: Vec<String>,
    /// The names of functions and methods.
    pub(crate) functions: Vec<Function>,
    /// Whether the keyword `unsafe` occurs anywhere.
    pub(crate) has_unsafe: bool,
    /// The number of `#[allow]` attributes.
    pub(crate) allows: usize,
    /// Modules in other files that are compiled only for tests.
    test_modules: Vec<String>,
}

pub(crate) type Imports = HashMap<String, Vec<String>>;

/// A path that a file names. A macro ends with `!`, a glob import with `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) path: String,
    /// Whether this is the path of a `use` item.
    pub(crate) imported: bool,
    /// Whether the path is in code for tests only.
    pub(crate) in_tests: bool,
}

impl Name {
    /// Returns whether this is the given path, is below it, or is a glob import that can contain it.
    pub(crate) fn is_within(&self, path: &str) -> bool {
        let is_at_or_below = |path: &str, above: &str| {
            path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        match self.path.strip_suffix("::*") {
            Some(parent) => is_at_or_below(parent, path) || is_at_or_below(path, parent),
            None => is_at_or_below(&self.path, path),
        }
    }

    /// Returns the first segment: a crate, or a name in the file's own crate.
    pub(crate) fn first_segment(&self) -> &str {
        self.path.split("::").next().expect("a split has a first part")
    }
}

/// A function or a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Whether it is marked `#[test]` or `#[tokio::test]`.
    pub(crate) is_test: bool,
}

impl Source {
    /// Parses a text as if it were the file at that path. Panics on a syntax error.
    pub(crate) fn read(file: &str, text: &str) -> Self {
        let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        let tokens = TokenBuffer::new2(text.parse().expect("what was parsed has tokens"));
        let mut reader = Reader { source: Self::default(), ..Reader::default() };
        reader.source.file = file.to_owned();
        reader.source.lines = text.lines().count();
        reader.source.opens_with_doc = text.starts_with("//! ");
        reader.source.has_doc_example = has_doc_example(text);
        reader.source.has_unsafe = any_ident(tokens.begin(), "unsafe");
        reader.visit_file(&parsed);
        reader.resolve();
        reader.source
    }

    /// Iterates over the paths in production code.
    pub(crate) fn production(&self) -> impl Iterator<Item = &Name> {
        self.names.iter().filter(|name| !name.in_tests)
    }
}

fn has_doc_example(text: &str) -> bool {
    let mut is_in_block = false;
    text.lines().map(str::trim_start).any(|line| {
        let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            return line.starts_with("#![doc = include_str!(");
        };
        let Some(language) = comment.trim_start().strip_prefix("```") else { return false };
        is_in_block = !is_in_block;
        is_in_block && language != "text"
    })
}

/// Reads every source of the project, except in `target` and in hidden folders.
pub(crate) fn read_all(root: &Path) -> Vec<Source> {
    let mut files = Vec::new();
    collect_files(root, &mut files);
    files.sort();
    let relative = |file: &Path| file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    let read = |file: &PathBuf| Source::read(&relative(file), &std::fs::read_to_string(file).unwrap());
    let mut sources: Vec<Source> = files.iter().map(read).collect();
    let test_modules: Vec<String> = sources.iter().flat_map(|source| source.test_modules.clone()).collect();
    for source in &mut sources {
        let is_in_test_module = |module: &String| {
            source.file.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        if source.file.contains("/tests/") || test_modules.iter().any(is_in_test_module) {
            source.only_for_tests = true;
            source.names.iter_mut().for_each(|name| name.in_tests = true);
        }
    }
    sources
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with('.') || name == "target" {
            continue;
        }
        if path.is_dir() {
            collect_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

#[derive(Default)]
struct Reader {
    /// The number of enclosing items that only tests compile.
    test_depth: usize,
    /// The number of enclosing inline modules.
    inline_depth: usize,
    /// The imports of production code, and the imports of tests. Each table is for the whole file: if two scopes give a
    /// name two meanings, both are reported.
    imports: Imports,
    test_imports: Imports,
    source: Source,
}

impl Reader {
    fn push_name(&mut self, path: String, imported: bool) {
        let path = self.in_file(path);
        self.source.names.push(Name { path, imported, in_tests: self.test_depth > 0 });
    }

    /// Replaces the first segment of each path with its import, until no import applies.
    fn resolve(&mut self) {
        let mut all_imports = self.imports.clone();
        for (local, paths) in &self.test_imports {
            all_imports.entry(local.clone()).or_default().extend(paths.iter().cloned());
        }
        let mut resolved = Vec::new();
        for name in &self.source.names {
            let imports = if name.in_tests { &all_imports } else { &self.imports };
            for path in possible_paths(&name.path, imports, 0) {
                let name = Name { path, ..name.clone() };
                // A single word without an import is an item of the file, a local variable, or in the prelude.
                if name.imported || name.path.contains("::") || name.path.ends_with('!') {
                    resolved.push(name);
                }
            }
        }
        self.source.names = resolved;
        self.source.imports = std::mem::take(&mut self.imports);
    }

    /// Turns a path of an inline module into a path of the file: `super::x` becomes `self::x`.
    fn in_file(&self, path: String) -> String {
        let mut rest = &*path;
        for _ in 0..self.inline_depth {
            match rest.strip_prefix("super::") {
                Some(above) => rest = above,
                None => break,
            }
        }
        if rest.len() < path.len() && !rest.starts_with("super::") {
            format!("self::{rest}")
        } else {
            rest.to_owned()
        }
    }

    fn collect_imports(&mut self, tree: &UseTree, prefix: &str) {
        let join = |name: &dyn ToString| match prefix {
            "" => name.to_string(),
            _ => format!("{prefix}::{}", name.to_string()),
        };
        match tree {
            UseTree::Path(path) => self.collect_imports(&path.tree, &join(&path.ident)),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.collect_imports(tree, prefix)),
            UseTree::Glob(_) => self.push_name(join(&"*"), true),
            UseTree::Name(name) if name.ident == "self" => self.push_import(prefix.to_owned(), None),
            UseTree::Name(name) => self.push_import(join(&name.ident), None),
            UseTree::Rename(rename) => {
                let path = if rename.ident == "self" { prefix.to_owned() } else { join(&rename.ident) };
                self.push_import(path, Some(rename.rename.to_string()));
            }
        }
    }

    fn push_import(&mut self, path: String, renamed: Option<String>) {
        let local = renamed.unwrap_or_else(|| path.rsplit("::").next().unwrap_or_default().to_owned());
        if local != path {
            let absolute = self.in_file(path.clone());
            let imports = if self.test_depth > 0 { &mut self.test_imports } else { &mut self.imports };
            imports.entry(local).or_default().push(absolute);
        }
        self.push_name(path, true);
    }

    /// Collects the paths in unparsed tokens: the contents of macros and attributes.
    fn collect_tokens(&mut self, mut cursor: Cursor<'_>) {
        let mut path = String::new();
        loop {
            if let Some((ident, rest)) = cursor.ident() {
                if !path.is_empty() && !path.ends_with("::") {
                    self.push_token_path(std::mem::take(&mut path));
                }
                path.push_str(&ident.to_string());
                cursor = rest;
            } else if let Some(rest) = double_colon(cursor) {
                path.push_str("::");
                cursor = rest;
            } else {
                let path = std::mem::take(&mut path);
                if let Some((inside, _, _, rest)) = cursor.any_group() {
                    self.push_token_path(path);
                    self.collect_tokens(inside);
                    cursor = rest;
                } else if let Some((punct, rest)) = cursor.punct() {
                    // `name!` before a bracket is a macro; before `=` it is a comparison.
                    let is_macro = punct.as_char() == '!' && rest.any_group().is_some();
                    self.push_token_path(if is_macro && !path.is_empty() { path + "!" } else { path });
                    cursor = rest;
                } else if let Some((_, rest)) = cursor.literal() {
                    self.push_token_path(path);
                    cursor = rest;
                } else if let Some((_, rest)) = cursor.lifetime() {
                    self.push_token_path(path);
                    cursor = rest;
                } else {
                    self.push_token_path(path);
                    return;
                }
            }
        }
    }

    fn push_token_path(&mut self, path: String) {
        let path = path.trim_start_matches("::").trim_end_matches("::");
        if !path.is_empty() {
            self.push_name(path.to_owned(), false);
        }
    }

    fn read_as_test_if(&mut self, is_test: bool, read: impl FnOnce(&mut Self)) {
        self.test_depth += usize::from(is_test);
        read(self);
        self.test_depth -= usize::from(is_test);
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let only_for_tests = is_only_for_tests(attributes(item));
        if let Item::Mod(module) = item
            && only_for_tests
            && module.content.is_none()
        {
            let file = Path::new(&self.source.file);
            let stem = file.file_stem().unwrap().to_str().unwrap();
            let folder = match stem {
                "mod" | "lib" | "main" => file.parent().unwrap().to_owned(),
                _ => file.with_extension(""),
            };
            self.source.test_modules.push(folder.join(module.ident.to_string()).to_str().unwrap().to_owned());
        }
        if let Some(name) = public_type(item)
            && !only_for_tests
            && self.test_depth == 0
        {
            self.source.public_types.push(name);
        }
        let is_inline = matches!(item, Item::Mod(module) if module.content.is_some());
        self.inline_depth += usize::from(is_inline);
        self.read_as_test_if(only_for_tests, |reader| visit::visit_item(reader, item));
        self.inline_depth -= usize::from(is_inline);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let is_test_attribute =
            |attribute: &Attribute| attribute.path().segments.last().is_some_and(|last| last.ident == "test");
        let is_test = item.attrs.iter().any(is_test_attribute);
        self.source.functions.push(Function { name: item.sig.ident.to_string(), is_test });
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.source.functions.push(Function { name: item.sig.ident.to_string(), is_test: false });
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.source.functions.push(Function { name: item.sig.ident.to_string(), is_test: false });
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let is_test = matches!(item, ImplItem::Fn(item) if is_only_for_tests(&item.attrs));
        self.read_as_test_if(is_test, |reader| visit::visit_impl_item(reader, item));
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.collect_imports(&item.tree, "");
    }

    fn visit_item_extern_crate(&mut self, item: &'ast syn::ItemExternCrate) {
        self.push_import(item.ident.to_string(), item.rename.as_ref().map(|(_, name)| name.to_string()));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.push_name(segments.join("::"), false);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let segments: Vec<String> =
            call.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.push_name(segments.join("::") + "!", false);
        self.collect_tokens(TokenBuffer::new2(call.tokens.clone()).begin());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let list = match &attribute.meta {
            Meta::List(list) => TokenBuffer::new2(list.tokens.clone()),
            _ => TokenBuffer::new2(Default::default()),
        };
        let is_conditional_allow = attribute.path().is_ident("cfg_attr") && any_ident(list.begin(), "allow");
        self.source.allows += usize::from(attribute.path().is_ident("allow") || is_conditional_allow);
        self.collect_tokens(list.begin());
        visit::visit_attribute(self, attribute);
    }
}

/// Returns the paths that a path can resolve to, or the path itself if its first segment is not imported.
fn possible_paths(path: &str, imports: &Imports, depth: usize) -> Vec<String> {
    let (first, rest) = path.split_once("::").map_or((path, ""), |(first, rest)| (first, rest));
    let word = first.trim_end_matches('!');
    match imports.get(word) {
        // `use x::x` refers to itself, and imports can form a cycle.
        Some(imported) if depth < 8 => {
            let join = |import: &String| match (rest, first.ends_with('!')) {
                ("", false) => import.clone(),
                ("", true) => format!("{import}!"),
                _ => format!("{import}::{rest}"),
            };
            let mut paths = Vec::new();
            for import in imported {
                if import.split("::").next() == Some(word) {
                    paths.push(join(import));
                } else {
                    paths.extend(possible_paths(&join(import), imports, depth + 1));
                }
            }
            paths
        }
        _ => vec![path.to_owned()],
    }
}

fn double_colon(cursor: Cursor<'_>) -> Option<Cursor<'_>> {
    let colon = |cursor: Cursor<'_>| cursor.punct().is_some_and(|(punct, _)| punct.as_char() == ':');
    let rest = cursor.punct().filter(|_| colon(cursor))?.1;
    rest.punct().filter(|_| colon(rest)).map(|(_, rest)| rest)
}

fn any_ident(mut cursor: Cursor<'_>, word: &str) -> bool {
    while let Some((_, rest)) = cursor.token_tree() {
        let matches_token = cursor.ident().is_some_and(|(ident, _)| ident == word);
        let is_in_group = cursor.any_group().is_some_and(|(group, ..)| any_ident(group, word));
        if matches_token || is_in_group {
            return true;
        }
        cursor = rest;
    }
    false
}

/// Returns whether attributes restrict an item to tests: `#[test]`, or a `cfg` that requires `test`.
fn is_only_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args().is_ok_and(|condition: Meta| needs_test(&condition))
        }
        _ => false,
    })
}

fn needs_test(condition: &Meta) -> bool {
    let parts = |list: &syn::MetaList| -> Vec<Meta> {
        let parts =
            list.parse_args_with(syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated);
        parts.map(|parts| parts.into_iter().collect()).unwrap_or_default()
    };
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => parts(list).iter().any(needs_test),
        Meta::List(list) if list.path.is_ident("any") => {
            let parts = parts(list);
            !parts.is_empty() && parts.iter().all(needs_test)
        }
        _ => false,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        // An unknown kind of item counts as production code.
        _ => &[],
    }
}

/// Returns the name of a type with the visibility `pub` or `pub(crate)`.
fn public_type(item: &Item) -> Option<String> {
    let (visibility, name) = match item {
        Item::Enum(item) => (&item.vis, &item.ident),
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Trait(item) => (&item.vis, &item.ident),
        Item::Type(item) => (&item.vis, &item.ident),
        Item::Union(item) => (&item.vis, &item.ident),
        _ => return None,
    };
    match visibility {
        syn::Visibility::Public(_) => Some(name.to_string()),
        syn::Visibility::Restricted(within) if within.path.is_ident("crate") => Some(name.to_string()),
        _ => None,
    }
}
