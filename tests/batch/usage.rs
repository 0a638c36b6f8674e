//! Usage errors: an error that does not depend on a transcript is printed once, and nothing is written.

use std::fs;

use crate::set::Set;
use crate::support::{Conversation, World};

#[track_caller]
fn check(set: &Set, args: &[&str], code: i32, message: &str) {
    let output = set.world.run(&[&["batch"], args].concat()).exits(code).reports(message);
    assert_eq!(output.stderr.matches("error: ").count(), 1, "{args:?}: {}", output.stderr);
    assert!(!output.stderr.contains("failed: "), "{}", output.stderr);
    assert_eq!(output.text().lines().count(), usize::from(args.contains(&"--json")), "{}", output.text());
    set.assert_untouched();
}

#[test]
fn usage_errors_are_printed_once_and_nothing_is_written() {
    let set = Set::new(2);
    check(&set, &[], 2, "<PATH>...");
    check(&set, &["-"], 2, "stdin");
    check(&set, &["set", "--shard", "3/2"], 2, "3 is not below 2");
    check(&set, &["set", "--shard", "1"], 2, "expected I/N");
    check(&set, &["set", "--resume"], 2, "--report <FILE>");
    check(&set, &["set", "--view"], 2, "--view");
    check(&set, &["set", "--fail-on-error"], 2, "--fail-on-error");
    check(&set, &["--view"], 2, "--ndjson");
    check(&set, &["set", "--require-valid", "unknown"], 2, "anthropic, openai");
    check(&set, &["set", "--require-saving", "120"], 2, "0 to 100");
    check(&set, &["set", "--require-fit", "many"], 2, "--require-fit");
    check(&set, &["set", "--max-failures", "-1"], 2, "-1");
    check(&set, &["set", "--jobs", "0"], 2, "--jobs");
    check(&set, &["set", "--dryrun"], 2, "--dry-run");
    check(&set, &["set", "-s", "strip-tools", "-p", "light"], 2, "--profile");
    check(&set, &["set", "-s", "strip-tools:mode=wat"], 2, "not one of");
    check(&set, &["set", "-s", "unknown"], 10, "failed to find strategy `unknown`");
    check(&set, &["set", "--report", "r", "--junit", "./r"], 2, "the same file");
    check(&set, &["set", "--report", "set"], 4, "directory");
    check(&set, &["set", "--junit", "set"], 4, "directory");
    check(&set, &["set", "--out", "./set/"], 2, "--out is the folder");
    for flag in ["--report=r", "--json", "--shard=0/2", "--max-failures=1", "--jobs=2", "set"] {
        check(&set, &["--ndjson", flag], 2, "cannot be used with");
    }
}

#[test]
fn profile_missing_everywhere_is_one_error() {
    let world = World::new();
    let mut transcripts = Vec::new();
    for workspace in ["one", "two"] {
        let folder = format!("set/{workspace}/.jp/conversations/17738399468-c");
        transcripts.push(world.write_conversation(&folder, &Conversation::bulky(6)));
    }
    let args = ["batch", "set", "--profile", "mine"];
    let output = world.run(&args).exits(2).reports("error: there is no profile `mine`");
    assert!(!output.stderr.contains("failed: "), "{}", output.stderr);
    // If one workspace has the profile, the error is reported for each transcript of the others.
    let config = "[conversation.compaction.profiles.mine]\ntool_calls = \"strip\"\n";
    fs::write(world.path("set/two/.jp-compact.toml"), config).unwrap();
    world.run(&args).exits(19).reports("failed: set/one/").reports("1 compacted, 1 failed");
    transcripts[0].assert_untouched();
}

#[test]
fn settings_of_a_conversation_can_define_the_profile() {
    let world = World::new();
    let folder = ".jp/conversations/17738399469-c";
    world.write_conversation(".jp/conversations/17738399468-c", &Conversation::bulky(6));
    world.write_conversation(folder, &Conversation::bulky(6));
    let profile = "conversation.compaction.profiles.mine.strategies=[\"strip-tools\"]";
    world.run(&["config", "set", "--conversation", folder, profile]).exits(0);
    world.run(&["batch", folder, "--profile", "mine", "-n"]).exits(0).reports("1 compacted");
    world.run(&["batch", ".", "--profile", "mine", "-n"]).exits(19).reports("1 compacted, 1 failed");
}
