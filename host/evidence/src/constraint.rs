//! Constraints: the user's sentences with a binding word. They are at risk even if they are not used again.

use std::collections::HashMap;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::Regex;

static BINDING: LazyLock<Regex> = LazyLock::new(|| {
    let words = r"(?i)\b(?:never|always|must|don['\u{2019}]t|do not|only|from now on)\b";
    Regex::new(words).expect("the expression is constant")
});

/// Returns the constraints in a text of the user, in order. A sentence ends at the end of its line, or at `.`, `!`, or
/// `?` before a space.
pub fn constraints(text: &str) -> impl Iterator<Item = &str> {
    // Most texts have no binding word, and some are very long.
    let text = if BINDING.is_match(text) { text } else { "" };
    text.lines().flat_map(sentences).map(str::trim).filter(|sentence| BINDING.is_match(sentence))
}

fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.as_bytes().windows(2).position(|pair| matches!(pair, [b'.' | b'!' | b'?', b' ']));
        match end {
            Some(end) => {
                rest = Some(&text[end + 2..]);
                Some(&text[..=end])
            }
            None => {
                rest = None;
                Some(text)
            }
        }
    })
}

/// The number of a sentence. Equal sentences have the same number.
pub type SentenceId = u32;

/// The matcher searches for at most this many bytes of each sentence. The rest is then compared, so long sentences need
/// little memory.
const PREFIX_BYTES: usize = 24;

/// The constraints of a session. A text is searched for all of them at once, because a large session has thousands.
#[derive(Debug, Default)]
pub struct Sentences {
    texts: Vec<String>,
    /// Finds the prefixes. `None` without a sentence.
    matcher: Option<AhoCorasick>,
    /// The sentences with each prefix, in the order of their bytes.
    by_prefix: Vec<Vec<SentenceId>>,
    /// For each sentence, the longest other one that it starts with.
    shorter: Vec<Option<SentenceId>>,
}

impl Sentences {
    /// Numbers the sentences, and returns the number of each.
    pub fn new<'a>(sentences: impl Iterator<Item = &'a str>) -> (Self, Vec<SentenceId>) {
        let mut numbers: HashMap<&str, SentenceId> = HashMap::new();
        let mut prefixes: HashMap<&[u8], usize> = HashMap::new();
        let (mut found, mut patterns) = (Self::default(), Vec::new());
        let mut ids = Vec::new();
        for sentence in sentences {
            let next = found.texts.len() as SentenceId;
            let id = *numbers.entry(sentence).or_insert(next);
            ids.push(id);
            if id < next {
                continue;
            }
            found.texts.push(sentence.to_owned());
            let prefix = &sentence.as_bytes()[..sentence.len().min(PREFIX_BYTES)];
            let pattern = *prefixes.entry(prefix).or_insert_with(|| {
                patterns.push(prefix);
                found.by_prefix.push(Vec::new());
                patterns.len() - 1
            });
            found.by_prefix[pattern].push(id);
        }
        found.sort();
        if !patterns.is_empty() {
            found.matcher =
                Some(AhoCorasick::new(&patterns).expect("a session has less than 2 GB of sentences"));
        }
        (found, ids)
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Calls `found` for each sentence in a text, once for each place.
    pub fn for_each_in(&self, text: &str, mut found: impl FnMut(SentenceId)) {
        let Some(matcher) = &self.matcher else { return };
        for place in matcher.find_overlapping_iter(text) {
            let rest = &text.as_bytes()[place.start()..];
            let ids = &self.by_prefix[place.pattern().as_usize()];
            // A sentence that is a prefix of `rest` is also a prefix of each sentence sorted between it and `rest`.
            let last = ids.partition_point(|id| self.bytes(*id) <= rest).checked_sub(1);
            let mut next = last.map(|last| ids[last]);
            while let Some(id) = next {
                if rest.starts_with(self.bytes(id)) {
                    found(id);
                }
                next = self.shorter[id as usize];
            }
        }
    }

    /// Sorts the sentences of each prefix. Then a text is compared with few of them, also if all have the same prefix.
    fn sort(&mut self) {
        let Self { texts, by_prefix, shorter, .. } = self;
        shorter.resize(texts.len(), None);
        for ids in by_prefix {
            ids.sort_unstable_by_key(|id| texts[*id as usize].as_bytes());
            for pair in ids.windows(2) {
                let mut start = Some(pair[0]);
                while let Some(id) =
                    start.filter(|id| !texts[pair[1] as usize].starts_with(&texts[*id as usize]))
                {
                    start = shorter[id as usize];
                }
                shorter[pair[1] as usize] = start;
            }
        }
    }

    fn bytes(&self, id: SentenceId) -> &[u8] {
        self.texts[id as usize].as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_search(sentences: &[&str], text: &str, expected: &[SentenceId]) {
        let (index, _) = Sentences::new(sentences.iter().copied());
        let mut found = Vec::new();
        index.for_each_in(text, |id| found.push(id));
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn sentences_are_found_inside_each_other() {
        let long = "Never change the balance of the gateway.";
        let other = "Never change the balance of the archive.";
        let sentences = [long, other, "change only", long, "x only"];
        let (index, ids) = Sentences::new(sentences.iter().copied());
        assert_eq!((ids, index.len()), (vec![0, 1, 2, 0, 3], 4));
        check_search(&sentences, &format!("{other} And: x{long}"), &[0, 1]);
        check_search(&sentences, "Never change the balance of the", &[]);
        check_search(&sentences, "ax change only x only", &[2, 3]);
        check_search(&["only a", "ly a only a"], "only a only a", &[0, 1]);
        check_search(&["é only"], "é only", &[0]);
        let same_start = [
            "only one long beginning of many sentences",
            "only one long beginning",
            "only one long beginning of",
        ];
        check_search(&same_start, same_start[0], &[0, 1, 2]);
        check_search(&same_start, "only one long beginning of all, and only one long beginning", &[1, 2]);
        check_search(&same_start, "only one long begin", &[]);
        check_search(&[], "é only", &[]);
    }

    #[test]
    fn sentences_with_one_beginning_are_found_in_linear_time() {
        let texts: Vec<_> =
            (0..100_000).map(|n| format!("Never change the value of the setting {n:06}.")).collect();
        let (index, ids) = Sentences::new(texts.iter().map(String::as_str));
        let mut found = Vec::new();
        index.for_each_in(&texts.join(" "), |id| found.push(id));
        assert_eq!(found, ids);
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(constraints(text).collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn constraints_are_sentences_with_a_binding_word() {
        check("Hello. Never touch main! Thanks", &["Never touch main!"]);
        check("a must\n- always b? c only", &["a must", "- always b?", "c only"]);
        check("Version 1.2 must stay.\r\nok", &["Version 1.2 must stay."]);
        check("Don't do that. From now on use tabs", &["Don't do that.", "From now on use tabs"]);
        check("don\u{2019}t", &["don\u{2019}t"]);
        check("mustard is commonly nevermore", &[]);
        check("", &[]);
    }
}
