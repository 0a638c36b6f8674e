//! The context window of a model: typed, configured, from the built-in table, reported by the provider, or assumed from
//! similar models. A provider is asked without any part of a conversation. Only a provider that is named in the user's
//! own settings or command line may be asked.

use super::provider::{self, Target};
use super::{ContextWindow, ModelName, Models, WindowSource, window_request};

impl Models {
    /// Returns the context window of a model, known or assumed. The typed window is an upper limit for a known window,
    /// and replaces an assumed one. A window that the provider reports is known after [`Self::ask_for_window`].
    #[must_use]
    pub fn context_window(&self, model: &ModelName) -> Option<ContextWindow> {
        let typed = self.window.map(|tokens| WindowSource::Typed.window(tokens));
        let reported = || self.reported_windows.known(&model.to_string()).flatten();
        let listed = self.settings.listed_window(model);
        let known = listed.or_else(|| Some(WindowSource::Provider.window(reported()?)));
        match (typed, known) {
            (Some(typed), Some(known)) if known.tokens < typed.tokens => Some(known),
            (Some(window), _) | (None, Some(window)) => Some(window),
            (None, None) => self.settings.family_window(model),
        }
    }

    /// Returns the window that the user typed. It also holds for a conversation whose model is unknown.
    #[must_use]
    pub const fn typed_window(&self) -> Option<u64> {
        self.window
    }

    /// Asks the provider of a model for its context window, if it is not known otherwise. The answer is cached. Only a
    /// provider that is named in the user's own settings or command line is asked. If `may_send` is false, only the
    /// cache is read.
    pub async fn ask_for_window(&self, model: &ModelName, may_send: bool) {
        if self.window.is_some() || self.settings.listed_window(model).is_some() || !self.may_ask(model) {
            return;
        }
        let Ok(target) = provider::target(model, &self.settings, &self.variables) else { return };
        let _asking = self.reported_windows.asking.lock().await;
        let is_known = self.reported_windows.known(&model.to_string()).is_some();
        if is_known || self.reported_windows.load(&target) || !may_send || self.replays() {
            return;
        }
        match self.reported_window(&target).await {
            Ok(tokens) => self.reported_windows.store(&target, tokens),
            Err(error) => {
                tracing::info!(%model, error, "failed to ask for the context window");
                self.reported_windows.remember(&target, None);
            }
        }
    }

    /// Returns whether the provider of this model is named in the user's own settings or command line.
    fn may_ask(&self, model: &ModelName) -> bool {
        let named = self.settings.model.iter().chain(&self.requested_model);
        self.settings.providers.contains_key(model.provider())
            || named.into_iter().any(|named| named.provider() == model.provider())
    }

    /// Asks a provider for the context window of a model. Only an error from the first address is returned. Some
    /// servers do not have the other addresses.
    async fn reported_window(&self, target: &Target) -> Result<Option<u64>, String> {
        let requests = window_request::requests(target);
        if requests.is_empty() {
            return Ok(None);
        }
        let key = self.keys.get(target, &self.variables).await?;
        for (index, request) in requests.iter().enumerate() {
            let answer =
                self.client.ask_about_model(target, key.as_ref(), &request.url, request.body.as_ref()).await;
            match answer {
                Ok(answer) => {
                    if let Some(tokens) = request.window(&answer, target.model.name()) {
                        return Ok(Some(tokens));
                    }
                }
                Err(error) if index == 0 => return Err(error.message),
                Err(_) => {}
            }
        }
        Ok(None)
    }
}
