//! A view as a conversation, before it is rendered in the form of a provider. A repaired conversation satisfies the rules
//! of all providers: user and assistant alternate, every call has a response, and no text is blank.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{NameRules, Provider, ViewPosition};
use crate::event::Kind;
use crate::pairs::Pairs;
use crate::stale::StaleItems;
use crate::stream::Stream;
use crate::view::{Item, Part, View};

/// The user message at the start of a conversation that begins with the assistant.
const OPENING: &str = "[Beginning of conversation]";
/// The user message at the end of a conversation that ends with the assistant.
const CONTINUE: &str = "[Continue]";
/// The response to an unanswered call.
const NO_ANSWER: &str = "[This call was not answered]";

/// The messages of a view.
///
/// Invariants: two messages of one role are separated by responses. No message is empty. No message ends with a thought.
/// The last message is from the user, or has responses. A repaired conversation also begins with the user, and has no
/// blank text. Each of its calls has a response, and each response has a call.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) messages: Vec<Message>,
    /// The first turn that differs from the raw history.
    pub(super) first_changed_turn: Option<usize>,
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
    pub(super) position: ViewPosition,
    pub(super) content: Content,
    /// Data that must be sent back to the provider that made the block, such as signatures and ids.
    metadata: Map<String, Value>,
}

#[derive(Debug)]
pub(super) enum Content {
    Text(String),
    Thought(String),
    Call(Call),
    /// A response that does not directly follow its call, or that has no call. Only in unrepaired conversations.
    Orphan(Orphan),
}

#[derive(Debug)]
pub(super) struct Orphan {
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
    pub(super) position: ViewPosition,
    pub(super) content: String,
    pub(super) is_error: bool,
}

impl Block {
    /// Returns a nonempty text of the metadata.
    pub(super) fn metadata_text(&self, name: &str) -> Option<&str> {
        self.metadata.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    fn text(position: ViewPosition, text: &str) -> Self {
        Self { position, content: Content::Text(text.into()), metadata: Map::new() }
    }
}

impl Message {
    pub(super) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.blocks.iter().filter_map(|block| match &block.content {
            Content::Call(call) => Some(call),
            _ => None,
        })
    }

    /// Returns the answered calls, with their responses. The responses directly follow the message.
    pub(super) fn answers(&self) -> impl Iterator<Item = (&Call, &Answer)> {
        self.calls().filter_map(|call| Some((call, call.answer.as_ref()?)))
    }

    /// Returns whether a next message of the same role must be merged, because no responses separate the two.
    fn is_mergeable(&self) -> bool {
        self.answers().next().is_none()
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Requirements {
    /// Returns whether the provider accepts a thought.
    pub(super) accepts_thought: fn(&Block) -> bool,
    /// Whether to repair the conversation.
    pub(super) is_repaired: bool,
    /// The provider whose rules for ids and names apply.
    pub(super) provider: Option<Provider>,
}

impl Conversation {
    /// Makes the conversation of a view.
    pub(super) fn new(stream: &Stream, view: &View, requirements: Requirements) -> Self {
        let mut builder = ConversationBuilder::new(stream, view, requirements);
        let stale = StaleItems::new(stream, view);
        for (index, item) in view.items().iter().enumerate() {
            if let Some(event) = item.part.event(stream) {
                builder.add(item, event, stale.contains(index, item));
            }
        }
        let messages = normalize(builder.finish(), requirements);
        Self { messages, first_changed_turn: stale.first_changed_turn }
    }
}

struct ConversationBuilder<'a> {
    stream: &'a Stream,
    is_repaired: bool,
    provider: Option<Provider>,
    pairs: Pairs,
    /// The elements in the view.
    shown: HashSet<usize>,
    messages: Vec<Message>,
    /// The indexes of the message and of the block of each call, by the call's element.
    calls: HashMap<usize, (usize, usize)>,
    /// The ids in use.
    ids: HashSet<String>,
    /// Whether a call was answered since the last message was started. If so, the assistant's next block starts a new
    /// message, unless it belongs to the same response of the model.
    has_answer: bool,
    /// The number of the model's response that the assistant's last block belongs to. 0 if it is unknown.
    response: u32,
}

impl<'a> ConversationBuilder<'a> {
    fn new(stream: &'a Stream, view: &View, requirements: Requirements) -> Self {
        Self {
            stream,
            is_repaired: requirements.is_repaired,
            provider: requirements.provider,
            pairs: Pairs::new(stream),
            shown: view.items().iter().filter_map(|item| item.part.element()).collect(),
            messages: Vec::new(),
            calls: HashMap::new(),
            ids: HashSet::new(),
            has_answer: false,
            response: 0,
        }
    }

    /// Adds an item. Thoughts and signatures of stale items are left out.
    fn add(&mut self, item: &Item, mut event: Map<String, Value>, is_stale: bool) {
        let element = item.part.element();
        let kind = match &item.part {
            Part::SummaryRequest { .. } | Part::SummaryNote { .. } => Kind::ChatRequest,
            _ => element.map_or(Kind::Message, |element| self.stream.events()[element].kind),
        };
        let seq = element.and_then(|element| self.stream.events()[element].seq);
        let position = ViewPosition { turn: Some(item.origin.turn()), event: seq };
        let metadata = match event.remove("metadata") {
            Some(Value::Object(metadata)) if !is_stale => metadata,
            _ => Map::new(),
        };
        let mut text = |name: &str| match event.remove(name) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let (role, content) = match kind {
            Kind::ChatRequest => (Role::User, Content::Text(self.body_text(text("content")))),
            Kind::Message => (Role::Assistant, Content::Text(self.body_text(text("message")))),
            Kind::Reasoning if is_stale => return,
            Kind::Reasoning => (Role::Assistant, Content::Thought(self.body_text(text("reasoning")))),
            Kind::Data => {
                let data = event.remove("data").unwrap_or_default();
                (Role::Assistant, Content::Text(self.body_text(data.to_string())))
            }
            Kind::ToolRequest => {
                let id = self.unused_id(text("id"));
                let name = self.to_accepted(NameRules::for_names, text("name"));
                let mut arguments = event.remove("arguments").unwrap_or_default();
                if let Value::Object(members) = &mut arguments
                    && !self.is_repaired
                {
                    *members = Map::new();
                }
                (Role::Assistant, Content::Call(Call { id, name, arguments, answer: None }))
            }
            Kind::ToolResponse { is_error } => {
                let (id, content) = (text("id"), self.body_text(text("content")));
                let answer = Answer { position, content, is_error };
                let Some(answer) = self.attach_answer(element, answer) else { return };
                let name = element.and_then(|element| self.pairs.tool(self.stream, element));
                let name = name.map_or_else(|| "unknown".into(), Cow::into_owned);
                (Role::User, Content::Orphan(Orphan { id, name, answer }))
            }
            _ => return,
        };
        let last_role = self.messages.last().map(|last| last.role);
        let response = element.map_or(0, |element| self.stream.response(element));
        let is_same_response = response != 0 && response == self.response;
        if last_role != Some(role) || (role == Role::Assistant && self.has_answer && !is_same_response) {
            self.messages.push(Message { role, blocks: Vec::new() });
            self.has_answer = false;
        }
        if role == Role::Assistant {
            self.response = response;
        }
        let message_index = self.messages.len() - 1;
        let blocks = &mut self.messages[message_index].blocks;
        if let (Content::Call(_), Some(element)) = (&content, element) {
            self.calls.insert(element, (message_index, blocks.len()));
        }
        blocks.push(Block { position, content, metadata });
    }

    /// Attaches a response to its call. If the call is not shown or, without repairs, not in the last message, returns the
    /// response. Repairs drop it instead.
    fn attach_answer(&mut self, element: Option<usize>, answer: Answer) -> Option<Answer> {
        let call = element.and_then(|element| self.pairs.partner(element));
        let indexes = call.filter(|call| self.shown.contains(call)).and_then(|call| self.calls.get(&call));
        let is_last = |message_index: usize| message_index + 1 == self.messages.len();
        match indexes.copied() {
            Some((message_index, block_index)) if self.is_repaired || is_last(message_index) => {
                self.has_answer = true;
                if let Content::Call(call) = &mut self.messages[message_index].blocks[block_index].content {
                    call.answer = Some(answer);
                }
                None
            }
            _ => Some(answer).filter(|_| !self.is_repaired),
        }
    }

    /// Returns the messages. In a repaired conversation, unanswered calls get a response.
    fn finish(mut self) -> Vec<Message> {
        let blocks = self.messages.iter_mut().flat_map(|message| &mut message.blocks);
        for block in blocks.filter(|_| self.is_repaired) {
            if let Content::Call(Call { answer: answer @ None, .. }) = &mut block.content {
                let content = NO_ANSWER.into();
                *answer = Some(Answer { position: block.position, content, is_error: true });
            }
        }
        self.messages
    }

    /// Returns a text of the body. Without repairs, the first character is enough to check whether the text is blank.
    fn body_text(&self, text: String) -> String {
        if self.is_repaired { text } else { text.trim_start().chars().take(1).collect() }
    }

    /// Returns a name or an id in a form that the provider accepts. Without repairs, returns it unchanged.
    fn to_accepted(&self, rules: fn(Provider) -> NameRules, text: String) -> String {
        match self.provider.filter(|_| self.is_repaired) {
            Some(provider) => rules(provider).to_accepted(text),
            None => text,
        }
    }

    /// Returns an id that no other call of the body has, because streams reuse ids. Without repairs, returns it unchanged.
    fn unused_id(&mut self, id: String) -> String {
        if !self.is_repaired {
            return id;
        }
        let original = self.to_accepted(NameRules::for_ids, id);
        let mut id = original.clone();
        for number in 2.. {
            if !self.ids.contains(&id) {
                break;
            }
            id = self.to_accepted(NameRules::for_ids, format!("{original}_{number}"));
        }
        self.ids.insert(id.clone());
        id
    }
}

/// Removes rejected thoughts and empty messages, merges messages of one role, and adds a user message at the end if needed.
/// Repairs also remove blank texts, and add a user message at the start if needed.
fn normalize(unmerged: Vec<Message>, requirements: Requirements) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::with_capacity(unmerged.len() + 2);
    for mut message in unmerged {
        message.blocks.retain(|block| match &block.content {
            Content::Text(text) => !requirements.is_repaired || !text.trim().is_empty(),
            Content::Thought(_) => (requirements.accepts_thought)(block),
            Content::Call(_) | Content::Orphan(_) => true,
        });
        // Thoughts without output after them are left out.
        let last_output =
            message.blocks.iter().rposition(|block| !matches!(block.content, Content::Thought(_)));
        message.blocks.truncate(last_output.map_or(0, |last| last + 1));
        if message.blocks.is_empty() {
            continue;
        }
        match messages.last_mut() {
            Some(last) if last.role == message.role && last.is_mergeable() => {
                last.blocks.append(&mut message.blocks);
            }
            _ => messages.push(message),
        }
    }
    let user_message =
        |text| Message { role: Role::User, blocks: vec![Block::text(ViewPosition::default(), text)] };
    if requirements.is_repaired && messages.first().is_some_and(|first| first.role == Role::Assistant) {
        messages.insert(0, user_message(OPENING));
    }
    if messages.last().is_some_and(|last| last.role == Role::Assistant && last.is_mergeable()) {
        messages.push(user_message(CONTINUE));
    }
    messages
}
