//! The chance and the words of generated conversations: a small generator of numbers, and texts that look like
//! prose, code and the output of tools. It knows nothing of streams.

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

/// What real texts hold beyond ASCII: typographic marks, box drawing, some other scripts.
const BEYOND_ASCII: &[&str] = &["—", "“quoted”", "’s", "…", "→", "│", "✓", "café", "日本語", "🦀"];

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

/// Numbers from a seed (splitmix64): the same on every machine.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("it is smaller than `end`")
    }

    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// A size between `least` and `least << octaves`, each octave as likely as the next: many small texts,
    /// a few large ones.
    pub(crate) fn size(&mut self, least: usize, octaves: usize) -> usize {
        let octave = least << self.below(octaves);
        octave + self.below(octave)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Base64 as JP stores it.
pub(crate) fn encode(text: impl AsRef<[u8]>) -> String {
    STANDARD.encode(text)
}

/// A provider's signature as JP stores it: base64 that was encoded once more, `bytes` long or a little more.
pub(crate) fn signature(chance: &mut Chance, bytes: usize) -> String {
    let raw: Vec<u8> = (0..bytes * 9 / 128 + 1).flat_map(|_| chance.next().to_le_bytes()).collect();
    encode(encode(raw))
}

/// The id of a tool call.
pub(crate) fn call_id(chance: &mut Chance) -> String {
    const DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    "toolu_01".chars().chain((0..22).map(|_| char::from(chance.pick(DIGITS)))).collect()
}

/// The path of a source file.
pub(crate) fn path(chance: &mut Chance) -> String {
    format!("crates/jp_{}/src/{}.rs", chance.pick(NAMES), chance.pick(NAMES))
}

/// The name of something in code.
pub(crate) fn name(chance: &mut Chance) -> &'static str {
    chance.pick(NAMES)
}

/// Markdown of about so many bytes. `beyond` of a thousand words are not ASCII.
pub(crate) fn prose(chance: &mut Chance, bytes: usize, beyond: usize) -> String {
    let mut text = String::with_capacity(bytes + 64);
    while text.len() < bytes {
        text.push_str(match chance.below(1000) {
            mark if mark < beyond => chance.pick(BEYOND_ASCII),
            mark if mark > 950 => chance.pick(&[".\n\n", ".\n- ", ":\n\n## ", ".\n\n1. ", ",\n"]),
            mark if mark > 930 => chance.pick(&["\"as is\"", "`events.json`", "**never**", "(`a\\b`)"]),
            _ => chance.pick(WORDS),
        });
        text.push(' ');
    }
    text
}

/// Source code of about so many bytes, in a fence, as a tool shows it.
pub(crate) fn code(chance: &mut Chance, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 160);
    text.push_str("```rs\n");
    while text.len() + 4 < bytes {
        let (one, other) = (name(chance), name(chance));
        let line = match chance.below(8) {
            0 => writeln!(text, "\n/// The {one} of a {other}, {}.", chance.pick(WORDS)),
            1 => writeln!(
                text,
                "pub fn {one}_{other}(&self, {other}: &str) -> Result<{}> {{",
                chance.below(100)
            ),
            2 => writeln!(
                text,
                "    let {one} = self.{other}.iter().filter(|{one}| {one}.is_some()).collect();"
            ),
            3 => writeln!(text, "        \"{one}\" => format!(\"{{{other}}}\\n\"),"),
            4 => writeln!(
                text,
                "    tracing::debug!({one}, \"failed to read the {other} {}\");",
                chance.pick(BEYOND_ASCII)
            ),
            5 => writeln!(text, "use jp_{one}::{other}::{{self, {}}};", chance.below(1000)),
            6 => writeln!(text, "}}"),
            _ => writeln!(text, "    // Where the {one} is a {other}, it {} kept.", chance.pick(WORDS)),
        };
        line.expect("a string takes every text");
    }
    text.push_str("```\n");
    text
}

/// What a search prints, of about so many bytes.
pub(crate) fn matches(chance: &mut Chance, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 160);
    while text.len() < bytes {
        let (path, one, other) = (path(chance), name(chance), name(chance));
        let line = chance.below(900);
        writeln!(text, "{path}:{line}:    let {one} = {other}.get(\"{one}\")?;")
            .expect("a string takes every text");
    }
    text
}
