//! A transcript: its events, and its relation to the file that it was read from.

use std::ops::Deref;
use std::sync::Arc;

use jp_compact_core::index::Unreadable;
use jp_compact_core::stream::Stream;

use crate::format::Format;
use crate::model_provider;
use crate::sidecar::Sidecar;
use crate::source_map::SourceMap;

/// A stream of events that was read from a file of any format.
#[derive(Debug, Clone)]
pub struct Transcript {
    stream: Stream,
    /// `None` for JP's own files.
    source: Option<Arc<SourceMap>>,
    sidecar: Option<Sidecar>,
}

impl From<Stream> for Transcript {
    fn from(stream: Stream) -> Self {
        Self { stream, source: None, sidecar: None }
    }
}

impl Deref for Transcript {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl Transcript {
    pub(crate) fn new(stream: Stream, source: SourceMap) -> Self {
        Self { stream, source: Some(Arc::new(source)), sidecar: None }
    }

    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Returns the transcript with a part of its own stream, and without a sidecar.
    #[must_use]
    pub fn with_part(&self, part: Stream) -> Self {
        Self { stream: part, source: self.source.clone(), sidecar: None }
    }

    #[must_use]
    pub fn format(&self) -> Format {
        self.source().map_or(Format::Jp, |source| source.format)
    }

    /// Returns the map from events to the file, or `None` for JP's own files.
    pub(crate) fn source(&self) -> Option<&SourceMap> {
        self.source.as_deref()
    }

    /// Returns the provider and the name of the model that wrote the newest answers, if another program's file names
    /// it. The provider is inferred from the name of the model.
    #[must_use]
    pub fn model(&self) -> Option<(&'static str, &str)> {
        let model = self.source()?.model.as_deref()?;
        let model = model.strip_prefix("models/").unwrap_or(model);
        Some((model_provider::infer(model), model))
    }

    #[must_use]
    pub fn warnings(&self) -> &[String] {
        self.source().map_or(&[], |source| &source.warnings)
    }

    /// Adds the overlays of a sidecar. A JP transcript contains its overlays itself and ignores a sidecar.
    ///
    /// # Errors
    /// An overlay is malformed.
    pub fn with_sidecar(mut self, sidecar: Sidecar) -> Result<Self, Unreadable> {
        if self.source.is_some() {
            self.stream = self.stream.with_overlays(sidecar.index())?;
            self.sidecar = Some(sidecar);
        }
        Ok(self)
    }

    #[must_use]
    pub fn sidecar(&self) -> Option<&Sidecar> {
        self.sidecar.as_ref()
    }

    /// Marks an overlay as stale: the events that it was made from have changed. `index` is its position in
    /// [`Stream::overlays`].
    pub fn mark_stale(&mut self, index: usize) {
        self.stream.mark_stale(index);
    }
}
