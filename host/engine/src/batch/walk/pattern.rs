//! The pattern of a search. The names in it override git's rules and the rule for hidden folders, because the user typed
//! them. So these rules apply only to names that its wildcards match.

use std::path::{Path, PathBuf};

use ignore::overrides::{Override, OverrideBuilder};

use super::names::{CONVERSATIONS, WILDCARDS};

pub(super) struct Pattern {
    /// Matches the paths of the pattern, and everything below them.
    paths: Override,
    /// Each name after the first wildcard, with a matcher of the paths that end with this name.
    names: Vec<(PathBuf, Override)>,
}

impl Pattern {
    pub(super) fn new(folder: &Path, pattern: &str) -> Result<Self, ignore::Error> {
        let pattern = pattern.trim_end_matches('/');
        let mut names = Vec::new();
        let mut prefix = String::new();
        for name in pattern.split('/') {
            prefix = format!("{prefix}/{name}");
            let is_name = !name.contains(WILDCARDS) && !["", ".", ".."].contains(&name);
            // There is no matcher if the prefix ends inside of braces.
            if let Some(matcher) = is_name.then(|| matcher(folder, &[&prefix]).ok()).flatten() {
                names.push((name.into(), matcher));
            }
        }
        // A workspace that matches is named, like a workspace without a pattern.
        names.push((CONVERSATIONS.into(), matcher(folder, &[&format!("/{pattern}/{CONVERSATIONS}")])?));
        let paths = matcher(folder, &[&format!("/{pattern}"), &format!("/{pattern}/**")])?;
        Ok(Self { paths, names })
    }

    pub(super) fn matches(&self, path: &Path) -> bool {
        self.paths.matched(path, false).is_whitelist()
    }

    /// Returns the paths directly in `folder`, and its conversations, that the pattern names.
    pub(super) fn named_in(&self, folder: &Path) -> impl Iterator<Item = PathBuf> {
        let paths = self.names.iter().map(|(name, matcher)| (folder.join(name), matcher));
        paths.filter_map(|(path, matcher)| matcher.matched(&path, true).is_whitelist().then_some(path))
    }
}

fn matcher(folder: &Path, globs: &[&str]) -> Result<Override, ignore::Error> {
    let mut builder = OverrideBuilder::new(folder);
    for glob in globs {
        builder.add(glob)?;
    }
    builder.build()
}
