//! What it takes to run a plugin that is not bundled, and what ends it: every way to give trust, every way to lose
//! it, and files that are swapped under the host's eyes.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on is a test that failed")]
#![expect(clippy::disallowed_methods, reason = "tests start processes, and swap files")]

mod house;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use house::{House, mode, set_mode, text};
use jp_compact_engine::environment::Environment;
use jp_compact_engine::jail::Confinement;
use jp_compact_engine::process::{self, GRACE, Launch};
use jp_compact_engine::registry::{Registry, Wanted};
use jp_compact_engine::trust::{Trust, Word};
use rustix::pty::OpenptFlags;

const STORE: &str = ".local/state/jp-compact/trust/store";
const RECORDS: &str = ".local/state/jp-compact/trust/records";

fn manifest(name: &str, command: &str, permissions: &str) -> String {
    format!(
        "manifest = 1\nname = \"{name}\"\nversion = \"1.0.0\"\ndescription = \"From a folder\"\nprotocols = [1]\n\
         [run]\ncommand = [{command}]\n[permissions]\n{permissions}\n"
    )
}

/// A folder with a manifest, a script that its `/bin/sh` is given, and one more file.
fn folder(house: &House, permissions: &str) {
    house.install("folder/main.sh", &house.script("inner", ""));
    fs::create_dir(house.path("folder/deep")).unwrap();
    fs::write(house.path("folder/deep/table"), "1").unwrap();
    fs::write(house.path("folder/plugin.toml"), manifest("inner", "\"/bin/sh\", \"main.sh\"", permissions))
        .unwrap();
}

#[test]
fn without_a_terminal_it_is_exit_11_with_the_very_command() {
    let house = House::new();
    house.strategy("it's mine/plugin", "plugin");
    let compact = house.compact("./it's mine/plugin", &[]);
    let stderr = house.fails(&compact, 11);
    assert!(stderr.contains("strategy `./it's mine/plugin` is not trusted"), "{stderr}");
    let command =
        stderr.lines().map(str::trim).find(|line| line.starts_with("jp-compact strategy trust")).unwrap();
    assert_eq!(house.diary(), Vec::<Vec<String>>::new());

    let shell = format!("exec {}{}", env!("CARGO_BIN_EXE_jp-compact"), &command["jp-compact".len()..]);
    let trusted = std::process::Command::new("/bin/sh")
        .args(["-c", &shell])
        .env_clear()
        .env("HOME", &house.root)
        .current_dir("/")
        .output()
        .unwrap();
    assert!(trusted.status.success(), "{}", text(&trusted.stderr));
    house.ok(&compact);
}

#[test]
fn trust_is_needed_at_either_tier_and_helps_nobody_without_a_jail() {
    let house = House::new();
    house.strategy("plugin", "plugin");
    house.fails(&["conversation", "--strategy", "./plugin"], 11);
    house.fails(&["strategy", "show", "./plugin", "--sandbox=contained"], 11);
    house.ok(&["strategy", "trust", "./plugin"]);
    for words in [&["--sandbox=require"][..], &[]] {
        let mut command = house.command(&[&["conversation", "--strategy", "./plugin"], words].concat());
        let output = command.env("JP_COMPACT_TEST_LANDLOCK", "0").output().unwrap();
        assert_eq!(output.status.code(), Some(11), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("this machine lacks Landlock"), "{}", text(&output.stderr));
    }
    house.ok(&["strategy", "show", "./plugin", "--sandbox=contained"]);
}

#[test]
fn it_runs_from_a_copy_that_nobody_writes_to() {
    let house = House::new();
    house.strategy("plugin", "plugin");
    house.ok(&["strategy", "trust", "./plugin"]);
    house.ok(&house.compact("./plugin", &[]));
    let copy = house.diary()[0][1].clone();
    let copy = Path::new(&copy);
    assert!(copy.starts_with(house.path(STORE)), "{}", copy.display());
    let folders = [copy.parent().unwrap(), &house.path(STORE), &house.path(RECORDS)].map(mode);
    assert_eq!((folders, mode(copy)), ([0o700; 3], 0o555));
    for record in fs::read_dir(house.path(RECORDS)).unwrap() {
        assert_eq!(mode(&record.unwrap().path()), 0o600);
    }
}

#[test]
fn any_changed_byte_revokes() {
    let house = House::new();
    let script = house.script("plugin", "");
    house.install("plugin", &script);
    house.ok(&["strategy", "trust", "./plugin"]);
    let compact = house.compact("./plugin", &["--dry-run"]);
    house.ok(&compact);
    house.install("plugin", &(script.clone() + " "));
    let stderr = house.fails(&compact, 11);
    assert!(
        stderr.contains("it changed since it was trusted") && stderr.contains("strategy trust"),
        "{stderr}"
    );
    // What was trusted were those bytes, and they are again.
    house.install("plugin", &script);
    house.ok(&compact);
}

#[test]
fn a_copy_that_was_changed_is_not_run() {
    let house = House::new();
    house.strategy("plugin", "plugin");
    house.ok(&["strategy", "trust", "./plugin"]);
    let compact = house.compact("./plugin", &["--dry-run"]);
    house.ok(&compact);
    let copy = house.diary()[0][1].clone();
    fs::remove_file(&copy).unwrap();
    fs::write(&copy, "#!/bin/sh\nexit 1\n").unwrap();
    set_mode(Path::new(&copy), 0o555);
    house.ok(&compact);
}

#[test]
fn trust_ends_where_it_is_taken_back() {
    let house = House::new();
    let path = house.strategy("plugin", "plugin");
    let compact = house.compact("./plugin", &["--dry-run"]);
    for name in ["./plugin", "plugin"] {
        house.ok(&["strategy", "trust", "./plugin"]);
        house.ok(&compact);
        assert_eq!(house.json(&["strategy", "untrust", name, "--json"])["revoked"], 1);
        house.fails(&compact, 11);
        assert_eq!(fs::read_dir(house.path(STORE)).unwrap().count(), 0);
    }
    house.ok(&["strategy", "trust", "./plugin"]);
    fs::remove_file(path).unwrap();
    assert_eq!(house.json(&["strategy", "untrust", "./plugin", "--json"])["revoked"], 1);
    assert_eq!(house.json(&["strategy", "untrust", "./plugin", "--json"])["revoked"], 0);
}

#[test]
fn a_bare_script_asks_for_its_interpreter_and_trust_grants_that_alone() {
    let house = House::new();
    house.strategy("plugin", "plugin");
    let record = house.json(&["strategy", "trust", "./plugin", "--json"]);
    let none = serde_json::json!({
        "llm": false, "network": false, "subprocess": false, "env": [], "read": [], "runtime": "sh"
    });
    assert_eq!(record["permissions"], none);
    let shell = Path::new("/bin/sh").canonicalize().unwrap();
    assert_eq!(record["interpreter"], &*shell.to_string_lossy());
}

#[test]
fn a_variable_is_seen_when_it_is_granted() {
    let house = House::new();
    house.strategy("plugin", "plugin");
    for (grant, expect) in [("subprocess", "unset"), ("subprocess,env:GRANTED", "seen")] {
        house.ok(&["strategy", "trust", "./plugin", "--grant", grant]);
        let mut command = house.command(&house.compact("./plugin", &["--dry-run"]));
        assert!(command.env("GRANTED", "seen").output().unwrap().status.success());
        assert_eq!(house.diary().pop().unwrap()[2], expect);
    }
    house.fails(&["strategy", "trust", "./plugin", "--grant", "everything"], 2);
}

#[test]
fn a_need_that_was_not_granted_is_refused_before_it_runs_with_the_command() {
    let house = House::new();
    house.install("plugin", &house.script("plugin", r#","needs":["llm"]"#));
    house.ok(&["strategy", "trust", "./plugin"]);
    let compact = house.compact("./plugin", &["--dry-run"]);
    let stderr = house.fails(&compact, 11);
    let path = house.path("plugin");
    let command = format!("jp-compact strategy trust {} --grant llm,runtime:sh", path.display());
    assert!(
        stderr.contains("it needs `llm`, which was not granted") && stderr.contains(&command),
        "{stderr}"
    );
    assert_eq!(house.verbs(), ["describe"]);
    house.ok(&["strategy", "trust", "./plugin", "--grant", "llm"]);
    house.ok(&compact);
}

#[test]
fn a_folder_is_trusted_whole() {
    let house = House::new();
    folder(&house, "runtime = \"sh\"");
    let compact = house.compact("./folder", &["--dry-run"]);
    let stderr = house.fails(&compact, 11);
    assert!(stderr.contains("folder --grant runtime:sh\n"), "{stderr}");
    house.ok(&["strategy", "trust", "./folder", "--grant", "runtime:sh"]);
    house.ok(&compact);
    let script = house.diary()[0][1].clone();
    assert!(Path::new(&script).starts_with(house.path(STORE)), "{script}");
    assert!(Path::new(&script).with_file_name("deep").join("table").is_file());

    fs::write(house.path("folder/deep/table"), "2").unwrap();
    house.fails(&compact, 11);
    fs::write(house.path("folder/deep/table"), "1").unwrap();
    house.ok(&compact);
    fs::write(house.path("folder/deep/more"), "").unwrap();
    house.fails(&compact, 11);
    fs::remove_file(house.path("folder/deep/more")).unwrap();
    symlink("/etc/passwd", house.path("folder/deep/link")).unwrap();
    let stderr = house.fails(&compact, 11);
    assert!(stderr.contains("deep/link is a symbolic link"), "{stderr}");
}

#[test]
fn what_a_manifest_asks_for_is_not_granted_by_trust() {
    let house = House::new();
    folder(&house, "llm = true\nenv = [\"GRANTED\"]");
    let record = house.json(&["strategy", "trust", "./folder", "--json"]);
    assert_eq!(record["permissions"]["llm"], false);
    assert_eq!(record["not_granted"], serde_json::json!(["llm", "env:GRANTED"]));
    let output = house.run(&["strategy", "trust", "./folder", "--grant", "llm"]);
    assert!(text(&output.stderr).contains("it asks for env:GRANTED too"), "{}", text(&output.stderr));
}

#[test]
fn a_failure_that_a_missing_grant_may_explain_says_which() {
    let house = House::new();
    folder(&house, "env = [\"GRANTED\"]");
    let script = house.script("inner", "").replace("case", "[ \"${GRANTED-}\" ] || exit 3\ncase");
    house.install("folder/main.sh", &script);
    house.ok(&["strategy", "trust", "./folder"]);
    let compact = house.compact("./folder", &["--dry-run"]);
    let stderr = house.fails(&compact, 13);
    assert!(stderr.contains("it asked for env:GRANTED, which was not granted"), "{stderr}");
    let command = format!("strategy trust {} --grant env:GRANTED", house.path("folder").display());
    assert!(stderr.contains(&command), "{stderr}");
    // Without anything missing, nothing is said of grants.
    house.ok(&["strategy", "trust", "./folder", "--grant", "env:GRANTED"]);
    let stderr = house.fails(&compact, 13);
    assert!(!stderr.contains("grant"), "{stderr}");
}

#[test]
fn what_belongs_to_somebody_else_is_not_run() {
    let house = House::new();
    let plugin = house.strategy("plugin", "plugin");
    house.ok(&["strategy", "trust", "./plugin"]);
    if std::os::unix::fs::chown(&plugin, Some(54_321), None).is_err() {
        return; // Only root gives files away; what is owned by root passes for everybody.
    }
    let stderr = house.fails(&house.compact("./plugin", &[]), 11);
    assert!(stderr.contains("(mode 0755) is owned by uid 54321, neither root nor you"), "{stderr}");
    assert!(stderr.contains("chown"), "{stderr}");
    let list = house.ok(&["strategy", "list", "--plugin-dir", "."]);
    assert!(list.lines().any(|line| line.starts_with("plugin") && line.contains("insecure")), "{list}");
}

#[test]
fn a_group_may_write_when_it_is_its_owner_s_alone() {
    let house = House::new();
    let plugin = house.strategy("plugin", "plugin");
    set_mode(&plugin, 0o775);
    // A group that is nobody's first is not private.
    if std::os::unix::fs::chown(&plugin, None, Some(54_321)).is_err() {
        return; // Only root gives files to any group.
    }
    let stderr = house.fails(&["strategy", "trust", "./plugin"], 11);
    assert!(stderr.contains("(mode 0775) can be written to by group 54321"), "{stderr}");
    assert!(stderr.contains("`chmod g-w "), "{stderr}");
}

#[test]
fn a_lock_file_is_trust_that_can_be_carried_about() {
    let house = House::new();
    house.strategy("one/plugins/plugin", "plugin");
    let lock = ["--trust-lock", "one/plugins.lock"];
    house.ok(&[&["strategy", "trust", "./one/plugins/plugin"], &lock[..]].concat());
    house.fails(&house.compact("./one/plugins/plugin", &[]), 11);
    house.ok(&house.compact("./one/plugins/plugin", &[&lock[..], &["--dry-run"]].concat()));

    fs::rename(house.path("one"), house.path("two")).unwrap();
    let moved = ["--trust-lock", "two/plugins.lock", "--dry-run"];
    house.ok(&house.compact("./two/plugins/plugin", &moved));
    let text = fs::read_to_string(house.path("two/plugins.lock")).unwrap();
    assert!(text.contains("path = \"plugins/plugin\"") && text.contains("runtime = \"sh\""), "{text}");

    // The lock stands, whatever the user's own records say.
    house.install("two/plugins/plugin", &(house.script("plugin", "") + "\n"));
    house.ok(&["strategy", "trust", "./two/plugins/plugin"]);
    house.ok(&house.compact("./two/plugins/plugin", &["--dry-run"]));
    let stderr = house.fails(&house.compact("./two/plugins/plugin", &moved), 11);
    assert!(stderr.contains("--trust-lock "), "{stderr}");
    fs::write(house.path("two/plugins.lock"), "lock = 2").unwrap();
    house.fails(&house.compact("./two/plugins/plugin", &moved), 2);
}

#[test]
fn a_folder_that_was_vouched_for_needs_no_record_and_is_checked_inside() {
    let house = House::new();
    house.strategy("open/built/plugin", "plugin");
    set_mode(&house.path("open"), 0o777);
    set_mode(&house.path("open/built"), 0o777);
    let compact = house.compact("plugin", &["--trust-dir", "open/built", "--dry-run"]);
    house.ok(&compact);
    assert!(Path::new(&house.diary()[0][1]).starts_with(house.path(STORE)));
    house.fails(&house.compact("./open/built/plugin", &[]), 11);
    set_mode(&house.path("open/built/plugin"), 0o777);
    house.fails(&compact, 11);
    assert!(!house.path(RECORDS).exists());
}

#[test]
fn what_others_can_change_is_not_run() {
    let house = House::new();
    let plugin = house.strategy("open/in/plugin", "plugin");
    let trust = ["strategy", "trust", "./open/in/plugin"];
    let compact = house.compact("./open/in/plugin", &["--dry-run"]);
    house.ok(&trust);
    for (path, bad, good) in [
        (house.path("open"), 0o777, 0o755),
        (house.path("open/in"), 0o702, 0o700),
        (plugin.clone(), 0o757, 0o755),
    ] {
        set_mode(&path, bad);
        for words in [&trust[..], &compact] {
            let stderr = house.fails(words, 11);
            let expect = format!("{} (mode {bad:04o})", path.display());
            assert!(stderr.contains(&expect), "{stderr}");
            assert!(stderr.contains(&format!("`chmod go-w {}`", path.display())), "{stderr}");
        }
        set_mode(&path, good);
        house.ok(&compact);
    }
    set_mode(&house.path("open"), 0o1777);
    house.ok(&compact);
}

#[test]
fn trust_that_others_could_write_down_counts_for_nothing() {
    let house = House::new();
    house.strategy("plugin", "plugin");
    house.ok(&["strategy", "trust", "./plugin"]);
    let state = house.path(".local/state/jp-compact/trust");
    set_mode(&state, 0o777);
    let compact = house.compact("./plugin", &["--dry-run"]);
    let stderr = house.fails(&compact, 11);
    assert!(stderr.contains(&format!("{} (mode 0777)", state.display())), "{stderr}");
    house.ok(&house.compact("strip-tools", &["--dry-run"]));
    set_mode(&state, 0o700);
    house.ok(&compact);
}

#[test]
fn a_swap_between_check_and_start_never_runs_the_swapped_file() {
    let house = House::new();
    house.install("plugin", "#!/bin/sh\necho good\n");
    house.install("good", "#!/bin/sh\necho good\n");
    house.install("evil", "#!/bin/sh\necho evil\n");
    house.ok(&["strategy", "trust", "./plugin"]);

    let (registry, trust) = engine(&house);
    let found = registry.find("./plugin").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut ran, mut refused) = (0, 0);
    for number in 0..1_000 {
        // Now and then it is swapped before the check, too, and the check sees that.
        swap(&house, if number % 10 == 0 { "evil" } else { "good" });
        let Ok(cleared) = trust.clear(&found) else {
            refused += 1;
            continue;
        };
        swap(&house, "evil");
        let launch = Launch {
            runner: registry.runner(),
            program: &cleared.program,
            confinement: Confinement::Contained,
            args: &["run"],
            stdin: Vec::new(),
            env: &[],
            temp_dir: &house.path("tmp"),
            deadline: Duration::from_secs(60),
            grace: GRACE,
            stdout_bytes_max: 100,
        };
        let ended = runtime.block_on(process::run(launch)).unwrap();
        assert_eq!(text(&ended.stdout), "good\n", "try {number}");
        ran += 1;
    }
    assert_eq!((ran, refused), (900, 100));
}

#[test]
fn a_swap_while_it_is_copied_never_puts_the_swapped_file_into_the_store() {
    let house = House::new();
    let (good, _) =
        (house.install("good", "#!/bin/sh\necho good\n"), house.install("evil", "#!/bin/sh\necho evil\n"));
    house.install("plugin", "#!/bin/sh\necho good\n");
    house.ok(&["strategy", "trust", "./plugin"]);
    let (registry, trust) = engine(&house);
    let found = registry.find("./plugin").unwrap();
    let good = fs::read(good).unwrap();
    let over = AtomicBool::new(false);
    let kept = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                swap(&house, "evil");
                swap(&house, "good");
            }
        });
        let mut kept = 0;
        for _ in 0..1_000 {
            fs::remove_dir_all(house.path(STORE)).unwrap();
            fs::create_dir(house.path(STORE)).unwrap();
            if let Ok(cleared) = trust.clear(&found) {
                kept += usize::from(fs::read(&cleared.program).unwrap() == good);
            } else {
                let left = fs::read_dir(house.path(STORE))
                    .unwrap()
                    .flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
                assert_eq!(left.count(), 0);
                kept += 1;
            }
        }
        over.store(true, Ordering::Relaxed);
        kept
    });
    assert_eq!(kept, 1_000);
}

/// The engine as the executable sees it in this house.
fn engine(house: &House) -> (Registry, Trust) {
    let environment = Environment {
        home: Some(house.root.clone()),
        exe: Some(env!("CARGO_BIN_EXE_jp-compact").into()),
        ..Environment::bare(&house.root)
    };
    let registry = Registry::discover(&environment, &Wanted::default()).unwrap();
    (registry, Trust::open(&environment, &Word::default()).unwrap())
}

/// Puts a copy of a file in the plugin's place.
fn swap(house: &House, with: &str) {
    fs::copy(house.path(with), house.path("next")).unwrap();
    fs::rename(house.path("next"), house.path("plugin")).unwrap();
}

/// Runs the executable on a terminal, types an answer, and returns its exit code and what the terminal showed.
fn on_a_terminal(house: &House, words: &[&str], answer: &str) -> (Option<i32>, String) {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    rustix::pty::grantpt(&master).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let name = rustix::pty::ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let terminal = || fs::File::options().read(true).write(true).open(&name).unwrap();
    let mut command = house.command(words);
    command.stdin(terminal()).stdout(Stdio::null()).stderr(terminal());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut master = fs::File::from(master);
    // A terminal keeps what is typed before it is read.
    master.write_all(answer.as_bytes()).unwrap();
    let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
    // When nobody has the other side open any more, reading fails.
    while let Ok(read @ 1..) = master.read(&mut buffer) {
        shown.extend_from_slice(&buffer[..read]);
    }
    (child.wait().unwrap().code(), text(&shown))
}

#[test]
fn on_a_terminal_one_s_own_first_strategy_takes_two_steps() {
    let house = House::new();
    house.strategy("strip-all", "strip-all");
    let compact = house.compact("./strip-all", &[]);
    let (code, shown) = on_a_terminal(&house, &compact, "y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("Strategy `strip-all` is not trusted yet."), "{shown}");
    assert!(shown.contains("asks    runtime:sh") && shown.contains("1 overlay appended"), "{shown}");
    // And is not asked again.
    let (code, shown) = on_a_terminal(&house, &compact, "");
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("trust"), "{shown}");
}

#[test]
fn on_a_terminal_yes_grants_what_was_asked_and_anything_else_nothing() {
    let house = House::new();
    folder(&house, "env = [\"GRANTED\"]\nruntime = \"sh\"");
    let compact = house.compact("./folder", &[]);
    for answer in ["n\n", "\n", "maybe\n", "\u{4}"] {
        let (code, shown) = on_a_terminal(&house, &compact, answer);
        assert_eq!(code, Some(11), "{shown}");
        assert!(
            shown.contains("From a folder") && shown.contains("--grant env:GRANTED,runtime:sh"),
            "{shown}"
        );
    }
    assert_eq!(house.diary(), Vec::<Vec<String>>::new());
    let (code, shown) = on_a_terminal(&house, &compact, "YES\n");
    assert_eq!(code, Some(0), "{shown}");
    fs::write(house.path("folder/deep/table"), "2").unwrap();
    let (_, shown) = on_a_terminal(&house, &compact, "n\n");
    assert!(shown.contains("has changed since it was trusted"), "{shown}");
}
