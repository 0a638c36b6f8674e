//! The context window of a model, for requests and for automatic compaction. For another program's transcript, it is
//! the window of the model in the transcript. This model is never asked for a text, because the user did not choose it
//! here.

use jp_compact_llm::{ContextWindow, ModelName, Models};
use jp_compact_schema::{Diagnostic, Severity};
use jp_compact_transcripts::Transcript;

/// Returns the model in a transcript of another program.
#[must_use]
pub fn model_of(stream: &Transcript) -> Option<ModelName> {
    let (provider, name) = stream.model()?;
    format!("{provider}/{name}").parse().ok()
}

/// Returns the context window of a model. Asks its provider if that is needed, allowed by the user's settings, and
/// `may_send` is true.
pub(crate) async fn look_up(models: &Models, model: &ModelName, may_send: bool) -> Option<ContextWindow> {
    // Boxed, because the future of a network request is large, and every enclosing future would contain and move it.
    Box::pin(models.ask_for_window(model, may_send)).await;
    models.context_window(model)
}

/// Returns the warning about a window that is assumed.
pub(super) fn assumed(window: &ContextWindow, model: &ModelName) -> Option<Diagnostic> {
    Some(Diagnostic {
        severity: Severity::Warning,
        code: "window_assumed".to_owned(),
        message: window.warning(&model.to_string())?,
        turn: None,
        seq: None,
    })
}
