//! The warnings of configurations that were already shown. Many transcripts share a configuration file, and the user
//! must not see its warnings again for each of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jp_compact_config::Config;

/// The warnings that were already shown.
#[derive(Debug, Default)]
pub(super) struct ShownWarnings {
    texts: BTreeSet<String>,
    /// The folders with configurations whose misplaced keys were already reported.
    roots: BTreeSet<Option<PathBuf>>,
}

impl ShownWarnings {
    /// Returns the warnings of a configuration that were not shown before. The transcripts of one workspace have one
    /// warning about misplaced keys.
    pub(super) fn new_warnings<'c>(&mut self, config: &'c Config) -> Vec<&'c str> {
        let mut new = Vec::new();
        for warning in &config.warnings {
            let is_new = if config.misplaced_keys_warning() == Some(warning) {
                self.roots.insert(config.scope().root().map(Path::to_path_buf))
            } else {
                self.texts.insert(warning.clone())
            };
            if is_new {
                new.push(warning.as_str());
            }
        }
        new
    }
}
