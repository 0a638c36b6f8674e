//! Names in texts: paths and error codes. PROTOCOL.md, "Kept verbatim", defines the rules.

/// A name without a slash is a path if it has one of these extensions.
const EXTENSIONS: [&str; 15] =
    ["py", "ts", "tsx", "js", "rs", "go", "md", "json", "toml", "html", "yml", "yaml", "sh", "css", "jsonl"];
/// The words that mark a line about an error.
const ERROR_WORDS: [&str; 4] = ["error", "failed", "panicked", "traceback"];
/// The error names of operating systems and package managers.
const SYSTEM_ERRORS: [&str; 36] = [
    "EACCES",
    "EADDRINUSE",
    "EAGAIN",
    "EBADF",
    "EBUSY",
    "ECONNABORTED",
    "ECONNREFUSED",
    "ECONNRESET",
    "EDQUOT",
    "EEXIST",
    "EFAULT",
    "EHOSTUNREACH",
    "EINTEGRITY",
    "EINTR",
    "EINVAL",
    "EISDIR",
    "ELOOP",
    "EMFILE",
    "ENAMETOOLONG",
    "ENETUNREACH",
    "ENFILE",
    "ENOENT",
    "ENOEXEC",
    "ENOMEM",
    "ENOSPC",
    "ENOSYS",
    "ENOTCONN",
    "ENOTDIR",
    "ENOTEMPTY",
    "ENOTFOUND",
    "EPERM",
    "EPIPE",
    "ERESOLVE",
    "EROFS",
    "ETIMEDOUT",
    "EXDEV",
];

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the number of bytes of word characters at the start of a text.
fn word_end(text: &str) -> usize {
    text.find(|c| !is_word(c)).unwrap_or(text.len())
}

/// Returns the paths in a text, in order.
pub(super) fn paths(text: &str) -> impl Iterator<Item = &str> {
    runs_with_dot(text).flat_map(paths_in_run)
}

/// Returns the runs of path characters that contain a dot. Most text has no dot and is skipped fast.
fn runs_with_dot(text: &str) -> impl Iterator<Item = &str> {
    let is_outside = |c: char| !is_word(c) && !['.', '@', '~', '-', '/'].contains(&c);
    let mut rest = text;
    std::iter::from_fn(move || {
        let dot = rest.find('.')?;
        let before = rest[..dot].char_indices().rev().find(|(_, c)| is_outside(*c));
        let start = before.map_or(0, |(at, c)| at + c.len_utf8());
        let end = rest[dot..].find(is_outside).map_or(rest.len(), |length| dot + length);
        let (run, others) = (&rest[start..end], &rest[end..]);
        rest = others;
        Some(run)
    })
}

/// Returns the paths in a run of path characters.
fn paths_in_run(run: &str) -> impl Iterator<Item = &str> {
    let mut rest = run;
    std::iter::from_fn(move || {
        let (start, end) = with_folder(rest).or_else(|| with_extension(rest))?;
        let path = &rest[start..end];
        rest = &rest[end..];
        Some(path)
    })
}

/// Finds a path with a slash: the longest one that ends with a dot and a word.
fn with_folder(run: &str) -> Option<(usize, usize)> {
    let slashes = run.rmatch_indices('/').map(|(slash, _)| slash + 1);
    slashes.filter_map(|start| Some((0, start + file_end(&run[start..])?))).next()
}

/// Returns the end of a file name, which has at least one character, a dot, and a word.
fn file_end(segment: &str) -> Option<usize> {
    let name = &segment[..segment.find(['/', '~']).unwrap_or(segment.len())];
    let dots = name.rmatch_indices('.').map(|(dot, _)| dot);
    dots.filter(|dot| *dot > 0).find_map(|dot| {
        let word = word_end(&name[dot + 1..]);
        (word > 0).then_some(dot + 1 + word)
    })
}

/// Finds a file name with a known extension.
fn with_extension(run: &str) -> Option<(usize, usize)> {
    run.match_indices('.').find_map(|(dot, _)| {
        let extension = &run[dot + 1..][..word_end(&run[dot + 1..])];
        if !EXTENSIONS.contains(&extension) {
            return None;
        }
        let start = run[..dot]
            .rfind(|c| !is_word(c) && c != '-')
            .map_or(0, |before| before + run[before..].chars().next().map_or(1, char::len_utf8));
        let stem = run[start..dot].trim_start_matches('-');
        (!stem.is_empty()).then_some((dot - stem.len(), dot + 1 + extension.len()))
    })
}

/// Returns the error codes in the output of a tool, in order. Lines that report no error are skipped.
pub(super) fn error_codes(output: &str, is_error: bool) -> impl Iterator<Item = &str> {
    // Most output reports no error, so its lines are not read one by one.
    let output = if is_error || has_error_word(output) { output } else { "" };
    let words = |line| str::split(line, |c| !is_word(c));
    let lines = output.lines().filter(move |line| is_error || has_error_word(line));
    lines.flat_map(words).filter(|word| is_error_code(word))
}

fn has_error_word(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    ERROR_WORDS.iter().any(|word| lower.contains(word))
}

/// Returns whether a word is a code, such as `E0308`, `TS2322`, or `ENOENT`: one to five capital letters and three to five
/// digits, or the name of a system error.
fn is_error_code(word: &str) -> bool {
    let letters = word.bytes().take_while(u8::is_ascii_uppercase).count();
    let digits = &word.as_bytes()[letters..];
    let is_numbered = (1..=5).contains(&letters)
        && (3..=5).contains(&digits.len())
        && digits.iter().all(u8::is_ascii_digit);
    is_numbered || SYSTEM_ERRORS.contains(&word)
}

/// Returns whether a text contains this whole word. A part of a longer word does not count.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(start, _)| {
        !text[..start].ends_with(is_word) && !text[start + word.len()..].starts_with(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_paths(text: &str, expected: &[&str]) {
        assert_eq!(paths(text).collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn finds_paths() {
        check_paths("see `src/a.rs:10` and (/etc/my.conf).", &["src/a.rs", "/etc/my.conf"]);
        check_paths("./a/b.tar.gz, ../x.y ~/z.txt", &["./a/b.tar.gz", "../x.y", "~/z.txt"]);
        check_paths("README.md main.py foo.test.ts", &["README.md", "main.py", "test.ts"]);
        check_paths("src/a.rs/ a.b/c src/lib a/.gitignore", &["src/a.rs"]);
        check_paths("v1.2 e.g. a.rsx .rs -.rs x.unknown", &[]);
        check_paths("-f.rs @g.rs h.py.rs", &["f.rs", "g.rs", "h.py"]);
        check_paths("src/größe.rs/ü.md", &["src/größe.rs/ü.md"]);
        check_paths("a/b.rs~c/d e/f.", &["a/b.rs"]);
        check_paths("main.tsx main.tsxx package.json5 x.json.", &["main.tsx", "x.json"]);
        check_paths("https://a.b/c/d.html?x=1 @scope/pkg.name", &["//a.b/c/d.html", "@scope/pkg.name"]);
        check_paths(
            "b/c.d(e.rs) f/.g/h. k//l.m ~o/p.q r@s/t.u",
            &["b/c.d", "e.rs", "k//l.m", "~o/p.q", "r@s/t.u"],
        );
    }

    #[track_caller]
    fn check_codes(output: &str, is_error: bool, expected: &[&str]) {
        assert_eq!(error_codes(output, is_error).collect::<Vec<_>>(), expected, "{output}");
    }

    #[test]
    fn finds_codes_of_errors() {
        check_codes("error[E0308]: mismatched types\n  in E0001", false, &["E0308"]);
        check_codes("a.ts(1,2): error TS2322: x", false, &["TS2322"]);
        check_codes("open: ENOENT", true, &["ENOENT"]);
        check_codes("open: ENOENT\nERROR at TOOLONG1234 in HTTP2 ok", false, &[]);
    }

    #[test]
    fn words_are_found_whole() {
        assert!(has_word("see E0308.", "E0308") && !has_word("E03081", "E0308"));
    }
}
