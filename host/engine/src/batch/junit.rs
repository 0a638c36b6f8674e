//! The report in JUnit format, for tools that show test results. It has a case for each transcript, and for each gate
//! about the whole batch. XML does not allow control characters, so visible characters replace them.

use std::fmt::Write as _;
use std::io::{self, Write};

use jp_compact_schema::report::{BatchTotal, GateReport, MissReport, Status, TranscriptReport};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

use super::{Gate, ReportLines};

/// The parts of the report other than the transcripts.
#[derive(Debug, Clone)]
pub struct Suite<'a> {
    /// The sums over all transcripts.
    pub total: &'a BatchTotal,
    /// The results of the gates.
    pub gates: &'a [GateReport],
}

/// Writes the report.
///
/// # Errors
/// The lines cannot be read, or `out` fails.
pub fn write(lines: &mut ReportLines, suite: &Suite<'_>, out: &mut dyn Write) -> io::Result<()> {
    let gates_with_case: Vec<&GateReport> =
        suite.gates.iter().filter(|gate| has_case(gate, suite.total)).collect();
    let mut failures = gates_with_case.iter().filter(|gate| !gate.met).count();
    lines.each(|line| {
        let entry: TranscriptReport = serde_json::from_slice(line)?;
        failures += usize::from(!entry.gates.is_empty());
        Ok(())
    })?;
    let total = suite.total;
    let tests = (total.transcripts + gates_with_case.len() as u64).to_string();
    let (failures, errors) = (failures.to_string(), total.failed.to_string());
    let (skipped, time) = (total.skipped.to_string(), seconds(total.elapsed_ms));
    let counts = [
        ("name", "jp-compact batch"),
        ("tests", &*tests),
        ("failures", &*failures),
        ("errors", &*errors),
        ("skipped", &*skipped),
        ("time", &*time),
    ];
    let mut xml = Writer::new_with_indent(out, b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    write_start(&mut xml, "testsuites", &counts)?;
    write_start(&mut xml, "testsuite", &counts)?;
    lines.each(|line| write_transcript(&mut xml, &serde_json::from_slice(line)?))?;
    for gate in gates_with_case {
        let mut problems = Vec::new();
        if !gate.met {
            let text = format!("{}: wanted {}, found {}", gate.gate, gate.wanted, gate.found);
            problems.push(Problem { element: "failure", kind: &gate.gate, text });
        }
        write_case(&mut xml, ("gates", &gate.gate), 0.0, &problems, None)?;
    }
    xml.write_event(Event::End(BytesEnd::new("testsuite")))?;
    xml.write_event(Event::End(BytesEnd::new("testsuites")))?;
    xml.get_mut().write_all(b"\n")
}

/// Returns whether a gate has its own case. The other gates concern single views, and are reported with the
/// transcripts. Without a successful transcript, every gate has a case.
fn has_case(gate: &GateReport, total: &BatchTotal) -> bool {
    let batch_gates = [Gate::RequireSaving, Gate::MaxFailures];
    total.transcripts == total.failed || batch_gates.iter().any(|batch_gate| batch_gate.as_str() == gate.gate)
}

type Xml<'a> = Writer<&'a mut dyn Write>;

/// An `error` or a `failure` of a case.
struct Problem<'a> {
    element: &'static str,
    kind: &'a str,
    text: String,
}

fn write_transcript(xml: &mut Xml<'_>, entry: &TranscriptReport) -> io::Result<()> {
    let mut problems = Vec::new();
    if let Some(error) = &entry.error {
        let mut text = error.message.clone();
        for cause in &error.causes {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n  {cause}");
        }
        problems.push(Problem { element: "error", kind: "failed", text });
    }
    for MissReport { gate, found } in &entry.gates {
        problems.push(Problem { element: "failure", kind: gate, text: format!("{gate}: {found}") });
    }
    let skip_reason = (entry.status == Status::Skipped).then_some("it already has these overlays");
    write_case(xml, ("transcripts", &entry.path), entry.elapsed_ms, &problems, skip_reason)
}

fn write_case(
    xml: &mut Xml<'_>,
    (class, name): (&str, &str),
    elapsed_ms: f64,
    problems: &[Problem<'_>],
    skip_reason: Option<&str>,
) -> io::Result<()> {
    let time = seconds(elapsed_ms);
    write_start(xml, "testcase", &[("classname", class), ("name", name), ("time", &time)])?;
    for problem in problems {
        let first_line = problem.text.lines().next().unwrap_or_default();
        write_start(xml, problem.element, &[("type", problem.kind), ("message", first_line)])?;
        xml.write_event(Event::Text(BytesText::new(&escape_control_characters(&problem.text))))?;
        xml.write_event(Event::End(BytesEnd::new(problem.element)))?;
    }
    if let Some(reason) = skip_reason {
        write_start(xml, "skipped", &[("message", reason)])?;
        xml.write_event(Event::End(BytesEnd::new("skipped")))?;
    }
    xml.write_event(Event::End(BytesEnd::new("testcase")))
}

fn write_start(xml: &mut Xml<'_>, element: &str, attributes: &[(&str, &str)]) -> io::Result<()> {
    let mut start = BytesStart::new(element);
    for (name, value) in attributes {
        start.push_attribute((*name, &*escape_control_characters(value)));
    }
    xml.write_event(Event::Start(start))
}

fn seconds(milliseconds: f64) -> String {
    format!("{:.3}", milliseconds / 1e3)
}

/// Replaces the characters that XML does not allow.
fn escape_control_characters(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => visible.push(character),
            '\u{fffe}' | '\u{ffff}' => visible.push('\u{fffd}'),
            _ if character.is_control() => {
                let _ = write!(visible, "\\u{{{:x}}}", u32::from(character));
            }
            _ => visible.push(character),
        }
    }
    visible
}
