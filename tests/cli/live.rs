//! What `-v` shows of a strategy while it works: it goes on only when its words have been seen.

use std::fs::File;
use std::io::{BufReader, Read as _, Write as _};
use std::process::{Child, Command};

use serde_json::json;

use crate::support::{Conversation, DECLINE, World, described};

/// Says something, and waits to be heard, once for each request.
const TALKS: &str = r#"
printf 'thinking \033[2Jhard\n' >&2
printf '%s\n' '{"type":"log","id":"ID","level":"warn","message":"first\nsecond"}'
read -r go < HEARD
echo 'last words' >&2
"#;

/// Its stderr up to the line that holds this.
#[track_caller]
fn hear(stderr: &mut impl std::io::BufRead, part: &str) -> String {
    let mut heard = String::new();
    while !heard.contains(part) {
        assert!(stderr.read_line(&mut heard).unwrap() > 0, "`{part}` was not heard:\n{heard}");
    }
    heard
}

/// Where a strategy waits. Open at both ends, so that opening it waits for nobody.
fn place_to_wait(world: &World) -> File {
    let path = world.path("heard");
    assert!(Command::new("/bin/mkfifo").arg(&path).status().unwrap().success());
    File::options().read(true).write(true).open(path).unwrap()
}

#[track_caller]
fn is_heard(mut waits: File, mut host: Child) {
    let mut stderr = BufReader::new(host.stderr.take().unwrap());
    let mut heard = hear(&mut stderr, "hard");
    assert!(heard.contains("INFO | thinking \\x1b[2Jhard strategy=\"talks\""), "{heard}");
    if !heard.contains("second") {
        heard += &hear(&mut stderr, "second");
    }
    for line in ["first", "second"] {
        assert!(heard.contains(&format!("WARN | {line} strategy=\"talks\"")), "{heard}");
    }
    // A line for each that may wait.
    waits.write_all(b"go\ngo\n").unwrap();
    stderr.read_to_string(&mut heard).unwrap();
    assert!(host.wait().unwrap().success(), "{heard}");
    assert!(heard.contains("INFO | last words strategy=\"talks\""), "{heard}");
}

fn talks(world: &World, id: &str) -> String {
    TALKS.replace("HEARD", world.path("heard").to_str().unwrap()).replace("ID", id)
}

const WORDS: [&str; 9] = [
    "--strategy",
    "talks",
    "--trust-dir",
    "plugins",
    "--sandbox=contained",
    "--keep-last",
    "0",
    // What is waited for is this test, on whatever machine.
    "--deadline",
    "5m",
];

#[test]
fn what_a_strategy_says_is_shown_while_it_works() {
    let world = World::new();
    world.conversation("conversation", &Conversation::of(2));
    world.plugin("talks", &format!("{}{DECLINE}", talks(&world, "c1")));
    let words = [&["conversation", "-v"], &WORDS[..]].concat();
    is_heard(place_to_wait(&world), world.spawn(&mut world.command(&words)));
}

#[test]
fn what_a_worker_says_is_shown_while_it_works() {
    let world = World::new();
    for folder in ["one", "two"] {
        world.conversation(folder, &Conversation::of(2));
    }
    let body = format!(
        "while IFS= read -r line; do\nid=${{line#*'\"id\":\"'}}; id=${{id%%'\"'*}}\n{}\n{}\ndone\n",
        talks(&world, "'\"$id\"'"),
        DECLINE.replace("c1", "'\"$id\"'"),
    );
    // The same lines for both verbs: the script takes what is not `describe` for `run`.
    let script = described("talks", &json!({"features": ["worker"]}), &body).replace("run)", "run|worker)");
    world.script("plugins/talks", &script);
    let words = [&["one", "two", "-v"], &WORDS[..]].concat();
    is_heard(place_to_wait(&world), world.spawn(&mut world.command(&words)));
}
