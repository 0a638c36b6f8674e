//! A view as a conversation that every provider accepts, before it is put in a provider's form: user and assistant
//! alternate, every call has a response, and no text is blank.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{NameRules, Provider, ViewPosition};
use crate::event::Kind;
use crate::pairs::Pairs;
use crate::stream::Stream;
use crate::view::{Item, Part, View};

/// The user message at the start of a conversation that begins with the assistant.
const OPENING: &str = "[Beginning of conversation]";
/// The user message at the end of a conversation that ends with the assistant.
const CONTINUE: &str = "[Continue]";
/// The response to an unanswered call.
const NO_ANSWER: &str = "[This call was not answered]";

/// A conversation.
///
/// Invariants: two messages of one role are separated by responses. No message is empty. A thought precedes the output
/// that follows from it. The last message is from the user, or has responses. A repaired conversation also begins with
/// the user, has no blank text, and each call has a response and each response a call.
#[derive(Debug)]
pub(super) struct Talk {
    pub(super) messages: Vec<Message>,
    /// The first turn that differs from the history.
    pub(super) changed: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Message {
    pub(super) role: Role,
    pub(super) blocks: Vec<Block>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    User,
    Assistant,
}

#[derive(Debug)]
pub(super) struct Block {
    pub(super) place: ViewPosition,
    pub(super) what: What,
    /// Data that the provider that made the block wants back, such as signatures and ids.
    metadata: Map<String, Value>,
}

#[derive(Debug)]
pub(super) enum What {
    Text(String),
    Thought(String),
    Call(Call),
    /// A response whose call is missing or not directly before it. Only in unrepaired conversations.
    Stray(Stray),
}

#[derive(Debug)]
pub(super) struct Stray {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) answer: Answer,
}

#[derive(Debug)]
pub(super) struct Call {
    /// Unique in a repaired conversation.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Value,
    /// Present in a repaired conversation.
    pub(super) answer: Option<Answer>,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) place: ViewPosition,
    pub(super) content: String,
    pub(super) is_error: bool,
}

impl Block {
    /// Returns the data for the provider with this name.
    pub(super) fn kept(&self, name: &str) -> Option<&str> {
        self.metadata.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    fn text(place: ViewPosition, text: &str) -> Self {
        Self { place, what: What::Text(text.into()), metadata: Map::new() }
    }
}

impl Message {
    pub(super) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.blocks.iter().filter_map(|block| match &block.what {
            What::Call(call) => Some(call),
            _ => None,
        })
    }

    /// Returns the calls that are answered directly after this message, and the responses.
    pub(super) fn answers(&self) -> impl Iterator<Item = (&Call, &Answer)> {
        self.calls().filter_map(|call| Some((call, call.answer.as_ref()?)))
    }

    /// Returns whether the next message must have another role, because no responses separate them.
    fn is_open(&self) -> bool {
        self.answers().next().is_none()
    }
}

/// The requirements of a provider.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// Which thoughts it accepts.
    pub(super) takes_thought: fn(&Block) -> bool,
    /// Whether to repair the conversation for it.
    pub(super) mends: bool,
    /// The provider that restricts ids and names.
    pub(super) provider: Option<Provider>,
}

impl Talk {
    /// Makes the conversation of a view.
    pub(super) fn new(stream: &Stream, view: &View, manner: Manner) -> Self {
        let mut draft = Draft::new(stream, view, manner);
        for item in view.items() {
            if let Some(event) = item.part.event(stream) {
                draft.add(item, event);
            }
        }
        let mut messages = tidy(draft.done(), manner);
        let changed = first_change(stream, view);
        // After earlier content has changed, signed blocks are left out, except in the current turn.
        let current = current(&messages);
        let is_stale = |block: &Block| changed.is_some_and(|turn| block.place.turn >= Some(turn));
        for message in &mut messages[..current] {
            message.blocks.retain(|block| !matches!(block.what, What::Thought(_)) || !is_stale(block));
            message
                .blocks
                .iter_mut()
                .filter(|block| is_stale(block))
                .for_each(|block| block.metadata.clear());
        }
        Self { messages, changed }
    }
}

/// Returns the last message with which the user begins a turn. A message that was added after a call without a response
/// begins none: the call still waits.
fn current(messages: &[Message]) -> usize {
    let waits = |message: &Message| message.calls().any(|call| call.answer.is_none());
    let begins = |at: usize| {
        let message = &messages[at];
        let is_ours = message.blocks.iter().all(|block| block.place == ViewPosition::default());
        message.role == Role::User
            && message.blocks.iter().any(|block| matches!(block.what, What::Text(_)))
            && !(is_ours && at.checked_sub(1).is_some_and(|before| waits(&messages[before])))
    };
    (0..messages.len()).rfind(|at| begins(*at)).unwrap_or_default()
}

/// A conversation under construction.
struct Draft<'a> {
    stream: &'a Stream,
    mends: bool,
    provider: Option<Provider>,
    pairs: Pairs,
    /// Elements in the view.
    shown: HashSet<usize>,
    messages: Vec<Message>,
    /// The message and block of each call, by its element.
    calls: HashMap<usize, (usize, usize)>,
    /// Ids in use.
    ids: HashSet<String>,
    /// Whether a call was answered since the start of the last message. If so, the assistant's next block starts a new
    /// one.
    answered: bool,
    /// The response of the model that the assistant's last block belongs to. 0 if that is unknown. Its blocks stay one
    /// message even if results are between them.
    response: u32,
}

impl<'a> Draft<'a> {
    fn new(stream: &'a Stream, view: &View, manner: Manner) -> Self {
        Self {
            stream,
            mends: manner.mends,
            provider: manner.provider,
            pairs: Pairs::new(stream),
            shown: view.items().iter().filter_map(|item| item.part.element()).collect(),
            messages: Vec::new(),
            calls: HashMap::new(),
            ids: HashSet::new(),
            answered: false,
            response: 0,
        }
    }

    fn add(&mut self, item: &Item, mut event: Map<String, Value>) {
        let element = item.part.element();
        let kind = match &item.part {
            Part::SummaryRequest { .. } | Part::SummaryNote { .. } => Kind::ChatRequest,
            _ => element.map_or(Kind::Message, |element| self.stream.events()[element].kind),
        };
        let seq = element.and_then(|element| self.stream.events()[element].seq);
        let place = ViewPosition { turn: Some(item.origin.turn()), event: seq };
        let metadata = match event.remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => Map::new(),
        };
        let mut text = |name: &str| match event.remove(name) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let (role, what) = match kind {
            Kind::ChatRequest => (Role::User, What::Text(text("content"))),
            Kind::Message => (Role::Assistant, What::Text(text("message"))),
            Kind::Reasoning => (Role::Assistant, What::Thought(text("reasoning"))),
            Kind::Data => {
                let data = event.remove("data").unwrap_or_default();
                (Role::Assistant, What::Text(data.to_string()))
            }
            Kind::ToolRequest => {
                let (id, name) = (text("id"), self.accepted(NameRules::name, text("name")));
                let arguments = event.remove("arguments").unwrap_or_default();
                (Role::Assistant, What::Call(Call { id: self.id(id), name, arguments, answer: None }))
            }
            Kind::ToolResponse { is_error } => {
                let (id, content) = (text("id"), text("content"));
                let answer = Answer { place, content, is_error };
                let Some(answer) = self.answer(element, answer) else { return };
                let name = element.and_then(|element| self.pairs.tool(self.stream, element));
                let name = name.map_or_else(|| "unknown".into(), Cow::into_owned);
                (Role::User, What::Stray(Stray { id, name, answer }))
            }
            _ => return,
        };
        let last = self.messages.last().map(|last| last.role);
        let response = element.map_or(0, |element| self.stream.response(element));
        let continues = response != 0 && response == self.response;
        if last != Some(role) || (role == Role::Assistant && self.answered && !continues) {
            self.messages.push(Message { role, blocks: Vec::new() });
            self.answered = false;
        }
        if role == Role::Assistant {
            self.response = response;
        }
        let message = self.messages.len() - 1;
        let blocks = &mut self.messages[message].blocks;
        if let (What::Call(_), Some(element)) = (&what, element) {
            self.calls.insert(element, (message, blocks.len()));
        }
        blocks.push(Block { place, what, metadata });
    }

    /// Attaches a response to its call. Returns it if there is no such call in the last message.
    fn answer(&mut self, element: Option<usize>, answer: Answer) -> Option<Answer> {
        let call = element.and_then(|element| self.pairs.partner(element));
        let place = call.filter(|call| self.shown.contains(call)).and_then(|call| self.calls.get(&call));
        let last = self.messages.len();
        match place.copied() {
            Some((message, block)) if self.mends || message + 1 == last => {
                self.answered = true;
                if let What::Call(call) = &mut self.messages[message].blocks[block].what {
                    call.answer = Some(answer);
                }
                None
            }
            _ => Some(answer).filter(|_| !self.mends),
        }
    }

    /// Returns the messages. In a repaired conversation, unanswered calls get a response.
    fn done(mut self) -> Vec<Message> {
        let blocks = self.messages.iter_mut().flat_map(|message| &mut message.blocks);
        for block in blocks.filter(|_| self.mends) {
            if let What::Call(Call { answer: answer @ None, .. }) = &mut block.what {
                *answer = Some(Answer { place: block.place, content: NO_ANSWER.into(), is_error: true });
            }
        }
        self.messages
    }

    /// Returns a name or an id in a form that the provider accepts.
    fn accepted(&self, allowed: fn(Provider) -> NameRules, text: String) -> String {
        match self.provider.filter(|_| self.mends) {
            Some(provider) => allowed(provider).accepted(text),
            None => text,
        }
    }

    /// Returns an unused id. Streams reuse ids, but bodies must not.
    fn id(&mut self, id: String) -> String {
        if !self.mends {
            return id;
        }
        let id = self.accepted(NameRules::id, id);
        let free = (2..).map(|number| self.accepted(NameRules::id, format!("{id}_{number}")));
        let id = std::iter::once(id.clone()).chain(free).find(|id| !self.ids.contains(id)).unwrap_or(id);
        self.ids.insert(id.clone());
        id
    }
}

/// Removes blocks that the provider does not accept, and merges. Repairs also remove blank texts and close both ends.
fn tidy(draft: Vec<Message>, manner: Manner) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::with_capacity(draft.len() + 2);
    for mut message in draft {
        message.blocks.retain(|block| match &block.what {
            What::Text(text) => !manner.mends || !text.trim().is_empty(),
            What::Thought(_) => (manner.takes_thought)(block),
            What::Call(_) | What::Stray(_) => true,
        });
        let led_to = message.blocks.iter().rposition(|block| !matches!(block.what, What::Thought(_)));
        message.blocks.truncate(led_to.map_or(0, |last| last + 1));
        if message.blocks.is_empty() {
            continue;
        }
        match messages.last_mut() {
            Some(last) if last.role == message.role && last.is_open() => {
                last.blocks.append(&mut message.blocks);
            }
            _ => messages.push(message),
        }
    }
    let user = |text| Message { role: Role::User, blocks: vec![Block::text(ViewPosition::default(), text)] };
    if manner.mends && messages.first().is_some_and(|first| first.role == Role::Assistant) {
        messages.insert(0, user(OPENING));
    }
    if messages.last().is_some_and(|last| last.role == Role::Assistant && last.is_open()) {
        messages.push(user(CONTINUE));
    }
    messages
}

/// Returns the first turn that the view changes.
fn first_change(stream: &Stream, view: &View) -> Option<usize> {
    let kept: HashSet<usize> = view
        .items()
        .iter()
        .filter_map(|item| match item.part {
            Part::Kept(element) | Part::Short(element) => Some(element),
            _ => None,
        })
        .collect();
    let mut events = stream.events().iter().enumerate();
    let changed = events.find(|(element, event)| event.kind.is_provider_visible() && !kept.contains(element));
    changed.map(|(_, event)| event.turn)
}
