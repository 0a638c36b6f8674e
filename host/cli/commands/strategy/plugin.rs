//! The origin and the trust status of a plugin, each as one word.

use jp_compact_runtime::registry::Plugin;
use jp_compact_runtime::trust::{Trust, TrustStatus};

/// Returns the origin of a plugin, or `shadowed` if another plugin has its name.
pub(super) fn origin(plugin: &Plugin) -> &'static str {
    if plugin.shadowed { "shadowed" } else { plugin.origin.word() }
}

/// Returns the trust status of a plugin, and the digest of its bytes.
pub(super) fn trust_status(plugin: &Plugin, trust: &Trust) -> (&'static str, Option<String>) {
    let Ok(judged) = trust.judge(plugin) else { return ("unreadable", None) };
    let status = match (judged.standing, trust.insecure(plugin)) {
        (_, Ok(Some(_)) | Err(_)) => "insecure",
        (TrustStatus::Bundled | TrustStatus::Trusted { .. }, Ok(None)) => "trusted",
        (TrustStatus::Untrusted, Ok(None)) => "untrusted",
        (TrustStatus::Changed, Ok(None)) => "changed",
    };
    (status, Some(judged.sha256))
}
