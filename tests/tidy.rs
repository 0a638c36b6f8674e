//! The language of the project: comments, messages and documents are plain technical English.
//!
//! This test counts a few mannered constructions that make a text hard to read. The limit keeps them rare. A text
//! without a hit can still be unclear.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]
#![expect(clippy::print_stdout, reason = "`--nocapture` prints the counts")]

mod prose;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use prose::{Kind, Passage, Word};

/// The number of constructions per 10,000 words that each kind of text may have.
const BUDGET: f64 = 20.0;

/// The constructions, each with its forms. In a form, `/` separates alternatives, `^` requires the first word of a
/// sentence, `*` is any word, and `!x` is any word except `x`.
const CONSTRUCTIONS: [(&str, &[&str]); 11] = [
    ("opens with `What`", &["^what/whose *"]),
    ("`is no`", &["is/are/was/were no !longer"]),
    ("`behind`", &["behind"]),
    ("`lies`", &["lie/lies"]),
    (
        "`, for` as a reason",
        &[
            ", for a/the/it/its/they/that",
            ", for each/one/two/only",
            ", for there/what/who/else",
            ", for nobody/neither/others",
            ", for jp",
        ],
    ),
    ("`is told`", &["is/are/was/were told"]),
    ("`somebody`, `nobody`", &["somebody/nobody"]),
    ("`whoever`, `whatever`", &["whoever/whatever/whichever"]),
    ("`stands`", &["stand/stands"]),
    ("`anew`, `in vain`", &["anew/meanwhile", "all the same", "in vain", "as * has it"]),
    ("`comes of`", &["come/comes/came of", "become/becomes of"]),
];

/// Files that are not checked. This file has the constructions as data of its tests.
const UNCHECKED: [&str; 1] = ["tests/tidy.rs"];

/// A construction in a text.
struct Hit {
    name: &'static str,
    line: usize,
    text: String,
}

fn find_constructions(passage: &Passage) -> Vec<Hit> {
    let mut hits = Vec::new();
    for start in 0..passage.words.len() {
        let rest = &passage.words[start..];
        for (name, forms) in CONSTRUCTIONS {
            if forms.iter().any(|form| matches(form, rest)) && !is_question(rest) {
                let text: Vec<&str> = rest.iter().take(8).map(|word| word.text.as_str()).collect();
                hits.push(Hit { name, line: rest[0].line, text: text.join(" ") });
            }
        }
    }
    hits
}

fn matches(form: &str, words: &[Word]) -> bool {
    let mut words = words.iter();
    form.split(' ').all(|part| words.next().is_some_and(|word| matches_word(part, word)))
}

fn matches_word(part: &str, word: &Word) -> bool {
    if let Some(part) = part.strip_prefix('^') {
        return word.opens_sentence && matches_word(part, word);
    }
    match part.strip_prefix('!') {
        Some(other) => word.is_word() && word.text != other,
        None => part == "*" && word.is_word() || part.split('/').any(|form| form == word.text),
    }
}

/// Returns whether the first word opens a sentence that is a question.
fn is_question(words: &[Word]) -> bool {
    let end = words.iter().find(|word| [".", "?", "!", ";"].contains(&word.text.as_str()));
    words[0].opens_sentence && end.is_some_and(|end| end.text == "?")
}

/// Finds the files with an ending, except in `target` and in hidden folders other than `.github`.
fn collect_files(folder: &Path, ending: &str, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "target" && (!name.starts_with('.') || name == ".github") {
            collect_files(&path, ending, files);
        } else if name.ends_with(ending) {
            let path = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
            files.push(path.to_str().unwrap().to_owned());
        }
    }
}

fn passages(file: &str) -> Vec<Passage> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    if file.ends_with(".rs") { prose::rust(&text) } else { prose::markdown(&text) }
}

#[test]
fn prose_is_plain() {
    let mut files_to_read = Vec::new();
    collect_files(Path::new(env!("CARGO_MANIFEST_DIR")), ".rs", &mut files_to_read);
    collect_files(Path::new(env!("CARGO_MANIFEST_DIR")), ".md", &mut files_to_read);
    files_to_read.sort();
    files_to_read.retain(|file| !UNCHECKED.iter().any(|start| file.starts_with(start)));
    let mut counts_by_kind: BTreeMap<Kind, (usize, Vec<String>)> = BTreeMap::new();
    for file in files_to_read {
        for passage in passages(&file) {
            let (words, locations) = counts_by_kind.entry(passage.kind).or_default();
            *words += passage.words.iter().filter(|word| word.is_word()).count();
            let describe = |hit: Hit| format!("{file}:{}: {}: {}", hit.line, hit.name, hit.text);
            locations.extend(find_constructions(&passage).into_iter().map(describe));
        }
    }
    let mut excess = String::new();
    for kind in [Kind::Comment, Kind::Literal, Kind::Markdown] {
        let (words, locations) = &counts_by_kind[&kind];
        let rate = 1e4 * locations.len() as f64 / *words as f64;
        println!(
            "{kind:?}: {} in {words} words, {rate:.0} per 10,000, {BUDGET} are allowed",
            locations.len()
        );
        if rate > BUDGET {
            excess += &format!("\n{kind:?}: {rate:.0} per 10,000\n  {}\n", worst(locations).join("\n  "));
        }
    }
    assert!(excess.is_empty(), "{excess}");
}

/// Returns the locations in the files with the most constructions, at most 100.
fn worst(locations: &[String]) -> Vec<&str> {
    let file = |location: &str| location.split(':').next().unwrap_or_default().to_owned();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for location in locations {
        *counts.entry(file(location)).or_default() += 1;
    }
    let mut worst: Vec<&str> = locations.iter().map(String::as_str).collect();
    worst.sort_by_key(|location| std::cmp::Reverse(counts[&file(location)]));
    worst.truncate(100);
    worst
}

/// Compares the lines and names of the constructions in a Rust source.
#[track_caller]
fn check(text: &str, expect: &[(usize, &str)]) {
    let found: Vec<(usize, &str)> =
        prose::rust(text).iter().flat_map(find_constructions).map(|hit| (hit.line, hit.name)).collect();
    assert_eq!(found, expect, "{text}");
}

#[test]
fn each_construction_is_found() {
    let check = |text: &str, name: &str| check(&format!("/// {text}"), &[(1, name)]);
    check("What is wrong is reported.", "opens with `What`");
    check("Then: What comes next.", "opens with `What`");
    check("A pipe is no file.", "`is no`");
    check("The text behind it.", "`behind`");
    check("It lies in the folder.", "`lies`");
    check("Left out, for it is long.", "`, for` as a reason");
    check("The user is told.", "`is told`");
    check("This is nobody's file.", "`somebody`, `nobody`");
    check("Reads whatever there is.", "`whoever`, `whatever`");
    check("The name stands first.", "`stands`");
    check("It tries in vain.", "`anew`, `in vain`");
    check("Reports what becomes of it.", "`comes of`");
}

#[test]
fn plain_sentences_are_accepted() {
    check("/// It is no longer open.", &[]);
    check("/// There are none.", &[]);
    check("/// Returns what it reads, for example a line.", &[]);
    check("// What is this? A question.", &[]);
    check("/// It cites `is no`.", &[]);
    check("/// It cites \"nobody\".", &[]);
    check("/// ```\n/// nobody();\n/// ```", &[]);
    check("let nobody = stands;", &[]);
    check("fn f(it: &'static str) -> char { '\"' } // plain, and not a literal: '", &[]);
}

#[test]
fn constructions_are_found_in_all_kinds_of_text() {
    check("let a = 1; // It is\n// no file.\n", &[(1, "`is no`")]);
    check("//! A\n//!\n//! It lies.\n", &[(3, "`lies`")]);
    check("f(\"it is no file\");", &[(1, "`is no`")]);
    check("f(\n\"{a} \\\"{b}\\\" is no file\")", &[(2, "`is no`")]);
    check("r#\"a b c\nnobody\"# // nobody", &[(2, "`somebody`, `nobody`"), (2, "`somebody`, `nobody`")]);
    check("f(\"nobody\");", &[]);
    check("r#\"{\"a\": \"it is no b\"}\"#", &[]);
    let check = |text: &str, expect: &[usize]| {
        let found: Vec<usize> =
            prose::markdown(text).iter().flat_map(find_constructions).map(|hit| hit.line).collect();
        assert_eq!(found, expect, "{text}");
    };
    check("# It is no title\n", &[1]);
    check("- One.\n- Nobody.\n", &[2]);
    check("```\nnobody\n```\n", &[]);
    check("> nobody\n", &[]);
}
