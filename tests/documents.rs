//! Tests of the documents against the repository and the program: links and anchors exist, and reference pages list
//! what the program has. A document must not cite a document that is not in the repository.
#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Text files that may cite a document.
const EXTENSIONS: [&str; 9] = ["md", "rs", "py", "toml", "c", "h", "sh", "mjs", "yml"];
/// The sections of a decision, in order.
const SECTIONS: [&str; 4] = ["Context", "Decision", "Consequences", "Alternatives"];
/// Words in capitals that look like the name of a document, but are not.
const NOT_DOCUMENTS: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "SKILL.md"];

/// A text file of the repository, by its path below the root.
struct Document {
    path: String,
    text: String,
}

/// Returns every text file of the project, except in generated folders.
fn documents() -> Vec<Document> {
    let mut documents = Vec::new();
    let mut folders = vec![PathBuf::from(ROOT)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = entry.file_name().into_string().unwrap();
            if path.is_dir() {
                let is_ours = ![".git", "target", "node_modules", "__pycache__"].contains(&&*name)
                    && !path.join("CACHEDIR.TAG").exists();
                folders.extend(is_ours.then_some(path));
            } else if path
                .extension()
                .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
                || path.parent().is_some_and(|folder| folder.file_name().is_some_and(|name| name == ".ci"))
            {
                let relative = path.strip_prefix(ROOT).unwrap().to_str().unwrap().to_owned();
                documents
                    .extend(fs::read_to_string(&path).ok().map(|text| Document { path: relative, text }));
            }
        }
    }
    assert!(documents.len() > 300, "only {} files were found", documents.len());
    documents
}

/// Returns the lines of a Markdown text that are not in a fenced block.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

/// Returns the anchors of a Markdown text, as GitHub derives them from its headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut counts = BTreeMap::new();
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings
        .map(|heading| {
            let heading = heading.trim_start_matches('#').trim().to_lowercase();
            let characters = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            let anchor: String = characters.map(|c| if c == ' ' { '-' } else { c }).collect();
            let count = counts.entry(anchor.clone()).or_insert(0);
            *count += 1;
            if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
        })
        .collect()
}

/// Returns a path without `.` and `..`.
fn normalize(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normalized.pop()),
            Component::CurDir => {}
            other => normalized.push(other),
        }
    }
    normalized
}

/// Returns the error of a link, if there is one. `target` is relative to `folder`, and may have an anchor. A target
/// without a file is an anchor in `own_text`.
fn link_error(folder: &Path, own_text: &str, target: &str) -> Option<String> {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let text = if file.is_empty() {
        own_text.to_owned()
    } else {
        let path = Path::new(ROOT).join(normalize(&folder.join(file)));
        if !path.exists() {
            return Some(format!("{target} does not exist"));
        }
        match anchor {
            Some(_) => fs::read_to_string(path).ok()?,
            None => return None,
        }
    };
    let anchor = anchor?;
    (!anchors(&text).contains(anchor)).then(|| format!("{target} has no such heading"))
}

#[track_caller]
fn assert_none(violations: impl IntoIterator<Item = String>) {
    let violations: Vec<String> = violations.into_iter().collect();
    assert!(violations.is_empty(), "\n  {}\n", violations.join("\n  "));
}

/// Returns the targets of the links in a line of Markdown.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.split("](").skip(1).filter_map(|link| link.split(')').next());
    let defined =
        line.strip_prefix('[').and_then(|line| line.split_once("]: ")).map(|(_, target)| target.trim());
    inline.chain(defined)
}

#[test]
fn links_in_markdown_exist() {
    let mut count = 0;
    let mut violations = Vec::new();
    for Document { path, text } in documents().iter().filter(|document| document.path.ends_with(".md")) {
        let folder = Path::new(path).parent().unwrap();
        for target in prose(text).flat_map(links).filter(|target| !target.contains("://")) {
            count += 1;
            violations.extend(link_error(folder, text, target).map(|error| format!("{path}: {error}")));
        }
    }
    assert!(count > 40, "only {count} links were found");
    assert_none(violations);
}

#[test]
fn citations_of_documents_exist() {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '#');
    let mut count = 0;
    let mut violations = Vec::new();
    for Document { path, text } in documents() {
        for (start, _) in text.match_indices("docs/") {
            let is_start = !text[..start].ends_with(|c: char| is_part(c));
            let end = text[start..].find(|c| !is_part(c)).map_or(text.len(), |length| start + length);
            let target = text[start..end].trim_end_matches('.');
            if is_start && (target.contains(".md") || target.ends_with('/')) {
                count += 1;
                violations
                    .extend(link_error(Path::new(""), "", target).map(|error| format!("{path}: {error}")));
            }
        }
    }
    assert!(count > 10, "only {count} citations were found");
    assert_none(violations);
}

/// Returns the words of a text that look like the name of a document: `NAME.md`, or `NAME, "Section"` in capitals.
fn cited_names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let mut names = BTreeSet::new();
    for (end, _) in text.match_indices(".md") {
        let start = text[..end].rfind(|c| !is_part(c)).map_or(0, |before| before + 1);
        if end > start + 2 && !text[..start].ends_with('/') {
            names.insert(format!("{}.md", &text[start..end]));
        }
    }
    for (end, _) in text.match_indices(", \"") {
        let start = text[..end].rfind(|c| !is_part(c)).map_or(0, |before| before + 1);
        let name = &text[start..end];
        let is_in_comment =
            text[..end].rfind('\n').map_or(text, |line| &text[line + 1..]).trim_start().starts_with("//");
        if is_in_comment && name.len() > 3 && name.chars().all(|c| c.is_ascii_uppercase() || c == '-') {
            names.insert(format!("{name}.md"));
        }
    }
    names
}

#[test]
fn cited_documents_are_in_the_repository() {
    let documents = documents();
    let names: BTreeSet<&str> =
        documents.iter().filter_map(|document| Path::new(&document.path).file_name()?.to_str()).collect();
    assert_none(documents.iter().filter(|document| document.path != "tests/documents.rs").flat_map(
        |document| {
            let missing = cited_names(&document.text).into_iter();
            let missing =
                missing.filter(|name| !names.contains(&**name) && !NOT_DOCUMENTS.contains(&&**name));
            missing.map(|name| format!("{} cites {name}", document.path))
        },
    ));
}

#[test]
fn cited_rfds_have_an_address() {
    let store = fs::read_to_string(Path::new(ROOT).join("docs/reference/store.md")).unwrap();
    let mut violations = BTreeSet::new();
    for Document { path, text } in documents() {
        for (start, _) in text.match_indices("RFD ") {
            let number: String = text[start + 4..].chars().take_while(char::is_ascii_alphanumeric).collect();
            let is_number = number.len() == 3 && number.ends_with(|c: char| c.is_ascii_digit());
            let is_listed = store
                .lines()
                .any(|line| line.starts_with(&format!("| RFD {number} |")) && line.contains("https://"));
            if is_number && !is_listed {
                violations.insert(format!("{path} cites RFD {number}"));
            }
        }
    }
    assert_none(violations);
}

#[test]
fn decisions_follow_the_template() {
    let mut numbers = Vec::new();
    let mut violations = Vec::new();
    for Document { path, text } in documents() {
        let Some(name) = path.strip_prefix("docs/decisions/") else { continue };
        let number = &name[..4];
        numbers.push(number.parse::<usize>().unwrap());
        let headings: Vec<_> = prose(&text).filter_map(|line| line.strip_prefix("## ")).collect();
        let has_head = text.starts_with(&format!("# {number}: ")) && text.contains("\n- **Status**: ");
        if !has_head || !text.contains("\n- **Date**: ") || headings != SECTIONS {
            violations.push(path);
        }
    }
    assert_none(violations);
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>(), "decisions are numbered without gaps");
}

#[test]
fn architecture_is_short() {
    let bytes = fs::metadata(Path::new(ROOT).join("ARCHITECTURE.md")).unwrap().len();
    assert!(bytes <= 10 << 10, "{bytes} bytes");
}

#[test]
fn paths_in_architecture_exist() {
    let text = fs::read_to_string(Path::new(ROOT).join("ARCHITECTURE.md")).unwrap();
    let documents = documents();
    let exists = |path: &str| {
        let is_suffix = |document: &Document| document.path.ends_with(&format!("/{path}"));
        Path::new(ROOT).join(path).exists() || documents.iter().any(is_suffix)
    };
    let paths = text.lines().flat_map(quoted).filter(|path| path.ends_with(".rs") || path.ends_with('/'));
    assert_none(paths.filter(|path| !path.contains('*') && !exists(path)));
}

#[test]
fn dependencies_are_listed() {
    let manifest = fs::read_to_string(Path::new(ROOT).join("Cargo.toml")).unwrap();
    let dependencies =
        manifest.split_once("[workspace.dependencies]\n").unwrap().1.split("\n[").next().unwrap();
    let names = dependencies.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
    let page = page("dependencies.md");
    let words: BTreeSet<_> = page.split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_'))).collect();
    assert_none(
        names
            .filter(|name| !name.starts_with("jp-compact") && !words.contains(name))
            .map(|name| format!("{name} has no reason")),
    );
}

/// Returns a page of the reference.
fn page(name: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join("docs/reference").join(name)).unwrap()
}

/// Creates a home folder with one conversation.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let conversation = home.path().join("17738399468-sample");
    fs::create_dir(&conversation).unwrap();
    for file in ["events.json", "base_config.json", "metadata.json"] {
        fs::copy(Path::new(ROOT).join("tests/sample").join(file), conversation.join(file)).unwrap();
    }
    home
}

fn jp_compact(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin("jp-compact"));
    command.env_clear().env("HOME", home).current_dir(home).args(arguments).output().unwrap()
}

/// Returns the rows of the first table under a heading, as cells.
fn table<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let section =
        page.split(&format!("\n{heading}\n")).nth(1).unwrap_or_else(|| panic!("{heading} is missing"));
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.split('|').skip(1).map(str::trim).collect()).collect()
}

/// Returns the names in backticks.
fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn lint_rules_have_a_heading_each() {
    let source =
        documents().into_iter().find(|document| document.path.ends_with("/src/lint/mod.rs")).unwrap();
    let variants = source.text.split_once("pub enum Rule {").unwrap().1.split_once('}').unwrap().0;
    let rules: Vec<_> =
        variants.lines().filter_map(|line| line.trim().strip_suffix(',')).map(str::to_lowercase).collect();
    assert!(rules.len() > 20);
    let page = page("lint-rules.md");
    let headings = anchors(&page);
    assert_none(
        rules.iter().filter(|rule| !headings.contains(*rule)).map(|rule| format!("{rule} has no heading")),
    );
    let documented = page.lines().filter(|line| line.starts_with("### ")).count();
    assert_eq!(documented, rules.len(), "a heading is not a rule");
}

#[test]
fn formats_have_a_heading_each() {
    let home = home();
    let help = String::from_utf8(jp_compact(home.path(), &["show", "--help"]).stdout).unwrap();
    let names = help.split_once("--format").unwrap().1.split_once("[possible values: ").unwrap().1;
    let names = names.split_once(']').unwrap().0.split_whitespace().map(|name| name.trim_end_matches(','));
    let headings = anchors(&page("formats.md"));
    assert_none(names.filter(|name| !headings.contains(*name)).map(|name| format!("{name} has no heading")));
}

/// Returns the section of the configuration that a heading names, with examples instead of placeholders.
fn section_of(heading: &str) -> String {
    let key = heading.trim_start_matches('#').trim().trim_matches('`');
    key.replace("\"PROVIDER/NAME\"", "\"a/b\"").replace("NAME", "x")
}

#[test]
fn configuration_lists_every_key_with_its_default() {
    let (home, page) = (home(), page("configuration.md"));
    let built_in = jp_compact(home.path(), &["config", "--json"]);
    let built_in: Value = serde_json::from_slice(&built_in.stdout).unwrap();
    let mut violations = Vec::new();
    let headings: Vec<&str> =
        page.lines().filter(|line| line.starts_with('#') && line.trim_end().ends_with('`')).collect();
    assert!(headings.len() >= 8);
    for heading in headings {
        let section = section_of(heading);
        let set = format!("{section}.no_such_key=1");
        let stderr = String::from_utf8(jp_compact(home.path(), &["config", "--set", &set]).stderr).unwrap();
        let known_keys =
            stderr.split_once("expected").map(|(_, known_keys)| quoted(known_keys.lines().next().unwrap()));
        let rows = table(&page, heading);
        let listed_keys: BTreeSet<_> = rows.iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
        if known_keys.as_ref() != Some(&listed_keys) {
            violations.push(format!("{heading} lists {listed_keys:?}, and the program has {known_keys:?}"));
        }
        for row in &rows {
            let key = format!("{section}.{}", row[0].trim_matches('`'));
            let default = key.split('.').try_fold(&built_in["config"], |value, name| value.get(name));
            let default = default.filter(|value| !value.is_object()).map(|value| format!("`{value}`"));
            if row[1].starts_with('`') && default.as_deref() != Some(row[1]) {
                violations.push(format!("the default of {key} is {default:?}, not {}", row[1]));
            } else if !row[1].starts_with('`') && default.is_some() {
                violations.push(format!("{key} has the default {default:?}"));
            }
            if let Some(example) = row[2].strip_prefix('`') {
                // A profile that only keeps turns is an error, so the example is added to a built-in profile.
                let key = key.replace(".profiles.x.", ".profiles.light.");
                let set = format!("{key}={}", example.trim_matches('`'));
                let output = jp_compact(home.path(), &["config", "--set", &set]);
                if !output.status.success() {
                    violations.push(format!("{set}: {}", String::from_utf8_lossy(&output.stderr)));
                }
            }
        }
    }
    assert_none(violations);
}

/// Compares the members of a document with the table under its heading.
#[track_caller]
fn check_members(page: &str, heading: &str, document: &Value) {
    let listed_members: BTreeSet<_> =
        table(page, &format!("## {heading}")).iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    let members: BTreeSet<_> =
        document.as_object().unwrap_or_else(|| panic!("{heading}: {document}")).keys().cloned().collect();
    assert_eq!(listed_members, members, "{heading}");
}

#[test]
fn json_page_lists_every_schema_and_the_shared_members() {
    let (home, page) = (home(), page("json.md"));
    let listed: BTreeSet<_> =
        table(&page, "## Documents").iter().map(|row| row[1].trim_matches('`').to_owned()).collect();
    let schemas = fs::read_dir(Path::new(ROOT).join("schema/json")).unwrap();
    let schemas = schemas.map(|file| file.unwrap().file_name().into_string().unwrap());
    let schemas: BTreeSet<_> =
        schemas.map(|name| name.strip_suffix(".schema.json").unwrap().to_owned()).collect();
    assert_eq!(listed, schemas);
    let shown = jp_compact(home.path(), &["show", "17738399468-sample", "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    check_members(&page, "Tokens", &shown["tokens"]);
    check_members(&page, "Savings", &shown["saved"]);
    let failed = jp_compact(home.path(), &["./missing", "--json"]);
    let failed: Value = serde_json::from_slice(&failed.stdout).unwrap();
    check_members(&page, "Errors", &failed["error"]);
}
