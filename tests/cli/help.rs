//! The help of every command: `-h` fits a screen, with few exceptions, and has two examples, `--help` has every option,
//! and the manual has a page for every command.

use std::collections::BTreeSet;
use std::process::Command;

use crate::support::{CommandOutput, Conversation, World};

/// The commands whose short help is longer than a screen, because they have many common options.
const LONG: [&str; 3] = ["", "batch", "eval"];
const SCREEN_LINES: usize = 24;
const LONG_LINES: usize = 40;
const COLUMNS: usize = 80;
const NARROW_COLUMNS: usize = 60;

fn help(world: &World, command: &str, flag: &str) -> String {
    help_in_columns(world, command, flag, COLUMNS)
}

fn help_in_columns(world: &World, command: &str, flag: &str, columns: usize) -> String {
    let mut process: Command = world.command(&command.split_whitespace().chain([flag]).collect::<Vec<_>>());
    let output = world.finish(process.env("COLUMNS", columns.to_string()));
    CommandOutput::exits(output, 0).text().to_owned()
}

/// Returns all commands: `show`, `strategy test`, and so on. The first is the empty one.
fn commands(world: &World) -> Vec<String> {
    let mut commands = vec![String::new()];
    let mut next = 0;
    while let Some(command) = commands.get(next).cloned() {
        next += 1;
        let text = help(world, &command, "-h");
        let lines =
            text.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        let names = lines.filter_map(|line| line.split_whitespace().next());
        commands.extend(names.map(|name| format!("{command} {name}").trim().to_owned()));
    }
    assert!(commands.len() > 30, "{commands:?}");
    commands
}

#[test]
fn short_help_fits_a_screen_and_has_two_examples() {
    let world = World::new();
    for command in commands(&world) {
        let text = help(&world, &command, "-h");
        let max = if LONG.contains(&&*command) { LONG_LINES } else { SCREEN_LINES };
        assert!(text.lines().count() <= max, "{command}: {} lines\n{text}", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{command}\n{text}");
        let is_wrapped =
            text.lines().any(|line| line.starts_with(&" ".repeat(10)) && !line.trim_start().starts_with('-'));
        assert!(!is_wrapped, "{command} has a text of two lines\n{text}");
        let examples = text.split_once("Examples:\n").unwrap_or_else(|| panic!("{command}\n{text}")).1;
        assert_eq!(
            examples.lines().filter(|line| line.contains("jp-compact")).count(),
            2,
            "{command}\n{text}"
        );
    }
}

#[test]
fn short_help_fits_a_narrow_terminal() {
    let world = World::new();
    // These examples have long paths or keys.
    let has_long_example = ["completions", "config", "config set", "config unset"];
    for command in commands(&world) {
        let text = help_in_columns(&world, &command, "-h", NARROW_COLUMNS);
        // clap does not wrap the usage.
        let mut lines = text.lines().filter(|line| !line.starts_with("Usage: "));
        assert!(lines.all(|line| line.chars().count() <= NARROW_COLUMNS), "{command}\n{text}");
        let mut examples = text.lines().skip_while(|line| *line != "Examples:").skip(1);
        let are_whole = examples.all(|line| line.starts_with("  jp-compact ") || line.starts_with("    "));
        assert!(are_whole || has_long_example.contains(&&*command), "{command}\n{text}");
    }
    let text = help_in_columns(&world, "", "-h", NARROW_COLUMNS);
    let list = text.split_once("Commands:\n").and_then(|(_, rest)| rest.split_once("\n\n")).unwrap().0;
    let is_row = |line: &str| line.starts_with("  ") && !line.starts_with("   ");
    assert!(list.lines().all(is_row), "{text}");
}

#[test]
fn rare_options_are_only_in_the_long_help() {
    let world = World::new();
    for command in ["", "batch", "eval", "auto", "diff", "fork", "query", "mcp"] {
        let (short, long) = (help(&world, command, "-h"), help(&world, command, "--help"));
        assert!(!short.contains("--trust-lock") && long.contains("--trust-lock"), "{command}");
        for heading in ["Strategies:", "Models:", "Trust:", "Output:", "Advanced:"] {
            assert!(long.lines().any(|line| line == heading), "{command} has no {heading}\n{long}");
        }
    }
    for command in ["eval", "batch"] {
        let short = help(&world, command, "-h");
        for heading in ["Strategies:", "Models:", "Output:"] {
            assert!(short.lines().any(|line| line == heading), "{command} has no {heading}\n{short}");
        }
    }
}

#[test]
fn manual_has_every_page_that_it_names() {
    let world = World::new();
    std::fs::create_dir(world.path("man1")).unwrap();
    world.run(&["man", "--dir", "man1"]).exits(0).reports("pages to man1");
    let names: BTreeSet<String> = crate::support::file_names(&world.path("man1")).into_iter().collect();
    let expected = commands(&world).len();
    assert_eq!(names.len(), expected, "{names:?}");
    for name in &names {
        let page = std::fs::read_to_string(world.path("man1").join(name)).unwrap();
        let named = page.replace("\\-", "-");
        for reference in named.split("jp-compact-").skip(1).filter_map(|rest| rest.split_once("(1)")) {
            let page = format!("jp-compact-{}.1", reference.0);
            assert!(
                names.contains(&page) || reference.0.contains(char::is_whitespace),
                "{name} names {page}"
            );
        }
        let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
        let known = [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "OPTIONS",
            "COMMANDS",
            "\"EXAMPLES\"",
            "\"EXIT STATUS\"",
            "VERSION",
        ];
        assert!(sections.iter().all(|section| known.contains(section)), "{name}: {sections:?}");
        assert_eq!(sections.iter().collect::<BTreeSet<_>>().len(), sections.len(), "{name}: {sections:?}");
    }
}

#[test]
fn manual_page_is_found_by_its_words() {
    let world = World::new();
    let page = world.run(&["man", "strategy", "test"]).exits(0);
    assert!(page.text().contains("jp\\-compact\\-strategy\\-test"), "{}", page.text());
    assert_eq!(world.run(&["man", "strategy-test"]).exits(0).text(), page.text());
    world.run(&["man", "strategy", "tst"]).exits(2).reports("did you mean `strategy-test`?");
    world.run(&["man", "nothing-like-it"]).exits(2).reports("the commands are auto, batch,");
}

#[test]
fn command_without_arguments_shows_conversations_and_the_next_commands() {
    let world = World::new();
    world.write_conversation(".jp/conversations/17738399468-review", &Conversation::with_turns(2));
    world.write_conversation(".jp/conversations/17738399469-other", &Conversation::with_turns(2));
    let output = world.run::<&str>(&[]).exits(0);
    let text = output.text();
    assert!(text.contains("  jp: 2 conversations, the last is 1773839946"), "{text}");
    let commands: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("  jp-compact ")).collect();
    assert_eq!(commands.len(), 3, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
    for command in commands {
        let arguments: Vec<&str> = command.split("  ").next().unwrap().split(' ').collect();
        world.run(&arguments).exits(0);
    }
    // A line of JP's plugin protocol on stdin is still answered.
    let output = world.run_with_stdin(&[], b"{\"type\":\"describe\"}\n").exits(0);
    assert_eq!(output.line()["type"], "describe");
}

#[test]
fn command_without_arguments_shows_the_sessions_of_an_agent() {
    let world = World::new();
    let id = "0199fd18-25ed-7671-90cc-5ecb92e14c45";
    let folder = world.home(".codex/sessions/2026/11/21");
    std::fs::create_dir_all(&folder).unwrap();
    let here = world.path("").canonicalize().unwrap();
    let record = format!(
        "{{\"type\":\"session_meta\",\"payload\":{{\"id\":\"{id}\",\"cwd\":\"{}\"}}}}\n",
        here.display()
    );
    std::fs::write(folder.join(format!("rollout-2026-11-21T07-52-56-{id}.jsonl")), record).unwrap();
    let output = world.run::<&str>(&[]).exits(0);
    assert!(output.text().contains("  codex: 1 session, the last is 0199fd18 (now)"), "{}", output.text());
    assert!(output.text().contains("  jp-compact resume 0199fd18  "), "{}", output.text());
    world.run(&["fork", "0199fd81"]).exits(4).reports("did you mean `0199fd18`?");
}

#[test]
fn mistyped_names_are_corrected() {
    let world = World::new();
    world.write_conversation(".jp/conversations/17738399468-review", &Conversation::with_turns(2));
    let check = |arguments: &[&str], code: i32, name: &str| {
        world.run(arguments).exits(code).reports(&format!("did you mean `{name}`?"));
    };
    check(&["17738399468", "-s", "strp-tools"], 10, "strip-tools");
    check(&["17738399468", "-p", "hevay"], 2, "heavy");
    check(&["17738399468", "--compact=lightt"], 2, "light");
    check(&["schema", "batch-reports"], 2, "batch-report");
    check(&["strategy", "show", "summarizee"], 10, "summarize");
    check(&["show", "17738399648"], 4, "17738399468");
    check(&["17738399648"], 4, "17738399468");
    check(&["fork", "17738399648", "--compact"], 4, "17738399468");
}

#[test]
fn color_is_for_terminals_and_on_request() {
    let world = World::new();
    let error = |arguments: &[&str], variable: Option<(&str, &str)>| {
        let mut command = world.command(&[&["show", "nowhere"], arguments].concat());
        command.envs(variable);
        world.finish(&mut command).exits(4).stderr
    };
    assert!(error(&[], None).starts_with("error: "));
    let colored = "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m ";
    assert!(error(&["--color", "always"], None).starts_with(colored));
    assert!(error(&["--color=always"], Some(("NO_COLOR", "1"))).starts_with(colored));
    assert!(error(&[], Some(("CLICOLOR_FORCE", "1"))).starts_with(colored));
    assert!(error(&["--color=never"], Some(("CLICOLOR_FORCE", "1"))).starts_with("error: "));
    assert!(world.run(&["-h", "--color=always"]).exits(0).text().contains("\u{1b}["));
    assert!(!world.run(&["-h"]).exits(0).text().contains("\u{1b}["));
    world.run(&["show", "nowhere", "--color", "red"]).exits(2);
    let mut bare = world.command::<&str>(&[]);
    assert!(world.finish(bare.env("CLICOLOR_FORCE", "1")).exits(2).stderr.starts_with(colored));
    assert!(world.run::<&str>(&[]).exits(2).stderr.starts_with("error: "));
}
