//! Pseudo-random numbers and texts for generated conversations: prose, code, and tool output. This module
//! knows nothing about streams.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};

const WORDS: &[&str] = &[
    "the",
    "event",
    "of",
    "a",
    "turn",
    "is",
    "stream",
    "and",
    "it",
    "provider",
    "to",
    "config",
    "we",
    "storage",
    "in",
    "request",
    "that",
    "response",
    "not",
    "workspace",
    "for",
    "conversation",
    "this",
    "tool",
    "with",
    "should",
    "error",
    "be",
    "index",
    "on",
    "read",
    "file",
    "as",
    "write",
    "when",
    "partial",
    "you",
    "content",
    "are",
    "schema",
    "but",
    "merge",
    "let",
    "me",
    "check",
    "how",
    "where",
    "now",
    "same",
    "test",
    "call",
];

/// Non-ASCII words as in real texts: typographic marks, box drawing, other scripts.
const NON_ASCII: &[&str] = &["—", "“quoted”", "’s", "…", "→", "│", "✓", "café", "日本語", "🦀"];

const NAMES: &[&str] = &[
    "config",
    "stream",
    "event",
    "provider",
    "turn",
    "storage",
    "request",
    "handler",
    "builder",
    "workspace",
    "chain",
    "query",
    "lock",
    "trash",
    "schema",
    "inquiry",
];

/// Pseudo-random numbers from a seed (splitmix64), equal on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`. `end` must not be 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("the number is below `end`")
    }

    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns a size between `min` and `min << octaves`. Each octave is equally likely, so most texts
    /// are small and a few are large.
    pub(crate) fn size(&mut self, min: usize, octaves: usize) -> usize {
        let octave = min << self.below(octaves);
        octave + self.below(octave)
    }

    pub(crate) fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

/// Encodes in base64, as JP stores it.
pub(crate) fn encode(text: impl AsRef<[u8]>) -> String {
    STANDARD.encode(text)
}

/// Returns a provider's signature as JP stores it: base64 encoded twice, at least `bytes` bytes.
pub(crate) fn signature(random: &mut Random, bytes: usize) -> String {
    let raw: Vec<u8> = (0..bytes * 9 / 128 + 1).flat_map(|_| random.next().to_le_bytes()).collect();
    encode(encode(raw))
}

/// Returns the id of a tool call.
pub(crate) fn call_id(random: &mut Random) -> String {
    const DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    "toolu_01".chars().chain((0..22).map(|_| char::from(random.pick(DIGITS)))).collect()
}

/// Returns the path of a source file.
pub(crate) fn path(random: &mut Random) -> String {
    format!("crates/jp_{}/src/{}.rs", random.pick(NAMES), random.pick(NAMES))
}

/// Returns an identifier.
pub(crate) fn name(random: &mut Random) -> &'static str {
    random.pick(NAMES)
}

/// Returns about `bytes` bytes of Markdown. Of a thousand words, `non_ascii` are not ASCII.
pub(crate) fn prose(random: &mut Random, bytes: usize, non_ascii: usize) -> String {
    let mut text = String::with_capacity(bytes + 64);
    while text.len() < bytes {
        text.push_str(match random.below(1000) {
            number if number < non_ascii => random.pick(NON_ASCII),
            number if number > 950 => random.pick(&[".\n\n", ".\n- ", ":\n\n## ", ".\n\n1. ", ",\n"]),
            number if number > 930 => random.pick(&["\"as is\"", "`events.json`", "**never**", "(`a\\b`)"]),
            _ => random.pick(WORDS),
        });
        text.push(' ');
    }
    text
}

/// Returns about `bytes` bytes of source code in a fence, as a tool prints it.
pub(crate) fn code(random: &mut Random, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 160);
    text.push_str("```rs\n");
    while text.len() + 4 < bytes {
        let (one, other) = (name(random), name(random));
        let line = match random.below(8) {
            0 => writeln!(text, "\n/// The {one} of a {other}, {}.", random.pick(WORDS)),
            1 => writeln!(
                text,
                "pub fn {one}_{other}(&self, {other}: &str) -> Result<{}> {{",
                random.below(100)
            ),
            2 => writeln!(
                text,
                "    let {one} = self.{other}.iter().filter(|{one}| {one}.is_some()).collect();"
            ),
            3 => writeln!(text, "        \"{one}\" => format!(\"{{{other}}}\\n\"),"),
            4 => writeln!(
                text,
                "    tracing::debug!({one}, \"failed to read the {other} {}\");",
                random.pick(NON_ASCII)
            ),
            5 => writeln!(text, "use jp_{one}::{other}::{{self, {}}};", random.below(1000)),
            6 => writeln!(text, "}}"),
            _ => writeln!(text, "    // Where the {one} is a {other}, it {} kept.", random.pick(WORDS)),
        };
        line.expect("writing to a string cannot fail");
    }
    text.push_str("```\n");
    text
}

/// Returns about `bytes` bytes of search results.
pub(crate) fn matches(random: &mut Random, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 160);
    while text.len() < bytes {
        let (path, one, other) = (path(random), name(random), name(random));
        let line = random.below(900);
        writeln!(text, "{path}:{line}:    let {one} = {other}.get(\"{one}\")?;")
            .expect("writing to a string cannot fail");
    }
    text
}
