//! Completions in real shells: bash and zsh on a pseudo-terminal, where a user types TAB, and fish with its own command
//! for listing them. The test of a missing shell is skipped, or fails if `JP_COMPACT_TEST_ALL` is set.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use rustix::pty::OpenptFlags;

use crate::support::{Conversation, World};

/// The id of a session of Codex.
const SESSION: &str = "0199fd18-25ed-7671-90cc-5ecb92e14c45";

/// Returns whether a shell can be tested.
fn has_shell(shell: &str) -> bool {
    let found = ["/usr/bin", "/bin"].iter().any(|folder| Path::new(folder).join(shell).exists());
    if !found {
        assert!(std::env::var_os("JP_COMPACT_TEST_ALL").is_none(), "{shell} is missing");
        eprintln!("{shell} is missing: its completions were not tested");
    }
    found
}

/// Returns a workspace of JP with one conversation, a session of Codex, and a strategy of the user.
fn world() -> World {
    let world = World::new();
    world.write_conversation(".jp/conversations/17738399468-review", &Conversation::with_turns(2));
    world.write_file(".jp/config.toml", b"");
    world.write_file("micro-logs/log", b"");
    let session = format!(".codex/sessions/2026/11/21/rollout-2026-11-21T07-52-56-{SESSION}.jsonl");
    let path = world.home(&session);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let record =
        format!("{{\"type\":\"session_meta\",\"payload\":{{\"id\":\"{SESSION}\",\"cwd\":\"/w\"}}}}\n");
    fs::write(path, record).unwrap();
    world.write_file(
        ".jp-compact.toml",
        b"[conversation.compaction.profiles.nightly]\nstrategies = [\"trim\"]\n\
          [conversation.compaction.profiles.\"ev;touch PWN\"]\nstrategies = [\"trim\"]\n\
          [conversation.compaction.profiles.\"aa\\u001b[2J\"]\nstrategies = [\"trim\"]\n",
    );
    world
}

/// Sets the environment of a shell.
fn prepare(world: &World, shell: &mut Command) {
    let folder = cargo_bin("jp-compact").parent().unwrap().display().to_string();
    world.isolate(shell).env("PATH", format!("{folder}:/usr/bin:/bin")).env("TERM", "dumb").env("PS1", "$ ");
}

/// A shell on a pseudo-terminal.
struct Terminal {
    child: Child,
    master: fs::File,
    screen: String,
}

impl Terminal {
    /// Starts a shell that reads keys from its own terminal.
    fn start(world: &World, shell: &str, arguments: &[&str]) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags).unwrap();
        rustix::pty::grantpt(&master).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let terminal = || Stdio::from(fs::File::options().read(true).write(true).open(&name).unwrap());
        let mut command = Command::new("/usr/bin/setsid");
        prepare(world, command.args(["--ctty", shell]).args(arguments));
        let child = world.spawn(command.stdin(terminal()).stdout(terminal()).stderr(terminal()));
        Self { child, master: fs::File::from(master), screen: String::new() }
    }

    /// Types keys. Returns the text after `RAN ` in the line that the shell then prints.
    #[track_caller]
    fn line_after(&mut self, keys: &str) -> String {
        let seen = self.screen.len();
        self.master.write_all(keys.as_bytes()).unwrap();
        let mut buffer = [0; 4096];
        loop {
            let new = &self.screen[seen..];
            let mut lines = new.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            if let Some(line) = lines.find_map(|line| line.trim_end().strip_prefix("RAN ")) {
                return line.to_owned();
            }
            match self.master.read(&mut buffer) {
                Ok(read @ 1..) => self.screen.push_str(&String::from_utf8_lossy(&buffer[..read])),
                _ => panic!("the shell has ended:\n{}", self.screen),
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The shell may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The line that a user types before TAB, and the line that results.
const CASES: [(&str, &str); 10] = [
    ("jp-compact sche", "jp-compact schema"),
    ("jp-compact schema batch-rep", "jp-compact schema batch-report"),
    ("jp-compact strategy show strip-t", "jp-compact strategy show strip-tools"),
    ("jp-compact show --format gemini-c", "jp-compact show --format gemini-cli"),
    ("jp-compact 17738399468 --profile nigh", "jp-compact 17738399468 --profile nightly"),
    ("jp-compact 17738399468 --compact=nigh", "jp-compact 17738399468 --compact=nightly"),
    ("jp-compact show 1773", "jp-compact show 17738399468"),
    ("jp-compact fork 0199f", "jp-compact fork 0199fd18-25ed-7671-90cc-5ecb92e14c45"),
    ("jp-compact man strategy-te", "jp-compact man strategy-test"),
    ("jp-compact config trust micr", "jp-compact config trust micro-logs/"),
];

/// The names of files that a shell must quote.
const FILES: [&str; 7] = [
    "my  file.jsonl",
    "x;touch PWN;.jsonl",
    "q='$(touch PWN)\"`touch PWN`!e\\.jsonl",
    "a=b:c d.jsonl",
    "d  e/f.jsonl",
    "*.jsonl",
    "esc\u{1b}ape.jsonl",
];

/// Like [`CASES`]. The resulting line is the output of `echo`, so it has no quotes.
const QUOTED: [(&str, &str); 18] = [
    ("jp-compact show my", "jp-compact show my  file.jsonl"),
    ("jp-compact show my\\ ", "jp-compact show my  file.jsonl"),
    ("jp-compact show \"my ", "jp-compact show my  file.jsonl"),
    ("jp-compact show 'my ", "jp-compact show my  file.jsonl"),
    ("jp-compact show m\"y ", "jp-compact show my  file.jsonl"),
    ("jp-compact show x", "jp-compact show x;touch PWN;.jsonl"),
    ("jp-compact show q", "jp-compact show q='$(touch PWN)\"`touch PWN`!e\\.jsonl"),
    ("jp-compact show \"q", "jp-compact show q='$(touch PWN)\"`touch PWN`!e\\.jsonl"),
    ("jp-compact show 'q", "jp-compact show q='$(touch PWN)\"`touch PWN`!e\\.jsonl"),
    ("jp-compact show a", "jp-compact show a=b:c d.jsonl"),
    ("jp-compact show a=", "jp-compact show a=b:c d.jsonl"),
    ("jp-compact show a=b:c", "jp-compact show a=b:c d.jsonl"),
    ("jp-compact show d", "jp-compact show d  e/"),
    ("jp-compact show d\\ \\ e/", "jp-compact show d  e/f.jsonl"),
    ("jp-compact show ./\\*", "jp-compact show ./*.jsonl"),
    ("jp-compact 17738399468 --profile ev", "jp-compact 17738399468 --profile ev;touch PWN"),
    ("jp-compact 17738399468 --compact=ev", "jp-compact 17738399468 --compact=ev;touch PWN"),
    ("jp-compact 17738399468 --profile aa", "jp-compact 17738399468 --profile aa"),
];

/// Checks each case in a shell. `setup` loads the completions.
#[track_caller]
fn check(shell: &str, arguments: &[&str], setup: &str, cases: &[(&str, &str)]) {
    if !has_shell(shell) {
        return;
    }
    let world = world();
    FILES.iter().for_each(|name| drop(world.write_file(name, b"")));
    let mut terminal = Terminal::start(&world, shell, arguments);
    assert_eq!(terminal.line_after(&format!("{setup}; echo RAN setup\n")), "setup");
    for (typed, expected) in cases {
        // After TAB, the keys Ctrl-A and `echo RAN ` make the shell print the line instead of running it.
        let line = terminal.line_after(&format!("{typed}\t\u{1}echo RAN \n"));
        assert_eq!(line.trim_end(), *expected, "{shell}: {typed}\n{}", terminal.screen);
    }
    assert!(!world.path("PWN").exists());
}

#[test]
fn bash_completes_names_after_the_first_word() {
    check("bash", &["--norc", "--noprofile", "-i"], "source <(jp-compact completions bash)", &CASES);
}

#[test]
fn bash_quotes_names() {
    check("bash", &["--norc", "--noprofile", "-i"], "source <(jp-compact completions bash)", &QUOTED);
}

#[test]
fn zsh_completes_names_after_the_first_word() {
    let setup = "autoload -U compinit; compinit -u -D; source <(jp-compact completions zsh)";
    check("zsh", &["-f", "-i"], setup, &CASES);
}

#[test]
fn zsh_loads_the_script_from_a_folder_of_functions() {
    let setup =
        "jp-compact completions zsh > _jp-compact; fpath=($PWD $fpath); autoload -U compinit; compinit -u -D";
    check("zsh", &["-f", "-i"], setup, &CASES);
}

#[test]
fn fish_completes_names_after_the_first_word() {
    if !has_shell("fish") {
        return;
    }
    let world = world();
    for (typed, expected) in CASES {
        let mut fish = Command::new("/usr/bin/fish");
        let script = format!("jp-compact completions fish | source; complete -C '{typed}'");
        prepare(&world, fish.args(["--no-config", "--command", &script]));
        let output = world.spawn(&mut fish).wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let words: Vec<&str> = text.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(words, [expected.rsplit(' ').next().unwrap()], "{typed}: {text}");
    }
}

#[test]
fn candidates_and_titles_have_no_control_characters() {
    let world = world();
    for name in ["esc\u{202e}ape.jsonl", "esc\u{1b}ape.jsonl", "escape.jsonl"] {
        world.write_file(name, b"");
    }
    let path = world.home(".claude/projects/-w/3dee0fbb-c3af-4b3b-a570-dde5a25a4336.jsonl");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let message = r#""message":{"role":"user","content":"Fix\u202eit\u001b[31m"}"#;
    let id = r#""sessionId":"3dee0fbb-c3af-4b3b-a570-dde5a25a4336","cwd":"/w""#;
    fs::write(path, format!("{{\"type\":\"user\",\"uuid\":\"u\",{id},{message}}}\n")).unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let candidates = |typed: &str| {
            let words = match shell {
                "bash" => vec!["--".to_owned(), format!("jp-compact show {typed}"), typed.to_owned()],
                _ => ["--", "jp-compact", "show", typed].map(str::to_owned).to_vec(),
            };
            let mut command = world.command(&words);
            command.env("JP_COMPACT_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "2").env("_CLAP_IFS", "\n");
            world.finish(&mut command).exits(0).text().to_owned()
        };
        assert_eq!(candidates("esc").trim_end(), "escape.jsonl", "{shell}");
        let title = candidates("3dee");
        assert!(title.starts_with("3dee0fbb") && title.contains("Fix") == (shell != "bash"), "{title}");
        assert!(!title.contains(['\u{202e}', '\u{1b}']), "{shell}: {title:?}");
    }
}

#[test]
fn powershell_script_is_marked_as_untested() {
    let script = World::new().run(&["completions", "powershell"]).exits(0);
    assert!(script.text().starts_with("# Untested:") && script.text().contains("Register-ArgumentCompleter"));
}
