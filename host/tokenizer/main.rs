//! `compact-tokenizer`: counts the tokens of texts with the tokenizer `o200k` for `--tokens exact`. It is a separate
//! executable, because its tables would be a sixth of the host. Only this program names the crate of the tokenizer.
//!
//! Each request on stdin is the length of a text in bytes, and the text. The answer on stdout is the number of its
//! tokens. Both numbers are `u64` in little-endian order. The program ends when stdin ends. The first count unpacks the
//! ranks of the tokens. A text must never make the tokenizer panic.

use std::io::{self, BufReader, Read as _, Write as _};

/// The longest run of blanks that is given to the tokenizer. The regular expression of the tokenizer panics near
/// 1,000,000 blanks. `BLANKS_MAX` is a multiple of the length of the longest token of spaces, of tabs, and of no-break
/// spaces. Therefore, splitting a run of one kind does not change its count.
const BLANKS_MAX: usize = 65_536;

/// Returns the number of tokens of a text. The count of a line with more than [`BLANKS_MAX`] blanks of several kinds in
/// a row can be wrong by one for each part.
fn count_o200k(text: &str) -> u64 {
    let tokenizer = tiktoken_rs::o200k_base_singleton();
    let mut rest = text;
    let mut count = 0;
    while let Some(end) = end_of_long_run(rest) {
        let (part, remainder) = rest.split_at(end);
        count += tokenizer.count_ordinary(part);
        rest = remainder;
    }
    (count + tokenizer.count_ordinary(rest)) as u64
}

/// Returns the position after [`BLANKS_MAX`] blanks in a row, if another one follows.
fn end_of_long_run(text: &str) -> Option<usize> {
    if text.len() <= BLANKS_MAX {
        return None;
    }
    let mut blanks = 0;
    for (position, character) in text.char_indices() {
        if !character.is_whitespace() || matches!(character, '\r' | '\n') {
            blanks = 0;
        } else if blanks == BLANKS_MAX {
            return Some(position);
        } else {
            blanks += 1;
        }
    }
    None
}

fn main() -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 16, io::stdin().lock());
    let mut output = io::stdout().lock();
    let mut text = Vec::new();
    while let Some(length) = read_length(&mut input)? {
        text.clear();
        input.by_ref().take(length).read_to_end(&mut text)?;
        if text.len() as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text =
            std::str::from_utf8(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        output.write_all(&count_o200k(text).to_le_bytes())?;
        output.flush()?;
    }
    Ok(())
}

/// Returns the length of the next text, or `None` if stdin has ended.
fn read_length(input: &mut impl io::Read) -> io::Result<Option<u64>> {
    let mut length = Vec::new();
    input.take(8).read_to_end(&mut length)?;
    match <[u8; 8]>::try_from(length) {
        Ok(length) => Ok(Some(u64::from_le_bytes(length))),
        Err(length) if length.is_empty() => Ok(None),
        Err(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::count_o200k;

    #[track_caller]
    fn check(text: &str, expected: u64) {
        assert_eq!(count_o200k(text), expected);
    }

    /// The expected numbers come from `bpe-openai` 0.3.2, another implementation.
    #[test]
    fn counts_like_another_tokenizer() {
        check("", 0);
        check("Compact conversations with language models.", 6);
        check("fn main() {\n    println!(\"{}\", 1234567);\n}\n", 13);
        check("L'été, it's 漢字 and 🙂🙂", 10);
        check("<|endoftext|>", 7);
        check(&"word ".repeat(1_000), 1_001);
        check(&"aB".repeat(1_000), 1_001);
        check(&"  \n".repeat(1_000), 500);
        check(&"漢".repeat(1_000), 1_000);
    }

    #[test]
    fn counts_long_runs_of_blanks() {
        // If the text were not split, the tokenizer would panic here.
        check(&format!("{}x", " ".repeat(1_048_576)), 8_194);
        check(&"\t".repeat(200_000), 12_500);
        check(&format!("{}x", "\u{a0}".repeat(200_000)), 25_003);
        check(&"\n".repeat(200_000), 12_500);
        check(&"\t ".repeat(100_000), 100_000);
    }
}
