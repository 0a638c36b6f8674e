//! Operations that the jail allows, by default and with permissions.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use jp_compact_runtime::jail::{Abilities, Confinement, Jail};
use jp_compact_schema::Permissions;

use crate::fixture::{Fixture, subprocess, versions};
use crate::{PROBE, RUNNER, install};

#[test]
fn program_may_use_its_folder_threads_and_socket_pairs() {
    let fixture = Fixture::new();
    for attempt in ["nothing", "use-private-folder", "thread", "pair", "signal-itself"] {
        fixture.check_allowed(&[attempt]);
    }
    // Landlock version 1 denies renames between folders.
    let jail = fixture.jail(versions()[1]);
    assert_eq!(fixture.outcome(Confinement::Isolated(&jail), &["move-in-private-folder"]), "allowed");
    fixture.check_allowed(&["read", "/dev/urandom"]);
    fixture.check_allowed(&["write", "/dev/null"]);
    fixture.check_allowed(&["read", PROBE.to_str().unwrap()]);
}

#[test]
fn granted_subprocesses_stay_in_the_process_group() {
    let fixture = Fixture::with_permissions(subprocess());
    fixture.check_allowed(&["fork"]);
    fixture.check_allowed(&["fork-by-library"]);
    // The keeper, which ends the process group when the host is killed, is not a child of the strategy.
    fixture.check_denied_in_jail(&["wait-for-children-of-others"], "ECHILD");
    fixture.check_denied(&["setsid-in-a-child"], "EPERM");
    fixture.check_denied_in_jail(&["clone-namespace"], "EPERM");
    fixture.check_denied(&["read", &fixture.transcript()], "EACCES");
}

#[test]
fn granted_paths_are_readable() {
    let fixture = Fixture::new();
    let data = fixture.path("data");
    fs::create_dir(&data).unwrap();
    fs::write(fixture.path("data/file"), "x").unwrap();
    symlink(fixture.transcript(), fixture.path("data/link")).unwrap();
    let read = vec![data.clone(), fixture.path("not-there")];
    let fixture = Fixture { granted: Permissions { read, ..Permissions::default() }, ..fixture };
    fixture.check_allowed(&["read", &fixture.path("data/file")]);
    fixture.check_allowed(&["list", &data]);
    fixture.check_denied(&["read", &fixture.path("data/link")], "EACCES");
    fixture.check_denied(&["write", &fixture.path("data/file")], "EACCES");
}

#[test]
fn spool_file_is_readable_by_name_but_not_listed() {
    let fixture = Fixture::new();
    let spool = fixture.path("spool");
    fs::create_dir(&spool).unwrap();
    fs::write(fixture.path("spool/7f3a"), "x").unwrap();
    let jail = fixture.jail(versions()[1]).with_spool(Path::new(&spool));
    let outcome = |args: &[&str]| fixture.outcome(Confinement::Isolated(&jail), args);
    assert_eq!(outcome(&["read", &fixture.path("spool/7f3a")]), "allowed");
    assert_eq!(outcome(&["list", &spool]), "EACCES");
    assert_eq!(outcome(&["write", &fixture.path("spool/7f3a")]), "EACCES");
}

#[track_caller]
fn check_interpreter(interpreter: &str, args: &[&str], expect: &str) {
    let interpreter = Path::new(interpreter).canonicalize().unwrap();
    let fixture = Fixture::new();
    for landlock in versions() {
        let abilities = Abilities { landlock, seccomp: true };
        let jail = Jail::new(abilities, &PROBE, &fixture.granted, Some(&interpreter)).unwrap();
        let output = fixture.launch(&RUNNER, Confinement::Isolated(&jail), &interpreter, args).unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expect, "{}", output.stderr.text());
        assert!(output.status.success());
    }
}

#[test]
fn interpreters_run_in_the_jail() {
    check_interpreter("/bin/sh", &["-c", "cat </etc/passwd; exec expr 1 + 1"], "2\n");
    for (path, code) in
        [("/usr/bin/python3", "import json, random; print(2)"), ("/usr/bin/node", "console.log(2)")]
    {
        let flag = if path.ends_with("node") { "-e" } else { "-c" };
        if Path::new(path).exists() {
            check_interpreter(path, &[flag, code], "2\n");
        }
    }
}

#[test]
fn script_without_runtime_grant_reports_the_missing_grant() {
    let fixture = Fixture::new();
    let script = fixture.path("strategy");
    fs::write(fixture.path("text"), "#!/bin/sh\necho hello\n").unwrap();
    let abilities = Abilities::detect();
    let script = Path::new(&script);
    install(Path::new(&fixture.path("text")), script);
    let launch = |interpreter| {
        let jail = Jail::new(abilities, script, &fixture.granted, interpreter).unwrap();
        fixture.launch(&RUNNER, Confinement::Isolated(&jail), script, &[])
    };
    let error = launch(None).unwrap_err().to_string();
    assert!(error.ends_with("a script needs the grant `runtime`"), "{error}");
    let shell = Path::new("/bin/sh").canonicalize().unwrap();
    assert_eq!(launch(Some(&*shell)).unwrap().stdout, b"hello\n");
}
