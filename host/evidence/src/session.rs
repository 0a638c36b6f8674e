//! The anchors of a whole session, extracted once for all cuts and strategies. Only anchors that the model itself
//! writes somewhere can be at risk, so only these are kept, as numbers. The memory of a session depends on the size of
//! the model's texts, and not on the size of the tool results.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use jp_compact_core::event::Kind;
use jp_compact_core::view::Part;
use jp_compact_core::{Pairs, Stream, View};

use crate::class::Class;
use crate::constraint::{SentenceId, Sentences, constraints};
use crate::event_text::{TextRole, arguments, changed_text, element_text, is_attachment};
use crate::scan::{AnchorHash, command_line, for_each_anchor, for_each_quote, hash, is_use};

/// The number of an anchor in a session.
pub type AnchorId = u32;

/// A session without overlays, and its anchors. Only events with text are counted, from 0.
#[derive(Debug)]
pub struct Session<'a> {
    pub stream: &'a Stream,
    pub pairs: Pairs,
    pub events: Vec<SessionEvent>,
    /// For each element, the number of its event, or [`NO_EVENT`].
    event_of_element: Vec<u32>,
    ids: HashMap<AnchorHash, AnchorId>,
    /// The class of each anchor.
    pub(crate) classes: Vec<Class>,
    /// The events that name each anchor, in order.
    pub(crate) occurrences: Vec<Vec<u32>>,
    pub constraints: Vec<Constraint>,
    sentences: Sentences,
    /// The constraints in each event that has any.
    sentences_of_event: HashMap<usize, Box<[SentenceId]>>,
}

const NO_EVENT: u32 = u32::MAX;

/// An event with text.
#[derive(Debug, Clone)]
pub struct SessionEvent {
    /// The element of the stream.
    pub element: usize,
    pub role: TextRole,
    pub turn: usize,
    /// The step in the turn. `None` for the user's events.
    pub step: Option<usize>,
    /// The number of characters of its text.
    pub chars: usize,
    /// The anchors that it names, sorted.
    pub(crate) anchors: Box<[AnchorId]>,
}

/// A sentence in which the user sets a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    pub text: String,
    pub event: usize,
    sentence: SentenceId,
}

/// An anchor of a prefix whose first later mention is a use by the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtRisk {
    pub id: AnchorId,
    /// The last event of the prefix that names it.
    pub source: usize,
    /// The first event after the prefix that names it.
    pub use_event: usize,
}

impl<'a> Session<'a> {
    /// Reads the anchors of a stream without overlays.
    #[must_use]
    pub fn new(stream: &'a Stream) -> Self {
        let pairs = Pairs::new(stream);
        let mut event_of_element = vec![NO_EVENT; stream.events().len()];
        let mut events = Vec::new();
        for (element, event) in stream.events().iter().enumerate() {
            let Some(role) = TextRole::of_kind(event.kind) else { continue };
            event_of_element[element] = events.len() as u32;
            let step = stream.steps().step(element);
            let anchors = Box::default();
            events.push(SessionEvent { element, role, turn: event.turn, step, chars: 0, anchors });
        }
        let ids = HashMap::new();
        let (classes, occurrences, constraints) = (Vec::new(), Vec::new(), Vec::new());
        let mut session = Self {
            stream,
            pairs,
            events,
            event_of_element,
            ids,
            classes,
            occurrences,
            constraints,
            sentences: Sentences::default(),
            sentences_of_event: HashMap::new(),
        };
        session.number_anchors();
        session.find_constraints();
        session.find_occurrences();
        session
    }

    /// Returns the number of an element's event. `None` if the element has no text.
    #[must_use]
    pub fn event_of(&self, element: usize) -> Option<usize> {
        let event = *self.event_of_element.get(element)?;
        (event != NO_EVENT).then_some(event as usize)
    }

    #[must_use]
    pub fn class(&self, id: AnchorId) -> Class {
        self.classes[id as usize]
    }

    #[must_use]
    pub fn anchor_count(&self) -> usize {
        self.classes.len()
    }

    /// Returns the tool name of a call or a result.
    #[must_use]
    pub fn tool(&self, event: usize) -> Option<String> {
        self.pairs.tool(self.stream, self.events[event].element).map(Cow::into_owned)
    }

    /// Numbers the anchors that the model uses in a message or a call. A quote may also be in its reasoning, and must
    /// be in a tool result.
    fn number_anchors(&mut self) {
        let mut quotes_of_model = HashSet::new();
        let (ids, classes) = (&mut self.ids, &mut self.classes);
        let mut number = |class, hash| {
            ids.entry(hash).or_insert_with(|| {
                classes.push(class);
                (classes.len() - 1) as AnchorId
            });
        };
        for event in self.events.iter().filter(|event| event.role.is_of_model()) {
            let text = element_text(self.stream, event.element);
            for_each_quote(&text, |quote, _| {
                quotes_of_model.insert(quote);
            });
            if !is_use(Class::Path, event.role) {
                continue;
            }
            for_each_anchor(&text, &mut |class, hash, _| number(class, hash));
            if let Some(line) = command_of(self.stream, event.element) {
                number(Class::Command, hash(Class::Command, &line));
            }
        }
        if quotes_of_model.is_empty() {
            return;
        }
        for event in self.events.iter().filter(|event| event.role == TextRole::Result) {
            for_each_quote(&element_text(self.stream, event.element), |quote, _| {
                if quotes_of_model.contains(&quote) {
                    number(Class::Quote, quote);
                }
            });
        }
    }

    fn find_occurrences(&mut self) {
        self.occurrences = vec![Vec::new(); self.classes.len()];
        let mut found = Vec::new();
        for event in 0..self.events.len() {
            let element = self.events[event].element;
            let text = element_text(self.stream, element);
            found.clear();
            self.for_each_known(&text, &mut |id, _| found.push(id));
            if let Some(line) = command_of(self.stream, element) {
                found.extend(self.ids.get(&hash(Class::Command, &line)));
            }
            found.sort_unstable();
            found.dedup();
            for id in &found {
                self.occurrences[*id as usize].push(event as u32);
            }
            self.events[event].chars = text.chars().count();
            self.events[event].anchors = found.as_slice().into();
            found.clear();
            self.sentences.for_each_in(&text, |sentence| found.push(sentence));
            found.sort_unstable();
            found.dedup();
            if !found.is_empty() {
                self.sentences_of_event.insert(event, found.as_slice().into());
            }
        }
    }

    fn find_constraints(&mut self) {
        let mut texts: Vec<(usize, String)> = Vec::new();
        for (event, SessionEvent { element, role, .. }) in self.events.iter().enumerate() {
            if *role == TextRole::User && !is_attachment(self.stream, *element) {
                let text = element_text(self.stream, *element);
                texts.extend(constraints(&text).map(|sentence| (event, sentence.to_owned())));
            }
        }
        let (sentences, ids) = Sentences::new(texts.iter().map(|(_, text)| text.as_str()));
        self.sentences = sentences;
        let constraints = texts.into_iter().zip(ids);
        self.constraints =
            constraints.map(|((event, text), sentence)| Constraint { text, event, sentence }).collect();
    }

    /// Calls `found` for each numbered anchor in a text, except for commands.
    fn for_each_known(&self, text: &str, found: &mut impl FnMut(AnchorId, Range<usize>)) {
        let known = |hash| self.ids.get(&hash).copied();
        for_each_anchor(text, &mut |_, hash, span| {
            if let Some(id) = known(hash) {
                found(id, span);
            }
        });
        for_each_quote(text, |hash, span| {
            if let Some(id) = known(hash) {
                found(id, span);
            }
        });
    }

    /// Returns the text of each anchor, taken from the event that uses it.
    #[must_use]
    pub fn texts_of_uses(&self, uses: &[AtRisk]) -> Vec<String> {
        let mut texts = vec![String::new(); uses.len()];
        let mut by_event: BTreeMap<usize, HashMap<AnchorId, usize>> = BTreeMap::new();
        for (index, anchor) in uses.iter().enumerate() {
            by_event.entry(anchor.use_event).or_default().insert(anchor.id, index);
        }
        for (event, wanted) in by_event {
            let element = self.events[event].element;
            let text = element_text(self.stream, element);
            let mut set = |id: AnchorId, anchor: &str| {
                if let Some(slot) = wanted.get(&id).map(|index| &mut texts[*index])
                    && slot.is_empty()
                {
                    anchor.clone_into(slot);
                }
            };
            self.for_each_known(&text, &mut |id, span| set(id, &text[span]));
            if let Some(line) = command_of(self.stream, element)
                && let Some(id) = self.ids.get(&hash(Class::Command, &line))
            {
                set(*id, &line);
            }
        }
        texts
    }

    /// Returns the anchors and the constraints of a view.
    #[must_use]
    pub fn read_view(&self, view: &View) -> SeenView {
        let mut seen = SeenView::new(self);
        for item in view.items() {
            match item.part.element().filter(|_| matches!(item.part, Part::Kept(_) | Part::Short(_))) {
                Some(element) => {
                    if let Some(event) = self.event_of(element) {
                        seen.add_event(self, event);
                    }
                }
                None => {
                    if let Some((_, text)) = changed_text(&item.part) {
                        self.for_each_known(&text, &mut |id, _| seen.anchors.add(id));
                        self.sentences.for_each_in(&text, |sentence| seen.sentences.add(sentence));
                    }
                }
            }
        }
        seen
    }

    /// Returns the anchors of whole events.
    #[must_use]
    pub fn read_events(&self, events: impl IntoIterator<Item = usize>) -> SeenView {
        let mut seen = SeenView::new(self);
        events.into_iter().for_each(|event| seen.add_event(self, event));
        seen
    }
}

/// The anchors and the constraints in a view.
#[derive(Debug, Clone)]
pub struct SeenView {
    anchors: BitSet,
    sentences: BitSet,
}

impl SeenView {
    fn new(session: &Session<'_>) -> Self {
        Self { anchors: BitSet::new(session.anchor_count()), sentences: BitSet::new(session.sentences.len()) }
    }

    fn add_event(&mut self, session: &Session<'_>, event: usize) {
        session.events[event].anchors.iter().for_each(|id| self.anchors.add(*id));
        if let Some(sentences) = session.sentences_of_event.get(&event) {
            sentences.iter().for_each(|sentence| self.sentences.add(*sentence));
        }
    }

    /// Returns whether an event of the view names the anchor.
    #[must_use]
    pub fn contains(&self, id: AnchorId) -> bool {
        self.anchors.contains(id)
    }

    /// Returns whether an event of the view contains the sentence.
    #[must_use]
    pub fn has_constraint(&self, constraint: &Constraint) -> bool {
        self.sentences.contains(constraint.sentence)
    }
}

/// A set of small numbers.
#[derive(Debug, Clone)]
struct BitSet(Vec<u64>);

impl BitSet {
    fn new(numbers: usize) -> Self {
        Self(vec![0; numbers.div_ceil(64)])
    }

    fn add(&mut self, number: u32) {
        self.0[number as usize / 64] |= 1 << (number % 64);
    }

    fn contains(&self, number: u32) -> bool {
        self.0[number as usize / 64] & (1 << (number % 64)) != 0
    }
}

/// Returns the first line of a shell command, if the element is a call of a shell.
fn command_of(stream: &Stream, element: usize) -> Option<String> {
    let event = &stream.events()[element];
    if event.kind != Kind::ToolRequest {
        return None;
    }
    command_line(&stream.text(event.name), &arguments(stream, element))
}
