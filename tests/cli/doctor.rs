//! `jp-compact doctor`: the report on the machine, the limits and the keys.

use serde_json::Value;

use crate::support::World;

#[track_caller]
fn check(landlock: &str, tier: &str, missing: usize) {
    let world = World::new();
    let mut command = world.command(&["doctor", "--json"]);
    let line = world.finish(command.env("JP_COMPACT_TEST_LANDLOCK", landlock)).exits(0).line();
    assert_eq!(line["tier"], tier, "{line}");
    assert_eq!(line["missing"].as_array().map(Vec::len), Some(missing), "{line}");
    assert!(line["bundled"].as_array().unwrap().contains(&Value::from("strip-tools")), "{line}");
    let output = world.finish(world.command(&["doctor"]).env("JP_COMPACT_TEST_LANDLOCK", landlock)).exits(0);
    assert!(output.text().contains(tier) && output.text().contains("strip-tools"), "{}", output.text());
}

#[test]
fn reports_missing_landlock() {
    check("0", "contained", 1);
    check("1", "partly-isolated", 1);
}

#[test]
fn reports_limits() {
    let world = World::new();
    let line = world.run(&["doctor", "--json"]).exits(0).line();
    let mut limits = line["limits"].clone();
    assert_eq!(limits["private_dir_bytes"], 268_435_456, "{line}");
    let threads = limits["threads"].take();
    let text = world.run(&["doctor"]).exits(0).text().to_owned();
    let expected = if threads.is_null() { "not limited, because" } else { "at most 512 for each strategy" };
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("268,435,456 bytes, 16,384 files and folders, 64 levels"), "{text}");
}

#[test]
fn lists_key_variables_without_values() {
    let world = World::new();
    let run_with_key = |arguments: &[&str]| {
        let output = world.finish(world.command(arguments).env("OPENAI_API_KEY", "sk-sekret")).exits(0);
        assert!(!format!("{output:?}").contains("sekret"));
        output
    };
    let output = run_with_key(&["doctor"]);
    assert!(output.text().contains("OPENAI_API_KEY (set)"), "{}", output.text());
    assert!(output.text().contains("ANTHROPIC_API_KEY (not set)"), "{}", output.text());
    let keys = run_with_key(&["doctor", "--json"]).line()["keys"].clone();
    let keys_in_use: Vec<_> = keys.as_array().unwrap().iter().filter(|key| key["is_set"] == true).collect();
    assert_eq!(
        keys_in_use,
        [&serde_json::json!({"provider": "openai", "variable": "OPENAI_API_KEY", "is_set": true})]
    );
}

#[test]
fn lists_variables_of_configured_providers() {
    let world = World::new();
    let config = "[llm.providers.mine]\nkind = \"openai\"\nbase_url = \"https://llm.example\"\napi_key_env = \"MY_LLM_KEY\"\n";
    world.write_file("../home/.config/jp-compact/config.toml", config.as_bytes());
    let output = world.run(&["doctor"]).exits(0);
    assert!(output.text().contains("MY_LLM_KEY (not set)"), "{}", output.text());
}
