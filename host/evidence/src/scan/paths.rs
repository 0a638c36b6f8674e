//! Paths: `(?:[\w.@~-]*/)+[\w.@-]+\.\w+|\b[\w-]+\.(?:py|ts|tsx|js|rs|go|md|json|toml|html|yml|yaml|sh|css|jsonl)\b`
//!
//! All characters of a path are in `[\w.@~/-]`, so the expression is applied to each run of these characters that has a
//! dot. That is much faster than a search in the whole text, and finds the same paths.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// `\w` as in Python: letters and numbers of any language, and `_`. Combining marks do not count.
const WORD: &str = r"\p{L}\p{N}_";

static RUN: LazyLock<Regex> = LazyLock::new(|| compile(&format!("[{WORD}.@~/-]+")));
static PATH: LazyLock<Regex> = LazyLock::new(|| {
    compile(&format!(
        r"(?:[{WORD}.@~-]*/)+[{WORD}.@-]+\.[{WORD}]+|\b[{WORD}-]+\.(?:py|ts|tsx|js|rs|go|md|json|toml|html|yml|yaml|sh|css|jsonl)\b"
    ))
});

fn compile(expression: &str) -> Regex {
    Regex::new(expression).expect("the expression is constant")
}

pub(super) fn for_each_path(text: &str, mut found: impl FnMut(Range<usize>)) {
    for run in RUN.find_iter(text) {
        // The shortest path is `a.c` with an ending of the list, or `/a.b`.
        if run.len() < 4 || !run.as_str().contains('.') {
            continue;
        }
        for path in PATH.find_iter(run.as_str()) {
            found(run.start() + path.start()..run.start() + path.end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // In the whole text, `\b` treats combining marks as word characters, and the expression does not. The test has
        // no combining mark next to a name.
        let whole: Vec<_> = PATH.find_iter(text).map(|path| path.as_str()).collect();
        assert_eq!(paths, whole);
    }
}
