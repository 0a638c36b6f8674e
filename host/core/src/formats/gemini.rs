//! Google's contents: the body of a request, its contents alone, a checkpoint of `/chat`, or JSONL with a conversation a
//! line. Calls and answers often have no ids: then they are paired by name, in order. What signs a thought lies on
//! the part that it led to.

use serde_json::json;

use super::detect::{Sample, not_of};
use super::foreign::{At, Cut, Slot};
use super::jp::Unreadable;
use super::pairs::Pair;
use super::reading::{Draft, Reading};
use super::tree::{Look, Wanted};
use super::{Transcript, write};
use crate::event::Kind;
use crate::json::Span;

pub(super) struct Gemini;

/// The members that are looked into.
pub(super) const WANTED: Wanted = |key| {
    matches!(
        key,
        b"request"
            | b"contents"
            | b"systemInstruction"
            | b"system_instruction"
            | b"history"
            | b"parts"
            | b"functionCall"
            | b"function_call"
            | b"functionResponse"
            | b"function_response"
            | b"response"
            | b"executableCode"
            | b"executable_code"
            | b"codeExecutionResult"
            | b"code_execution_result"
    )
};

impl Transcript for Gemini {
    fn detects(&self, sample: &Sample<'_>) -> bool {
        // An answer that never came has a role alone.
        let is_content = |content: &Look<'_>| {
            let (role, parts) = (content.string("role"), content.get("parts"));
            parts.map_or(role.is_some(), |parts| parts.is_array() || parts.is_null())
                && parts.into_iter().flat_map(Look::items).all(|part| part.get("type").is_none())
        };
        let are_contents = |contents: &[Look<'_>]| {
            contents.iter().any(|content| content.get("parts").is_some()) && contents.iter().all(is_content)
        };
        let have_roles = |contents: &[Look<'_>]| {
            contents.iter().any(|content| content.string("role").is_some()) && are_contents(contents)
        };
        let in_line = |line: Look<'_>| {
            conversation(line).is_some_and(|contents| are_contents(&contents.items().collect::<Vec<_>>()))
        };
        // What is asked alone needs no role.
        have_roles(&sample.objects("contents"))
            || have_roles(&sample.objects("history"))
            || sample.any_line(in_line)
            || sample.document.is_some_and(in_line)
    }

    fn read(&self, reading: &mut Reading) -> Result<(), Unreadable> {
        if super::detect::is_document(&reading.bytes()) {
            return reading.document(WANTED, |reading, document| {
                told(reading, document);
                contents(reading, conversation(document).unwrap_or(document))
            });
        }
        reading.lines(WANTED, |reading, _, line| match conversation(line) {
            Some(list) => {
                reading.conversation(line)?;
                contents(reading, list)
            }
            None => Err(not_of("Google's contents", line.span().start, "a line without `contents`")),
        })
    }

    fn blocks(&self) -> Option<&'static str> {
        Some("parts")
    }

    fn pair(&self, pair: &Pair<'_>) -> Vec<String> {
        let content = |role, text| json!({ "role": role, "parts": [{ "text": text }] }).to_string();
        vec![content("user", pair.request), content("model", pair.response)]
    }
}

/// What a body says beside its contents.
fn told(reading: &mut Reading, body: Look<'_>) {
    if let Some(model) = body.text_of("model") {
        reading.model(&model);
    }
    let system = member(body, "systemInstruction", "system_instruction");
    let parts = system.and_then(|system| system.get("parts"));
    for text in parts.into_iter().flat_map(Look::items).filter_map(|part| part.text_of("text")) {
        reading.system(&text);
    }
}

/// The contents of a body, of a request that waits in a batch, or of a checkpoint.
fn conversation(value: Look<'_>) -> Option<Look<'_>> {
    let request = value.get("request").and_then(|request| request.get("contents"));
    value.get("contents").or(value.get("history")).or(request)
}

fn contents(reading: &mut Reading, contents: Look<'_>) -> Result<(), Unreadable> {
    if !contents.is_array() {
        return Err(not_of("Google's contents", contents.span().start, "the contents are no array"));
    }
    let list = reading.items(contents, None);
    let mut calls = Calls::default();
    for (element, content) in contents.items().enumerate() {
        if !content.is_object() {
            return Err(not_of("Google's contents", content.span().start, "a content that is no object"));
        }
        let Some(all) = content.get("parts").filter(|parts| parts.is_array()) else {
            reading.unknown(content);
            continue;
        };
        let draft = Draft { record: Some(At { list, element }), ..Draft::default() };
        let all = parts(reading, all);
        let found = if content.text_of("role").as_deref() == Some("model") {
            let mut said = of_model(reading, &all, &draft, &mut calls);
            // One that says nothing goes with its turn all the same.
            if said.is_empty() {
                let body = reading.made("");
                said.push((Kind::Message, Draft { span: content.span(), body, ..draft }));
            }
            said
        } else {
            let said = of_user(reading, &all, &draft, &mut calls);
            if !said.iter().any(|(kind, _)| kind.is_tool()) && !said.is_empty() {
                calls.forget();
                reading.turn(None);
            }
            said
        };
        found.into_iter().for_each(|(kind, draft)| reading.add(kind, draft));
    }
    Ok(())
}

/// A member, as the API spells it or as its SDK for Python does.
pub(super) fn member<'a>(part: Look<'a>, name: &str, other: &str) -> Option<Look<'a>> {
    part.get(name).or_else(|| part.get(other)).filter(|value| !value.is_null())
}

pub(super) fn call(part: Look<'_>) -> Option<Look<'_>> {
    member(part, "functionCall", "function_call")
}

pub(super) fn response(part: Look<'_>) -> Option<Look<'_>> {
    member(part, "functionResponse", "function_response")
}

/// Whether a part is something that the model thought.
pub(super) fn is_thought(part: Look<'_>) -> bool {
    part.is_true("thought") && call(part).is_none()
}

/// Parts, each with how it is taken out: an array of them, or one alone, which may be a text.
pub(super) fn parts<'a>(reading: &mut Reading, parts: Look<'a>) -> Vec<(Look<'a>, Cut)> {
    if !parts.is_array() {
        return vec![(parts, Cut::Value(parts.span(), "\"\""))];
    }
    let list = reading.items(parts, None);
    let part = |(element, part)| (part, Cut::Element(At { list, element }));
    parts.items().enumerate().map(part).collect()
}

/// Calls that wait for their answers.
#[derive(Default)]
pub(super) struct Calls {
    open: Vec<Call>,
    /// Whether one was answered since the last that was made.
    answered: bool,
}

/// A call that waits.
pub(super) struct Call {
    /// Its id, as it was made up where the source has none.
    pub(super) id: Span,
    /// Its id in the source.
    own: Option<String>,
    name: String,
    /// What holds its answer once more.
    pub(super) twins: Vec<Slot>,
}

impl Calls {
    /// Adds a call. Its id.
    pub(super) fn open(&mut self, reading: &mut Reading, call: Look<'_>, twins: Vec<Slot>) -> Span {
        if std::mem::take(&mut self.answered) {
            self.forget();
        }
        let own = call.string("id").filter(|id| id.raw().len() > 2);
        let id = own.map_or_else(|| reading.next_id(), Look::span);
        let name = call.text_of("name").unwrap_or_default().into_owned();
        self.open.push(Call { id, own: own.map(|id| id.text().into_owned()), name, twins });
        id
    }

    /// The call that is answered: by its id, or else the first of its name that has none in common.
    pub(super) fn answer(&mut self, response: Look<'_>) -> Option<Call> {
        let id = response.text_of("id").filter(|id| !id.is_empty());
        let name = response.text_of("name").unwrap_or_default();
        let by_id =
            id.as_deref().and_then(|id| self.open.iter().position(|call| call.own.as_deref() == Some(id)));
        let by_name = || {
            let may_be = |call: &Call| call.name == name && (id.is_none() || call.own.is_none());
            self.open.iter().position(may_be)
        };
        let place = by_id.or_else(by_name)?;
        self.answered = true;
        Some(self.open.remove(place))
    }

    /// The call of that id that waits.
    pub(super) fn waiting(&self, id: &str) -> Option<Span> {
        let is_it = |call: &&Call| call.own.as_deref() == Some(id);
        self.open.iter().find(is_it).map(|call| call.id)
    }

    /// Says what holds the answer to that call once more.
    pub(super) fn add_twins(&mut self, id: &str, twins: Vec<Slot>) {
        if let Some(call) = self.open.iter_mut().find(|call| call.own.as_deref() == Some(id)) {
            call.twins.extend(twins);
        }
    }

    /// Gives up calls that nothing but their place tells from later ones.
    pub(super) fn forget(&mut self) {
        self.open.retain(|call| call.own.is_some());
    }
}

/// What the model says, thinks and calls. An event is the words or arguments alone: a chat may write the same down in
/// another form when it is taken up again.
pub(super) fn of_model(
    reading: &mut Reading,
    parts: &[(Look<'_>, Cut)],
    draft: &Draft,
    calls: &mut Calls,
) -> Vec<(Kind, Draft)> {
    let mut found: Vec<(Kind, Draft)> = Vec::new();
    let mut thought: Option<usize> = None;
    for (part, cut) in parts {
        let draft = Draft { span: part.span(), cut: cut.clone(), ..draft.clone() };
        let signature = ["thoughtSignature", "thought_signature"]
            .into_iter()
            .find_map(|name| Some((part.string(name)?, part.position(name)?)));
        if let Some((_, element)) = signature
            && let Some((_, thought)) = thought.and_then(|thought| found.get_mut(thought))
            && !is_thought(*part)
        {
            thought.also.push(Cut::Element(At { list: reading.members(*part), element }));
        }
        let metadata = signature.map_or_else(Span::default, |(signature, _)| {
            let signature = String::from_utf8_lossy(signature.raw());
            reading.made_raw(&format!("{{\"google_thought_signature\":{signature}}}"))
        });
        let draft = Draft { metadata, ..draft };
        let Some((kind, draft)) = of_part(reading, *part, draft, calls) else { continue };
        if kind == Kind::Reasoning {
            thought = Some(found.len());
        }
        found.push((kind, draft));
    }
    found
}

fn of_part(reading: &mut Reading, part: Look<'_>, draft: Draft, calls: &mut Calls) -> Option<(Kind, Draft)> {
    if let Some(call) = call(part) {
        let args = call.get("args").filter(|args| !args.is_null());
        let draft = Draft {
            span: args.map_or(draft.span, Look::span),
            id: calls.open(reading, call, Vec::new()),
            name: call.string("name").map(Look::span).unwrap_or_else(|| reading.made("unknown")),
            body: args.map_or_else(Span::default, Look::span),
            slots: args.map(|args| Slot { span: args.span(), write: write::object }).into_iter().collect(),
            ..draft
        };
        return Some((Kind::ToolRequest, draft));
    }
    let kind = if is_thought(part) { Kind::Reasoning } else { Kind::Message };
    let span = part.string("text").map_or(draft.span, Look::span);
    let body = match words(reading, part) {
        Some(body) => body,
        // A thought may be a picture.
        None if kind == Kind::Reasoning => reading.made(""),
        None => return None,
    };
    Some((kind, Draft { span, body, ..draft }))
}

/// What a part says that neither calls nor answers: its text, code that the model ran and what came of it, or that
/// there is something to look at.
fn words(reading: &mut Reading, part: Look<'_>) -> Option<Span> {
    let text = if part.is_string() { Some(part) } else { part.string("text") };
    let code = member(part, "executableCode", "executable_code").and_then(|code| code.string("code"));
    let output = member(part, "codeExecutionResult", "code_execution_result");
    let said = text.or(code).or(output.and_then(|output| output.string("output")));
    if let Some(said) = said {
        return Some(said.span()).filter(|_| said.raw().len() > 2);
    }
    let data = member(part, "inlineData", "inline_data").or_else(|| member(part, "fileData", "file_data"));
    if data.is_some() {
        return Some(reading.made("[image]"));
    }
    // What Google's own tools did, and whatever else there may be one day.
    let beside =
        |key: &[u8]| matches!(key, b"text" | b"thought" | b"thoughtSignature" | b"thought_signature");
    let (key, _) = part.members().find(|(key, value)| !beside(key) && value.is_object())?;
    Some(reading.made(&format!("[{}]", String::from_utf8_lossy(&key))))
}

/// What the user's side says: answers of tools, and one request of all the rest.
pub(super) fn of_user(
    reading: &mut Reading,
    parts: &[(Look<'_>, Cut)],
    draft: &Draft,
    calls: &mut Calls,
) -> Vec<(Kind, Draft)> {
    let mut found = Vec::new();
    let mut request: Option<(Span, Vec<Span>)> = None;
    for (part, cut) in parts {
        if let Some(response) = response(*part) {
            let call = calls.answer(response);
            let own = response.string("id").map_or_else(Span::default, Look::span);
            let (id, twins) = call.map_or((own, Vec::new()), |call| (call.id, call.twins));
            let (kind, mut answer) = answered(reading, response);
            answer.slots.extend(twins);
            found.push((
                kind,
                Draft {
                    span: answer.span,
                    id,
                    cut: cut.clone(),
                    body: answer.body,
                    slots: answer.slots,
                    ..draft.clone()
                },
            ));
        } else if let Some(words) = words(reading, *part) {
            let (span, all) = request.get_or_insert_with(|| (part.span(), Vec::new()));
            span.end = part.span().end;
            all.push(words);
        }
    }
    if let Some((span, all)) = request {
        let body = if let [one] = all.as_slice() { *one } else { reading.joined(&all) };
        found.push((Kind::ChatRequest, Draft { span, body, ..draft.clone() }));
    }
    found
}

/// What a tool answered, and where that is written anew. Google's responses are objects; by convention a member `error`
/// says that the tool failed.
pub(super) fn answered(reading: &mut Reading, response: Look<'_>) -> (Kind, Draft) {
    let value = response.get("response");
    let is_error = value.is_some_and(|value| value.get("error").is_some() && value.get("output").is_none());
    let mut draft = Draft { span: value.unwrap_or(response).span(), ..Draft::default() };
    draft.body = match value {
        Some(value) => {
            draft.slots.push(Slot { span: value.span(), write: if is_error { error } else { output } });
            let mut members = value.members();
            match (members.next(), members.next()) {
                (Some((_, only)), None) if only.is_string() => only.span(),
                _ if value.is_string() => value.span(),
                _ => reading.made(&String::from_utf8_lossy(value.raw())),
            }
        }
        None => {
            draft.slots.extend(response.member_spans().last().map(|last| {
                let write = |text: &str| format!(", \"response\": {}", output(text));
                Slot { span: Span { start: last.end, end: last.end }, write }
            }));
            reading.made("")
        }
    };
    // What the tool showed beside.
    let shown = response.get("parts").filter(|parts| parts.items().len() > 0);
    draft.slots.extend(shown.map(|parts| Slot { span: parts.span(), write: nothing }));
    (Kind::ToolResponse { is_error }, draft)
}

pub(super) fn output(text: &str) -> String {
    json!({ "output": text }).to_string()
}

pub(super) fn error(text: &str) -> String {
    json!({ "error": text }).to_string()
}

fn nothing(_: &str) -> String {
    "[]".into()
}
