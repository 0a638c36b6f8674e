//! The context windows that providers reported. A provider is asked once per model and run, and its answer is kept only
//! for a day, because a local server may be started again with another window. An answer without a window is stored,
//! too. A failed request is not stored on disk.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use jp_compact_runtime::clock::Clock;
use jp_compact_runtime::digest;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::private_file::Cache;
use jp_compact_runtime::{small_file, trust};
use serde::{Deserialize, Serialize};

use super::provider::Target;

/// The maximum age of a stored answer, in seconds.
const AGE_SECONDS_MAX: u64 = 24 * 60 * 60;

/// The answers of providers.
#[derive(Debug)]
pub(super) struct WindowCache {
    disk: Cache<String, ReportedWindow>,
    clock: Clock,
    /// The windows of this run, by model. `None` if the provider reports no window.
    known: Mutex<BTreeMap<String, Option<u64>>>,
    /// Held while a provider is asked, so that it is asked once.
    pub(super) asking: tokio::sync::Mutex<()>,
}

/// A stored answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ReportedWindow {
    /// `None` if the provider reports no window.
    tokens: Option<u64>,
    /// The time of the answer, in seconds since 1970.
    asked_at: i64,
}

impl WindowCache {
    /// Opens the cache of the user. A folder that another user could write to is neither read nor written.
    pub(super) fn open(environment: &Environment) -> Self {
        let folder = environment.cache().map(|cache| cache.join("windows"));
        let folder = folder.filter(|folder| match trust::insecure_folder(folder) {
            Ok(None) => true,
            Ok(Some(insecure)) => {
                tracing::warn!(%insecure, "ignored the cache of context windows");
                false
            }
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        });
        Self::at(folder, Clock::System)
    }

    fn at(folder: Option<PathBuf>, clock: Clock) -> Self {
        Self {
            disk: Cache::new(folder, small_file::RECORD),
            clock,
            known: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the window that the provider of this model reported in this run. The outer `None` means that it was not
    /// asked.
    pub(super) fn known(&self, model: &str) -> Option<Option<u64>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(model).copied()
    }

    /// Takes a stored answer into this run. Returns whether there is one that is not too old.
    pub(super) fn load(&self, target: &Target) -> bool {
        let Some(stored) = self.disk.get(&key(target)) else { return false };
        let age = u64::try_from(self.clock.now().as_second().saturating_sub(stored.asked_at));
        // A negative age means that the clock was set back.
        let is_current = age.is_ok_and(|age| age <= AGE_SECONDS_MAX);
        if is_current {
            self.remember(target, stored.tokens);
        }
        is_current
    }

    /// Keeps the answer of a provider for this run and for later runs.
    pub(super) fn store(&self, target: &Target, tokens: Option<u64>) {
        self.remember(target, tokens);
        let reported = ReportedWindow { tokens, asked_at: self.clock.now().as_second() };
        self.disk.put(&key(target), &reported);
    }

    /// Keeps a window for this run only.
    pub(super) fn remember(&self, target: &Target, tokens: Option<u64>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(target.model.to_string(), tokens);
    }
}

/// Returns the key of a model. Another server may have another model with the same name, so the address is part of the
/// key.
fn key(target: &Target) -> String {
    digest::of_bytes(format!("{} {} {:?}", target.address, target.model, target.kind).as_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::time::Duration;

    use jp_compact_runtime::environment::Variables;

    use super::*;
    use crate::provider;
    use crate::settings::Settings;

    fn target(host: &str) -> Target {
        let variables = BTreeMap::from([("OLLAMA_HOST".to_owned(), host.to_owned())]);
        let variables = Variables::These(variables);
        provider::target(&"ollama/q".parse().unwrap(), &Settings::default(), &variables).unwrap()
    }

    #[test]
    fn keeps_an_answer_for_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let cache = |clock| WindowCache::at(Some(folder.path().to_owned()), clock);
        let start = Clock::System.now();
        let later = |seconds| Clock::Fixed(start + Duration::from_secs(seconds));
        cache(later(9)).store(&target("a"), Some(7));
        let loaded = |clock, host| {
            let cache = cache(clock);
            cache.load(&target(host)).then(|| cache.known("ollama/q"))
        };
        assert_eq!(loaded(later(9), "a"), Some(Some(Some(7))));
        assert_eq!(loaded(later(9 + AGE_SECONDS_MAX), "a"), Some(Some(Some(7))));
        assert_eq!(loaded(later(10 + AGE_SECONDS_MAX), "a"), None);
        assert_eq!(loaded(later(8), "a"), None, "the clock was set back");
        assert_eq!(loaded(later(9), "b"), None, "another server");
    }

    #[test]
    fn remembers_a_failure_for_this_run_only() {
        let folder = tempfile::tempdir().unwrap();
        let cache = |folder: &Path| WindowCache::at(Some(folder.to_owned()), Clock::System);
        let first = cache(folder.path());
        first.remember(&target("a"), None);
        assert_eq!(first.known("ollama/q"), Some(None));
        assert!(!cache(folder.path()).load(&target("a")));
    }
}
