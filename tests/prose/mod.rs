//! The reader of prose: comments and string literals of Rust sources, and paragraphs of Markdown, as words.
//!
//! It has its own lexer, because `syn` drops ordinary comments and gives no line numbers of words. Text in backticks, in
//! double quotes, in code blocks and in Markdown quotes is code or a citation. It is never searched.

/// A passage of continuous text: a paragraph of a comment or of Markdown, or a string literal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    pub(crate) kind: Kind,
    pub(crate) words: Vec<Word>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Comment,
    Literal,
    Markdown,
}

/// A word in lower case, or a punctuation mark.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) line: usize,
    /// Whether the word begins a sentence with a capital letter.
    pub(crate) opens_sentence: bool,
}

/// The word that replaces text that is not searched.
const OPAQUE: &str = "`";
/// The minimum number of words of a literal. A shorter one is a name or a fragment.
const LITERAL_WORDS_MIN: usize = 4;

/// Reads the comments and literals of a Rust source.
pub(crate) fn rust(text: &str) -> Vec<Passage> {
    let mut passages = Vec::new();
    let mut comment: Vec<(usize, &str)> = Vec::new();
    let mut rest = text;
    let (mut line, mut last_comment_line) = (1, 0);
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("//") {
            let body = after.split('\n').next().unwrap_or_default();
            rest = &after[body.len()..];
            if line > last_comment_line + 1 {
                passages.extend(paragraphs(Kind::Comment, &std::mem::take(&mut comment)));
            }
            comment.push((line, body.trim_start_matches(['/', '!'])));
            last_comment_line = line;
            continue;
        }
        let (length, literal) = first_token(rest);
        if let Some(literal) = literal {
            passages.extend(paragraphs(Kind::Comment, &std::mem::take(&mut comment)));
            passages.extend(literal_passages(literal, line));
        } else if !first.is_whitespace() {
            passages.extend(paragraphs(Kind::Comment, &std::mem::take(&mut comment)));
        }
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    passages.extend(paragraphs(Kind::Comment, &comment));
    passages
}

/// Reads the paragraphs of a Markdown document.
pub(crate) fn markdown(text: &str) -> Vec<Passage> {
    let lines: Vec<(usize, &str)> = text.lines().enumerate().map(|(index, line)| (index + 1, line)).collect();
    paragraphs(Kind::Markdown, &lines)
}

/// Returns the length of the first token, and the contents if it is a string literal.
fn first_token(text: &str) -> (usize, Option<&str>) {
    let word_length =
        text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    let (prefix, rest) = text.split_at(word_length);
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    if prefix.ends_with('r') && prefix.len() <= 2 && rest[hashes..].starts_with('"') {
        let end = format!("\"{}", "#".repeat(hashes));
        let body = &rest[hashes + 1..];
        let body = &body[..body.find(&end).unwrap_or(body.len())];
        return (word_length + hashes + 1 + body.len() + end.len(), Some(body));
    }
    if prefix.len() <= 1 && rest.starts_with('"') {
        let body = &rest[1..];
        let body = &body[..end_of_literal(body, '"')];
        return (word_length + body.len() + 2, Some(body));
    }
    if word_length > 0 {
        return (word_length, None);
    }
    // A character literal can be a quote. A lifetime has no second quote.
    if let Some(body) = text.strip_prefix('\'') {
        let mut letters = body.chars();
        let first = letters.next().unwrap_or_default();
        if first == '\\' || letters.next() == Some('\'') {
            return (end_of_literal(body, '\'') + 2, None);
        }
    }
    (text.chars().next().map_or(1, char::len_utf8), None)
}

fn end_of_literal(body: &str, quote: char) -> usize {
    let mut escaped = false;
    for (index, letter) in body.char_indices() {
        if letter == quote && !escaped {
            return index;
        }
        escaped = letter == '\\' && !escaped;
    }
    body.len()
}

/// Returns the passages of a literal, unless it is data: JSON, a script, markup or a few words.
fn literal_passages(literal: &str, line: usize) -> Vec<Passage> {
    let is_data = ["{\"", "[", "#!", "<", "//"].iter().any(|start| literal.trim_start().starts_with(start));
    if is_data || literal.contains("\":") || literal.contains("\\\":") {
        return Vec::new();
    }
    let text = literal.replace("\\n", "\n\n").replace("\\\"", "\"");
    // An escaped `\n` does not begin a new line of the source. If a literal also has real line breaks, the line numbers
    // after the first `\n` are too high.
    let lines_per_part = usize::from(literal.contains('\n'));
    let lines = text.split('\n').enumerate();
    let lines: Vec<(usize, &str)> =
        lines.map(|(index, part)| (line + index * lines_per_part, part.trim_end_matches('\\'))).collect();
    let mut passages = paragraphs(Kind::Literal, &lines);
    passages
        .retain(|passage| passage.words.iter().filter(|word| word.is_word()).count() >= LITERAL_WORDS_MIN);
    passages
}

/// Splits lines at blank lines, list items, table cells and headings. Code blocks and quotes are left out.
fn paragraphs(kind: Kind, lines: &[(usize, &str)]) -> Vec<Passage> {
    let mut passages = Vec::new();
    let mut paragraph: Vec<(usize, &str)> = Vec::new();
    let mut fenced = false;
    for (number, line) in lines {
        let line = line.trim();
        let is_fence = line.starts_with("```");
        fenced ^= is_fence;
        let is_skipped = is_fence || fenced || line.starts_with('>');
        let starts_item = ["- ", "* ", "| ", "#"].iter().any(|mark| line.starts_with(mark));
        if is_skipped || starts_item || line.is_empty() {
            passages.extend(passage(kind, &std::mem::take(&mut paragraph)));
        }
        if line.starts_with("| ") {
            passages.extend(line.split(" | ").filter_map(|cell| passage(kind, &[(*number, cell)])));
        } else if !is_skipped {
            paragraph.push((*number, line));
        }
    }
    passages.extend(passage(kind, &paragraph));
    passages
}

fn passage(kind: Kind, lines: &[(usize, &str)]) -> Option<Passage> {
    let mut words: Vec<Word> = Vec::new();
    let mut cited: Option<(char, usize)> = None;
    let mut opens_sentence = true;
    for (line, text) in lines {
        let mut rest = *text;
        while let Some(first) = rest.chars().next() {
            let length = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
            let length = length.unwrap_or(rest.len()).max(first.len_utf8());
            let (word, after) = rest.split_at(length);
            rest = after;
            if first == '`' || first == '"' {
                match cited {
                    // Everything since the opening mark is one opaque word.
                    Some((mark, start)) if mark == first => {
                        words.truncate(start);
                        words.push(Word { text: OPAQUE.to_owned(), line: *line, opens_sentence: false });
                        cited = None;
                    }
                    Some(_) => {}
                    None => cited = Some((first, words.len())),
                }
                opens_sentence = false;
            } else if first.is_alphanumeric() || first == '_' {
                // The ending of a genitive or a contraction is not a word.
                if let Some(ending) = rest.strip_prefix('\'') {
                    rest = ending.trim_start_matches(char::is_alphabetic);
                }
                words.push(Word {
                    text: word.to_lowercase(),
                    line: *line,
                    opens_sentence: opens_sentence && first.is_uppercase(),
                });
                opens_sentence = false;
            } else if ",.;:?!()".contains(first) {
                words.push(Word { text: word.to_owned(), line: *line, opens_sentence: false });
                opens_sentence = ".:;?!".contains(first);
            }
        }
    }
    (!words.is_empty()).then_some(Passage { kind, words })
}

impl Word {
    pub(crate) fn is_word(&self) -> bool {
        self.text.starts_with(char::is_alphabetic)
    }
}
