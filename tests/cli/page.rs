//! The HTML pages of `eval` and `diff`. The tests with a browser are ignored by default. CI runs them: it sets
//! `JP_COMPACT_TEST_BROWSER` to a Python with Playwright, and `JP_COMPACT_TEST_AXE` to the file of `axe-core`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Conversation, World};

/// Texts that run a script in a page that does not escape them.
const ATTACKS: [&str; 4] = [
    "<script>window.forged=1</script>",
    "</title></style></pre><img src=x onerror=window.forged=1>",
    "\"><svg onload=window.forged=1>",
    "' onmouseover='window.forged=1' autofocus onfocus='window.forged=1",
];

/// Returns a conversation with enough tool results for a cut. Every text has an attack, and later turns use earlier
/// names.
fn hostile_conversation() -> Conversation {
    let mut conversation = Conversation::new();
    for turn in 0..24 {
        let attack = ATTACKS[turn % ATTACKS.len()];
        let names: String = (0..12)
            .map(|name| format!("src/part_{turn}/file_{name}_{turn}.rs has {turn}{name}11 lines {attack}\n"))
            .collect();
        let earlier = turn.saturating_sub(9);
        let used = format!(
            "Look at src/part_{earlier}/file_3_{earlier}.rs and file_4_{earlier} with {earlier}311 {attack}"
        );
        conversation = conversation
            .turn(&format!("Always keep the {attack} of turn {turn}."))
            .call(
                "search",
                json!({"query": used, "path": format!("src/part_{earlier}/file_5_{earlier}.rs")}),
                &names,
            )
            .message(&used);
    }
    conversation
}

/// Makes the page and the report of an evaluation.
fn evaluate(world: &World, transcript: &str, extra: &[&str]) -> (PathBuf, PathBuf) {
    let page = world.path("page.html");
    let arguments =
        ["eval", transcript, "--strategy", "strip-tools", "--strategy", "strip-tools:mode=strip-responses"];
    let rounds = ["--rounds", "--json", "--html", page.to_str().unwrap()];
    let output = world.run(&[&arguments[..], &rounds, extra].concat()).exits(0);
    (page, world.write_file("report.json", &output.stdout))
}

/// Makes the page and the report of a dry run that strips tools.
fn compare(world: &World, transcript: &str, extra: &[&str]) -> (PathBuf, PathBuf) {
    let page = world.path("diff.html");
    let arguments = ["diff", transcript, "--strategy", "strip-tools", "--keep-last", "1", "--json", "--html"];
    let output = world.run(&[&arguments[..], &[page.to_str().unwrap()], extra].concat()).exits(0);
    (page, world.write_file("diff.json", &output.stdout))
}

/// Opens a page in Chromium, and fails for each problem that `tests/page/check.py` reports.
fn check_in_browser(page: &Path, report: &Path) {
    let program = |variable: &str| {
        let path = std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set"));
        assert!(Path::new(&path).is_file(), "{path} is missing");
        path
    };
    let mut check = Command::new(program("JP_COMPACT_TEST_BROWSER"));
    check
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/page/check.py"))
        .arg(page)
        .arg("--json")
        .arg(report);
    check.args(["--axe", &program("JP_COMPACT_TEST_AXE"), "--chromium", &chromium()]);
    if let Ok(folder) = std::env::var("JP_COMPACT_TEST_SCREENSHOTS") {
        check.args(["--screenshots", &folder]);
    }
    let output = check.current_dir(page.parent().unwrap()).output().unwrap();
    let problems = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{problems}{}", String::from_utf8_lossy(&output.stderr));
}

fn chromium() -> String {
    let programs = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    programs
        .into_iter()
        .find(|program| Path::new(program).is_file())
        .expect("Chromium is not installed")
        .into()
}

#[test]
fn page_has_the_figures_of_the_report_and_escapes_texts() {
    let world = World::new();
    world.write_conversation("hostile", &hostile_conversation());
    let (page, report) = evaluate(&world, "hostile", &[]);
    let page = fs::read_to_string(page).unwrap();
    let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    for attack in ["<script", "<img", "<svg onload"] {
        assert!(!page.contains(attack), "{attack} is not escaped");
    }
    assert!(page.contains("&lt;script&gt;window.forged=1"), "the page shows the texts");
    let saved = &report["strategies"][2]["saved"]["percent"];
    let figure = format!("<data value=\"{saved}\" data-key=\"strategies.2.saved.percent\">");
    assert!(page.contains(&figure), "{figure} is missing");
    for link in ["url(", "href=\"http", "@import"] {
        assert!(!page.contains(link), "the page has {link}, which loads something");
    }
}

#[test]
fn page_without_texts_has_names_and_numbers_only() {
    let world = World::new();
    world.write_conversation("hostile", &hostile_conversation());
    let (page, _) = evaluate(&world, "hostile", &["--no-text"]);
    let page = fs::read_to_string(page).unwrap();
    assert!(!page.contains("forged") && !page.contains("part_3"), "a text is in the page");
    assert!(page.contains("class=\"arc"), "the ribbon stays");
}

#[test]
fn page_does_not_replace_another_file() {
    let world = World::new();
    let transcript = world.write_conversation("hostile", &hostile_conversation());
    let events = transcript.folder().join("events.json");
    let arguments = ["eval", "hostile", "--strategy", "strip-tools", "--html", events.to_str().unwrap()];
    world.run(&arguments).exits(2).reports("exists and is not a page");
    transcript.assert_untouched();
    // A page is replaced.
    evaluate(&world, "hostile", &[]);
    evaluate(&world, "hostile", &[]);
}

#[test]
fn diff_page_has_the_figures_of_the_report_and_escapes_texts() {
    let world = World::new();
    world.write_conversation("hostile", &hostile_conversation());
    let (page, report) = compare(&world, "hostile", &[]);
    let page = fs::read_to_string(page).unwrap();
    let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    for attack in ["<script", "<img", "<svg onload"] {
        assert!(!page.contains(attack), "{attack} is not escaped");
    }
    assert!(page.contains("<del>-src/part_3/file_4_3.rs has 3411 lines"), "the page shows removed texts");
    assert!(page.contains("default-src 'none'"));
    let changes = report["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 46, "a call and a result in each of 23 turns");
    let last = &changes[45]["tokens"]["view_before"];
    for (key, value) in [
        ("saved.percent", &report["saved"]["percent"]),
        ("overlays.0.tokens.view_after", &report["overlays"][0]["tokens"]["view_after"]),
        ("changes.45.tokens.view_before", last),
    ] {
        let figure = format!("<data value=\"{value}\" data-key=\"{key}\">");
        assert!(page.contains(&figure), "{figure} is missing");
    }
}

#[test]
fn diff_page_without_texts_has_names_and_numbers_only() {
    let world = World::new();
    world.write_conversation("hostile", &hostile_conversation());
    let (page, _) = compare(&world, "hostile", &["--no-text"]);
    let page = fs::read_to_string(page).unwrap();
    assert!(!page.contains("forged") && !page.contains("part_3"), "a text is in the page");
    assert!(page.contains("class=\"shortened\"") && page.contains("<code>search</code>"));
    world.run(&["diff", "hostile", "--no-text"]).exits(2);
    let decline = r#"echo '{"type":"decline","id":"c2","reason":"part_3 is secret"}'"#;
    world.write_plugin("leaks", decline);
    let (page, _) = compare(
        &world,
        "hostile",
        &["--strategy=leaks", "--trust-dir=plugins", "--sandbox=contained", "--no-text"],
    );
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("leaks</code> made no overlay") && !page.contains("part_3"));
}

/// The tool results have characters that become longer when they are escaped.
#[test]
fn pages_are_smaller_than_a_conversation_of_two_megabytes() {
    let world = World::new();
    let mut conversation = Conversation::new();
    for turn in 0..1_100 {
        let lines: String = (0..18)
            .map(|line| format!("<a href=\"src/part_{turn}/{line}.rs\">&'{turn}{line}11'</a>\n"))
            .collect();
        let earlier = format!("src/part_{}/3.rs", turn / 2);
        conversation =
            conversation.turn("Go on.").call("search", json!({"path": earlier}), &lines).message(&earlier);
    }
    let transcript = world.write_conversation("long", &conversation);
    let bytes = transcript.original_bytes().len();
    assert!((1_800_000..2_200_000).contains(&bytes), "{bytes} bytes");
    let (page, report) = compare(&world, "long", &[]);
    let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    assert!(report["changes"].as_array().unwrap().len() > 2_000);
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.len() < 2_000_000, "the page of `diff` has {} bytes", text.len());
    assert!(text.contains("smaller changes are left out") && text.contains("no room for further texts"));
    let (page, _) = evaluate(&world, "long", &["--cut=50"]);
    let bytes = fs::metadata(page).unwrap().len();
    assert!(bytes < 2_000_000, "the page of `eval` has {bytes} bytes");
}

#[test]
#[ignore = "needs Chromium and Playwright; CI runs it"]
fn page_works_in_a_browser() {
    let world = World::new();
    world.write_conversation("hostile", &hostile_conversation());
    let (page, report) = evaluate(&world, "hostile", &[]);
    check_in_browser(&page, &report);
    let (page, report) = compare(&world, "hostile", &[]);
    check_in_browser(&page, &report);
}
