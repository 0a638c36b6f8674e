//! Dependencies between packages: which package may depend on which other package and crate, and which crates an
//! executable may name.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::paths::names_found;
use crate::sources::{Name, Source};

/// Every package of the workspace, and the packages of the workspace that it may depend on.
const PACKAGE_DEPENDENCIES: [(&str, &[&str]); 26] = [
    ("jp-compact-schema", &[]),
    ("jp-compact-json", &[]),
    ("jp-compact-tokens", &[]),
    ("jp-compact-core", &["jp-compact-schema", "jp-compact-json", "jp-compact-tokens"]),
    (
        "jp-compact-transcripts",
        &["jp-compact-schema", "jp-compact-json", "jp-compact-core", "jp-compact-condensed"],
    ),
    ("jp-compact-folders", &[]),
    ("jp-compact-images", &["jp-compact-core"]),
    ("jp-compact-condensed", &["jp-compact-json", "jp-compact-core"]),
    ("jp-compact-diff", &["jp-compact-schema", "jp-compact-core"]),
    ("jp-compact-terminal", &[]),
    ("jp-compact-runtime", &["jp-compact-schema", "jp-compact-core"]),
    ("jp-compact-conformance", &["jp-compact-schema", "jp-compact-core", "jp-compact-runtime"]),
    ("jp-compact-llm", &["jp-compact-schema", "jp-compact-core", "jp-compact-runtime"]),
    (
        "jp-compact-store",
        &[
            "jp-compact-core",
            "jp-compact-condensed",
            "jp-compact-transcripts",
            "jp-compact-folders",
            "jp-compact-runtime",
        ],
    ),
    (
        "jp-compact-config",
        &["jp-compact-schema", "jp-compact-core", "jp-compact-runtime", "jp-compact-llm", "jp-compact-store"],
    ),
    (
        "jp-compact-sessions",
        &[
            "jp-compact-schema",
            "jp-compact-json",
            "jp-compact-core",
            "jp-compact-folders",
            "jp-compact-transcripts",
            "jp-compact-runtime",
            "jp-compact-store",
            "jp-compact-terminal",
        ],
    ),
    (
        "jp-compact-mcp",
        &[
            "jp-compact-core",
            "jp-compact-runtime",
            "jp-compact-schema",
            "jp-compact-sessions",
            "jp-compact-diff",
            "jp-compact-reports",
            "jp-compact-terminal",
            "jp-compact-transcripts",
        ],
    ),
    ("jp-compact-jp-plugin", &["jp-compact-core", "jp-compact-runtime", "jp-compact-store"]),
    (
        "jp-compact-engine",
        &[
            "jp-compact-schema",
            "jp-compact-core",
            "jp-compact-transcripts",
            "jp-compact-runtime",
            "jp-compact-llm",
            "jp-compact-store",
            "jp-compact-config",
            "jp-compact-evidence",
        ],
    ),
    (
        "jp-compact-help",
        &[
            "jp-compact-schema",
            "jp-compact-runtime",
            "jp-compact-config",
            "jp-compact-sessions",
            "jp-compact-terminal",
        ],
    ),
    ("jp-compact-evidence", &["jp-compact-core"]),
    (
        "jp-compact-eval",
        &["jp-compact-schema", "jp-compact-core", "jp-compact-engine", "jp-compact-evidence"],
    ),
    ("jp-compact-page", &["jp-compact-schema", "jp-compact-diff", "jp-compact-eval", "jp-compact-terminal"]),
    (
        "jp-compact-reports",
        &[
            "jp-compact-schema",
            "jp-compact-core",
            "jp-compact-diff",
            "jp-compact-engine",
            "jp-compact-runtime",
            "jp-compact-terminal",
            "jp-compact-evidence",
            "jp-compact-eval",
        ],
    ),
    ("jp-compact-strategy", &["jp-compact-schema"]),
    (
        "jp-compact",
        &[
            "jp-compact-schema",
            "jp-compact-core",
            "jp-compact-tokens",
            "jp-compact-diff",
            "jp-compact-terminal",
            "jp-compact-transcripts",
            "jp-compact-runtime",
            "jp-compact-conformance",
            "jp-compact-llm",
            "jp-compact-store",
            "jp-compact-images",
            "jp-compact-sessions",
            "jp-compact-jp-plugin",
            "jp-compact-mcp",
            "jp-compact-config",
            "jp-compact-engine",
            "jp-compact-help",
            "jp-compact-evidence",
            "jp-compact-eval",
            "jp-compact-page",
            "jp-compact-reports",
            "jp-compact-strategy",
        ],
    ),
];
/// All other dependencies of the pure packages, and of the package that authors of strategies compile.
const EXTERNAL_DEPENDENCIES: [(&str, &[&str]); 12] = [
    ("jp-compact-schema", &["schemars", "serde", "serde_json"]),
    ("jp-compact-json", &["fearless_simd", "memchr", "serde_json", "simdutf8"]),
    ("jp-compact-tokens", &["fearless_simd", "memchr"]),
    ("jp-compact-folders", &[]),
    ("jp-compact-images", &["serde_json"]),
    ("jp-compact-condensed", &["jiff"]),
    ("jp-compact-core", PURE),
    ("jp-compact-transcripts", PURE),
    (
        "jp-compact-evidence",
        &["aho-corasick", "jiff", "memchr", "regex", "serde", "serde_json", "sha2", "thiserror", "toml"],
    ),
    ("jp-compact-diff", &["serde", "serde_json", "similar"]),
    ("jp-compact-terminal", &["anstyle", "unicode-width"]),
    ("jp-compact-strategy", &["rustix", "serde", "serde_json"]),
];
const PURE: &[&str] =
    &["base64-simd", "bytes", "jiff", "memchr", "serde", "serde_json", "simdutf8", "thiserror"];
/// Crates that only these packages depend on, except in tests.
const RESTRICTED_DEPENDENCIES: [(&str, &[&str]); 27] = [
    ("anstyle", &["jp-compact-reports", "jp-compact-terminal"]),
    ("clap", &["jp-compact", "jp-compact-help"]),
    ("clap_complete", &["jp-compact-help"]),
    ("clap_mangen", &["jp-compact-help"]),
    ("indicatif", &["jp-compact-help"]),
    ("mimalloc", &["jp-compact"]),
    ("rmcp", &["jp-compact"]),
    ("terminal_size", &["jp-compact"]),
    ("tiktoken-rs", &["jp-compact"]),
    (
        "tokio",
        &[
            "jp-compact",
            "jp-compact-conformance",
            "jp-compact-engine",
            "jp-compact-eval",
            "jp-compact-llm",
            "jp-compact-mcp",
            "jp-compact-runtime",
        ],
    ),
    ("futures-util", &["jp-compact-engine"]),
    ("humantime", &["jp-compact-config"]),
    ("ignore", &["jp-compact-engine"]),
    ("quick-xml", &["jp-compact-engine"]),
    ("genai", &["jp-compact-llm"]),
    ("reqwest", &["jp-compact-llm"]),
    ("rustls", &["jp-compact-llm"]),
    ("secrecy", &["jp-compact-llm"]),
    ("maud", &["jp-compact-page"]),
    ("memmap2", &["jp-compact-store"]),
    ("plotters", &["jp-compact-page"]),
    (
        "toml",
        &[
            "jp-compact",
            "jp-compact-conformance",
            "jp-compact-config",
            "jp-compact-evidence",
            "jp-compact-runtime",
        ],
    ),
    ("similar", &["jp-compact-diff"]),
    ("jsonschema", &["jp-compact", "jp-compact-conformance", "jp-compact-runtime"]),
    ("libloading", &["jp-compact"]),
    ("libc", &["jp-compact"]),
    ("seccompiler", &["jp-compact"]),
];
/// The crates that the folders of the root package may name. The first matching folder counts. `std` is always
/// allowed.
const NAMED_CRATES: [(&str, &[&str]); 5] = [
    (
        "host/cli/",
        &[
            "jp_compact_schema",
            "jp_compact_core",
            "jp_compact_diff",
            "jp_compact_terminal",
            "jp_compact_transcripts",
            "jp_compact_runtime",
            "jp_compact_conformance",
            "jp_compact_llm",
            "jp_compact_store",
            "jp_compact_images",
            "jp_compact_sessions",
            "jp_compact_jp_plugin",
            "jp_compact_mcp",
            "jp_compact_config",
            "jp_compact_engine",
            "jp_compact_help",
            "jp_compact_evidence",
            "jp_compact_eval",
            "jp_compact_page",
            "jp_compact_reports",
            "clap",
            "jiff",
            "mimalloc",
            "rmcp",
            "serde",
            "serde_json",
            "terminal_size",
            "tokio",
            "tracing",
            "tracing_subscriber",
        ],
    ),
    ("host/runner/", &["landlock", "libc", "libloading", "rustix", "seccompiler", "serde", "serde_json"]),
    ("host/tokenizer/", &["tiktoken_rs"]),
    ("plugins/", &["jp_compact_strategy", "serde", "serde_json"]),
    ("strategies/", &["jp_compact_strategy", "serde", "serde_json"]),
];

/// Returns the dependencies of a package: the name, and whether only tests use it.
fn dependencies(package: &Value) -> Vec<(&str, bool)> {
    let dependencies = package["dependencies"].as_array().unwrap().iter();
    dependencies
        .map(|dependency| (dependency["name"].as_str().unwrap(), dependency["kind"] == "dev"))
        .collect()
}

pub(crate) fn forbidden_dependencies(metadata: &Value) -> Vec<String> {
    let mut violations = Vec::new();
    let own_packages: BTreeSet<&str> = PACKAGE_DEPENDENCIES.iter().map(|(name, _)| *name).collect();
    let packages = metadata["packages"].as_array().unwrap();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let Some((_, allowed)) = PACKAGE_DEPENDENCIES.iter().find(|(known, _)| *known == name) else {
            violations.push(format!("{name} is not listed as a package"));
            continue;
        };
        let allowed_external = EXTERNAL_DEPENDENCIES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, allowed_external)| *allowed_external);
        for (other, for_tests) in dependencies(package) {
            let verb = if for_tests { "tests with" } else { "depends on" };
            let is_own = own_packages.contains(other);
            let is_restricted = RESTRICTED_DEPENDENCIES
                .iter()
                .any(|(restricted, users)| *restricted == other && !users.contains(&name));
            let is_not_listed =
                allowed_external.is_some_and(|allowed_external| !allowed_external.contains(&other));
            if is_own && !allowed.contains(&other)
                || !is_own && !for_tests && (is_restricted || is_not_listed)
            {
                violations.push(format!("{name} {verb} {other}"));
            }
        }
        // Nothing can depend on the command line, because it is not a library.
        let libraries = package["targets"].as_array().unwrap().iter();
        if name == "jp-compact" && libraries.filter(|target| target["kind"] == json!(["lib"])).count() > 0 {
            violations.push(format!("{name} has a library"));
        }
    }
    for (name, _) in PACKAGE_DEPENDENCIES {
        if packages.iter().all(|package| package["name"] != name) {
            violations.push(format!("{name} is missing"));
        }
    }
    violations
}

/// Returns the libraries with an example that `cargo test` does not run. Libraries without examples disable these tests,
/// because `rustdoc` reads the whole library to find them.
pub(crate) fn untested_examples(metadata: &Value, sources: &[Source]) -> Vec<String> {
    let root = Path::new(metadata["workspace_root"].as_str().unwrap());
    let mut violations = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        for target in package["targets"].as_array().unwrap() {
            let file = Path::new(target["src_path"].as_str().unwrap()).strip_prefix(root).unwrap();
            let is_example = |source: &&Source| {
                source.has_doc_example && Path::new(&source.file).starts_with(file.parent().unwrap())
            };
            if target["kind"] == json!(["lib"]) && target["doctest"] == false {
                violations.extend(
                    sources
                        .iter()
                        .filter(is_example)
                        .map(|source| format!("the example in {} is not tested", source.file)),
                );
            }
        }
    }
    violations
}

/// Returns the dependencies of the root package: the crate, and whether only tests use it.
pub(crate) fn crates_of_root(metadata: &Value) -> Vec<(String, bool)> {
    let mut packages = metadata["packages"].as_array().unwrap().iter();
    let root = packages.find(|package| package["name"] == "jp-compact").unwrap();
    dependencies(root).into_iter().map(|(name, for_tests)| (name.replace('-', "_"), for_tests)).collect()
}

pub(crate) fn forbidden_crates(source: &Source, known: &[(String, bool)]) -> Vec<String> {
    let Some((_, allowed)) = NAMED_CRATES.iter().find(|(folder, _)| source.file.starts_with(folder)) else {
        return Vec::new();
    };
    if source.file.starts_with("strategies/sdk/") {
        return Vec::new();
    }
    let is_known = |name: &Name| known.iter().any(|(known, _)| known == name.first_segment());
    let is_only_for_tests = |name: &Name| {
        name.in_tests && !known.iter().any(|(known, dev)| known == name.first_segment() && !dev)
    };
    let is_violation =
        |name: &&Name| is_known(name) && !allowed.contains(&name.first_segment()) && !is_only_for_tests(name);
    names_found(source, source.names.iter().filter(is_violation))
}
