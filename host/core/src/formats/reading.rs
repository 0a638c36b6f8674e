//! A transcript of another program while its events are found. Readers say what there is and where it lies; turns,
//! numbers and times are counted here. Bytes that the source does not hold as such (an id that was invented, the text of
//! several blocks) are made, and their spans lie behind the source's end.

use bytes::Bytes;
use jiff::Timestamp;

use super::Format;
use super::foreign::{At, Cut, First, Foreign, Link, List, ListForm, Place, Slot};
use super::jp::{Count, Index, Unreadable};
use super::tree::{Look, Tree, Wanted};
use crate::event::{Event, Kind};
use crate::json::{self, Malformed, Scanner, Span};
use crate::stream::Stream;
use crate::{text, time};

/// An event that was found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draft {
    /// What of the source it is: whatever changes there changes the event. May be absent.
    pub(crate) span: Span,
    /// A JSON string, for calls and answers. Where the source has none, one is made.
    pub(crate) id: Span,
    /// A JSON string, for calls.
    pub(crate) name: Span,
    /// A JSON string; of calls an object, or a string that holds one.
    pub(crate) body: Span,
    /// When it happened, as far as the source says.
    pub(crate) time: Option<Timestamp>,
    pub(crate) record: Option<At>,
    pub(crate) cut: Cut,
    pub(crate) also: Vec<Cut>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) metadata: Span,
    pub(crate) signed: Option<(&'static str, Span)>,
}

/// A transcript that is being read.
pub(crate) struct Reading {
    bytes: Bytes,
    made: Vec<u8>,
    events: Vec<Event>,
    foreign: Foreign,
    /// When what came before happened.
    last: Timestamp,
    ids: usize,
    /// Whether something in the source has to be mended before it is decoded.
    is_odd: bool,
    has_conversation: bool,
}

/// The line that stands for an image.
pub(crate) const IMAGE: &str = "[image]";

/// Why a file with a conversation on each line is refused.
pub(super) const SEVERAL: &str = "another conversation begins: each line holds one of its own";

impl Reading {
    pub(super) fn of(bytes: Bytes, format: Format) -> Self {
        let records = records(&bytes);
        let mut foreign = Foreign::new(format);
        foreign.places.reserve(records);
        Self {
            bytes,
            made: Vec::new(),
            events: Vec::with_capacity(records),
            foreign,
            last: Timestamp::UNIX_EPOCH,
            ids: 0,
            is_odd: false,
            has_conversation: false,
        }
    }

    /// The source. A handle, so that events can be added while it is looked at.
    pub(super) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Shows each line that holds something, with its number from 0: they are the elements of the list 0. Lines that are
    /// not JSON stay in the source, with a warning, as the programs pass over them themselves; the last one may still be
    /// written.
    ///
    /// # Errors
    /// Those of `each`, and where no line is JSON.
    pub(super) fn lines(
        &mut self,
        wanted: Wanted,
        mut each: impl FnMut(&mut Self, At, Look<'_>) -> Result<(), Unreadable>,
    ) -> Result<(), Unreadable> {
        let bytes = self.bytes();
        let list = self.list(ListForm::Lines, Vec::with_capacity(records(&bytes)), None);
        let (mut tree, mut start) = (Tree::default(), begin(&bytes));
        let mut is_any_read = false;
        let mut malformed: Vec<(usize, Malformed)> = Vec::new();
        for element in 0.. {
            if start == bytes.len() {
                break;
            }
            let fast = tree.read_line(&bytes, start, wanted).ok();
            let span = Span { start, end: fast.unwrap_or_else(|| line_end(&bytes, start)) };
            start = span.end;
            self.foreign.lists[list].elements.push(span);
            let line = span.of(&bytes);
            // What is wrong is told of the line alone.
            let read = fast.map_or_else(|| tree.read(&bytes, span, wanted), |_| Ok(()));
            self.is_odd |= tree.is_odd();
            match read {
                Ok(()) => {
                    is_any_read = true;
                    each(self, At { list, element }, Look::new(&bytes, &tree))
                        .map_err(|wrong| in_line(element, wrong))?;
                }
                Err(_) if line.trim_ascii().is_empty() => {}
                Err(wrong)
                    if element > 0
                        && bytes[start..].trim_ascii().is_empty()
                        && is_cut_off(&bytes, span, &wrong) =>
                {
                    let line = element + 1;
                    self.warn(format!("line {line} is cut off and was left out: it may still be written"));
                }
                Err(wrong) => {
                    self.foreign.coverage.lose(line);
                    malformed.push((element, wrong));
                }
            }
        }
        let Some((element, Malformed { at, what })) = malformed.first() else { return Ok(()) };
        if !is_any_read {
            return Err(in_line(*element, Unreadable { at: *at, element: None, what: (*what).into() }));
        }
        let (line, several) = (element + 1, malformed.len() - 1);
        let others = match several {
            0 => String::new(),
            1 => " and 1 other line".to_owned(),
            several => format!(" and {several} other lines"),
        };
        let are = if several == 0 { "is" } else { "are" };
        self.warn(format!("line {line}{others} {are} not JSON ({what}), and passed over"));
        Ok(())
    }

    /// Shows the source as one value.
    ///
    /// # Errors
    /// Those of `look`, and where it is none.
    pub(super) fn document(
        &mut self,
        wanted: Wanted,
        look: impl FnOnce(&mut Self, Look<'_>) -> Result<(), Unreadable>,
    ) -> Result<(), Unreadable> {
        let bytes = self.bytes();
        let wrong = |Malformed { at, what }| Unreadable { at, element: None, what: what.into() };
        let whole = Span { start: begin(&bytes), end: bytes.len() };
        let tree = Tree::of(&bytes, whole, wanted).map_err(wrong)?;
        self.is_odd |= tree.is_odd();
        look(self, Look::new(&bytes, &tree))
    }

    /// A list of the source. Its number.
    pub(super) fn list(&mut self, form: ListForm, elements: Vec<Span>, holder: Option<At>) -> usize {
        self.foreign.lists.push(List { form, elements, holder });
        self.foreign.lists.len() - 1
    }

    /// The items of an array as a list. Its number.
    pub(super) fn items(&mut self, array: Look<'_>, holder: Option<At>) -> usize {
        self.list(ListForm::Commas, array.items().map(Look::span).collect(), holder)
    }

    /// The members of an object as a list, for what goes with its key. Its number.
    pub(super) fn members(&mut self, object: Look<'_>) -> usize {
        self.list(ListForm::Commas, object.member_spans(), None)
    }

    /// What a record is called and what it follows, both in the source.
    pub(super) fn link(&mut self, record: At, id: Span, parent: Span) {
        let links = &mut self.foreign.links;
        if links.is_empty() {
            links.reserve(records(&self.bytes));
        }
        let named = links.iter().rposition(|link| !link.id.is_empty());
        // Looked at now, while both are near.
        let is_it =
            |named: &usize| !parent.is_empty() && links[*named].id.of(&self.bytes) == parent.of(&self.bytes);
        let follows = named.filter(is_it);
        links.push(Link { record, id, parent, follows });
    }

    /// An element of another list that goes when a record goes.
    pub(super) fn mention(&mut self, record: At, element: At) {
        self.foreign.mentions.push((record, element));
    }

    /// The number of a record, where they are counted. Said of all of them, in their order.
    pub(super) fn number(&mut self, record: At, number: Span) {
        self.foreign.numbers.push((record, number));
    }

    /// Says that a line stays, whatever is left of it.
    pub(super) fn pin(&mut self, line: At) {
        self.foreign.pinned.insert(line);
    }

    /// Says that the pair that stands for a record has to hold these bytes of it.
    pub(super) fn carry(&mut self, record: At, bytes: Span) {
        self.foreign.carried.push((record, bytes));
    }

    /// A value that names the first of these records: where that goes, it names the next.
    pub(super) fn first(&mut self, span: Span, records: Vec<At>) {
        self.foreign.firsts.push(First { span, records });
    }

    /// Says that a conversation begins there. A file holds one: what follows another is not its continuation.
    ///
    /// # Errors
    /// It is not the first.
    pub(super) fn conversation(&mut self, look: Look<'_>) -> Result<(), Unreadable> {
        if std::mem::replace(&mut self.has_conversation, true) {
            return Err(Unreadable { at: look.span().start, element: None, what: SEVERAL.into() });
        }
        Ok(())
    }

    /// Counts a record that the reader cannot place.
    pub(super) fn unknown(&mut self, record: Look<'_>) {
        self.foreign.coverage.lose(record.raw());
    }

    /// Counts text of events that were found and are deliberately left out: no model is sent them any more.
    pub(super) fn passed_over(&mut self, text: u64) {
        self.foreign.coverage.understood += text;
    }

    /// Counts text of events that cannot be reached: a record that leads to them is missing.
    pub(super) fn unreachable(&mut self, text: u64, records: u64) {
        self.foreign.coverage.lost += text;
        self.foreign.coverage.records += records;
        let were = if records == 1 { "record is" } else { "records are" };
        self.warn(format!(
            "{records} {were} not read: a record that they lead to the last one by is missing"
        ));
    }

    /// The same of events that were added before: they are among those that were understood.
    pub(super) fn unreachable_after_all(&mut self, text: u64, records: u64) {
        let understood = &mut self.foreign.coverage.understood;
        *understood = understood.saturating_sub(text);
        self.unreachable(text, records);
    }

    /// The text of events that were added, by how many came before.
    pub(super) fn text_of(&self, events: std::ops::Range<usize>) -> u64 {
        self.events[events].iter().map(|event| event.body.len() as u64).sum()
    }

    pub(super) fn warn(&mut self, warning: String) {
        self.foreign.warnings.push(warning);
    }

    /// What the model is told of its part; of several texts all.
    pub(super) fn system(&mut self, text: &str) {
        match &mut self.foreign.system {
            Some(system) => {
                system.push_str("\n\n");
                system.push_str(text);
            }
            None => self.foreign.system = Some(text.to_owned()),
        }
    }

    /// The same, of a text that lies somewhere.
    pub(super) fn system_at(&mut self, span: Span) {
        let text = self.unquoted(span);
        self.system(&text);
    }

    /// What lies at a span, of the source or made.
    fn raw(&self, span: Span) -> &[u8] {
        match span.start.checked_sub(self.bytes.len()) {
            Some(start) => &self.made[start..span.end - self.bytes.len()],
            None => span.of(&self.bytes),
        }
    }

    /// The text of a string that lies there.
    fn unquoted(&self, span: Span) -> String {
        text::unquote(self.raw(span)).into_owned()
    }

    /// The model that answers from here on, by the name that its provider gives it.
    pub(super) fn model(&mut self, name: &str) {
        if self.foreign.model.as_deref() != Some(name) {
            self.foreign.model = Some(name.to_owned());
        }
    }

    /// Begins a turn: what comes next is what the user asks.
    pub(super) fn turn(&mut self, time: Option<Timestamp>) {
        self.add(Kind::TurnStart, Draft { time, ..Draft::default() });
    }

    /// Adds an event behind the others.
    pub(super) fn add(&mut self, kind: Kind, draft: Draft) {
        let draft = if self.is_odd { self.mended(draft) } else { draft };
        let Draft { span, mut id, name, body, time, record, cut, also, slots, metadata, signed } = draft;
        self.last = time.unwrap_or(self.last);
        self.foreign.coverage.understood += body.len() as u64;
        if kind.is_tool() && id.is_empty() {
            id = self.next_id();
        }
        // Turns and numbers are counted at the end, of those that stay.
        let timestamp = Some(self.last);
        self.events.push(Event { span, kind, turn: 0, seq: None, timestamp, id, name, body });
        let (also, slots, signed) = (also.into(), slots.into(), signed.map(Box::new));
        self.foreign.places.push(Place { record, cut, also, slots, metadata, signed });
    }

    /// An event whose values can all be decoded: those of the source that cannot are made anew.
    fn mended(&mut self, mut draft: Draft) -> Draft {
        let signed = draft.signed.as_mut().map(|(_, span)| span);
        let values = [&mut draft.id, &mut draft.name, &mut draft.body, &mut draft.metadata];
        for span in values.into_iter().chain(signed) {
            let raw = self.raw(*span).to_vec();
            if !raw.is_empty() && Scanner::at_byte(&raw, 0).value(0).is_err() {
                *span = self.made_raw(&String::from_utf8_lossy(&json::mended(&raw)));
            }
        }
        draft
    }

    /// How many events there are so far.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Leaves out the events that do not stay, each told by how many came before it.
    pub(super) fn keep(&mut self, stays: impl Fn(usize) -> bool) {
        let mut element = 0..;
        self.events.retain(|_| element.next().is_some_and(&stays));
        let mut element = 0..;
        self.foreign.places.retain(|_| element.next().is_some_and(&stays));
    }

    /// The id that the next call is given when it has none.
    pub(super) fn next_id(&mut self) -> Span {
        self.ids += 1;
        self.made(&format!("call_{}", self.ids))
    }

    /// The span of a text that the source does not hold as such.
    pub(super) fn made(&mut self, text: &str) -> Span {
        self.made_raw(&serde_json::Value::from(text).to_string())
    }

    /// The span of a JSON value that the source does not hold as such.
    pub(super) fn made_raw(&mut self, json: &str) -> Span {
        let start = self.bytes.len() + self.made.len();
        self.made.extend_from_slice(json.as_bytes());
        Span { start, end: start + json.len() }
    }

    /// The span of a text: of a string its own, of an array of blocks what their texts are together, with a line for
    /// each image.
    pub(super) fn text(&mut self, value: Look<'_>) -> Span {
        if value.is_string() {
            return value.span();
        }
        let parts = value.items().filter_map(|item| {
            let own = if item.is_string() { Some(item) } else { item.string("text") };
            let is_image =
                || item.text_of("type").is_some_and(|kind| kind.ends_with("image") || kind == "image_url");
            own.map(Look::text).or_else(|| is_image().then_some(IMAGE.into()))
        });
        let parts: Vec<_> = parts.collect();
        self.made(&parts.join("\n"))
    }

    /// The span of several texts in one.
    pub(super) fn joined(&mut self, texts: &[Span]) -> Span {
        let parts: Vec<String> = texts.iter().map(|span| self.unquoted(*span)).collect();
        self.made(&parts.join("\n"))
    }

    pub(super) fn done(self) -> Result<Stream, Unreadable> {
        let Self { bytes, made, mut events, foreign, .. } = self;
        let mut count = Count::default();
        for event in &mut events {
            (event.turn, event.seq) = (count.turn(event.kind), count.seq(event.kind));
        }
        let (turns, body_end) = (count.turns(), bytes.len());
        let index =
            Index { bytes, made: made.into(), events, turns, array_start: 0, body_end, unloadable: None };
        Stream::of_foreign(index, foreign)
    }
}

/// A point in time as transcripts write it: RFC 3339.
pub(super) fn time_of(record: Look<'_>, name: &str) -> Option<Timestamp> {
    record.text_of(name).and_then(|text| time::parse(&text))
}

/// How many records there are, roughly: room for more that is not used costs nothing, and what grows is copied.
pub(super) fn records(bytes: &[u8]) -> usize {
    bytes.len() / 1024
}

/// Where the line ends that begins there, its break counted.
fn line_end(bytes: &[u8], start: usize) -> usize {
    memchr::memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |end| start + end + 1)
}

/// Where a text begins: behind the mark of its encoding, which some programs put before it.
pub(super) fn begin(bytes: &[u8]) -> usize {
    const MARK: &[u8] = b"\xEF\xBB\xBF";
    if bytes.starts_with(MARK) { MARK.len() } else { 0 }
}

/// The lines of a text, each with its break.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = Span> + Clone + '_ {
    let ends = memchr::memchr_iter(b'\n', bytes).map(|end| end + 1);
    let rest = (!bytes.is_empty() && bytes.last() != Some(&b'\n')).then_some(bytes.len());
    let mut start = begin(bytes);
    ends.chain(rest).map(move |end| Span { start: std::mem::replace(&mut start, end), end })
}

/// Whether a line that is no JSON is the beginning of one: it has no break yet, or nothing is wrong before it.
fn is_cut_off(bytes: &[u8], line: Span, wrong: &Malformed) -> bool {
    let line_bytes = line.of(bytes);
    !line_bytes.ends_with(b"\n") || wrong.at >= line.start + line_bytes.trim_ascii_end().len()
}

fn in_line(element: usize, wrong: Unreadable) -> Unreadable {
    Unreadable { what: format!("line {}: {}", element + 1, wrong.what), ..wrong }
}
