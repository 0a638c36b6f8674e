//! The reader of Codex's rollouts: JSONL, one record per line. The model received the `response_item` records. Most
//! of them are repeated by `event_msg` records for display, which are deleted with their item. A `compacted` record
//! restarts the conversation. Records before it, and records that were rolled back, stay in the file, but the model no
//! longer receives them.

mod author;
mod pair;
mod twins;

use std::borrow::Cow;

use self::author::is_by_user;
use self::twins::{Key, Speaker, Twin};
use super::values;
use crate::builder::{EventBuilder, EventDraft, time_of};
use crate::reader::{Reader, SummaryPair};
use crate::sample::{Sample, ensure, format_error_at};
use crate::source_map::{Deletion, ElementRef};
use jp_compact_core::event::Kind;
use jp_compact_core::index::Unreadable;
use jp_compact_json::{JsonNode, MemberFilter, Span};

pub(super) struct Codex;

const WANTED: MemberFilter = |key| {
    matches!(key, b"payload" | b"content" | b"summary" | b"output" | b"action" | b"item")
        || matches!(key, b"result" | b"invocation" | b"replacement_history" | b"base_instructions")
        || matches!(key, b"internal_chat_message_metadata_passthrough" | b"content_item_kinds")
        || matches!(key, b"session" | b"items")
};

/// The types of records that identify a rollout.
const RECORDS: [&str; 5] = ["session_meta", "response_item", "event_msg", "turn_context", "compacted"];

/// Record types that the model does not receive.
const IGNORED_RECORDS: &str = "event_msg inter_agent_communication inter_agent_communication_metadata \
    session_state token_usage_record world_state";

/// Item types without an event: the provider's own calls, discovered tools, compactions, and snapshots.
const IGNORED_ITEMS: &str = "compaction compaction_summary compaction_trigger context_compaction \
    ghost_snapshot image_generation_call tool_search_call tool_search_output web_search_call";

struct FoundEvent {
    kind: Kind,
    draft: EventDraft,
    /// Whether the event begins a turn.
    starts_turn: bool,
    turn: usize,
    line: usize,
    /// The keys that a twin matches.
    keys: Vec<Key>,
}

/// The state of a rollout during reading.
#[derive(Default)]
struct Rollout {
    events: Vec<FoundEvent>,
    twins: Vec<Twin>,
    /// Whether any record was found.
    has_record: bool,
    /// The id of the current task.
    task: Option<String>,
    /// Whether the log marks the beginning of tasks. Older logs do not.
    has_task_marks: bool,
    /// Whether the current turn has no event yet.
    is_turn_pending: bool,
    /// Whether the current task has a message of the user.
    has_user_message: bool,
    /// Whether a compaction followed the beginning of the task. Its content is a turn, so the task needs another one.
    is_after_compaction: bool,
    turn: usize,
    /// The length of the text that the model no longer receives.
    unsent_text: u64,
    /// Whether the history of a compaction is being read. It is one turn, even if it has several requests.
    in_history: bool,
}

impl Reader for Codex {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        sample.any_line(|line| {
            let kind = line.text_of("type");
            let is_record = line.get("payload").is_some_and(JsonNode::is_object)
                && kind.as_deref().is_some_and(|kind| RECORDS.contains(&kind));
            is_record || is_old_head(line)
        }) || sample.document.is_some_and(|document| items_of(document).is_some())
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        let mut rollout = Rollout::default();
        if builder.is_document() {
            builder.read_document(WANTED, |builder, document| {
                rollout.read_document(builder, document);
                Ok(())
            })?;
        }
        if !rollout.has_record {
            builder.read_lines(WANTED, |builder, at, node| {
                ensure(node.is_object(), "Codex", node, "a line is not an object")?;
                rollout.read_line(builder, at, node);
                Ok(())
            })?;
        }
        if !rollout.has_record {
            return Err(format_error_at("Codex", 0, "none of the lines is a record of a rollout"));
        }
        let Rollout { mut events, twins, unsent_text, .. } = rollout;
        builder.count_unsent(unsent_text);
        twins::attach(&mut events, twins);
        for FoundEvent { kind, draft, starts_turn, .. } in events {
            if starts_turn {
                builder.start_turn(draft.time);
            }
            builder.add(kind, draft);
        }
        Ok(())
    }

    fn has_nested_messages(&self) -> bool {
        true
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
        pair::records(pair)
    }
}

/// Returns whether a line occurs only in the oldest rollouts: a head without a type, or a state mark. Bare items
/// follow.
fn is_old_head(line: JsonNode<'_>) -> bool {
    let is_head = line.string("id").is_some() && line.string("timestamp").is_some();
    let has = |name: &str| line.get(name).is_some();
    line.text_is("record_type", "state") || (!has("type") && is_head && (has("instructions") || has("git")))
}

/// Returns the items of a rollout that is one document, the form before JSONL.
fn items_of(document: JsonNode<'_>) -> Option<JsonNode<'_>> {
    let has_session = document.get("session").is_some_and(JsonNode::is_object);
    document.get("items").filter(|items| has_session && items.is_array())
}

impl Rollout {
    fn read_document(&mut self, builder: &mut EventBuilder, document: JsonNode<'_>) {
        let Some(items) = items_of(document) else { return };
        self.has_record = true;
        let session = document.get("session");
        builder.add_system_content(session.and_then(|session| session.string("instructions")));
        let time = session.and_then(|session| time_of(session, "timestamp"));
        for (at, item) in builder.elements(items, None) {
            self.read_item(builder, item, EventDraft::of_record(at, time));
        }
    }

    fn read_line(&mut self, builder: &mut EventBuilder, at: ElementRef, node: JsonNode<'_>) {
        let draft = EventDraft::of_record(at, time_of(node, "timestamp"));
        let kind = node.text_of("type");
        let Some(payload) = node.object("payload") else {
            self.has_record |= is_old_head(node);
            match self.has_record {
                true if is_old_head(node) => {}
                true => self.read_item(builder, node, draft),
                false => builder.count_unknown(node),
            }
            return;
        };
        let kind = kind.as_deref().unwrap_or_default();
        self.has_record |= RECORDS.contains(&kind);
        match kind {
            "response_item" => self.read_item(builder, payload, draft),
            "event_msg" => self.read_event(at, payload),
            "session_meta" => {
                let instructions = payload.inner("base_instructions", "text");
                let instructions = instructions.filter(|text| text.is_string());
                builder.add_system_content(instructions.or(payload.string("instructions")));
            }
            "turn_context" => {
                builder.read_model(payload, "model");
                if let Some(id) = payload.text_of("turn_id") {
                    self.begin_task(Some(id));
                }
            }
            "compacted" => self.read_compaction(builder, at, payload, draft),
            kind if IGNORED_RECORDS.split(' ').any(|ignored| ignored == kind) => {}
            _ => builder.count_unknown(node),
        }
    }

    fn drop_events(&mut self, from: usize) {
        let text = self.events.drain(from..).map(|event| event.draft.body.len() as u64);
        self.unsent_text += text.sum::<u64>();
    }

    /// Begins a task, unless the current task has this id. The context repeats the id after a compaction.
    fn begin_task(&mut self, id: Option<Cow<'_, str>>) {
        self.has_task_marks = true;
        if id.is_none() || id.as_deref() != self.task.as_deref() {
            self.task = id.map(Cow::into_owned);
            self.is_turn_pending = true;
            (self.has_user_message, self.is_after_compaction) = (false, false);
        }
    }

    fn add(&mut self, kind: Kind, draft: EventDraft, is_by_user: bool, keys: Vec<Key>) {
        let is_by_user = is_by_user && !self.in_history;
        let needs_turn = !self.has_task_marks || (self.is_after_compaction && !self.has_user_message);
        let starts_turn = self.is_turn_pending || (is_by_user && needs_turn);
        self.has_user_message |= is_by_user;
        self.is_turn_pending = false;
        self.turn += usize::from(starts_turn);
        let line = draft.record.map_or(0, |record| record.element);
        self.events.push(FoundEvent { kind, draft, starts_turn, turn: self.turn, line, keys });
    }

    /// Reads Codex's own compaction. The record is pinned, because without it Codex would send the replaced records
    /// again. Its content is the first turn.
    fn read_compaction(
        &mut self,
        builder: &mut EventBuilder,
        at: ElementRef,
        payload: JsonNode<'_>,
        draft: EventDraft,
    ) {
        self.drop_events(0);
        self.twins.clear();
        (self.is_turn_pending, self.is_after_compaction) = (true, true);
        builder.pin(at);
        let message = payload.non_empty_string("message");
        let empty_message = message.map(|message| Deletion::Value(message.span(), "\"\""));
        if let Some(history) = payload.array("replacement_history") {
            self.in_history = true;
            for (at, item) in builder.elements(history, None) {
                self.read_item(builder, item, draft.part(item, Deletion::Element(at)));
            }
            self.in_history = false;
            // The record also contains the summary as `message`.
            if let (Some(last), Some(deletion)) = (self.events.last_mut(), empty_message) {
                last.draft.further_deletions.push(deletion);
            }
        } else if let (Some(message), Some(deletion)) = (message, empty_message) {
            let draft = draft.text_part(message, deletion);
            self.add(Kind::ChatRequest, draft, false, Vec::new());
        }
    }

    /// Drops the newest turns.
    fn roll_back(&mut self, turns: usize) {
        let starts = self.events.iter().enumerate().filter(|(_, event)| event.starts_turn);
        let starts: Vec<usize> = starts.map(|(index, _)| index).collect();
        let first = starts.get(starts.len().saturating_sub(turns)).copied();
        if let Some(first) = first.filter(|_| turns > 0) {
            let line = self.events[first].line;
            self.drop_events(first);
            self.twins.retain(|twin| twin.line < line);
        }
    }

    fn read_event(&mut self, at: ElementRef, payload: JsonNode<'_>) {
        let Some(kind) = payload.text_of("type") else { return };
        match &*kind {
            "task_started" | "turn_started" => self.begin_task(payload.text_of("turn_id")),
            "thread_rolled_back" => {
                let turns = payload.get("num_turns").and_then(JsonNode::number);
                self.roll_back(turns.unwrap_or_default());
            }
            kind => self.twins.extend(Twin::new(kind, payload, at, self.turn)),
        }
    }

    /// Adds the event of an item.
    fn read_item(&mut self, builder: &mut EventBuilder, item: JsonNode<'_>, draft: EventDraft) {
        let Some(kind) = item.text_of("type") else { return builder.count_unknown(item) };
        let draft = EventDraft { span: item.span(), ..draft };
        match &*kind {
            "message" => self.add_message(builder, item, draft),
            "agent_message" => {
                if let Some(content) = item.get("content") {
                    let body = builder.text(content);
                    self.add(Kind::ChatRequest, EventDraft { body, ..draft }, false, Vec::new());
                }
            }
            "reasoning" => self.add_reasoning(builder, item, draft),
            "function_call" => {
                self.add_call(builder, item, "call_id", "arguments", values::empty_object_in_string, draft);
            }
            "custom_tool_call" => self.add_call(builder, item, "call_id", "input", values::text, draft),
            "local_shell_call" => {
                let id = if item.string("call_id").is_some() { "call_id" } else { "id" };
                let draft = EventDraft { name: builder.new_string("local_shell"), ..draft };
                self.add_call(builder, item, id, "action", twins::empty_action, draft);
            }
            "function_call_output" | "custom_tool_call_output" => {
                self.add_output(builder, item, draft.with_id(item.string_span("call_id")));
            }
            // The provider's own calls have no result, and are deleted with their turn. `tool_search_call` and its
            // output have no event either, because later calls need the tools that were found.
            "web_search_call" | "image_generation_call" if !self.in_history => {
                self.twins.extend(draft.record.map(|at| Twin::for_turn(at, self.turn)));
            }
            kind if IGNORED_ITEMS.split(' ').any(|ignored| ignored == kind) => {}
            _ => builder.count_unknown(item),
        }
    }

    fn add_message(&mut self, builder: &mut EventBuilder, item: JsonNode<'_>, draft: EventDraft) {
        let Some(content) = item.get("content") else { return builder.count_unknown(item) };
        let texts: Vec<Cow<'_, str>> = if content.is_string() {
            vec![content.text()]
        } else {
            content.items().filter_map(|block| block.text_of("text")).collect()
        };
        let speaker = match item.text_of("role").as_deref() {
            Some("user") => Speaker::User,
            Some("assistant") => Speaker::Agent,
            Some("developer" | "system") => return builder.add_system(&texts.join("\n")),
            _ => return builder.count_unknown(item),
        };
        let mut keys: Vec<Key> = texts.iter().map(|text| Key::text(speaker, text)).collect();
        keys.push(Key::text(speaker, &texts.concat()));
        keys.extend(item.text_of("id").map(|id| Key::Item(id.into_owned())));
        let count_media = |end: &str| {
            let is_medium =
                |block: &JsonNode<'_>| block.text_of("type").is_some_and(|kind| kind.ends_with(end));
            content.items().filter(is_medium).count()
        };
        let (image_count, audio_count) = (count_media("image"), count_media("audio"));
        if image_count + audio_count == 0 && texts.iter().all(|text| text.is_empty()) {
            return;
        }
        let body = builder.text(content);
        if speaker == Speaker::Agent {
            self.add(Kind::Message, EventDraft { body, ..draft }, false, keys);
            return;
        }
        let Some(is_by_user) = is_by_user(item, &texts) else { return builder.add_system(&texts.join("\n")) };
        let mut parts = if texts.is_empty() && image_count == 0 { vec![] } else { vec![body] };
        parts.extend((0..audio_count).map(|_| builder.new_string("[audio]")));
        let body = builder.one_or_joined(&parts);
        self.add(Kind::ChatRequest, EventDraft { body, ..draft }, is_by_user, keys);
    }

    fn add_reasoning(&mut self, builder: &mut EventBuilder, item: JsonNode<'_>, draft: EventDraft) {
        let blocks = ["summary", "content"].map(|name| item.non_empty_array(name));
        let texts = blocks.iter().flatten().flat_map(|list| list.items());
        let mut keys: Vec<Key> = texts
            .filter_map(|block| block.text_of("text"))
            .map(|text| Key::text(Speaker::Reasoning, &text))
            .collect();
        keys.extend(item.text_of("id").map(|id| Key::Item(id.into_owned())));
        let body = builder.text_or_empty(blocks.into_iter().flatten().next());
        let metadata = builder.openai_item_data(item);
        self.add(Kind::Reasoning, EventDraft { body, metadata, ..draft }, false, keys);
    }

    fn add_call(
        &mut self,
        builder: &mut EventBuilder,
        item: JsonNode<'_>,
        id: &str,
        body: &str,
        write: fn(&str) -> String,
        draft: EventDraft,
    ) {
        let keys = item.text_of(id).map(|id| Key::Call(id.into_owned()));
        let name = match item.string("name") {
            _ if !draft.name.is_empty() => draft.name,
            Some(name) => name.span(),
            None => builder.new_string("unknown"),
        };
        let content = item.get(body);
        let id = item.string_span(id);
        let mut draft = EventDraft { id, name, ..draft.with_arguments(content, write) };
        // Arguments that were emptied before: a shell command that runs nothing.
        if content.is_some_and(|action| action.raw() == twins::empty_action("").as_bytes()) {
            draft.body = Span::default();
        }
        self.add(Kind::ToolRequest, draft, false, keys.into_iter().collect());
    }

    fn add_output(&mut self, builder: &mut EventBuilder, item: JsonNode<'_>, draft: EventDraft) {
        let keys = item.text_of("call_id").map(|id| Key::Result(id.into_owned()));
        let output = item.get("output");
        // Older versions wrapped the content in an object.
        let content = output.map(|output| output.get("content").unwrap_or(output));
        let is_error = output
            .is_some_and(|output| output.get("success").is_some_and(|success| success.raw() == b"false"));
        let draft = builder.result(content, values::text, draft);
        self.add(Kind::ToolResponse { is_error }, draft, false, keys.into_iter().collect());
    }
}
