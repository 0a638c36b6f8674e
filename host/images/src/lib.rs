//! Images in requests. A reader writes one line into the text of an event for each image, and the data stays in the
//! source. This crate puts the images of a view back into a rendered request if the provider has a form for them, and
//! counts the lost images. It does no input or output.
//!
//! The interface is not stable.
#![expect(missing_docs, reason = "the interface is not stable, so only unclear names need a comment")]

mod body;
mod source;

use std::collections::{HashMap, VecDeque};

use jp_compact_core::Stream;
use jp_compact_core::estimate::IMAGE_LINE;
use jp_compact_core::event::{Event, Kind};
use jp_compact_core::render::Provider;
use jp_compact_core::view::{Part, View};
use serde_json::Value;

pub use source::Image;

/// The text between the texts that Ollama gets in one message.
const BETWEEN_TEXTS: &str = "\n\n";

/// The images of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImageCounts {
    pub kept: usize,
    /// The images without a form in this provider's requests, or without readable data.
    pub lost: usize,
}

impl ImageCounts {
    /// Returns the warning about images that a request lacks.
    #[must_use]
    pub fn warning(self, provider: Provider) -> Option<String> {
        let Self { kept, lost } = self;
        let are = if lost == 1 { "is" } else { "are" };
        let images = if kept + lost == 1 { "image" } else { "images" };
        (lost > 0).then(|| {
            format!(
                "{lost} of {} {images} {are} not in the request, because {provider} has no form for such an image, or \
                 because its data is not in the transcript; the line `[image]` is in its place",
                kept + lost
            )
        })
    }
}

/// The images of each text, in the order of the events. An event whose data cannot be read has no images.
#[derive(Debug, Default)]
pub(crate) struct ImageTexts(HashMap<String, VecDeque<Vec<Image>>>);

impl ImageTexts {
    /// Removes and returns the images of the next event with this text.
    fn take(&mut self, text: &str) -> Option<Vec<Image>> {
        self.0.get_mut(text)?.pop_front()
    }

    /// Splits joined texts after the first one. A text with images can contain empty lines, so the longest one counts.
    fn split_first<'a>(&self, joined: &'a str) -> (&'a str, &'a str) {
        let is_first = |text: &&String| {
            let rest = joined.strip_prefix(text.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(BETWEEN_TEXTS))
        };
        let texts = self.0.iter().filter(|(_, images)| !images.is_empty()).map(|(text, _)| text);
        let length = texts.filter(is_first).map(String::len).max().or_else(|| joined.find(BETWEEN_TEXTS));
        let (text, rest) = joined.split_at(length.unwrap_or(joined.len()));
        (text, rest.strip_prefix(BETWEEN_TEXTS).unwrap_or(rest))
    }
}

/// Puts the images of a view into the body that was rendered from it.
pub fn place(stream: &Stream, view: &View, provider: Provider, body: &mut Value) -> ImageCounts {
    let (mut requests, mut results, mut total) = (ImageTexts::default(), ImageTexts::default(), 0);
    for item in view.items() {
        let (Part::Kept(element) | Part::Short(element)) = &item.part else { continue };
        let event = &stream.events()[*element];
        let texts = match event.kind {
            Kind::ChatRequest => &mut requests,
            Kind::ToolResponse { .. } => &mut results,
            _ => continue,
        };
        let text = stream.text(event.body);
        let lines = image_lines(&text);
        if lines == 0 {
            continue;
        }
        let mut images = Vec::new();
        if is_generated(stream, event) {
            total += lines;
            images = source::images(stream.bytes_at(event.span));
            if images.len() != lines {
                images.clear();
            }
        }
        texts.0.entry(text.into_owned()).or_default().push_back(images);
    }
    if total == 0 {
        return ImageCounts::default();
    }
    let kept = body::place(provider, body, &mut requests, &mut results);
    ImageCounts { kept, lost: total.saturating_sub(kept) }
}

/// Returns the number of images in a view.
#[must_use]
pub fn count(stream: &Stream, view: &View) -> usize {
    let elements = view.items().iter().filter_map(|item| match item.part {
        Part::Kept(element) | Part::Short(element) => Some(element),
        _ => None,
    });
    let events = elements.map(|element| &stream.events()[element]).filter(|event| {
        matches!(event.kind, Kind::ChatRequest | Kind::ToolResponse { .. }) && is_generated(stream, event)
    });
    events.map(|event| image_lines(&stream.text(event.body))).sum()
}

/// Returns the number of lines that a reader wrote for images.
fn image_lines(text: &str) -> usize {
    text.lines().filter(|line| *line == IMAGE_LINE).count()
}

/// Returns whether a reader wrote the text. A line that the user typed is not an image.
fn is_generated(stream: &Stream, event: &Event) -> bool {
    event.body.start >= stream.bytes().len()
}
