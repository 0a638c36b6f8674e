//! What is rendered for a provider, before the types that its own Python SDK publishes. It runs where
//! `JP_COMPACT_TEST_SDKS` names a Python that has them, and CI sees to that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, thread};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Conversation, World};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Every provider, and the format of its bodies.
const PROVIDERS: [(&str, &str); 5] = [
    ("anthropic", "anthropic"),
    ("openai", "openai-chat"),
    ("openai-responses", "openai-responses"),
    ("gemini", "gemini"),
    ("ollama", "ollama"),
];
/// What transcripts are compacted with, one after the other.
const STRATEGIES: [&[&str]; 2] = [
    &["--strategy", "strip-reasoning", "--strategy", "strip-tools", "--keep-last", "0"],
    &["--strategy", "digest", "--keep-last", "1"],
];

/// What was rendered, and what is wrong with it.
#[derive(Debug, Clone)]
struct Body {
    of: String,
    provider: &'static str,
    body: Value,
    /// The rules that it breaks, as `lint` says.
    broken: BTreeSet<String>,
    /// The provider's own body that it was before it was compacted.
    source: Option<Box<Self>>,
}

/// What the SDK of each body's provider refuses of it. One process for all: it takes seconds to load them.
fn refused(bodies: &[(&str, &Value)]) -> Vec<BTreeSet<String>> {
    let python =
        std::env::var("JP_COMPACT_TEST_SDKS").expect("JP_COMPACT_TEST_SDKS names a Python with the SDKs");
    assert!(Path::new(&python).is_file(), "{python} is not there");
    let line =
        |(provider, body): &(&str, &Value)| format!("{}\n", json!({"provider": provider, "body": body}));
    let world = World::new();
    let stdin = world.file("bodies", bodies.iter().map(line).collect::<String>().as_bytes());
    let mut check = Command::new(python);
    world.enter(&mut check).arg(Path::new(ROOT).join("tests/sdks/check.py"));
    let said = world.finish(check.stdin(fs::File::open(stdin).unwrap())).exits(0);
    let refused: Vec<_> =
        said.lines().into_iter().map(|line| serde_json::from_value(line).unwrap()).collect();
    assert_eq!(refused.len(), bodies.len(), "{}", said.stderr);
    refused
}

fn refused_of<'a>(bodies: impl Iterator<Item = &'a Body>) -> Vec<BTreeSet<String>> {
    refused(&bodies.map(|body| (body.provider, &body.body)).collect::<Vec<_>>())
}

/// A view for every provider. There is none that cannot be rendered.
fn render(world: &World, of: &str, transcript: &str) -> [Body; 5] {
    PROVIDERS.map(|(provider, format)| {
        let of = format!("{of}, {provider}");
        let printed = world.run(&["print", transcript, "--compacted", "--as", provider]);
        assert_eq!(printed.code, Some(0), "{of}: {}", printed.stderr);
        let lint = ["lint", "-", "--format", format, "--provider", provider, "--json"];
        let linted = world.pipe(&lint, &printed.stdout);
        let body: Value = serde_json::from_slice(&printed.stdout).unwrap();
        let messages = ["messages", "input", "contents"].map(|key| &body[key]);
        if messages.iter().all(|list| list.as_array().is_none_or(Vec::is_empty)) {
            // A body without a message is not a conversation that can be read again.
            assert_eq!(linted.code, Some(4), "{of}: {}", linted.stderr);
            return Body { of, provider, body, broken: BTreeSet::new(), source: None };
        }
        assert!(matches!(linted.code, Some(0 | 3)), "{of}: {}", linted.stderr);
        let violations = linted.line()["violations"].as_array().unwrap().clone();
        let broken = violations.iter().map(|violation| violation["rule"].to_string()).collect();
        Body { of, provider, body, broken, source: None }
    })
}

/// What is made of each, by two threads.
fn each(all: &[PathBuf], make: impl Fn(&Path) -> Vec<Body> + Sync) -> Vec<Body> {
    let make = |some: &[PathBuf]| some.iter().flat_map(|path| make(path)).collect::<Vec<_>>();
    let (left, right) = all.split_at(all.len() / 2);
    thread::scope(|scope| {
        let left = scope.spawn(|| make(left));
        let right = make(right);
        left.join().unwrap().into_iter().chain(right).collect()
    })
}

/// What lies in a folder, which may not be there.
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
#[ignore = "needs Python and the SDKs; a step of CI"]
fn every_golden_view_is_rendered_as_each_providers_own_sdk_takes_it() {
    let folders = ["host/core/tests/cases", "../shared/data/jp-golden", "tests"];
    let mut cases = folders.map(entries).concat();
    cases.retain(|case| case.join("events.json").is_file());
    assert!(cases.len() > 20, "the project's own are always there");
    let mut bodies = each(&cases, |case| render(&World::new(), &name(case), case.to_str().unwrap()).into());
    let world = World::new();
    world.conversation("signed", &signed());
    bodies.extend(render(&world, "signed", "signed"));
    let all = bodies.iter().map(|body| body.body.to_string()).collect::<String>();
    for said in ["tool_result", "\"signature\"", "redacted_thinking", "encrypted_content", "thoughtSignature"]
    {
        assert!(all.contains(said), "nothing was rendered that has {said}");
    }
    for (body, refused) in bodies.iter().zip(refused_of(bodies.iter())) {
        assert!(refused.is_empty() && body.broken.is_empty(), "{}: {refused:#?}", body.of);
    }
    assert_eq!(bodies.len(), (cases.len() + 1) * PROVIDERS.len());
}

/// A conversation that holds what each provider wants back with what it said; two calls are not answered.
fn signed() -> Conversation {
    let signed = [
        json!({"anthropic_thinking_signature": "c2ln"}),
        json!({"anthropic_redacted_thinking": "c2ln"}),
        json!({"openai_item_id": "cnNfMQ==", "openai_encrypted_content": "c2ln"}),
        json!({"google_thought_signature": "YzJsbg=="}),
    ];
    let think = |this: Conversation, metadata: &Value| {
        this.event("chat_response", json!({"reasoning": "Where?", "metadata": metadata}))
    };
    let talk = signed.iter().fold(Conversation::new().turn("Look."), think);
    let talk = talk.request("look", json!({"at": "a"})).request("look", json!({"at": "b"}));
    signed.iter().fold(talk.turn("And now?"), think).call("look", json!({}), "nothing")
}

#[test]
#[ignore = "needs Python and the SDKs; a step of CI"]
fn every_transcript_is_rendered_so_before_and_after_it_is_compacted() {
    let mut paths = entries("host/core/tests/formats/samples");
    let ours = paths.len();
    assert!(ours > 40, "the project's own are always there");
    let shared = entries("../shared/data/transcripts");
    paths.extend(shared.iter().flat_map(|folder| entries(folder.to_str().unwrap())));
    let bodies = each(&paths, transcript);
    assert_eq!(bodies.len(), paths.len() * (1 + STRATEGIES.len()) * PROVIDERS.len());

    let sources = bodies.iter().filter_map(|body| body.source.as_deref());
    let mut refused = refused_of(bodies.iter().chain(sources));
    let mut excused = refused.split_off(bodies.len()).into_iter();
    let (mut own, mut wrong) = (String::new(), Vec::new());
    for (number, (body, refused)) in bodies.iter().zip(&refused).enumerate() {
        let source = body.source.as_deref();
        let excused = source.map(|source| (places(&excused.next().unwrap()), source.broken.clone()));
        let (places_excused, rules_excused) = excused.unwrap_or_default();
        if !places(refused).is_subset(&places_excused) || !body.broken.is_subset(&rules_excused) {
            wrong.push((&body.of, refused, &body.broken));
        }
        if number < ours * (1 + STRATEGIES.len()) * PROVIDERS.len()
            && source.is_some_and(|it| it.of == body.of)
        {
            own.extend(refused.iter().map(|refused| format!("{}: {refused}\n", body.of)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // What our samples hold on purpose, and keep.
    insta::assert_snapshot!(own, @r#"
    anthropic.json, anthropic: messages.9.content.1: of no type that may stand here: ["mcp_tool_use"]
    anthropic.json, anthropic: messages.9.content.2: of no type that may stand here: ["mcp_tool_result"]
    gemini-own-tools.json, gemini: model: Extra inputs are not permitted
    gemini.json, gemini: contents.9.unknown: Extra inputs are not permitted
    ollama.json, ollama: messages.13.a_new_member: Extra inputs are not permitted
    ollama.json, ollama: messages.2.tool_calls.0.function.index: Extra inputs are not permitted
    ollama.json, ollama: messages.2.tool_calls.1.function.index: Extra inputs are not permitted
    ollama.json, ollama: messages.2.tool_calls.2.id: Extra inputs are not permitted
    ollama.json, ollama: messages.3.tool_call_id: Extra inputs are not permitted
    openai-chat-vendors.json, openai: messages.12: of no type that may stand here: ["critic"]
    openai-chat-vendors.json, openai: messages.14.content.0: of no type that may stand here: ["thinking"]
    openai-chat-vendors.json, openai: messages.2.reasoning: Extra inputs are not permitted
    openai-chat-vendors.json, openai: messages.2.reasoning_details: Extra inputs are not permitted
    openai-chat-vendors.json, openai: messages.2.tool_calls.0.index: Extra inputs are not permitted
    openai-chat-vendors.json, openai: messages.2.tool_calls.2: of no type that may stand here: "dict"
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
    openai-responses-items.json, openai-responses: input.18: of no type that may stand here: ["weather_of_tomorrow"]
    openai-responses.json, openai-responses: input.11.content.0: of no type that may stand here: ["output_text"]
    openai-responses.json, openai-responses: input.11.id: Field required
    openai-responses.json, openai-responses: input.11.status: Field required
    openai-responses.json, openai-responses: input.19.error: of no type that may stand here: "str"
    openai-responses.json, openai-responses: input.22: of no type that may stand here: ["a_new_item"]
    "#);
}

/// A transcript's views: whole, then as each strategy leaves it. Where it is a provider's own body, that is what is
/// printed, and what was wrong with it stays.
fn transcript(path: &Path) -> Vec<Body> {
    let (world, file, bytes) = (World::new(), name(path), fs::read(path).unwrap());
    world.file(&file, &bytes);
    let source: Option<Value> = serde_json::from_slice(&bytes).ok();
    let whole = render(&world, &file, &file);
    let sources = whole.clone().map(|body| (Some(&body.body) == source.as_ref()).then(|| Box::new(body)));
    let with_sources = |mut bodies: [Body; 5]| {
        for (body, source) in bodies.iter_mut().zip(&sources) {
            body.source.clone_from(source);
            if let Some(source) = source {
                name_again(&mut body.body, &source.body);
            }
        }
        bodies
    };
    let mut bodies = Vec::from(with_sources(whole));
    for strategies in STRATEGIES {
        world.run(&[&[file.as_str()], strategies].concat()).exits(0);
        let of = format!("{file}, {}", strategies.join(" "));
        bodies.extend(with_sources(render(&world, &of, &file)));
    }
    bodies
}

/// Gives items of responses back the names that they lost with the thought which led to them. The SDK's types demand
/// one; the API takes it only together with that thought, and takes items that have none: `OpenAI`'s own Codex sends no
/// other.
fn name_again(body: &mut Value, source: &Value) {
    let none = Vec::new();
    let named = source["input"].as_array().unwrap_or(&none);
    for item in body.get_mut("input").and_then(Value::as_array_mut).into_iter().flatten() {
        let is_it = |named: &&Value| {
            let mut unnamed = (*named).clone();
            unnamed.as_object_mut().is_some_and(|members| members.remove("id").is_some()) && unnamed == *item
        };
        if let Some(named) = named.iter().find(is_it) {
            *item = named.clone();
        }
    }
}

/// What is refused, wherever in a list it stands.
fn places(refused: &BTreeSet<String>) -> BTreeSet<String> {
    let place = |line: &String| {
        let (place, what) = line.split_once(": ").unwrap();
        let steps = place.split('.').map(|step| if step.parse::<u32>().is_ok() { "*" } else { step });
        format!("{}: {what}", steps.collect::<Vec<_>>().join("."))
    };
    refused.iter().map(place).collect()
}

/// A body of each provider that its SDK takes, and what breaks it: the provider, a place in the body, what then stands
/// there (`null` takes it away), and what is refused.
#[derive(Deserialize)]
struct Breaches {
    taken: BTreeMap<String, Value>,
    breaches: Vec<(String, String, Value, String)>,
}

#[test]
#[ignore = "needs Python and the SDKs; a step of CI"]
fn what_no_sdk_takes_is_refused_where_it_is_wrong() {
    let Breaches { taken, breaches } = serde_json::from_str(include_str!("../sdks/breaches.json")).unwrap();
    let names: BTreeSet<_> = PROVIDERS.map(|(provider, _)| provider).into();
    assert!(
        taken.keys().eq(&names) && breaches.iter().map(|it| it.0.as_str()).collect::<BTreeSet<_>>() == names
    );
    let break_it = |(provider, place, value, _): &(String, String, Value, String)| {
        let mut body = taken[provider].clone();
        let (parent, member) = place.rsplit_once('/').unwrap();
        let members = body.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
        match value {
            Value::Null => assert!(members.remove(member).is_some(), "{place}"),
            value => drop(members.insert(member.into(), value.clone())),
        }
        body
    };
    let broken: Vec<_> = breaches.iter().map(break_it).collect();
    let broken = breaches.iter().zip(&broken).map(|(breach, body)| (breach.0.as_str(), body));
    let bodies: Vec<_> =
        taken.iter().map(|(provider, body)| (provider.as_str(), body)).chain(broken).collect();
    let mut refused = refused(&bodies);
    let broken = refused.split_off(taken.len());
    assert!(refused.iter().all(BTreeSet::is_empty), "{refused:#?}");
    for ((provider, place, value, expected), refused) in breaches.into_iter().zip(&broken) {
        assert_eq!(refused, &BTreeSet::from([expected]), "{provider} {place} {value}");
    }
}
