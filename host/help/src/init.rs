//! The choice of `init`: the measured strategies, the best strategy, and the configuration that makes it the default.
//! All functions except [`target`] are pure functions of the evaluation, so the rule can be tested without sessions.

use std::path::PathBuf;

use jp_compact_runtime::environment::Environment;
use jp_compact_schema::document::{EvalReport, EvalRow, EvalStatus};

use crate::overview::JP;

/// The measured strategies: all bundled strategies that need no model.
pub const ROWS: [&str; 6] = ["strip-reasoning", "strip-tools", "micro", "trim", "extract", "digest"];
/// A hook of Claude Code that compacts a session after a turn, if that is due.
pub const HOOK: &str =
    r#"{ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "jp-compact auto --hook" }] }] } }"#;
/// The strategy that every profile begins with.
const REASONING: &str = "strip-reasoning";
/// The minimum part of the names that a profile must keep, in percent.
const RECALL_MIN: f64 = 80.0;
/// The minimum saving of a profile, in percent.
const SAVING_MIN: f64 = 5.0;

/// A measured strategy.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The name of the strategy. Messages call it a profile.
    pub profile: String,
    /// The saved tokens of the view, in percent.
    pub saved: f64,
    /// The kept part of the paths, numbers, and names that were used again, in percent. `None` without data.
    pub recall: Option<f64>,
}

/// Returns the file that `init` writes: in the current workspace of JP, or in the user's configuration.
#[must_use]
pub fn target(environment: &Environment) -> Option<PathBuf> {
    let workspace = environment.cwd.ancestors().find(|folder| folder.join(".jp").is_dir());
    match workspace {
        Some(folder) => Some(folder.join(".jp-compact.toml")),
        None => environment.config().map(|folder| folder.join("config.toml")),
    }
}

/// Returns the measured strategies, the largest saving first. Without any, the sessions are too short.
#[must_use]
pub fn choices(report: &EvalReport) -> Vec<Choice> {
    let rows = report.strategies.iter().filter(|row| ROWS.contains(&&*row.name) && row.cuts > 0);
    let mut choices: Vec<Choice> = rows.filter(|row| row.status != EvalStatus::Failed).map(choice).collect();
    choices.sort_by(|one, other| other.saved.total_cmp(&one.saved));
    choices
}

fn choice(row: &EvalRow) -> Choice {
    let classes = [row.recall.path, row.recall.number, row.recall.identifier];
    let kept: u64 = classes.iter().map(|class| class.kept).sum();
    let at_risk: u64 = classes.iter().map(|class| class.at_risk).sum();
    let recall = (at_risk > 0).then(|| 100.0 * kept as f64 / at_risk as f64);
    Choice { profile: row.name.clone(), saved: row.saved.percent, recall }
}

/// Returns the strategy that saves most, of those that save and keep enough.
#[must_use]
pub fn best(choices: &[Choice]) -> Option<&Choice> {
    let keeps_enough = |choice: &&Choice| choice.recall.is_none_or(|recall| recall >= RECALL_MIN);
    choices.iter().filter(keeps_enough).find(|choice| choice.saved >= SAVING_MIN)
}

/// Returns the lines of the table.
#[must_use]
pub fn table(choices: &[Choice]) -> Vec<String> {
    let percent = |value: f64| format!("{value:.1} %");
    let mut lines = vec![format!("{:<16}{:>8}  {:>8}", "STRATEGY", "SAVED", "KEPT")];
    lines.extend(choices.iter().map(|choice| {
        let recall = choice.recall.map_or_else(|| "-".to_owned(), percent);
        format!("{:<16}{:>8}  {recall:>8}", choice.profile, percent(choice.saved))
    }));
    lines
}

/// Returns whether sessions of agents other than JP were measured.
#[must_use]
pub fn has_agents(report: &EvalReport) -> bool {
    report
        .transcripts
        .iter()
        .any(|transcript| transcript.format.as_deref().is_some_and(|format| format != JP))
}

/// Returns the configuration that makes a strategy the default. For agents, it keeps what the built-in profile `agent`
/// keeps, because a session of an agent is often one long turn.
#[must_use]
pub fn config(choice: &Choice, is_for_agents: bool) -> String {
    let Choice { profile, saved, .. } = choice;
    let (keep, min_turns) =
        if is_for_agents { ("keep_steps = 3\n", "min_turns = 0\n") } else { Default::default() };
    // Old reasoning is not needed again, so each profile removes it.
    let strategies = match &**profile {
        REASONING => format!("\"{REASONING}\""),
        // The range keeps the newest steps, as in the profile `agent`.
        "extract" if is_for_agents => {
            format!("\"{REASONING}\", {{ name = \"extract\", options = {{ keep_steps = 0 }} }}")
        }
        _ => format!("\"{REASONING}\", \"{profile}\""),
    };
    format!(
        "# Written by `jp-compact init`: `{profile}` saved {saved:.1} % of the latest sessions.\n\
         [conversation.compaction]\ndefault_profile = \"measured\"\n\n\
         [conversation.compaction.profiles.measured]\nstrategies = [{strategies}]\n{keep}\n\
         [conversation.compaction.auto]\nprofile = \"measured\"\n{min_turns}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(profile: &str, saved: f64, recall: Option<f64>) -> Choice {
        Choice { profile: profile.into(), saved, recall }
    }

    #[track_caller]
    fn check(choices: &[Choice], expected: Option<&str>) {
        assert_eq!(best(choices).map(|choice| choice.profile.as_str()), expected);
    }

    #[test]
    fn best_choice_saves_most_and_keeps_enough() {
        let (large, small) = (choice("strip-tools", 70.0, Some(40.0)), choice("micro", 30.0, Some(90.0)));
        check(&[large.clone(), small.clone()], Some("micro"));
        check(&[large], None);
        check(&[choice("trim", 4.0, Some(100.0))], None);
        check(&[choice("trim", 40.0, None), small], Some("trim"));
    }

    #[test]
    fn every_bundled_strategy_without_a_model_is_measured() {
        let with_model = ["collapse", "summarize"];
        let mut measured = ROWS.to_vec();
        measured.extend(with_model);
        measured.sort_unstable();
        assert_eq!(measured, crate::strategies::BUNDLED.map(|(name, _)| name));
    }

    #[test]
    fn profile_removes_reasoning_once() {
        let config = |profile| config(&choice(profile, 9.0, None), false);
        assert!(config("micro").contains("[\"strip-reasoning\", \"micro\"]"));
        assert!(config("strip-reasoning").contains("[\"strip-reasoning\"]"));
    }

    #[test]
    fn numbers_are_aligned() {
        let lines = table(&[choice("strip-tools", 70.0, Some(100.0)), choice("micro", 3.5, None)]);
        assert_eq!(lines[1], "strip-tools       70.0 %   100.0 %");
        assert_eq!(lines[2], "micro              3.5 %         -");
    }
}
