//! The warning that stripped calls lose paths, in `show` and in the report of a run.

use serde_json::{Value, json};

use crate::support::{Conversation, World};

/// Returns turns with calls. Each argument names a path, and each result another one. The user names `shared.rs`.
fn conversation(turns: usize) -> Conversation {
    (0..turns).fold(Conversation::new(), |conversation, turn| {
        conversation
            .turn("Look at src/shared.rs again.")
            .reasoning("It has to be read.")
            .call(
                "fs_read_file",
                json!({"path": format!("src/argument_{turn}.rs")}),
                &format!(
                    "src/shared.rs and src/argument_{turn}.rs\nsrc/result_{turn}.rs:1: x\n{}",
                    "a line of no importance\n".repeat(40)
                ),
            )
            .message("It is read.")
    })
}

fn world(turns: usize) -> World {
    let world = World::new();
    world.write_conversation("talk", &conversation(turns));
    world
}

#[track_caller]
fn lost(world: &World, arguments: &[&str]) -> Value {
    world.run(&[arguments, &["--json"]].concat()).exits(0).line()["lost_paths"].clone()
}

#[test]
fn dry_run_and_show_name_the_better_policy() {
    let world = world(8);
    let run = ["talk", "--keep-last=0", "-n"];
    // The arguments name 8 paths. The results name these, 8 others, and `shared.rs`, which the view still has.
    let better = json!({"tool_calls": "strip-responses", "lost": 8});
    let expected = json!({"stripped": 17, "lost": 16, "is_much": true, "better": better});
    assert_eq!(lost(&world, &run), expected);
    world.run(&run).exits(0).reports(
        "  the view would lose 16 of the 17 paths in stripped calls; with `--compact=r+t=strip-responses` it would lose 8\n",
    );
    assert_eq!(lost(&world, &["show", "talk"]), Value::Null, "nothing is stripped");
    world.run(&["talk", "--keep-last=0"]).exits(0);
    assert_eq!(lost(&world, &["show", "talk"]), expected);
    let shown = world.run(&["show", "talk"]).exits(0);
    let line = "the view loses 16 of the 17 paths in stripped calls; with `--compact=t=strip-responses` it would lose 8\n";
    assert!(shown.text().contains(line), "{}", shown.text());
    // The named policy has the effect that the line promises.
    world.run(&["talk", "--keep-last=0", "--compact=t=strip-responses"]).exits(0);
    assert_eq!(
        lost(&world, &["show", "talk"]),
        json!({"stripped": 17, "lost": 8, "is_much": true, "better": null})
    );
    let shown = world.run(&["show", "talk"]).exits(0);
    let line = "the view loses 8 of the 17 paths in stripped calls\n";
    assert!(shown.text().contains(line), "{}", shown.text());
}

#[test]
fn paths_that_the_view_still_names_are_not_lost() {
    let world = world(8);
    // The newest three turns are kept, so only the paths of the other five turns are lost.
    let better = json!({"tool_calls": "strip-responses", "lost": 5});
    let expected = json!({"stripped": 11, "lost": 10, "is_much": true, "better": better});
    assert_eq!(lost(&world, &["talk", "--keep-last=3", "-n"]), expected);
    let named = (0..8).map(|turn| format!("src/argument_{turn}.rs src/result_{turn}.rs")).collect::<Vec<_>>();
    world.write_conversation("named", &conversation(8).turn(&named.join(" ")).message("Fine."));
    let expected = json!({"stripped": 17, "lost": 0, "is_much": false, "better": null});
    assert_eq!(lost(&world, &["named", "--keep-last=1", "-n"]), expected);
}

#[test]
fn small_losses_and_other_policies_are_not_reported() {
    let small = world(4);
    let run = ["talk", "--keep-last=2", "-n"];
    let better = json!({"tool_calls": "strip-responses", "lost": 2});
    assert_eq!(lost(&small, &run), json!({"stripped": 5, "lost": 4, "is_much": false, "better": better}));
    let text = small.run(&run).exits(0).stderr;
    assert!(!text.contains("in stripped calls"), "{text}");
    let world = world(8);
    for run in ["-s=strip-reasoning", "-s=strip-tools:mode=strip-responses", "--compact=t=omit"] {
        assert_eq!(lost(&world, &["talk", "--keep-last=0", "-n", run]), Value::Null, "{run}");
    }
    // Only dry runs and runs on a terminal search for lost paths.
    assert_eq!(lost(&world, &["talk", "--keep-last=0"]), Value::Null);
}

#[test]
fn automatic_run_names_the_better_policy() {
    let world = world(10);
    let auto = ["auto", "talk", "-n", "--context-window=1000"];
    let line = world.run(&[&auto[..], &["--json"]].concat()).exits(0).line();
    assert_eq!(line["report"]["lost_paths"]["better"]["tool_calls"], "strip-responses");
    world.run(&auto).exits(0).reports("the view would lose 14 of the 15 paths in stripped calls; ");
}
