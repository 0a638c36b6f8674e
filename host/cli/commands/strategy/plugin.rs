//! The origin and the trust of a plugin, each in one word.

use jp_compact_runtime::registry::Plugin;
use jp_compact_runtime::trust::{Standing, Trust};

/// The origin of a plugin.
pub(super) fn origin(plugin: &Plugin) -> &'static str {
    if plugin.shadowed { "shadowed" } else { plugin.origin.word() }
}

/// The trust in a plugin, and the digest of its bytes.
pub(super) fn standing(plugin: &Plugin, trust: &Trust) -> (&'static str, Option<String>) {
    let Ok(judged) = trust.judge(plugin) else { return ("unreadable", None) };
    let word = match (judged.standing, trust.insecure(plugin)) {
        (_, Ok(Some(_)) | Err(_)) => "insecure",
        (Standing::Bundled | Standing::Trusted { .. }, Ok(None)) => "trusted",
        (Standing::Untrusted, Ok(None)) => "untrusted",
        (Standing::Changed, Ok(None)) => "changed",
    };
    (word, Some(judged.sha256))
}
