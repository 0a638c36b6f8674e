//! Repairs that providers require after an edit. Reasoning that lost its output is deleted. Messages of one role
//! that became neighbors are merged into the first of them. Blocks keep their bytes, and a message's plain text
//! becomes a block. A source that was not edited is never changed.

use std::collections::{BTreeMap, HashSet};

use crate::disposition::Disposition;
use crate::source_map::{ElementRef, ListForm, SourceMap};
use jp_compact_core::event::Kind;
use jp_compact_core::render::is_signed;
use jp_compact_core::stale::StaleItems;
use jp_compact_core::stream::Stream;
use jp_compact_core::view::{Part, View};
use jp_compact_json::{JsonIndex, JsonNode, MemberFilter, Span};

/// The bytes before and after a text that becomes a block.
const TEXT: [&str; 2] = [r#"{"type":"text","text":"#, "}"];

const WANTED: MemberFilter = |key| matches!(key, b"content" | b"parts");

/// A message of the source that stays.
struct Message {
    element: usize,
    role: String,
    record: Span,
    content: Span,
    /// From the first to the last block.
    blocks: Span,
    /// Whether the content is a string, not an array.
    is_text: bool,
}

/// Messages that are merged, and blocks of summaries before, between, or after them.
struct Group {
    messages: Vec<Message>,
    /// Each with the number of messages of the group before it.
    new_blocks: Vec<(usize, String)>,
}

/// Deletes the signed reasoning from the first changed turn up to the open turn.
pub(super) fn delete_stale_reasoning(stream: &Stream, view: &View, dispositions: &mut [Disposition<'_>]) {
    let stale = StaleItems::new(stream, view);
    for (_, item) in view.items().iter().enumerate().filter(|(index, item)| stale.contains(*index, item)) {
        if let Part::Kept(element) = item.part
            && stream.events()[element].kind == Kind::Reasoning
            && is_signed(stream, element)
        {
            dispositions[element] = Disposition::Deleted;
        }
    }
}

/// Deletes reasoning whose whole output is deleted.
pub(super) fn delete_lone_reasoning(stream: &Stream, map: &SourceMap, dispositions: &mut [Disposition<'_>]) {
    // Whether any output stays before the next reasoning or the next speaker. `None` without output.
    let mut output_stays = None;
    let mut next_event: Option<(Kind, Option<ElementRef>)> = None;
    for ((event, source), disposition) in stream.events().iter().zip(&map.sources).zip(dispositions).rev() {
        let stays = !matches!(disposition, Disposition::Deleted | Disposition::Summarized(_));
        match event.kind {
            Kind::Reasoning if output_stays == Some(false) && stays => *disposition = Disposition::Deleted,
            Kind::Reasoning => {}
            Kind::Message | Kind::Data | Kind::ToolRequest => {
                let is_last_output = next_event.is_some_and(|(kind, _)| kind == Kind::Reasoning);
                output_stays = Some(stays || (!is_last_output && output_stays == Some(true)));
            }
            // The result of a tool that the provider ran itself is in the same message.
            Kind::ToolResponse { .. } if next_event.is_some_and(|(_, record)| record == source.record) => {}
            _ => output_stays = None,
        }
        next_event = Some((event.kind, source.record));
    }
}

/// Merges messages that an edit made neighbors. Blocks of `pairs` that go into a message are removed from `pairs`.
pub(super) fn merge(
    stream: &Stream,
    map: &SourceMap,
    member: &str,
    deleted: &HashSet<ElementRef>,
    pairs: &mut BTreeMap<ElementRef, Vec<String>>,
    written: &mut Vec<(Span, String)>,
) {
    let changed_lists: HashSet<usize> =
        deleted.iter().chain(pairs.keys()).map(|record| record.list).collect();
    let record_lists: HashSet<usize> =
        map.sources.iter().filter_map(|source| source.record).map(|record| record.list).collect();
    for list in changed_lists.intersection(&record_lists).copied() {
        let elements = &map.lists[list].elements;
        if map.lists[list].form != ListForm::Commas {
            continue;
        }
        let mut group: Option<Group> = None;
        // The position of the last new record, and its blocks, if the next message could be joined to it.
        let mut open_record: Option<(ElementRef, String)> = None;
        for element in 0..=elements.len() {
            let at = ElementRef { list, element };
            for record in pairs.get_mut(&at).map(std::mem::take).unwrap_or_default() {
                let block = user_block(&record, member);
                if let (Some(block), Some(open)) =
                    (&block, group.as_mut().filter(|group| group.role() == Some("user")))
                {
                    open.new_blocks.push((open.messages.len(), block.clone()));
                    continue;
                }
                group.take().into_iter().for_each(|group| group.write(stream, written));
                let earlier = open_record.take().filter(|_| block.is_some());
                let record = match earlier {
                    Some((earlier_at, blocks)) => {
                        pairs.entry(earlier_at).or_default().pop();
                        with_blocks_before(&record, member, &blocks)
                    }
                    None => record,
                };
                open_record = user_block(&record, member).map(|blocks| (at, blocks));
                pairs.entry(at).or_default().push(record);
            }
            let Some(span) = elements.get(element).filter(|_| !deleted.contains(&at)) else { continue };
            let message = message_at(stream.bytes(), *span, element, member);
            let earlier = open_record.take();
            match (&mut group, message) {
                (Some(group), Some(message)) if group.accepts(&message) => group.messages.push(message),
                (_, message) => {
                    let is_by_user = message.as_ref().is_some_and(|message| message.role == "user");
                    let new_blocks = earlier.filter(|_| is_by_user).map(|(earlier_at, blocks)| {
                        pairs.entry(earlier_at).or_default().pop();
                        (0, blocks)
                    });
                    let new_blocks = new_blocks.into_iter().collect();
                    let next = message.map(|message| Group { messages: vec![message], new_blocks });
                    let previous = std::mem::replace(&mut group, next);
                    previous.into_iter().for_each(|group| group.write(stream, written));
                }
            }
        }
        group.into_iter().for_each(|group| group.write(stream, written));
    }
}

/// Returns the blocks of a new message if the user is its author.
pub(super) fn user_block(message: &str, member: &str) -> Option<String> {
    let bytes = message.as_bytes();
    let parsed = message_at(bytes, Span { start: 0, end: bytes.len() }, 0, member)?;
    let blocks = message.get(parsed.blocks.start..parsed.blocks.end)?;
    let [open, close] = if parsed.is_text { TEXT } else { ["", ""] };
    (parsed.role == "user").then(|| format!("{open}{blocks}{close}"))
}

/// Returns a new message with other blocks before its own.
fn with_blocks_before(message: &str, member: &str, blocks: &str) -> String {
    let bytes = message.as_bytes();
    let Some(parsed) = message_at(bytes, Span { start: 0, end: bytes.len() }, 0, member) else {
        return message.to_owned();
    };
    let (content, own) = (parsed.content, parsed.blocks);
    let [before, own, after] =
        [&message[..content.start], &message[own.start..own.end], &message[content.end..]];
    format!("{before}[{blocks}, {}{own}{}]{after}", parsed.open(), parsed.close())
}

fn message_at(bytes: &[u8], record: Span, element: usize, member: &str) -> Option<Message> {
    let index = JsonIndex::new(bytes, record, WANTED).ok()?;
    let node = JsonNode::new(bytes, &index);
    let content = node.get(member)?;
    let is_text = content.is_string();
    if !is_text && content.items().len() == 0 {
        return None;
    }
    let (first, last) = (content.items().next(), content.items().next_back());
    let blocks = Span {
        start: first.map_or(content.span().start, |first| first.span().start),
        end: last.map_or(content.span().end, |last| last.span().end),
    };
    let role = node.text_of("role")?.into_owned();
    Some(Message { element, role, record: node.span(), content: content.span(), blocks, is_text })
}

impl Message {
    fn open(&self) -> &'static str {
        if self.is_text { TEXT[0] } else { "" }
    }

    fn close(&self) -> &'static str {
        if self.is_text { TEXT[1] } else { "" }
    }
}

impl Group {
    fn role(&self) -> Option<&str> {
        self.messages.first().map(|first| &*first.role)
    }

    /// Returns whether a message has the role of the last message, and became its neighbor by the edit.
    fn accepts(&self, message: &Message) -> bool {
        self.messages
            .last()
            .is_some_and(|last| last.role == message.role && last.element + 1 < message.element)
    }

    fn write(&self, stream: &Stream, written: &mut Vec<(Span, String)>) {
        let (Some(head), Some(last)) = (self.messages.first(), self.messages.last()) else { return };
        if self.messages.len() == 1 && self.new_blocks.is_empty() {
            return;
        }
        let insert_at = |offset| Span { start: offset, end: offset };
        let first_blocks: String = self
            .new_blocks
            .iter()
            .filter(|(before, _)| *before == 0)
            .map(|(_, block)| format!("{block}, "))
            .collect();
        if head.is_text {
            written.push((insert_at(head.content.start), format!("[{first_blocks}{}", head.open())));
        } else if !first_blocks.is_empty() {
            written.push((insert_at(head.blocks.start), first_blocks));
        }
        let new_blocks = |messages: usize| -> String {
            let blocks = self.new_blocks.iter().filter(|(before, _)| *before == messages);
            blocks.map(|(_, block)| format!(", {block}")).collect()
        };
        for (index, pair) in self.messages.windows(2).enumerate() {
            let [before, after] = pair else { continue };
            let span = Span { start: before.blocks.end, end: after.blocks.start };
            written.push((span, format!("{}{}, {}", before.close(), new_blocks(index + 1), after.open())));
        }
        let mut end = format!("{}{}", last.close(), new_blocks(self.messages.len()));
        if last.is_text {
            end.push(']');
        }
        written.push((insert_at(last.blocks.end), end));
        if self.messages.len() > 1 {
            // The other members of the first message apply to all of them.
            let tail_span = Span { start: head.content.end, end: head.record.end };
            let tail = String::from_utf8_lossy(tail_span.slice(stream.bytes())).into_owned();
            written.push((Span { start: last.content.end, end: last.record.end }, tail));
        }
    }
}
