//! The text that a model writes about many events, in one or more rounds. `summarize` and `collapse` share this module.
//! The two strategies differ in the contents of the text and in the turns that it covers.
//!
//! The events are quoted as data, so the model does not follow instructions in them. If they exceed the model's window,
//! the model writes notes on parts, and then merges the notes. The host may keep notes, so the requests for them must
//! depend only on the events of the part and on the instructions.

mod fence;
mod notes;
mod parts;
mod prompt;
mod shown;
mod transcript;
mod window;

use std::collections::BTreeMap;

use jp_compact_schema::{CompactRequest, Diagnostic, Message, NeedRequest, RemainingNeeds, Role, Severity};

use crate::kept::{KeptFacts, SectionLimit, SummaryWithFacts};
use crate::outcome::StrategyError;
pub use notes::TextState;
use notes::{Note, answer};
use parts::{PartSize, WantedParts};
pub use prompt::{Background, LIST_HEADER, Prompt};
use prompt::{ModelRequest, listed_tokens};
pub use shown::{ShownEvent, ShownSize, shorten_event};
pub use transcript::{TranscriptFormatter, TranscriptPiece, pieces_in, read_pieces};
use window::Window;
pub use window::{background_tokens_max, context_window};

/// The maximum number of parts for a host without the feature `needs.many`. Such a host fulfills 256 needs: one for
/// each part, and one for each merge. All merges except three have at least eight notes.
const PARTS_MAX: usize = 200;
/// The maximum size of a reply without its needs and its state.
const REPLY_REST_BYTES: usize = 1024;
/// With the feature `needs.many`, the limit of a reply divided by this number is reserved for the state.
const STATE_SHARE: u64 = 8;
/// The maximum size of the notes that one round adds to the state.
const NOTES_BYTES_MAX: u64 = 512 << 10;
/// The key of the request for the text itself.
const TEXT_KEY: &str = "text";

/// Writes one text in several rounds. A [`TextState`] is kept between the rounds.
#[derive(Debug)]
pub struct TextWriter<'a> {
    request: &'a CompactRequest,
    model: Option<&'a str>,
    prompt: &'a Prompt<'a>,
    window: Window,
}

/// The result of one round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextStep {
    /// The range contains no text.
    Empty,
    /// The text is complete. It can be blank.
    Written(WrittenText),
    /// The model must be asked again.
    Needs(BTreeMap<String, NeedRequest>, TextState),
}

/// A complete text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenText {
    /// The text. It can be blank.
    pub text: String,
    /// The number of merges between the text and the raw events.
    pub merges: u32,
    /// The state of the last round, for [`TextWriter::retry`].
    pub state: TextState,
}

impl WrittenText {
    /// Returns the text of a retry, which has as many merges.
    #[must_use]
    pub fn of_retry(text: &str, state: TextState) -> Self {
        Self { text: text.to_owned(), merges: state.merges(), state }
    }
}

impl<'a> TextWriter<'a> {
    /// Creates a writer for a text of at most `max_tokens`, by this model or the host's model. The prompt of the last
    /// request has up to `backgrounds` backgrounds.
    ///
    /// # Errors
    ///
    /// The model's window is too small (code `window_too_small`).
    pub fn new(
        request: &'a CompactRequest,
        model: Option<&'a str>,
        max_tokens: u64,
        prompt: &'a Prompt<'a>,
        backgrounds: u64,
    ) -> Result<Self, StrategyError> {
        let window = Window::new(request, model, max_tokens, prompt, backgrounds)?;
        Ok(Self { request, model, prompt, window })
    }

    /// Returns the number of characters to which a long event is shortened.
    #[must_use]
    pub const fn event_chars_max(&self) -> usize {
        self.window.event_chars_max
    }

    /// Estimates the needs of the rounds after this state.
    #[must_use]
    pub fn remaining(&self, state: &TextState) -> Option<RemainingNeeds> {
        state.remaining(self.window.note_tokens, self.prompt.fixed_tokens())
    }

    /// Continues after the last round, or begins. Without a state, or if [`TextState::needs_pieces`], reads `pieces`.
    ///
    /// # Errors
    ///
    /// The parts exceed the size of a reply, or are too many to merge (code `range_too_large`), or an answer is
    /// missing.
    pub fn advance(
        &self,
        state: Option<TextState>,
        pieces: &[TranscriptPiece],
    ) -> Result<TextStep, StrategyError> {
        let mut state = match state {
            None => match self.begin(pieces)? {
                Ok(state) => state,
                Err(step) => return Ok(step),
            },
            Some(state) if state.is_last => {
                let text = answer(self.request, TEXT_KEY)?;
                return Ok(TextStep::Written(WrittenText { text, merges: state.merges(), state }));
            }
            Some(state) => state,
        };
        if let Some(blank) = self.blank(&state)? {
            return Ok(blank);
        }
        if self.request.limits.needs_many {
            state.keep_texts(self.request)?;
        }
        let mut needs = BTreeMap::new();
        for group in state.groups() {
            self.merge(group, true, &mut state, &mut needs)?;
        }
        if state.needs_pieces() {
            self.ask_parts(pieces, &mut state, &mut needs)?;
        }
        if needs.is_empty() {
            self.ask_text(&mut state, &mut needs)?;
        }
        self.fits_a_reply(&needs)?;
        Ok(TextStep::Needs(needs, state))
    }

    /// Returns the first state, or the step for a range that needs no notes.
    fn begin(&self, pieces: &[TranscriptPiece]) -> Result<Result<TextState, TextStep>, StrategyError> {
        if pieces.is_empty() {
            return Ok(Err(TextStep::Empty));
        }
        let mut size = ShownSize::default();
        pieces.iter().for_each(|piece| size += piece.size);
        let bytes = pieces.iter().map(TranscriptPiece::bytes).sum::<usize>();
        let tokens = pieces.iter().map(|piece| piece.tokens).sum::<u64>();
        if tokens <= self.window.last_room && bytes <= self.window.whole_bytes_max {
            // Checked before the text is copied, because a range can be larger than the strategy's memory limit.
            self.fits(bytes)?;
            let asked = self.whole(pieces, self.prompt);
            let needs = BTreeMap::from([(
                TEXT_KEY.to_owned(),
                self.need(asked, self.window.last_output_tokens, false),
            )]);
            self.fits_a_reply(&needs)?;
            let state = TextState { is_last: true, size, ..TextState::default() };
            return Ok(Err(TextStep::Needs(needs, state)));
        }
        let parts = parts::count(pieces, self.part_size());
        if parts > PARTS_MAX && !self.request.limits.needs_many {
            return Err(too_many(parts));
        }
        Ok(Ok(TextState { parts, size, tokens, ..TextState::default() }))
    }

    fn part_size(&self) -> PartSize {
        PartSize { tokens: self.window.part_tokens, bytes: self.window.part_bytes_max }
    }

    fn whole(&self, pieces: &[TranscriptPiece], prompt: &Prompt<'_>) -> ModelRequest {
        let text: String = pieces.iter().flat_map(|piece| [&*piece.label, &*piece.body]).collect();
        prompt.whole(&text, self.last_words())
    }

    /// Returns a step with a blank text if a note is blank, so that the host rejects the text. In a merge, the blank
    /// note would not be noticed, and the summary would lack a part of the range.
    fn blank(&self, state: &TextState) -> Result<Option<TextStep>, StrategyError> {
        for note in &state.notes {
            let text = note.text(self.request)?;
            if text.is_empty() {
                let written = WrittenText { text, merges: 0, state: TextState::default() };
                return Ok(Some(TextStep::Written(written)));
            }
        }
        Ok(None)
    }

    /// Asks for notes on the next parts, as many as fit into a reply.
    fn ask_parts(
        &self,
        pieces: &[TranscriptPiece],
        state: &mut TextState,
        needs: &mut BTreeMap<String, NeedRequest>,
    ) -> Result<(), StrategyError> {
        let many = self.request.limits.needs_many;
        let max = self.request.limits.result_bytes_max;
        let max = if many { max - max / STATE_SHARE } else { max };
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let mut bytes = needs.values().map(written_bytes).sum::<Result<usize, _>>()?;
        let notes_max =
            if many { (NOTES_BYTES_MAX / (4 * self.window.note_tokens.max(1))).max(1) } else { u64::MAX };
        let first = state.asked;
        let wanted = WantedParts { first, bytes: if many { max } else { usize::MAX } };
        let (_, parts) = parts::cut(pieces, self.part_size(), wanted);
        for (number, part) in (first..).zip(parts) {
            let is_newest = number + 1 == state.parts;
            let length = if is_newest { self.window.tail_tokens } else { self.window.note_tokens };
            let need = self.need(self.prompt.note(&part, words(length)), length, !is_newest);
            let size = written_bytes(&need)?;
            let is_full = bytes + size > max || (number - first) as u64 >= notes_max;
            if many && is_full && !needs.is_empty() {
                break;
            }
            bytes += size;
            let key = format!("s{number}");
            state.notes.push(Note::asked(0, &key));
            state.asked = number + 1;
            needs.insert(key, need);
        }
        Ok(())
    }

    /// Asks for the text itself, or, if the notes do not fit into one request, for a merge of the newest ones.
    fn ask_text(
        &self,
        state: &mut TextState,
        needs: &mut BTreeMap<String, NeedRequest>,
    ) -> Result<(), StrategyError> {
        let texts = self.texts(state)?;
        if texts.iter().map(|text| listed_tokens(text)).sum::<u64>() <= self.window.last_room {
            let asked = self.merged(&texts, self.prompt);
            needs.insert(TEXT_KEY.to_owned(), self.need(asked, self.window.last_output_tokens, false));
            state.is_last = true;
            return Ok(());
        }
        let newest = state.newest().ok_or_else(|| too_many(state.parts))?;
        self.merge(newest, false, state, needs)
    }

    /// Replaces a group of notes with one note, and asks for it.
    fn merge(
        &self,
        group: std::ops::Range<usize>,
        is_stable: bool,
        state: &mut TextState,
        needs: &mut BTreeMap<String, NeedRequest>,
    ) -> Result<(), StrategyError> {
        // Levels never increase.
        let level = state.notes[group.start].level + 1;
        let texts = state.notes[group.clone()].iter().map(|note| note.text(self.request));
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let length = if is_stable { self.window.note_tokens } else { self.window.tail_tokens };
        let asked = self.prompt.merge_notes(&texts, words(length));
        let key = state.merge_key(level);
        state.notes.splice(group, [Note::asked(level, &key)]);
        needs.insert(key, self.need(asked, length, is_stable));
        Ok(())
    }

    fn texts(&self, state: &TextState) -> Result<Vec<String>, StrategyError> {
        state.notes.iter().map(|note| note.text(self.request)).collect()
    }

    fn merged(&self, texts: &[String], prompt: &Prompt<'_>) -> ModelRequest {
        prompt.merge(&texts.iter().map(String::as_str).collect::<Vec<_>>(), self.last_words())
    }

    /// Returns a need that asks for the text again. It contains the last prompt, the `written` text, and its problem.
    /// If the window is too small for that, the prompt has no background. If it is still too small, the prompt has no
    /// transcript and no notes either.
    ///
    /// # Errors
    ///
    /// An answer is missing.
    pub fn retry(
        &self,
        pieces: &[TranscriptPiece],
        written: &WrittenText,
        wrong: &str,
    ) -> Result<NeedRequest, StrategyError> {
        let texts = self.texts(&written.state)?;
        let asked = |prompt: &Prompt<'_>| match texts.is_empty() {
            true => self.whole(pieces, prompt),
            false => self.merged(&texts, prompt),
        };
        let chars = |text: &str| text.chars().count() as u64;
        let fits = |asked: &ModelRequest| {
            let chars = chars(&asked.system) + chars(&asked.content) + chars(&written.text) + chars(wrong);
            self.window.fits(chars.div_ceil(4) + self.window.last_output_tokens)
        };
        let bare = Prompt { background: Vec::new(), ..self.prompt.clone() };
        let mut asked_with = [self.prompt, &bare].into_iter().map(asked);
        let asked = asked_with.find(fits).unwrap_or_else(|| bare.whole("", self.last_words()));
        let mut need = self.need(asked, self.window.last_output_tokens, false);
        if let NeedRequest::LlmComplete { messages, .. } = &mut need {
            messages.push(Message { role: Role::Assistant, content: written.text.clone() });
            messages.push(Message { role: Role::User, content: wrong.to_owned() });
        }
        Ok(need)
    }

    /// Appends the facts that the text lacks. Returns the text, and all remarks for the user. The request for the text
    /// left room for the facts within the limit of the summary.
    #[must_use]
    pub fn finish(&self, written: &WrittenText, facts: &KeptFacts) -> (String, Vec<Diagnostic>) {
        let limit = SectionLimit::of_tokens(self.window.summary_tokens);
        let SummaryWithFacts { text, diagnostic } = facts.append_to(&written.text, limit);
        let mut diagnostics = self.diagnostics(written);
        diagnostics.extend(diagnostic);
        (text, diagnostics)
    }

    /// Returns remarks for the user about how the text was written.
    fn diagnostics(&self, written: &WrittenText) -> Vec<Diagnostic> {
        let remark = |code: &str, message: String| Diagnostic {
            severity: Severity::Info,
            code: code.to_owned(),
            message,
            turn: None,
            seq: None,
        };
        let mut remarks = Vec::new();
        let Window { window, summary_tokens, allowed_tokens, event_chars_max, .. } = self.window;
        let parts = written.state.parts;
        if window.is_none() {
            let what = format!(
                "the model's window is unknown, so the range was sent in one part, with at most {event_chars_max} characters of \
                 each output"
            );
            remarks.push(remark("window_unknown", what));
        }
        if written.state.size.shortened > 0 {
            remarks.push(remark("input_shortened", written.state.size.to_string()));
        }
        if parts > 0 {
            let what = format!(
                "the range exceeds the model's context window, so the summaries of {parts} parts were merged"
            );
            remarks.push(remark("in_parts", what));
        }
        if let Some(window) = window.filter(|_| summary_tokens < allowed_tokens) {
            let what = format!(
                "the text has at most {summary_tokens} tokens instead of {allowed_tokens}: an eighth of the \
                 model's window of {window}"
            );
            remarks.push(remark("max_tokens_reduced", what));
        }
        remarks
    }

    fn need(&self, asked: ModelRequest, max_tokens: u64, note: bool) -> NeedRequest {
        NeedRequest::LlmComplete {
            model: self.model.map(str::to_owned),
            system: Some(asked.system),
            messages: vec![Message { role: Role::User, content: asked.content }],
            max_tokens: Some(max_tokens),
            note,
        }
    }

    /// Returns the number of words to ask for if the model's window limits the length of the text.
    fn last_words(&self) -> Option<u64> {
        let Window { summary_tokens, last_output_tokens, allowed_tokens, .. } = self.window;
        (summary_tokens < allowed_tokens).then(|| words(last_output_tokens))
    }

    fn fits_a_reply(&self, needs: &BTreeMap<String, NeedRequest>) -> Result<(), StrategyError> {
        self.fits(needs.values().map(written_bytes).sum::<Result<usize, _>>()? + REPLY_REST_BYTES)
    }

    /// Checks the size against the host's limit for a reply.
    fn fits(&self, bytes: usize) -> Result<(), StrategyError> {
        let max = self.request.limits.result_bytes_max;
        if bytes as u64 <= max {
            return Ok(());
        }
        let message =
            format!("the model requests have {bytes} bytes, but a strategy's reply can have at most {max}");
        Err(StrategyError::new("range_too_large", message)
            .with_hint("select fewer turns with `--from` and `--to`"))
    }
}

/// Returns the number of words to ask for, so that the model ends before its limit of tokens.
fn words(max_tokens: u64) -> u64 {
    (max_tokens / 2).max(16)
}

fn written_bytes(need: &NeedRequest) -> Result<usize, StrategyError> {
    let written = serde_json::to_vec(need).map_err(|error| StrategyError::new("range_unwritable", error))?;
    Ok(written.len() + 16)
}

fn too_many(parts: usize) -> StrategyError {
    let message = format!("the range has {parts} parts, which are too many to merge");
    StrategyError::new("range_too_large", message)
        .with_hint("select fewer turns, or a model with a larger window")
}
