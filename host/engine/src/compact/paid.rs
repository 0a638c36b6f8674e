//! What a model was paid for in vain: a summary that was refused, or that saved too little. Whatever compacts by
//! itself pays for the same thing once, for the next time it would be asked the very same. Somebody who asks for it
//! is heard each time.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Ready;
use crate::environment::Environment;
use crate::{digest, private_file, small_file};
use jp_compact_core::select::Selected;

/// What came of asking, by what was asked. That it cannot be kept costs money, and nothing else.
#[derive(Debug, Clone)]
pub struct Paid {
    folder: Option<PathBuf>,
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum InVain {
    /// The answer was refused, and why.
    Refused(String),
    /// It would have saved too little.
    Low(String),
}

impl Paid {
    /// What is known of the user's.
    #[must_use]
    pub fn open(environment: &Environment) -> Self {
        Self { folder: environment.cache().map(|cache| cache.join("in-vain")) }
    }

    /// What came of asking this before, if it was in vain.
    pub(super) fn before(&self, key: &str) -> Option<InVain> {
        let bytes = small_file::read(&self.file(key)?, small_file::RECORD).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// Keeps what came of it.
    pub(super) fn keep(&self, key: &str, in_vain: &InVain) {
        let Some(file) = self.file(key) else { return };
        let bytes = serde_json::to_vec(in_vain).unwrap_or_default();
        if let Err(error) = private_file::write(&file, &bytes, private_file::PRIVATE) {
            tracing::debug!(%error, path = %file.display(), "what a model was asked in vain is not kept");
        }
    }

    fn file(&self, key: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{key}.json")))
    }
}

/// All that an answer depends on, and what it takes to be worth it.
pub(super) fn key(
    ready: &Ready,
    selected: &Selected,
    model: Option<&str>,
    input_sha256: &str,
    min_saving: f64,
) -> String {
    let turns = |range: jp_compact_core::TurnRange| [range.from(), range.to()];
    let asked = json!([
        ready.described.confined.cleared.sha256,
        ready.options,
        turns(selected.range),
        turns(selected.requested),
        model,
        input_sha256,
        min_saving,
    ]);
    digest::of_bytes(asked.to_string().as_bytes())
}
