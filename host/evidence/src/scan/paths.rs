//! Paths: `(?:[\w.@~-]*/)+[\w.@-]+\.\w+|\b[\w-]+\.(?:py|ts|tsx|js|rs|go|md|json|toml|html|yml|yaml|sh|css|jsonl)\b`
//!
//! All characters of a path are in `[\w.@~/-]`, so the expression is applied to each run of these characters. Few runs
//! can contain a path, and only these are searched: they have a dot, and a slash or a known ending. That is much faster
//! than a search in the whole text, and finds the same paths.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// `\w` as in Python: letters and numbers of any language, and `_`. Combining marks do not count.
const WORD: &str = r"\p{L}\p{N}_";

const ENDINGS: [&str; 15] =
    ["py", "ts", "tsx", "js", "rs", "go", "md", "json", "toml", "html", "yml", "yaml", "sh", "css", "jsonl"];

/// [`WORD`] in ASCII.
const ASCII_WORD: &str = "0-9A-Z_a-z";

static RUN_CHARACTER: LazyLock<Regex> = LazyLock::new(|| compile(&format!("^[{WORD}]$")));
static PATH: LazyLock<Regex> = LazyLock::new(|| compile(&path_expression(WORD, r"\b")));
/// The same for runs in ASCII. Most runs are in ASCII, and this expression compiles much faster.
static ASCII_PATH: LazyLock<Regex> = LazyLock::new(|| compile(&path_expression(ASCII_WORD, r"(?-u:\b)")));

fn path_expression(word: &str, boundary: &str) -> String {
    let endings = ENDINGS.join("|");
    format!(r"(?:[{word}.@~-]*/)+[{word}.@-]+\.[{word}]+|{boundary}[{word}-]+\.(?:{endings}){boundary}")
}

fn compile(expression: &str) -> Regex {
    Regex::new(expression).expect("the expression is constant")
}

pub(super) fn for_each_path(text: &str, mut found: impl FnMut(Range<usize>)) {
    let mut searched = 0;
    for dot in memchr::memchr_iter(b'.', text.as_bytes()) {
        if dot < searched {
            continue;
        }
        let run = run_around(text, searched, dot);
        searched = run.end;
        if may_contain_path(&text.as_bytes()[run.clone()]) {
            let text = &text[run.clone()];
            let expression = if text.is_ascii() { &*ASCII_PATH } else { &*PATH };
            for path in expression.find_iter(text) {
                found(run.start + path.start()..run.start + path.end());
            }
        }
    }
}

/// Returns the run of path characters around a dot. It begins at `start` or later.
fn run_around(text: &str, start: usize, dot: usize) -> Range<usize> {
    let before = text[start..dot].chars().rev().take_while(|character| is_in_run(*character));
    let after = text[dot..].chars().take_while(|character| is_in_run(*character));
    dot - before.map(char::len_utf8).sum::<usize>()..dot + after.map(char::len_utf8).sum::<usize>()
}

fn is_in_run(character: char) -> bool {
    match character {
        '.' | '@' | '~' | '/' | '-' | '_' => true,
        character if character.is_ascii() => character.is_ascii_alphanumeric(),
        // A superset: it includes combining marks.
        character if !character.is_alphanumeric() => false,
        character => RUN_CHARACTER.is_match(character.encode_utf8(&mut [0; 4])),
    }
}

/// Returns whether a run has a slash, or a dot before the letters of a known ending.
fn may_contain_path(run: &[u8]) -> bool {
    let is_ending = |dot: usize| ENDINGS.iter().any(|ending| run[dot + 1..].starts_with(ending.as_bytes()));
    run.contains(&b'/') || memchr::memchr_iter(b'.', run).any(is_ending)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Searches every run with a dot.
    fn paths_of_all_runs(text: &str) -> Vec<Range<usize>> {
        static RUN: LazyLock<Regex> = LazyLock::new(|| compile(&format!("[{WORD}.@~/-]+")));
        let runs = RUN.find_iter(text).filter(|run| run.as_str().contains('.'));
        runs.flat_map(|run| {
            let paths = PATH.find_iter(run.as_str());
            paths.map(move |path| run.start() + path.start()..run.start() + path.end())
        })
        .collect()
    }

    proptest! {
        #[test]
        fn skipped_runs_have_no_path(
            text in "([a-c.@~/_-]{0,6}(\\.(js|json|jsx|rs|md|yam|yaml|tar)|[ (:\u{e9}\u{301}\u{4f60}\u{2160}\u{b2}./])){0,12}",
        ) {
            let mut paths = Vec::new();
            for_each_path(&text, |path| paths.push(path));
            prop_assert_eq!(paths, paths_of_all_runs(&text));
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let mut paths = Vec::new();
        for_each_path(text, |span| paths.push(&text[span]));
        assert_eq!(paths, expected, "{text}");
    }

    #[test]
    fn paths_have_a_slash_or_a_known_ending() {
        check("see src/main.rs:12 and ./a/b.c", &["src/main.rs", "./a/b.c"]);
        check("main.rs Cargo.toml notes.txt x.exe", &["main.rs", "Cargo.toml"]);
        check("~/x/y.tar.gz", &["~/x/y.tar.gz"]);
        check("/usr/bin/env no/dot", &[]);
        check("https://a.b/c/d.html?x=1", &["//a.b/c/d.html"]);
        check("a.js", &["a.js"]);
        check("\u{e9}t\u{e9}/na\u{ef}ve.py", &["\u{e9}t\u{e9}/na\u{ef}ve.py"]);
        check("package.json5 x.json.", &["x.json"]);
        check("@scope/pkg.name", &["@scope/pkg.name"]);
        check("main.tsx main.tsxx", &["main.tsx"]);
        check("a-b.py --x.py", &["a-b.py", "x.py"]);
        check("/a.b", &["/a.b"]);
    }

    #[test]
    fn search_in_runs_equals_search_in_the_whole_text() {
        let text =
            "x\u{301}/a.b, b/c.d(e.rs) \u{4f60}/\u{597d}.md f/.g/h. ../i.j k//l.m -n.py ~o/p.q r@s/t.u v.go.";
        let mut paths = Vec::new();
        for_each_path(text, |span| paths.push(&text[span]));
        // `\b` treats combining marks as word characters, and [`WORD`] does not. This could change the result in the
        // whole text, so the test has no combining mark next to a name.
        let whole: Vec<_> = PATH.find_iter(text).map(|path| path.as_str()).collect();
        assert_eq!(paths, whole);
    }
}
