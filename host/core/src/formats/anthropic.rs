//! Anthropic's messages: the body of a request, its messages alone, or a body a line. A user's message may answer calls
//! and ask something as well; the answers belong to the turn before. What Anthropic's own servers run (searches, code)
//! lies in the answer with encrypted results that have to come back as they are, so that it is a part of what was said,
//! and no call that could be stripped. MCP's results are texts.

use serde_json::json;

use super::Transcript;
use super::claude_code::block_of;
use super::detect::{Sample, not_of};
use super::foreign::{At, Cut};
use super::jp::Unreadable;
use super::pairs::Pair;
use super::reading::{Draft, Reading};
use super::tree::{Look, Wanted};
use crate::event::Kind;
use crate::json::Span;

pub(super) struct Anthropic;

const NAME: &str = "Anthropic's messages";

/// The members that are looked into.
const WANTED: Wanted = |key| matches!(key, b"params" | b"messages" | b"content" | b"source" | b"system");

/// Members of a body that no other provider's with `messages` has.
const OWN: [&str; 5] =
    ["anthropic_version", "anthropic_beta", "stop_sequences", "mcp_servers", "context_management"];

/// Blocks that no other provider's messages have.
const BLOCKS: [&str; 9] = [
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
    "server_tool_use",
    "mcp_tool_use",
    "mcp_tool_result",
    "container_upload",
    "search_result",
];

impl Transcript for Anthropic {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        match sample.document {
            Some(document) => is_body(body_of(document)),
            None => sample.any_line(|line| {
                let body = body_of(line);
                body.get("messages").is_some() && is_body(body)
            }),
        }
    }

    fn read(&self, reading: &mut Reading) -> Result<(), Unreadable> {
        if super::detect::is_document(&reading.bytes()) {
            return reading.document(WANTED, |reading, document| {
                let body = body_of(document);
                told(reading, body);
                conversation(reading, body.get("messages").unwrap_or(body))
            });
        }
        reading.lines(WANTED, |reading, _, line| {
            let body = body_of(line);
            let Some(messages) = body.get("messages") else {
                return Err(not_of(NAME, line.span().start, "a line without `messages`"));
            };
            reading.conversation(line)?;
            told(reading, body);
            conversation(reading, messages)
        })
    }

    fn pair(&self, pair: &Pair<'_>) -> Vec<String> {
        let message =
            |role, text| json!({ "role": role, "content": [{ "type": "text", "text": text }] }).to_string();
        vec![message("user", pair.request), message("assistant", pair.response)]
    }

    fn blocks(&self) -> Option<&'static str> {
        Some("content")
    }
}

/// The body of a request, of one that waits in a batch too.
fn body_of(value: Look<'_>) -> Look<'_> {
    value.get("params").filter(|body| body.get("messages").is_some()).unwrap_or(value)
}

/// Whether a body, or a bare list of messages, is Anthropic's. Where nothing but texts is said, the roles have nothing to
/// tell it by: then it is the body that does, or that the assistant speaks in blocks, as hardly another does.
fn is_body(body: Look<'_>) -> bool {
    let messages = body.get("messages").unwrap_or(body);
    if messages.items().len() == 0 || !messages.items().all(is_message) {
        return false;
    }
    let has = |is_it: fn(Look<'_>) -> bool| {
        messages
            .items()
            .filter_map(|message| message.get("content"))
            .any(|content| content.items().any(is_it))
    };
    let speaks_in_blocks = |message: Look<'_>| {
        message.text_of("role").is_some_and(|role| role == "assistant")
            && message.get("content").is_some_and(|content| content.items().any(|block| block.is_object()))
    };
    // Others that take blocks say by their model whose they are.
    let may_be = body.text_of("model").is_none_or(|model| model.contains("claude"));
    // Others begin with it, and Anthropic's messages never do.
    let first = messages.items().next().and_then(|first| first.text_of("role"));
    let has_system = first.is_some_and(|role| role == "system");
    has(is_own)
        || OWN.iter().any(|name| body.get(name).is_some())
        || body.get("system").is_some_and(|system| system.is_string() || system.is_array())
        || body.get("thinking").is_some_and(|thinking| {
            thinking.get("budget_tokens").is_some() || thinking.text_of("type").as_deref() == Some("adaptive")
        })
        || body
            .get("tools")
            .is_some_and(|tools| memchr::memmem::find(tools.raw(), b"\"input_schema\"").is_some())
        || (!has_system && body.text_of("model").is_some_and(|model| model.starts_with("claude")))
        || (!has_system && may_be && messages.items().any(speaks_in_blocks))
}

fn is_message(message: Look<'_>) -> bool {
    // Parts that only other chats have.
    let is_anothers = |part: Look<'_>| {
        part.text_of("type")
            .is_some_and(|kind| matches!(&*kind, "image_url" | "input_audio" | "refusal" | "file"))
    };
    if message.get("content").is_some_and(|content| content.items().any(is_anothers)) {
        return false;
    }
    let has_role =
        message.text_of("role").is_some_and(|role| matches!(&*role, "user" | "assistant" | "system"));
    let others =
        ["tool_calls", "function_call", "tool_name", "parts", "thinking", "images", "reasoning_content"];
    let is_there = |name: &&str| message.get(name).is_some_and(|value| !value.is_null());
    // What the system says may be no more than how hard to think.
    let says = message.get("content").is_some() || message.text_of("role").as_deref() == Some("system");
    has_role && says && !others.iter().any(is_there)
}

fn is_own(block: Look<'_>) -> bool {
    let Some(kind) = block.text_of("type") else { return false };
    (BLOCKS.contains(&&*kind) && !block.get("thinking").is_some_and(Look::is_array))
        || kind.ends_with("_tool_result")
        || (matches!(&*kind, "image" | "document") && block.get("source").is_some_and(Look::is_object))
}

/// What a body says beside the messages.
fn told(reading: &mut Reading, body: Look<'_>) {
    if let Some(model) = body.text_of("model") {
        reading.model(&model);
    }
    if let Some(system) = body.get("system").filter(|system| !system.is_null()) {
        let text = reading.text(system);
        reading.system_at(text);
    }
}

fn conversation(reading: &mut Reading, messages: Look<'_>) -> Result<(), Unreadable> {
    if !messages.is_array() {
        return Err(not_of(NAME, messages.span().start, "the messages are no array"));
    }
    let list = reading.items(messages, None);
    for (element, message) in messages.items().enumerate() {
        let Some(role) = message.text_of("role") else {
            return Err(not_of(NAME, message.span().start, "a message without a role"));
        };
        let draft = Draft { span: message.span(), record: Some(At { list, element }), ..Draft::default() };
        match (&*role, message.get("content")) {
            ("user", content) => user(reading, message, content, &draft),
            ("assistant", Some(content)) => assistant(reading, message, content, draft),
            ("system", _) => {}
            _ => reading.unknown(message),
        }
    }
    Ok(())
}

/// First what answers calls, then what is asked: all that is no answer, as one request.
fn user(reading: &mut Reading, message: Look<'_>, content: Option<Look<'_>>, draft: &Draft) {
    let blocks = content.filter(|content| content.items().len() > 0);
    let Some(content) = blocks else {
        if content.is_none() {
            reading.unknown(message);
        }
        let body = content.filter(|content| content.is_string()).map(Look::span);
        let body = body.unwrap_or_else(|| reading.made(""));
        reading.turn(None);
        reading.add(Kind::ChatRequest, Draft { body, ..draft.clone() });
        return;
    };
    let list = (content.items().len() > 1).then(|| reading.items(content, None));
    let mut asked: Vec<(At, Draft)> = Vec::new();
    for (element, block) in content.items().enumerate() {
        let draft = Draft { span: block.span(), ..draft.clone() };
        let (kind, found) = part(reading, message, block, Kind::ChatRequest, draft);
        let at = list.map(|list| At { list, element });
        if kind == Kind::ChatRequest {
            asked.push((at.unwrap_or_default(), found));
        } else {
            reading.add(kind, Draft { cut: at.map_or(Cut::Nothing, Cut::Element), ..found });
        }
    }
    let (Some((_, first)), Some((_, last))) = (asked.first(), asked.last()) else { return };
    let bodies: Vec<Span> = asked.iter().map(|(_, found)| found.body).collect();
    let body = if let [one] = bodies.as_slice() { *one } else { reading.joined(&bodies) };
    let span = Span { start: first.span.start, end: last.span.end };
    let cut = match list {
        Some(_) => Cut::Several(asked.iter().map(|(at, _)| Cut::Element(*at)).collect()),
        None => Cut::Nothing,
    };
    reading.turn(None);
    reading.add(Kind::ChatRequest, Draft { span, body, cut, ..draft.clone() });
}

fn assistant(reading: &mut Reading, message: Look<'_>, content: Look<'_>, draft: Draft) {
    if content.items().len() == 0 {
        let body = if content.is_string() { content.span() } else { reading.made("") };
        reading.add(Kind::Message, Draft { body, ..draft });
        return;
    }
    let list = (content.items().len() > 1).then(|| reading.items(content, None));
    for (element, block) in content.items().enumerate() {
        let cut = list.map_or(Cut::Nothing, |list| Cut::Element(At { list, element }));
        let draft = Draft { span: block.span(), cut, ..draft.clone() };
        let (kind, found) = part(reading, message, block, Kind::Message, draft);
        reading.add(kind, found);
    }
}

/// What a block is. One that we do not know is a part of what its side said.
fn part(
    reading: &mut Reading,
    message: Look<'_>,
    block: Look<'_>,
    said: Kind,
    draft: Draft,
) -> (Kind, Draft) {
    if let Some(found) = block_of(reading, message, block, said, draft.clone()) {
        return found;
    }
    let kind = block.text_of("type").unwrap_or_default();
    let raw = |name: &str| block.get(name).map(|value| String::from_utf8_lossy(value.raw()).into_owned());
    match &*kind {
        "server_tool_use" => {
            let name = block.text_of("name").unwrap_or_default();
            let body = reading.made(&format!("[{name} {}]", raw("input").unwrap_or_default()));
            (said, Draft { body, ..draft })
        }
        "search_result" | "compaction" if block.get("content").is_some_and(|text| !text.is_null()) => {
            let body = block.get("content").map_or_else(Span::default, |content| reading.text(content));
            (said, Draft { body, ..draft })
        }
        _ => {
            let results = block.get("content").into_iter().flat_map(Look::items);
            let titles = results.filter_map(|result| result.text_of("title"));
            let lines: Vec<_> = std::iter::once(format!("[{kind}]").into()).chain(titles).collect();
            let body = reading.made(&lines.join("\n"));
            (said, Draft { body, ..draft })
        }
    }
}
