//! The facts that the text of a summary lacks: the section after the text, and the length of both.

use super::*;

/// Returns two turns: a constraint, a long text of the user, and a call for each of 300 files.
fn many_facts() -> Vec<EventLine> {
    let reads =
        (0..300).map(|file| (0, call(json!({"path": format!("src/file{file}.rs")}), "", false)[0].clone()));
    let asks = [(0, user("Never push to the branch of a release.")), (0, user(&"word ".repeat(20_000)))];
    events(&asks.into_iter().chain(reads).chain([(1, assistant("Done."))]).collect::<Vec<_>>())
}

#[test]
fn text_and_section_have_the_length_of_a_summary() {
    let (rounds, outcome) =
        play(&asked(1, Some(200_000)), &many_facts(), |need| ok(&"n".repeat(need.max_tokens as usize * 4)));
    let (payload, diagnostics) = summary(outcome);
    let text = payload.summary.unwrap().summary;
    assert!(text.contains("\n- Never push to the branch of a release.\n"), "{text}");
    // A name counts twice, because it has more tokens than prose.
    assert!((4 * 3_687 + 700..=4 * 4_096).contains(&text.len()), "{}", text.len());
    assert_eq!(rounds.len(), 1);
    let message = &diagnostics[0].message;
    assert!(message.starts_with("appended 1 constraint, ") && message.contains("; left out "), "{message}");
}

#[test]
fn merged_parts_have_one_section() {
    let mut request = asked(1, Some(8_000));
    request.limits.needs_many = true;
    // The model writes a section into each note.
    let section = "## Kept verbatim\n\nConstraints of the user, the latest last:\n- Never push to the branch of a release.";
    let (rounds, outcome) =
        play(&request, &many_facts(), |need| ok(&format!("note {}\n\n{section}", need.key)));
    let merges = rounds.iter().flatten().filter(|need| need.key.starts_with(['m', 't'])).count();
    assert!(rounds[0].len() > 5 && merges > 0, "{} {merges}", rounds[0].len());
    let text = summary(outcome).0.summary.unwrap().summary;
    assert_eq!(text.matches("Kept verbatim").count(), 1, "{text}");
    assert_eq!(text.matches("Never push to the branch of a release.").count(), 1, "{text}");
    assert!(text.starts_with("note text\n\n## Kept verbatim\n") && text.contains("src/file299.rs"), "{text}");
}
