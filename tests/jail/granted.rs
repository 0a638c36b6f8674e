//! What the jail lets through, of itself and when it was granted.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use jp_compact_engine::jail::{Abilities, Confinement, Jail};
use jp_compact_schema::Permissions;

use crate::place::{Place, subprocess, versions};
use crate::{PROBE, RUNNER, install};

#[test]
fn a_program_runs_and_has_its_folder_threads_and_pairs() {
    let place = Place::new();
    for attempt in ["nothing", "use-private-folder", "thread", "pair", "signal-itself"] {
        place.allowed(&[attempt]);
    }
    // The oldest version keeps every file in its folder.
    let jail = place.jail(versions()[1]);
    assert_eq!(place.outcome(Confinement::Isolated(&jail), &["move-in-private-folder"]), "let through");
    place.allowed(&["read", "/dev/urandom"]);
    place.allowed(&["write", "/dev/null"]);
    place.allowed(&["read", PROBE.to_str().unwrap()]);
}

#[test]
fn subprocesses_can_be_granted_and_do_not_leave_the_group() {
    let place = Place::granting(subprocess());
    place.allowed(&["fork"]);
    place.allowed(&["fork-by-library"]);
    // What ends the group with the host is no child of the strategy's.
    place.denied_here(&["wait-for-children-of-others"], "ECHILD");
    place.denied(&["setsid-in-a-child"], "EPERM");
    place.denied_here(&["clone-namespace"], "EPERM");
    place.denied(&["read", &place.transcript()], "EACCES");
}

#[test]
fn reading_can_be_granted() {
    let place = Place::new();
    let data = place.path("data");
    fs::create_dir(&data).unwrap();
    fs::write(place.path("data/file"), "x").unwrap();
    symlink(place.transcript(), place.path("data/link")).unwrap();
    let read = vec![data.clone(), place.path("not-there")];
    let place = Place { granted: Permissions { read, ..Permissions::default() }, ..place };
    place.allowed(&["read", &place.path("data/file")]);
    place.allowed(&["list", &data]);
    place.denied(&["read", &place.path("data/link")], "EACCES");
    place.denied(&["write", &place.path("data/file")], "EACCES");
}

#[test]
fn a_spool_is_read_by_name_and_not_listed() {
    let place = Place::new();
    let spool = place.path("spool");
    fs::create_dir(&spool).unwrap();
    fs::write(place.path("spool/7f3a"), "x").unwrap();
    let jail = place.jail(versions()[1]).with_spool(Path::new(&spool));
    let outcome = |args: &[&str]| place.outcome(Confinement::Isolated(&jail), args);
    assert_eq!(outcome(&["read", &place.path("spool/7f3a")]), "let through");
    assert_eq!(outcome(&["list", &spool]), "EACCES");
    assert_eq!(outcome(&["write", &place.path("spool/7f3a")]), "EACCES");
}

#[track_caller]
fn interprets(interpreter: &str, args: &[&str], expect: &str) {
    let interpreter = Path::new(interpreter).canonicalize().unwrap();
    let place = Place::new();
    for landlock in versions() {
        let abilities = Abilities { landlock, seccomp: true };
        let jail = Jail::new(abilities, &PROBE, &place.granted, Some(&interpreter)).unwrap();
        let ended = place.launch(&RUNNER, Confinement::Isolated(&jail), &interpreter, args).unwrap();
        assert_eq!(String::from_utf8_lossy(&ended.stdout), expect, "{}", ended.stderr.text());
        assert!(ended.status.success());
    }
}

#[test]
fn interpreters_run() {
    interprets("/bin/sh", &["-c", "cat </etc/passwd; exec expr 1 + 1"], "2\n");
    for (path, code) in
        [("/usr/bin/python3", "import json, random; print(2)"), ("/usr/bin/node", "console.log(2)")]
    {
        let flag = if path.ends_with("node") { "-e" } else { "-c" };
        if Path::new(path).exists() {
            interprets(path, &[flag, code], "2\n");
        }
    }
}

#[test]
fn a_script_without_its_runtime_says_what_to_grant() {
    let place = Place::new();
    let script = place.path("strategy");
    fs::write(place.path("text"), "#!/bin/sh\necho hello\n").unwrap();
    let abilities = Abilities::of_machine();
    let script = Path::new(&script);
    install(Path::new(&place.path("text")), script);
    let launch = |interpreter| {
        let jail = Jail::new(abilities, script, &place.granted, interpreter).unwrap();
        place.launch(&RUNNER, Confinement::Isolated(&jail), script, &[])
    };
    let error = launch(None).unwrap_err().to_string();
    assert!(error.ends_with("a script needs the grant `runtime`"), "{error}");
    let shell = Path::new("/bin/sh").canonicalize().unwrap();
    assert_eq!(launch(Some(&*shell)).unwrap().stdout, b"hello\n");
}
