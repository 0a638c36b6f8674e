//! The report in JUnit format, for tools that show test results. There is a case for each transcript and for each gate
//! about the whole batch. XML does not allow control characters, so they are replaced by visible ones.

use std::fmt::Write as _;
use std::io::{self, Write};

use jp_compact_schema::report::{BatchTotal, GateReport, Status, TranscriptReport};
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
    let of_all: Vec<&GateReport> = suite.gates.iter().filter(|gate| is_of_all(gate, suite.total)).collect();
    let mut failures = of_all.iter().filter(|gate| !gate.met).count();
    lines.each(|line| {
        let entry: TranscriptReport = serde_json::from_slice(line)?;
        failures += usize::from(!entry.gates.is_empty());
        Ok(())
    })?;
    let total = suite.total;
    let tests = (total.transcripts + of_all.len() as u64).to_string();
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
    open(&mut xml, "testsuites", &counts)?;
    open(&mut xml, "testsuite", &counts)?;
    lines.each(|line| case(&mut xml, &serde_json::from_slice(line)?))?;
    for gate in of_all {
        let says = format!("{}: wanted {}, found {}", gate.gate, gate.wanted, gate.found);
        let fault = (!gate.met).then_some(("failure", &*gate.gate, says));
        write_case(&mut xml, ("gates", &gate.gate), 0.0, fault.into_iter().collect(), None)?;
    }
    xml.write_event(Event::End(BytesEnd::new("testsuite")))?;
    xml.write_event(Event::End(BytesEnd::new("testsuites")))?;
    xml.get_mut().write_all(b"\n")
}

/// Returns whether a gate concerns the whole batch, or views when there are none. Other gates are reported
/// with the transcripts.
fn is_of_all(gate: &GateReport, total: &BatchTotal) -> bool {
    total.transcripts == total.failed
        || [Gate::RequireSaving, Gate::MaxFailures].iter().any(|all| all.as_str() == gate.gate)
}

type Xml<'a> = Writer<&'a mut dyn Write>;

fn case(xml: &mut Xml<'_>, entry: &TranscriptReport) -> io::Result<()> {
    let mut faults = Vec::new();
    if let Some(error) = &entry.error {
        let mut text = error.message.clone();
        for cause in &error.causes {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n  {cause}");
        }
        faults.push(("error", "failed", text));
    }
    faults.extend(
        entry.gates.iter().map(|miss| ("failure", &*miss.gate, format!("{}: {}", miss.gate, miss.found))),
    );
    let skipped = (entry.status == Status::Skipped).then_some("it already has these overlays");
    write_case(xml, ("transcripts", &entry.path), entry.elapsed_ms, faults, skipped)
}

fn write_case(
    xml: &mut Xml<'_>,
    (class, name): (&str, &str),
    elapsed_ms: f64,
    faults: Vec<(&str, &str, String)>,
    skipped: Option<&str>,
) -> io::Result<()> {
    let time = seconds(elapsed_ms);
    open(xml, "testcase", &[("classname", class), ("name", name), ("time", &time)])?;
    for (element, kind, text) in faults {
        let first = text.lines().next().unwrap_or_default();
        open(xml, element, &[("type", kind), ("message", first)])?;
        xml.write_event(Event::Text(BytesText::new(&plain(&text))))?;
        xml.write_event(Event::End(BytesEnd::new(element)))?;
    }
    if let Some(why) = skipped {
        open(xml, "skipped", &[("message", why)])?;
        xml.write_event(Event::End(BytesEnd::new("skipped")))?;
    }
    xml.write_event(Event::End(BytesEnd::new("testcase")))
}

fn open(xml: &mut Xml<'_>, element: &str, attributes: &[(&str, &str)]) -> io::Result<()> {
    let mut start = BytesStart::new(element);
    for (name, value) in attributes {
        start.push_attribute((*name, &*plain(value)));
    }
    xml.write_event(Event::Start(start))
}

fn seconds(milliseconds: f64) -> String {
    format!("{:.3}", milliseconds / 1e3)
}

/// Replaces characters that XML does not allow.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => plain.push(character),
            '\u{fffe}' | '\u{ffff}' => plain.push('\u{fffd}'),
            _ if character.is_control() => {
                let _ = write!(plain, "\\u{{{:x}}}", u32::from(character));
            }
            _ => plain.push(character),
        }
    }
    plain
}
