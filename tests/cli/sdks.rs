//! The validation of the bodies that are rendered for each provider, with the types of its Python SDK. These tests are
//! ignored by default. CI runs them: it sets `JP_COMPACT_TEST_SDKS` to a Python with the SDKs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, thread};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Conversation, World};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Each provider and the format of its bodies.
const PROVIDERS: [(&str, &str); 5] = [
    ("anthropic", "anthropic"),
    ("openai", "openai-chat"),
    ("openai-responses", "openai-responses"),
    ("gemini", "gemini"),
    ("ollama", "ollama"),
];
/// The runs that compact each transcript, in this order.
const STRATEGIES: [&[&str]; 2] = [
    &["--strategy", "strip-reasoning", "--strategy", "strip-tools", "--keep-last", "0"],
    &["--strategy", "digest", "--keep-last", "1"],
];

/// A rendered body and its violations.
#[derive(Debug, Clone)]
struct Body {
    origin: String,
    provider: &'static str,
    body: Value,
    /// The rules that it breaks, as reported by `lint`.
    violations: BTreeSet<String>,
    /// The original body, if the transcript is a request body of the same provider.
    source: Option<Box<Self>>,
}

/// Returns the errors of the SDKs for each body. One process checks all bodies because loading the SDKs takes seconds.
fn sdk_errors(bodies: &[(&str, &Value)]) -> Vec<BTreeSet<String>> {
    let python = std::env::var("JP_COMPACT_TEST_SDKS")
        .expect("JP_COMPACT_TEST_SDKS is not set to a Python with the SDKs");
    assert!(Path::new(&python).is_file(), "{python} is missing");
    let line =
        |(provider, body): &(&str, &Value)| format!("{}\n", json!({"provider": provider, "body": body}));
    let world = World::new();
    let stdin = world.write_file("bodies", bodies.iter().map(line).collect::<String>().as_bytes());
    let mut check = Command::new(python);
    world.isolate(&mut check).arg(Path::new(ROOT).join("tests/sdks/check.py"));
    let output = world.finish(check.stdin(fs::File::open(stdin).unwrap())).exits(0);
    let errors: Vec<_> =
        output.lines().into_iter().map(|line| serde_json::from_value(line).unwrap()).collect();
    assert_eq!(errors.len(), bodies.len(), "{}", output.stderr);
    errors
}

fn body_errors<'a>(bodies: impl Iterator<Item = &'a Body>) -> Vec<BTreeSet<String>> {
    sdk_errors(&bodies.map(|body| (body.provider, &body.body)).collect::<Vec<_>>())
}

/// Renders a view for every provider. This must succeed for every transcript.
fn render(world: &World, origin: &str, transcript: &str) -> [Body; 5] {
    PROVIDERS.map(|(provider, format)| {
        let origin = format!("{origin}, {provider}");
        let printed = world.run(&["print", transcript, "--compacted", "--as", provider]);
        assert_eq!(printed.code, Some(0), "{origin}: {}", printed.stderr);
        let lint = ["lint", "-", "--format", format, "--provider", provider, "--json"];
        let linted = world.run_with_stdin(&lint, &printed.stdout);
        let body: Value = serde_json::from_slice(&printed.stdout).unwrap();
        let messages = ["messages", "input", "contents"].map(|key| &body[key]);
        if messages.iter().all(|list| list.as_array().is_none_or(Vec::is_empty)) {
            // A body without messages cannot be read as a conversation.
            assert_eq!(linted.code, Some(4), "{origin}: {}", linted.stderr);
            return Body { origin, provider, body, violations: BTreeSet::new(), source: None };
        }
        assert!(matches!(linted.code, Some(0 | 3)), "{origin}: {}", linted.stderr);
        let violations = linted.line()["violations"].as_array().unwrap().clone();
        let violations = violations.iter().map(|violation| violation["rule"].to_string()).collect();
        Body { origin, provider, body, violations, source: None }
    })
}

/// Renders every file, in two threads.
fn render_all(paths: &[PathBuf], render_file: impl Fn(&Path) -> Vec<Body> + Sync) -> Vec<Body> {
    let render_part = |part: &[PathBuf]| part.iter().flat_map(|path| render_file(path)).collect::<Vec<_>>();
    let (left, right) = paths.split_at(paths.len() / 2);
    thread::scope(|scope| {
        let left = scope.spawn(|| render_part(left));
        let right = render_part(right);
        left.join().unwrap().into_iter().chain(right).collect()
    })
}

/// Returns the sorted entries of a folder. A missing folder is empty.
fn entries(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(ROOT).join(folder)).into_iter().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
#[ignore = "needs Python and the SDKs; CI runs it"]
fn sdks_accept_every_golden_view() {
    let folders = ["host/core/tests/cases", "../shared/data/jp-golden", "tests"];
    let mut cases = folders.map(entries).concat();
    cases.retain(|case| case.join("events.json").is_file());
    assert!(cases.len() > 20, "the project's own cases are missing");
    let mut bodies =
        render_all(&cases, |case| render(&World::new(), &name(case), case.to_str().unwrap()).into());
    let world = World::new();
    world.write_conversation("signed", &signed_conversation());
    bodies.extend(render(&world, "signed", "signed"));
    let text = bodies.iter().map(|body| body.body.to_string()).collect::<String>();
    for member in
        ["tool_result", "\"signature\"", "redacted_thinking", "encrypted_content", "thoughtSignature"]
    {
        assert!(text.contains(member), "no rendered body contains {member}");
    }
    for (body, errors) in bodies.iter().zip(body_errors(bodies.iter())) {
        assert!(errors.is_empty() && body.violations.is_empty(), "{}: {errors:#?}", body.origin);
    }
    assert_eq!(bodies.len(), (cases.len() + 1) * PROVIDERS.len());
}

/// Returns a conversation with the metadata that each provider expects back, and two unanswered calls.
fn signed_conversation() -> Conversation {
    let metadata_of_providers = [
        json!({"anthropic_thinking_signature": "c2ln"}),
        json!({"anthropic_redacted_thinking": "c2ln"}),
        json!({"openai_item_id": "cnNfMQ==", "openai_encrypted_content": "c2ln"}),
        json!({"google_thought_signature": "YzJsbg=="}),
    ];
    let add_reasoning = |conversation: Conversation, metadata: &Value| {
        conversation.event("chat_response", json!({"reasoning": "Where?", "metadata": metadata}))
    };
    let conversation = metadata_of_providers.iter().fold(Conversation::new().turn("Look."), add_reasoning);
    let conversation = conversation.request("look", json!({"at": "a"})).request("look", json!({"at": "b"}));
    metadata_of_providers.iter().fold(conversation.turn("And now?"), add_reasoning).call(
        "look",
        json!({}),
        "nothing",
    )
}

#[test]
#[ignore = "needs Python and the SDKs; CI runs it"]
fn sdks_accept_every_transcript_before_and_after_compaction() {
    let mut paths = entries("host/transcripts/tests/formats/samples");
    let own_count = paths.len();
    assert!(own_count > 40, "the project's own samples are missing");
    let shared = entries("../shared/data/transcripts");
    paths.extend(shared.iter().flat_map(|folder| entries(folder.to_str().unwrap())));
    let bodies = render_all(&paths, render_transcript);
    assert_eq!(bodies.len(), paths.len() * (1 + STRATEGIES.len()) * PROVIDERS.len());

    let sources = bodies.iter().filter_map(|body| body.source.as_deref());
    let mut errors = body_errors(bodies.iter().chain(sources));
    let mut source_errors = errors.split_off(bodies.len()).into_iter();
    let (mut known_errors, mut failures) = (String::new(), Vec::new());
    for (index, (body, errors)) in bodies.iter().zip(&errors).enumerate() {
        let source = body.source.as_deref();
        let allowed =
            source.map(|source| (without_indices(&source_errors.next().unwrap()), source.violations.clone()));
        let (allowed_errors, allowed_violations) = allowed.unwrap_or_default();
        if !without_indices(errors).is_subset(&allowed_errors)
            || !body.violations.is_subset(&allowed_violations)
        {
            failures.push((&body.origin, errors, &body.violations));
        }
        if index < own_count * (1 + STRATEGIES.len()) * PROVIDERS.len()
            && source.is_some_and(|source| source.origin == body.origin)
        {
            known_errors.extend(errors.iter().map(|error| format!("{}: {error}\n", body.origin)));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
    // Errors that the project's samples contain on purpose.
    insta::assert_snapshot!(known_errors, @r#"
    anthropic.json, anthropic: messages.9.content.1: matches no type: ["mcp_tool_use"]
    anthropic.json, anthropic: messages.9.content.2: matches no type: ["mcp_tool_result"]
    gemini-own-tools.json, gemini: model: Extra inputs are not permitted
    gemini.json, gemini: contents.9.unknown: Extra inputs are not permitted
    ollama.json, ollama: messages.13.a_new_member: Extra inputs are not permitted
    ollama.json, ollama: messages.2.tool_calls.0.function.index: Extra inputs are not permitted
    ollama.json, ollama: messages.2.tool_calls.1.function.index: Extra inputs are not permitted
    ollama.json, ollama: messages.2.tool_calls.2.id: Extra inputs are not permitted
    ollama.json, ollama: messages.3.tool_call_id: Extra inputs are not permitted
    openai-chat-vendors.json, openai: messages.12: matches no type: ["critic"]
    openai-chat-vendors.json, openai: messages.14.content.0: matches no type: ["thinking"]
    openai-chat-vendors.json, openai: messages.2.reasoning: Extra inputs are not permitted
    openai-chat-vendors.json, openai: messages.2.reasoning_details: Extra inputs are not permitted
    openai-chat-vendors.json, openai: messages.2.tool_calls.0.index: Extra inputs are not permitted
    openai-chat-vendors.json, openai: messages.2.tool_calls.2: matches no type: "dict"
    openai-chat-vendors.json, openai: messages.2.tool_calls.3.extra_content: Extra inputs are not permitted
    openai-chat-vendors.json, openai: messages.4.content.0.cache_control: Extra inputs are not permitted
    openai-chat-vendors.json, openai: messages.7.provider_specific_fields: Extra inputs are not permitted
    openai-chat-vendors.json, openai: messages.7.reasoning_content: Extra inputs are not permitted
    openai-chat-vendors.json, openai: messages.7.thinking_blocks: Extra inputs are not permitted
    openai-chat-vendors.json, openai: messages.9.audio.data: Extra inputs are not permitted
    openai-chat-vendors.json, openai: messages.9.audio.expires_at: Extra inputs are not permitted
    openai-chat-vendors.json, openai: messages.9.audio.transcript: Extra inputs are not permitted
    openai-chat.json, openai: messages.5.reasoning_content: Extra inputs are not permitted
    openai-chat.json, openai: messages.7.reasoning_content: Extra inputs are not permitted
    openai-responses-items.json, openai-responses: input.1.id: Extra inputs are not permitted
    openai-responses-items.json, openai-responses: input.1.status: Extra inputs are not permitted
    openai-responses-items.json, openai-responses: input.10.tools.0.strict: Field required
    openai-responses-items.json, openai-responses: input.18: matches no type: ["weather_of_tomorrow"]
    openai-responses.json, openai-responses: input.11.content.0: matches no type: ["output_text"]
    openai-responses.json, openai-responses: input.11.id: Field required
    openai-responses.json, openai-responses: input.11.status: Field required
    openai-responses.json, openai-responses: input.19.error: matches no type: "str"
    openai-responses.json, openai-responses: input.22: matches no type: ["a_new_item"]
    "#);
}

/// Renders the whole view of a transcript, and its view after each run of `STRATEGIES`. A request body is printed as
/// itself for its own provider, and keeps its original errors.
fn render_transcript(path: &Path) -> Vec<Body> {
    let (world, file, bytes) = (World::new(), name(path), fs::read(path).unwrap());
    world.write_file(&file, &bytes);
    let source: Option<Value> = serde_json::from_slice(&bytes).ok();
    let whole_view = render(&world, &file, &file);
    let sources =
        whole_view.clone().map(|body| (Some(&body.body) == source.as_ref()).then(|| Box::new(body)));
    let with_sources = |mut bodies: [Body; 5]| {
        for (body, source) in bodies.iter_mut().zip(&sources) {
            body.source.clone_from(source);
            if let Some(source) = source {
                restore_ids(&mut body.body, &source.body);
            }
        }
        bodies
    };
    let mut bodies = Vec::from(with_sources(whole_view));
    for strategies in STRATEGIES {
        world.run(&[&[file.as_str()], strategies].concat()).exits(0);
        let origin = format!("{file}, {}", strategies.join(" "));
        bodies.extend(with_sources(render(&world, &origin, &file)));
    }
    bodies
}

/// Restores the ids that response items lost together with their reasoning. The SDK's types require an id. The API
/// accepts it only together with that reasoning. It also accepts items without an id: `OpenAI`'s Codex sends none.
fn restore_ids(body: &mut Value, source: &Value) {
    let empty = Vec::new();
    let source_items = source["input"].as_array().unwrap_or(&empty);
    for item in body.get_mut("input").and_then(Value::as_array_mut).into_iter().flatten() {
        let matches_item = |source_item: &&Value| {
            let mut without_id = (*source_item).clone();
            without_id.as_object_mut().is_some_and(|members| members.remove("id").is_some())
                && without_id == *item
        };
        if let Some(source_item) = source_items.iter().find(matches_item) {
            *item = source_item.clone();
        }
    }
}

/// Replaces the list indices in errors with `*`.
fn without_indices(errors: &BTreeSet<String>) -> BTreeSet<String> {
    let replace_indices = |line: &String| {
        let (location, error) = line.split_once(": ").unwrap();
        let steps = location.split('.').map(|step| if step.parse::<u32>().is_ok() { "*" } else { step });
        format!("{}: {error}", steps.collect::<Vec<_>>().join("."))
    };
    errors.iter().map(replace_indices).collect()
}

/// A valid body for each provider, and changes that make it invalid. A change has a provider, a JSON pointer, a new
/// value (`null` removes the member), and the expected error.
#[derive(Deserialize)]
struct Breaches {
    valid: BTreeMap<String, Value>,
    breaches: Vec<(String, String, Value, String)>,
}

#[test]
#[ignore = "needs Python and the SDKs; CI runs it"]
fn sdks_reject_invalid_bodies_at_the_right_place() {
    let Breaches { valid, breaches } = serde_json::from_str(include_str!("../sdks/breaches.json")).unwrap();
    let names: BTreeSet<_> = PROVIDERS.map(|(provider, _)| provider).into();
    assert!(
        valid.keys().eq(&names)
            && breaches.iter().map(|breach| breach.0.as_str()).collect::<BTreeSet<_>>() == names
    );
    let invalid_body = |(provider, pointer, value, _): &(String, String, Value, String)| {
        let mut body = valid[provider].clone();
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        let members = body.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
        match value {
            Value::Null => assert!(members.remove(member).is_some(), "{pointer}"),
            value => drop(members.insert(member.into(), value.clone())),
        }
        body
    };
    let invalid_bodies: Vec<_> = breaches.iter().map(invalid_body).collect();
    let invalid_bodies = breaches.iter().zip(&invalid_bodies).map(|(breach, body)| (breach.0.as_str(), body));
    let bodies: Vec<_> =
        valid.iter().map(|(provider, body)| (provider.as_str(), body)).chain(invalid_bodies).collect();
    let mut valid_errors = sdk_errors(&bodies);
    let breach_errors = valid_errors.split_off(valid.len());
    assert!(valid_errors.iter().all(BTreeSet::is_empty), "{valid_errors:#?}");
    for ((provider, pointer, value, expected), errors) in breaches.into_iter().zip(&breach_errors) {
        assert_eq!(errors, &BTreeSet::from([expected]), "{provider} {pointer} {value}");
    }
}
