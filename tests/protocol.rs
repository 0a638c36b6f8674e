//! The compatibility of protocol 1: exchanges that older versions recorded are replayed against this one. The files of
//! a version are never changed. `tests/protocol/README.md` explains how to record a new version.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin;
use jp_compact_schema::{
    CompactRequest, DescribeRequest, Description, EventLine, EventsEnd, Reply, from_line, to_line,
};
use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// One recorded exchange: the input from the host, and the strategy's answer.
struct Exchange {
    /// The file name without its ending: `strip-tools.run`.
    name: String,
    version: String,
    input: String,
    output: String,
}

impl Exchange {
    fn strategy(&self) -> &str {
        self.name.split('.').next().unwrap()
    }

    fn header(&self) -> Value {
        serde_json::from_str(self.input.lines().next().unwrap()).unwrap()
    }

    /// Returns the last line of the reply.
    fn reply(&self) -> Value {
        serde_json::from_str(self.output.lines().last().unwrap()).unwrap()
    }
}

fn folders() -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(ROOT).join("tests/protocol")).unwrap();
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
}

/// Returns the exchanges whose names have one of these endings, from all versions.
fn exchanges(endings: &[&str]) -> Vec<Exchange> {
    let mut exchanges = Vec::new();
    for folder in folders() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let Some(name) = name.strip_suffix(".out") else { continue };
            if !endings.iter().any(|ending| name.ends_with(ending)) {
                continue;
            }
            let describe = folder.join("describe.in");
            let input = if name.ends_with(".describe") { describe } else { path.with_extension("in") };
            exchanges.push(Exchange {
                name: name.to_owned(),
                version: folder.file_name().unwrap().to_str().unwrap().to_owned(),
                input: fs::read_to_string(input).unwrap(),
                output: fs::read_to_string(&path).unwrap(),
            });
        }
    }
    assert!(!exchanges.is_empty());
    exchanges
}

/// Checks that each member that the other side could read still exists and has the same value.
#[track_caller]
fn assert_contains(new: &Value, old: &Value, place: &str) {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            for (key, value) in old {
                let place = format!("{place}.{key}");
                match new.get(key) {
                    Some(member) => assert_contains(member, value, &place),
                    // An absent member means null in each message.
                    None => assert!(value.is_null(), "{place} is missing"),
                }
            }
        }
        (Value::Array(new), Value::Array(old)) => {
            assert_eq!(new.len(), old.len(), "{place}");
            new.iter().zip(old).for_each(|(new, old)| assert_contains(new, old, place));
        }
        _ => assert_eq!(new, old, "{place}"),
    }
}

/// Checks that a line has the same members after it was read and written.
#[track_caller]
fn check_line<T: serde::Serialize + serde::de::DeserializeOwned>(line: &str, place: &str) {
    let message: T = from_line(line.as_bytes()).unwrap_or_else(|error| panic!("{place}: {error}: {line}"));
    let written: Value = serde_json::from_slice(&to_line(&message).unwrap()).unwrap();
    assert_contains(&written, &serde_json::from_str(line).unwrap(), place);
}

#[test]
fn recorded_requests_are_read_without_loss() {
    for exchange in exchanges(&[""]) {
        for line in exchange.input.lines() {
            let place = format!("{} {}.in", exchange.version, exchange.name);
            let message: Value = serde_json::from_str(line).unwrap();
            match message["type"].as_str().unwrap() {
                "describe" => check_line::<DescribeRequest>(line, &place),
                "compact" => check_line::<CompactRequest>(line, &place),
                "event" => check_line::<EventLine>(line, &place),
                "events_end" => check_line::<EventsEnd>(line, &place),
                other => panic!("{place}: unknown message {other}"),
            }
        }
    }
}

#[test]
fn recorded_replies_are_read_without_loss() {
    for exchange in exchanges(&[""]) {
        for line in exchange.output.lines() {
            let place = format!("{} {}.out", exchange.version, exchange.name);
            if exchange.name.ends_with(".describe") {
                check_line::<Description>(line, &place);
                continue;
            }
            let reply = Reply::parse(line).unwrap_or_else(|error| panic!("{place}: {error}: {line}"));
            assert_ne!(reply, Reply::Unknown, "{place}: {line}");
            let written = serde_json::to_value(&reply).unwrap();
            assert_contains(&written, &serde_json::from_str(line).unwrap(), &place);
        }
    }
}

/// Sends a recorded request to the strategy of this version, and returns the last line of each reply.
#[track_caller]
fn replay(exchange: &Exchange, verb: &str) -> Vec<Value> {
    let mut command = Command::new(cargo_bin(format!("compact-strategy-{}", exchange.strategy())));
    command.env_clear().env("JP_COMPACT_PROTOCOL", "1").arg(verb).write_stdin(exchange.input.as_str());
    let output = command.assert().success().get_output().stdout.clone();
    let lines = String::from_utf8(output).unwrap();
    let replies = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    replies.filter(|reply| !matches!(reply["type"].as_str(), Some("log" | "progress"))).collect()
}

#[test]
fn strategies_answer_recorded_describe() {
    for exchange in exchanges(&[".describe"]) {
        let [new] = &replay(&exchange, "describe")[..] else { panic!("{}", exchange.name) };
        let old = exchange.reply();
        // A host of that version uses these members. Later versions may add features and change texts.
        for key in ["protocols", "name", "produces", "input"] {
            assert_eq!(new[key], old[key], "{} {}: {key}", exchange.version, exchange.name);
        }
        for (option, schema) in old["options_schema"]["properties"].as_object().into_iter().flatten() {
            let new = &new["options_schema"]["properties"][option];
            assert!(new.is_object(), "{} has no option {option}", exchange.name);
            assert_eq!(new["type"], schema["type"], "{}: {option}", exchange.name);
        }
    }
}

/// These strategies are pure: the request of an older host gets the same reply.
#[test]
fn pure_strategies_repeat_recorded_compactions() {
    for exchange in exchanges(&[".run", ".worker"]) {
        if exchange.strategy() == "digest" || exchange.header()["context"]["llm"].is_object() {
            continue;
        }
        let verb = exchange.name.split('.').next_back().unwrap();
        let old: Vec<Value> =
            exchange.output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(replay(&exchange, verb), old, "{} {}", exchange.version, exchange.name);
    }
}

/// The texts of these replies change between versions. Their form and their range must not.
#[test]
fn strategies_answer_recorded_requests() {
    for exchange in exchanges(&[".run", ".decline", ".needs"]) {
        let is_second_round =
            exchange.header()["answers"].as_object().is_some_and(|answers| !answers.is_empty());
        if is_second_round {
            // The state of a strategy returns only to the same executable.
            continue;
        }
        let (new, old) = (replay(&exchange, "run"), exchange.reply());
        let [new] = &new[..] else { panic!("{}: {new:?}", exchange.name) };
        assert_eq!((&new["type"], &new["id"]), (&old["type"], &old["id"]), "{}: {new}", exchange.name);
        let range = |reply: &Value| {
            let compactions = reply["compactions"].as_array().cloned().unwrap_or_default();
            let ranges = compactions.iter().map(|one| (one["from_turn"].clone(), one["to_turn"].clone()));
            ranges.collect::<Vec<_>>()
        };
        assert_eq!(range(new), range(&old), "{}", exchange.name);
    }
}

/// Writes an executable that replays the strategy's side of an exchange, and records the request. Returns its folder.
fn recorded_strategy(base: &Path, exchange: &Exchange) -> PathBuf {
    let recorded = Path::new(ROOT).join("tests/protocol").join(&exchange.version);
    let (folder, name) = (base.join("plugins"), exchange.strategy());
    fs::create_dir(&folder).unwrap();
    let request = base.join("request");
    let script = format!(
        "#!/bin/sh\ncase $1 in\ndescribe) exec cat '{recorded}/{name}.describe.out' ;;\nrun) cat > '{request}' && exec cat '{recorded}/{file}.out' ;;\nesac\nexit 64\n",
        recorded = recorded.display(),
        request = request.display(),
        file = exchange.name,
    );
    let executable = folder.join(name);
    // `install` writes the file, so no process of this test can hold the file open.
    let source = base.join("source");
    fs::write(&source, script).unwrap();
    Command::new("install").args(["-m", "755"]).args([&source, &executable]).assert().success();
    folder
}

/// The host accepts the replies of an older strategy, and its request has each member that the strategy could read.
#[test]
fn host_works_with_recorded_strategies() {
    for exchange in exchanges(&["strip-tools.run", "strip-reasoning.run", "digest.run"]) {
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o700)).unwrap();
        // There are no bundled strategies next to the host, so the recorded strategy may have a bundled name.
        let host = base.path().join("bin");
        fs::create_dir(&host).unwrap();
        for name in ["jp-compact", "compact-runner"] {
            let (from, to) = (cargo_bin(name), host.join(name));
            fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop)).unwrap();
        }
        let plugins = recorded_strategy(base.path(), &exchange);
        let conversation = base.path().join("conversation");
        fs::create_dir(&conversation).unwrap();
        for file in ["events.json", "base_config.json", "metadata.json"] {
            fs::copy(Path::new(ROOT).join("tests/sample").join(file), conversation.join(file)).unwrap();
        }

        let mut command = Command::new(host.join("jp-compact"));
        command.env_clear().env("HOME", base.path()).arg(&conversation).arg("--trust-dir").arg(&plugins);
        command.args(["--sandbox=contained", "--keep-last=1", "--strategy", exchange.strategy()]);
        command.assert().success();

        let stream: Value =
            serde_json::from_slice(&fs::read(conversation.join("events.json")).unwrap()).unwrap();
        let overlays = stream.as_array().unwrap().iter().filter(|event| event["type"] == "compaction");
        let overlays: Vec<&Value> = overlays.collect();
        let reply = exchange.reply();
        let [expected] = &reply["compactions"].as_array().unwrap()[..] else { panic!() };
        assert_eq!(overlays.len(), 1, "{}", exchange.name);
        assert_contains(overlays[0], expected, &exchange.name);
        check_request(base.path(), &exchange);
    }
}

/// Checks the members of the header that this host wrote. Sizes in tokens differ between versions.
#[track_caller]
fn check_request(base: &Path, exchange: &Exchange) {
    let request = fs::read_to_string(base.join("request")).unwrap();
    let new: Value = serde_json::from_str(request.lines().next().unwrap()).unwrap();
    let old = exchange.header();
    assert_same_members(&new, &old, &exchange.name);
    for key in ["type", "id", "protocol", "strategy", "range", "requested_range", "range_exact", "options"] {
        assert_eq!(new[key], old[key], "{}: {key}", exchange.name);
    }
    let events = |text: &str| text.lines().filter(|line| line.starts_with("{\"type\":\"event\"")).count();
    assert_eq!(events(&request), events(&exchange.input), "{}", exchange.name);
}

/// Checks that each member is there, with the same type.
#[track_caller]
fn assert_same_members(new: &Value, old: &Value, place: &str) {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            for (key, value) in old.iter().filter(|(_, value)| !value.is_null()) {
                let place = format!("{place}.{key}");
                assert_same_members(new.get(key).unwrap_or(&Value::Null), value, &place);
            }
        }
        (Value::Array(new), Value::Array(old)) => {
            assert_eq!(new.is_empty(), old.is_empty(), "{place}");
            new.iter().zip(old).for_each(|(new, old)| assert_same_members(new, old, place));
        }
        _ => assert_eq!(
            std::mem::discriminant(new),
            std::mem::discriminant(old),
            "{place}: {new} in place of {old}"
        ),
    }
}
