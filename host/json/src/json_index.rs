//! An index of the parts of a JSON value, for readers of transcripts. It is built in one pass and decodes nothing.
//! Members that a reader's filter does not select are skipped as a whole, because most bytes of a transcript are in
//! them.

use std::borrow::Cow;
use std::str::FromStr;

use crate::text;
use crate::{Malformed, Scanner, Span};

/// Bytes that are replaced: those of a value, or none where a member is added.
#[derive(Debug, Clone, Copy)]
pub struct EditSite {
    /// The replaced bytes. Empty for a new member.
    pub span: Span,
    /// Returns the new bytes. The argument is the new text, which is empty if the value is emptied.
    pub write: fn(&str) -> String,
}

/// The nodes of a value. The filter decides which members have child nodes. The index can be reused for another value.
#[derive(Debug, Clone, Default)]
pub struct JsonIndex {
    root: Node,
    /// The members and items of the objects and arrays that have ended. Those of one value are neighbors, and those of
    /// an inner value precede those of the outer value.
    nodes: Vec<Node>,
    /// The members and items of the objects and arrays that have not ended yet.
    open: Vec<Node>,
    /// Whether a key contains escapes, which is rare.
    has_escaped_keys: bool,
    needs_repair: bool,
    /// The offset in the file at which the indexed bytes begin. Nodes add it to the spans that they return.
    base: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    /// The key of an object's member.
    key: Span,
    span: Span,
    content: NodeContent,
}

#[derive(Debug, Clone, Copy, Default)]
enum NodeContent {
    /// A string, a number, a literal, or a skipped value.
    #[default]
    Leaf,
    Object(Span),
    Array(Span),
}

/// Selects the members whose contents are indexed, by key. Every other member is one leaf. The items of an array are
/// indexed if its member is selected.
pub type MemberFilter = fn(&[u8]) -> bool;

impl JsonIndex {
    /// Indexes the value at `span`. Only white space may surround it.
    ///
    /// # Errors
    /// The bytes are not JSON. The error carries the offset in `bytes`.
    pub fn new(bytes: &[u8], span: Span, filter: MemberFilter) -> Result<Self, Malformed> {
        let mut index = Self::default();
        index.read(bytes, span, filter)?;
        Ok(index)
    }

    /// Returns whether the value contains something that has to be repaired before it is decoded.
    pub fn needs_repair(&self) -> bool {
        self.needs_repair
    }

    /// Sets the offset in the file at which the bytes begin, if they are a part of a file.
    pub fn set_base(&mut self, base: usize) {
        self.base = base;
    }

    /// Indexes the value at `span`, and drops the previous value.
    ///
    /// # Errors
    /// Like [`Self::new`].
    pub fn read(&mut self, bytes: &[u8], span: Span, filter: MemberFilter) -> Result<(), Malformed> {
        self.read_to_end(Scanner::lenient(&bytes[..span.end], span.start), bytes, filter).map(drop)
    }

    /// Indexes the value in the line that begins at `start`, and drops the previous value. Returns the end of the
    /// line, including its line break.
    ///
    /// # Errors
    /// Like [`Self::new`]. If the line is cut off, the error may be after its end.
    pub fn read_line(
        &mut self,
        bytes: &[u8],
        start: usize,
        filter: MemberFilter,
    ) -> Result<usize, Malformed> {
        let end = self.read_to_end(Scanner::in_line(bytes, start), bytes, filter)?;
        Ok(bytes.len().min(end + 1))
    }

    fn read_to_end(
        &mut self,
        mut scanner: Scanner<'_>,
        bytes: &[u8],
        filter: MemberFilter,
    ) -> Result<usize, Malformed> {
        self.nodes.clear();
        self.open.clear();
        self.has_escaped_keys = false;
        self.value(&mut scanner, bytes, 0, filter, Span::default())?;
        self.root = self.open.pop().unwrap_or_default();
        self.needs_repair = !scanner.lenient_spans().is_empty();
        if scanner.has_ended() {
            return Ok(scanner.at());
        }
        Err(Malformed { offset: scanner.at(), message: "text after the value" })
    }

    /// Indexes a value, and adds its node to `open`.
    fn value(
        &mut self,
        scanner: &mut Scanner<'_>,
        bytes: &[u8],
        depth: usize,
        filter: MemberFilter,
        key: Span,
    ) -> Result<(), Malformed> {
        let first = scanner.peek();
        let (start, first_child) = (scanner.at(), self.open.len());
        let content = match first {
            Some(b'{') => {
                scanner.object(depth, |scanner, key| {
                    let has_escapes = scanner.has_escapes();
                    self.has_escaped_keys |= has_escapes;
                    let is_selected = || filter(&text::unquote_key(key.slice(bytes), has_escapes));
                    if is_container(scanner.peek()) && is_selected() {
                        return self.value(scanner, bytes, depth + 1, filter, key);
                    }
                    let span = scanner.value(depth + 1)?;
                    self.open.push(Node { key, span, content: NodeContent::Leaf });
                    Ok(())
                })?;
                NodeContent::Object(self.close(first_child))
            }
            Some(b'[') => {
                scanner
                    .array(depth, |scanner| self.value(scanner, bytes, depth + 1, filter, Span::default()))?;
                NodeContent::Array(self.close(first_child))
            }
            _ => {
                scanner.value(depth)?;
                NodeContent::Leaf
            }
        };
        self.open.push(Node { key, span: Span { start, end: scanner.at() }, content });
        Ok(())
    }

    #[inline]
    fn in_file(&self, span: Span) -> Span {
        Span { start: span.start + self.base, end: span.end + self.base }
    }

    /// Moves the children of an object or array to their final place. Returns the range.
    fn close(&mut self, first_child: usize) -> Span {
        let start = self.nodes.len();
        self.nodes.extend_from_slice(&self.open[first_child..]);
        self.open.truncate(first_child);
        Span { start, end: self.nodes.len() }
    }
}

fn is_container(first: Option<u8>) -> bool {
    matches!(first, Some(b'{' | b'['))
}

/// A node and the bytes that it refers to.
#[derive(Debug, Clone, Copy)]
pub struct JsonNode<'a> {
    bytes: &'a [u8],
    index: &'a JsonIndex,
    node: &'a Node,
}

impl<'a> JsonNode<'a> {
    /// Returns the root of an index over these bytes.
    pub fn new(bytes: &'a [u8], index: &'a JsonIndex) -> Self {
        Self { bytes, index, node: &index.root }
    }

    #[inline]
    fn member_nodes(self) -> &'a [Node] {
        if let NodeContent::Object(members) = self.node.content {
            &self.index.nodes[members.start..members.end]
        } else {
            &[]
        }
    }

    #[inline]
    fn at(self, node: &'a Node) -> Self {
        Self { node, ..self }
    }

    /// Returns the position of a member. If a key occurs twice, the last member counts, as in `serde_json`.
    #[inline]
    fn find(self, name: &str) -> Option<usize> {
        let (members, name) = (self.member_nodes(), name.as_bytes());
        if self.index.has_escaped_keys {
            return members
                .iter()
                .rposition(|node| *text::unquote_bytes(node.key.slice(self.bytes)) == *name);
        }
        // The length alone rules out most keys.
        let has_name = |node: &Node| {
            node.key.end - node.key.start == name.len() + 2
                && self.bytes[node.key.start + 1..node.key.end - 1] == *name
        };
        members.iter().rposition(has_name)
    }

    #[inline]
    pub fn span(self) -> Span {
        self.index.in_file(self.node.span)
    }

    #[inline]
    pub fn raw(self) -> &'a [u8] {
        self.node.span.slice(self.bytes)
    }

    #[inline]
    pub fn get(self, name: &str) -> Option<Self> {
        self.find(name).map(|index| self.at(&self.member_nodes()[index]))
    }

    #[inline]
    pub fn string(self, name: &str) -> Option<Self> {
        self.get(name).filter(|value| value.is_string())
    }

    /// Returns the span of a string member, or an empty span if there is none.
    pub fn string_span(self, name: &str) -> Span {
        span_of(self.string(name))
    }

    /// Returns a string member that is not empty.
    pub fn non_empty_string(self, name: &str) -> Option<Self> {
        self.string(name).filter(|text| text.raw().len() > 2)
    }

    pub fn array(self, name: &str) -> Option<Self> {
        self.get(name).filter(|value| value.is_array())
    }

    pub fn object(self, name: &str) -> Option<Self> {
        self.get(name).filter(|value| value.is_object())
    }

    /// Returns a member that is an array with at least one item.
    pub fn non_empty_array(self, name: &str) -> Option<Self> {
        self.get(name).filter(|list| list.items().len() > 0)
    }

    /// Returns a member that is not `null`.
    pub fn non_null(self, name: &str) -> Option<Self> {
        self.get(name).filter(|value| !value.is_null())
    }

    /// Returns a member of a member.
    pub fn inner(self, outer: &str, name: &str) -> Option<Self> {
        self.get(outer)?.get(name)
    }

    /// Returns the items of a member. Empty if the member is not an array.
    pub fn items_of(self, name: &str) -> impl DoubleEndedIterator<Item = Self> {
        self.get(name).into_iter().flat_map(Self::items)
    }

    /// Returns whether a member is this string.
    pub fn text_is(self, name: &str, text: &str) -> bool {
        self.string(name).is_some_and(|value| *value.text_bytes() == *text.as_bytes())
    }

    /// Returns the JSON of this value.
    pub fn lossy(self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.raw())
    }

    pub fn number<T: FromStr>(self) -> Option<T> {
        std::str::from_utf8(self.raw()).ok()?.parse().ok()
    }

    /// Returns the site after the last member of an object, where a missing member can be added.
    pub fn new_member_site(self, write: fn(&str) -> String) -> Option<EditSite> {
        let end = self.member_spans().last()?.end;
        Some(EditSite { span: Span { start: end, end }, write })
    }

    /// Returns the span of this value, with the function that writes its replacement.
    pub fn edit_site(self, write: fn(&str) -> String) -> EditSite {
        EditSite { span: self.span(), write }
    }

    pub fn text_of(self, name: &str) -> Option<Cow<'a, str>> {
        self.string(name).map(Self::text)
    }

    pub fn is_true(self, name: &str) -> bool {
        self.get(name).is_some_and(Self::is_literal_true)
    }

    #[inline]
    pub fn is_literal_true(self) -> bool {
        self.raw() == b"true"
    }

    /// Returns several members, found in one pass.
    #[inline]
    pub fn members_named<const N: usize>(self, names: &[&str; N]) -> [Option<Self>; N] {
        let mut found = [None; N];
        for (key, value) in self.members() {
            if let Some(name) = names.iter().position(|name| *name.as_bytes() == *key) {
                found[name] = Some(value);
            }
        }
        found
    }

    /// Returns the members of an object. Empty for any other value and for a skipped object.
    #[inline]
    pub fn members(self) -> impl DoubleEndedIterator<Item = (Cow<'a, [u8]>, Self)> + ExactSizeIterator {
        let name = move |key: Span| match self.index.has_escaped_keys {
            true => text::unquote_bytes(key.slice(self.bytes)),
            false => Cow::Borrowed(&self.bytes[key.start + 1..key.end - 1]),
        };
        self.member_nodes().iter().map(move |node| (name(node.key), self.at(node)))
    }

    /// Returns the spans of an object's members, each from its key to the end of its value.
    pub fn member_spans(self) -> Vec<Span> {
        let from_key = |node: &Node| self.index.in_file(Span { start: node.key.start, end: node.span.end });
        self.member_nodes().iter().map(from_key).collect()
    }

    pub fn position(self, name: &str) -> Option<usize> {
        self.find(name)
    }

    /// Returns the items of an array. Empty for any other value and for a skipped array.
    #[inline]
    pub fn items(self) -> impl ExactSizeIterator<Item = Self> + DoubleEndedIterator {
        let items = if let NodeContent::Array(items) = self.node.content {
            &self.index.nodes[items.start..items.end]
        } else {
            &[]
        };
        items.iter().map(move |node| self.at(node))
    }

    #[inline]
    pub fn is_string(self) -> bool {
        self.raw().first() == Some(&b'"')
    }

    #[inline]
    pub fn is_object(self) -> bool {
        self.raw().first() == Some(&b'{')
    }

    #[inline]
    pub fn is_array(self) -> bool {
        self.raw().first() == Some(&b'[')
    }

    #[inline]
    pub fn is_null(self) -> bool {
        self.raw() == b"null"
    }

    /// Returns the text of a string as bytes, and no bytes for any other value. Cheaper than [`Self::text`].
    #[inline]
    pub fn text_bytes(self) -> Cow<'a, [u8]> {
        if self.is_string() { text::unquote_bytes(self.raw()) } else { Cow::Borrowed(b"") }
    }

    /// Returns the text of a string, and an empty text for any other value.
    pub fn text(self) -> Cow<'a, str> {
        if self.is_string() { text::unquote(self.raw()) } else { Cow::Borrowed("") }
    }
}

/// Returns the span of a value, or an empty span without a value.
pub fn span_of(value: Option<JsonNode<'_>>) -> Span {
    value.map_or_else(Span::default, JsonNode::span)
}
