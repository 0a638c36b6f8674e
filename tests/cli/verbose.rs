//! The option `-v`, which prints the output of a strategy while the strategy runs. The strategy waits until the test
//! has read the output.

use std::fs::File;
use std::io::{BufReader, Read as _, Write as _};
use std::process::{Child, Command};

use serde_json::json;

use crate::support::{Conversation, DECLINE, World, plugin_script};

/// Shell code that prints to stderr and logs, and then waits for a line on a named pipe.
const PRINT_AND_WAIT: &str = r#"
printf 'thinking \033[2Jhard\n' >&2
printf '%s\n' '{"type":"log","id":"ID","level":"warn","message":"first\nsecond"}'
read -r go < PIPE
echo 'last words' >&2
"#;

/// Reads stderr up to the line that contains this.
#[track_caller]
fn read_until(stderr: &mut impl std::io::BufRead, part: &str) -> String {
    let mut output = String::new();
    while !output.contains(part) {
        assert!(stderr.read_line(&mut output).unwrap() > 0, "stderr ended before `{part}`:\n{output}");
    }
    output
}

/// Creates the named pipe that a strategy waits on. Opening it for reading and writing does not block.
fn create_pipe(world: &World) -> File {
    let path = world.path("pipe");
    assert!(Command::new("/bin/mkfifo").arg(&path).status().unwrap().success());
    File::options().read(true).write(true).open(path).unwrap()
}

#[track_caller]
fn check(mut pipe: File, mut host: Child) {
    let mut stderr = BufReader::new(host.stderr.take().unwrap());
    let mut output = read_until(&mut stderr, "hard");
    assert!(output.contains("INFO stderr strategy=\"talks\" line=\"thinking "), "{output}");
    if !output.contains("second") {
        output += &read_until(&mut stderr, "second");
    }
    for line in ["first", "second"] {
        assert!(output.contains(&format!("WARN log strategy=\"talks\" line=\"{line}\"")), "{output}");
    }
    // One line for each request.
    pipe.write_all(b"go\ngo\n").unwrap();
    stderr.read_to_string(&mut output).unwrap();
    assert!(host.wait().unwrap().success(), "{output}");
    assert!(output.contains("INFO stderr strategy=\"talks\" line=\"last words\""), "{output}");
}

fn print_and_wait_script(world: &World, id: &str) -> String {
    PRINT_AND_WAIT.replace("PIPE", world.path("pipe").to_str().unwrap()).replace("ID", id)
}

const ARGUMENTS: [&str; 9] = [
    "--strategy",
    "talks",
    "--trust-dir",
    "plugins",
    "--sandbox=contained",
    "--keep-last",
    "0",
    // The strategy waits for this test, which may be slow.
    "--deadline",
    "5m",
];

#[test]
fn verbose_streams_output_of_process() {
    let world = World::new();
    world.write_conversation("conversation", &Conversation::with_turns(2));
    world.write_plugin("talks", &format!("{}{DECLINE}", print_and_wait_script(&world, "c1")));
    let arguments = [&["conversation", "-v"], &ARGUMENTS[..]].concat();
    check(create_pipe(&world), world.spawn(&mut world.command(&arguments)));
}

#[test]
fn verbose_streams_output_of_worker() {
    let world = World::new();
    for folder in ["one", "two"] {
        world.write_conversation(folder, &Conversation::with_turns(2));
    }
    let body = format!(
        "while IFS= read -r line; do\nid=${{line#*'\"id\":\"'}}; id=${{id%%'\"'*}}\n{}\n{}\ndone\n",
        print_and_wait_script(&world, "'\"$id\"'"),
        DECLINE.replace("c1", "'\"$id\"'"),
    );
    // Run the same lines for the verb `worker`.
    let script =
        plugin_script("talks", &json!({"features": ["worker"]}), &body).replace("run)", "run|worker)");
    world.write_script("plugins/talks", &script);
    let arguments = [&["one", "two", "-v"], &ARGUMENTS[..]].concat();
    check(create_pipe(&world), world.spawn(&mut world.command(&arguments)));
}
