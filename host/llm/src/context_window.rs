//! The context window of a model, and its origin. An assumed window must not be treated as a known
//! window.

/// The context window of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextWindow {
    /// The number of tokens, input and output together. If the provider reports only a limit of the input, it is that
    /// limit.
    pub tokens: u64,
    pub source: WindowSource,
}

/// The source of a context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowSource {
    /// The command line.
    Typed,
    /// `[llm.models."provider/name"]`.
    Configured,
    /// The built-in table.
    BuiltIn,
    Provider,
    /// The smallest window of similar models. The model's own window is not known.
    Family,
}

impl WindowSource {
    /// Returns a window from this source.
    #[must_use]
    pub fn window(self, tokens: u64) -> ContextWindow {
        ContextWindow { tokens, source: self }
    }
}

impl ContextWindow {
    /// Returns the warning about a window that was assumed, or `None` if the window is known.
    #[must_use]
    pub fn warning(&self, model: &str) -> Option<String> {
        (self.source == WindowSource::Family).then(|| {
            format!(
                "the context window of `{model}` is not known; {} tokens are assumed, the smallest window of similar \
                 models. Set `llm.models.\"{model}\".context_window`",
                self.tokens
            )
        })
    }
}
