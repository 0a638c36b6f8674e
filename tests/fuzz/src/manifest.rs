//! Fuzz target for `plugin.toml`. An accepted manifest is valid by the schema, requests only possible
//! permissions, and is equal after writing and reading.

use std::sync::LazyLock;

use jp_compact_schema::{Manifest, Program, StrategyName, catalog};
use jsonschema::Validator;

static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
    let schema = catalog::get("manifest").expect("the schema exists").json();
    jsonschema::draft202012::new(&schema).expect("the schema is valid")
});

/// Checks a manifest.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let manifest: Manifest = match toml::from_str(text) {
        Ok(manifest) => manifest,
        Err(error) => {
            assert!(error.span().is_none_or(|span| span.start <= span.end && span.end <= text.len()));
            assert!(!error.to_string().is_empty(), "an error needs a message");
            return;
        }
    };
    let value =
        serde_json::to_value(toml::from_str::<toml::Table>(text).expect("the manifest was parsed before"));
    let value = value.expect("TOML without dates converts to JSON");
    assert!(SCHEMA.is_valid(&value), "the types accept a manifest that the schema rejects: {text}");
    assert_eq!(StrategyName::parse(manifest.name.as_str()).as_ref(), Ok(&manifest.name));
    for path in &manifest.permissions.read {
        assert!(path.starts_with('/'), "{path:?} is relative");
    }
    for name in &manifest.permissions.env {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        assert!(name.bytes().all(is_word) && !name.is_empty(), "{name:?} is not a variable name");
    }
    assert_ne!(manifest.run.timeout_ms, Some(0), "a timeout must not be 0");
    match &manifest.run.program {
        Program::Command(command) => assert!(command.first().is_some_and(|program| !program.is_empty())),
        Program::Dylib(file) => assert!(!file.is_empty()),
    }
    let written = toml::to_string(&manifest).expect("a manifest can be written");
    assert_eq!(
        toml::from_str::<Manifest>(&written).as_ref(),
        Ok(&manifest),
        "the manifest differs after a round trip"
    );
}
