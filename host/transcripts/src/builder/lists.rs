//! The lists of a source, whose elements can be deleted one by one. The order in which lists are added is the order of
//! their numbers.

use super::EventBuilder;
use crate::source_map::{Deletion, ElementRef, List, ListForm, element_deletion};
use jp_compact_json::{JsonNode, Span};

impl EventBuilder {
    /// Adds a list of elements of the source. Returns its number.
    pub(crate) fn add_list(
        &mut self,
        form: ListForm,
        elements: Vec<Span>,
        holder: Option<ElementRef>,
    ) -> usize {
        self.map.lists.push(List { form, elements, holder });
        self.map.lists.len() - 1
    }

    /// Adds the items of an array as a list. Returns its number.
    pub(crate) fn add_items(&mut self, array: JsonNode<'_>, holder: Option<ElementRef>) -> usize {
        self.add_list(ListForm::Commas, array.items().map(JsonNode::span).collect(), holder)
    }

    /// Adds the items of an array as a list. Returns each with its position.
    pub(crate) fn elements<'a>(
        &mut self,
        array: JsonNode<'a>,
        holder: Option<ElementRef>,
    ) -> impl Iterator<Item = (ElementRef, JsonNode<'a>)> + use<'a> {
        let list = self.add_items(array, holder);
        array.items().enumerate().map(move |(element, item)| (ElementRef { list, element }, item))
    }

    /// Returns the blocks of a content, each with its deletion. A single block is deleted with its record.
    pub(crate) fn blocks<'a>(
        &mut self,
        content: JsonNode<'a>,
    ) -> impl Iterator<Item = (Deletion, JsonNode<'a>)> + use<'a> {
        let list = (content.items().len() > 1).then(|| self.add_items(content, None));
        content.items().enumerate().map(move |(element, block)| (element_deletion(list, element), block))
    }

    /// Adds the members of an object as a list, so that a value can be deleted with its key.
    pub(crate) fn members<'a>(&mut self, object: JsonNode<'a>) -> Members<'a> {
        Members { list: self.add_list(ListForm::Commas, object.member_spans(), None), object }
    }
}

/// The members of an object, as elements of a list.
#[derive(Clone, Copy)]
pub(crate) struct Members<'a> {
    pub(crate) list: usize,
    pub(crate) object: JsonNode<'a>,
}

impl Members<'_> {
    pub(crate) fn find(&self, name: &str) -> Option<ElementRef> {
        Some(ElementRef { list: self.list, element: self.object.position(name)? })
    }

    pub(crate) fn deletion(&self, name: &str) -> Deletion {
        self.find(name).map_or(Deletion::Nothing, Deletion::Element)
    }
}
