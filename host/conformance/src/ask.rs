//! The requests of the conformance checks. They are built by the same code as real requests, and then modified.

use std::io::{self, BufRead, Write as _};
use std::time::Duration;

use jiff::Timestamp;
use jp_compact_core::reply::Terminal;
use jp_compact_core::request::{self, RequestParameters};
use jp_compact_core::select::{self, Selection, StrategyTraits};
use jp_compact_core::validate::{self, Refusal, ValidationContext};
use jp_compact_core::{Overlap, Position, Stream, Survey, TurnRange};
use jp_compact_schema::version::RESULT_BYTES_MAX;
use jp_compact_schema::{Description, Limits, Payload};
use serde_json::{Map, Value, json};

use jp_compact_runtime::session::spool::{Lines, Sink, Spool};

/// The time in every request. It is fixed, because a pure strategy must give the same answer to the same request.
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A request and the fields that it was built from.
pub(super) struct Request<'a> {
    pub(super) id: String,
    survey: &'a Survey<'a>,
    pub(super) description: &'a Description,
    options: &'a Map<String, Value>,
    deadline: Duration,
    range: TurnRange,
    requested: TurnRange,
    /// Whether a summary must cover exactly `range`.
    is_range_exact: bool,
    /// The header, the events, and the end line.
    lines: Vec<Vec<u8>>,
    line_end: &'static str,
    has_last_newline: bool,
    /// Keeps the file that the header names.
    _file: Option<Lines>,
}

impl<'a> Request<'a> {
    /// Returns a request for these turns, or `None` if no turn is left.
    pub(super) fn of_turns(
        survey: &'a Survey<'a>,
        description: &'a Description,
        options: &'a Map<String, Value>,
        id: &str,
        selection: Selection,
        deadline: Duration,
    ) -> Option<Self> {
        let traits = StrategyTraits::new(description);
        let range = select::resolve(survey, selection, NOW).ok()?;
        let mut selected = select::select_for_strategy(survey, range, traits).ok()?;
        if traits.writes_summary {
            selected = select::select_for_summary(survey, &selected, traits, &[], Overlap::Partial).ok()?;
        }
        let request = Self {
            id: id.into(),
            survey,
            description,
            options,
            deadline,
            range: selected.range,
            requested: selected.requested,
            is_range_exact: false,
            lines: Vec::new(),
            line_end: "\n",
            has_last_newline: true,
            _file: None,
        };
        Some(request.rebuilt())
    }

    /// Returns the request with its lines built again.
    fn rebuilt(mut self) -> Self {
        self.rebuild();
        self
    }

    /// Builds the lines from the other fields.
    fn rebuild(&mut self) {
        let parameters = RequestParameters {
            digest: Some("0000000000000000000000000000000000000000000000000000000000000000"),
            requested_range: self.requested,
            range_exact: self.is_range_exact,
            limits: Limits {
                deadline_ms: u64::try_from(self.deadline.as_millis()).unwrap_or(u64::MAX),
                result_bytes_max: RESULT_BYTES_MAX,
                needs_many: false,
            },
            ..RequestParameters::new(&self.id, self.description, self.range, self.options, NOW)
        };
        let bytes = request::lines(self.survey, &parameters);
        // `BufRead` finds the line ends of a long event quickly, also without optimization.
        let lines = BufRead::split(&bytes[..], b'\n').map_while(Result::ok);
        self.lines = lines.filter(|line| !line.is_empty()).collect();
    }

    /// Returns the request with `range_exact`.
    pub(super) fn with_exact_range(mut self) -> Self {
        self.is_range_exact = true;
        self.rebuilt()
    }

    /// Changes the request as the host does after a summary that partially overlaps an older summary. Returns false if
    /// the host does not ask again.
    pub(super) fn extend_after(&mut self, terminal: &Terminal) -> bool {
        let Terminal::Result(result) = terminal else { return false };
        match self.validate(result.compactions.clone()) {
            Err(Refusal::NotClosed { closed, .. })
                if !self.is_range_exact
                    && self.survey.pairs.split_by(self.survey.stream, closed).is_none() =>
            {
                self.range = closed;
                self.is_range_exact = true;
                self.rebuild();
                true
            }
            _ => false,
        }
    }

    /// Returns the range of a summary that does not match the exact range.
    pub(super) fn wrong_summary_range(&self, terminal: &Terminal) -> Option<TurnRange> {
        let Terminal::Result(result) = terminal else { return None };
        let summaries = result.compactions.iter().filter(|payload| payload.summary.is_some());
        let mut ranges = summaries.filter_map(|payload| {
            let from = Position { turn: payload.from_turn, step: payload.from_step };
            TurnRange::between(from, Position { turn: payload.to_turn, step: payload.to_step })
        });
        ranges.find(|range| self.is_range_exact && *range != self.range)
    }

    /// Returns the bytes to send.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in &self.lines {
            bytes.extend_from_slice(line);
            bytes.extend_from_slice(self.line_end.as_bytes());
        }
        if !self.has_last_newline {
            bytes.truncate(bytes.trim_ascii_end().len());
        }
        bytes
    }

    /// Returns the request with a changed header.
    fn with_header(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change_line(&mut self.lines[0], change);
        self
    }

    /// Returns the request as a dry run.
    pub(super) fn into_dry_run(self) -> Self {
        self.with_header(|header| header["dry_run"] = true.into())
    }

    /// Returns the request with unknown keys in the header, in some of its objects, and in all other lines.
    pub(super) fn with_unknown_keys(self) -> Self {
        let mut request = self.with_header(|header| {
            let value = json!({"nested": [1, null, {"type": "result"}]});
            header["x_later"] = value.clone();
            for pointer in [
                "/conversation",
                "/context",
                "/context/tokens",
                "/limits",
                "/context/turns/0",
                "/context/turns/0/kinds",
            ] {
                if let Some(Value::Object(object)) = header.pointer_mut(pointer) {
                    object.insert("x_later".into(), value.clone());
                }
            }
            if let Some(Value::Object(outline)) = header.get_mut("outline") {
                let column =
                    vec![Value::Null; outline.get("seq").and_then(Value::as_array).map_or(0, Vec::len)];
                outline.insert("x_later".into(), column.into());
            }
        });
        for line in &mut request.lines[1..] {
            change_line(line, |line| line["x_later"] = json!({"event": {"type": "tool_call_response"}}));
        }
        request
    }

    /// Returns the request with an unknown message before its header, and one after its second line if there is one.
    pub(super) fn with_unknown_messages(mut self) -> Self {
        let message =
            json!({"type": "x_later", "id": self.id, "event": {"type": "x"}}).to_string().into_bytes();
        self.lines.insert(0, message.clone());
        if self.lines.len() > 2 {
            self.lines.insert(3, message);
        }
        self
    }

    /// Returns the request with blank lines and CRLF line ends.
    pub(super) fn with_blank_lines(mut self) -> Self {
        self.lines.insert(0, Vec::new());
        if self.lines.len() > 2 {
            self.lines.insert(3, b" \t".to_vec());
        }
        self.line_end = "\r\n";
        self
    }

    /// Returns the request without its last newline.
    pub(super) fn without_last_newline(self) -> Self {
        Self { has_last_newline: false, ..self }
    }

    /// Returns the request with an option that the description does not declare.
    pub(super) fn with_unknown_option(self) -> Self {
        self.with_header(|header| header["options"]["x_later"] = json!({"nested": [1, null]}))
    }

    /// Returns the request with its events in a file.
    pub(super) fn with_file(mut self, spool: &Spool) -> io::Result<Self> {
        let mut sink = Sink::of_a_file(spool);
        for line in self.lines.drain(1..).filter(|line| line.starts_with(b"{\"type\":\"event\"")) {
            sink.write_all(&line)?;
            sink.write_all(b"\n")?;
        }
        let file = sink.finish()?;
        if let Lines::File(spooled) = &file {
            change_line(&mut self.lines[0], |header| header["events"] = json!(spooled.events()));
        }
        Ok(Self { _file: Some(file), ..self })
    }

    /// Changes the request to the request of the next round of `needs`.
    pub(super) fn set_answers(&mut self, answers: &Map<String, Value>, state: Option<&str>) {
        let header =
            self.lines.iter().position(|line| line.starts_with(b"{\"type\":\"compact\"")).unwrap_or(0);
        change_line(&mut self.lines[header], |header| {
            header["answers"] = Value::Object(answers.clone());
            header["state"] = json!(state);
        });
    }

    /// Validates proposals as the host does.
    pub(super) fn validate(&self, payloads: Vec<Payload>) -> Result<(), Refusal> {
        let stream: &Stream = self.survey.stream;
        // The model's answers are fixed here, regardless of the range. So `written_by_model` stays false.
        let context = ValidationContext {
            requested_range: self.requested,
            allows_steps: StrategyTraits::new(self.description).accepts_steps,
            ..ValidationContext::new(stream, &self.survey.pairs, self.range, &self.description.produces)
        };
        validate::validate(&context, payloads).map(drop)
    }
}

fn change_line(line: &mut Vec<u8>, change: impl FnOnce(&mut Value)) {
    // The host's own code built this line, so it is valid JSON.
    if let Ok(mut value) = serde_json::from_slice(line) {
        change(&mut value);
        *line = value.to_string().into_bytes();
    }
}
