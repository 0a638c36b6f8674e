//! The reader of the Gemini API's `contents`: the body of a request, a bare list of contents, a checkpoint of `/chat`,
//! or JSONL with a single conversation. A record is a content. Calls and results often have no ids, and are then
//! matched by name, in order. The signature of reasoning is on the part that follows it, and must be deleted with the
//! reasoning.

use serde_json::json;

use super::values;
use crate::builder::{EventBuilder, EventDraft, NewEvent};
use crate::reader::{Reader, SummaryPair};
use crate::sample::{Sample, ensure, format_error};
use crate::source_map::Deletion;
use jp_compact_core::event::Kind;
use jp_compact_core::external::EditSite;
use jp_compact_core::index::Unreadable;
use jp_compact_json::{JsonNode, MemberFilter, Span};

pub(super) struct Gemini;

const NAME: &str = "the Gemini API";

pub(super) const WANTED: MemberFilter = |key| {
    matches!(key, b"request" | b"contents" | b"systemInstruction" | b"system_instruction")
        || matches!(key, b"history" | b"parts" | b"functionCall" | b"function_call")
        || matches!(key, b"functionResponse" | b"function_response" | b"response" | b"executableCode")
        || matches!(key, b"executable_code" | b"codeExecutionResult" | b"code_execution_result")
};

impl Reader for Gemini {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        // A content of the model without an answer has a role, but no parts.
        let is_content = |content: &JsonNode<'_>| {
            let (role, parts) = (content.string("role"), content.get("parts"));
            parts.map_or(role.is_some(), |parts| parts.is_array() || parts.is_null())
                && parts.into_iter().flat_map(JsonNode::items).all(|part| part.get("type").is_none())
        };
        let are_contents = |contents: &[JsonNode<'_>]| {
            contents.iter().any(|content| content.get("parts").is_some()) && contents.iter().all(is_content)
        };
        let have_roles = |contents: &[JsonNode<'_>]| {
            contents.iter().any(|content| content.string("role").is_some()) && are_contents(contents)
        };
        let is_conversation = |line: JsonNode<'_>| {
            contents_of(line).is_some_and(|contents| are_contents(&contents.items().collect::<Vec<_>>()))
        };
        // A request with one content needs no role.
        have_roles(&sample.objects("contents"))
            || have_roles(&sample.objects("history"))
            || sample.any_line(is_conversation)
            || sample.document.is_some_and(is_conversation)
    }

    fn read(&self, builder: &mut EventBuilder) -> Result<(), Unreadable> {
        if builder.is_document() {
            return builder.read_document(WANTED, |builder, document| {
                read_metadata(builder, body_of(document));
                read_contents(builder, contents_of(document).unwrap_or(document))
            });
        }
        builder.read_lines(WANTED, |builder, _, line| match contents_of(line) {
            Some(list) => {
                builder.start_conversation(line)?;
                read_metadata(builder, body_of(line));
                read_contents(builder, list)
            }
            None => Err(format_error(NAME, line, "a line has no `contents`")),
        })
    }

    fn blocks(&self) -> Option<&'static str> {
        Some("parts")
    }

    fn pair(&self, pair: &SummaryPair<'_>) -> Vec<String> {
        let content = |role, text| json!({ "role": role, "parts": [{ "text": text }] }).to_string();
        vec![content("user", pair.request), content("model", pair.response)]
    }
}

/// Reads the model and the system prompt of a body.
fn read_metadata(builder: &mut EventBuilder, body: JsonNode<'_>) {
    builder.read_model(body, "model");
    let system = member(body, "systemInstruction", "system_instruction");
    let parts = system.and_then(|system| system.get("parts"));
    for text in parts.into_iter().flat_map(JsonNode::items).filter_map(|part| part.text_of("text")) {
        builder.add_system(&text);
    }
}

/// Returns the body in a line of a batch. Any other value is the body itself.
fn body_of(value: JsonNode<'_>) -> JsonNode<'_> {
    value.get("request").filter(|body| body.get("contents").is_some()).unwrap_or(value)
}

/// Returns the contents of a body, of a request in a batch, or of a checkpoint.
fn contents_of(value: JsonNode<'_>) -> Option<JsonNode<'_>> {
    let list = value.get("contents").or(value.get("history"));
    list.or_else(|| body_of(value).get("contents"))
}

fn read_contents(builder: &mut EventBuilder, contents: JsonNode<'_>) -> Result<(), Unreadable> {
    ensure(contents.is_array(), NAME, contents, "the contents are not an array")?;
    let mut calls = Calls::default();
    for (at, content) in builder.elements(contents, None) {
        ensure(content.is_object(), NAME, content, "a content is not an object")?;
        let Some(content_parts) = content.array("parts") else {
            builder.count_unknown(content);
            continue;
        };
        let draft = EventDraft::of_record(at, None);
        let parts = parts(builder, content_parts);
        if content.text_is("role", "model") {
            let mut drafts = model_events(builder, &parts, &draft, &mut calls);
            // An empty content is an event too, so that it is deleted with its turn.
            if drafts.is_empty() {
                let body = builder.new_string("");
                drafts.push((Kind::Message, EventDraft { span: content.span(), body, ..draft }));
            }
            builder.add_all(drafts, false);
        } else {
            let drafts = user_events(builder, &parts, &draft, &mut calls);
            let is_request = !drafts.is_empty() && !drafts.iter().any(|(kind, _)| kind.is_tool());
            if is_request {
                calls.drop_without_id();
            }
            builder.add_all(drafts, is_request);
        }
    }
    Ok(())
}

/// Returns a member by its name in the API (camelCase) or in the Python SDK (snake_case).
pub(super) fn member<'a>(part: JsonNode<'a>, name: &str, other: &str) -> Option<JsonNode<'a>> {
    part.get(name).or_else(|| part.get(other)).filter(|value| !value.is_null())
}

pub(super) fn call(part: JsonNode<'_>) -> Option<JsonNode<'_>> {
    member(part, "functionCall", "function_call")
}

pub(super) fn response(part: JsonNode<'_>) -> Option<JsonNode<'_>> {
    member(part, "functionResponse", "function_response")
}

/// Returns whether a part is reasoning.
pub(super) fn is_thought(part: JsonNode<'_>) -> bool {
    part.is_true("thought") && call(part).is_none()
}

/// Returns the parts, each with the edit that deletes it. The value is an array of parts, or a single part or text.
pub(super) fn parts<'a>(builder: &mut EventBuilder, parts: JsonNode<'a>) -> Vec<(JsonNode<'a>, Deletion)> {
    if !parts.is_array() {
        return vec![(parts, Deletion::Value(parts.span(), "\"\""))];
    }
    builder.elements(parts, None).map(|(at, part)| (part, Deletion::Element(at))).collect()
}

/// The calls whose results have not been read yet.
#[derive(Default)]
pub(super) struct Calls {
    open: Vec<Call>,
    /// Whether a result followed the last call.
    has_result: bool,
}

pub(super) struct Call {
    /// The id, generated if the source has none.
    pub(super) id: Span,
    /// The id in the source.
    source_id: Option<String>,
    name: String,
    /// Copies of its result in other places.
    pub(super) twins: Vec<EditSite>,
}

impl Calls {
    /// Adds a call. Returns its id.
    pub(super) fn add(
        &mut self,
        builder: &mut EventBuilder,
        call: JsonNode<'_>,
        twins: Vec<EditSite>,
    ) -> Span {
        if std::mem::take(&mut self.has_result) {
            self.drop_without_id();
        }
        let source_id = call.non_empty_string("id");
        let id = builder.id_or_next(source_id);
        let name = call.text_of("name").unwrap_or_default().into_owned();
        let source_id = source_id.map(|id| id.text().into_owned());
        self.open.push(Call { id, source_id, name, twins });
        id
    }

    /// Removes and returns the call that a response answers: the call with its id. If the call or the response has no
    /// id, it is the first call with the same name.
    pub(super) fn take_for_result(&mut self, response: JsonNode<'_>) -> Option<Call> {
        let id = response.text_of("id").filter(|id| !id.is_empty());
        let name = response.text_of("name").unwrap_or_default();
        let has_id = |call: &Call| id.is_some() && call.source_id.as_deref() == id.as_deref();
        let by_id = self.open.iter().position(has_id);
        let by_name = || {
            let matches = |call: &Call| call.name == name && (id.is_none() || call.source_id.is_none());
            self.open.iter().position(matches)
        };
        let index = by_id.or_else(by_name)?;
        self.has_result = true;
        Some(self.open.remove(index))
    }

    /// Returns the id of an open call.
    pub(super) fn open_id(&self, id: &str) -> Option<Span> {
        let has_id = |call: &&Call| call.source_id.as_deref() == Some(id);
        self.open.iter().find(has_id).map(|call| call.id)
    }

    /// Adds copies of the result of an open call.
    pub(super) fn add_twins(&mut self, id: &str, twins: Vec<EditSite>) {
        if let Some(call) = self.open.iter_mut().find(|call| call.source_id.as_deref() == Some(id)) {
            call.twins.extend(twins);
        }
    }

    /// Drops calls without ids, because only their order distinguishes them from later calls.
    pub(super) fn drop_without_id(&mut self) {
        self.open.retain(|call| call.source_id.is_some());
    }
}

/// Returns the events of a model content. The span of an event is only its text or arguments, because a resumed chat
/// may store the rest in another form.
pub(super) fn model_events(
    builder: &mut EventBuilder,
    parts: &[(JsonNode<'_>, Deletion)],
    draft: &EventDraft,
    calls: &mut Calls,
) -> Vec<NewEvent> {
    let mut events: Vec<NewEvent> = Vec::new();
    let mut thought: Option<usize> = None;
    for (part, deletion) in parts {
        let signature =
            ["thoughtSignature", "thought_signature"].into_iter().find(|name| part.string(name).is_some());
        if let Some(name) = signature
            && let Some((_, thought)) = thought.and_then(|thought| events.get_mut(thought))
            && !is_thought(*part)
        {
            thought.further_deletions.push(builder.members(*part).deletion(name));
        }
        let signature = signature.and_then(|name| part.string(name));
        let metadata = builder.provider_data(&[("google_thought_signature", signature)]);
        let draft = EventDraft { metadata, ..draft.part(*part, deletion.clone()) };
        let Some((kind, draft)) = part_event(builder, *part, draft, calls) else { continue };
        if kind == Kind::Reasoning {
            thought = Some(events.len());
        }
        events.push((kind, draft));
    }
    events
}

fn part_event(
    builder: &mut EventBuilder,
    part: JsonNode<'_>,
    draft: EventDraft,
    calls: &mut Calls,
) -> Option<NewEvent> {
    if let Some(call) = call(part) {
        let args = call.non_null("args");
        let (id, span) = (calls.add(builder, call, Vec::new()), args.map_or(draft.span, JsonNode::span));
        let draft = EventDraft { span, id, ..draft };
        return Some((Kind::ToolRequest, builder.call(call, "name", args, values::empty_object, draft)));
    }
    let kind = if is_thought(part) { Kind::Reasoning } else { Kind::Message };
    let span = part.string("text").map_or(draft.span, JsonNode::span);
    let body = match part_text(builder, part) {
        Some(body) => body,
        // A part of reasoning may lack text: it can be an image.
        None if kind == Kind::Reasoning => builder.new_string(""),
        None => return None,
    };
    Some((kind, EventDraft { span, body, ..draft }))
}

/// Returns the text of a part that is not a call or a response: its text, executed code, the output of the code, or
/// a placeholder for media.
fn part_text(builder: &mut EventBuilder, part: JsonNode<'_>) -> Option<Span> {
    let text = if part.is_string() { Some(part) } else { part.string("text") };
    let code = member(part, "executableCode", "executable_code").and_then(|code| code.string("code"));
    let output = member(part, "codeExecutionResult", "code_execution_result");
    let content = text.or(code).or(output.and_then(|output| output.string("output")));
    if let Some(content) = content {
        return Some(content.span()).filter(|_| content.raw().len() > 2);
    }
    let data = member(part, "inlineData", "inline_data").or_else(|| member(part, "fileData", "file_data"));
    if data.is_some() {
        return Some(builder.new_string("[image]"));
    }
    // The results of Google's own tools, and unknown kinds of parts.
    let is_metadata =
        |key: &[u8]| matches!(key, b"text" | b"thought" | b"thoughtSignature" | b"thought_signature");
    let (key, _) = part.members().find(|(key, value)| !is_metadata(key) && value.is_object())?;
    Some(builder.new_string(&format!("[{}]", String::from_utf8_lossy(&key))))
}

/// Returns the events of a user content: tool results, and one request with all other parts.
pub(super) fn user_events(
    builder: &mut EventBuilder,
    parts: &[(JsonNode<'_>, Deletion)],
    draft: &EventDraft,
    calls: &mut Calls,
) -> Vec<NewEvent> {
    let mut events = Vec::new();
    let mut request: Option<(Span, Vec<Span>, Vec<Deletion>)> = None;
    for (part, deletion) in parts {
        if let Some(response) = response(*part) {
            let call = calls.take_for_result(response);
            let source_id = response.string_span("id");
            let (id, twins) = call.map_or((source_id, Vec::new()), |call| (call.id, call.twins));
            let (kind, mut answer) = result_event(builder, response);
            answer.edits.extend(twins);
            let EventDraft { record, time, .. } = *draft;
            events.push((kind, EventDraft { id, deletion: deletion.clone(), record, time, ..answer }));
        } else if let Some(text) = part_text(builder, *part) {
            let empty = || (part.span(), Vec::new(), Vec::new());
            let (span, texts, deletions) = request.get_or_insert_with(empty);
            span.end = part.span().end;
            texts.push(text);
            deletions.push(deletion.clone());
        }
    }
    if let Some((span, texts, deletions)) = request {
        let (body, deletion) = (builder.one_or_joined(&texts), Deletion::Several(deletions));
        events.push((Kind::ChatRequest, EventDraft { span, body, deletion, ..draft.clone() }));
    }
    events
}

/// Returns the event of a tool result, with its edits. Google's responses are objects; by convention a member
/// `error` marks a failed tool.
pub(super) fn result_event(builder: &mut EventBuilder, response: JsonNode<'_>) -> NewEvent {
    let value = response.get("response");
    let is_error = value.is_some_and(|value| value.get("error").is_some() && value.get("output").is_none());
    let mut draft = EventDraft { span: value.unwrap_or(response).span(), ..EventDraft::default() };
    draft.body = match value {
        Some(value) => {
            draft = draft.with_edit(Some(value), if is_error { error } else { output });
            let mut members = value.members();
            match (members.next(), members.next()) {
                (Some((_, only)), None) if only.is_string() => only.span(),
                _ if value.is_string() => value.span(),
                _ => builder.new_string(&value.lossy()),
            }
        }
        None => {
            let write = |text: &str| format!(", \"response\": {}", output(text));
            draft.edits.extend(response.new_member_site(write));
            builder.new_string("")
        }
    };
    // The member `parts` of a response has media.
    let draft = draft.with_edit(response.non_empty_array("parts"), values::empty_array);
    (Kind::ToolResponse { is_error }, draft)
}

pub(super) fn output(text: &str) -> String {
    json!({ "output": text }).to_string()
}

pub(super) fn error(text: &str) -> String {
    json!({ "error": text }).to_string()
}
