//! Names in a text: paths, numbers of at least three digits, and identifiers with an underscore or a capital letter
//! inside.
//!
//! Prose, commands, and errors are not names. The module `lines` keeps errors, and the module `prose` keeps lines of
//! prose.

/// File name endings of paths without a folder.
const ENDINGS: [&str; 15] =
    ["py", "ts", "tsx", "js", "rs", "go", "md", "json", "toml", "html", "yml", "yaml", "sh", "css", "jsonl"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameKind {
    Path,
    Number,
    Identifier,
}

/// Calls `found` with each name of the text. The names of one kind are in order.
pub(crate) fn for_each_name<'a>(text: &'a str, mut found: impl FnMut(NameKind, &'a str)) {
    for run in runs(text, is_path_char) {
        paths(run, |path| found(NameKind::Path, path));
    }
    let mut before = None;
    for (start, word) in word_runs(text) {
        if word.len() >= 3 {
            if is_identifier(word) {
                found(NameKind::Identifier, word);
            } else if word.bytes().all(|byte| byte.is_ascii_digit()) && before != Some((start, '.')) {
                found(NameKind::Number, with_fraction(text, start, word));
            }
        }
        let end = start + word.len();
        before = text[end..].chars().next().map(|next| (end + next.len_utf8(), next));
    }
}

fn is_word_char(char: char) -> bool {
    char == '_' || char.is_alphanumeric()
}

fn is_path_char(char: char) -> bool {
    is_word_char(char) || matches!(char, '.' | '@' | '~' | '-' | '/')
}

/// Splits a text into the longest runs of these characters.
fn runs(text: &str, accepts: fn(char) -> bool) -> impl Iterator<Item = &str> {
    text.split(move |char| !accepts(char)).filter(|run| !run.is_empty())
}

/// Returns the words of a text with their positions.
fn word_runs(text: &str) -> impl Iterator<Item = (usize, &str)> {
    runs(text, is_word_char).map(|word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
}

/// Returns whether a word is `snake_case`, `camelCase`, or `PascalCase` with at least two parts.
fn is_identifier(word: &str) -> bool {
    let count =
        |text: &str, accepts: fn(char) -> bool| text.chars().take_while(|char| accepts(*char)).count();
    let lower = |char: char| char.is_ascii_lowercase();
    let upper = |text: &str| text.starts_with(|char: char| char.is_ascii_uppercase());
    let first = count(word, lower);
    if first > 0 {
        let rest = &word[first..];
        if let Some(part) = rest.strip_prefix('_') {
            let is_part = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_';
            return part.len() >= 3 && part.chars().all(is_part);
        }
        return upper(rest) && rest[1..].chars().count() >= 3;
    }
    if !upper(word) {
        return false;
    }
    let second = count(&word[1..], lower);
    let rest = &word[1 + second..];
    second > 0 && upper(rest) && rest[1..].chars().count() >= 2
}

/// Extends a number by its fraction, if the fraction has a digit and no word character follows its digits.
fn with_fraction<'a>(text: &'a str, start: usize, digits: &'a str) -> &'a str {
    let end = start + digits.len();
    let Some(fraction) = text[end..].strip_prefix('.') else { return digits };
    let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
    let is_followed = fraction[length..].starts_with(is_word_char);
    if length == 0 || is_followed { digits } else { &text[start..=end + length] }
}

/// Calls `found` with each path in a run of path characters: folders and a file name with an ending, or a file name
/// with a known ending.
fn paths<'a>(run: &'a str, mut found: impl FnMut(&'a str)) {
    let mut rest = run;
    while let Some(end) = folder_path_end(rest) {
        found(&rest[..end]);
        rest = &rest[end..];
    }
    for part in rest.split(|char: char| !(is_word_char(char) || matches!(char, '.' | '-'))) {
        file_names(part, &mut found);
    }
}

/// Returns the end of the longest path with a folder that begins where the run begins.
fn folder_path_end(run: &str) -> Option<usize> {
    let mut end = run.len();
    loop {
        let slash = run[..end].rfind('/')?;
        if let Some(length) = name_with_ending(&run[slash + 1..end]) {
            return Some(slash + 1 + length);
        }
        end = slash;
    }
}

/// Returns the length of a file name with an ending: the longest one that begins where the segment begins.
fn name_with_ending(segment: &str) -> Option<usize> {
    let name = segment.split('~').next().unwrap_or_default();
    let mut dots = name.match_indices('.').map(|(dot, _)| dot).filter(|&dot| dot > 0);
    let ending =
        |dot: usize| name[dot + 1..].split(|char| !is_word_char(char)).next().unwrap_or_default().len();
    let last = dots.rfind(|&dot| ending(dot) > 0)?;
    Some(last + 1 + ending(last))
}

/// Calls `found` with each file name with a known ending. The part has only word characters, dots, and hyphens.
fn file_names<'a>(part: &'a str, found: &mut impl FnMut(&'a str)) {
    let mut start = 0;
    for (dot, _) in part.match_indices('.') {
        let ending = part[dot + 1..].split(|char| !is_word_char(char)).next().unwrap_or_default();
        let name = part[start..dot].trim_start_matches('-');
        if !name.is_empty() && ENDINGS.contains(&ending) {
            found(&part[dot - name.len()..dot + 1 + ending.len()]);
        }
        start = dot + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        let mut names = Vec::new();
        for_each_name(text, |_, name| names.push(name));
        names.sort_unstable();
        let mut expect = expect.to_vec();
        expect.sort_unstable();
        assert_eq!(names, expect, "{text}");
    }

    #[test]
    fn finds_paths() {
        check("see src/lib.rs and ./a/b-c.d.ts:12", &["src/lib.rs", "./a/b-c.d.ts"]);
        check("~/x/y.txt, /etc/hosts, /a/b.c/d", &["~/x/y.txt", "/a/b.c"]);
        check("edit main.rs (not main.exe), a.test.json", &["main.rs", "test.json"]);
        check("src/a.rs/b.md~", &["src/a.rs/b.md"]);
        check("https://example.org/a.html?q=1", &["//example.org/a.html"]);
    }

    #[test]
    fn finds_numbers() {
        check("port 8080, 12, 1234.5 ms, v1.234, 100px 3.1415", &["8080", "1234.5"]);
        check("404.", &["404"]);
        check("x 100.5s 7777", &["100", "7777"]);
    }

    #[test]
    fn finds_identifiers() {
        check(
            "read_file a_b fooBar HttpClient HTTPServer getX lower_Case x1_abc fooBars",
            &["read_file", "fooBars", "HttpClient"],
        );
    }

    #[test]
    fn prose_has_no_names() {
        check("The parser failed because of an unexpected token in line 12.", &[]);
    }
}
