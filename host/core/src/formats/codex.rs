//! Codex's rollouts: JSONL, a record a line. A model was sent the `response_item`s; an `event_msg` says most of them once
//! more, for those who show the session. A `compacted` record begins the conversation anew: what stands before it, or
//! was rolled back, is sent no more.

mod asked;
mod pair;
mod twins;

use std::borrow::Cow;

use self::asked::is_asked;
use self::twins::{Key, Twin, Voice};
use super::detect::{Sample, not_of};
use super::foreign::{At, Cut, Slot};
use super::jp::Unreadable;
use super::pairs::Pair;
use super::reading::{Draft, Reading, time_of};
use super::tree::{Look, Wanted};
use super::{Transcript, write};
use crate::event::Kind;
use crate::json::Span;

pub(super) struct Codex;

const WANTED: Wanted = |key| {
    matches!(
        key,
        b"payload"
            | b"content"
            | b"summary"
            | b"output"
            | b"action"
            | b"item"
            | b"result"
            | b"invocation"
            | b"replacement_history"
            | b"base_instructions"
            | b"internal_chat_message_metadata_passthrough"
            | b"content_item_kinds"
            | b"session"
            | b"items"
    )
};

/// What records are called.
const RECORDS: [&str; 5] = ["session_meta", "response_item", "event_msg", "turn_context", "compacted"];

/// Records beside what a model is sent.
const BESIDE: [&str; 6] = [
    "event_msg",
    "inter_agent_communication",
    "inter_agent_communication_metadata",
    "session_state",
    "token_usage_record",
    "world_state",
];

/// Items that are no events: what the provider did itself, tools that it found, its own compactions.
const ITEMS_BESIDE: [&str; 9] = [
    "compaction",
    "compaction_summary",
    "compaction_trigger",
    "context_compaction",
    "ghost_snapshot",
    "image_generation_call",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
];

/// An event that was found.
struct Found {
    kind: Kind,
    draft: Draft,
    /// Whether it opens a turn.
    opens: bool,
    /// Which turn it is in, and on which line.
    turn: usize,
    line: usize,
    /// By what its twins know it.
    keys: Vec<Key>,
}

/// A rollout while it is read.
#[derive(Default)]
struct Rollout {
    found: Vec<Found>,
    twins: Vec<Twin>,
    /// Whether there was a record at all.
    is_one: bool,
    /// The task that runs.
    task: Option<String>,
    /// Whether the log says where tasks begin. Older ones do not.
    tells_tasks: bool,
    /// Whether a turn has begun of which there is no event yet.
    begun: bool,
    /// Whether the user has spoken in it.
    asked: bool,
    turn: usize,
    /// Text of what was found and is sent no more.
    passed_over: u64,
    /// Whether it is the history of a compaction that is read: one turn, whoever asked in it.
    in_history: bool,
}

impl Transcript for Codex {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        sample.any_line(|line| {
            let kind = line.text_of("type");
            let is_record = line.get("payload").is_some_and(Look::is_object)
                && kind.as_deref().is_some_and(|kind| RECORDS.contains(&kind));
            is_record || is_old_head(line)
        }) || sample.document.is_some_and(|document| items_of(document).is_some())
    }

    fn read(&self, reading: &mut Reading) -> Result<(), Unreadable> {
        let mut rollout = Rollout::default();
        if super::detect::is_document(&reading.bytes()) {
            reading.document(WANTED, |reading, document| {
                rollout.document(reading, document);
                Ok(())
            })?;
        }
        if !rollout.is_one {
            reading.lines(WANTED, |reading, at, look| {
                if !look.is_object() {
                    return Err(not_of("Codex", look.span().start, "a line that is no object"));
                }
                rollout.line(reading, at, look);
                Ok(())
            })?;
        }
        if !rollout.is_one {
            return Err(not_of("Codex", 0, "no line is a record of a rollout"));
        }
        let Rollout { mut found, twins, passed_over, .. } = rollout;
        reading.passed_over(passed_over);
        twins::tie(&mut found, twins);
        for Found { kind, draft, opens, .. } in found {
            if opens {
                reading.turn(draft.time);
            }
            reading.add(kind, draft);
        }
        Ok(())
    }

    fn pair(&self, pair: &Pair<'_>) -> Vec<String> {
        pair::records(pair)
    }
}

/// Whether it is what only the first rollouts have: a head that is no record, or a mark of state. Bare items follow.
fn is_old_head(line: Look<'_>) -> bool {
    let is_head = line.string("id").is_some() && line.string("timestamp").is_some();
    let has = |name: &str| line.get(name).is_some();
    line.text_of("record_type").as_deref() == Some("state")
        || (!has("type") && is_head && (has("instructions") || has("git")))
}

/// The items of a rollout that is one document, as they were before there were lines.
fn items_of(document: Look<'_>) -> Option<Look<'_>> {
    let has_session = document.get("session").is_some_and(Look::is_object);
    document.get("items").filter(|items| has_session && items.is_array())
}

fn number(raw: &[u8]) -> Option<usize> {
    std::str::from_utf8(raw).ok()?.parse().ok()
}

impl Rollout {
    fn document(&mut self, reading: &mut Reading, document: Look<'_>) {
        let Some(items) = items_of(document) else { return };
        self.is_one = true;
        let session = document.get("session");
        if let Some(told) = session.and_then(|session| session.string("instructions")) {
            reading.system_at(told.span());
        }
        let time = session.and_then(|session| time_of(session, "timestamp"));
        let list = reading.items(items, None);
        for (element, item) in items.items().enumerate() {
            let record = Some(At { list, element });
            self.item(reading, item, Draft { time, record, ..Draft::default() });
        }
    }

    fn line(&mut self, reading: &mut Reading, at: At, look: Look<'_>) {
        let draft = Draft { time: time_of(look, "timestamp"), record: Some(at), ..Draft::default() };
        let kind = look.text_of("type");
        let Some(payload) = look.get("payload").filter(|payload| payload.is_object()) else {
            self.is_one |= is_old_head(look);
            match self.is_one {
                true if is_old_head(look) => {}
                true => self.item(reading, look, draft),
                false => reading.unknown(look),
            }
            return;
        };
        let kind = kind.as_deref().unwrap_or_default();
        self.is_one |= RECORDS.contains(&kind);
        match kind {
            "response_item" => self.item(reading, payload, draft),
            "event_msg" => self.event(at, payload),
            "session_meta" => {
                let told = payload.get("base_instructions").and_then(|told| told.string("text"));
                if let Some(told) = told.or(payload.string("instructions")) {
                    reading.system_at(told.span());
                }
            }
            "turn_context" => {
                if let Some(model) = payload.text_of("model") {
                    reading.model(&model);
                }
                if let Some(id) = payload.text_of("turn_id") {
                    self.begin(Some(id));
                }
            }
            "compacted" => self.compacted(reading, at, payload, draft),
            kind if BESIDE.contains(&kind) => {}
            _ => reading.unknown(look),
        }
    }

    /// Leaves out what was found from there on.
    fn forget(&mut self, from: usize) {
        let text = self.found.drain(from..).map(|found| found.draft.body.len() as u64);
        self.passed_over += text.sum::<u64>();
    }

    /// A task begins. Its context is told once more when it goes on behind a compaction.
    fn begin(&mut self, id: Option<Cow<'_, str>>) {
        self.tells_tasks = true;
        if id.is_none() || id.as_deref() != self.task.as_deref() {
            self.task = id.map(Cow::into_owned);
            self.begun = true;
            self.asked = false;
        }
    }

    fn add(&mut self, kind: Kind, draft: Draft, is_asked: bool, keys: Vec<Key>) {
        let is_asked = is_asked && !self.in_history;
        let opens = self.begun || (is_asked && (!self.tells_tasks || !self.asked));
        self.asked |= is_asked;
        self.begun = false;
        self.turn += usize::from(opens);
        let line = draft.record.map_or(0, |record| record.element);
        self.found.push(Found { kind, draft, opens, turn: self.turn, line, keys });
    }

    /// Codex's own compaction. The record stays, for without it what it replaced would be sent again; what it says is
    /// the first turn.
    fn compacted(&mut self, reading: &mut Reading, at: At, payload: Look<'_>, draft: Draft) {
        self.forget(0);
        self.twins.clear();
        self.begun = true;
        reading.pin(at);
        let message = payload.string("message").filter(|message| message.raw().len() > 2);
        let emptied = message.map(|message| Cut::Value(message.span(), "\"\""));
        if let Some(history) = payload.get("replacement_history").filter(|history| history.is_array()) {
            let list = reading.items(history, None);
            self.in_history = true;
            for (element, item) in history.items().enumerate() {
                let cut = Cut::Element(At { list, element });
                self.item(reading, item, Draft { cut, ..draft.clone() });
            }
            self.in_history = false;
            // The summary stands there as well.
            if let (Some(last), Some(emptied)) = (self.found.last_mut(), emptied) {
                last.draft.also.push(emptied);
            }
        } else if let (Some(message), Some(cut)) = (message, emptied) {
            let span = message.span();
            self.add(Kind::ChatRequest, Draft { span, body: span, cut, ..draft }, false, Vec::new());
        }
    }

    /// The newest turns are taken back.
    fn roll_back(&mut self, turns: usize) {
        let starts = self.found.iter().enumerate().filter(|(_, found)| found.opens);
        let starts: Vec<usize> = starts.map(|(place, _)| place).collect();
        let first = starts.get(starts.len().saturating_sub(turns)).copied();
        if let Some(first) = first.filter(|_| turns > 0) {
            let line = self.found[first].line;
            self.forget(first);
            self.twins.retain(|twin| twin.line < line);
        }
    }

    fn event(&mut self, at: At, payload: Look<'_>) {
        let Some(kind) = payload.text_of("type") else { return };
        match &*kind {
            "task_started" | "turn_started" => self.begin(payload.text_of("turn_id")),
            "thread_rolled_back" => {
                let turns = payload.get("num_turns").and_then(|turns| number(turns.raw()));
                self.roll_back(turns.unwrap_or_default());
            }
            kind => self.twins.extend(Twin::of(kind, payload, at, self.turn)),
        }
    }

    /// Finds the event that an item is.
    fn item(&mut self, reading: &mut Reading, item: Look<'_>, draft: Draft) {
        let Some(kind) = item.text_of("type") else { return reading.unknown(item) };
        let span = |name: &str| item.string(name).map_or_else(Span::default, Look::span);
        let draft = Draft { span: item.span(), ..draft };
        match &*kind {
            "message" => self.message(reading, item, draft),
            "agent_message" => {
                if let Some(content) = item.get("content") {
                    let body = reading.text(content);
                    self.add(Kind::ChatRequest, Draft { body, ..draft }, false, Vec::new());
                }
            }
            "reasoning" => self.reasoning(reading, item, draft),
            "function_call" => {
                self.call(reading, item, "call_id", "arguments", write::object_in_string, draft);
            }
            "custom_tool_call" => self.call(reading, item, "call_id", "input", write::text, draft),
            "local_shell_call" => {
                let id = if item.string("call_id").is_some() { "call_id" } else { "id" };
                let draft = Draft { name: reading.made("local_shell"), ..draft };
                self.call(reading, item, id, "action", twins::no_action, draft);
            }
            "function_call_output" | "custom_tool_call_output" => {
                let draft = Draft { id: span("call_id"), ..draft };
                self.output(reading, item, draft);
            }
            // What the provider did itself has no answer of its own, and goes with its turn. Neither is there an event
            // for `tool_search_call` and its output: what was found are tools that later calls need.
            "web_search_call" | "image_generation_call" if !self.in_history => {
                self.twins.extend(draft.record.map(|at| Twin::of_turn(at, self.turn)));
            }
            kind if ITEMS_BESIDE.contains(&kind) => {}
            _ => reading.unknown(item),
        }
    }

    fn message(&mut self, reading: &mut Reading, item: Look<'_>, draft: Draft) {
        let Some(content) = item.get("content") else { return reading.unknown(item) };
        let texts: Vec<Cow<'_, str>> = if content.is_string() {
            vec![content.text()]
        } else {
            content.items().filter_map(|block| block.text_of("text")).collect()
        };
        let voice = match item.text_of("role").as_deref() {
            Some("user") => Voice::User,
            Some("assistant") => Voice::Agent,
            Some("developer" | "system") => return reading.system(&texts.join("\n")),
            _ => return reading.unknown(item),
        };
        let mut keys: Vec<Key> = texts.iter().map(|text| Key::text(voice, text)).collect();
        keys.push(Key::text(voice, &texts.concat()));
        keys.extend(item.text_of("id").map(|id| Key::Item(id.into_owned())));
        let media = |end: &str| {
            let is_it = |block: &Look<'_>| block.text_of("type").is_some_and(|kind| kind.ends_with(end));
            content.items().filter(is_it).count()
        };
        let (images, recordings) = (media("image"), media("audio"));
        if images + recordings == 0 && texts.iter().all(|text| text.is_empty()) {
            return;
        }
        let body = reading.text(content);
        if voice == Voice::Agent {
            self.add(Kind::Message, Draft { body, ..draft }, false, keys);
            return;
        }
        let Some(is_asked) = is_asked(item, &texts) else { return reading.system(&texts.join("\n")) };
        let mut parts = if texts.is_empty() && images == 0 { vec![] } else { vec![body] };
        parts.extend((0..recordings).map(|_| reading.made("[audio]")));
        let body = if let [body] = parts[..] { body } else { reading.joined(&parts) };
        self.add(Kind::ChatRequest, Draft { body, ..draft }, is_asked, keys);
    }

    fn reasoning(&mut self, reading: &mut Reading, item: Look<'_>, draft: Draft) {
        let blocks = ["summary", "content"].map(|name| item.get(name).filter(|list| list.items().len() > 0));
        let texts = blocks.iter().flatten().flat_map(|list| list.items());
        let mut keys: Vec<Key> = texts
            .filter_map(|block| block.text_of("text"))
            .map(|text| Key::text(Voice::Thought, &text))
            .collect();
        keys.extend(item.text_of("id").map(|id| Key::Item(id.into_owned())));
        let body = match blocks.into_iter().flatten().next() {
            Some(texts) => reading.text(texts),
            None => reading.made(""),
        };
        let kept = [("openai_item_id", "id"), ("openai_encrypted_content", "encrypted_content")];
        let kept = kept.into_iter().filter_map(|(ours, theirs)| {
            let value = String::from_utf8_lossy(item.string(theirs)?.raw());
            Some(format!("\"{ours}\":{value}"))
        });
        let kept: Vec<String> = kept.collect();
        let metadata = match kept.as_slice() {
            [] => Span::default(),
            kept => reading.made_raw(&format!("{{{}}}", kept.join(","))),
        };
        self.add(Kind::Reasoning, Draft { body, metadata, ..draft }, false, keys);
    }

    fn call(
        &mut self,
        reading: &mut Reading,
        item: Look<'_>,
        id: &str,
        body: &str,
        write: fn(&str) -> String,
        draft: Draft,
    ) {
        let keys = item.text_of(id).map(|id| Key::Call(id.into_owned()));
        let name = match item.string("name") {
            _ if !draft.name.is_empty() => draft.name,
            Some(name) => name.span(),
            None => reading.made("unknown"),
        };
        let said = item.get(body);
        let body = match said {
            // A shell that runs nothing: emptied arguments.
            Some(action) if action.raw() == twins::no_action("").as_bytes() => Span::default(),
            said => said.map_or_else(Span::default, Look::span),
        };
        let slots = said.map(|said| Slot { span: said.span(), write }).into_iter().collect();
        let id = item.string(id).map_or_else(Span::default, Look::span);
        self.add(
            Kind::ToolRequest,
            Draft { id, name, body, slots, ..draft },
            false,
            keys.into_iter().collect(),
        );
    }

    fn output(&mut self, reading: &mut Reading, item: Look<'_>, draft: Draft) {
        let keys = item.text_of("call_id").map(|id| Key::Answer(id.into_owned()));
        let output = item.get("output");
        // Once there was an object around it.
        let said = output.map(|output| output.get("content").unwrap_or(output));
        let is_error =
            output.is_some_and(|output| output.get("success").is_some_and(|it| it.raw() == b"false"));
        let body = match said {
            Some(said) => reading.text(said),
            None => reading.made(""),
        };
        let slots = said.map(|said| Slot { span: said.span(), write: write::text }).into_iter().collect();
        let kind = Kind::ToolResponse { is_error };
        self.add(kind, Draft { body, slots, ..draft }, false, keys.into_iter().collect());
    }
}
