//! The gates: conditions that every strategy of a report must meet. The controls `none` and `drop-all` are exempt. A
//! row without enough data does not meet a gate.

use jp_compact_engine::percent::{compared_percent, exact_percent};
use jp_compact_evidence::Class;
use jp_compact_schema::document::{
    EvalGate, EvalGateFailure, EvalRecall, EvalRecallCount, EvalReport, EvalRow, EvalStatus,
};

/// The classes of a recall gate that names no class.
const DEFAULT_CLASSES: [Class; 3] = [Class::Path, Class::Number, Class::Identifier];

/// The gates that the user requested.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EvalGates {
    pub recall: Vec<RecallGate>,
    /// The minimum saving, in percent.
    pub saving: Option<f64>,
    /// The maximum number of requests until a compaction has paid for itself.
    pub break_even: Option<f64>,
}

/// The minimum recall of a class, or of each of paths, numbers, and identifiers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecallGate {
    pub percent: f64,
    pub class: Option<Class>,
}

impl std::str::FromStr for RecallGate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (percent, class) = match text.split_once(':') {
            Some((percent, class)) => (percent, Some(class.parse()?)),
            None => (text, None),
        };
        match percent.trim().trim_end_matches('%').trim().parse() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Self { percent, class }),
            _ => Err("expected a number from 0 to 100, and optionally `:` and a class".to_owned()),
        }
    }
}

impl EvalGates {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks a report, and adds the results to it. Returns whether all gates are met.
    pub fn check(&self, report: &mut EvalReport) -> bool {
        let rows: Vec<&EvalRow> = report.strategies.iter().filter(|row| !is_fixed_control(row)).collect();
        let mut gates = Vec::new();
        for gate in &self.recall {
            let class = gate.class.map(|class| format!(":{}", class.as_str())).unwrap_or_default();
            let name = format!("--require-recall {}{class}", gate.percent);
            gates.push(check_rows(name, &rows, |row| gate.check(row)));
        }
        if let Some(percent) = self.saving {
            let check = |row: &EvalRow| {
                let saved = exact_percent(row.saved.tokens, row.tokens.view_before);
                (saved < percent).then(|| format!("saves {} %", compared_percent(saved, percent)))
            };
            gates.push(check_rows(format!("--require-saving {percent}"), &rows, check));
        }
        if let Some(most) = self.break_even {
            let check = |row: &EvalRow| match row.cache.break_even_requests {
                Some(requests) if requests <= most => None,
                Some(requests) => Some(format!("pays back after {requests} requests")),
                None => Some("saves nothing".to_owned()),
            };
            gates.push(check_rows(format!("--require-break-even {most}"), &rows, check));
        }
        report.gates = gates;
        report.gates.iter().all(|gate| gate.met)
    }
}

impl RecallGate {
    fn check(&self, row: &EvalRow) -> Option<String> {
        let default = DEFAULT_CLASSES.as_slice();
        let classes = self.class.as_ref().map_or(default, std::slice::from_ref);
        classes.iter().find_map(|class| {
            let count = recall_of(&row.recall, *class);
            let name = class.as_str();
            let (kept, at_risk) = (count.kept, count.at_risk);
            match count.percent.map(|_| exact_percent(kept.cast_signed(), at_risk)) {
                Some(percent) if percent >= self.percent => None,
                Some(percent) => {
                    let percent = compared_percent(percent, self.percent);
                    Some(format!("{name}: {percent} % ({kept} of {at_risk})"))
                }
                None => Some(format!("{name}: not enough data ({} at risk)", count.at_risk)),
            }
        })
    }
}

/// Returns whether a row is one of the controls that are in every report.
#[must_use]
pub fn is_fixed_control(row: &EvalRow) -> bool {
    matches!(row.name.as_str(), "none" | "drop-all") && row.options.is_empty()
}

/// Returns the recall of a class.
#[must_use]
pub fn recall_of(recall: &EvalRecall, class: Class) -> &EvalRecallCount {
    match class {
        Class::Path => &recall.path,
        Class::Number => &recall.number,
        Class::Identifier => &recall.identifier,
        Class::Word => &recall.word,
        Class::Command => &recall.command,
        Class::Error => &recall.error,
        Class::Quote => &recall.quote,
        Class::Constraint => &recall.constraint,
    }
}

/// Checks every row. Without a row, the gate is not met.
fn check_rows(gate: String, rows: &[&EvalRow], check: impl Fn(&EvalRow) -> Option<String>) -> EvalGate {
    let mut failures = Vec::new();
    for row in rows {
        let reason = match row.status {
            EvalStatus::Ok => check(row),
            EvalStatus::NotEnoughData => Some("not enough data: no transcript has a cut point".to_owned()),
            EvalStatus::Failed => Some("the strategy failed".to_owned()),
        };
        failures.extend(reason.map(|reason| EvalGateFailure { strategy: row.label.clone(), reason }));
    }
    EvalGate { gate, met: failures.is_empty() && !rows.is_empty(), failures }
}
