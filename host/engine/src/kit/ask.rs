//! The requests that a strategy is sent by the kit: made from a conversation as every request is, then made odd.

use std::collections::BTreeMap;

use std::time::Duration;

use jiff::Timestamp;
use jp_compact_core::request::{self, Ask};
use jp_compact_core::select::{self, Wanted};
use jp_compact_core::validate::{self, Asked, Refusal};
use jp_compact_core::{Overlap, Stream, Survey, TurnRange};
use jp_compact_schema::version::RESULT_BYTES_MAX;
use jp_compact_schema::{ContentKind, Description, Limits, Payload};
use serde_json::{Map, Value, json};

/// One request.
pub(super) struct Request<'a> {
    pub(super) id: String,
    survey: &'a Survey<'a>,
    description: &'a Description,
    range: TurnRange,
    requested: TurnRange,
    /// The header, then the events and their end.
    lines: Vec<Vec<u8>>,
    line_end: &'static str,
}

impl<'a> Request<'a> {
    /// For these turns of a conversation. None when nothing is left of them to be asked for.
    pub(super) fn of_turns(
        survey: &'a Survey<'a>,
        description: &'a Description,
        options: &'a Map<String, Value>,
        id: &str,
        wanted: Wanted,
        deadline: Duration,
    ) -> Option<Self> {
        // The only clock that a pure strategy reads stands still.
        let now = Timestamp::UNIX_EPOCH;
        let mut selected = select::select(survey, wanted, now).ok()?;
        if description.produces.contains(&ContentKind::Summary) {
            selected = select::select_for_summary(survey, &selected, &[], Overlap::Partial).ok()?;
        }
        let ask = Ask {
            id,
            description,
            conversation: None,
            digest: Some("0000000000000000000000000000000000000000000000000000000000000000"),
            range: selected.range,
            requested: selected.requested,
            range_exact: false,
            options,
            hints: &BTreeMap::new(),
            now,
            limits: Limits {
                deadline_ms: u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX),
                result_bytes_max: RESULT_BYTES_MAX,
            },
            dry_run: false,
        };
        let bytes = request::lines(survey, &ask);
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec);
        let (range, requested) = (selected.range, selected.requested);
        Some(Self {
            id: id.into(),
            survey,
            description,
            range,
            requested,
            lines: lines.collect(),
            line_end: "\n",
        })
    }

    /// The bytes to send.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|line| line.iter().chain(self.line_end.as_bytes())).copied().collect()
    }

    /// The same with a header that was changed.
    fn with_header(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change_line(&mut self.lines[0], change);
        self
    }

    /// The same as a dry run.
    pub(super) fn dry(self) -> Self {
        self.with_header(|header| header["dry_run"] = true.into())
    }

    /// The same with keys of a later version wherever there may be some.
    pub(super) fn with_unknown_keys(self) -> Self {
        let mut odd = self.with_header(|header| {
            let later = json!({"nested": [1, null, {"type": "result"}]});
            header["x_later"] = later.clone();
            for place in [
                "/conversation",
                "/context",
                "/context/tokens",
                "/limits",
                "/context/turns/0",
                "/context/turns/0/kinds",
            ] {
                if let Some(Value::Object(object)) = header.pointer_mut(place) {
                    object.insert("x_later".into(), later.clone());
                }
            }
            if let Some(Value::Object(outline)) = header.get_mut("outline") {
                let column =
                    vec![Value::Null; outline.get("seq").and_then(Value::as_array).map_or(0, Vec::len)];
                outline.insert("x_later".into(), column.into());
            }
        });
        for line in &mut odd.lines[1..] {
            change_line(line, |line| line["x_later"] = json!({"event": {"type": "tool_call_response"}}));
        }
        odd
    }

    /// The same with messages of a later version between its lines.
    pub(super) fn with_unknown_messages(mut self) -> Self {
        let message =
            json!({"type": "x_later", "id": self.id, "event": {"type": "x"}}).to_string().into_bytes();
        self.lines.insert(0, message.clone());
        if self.lines.len() > 2 {
            self.lines.insert(3, message);
        }
        self
    }

    /// The same with blank lines, and lines that end in CRLF.
    pub(super) fn with_blank_lines(mut self) -> Self {
        self.lines.insert(0, Vec::new());
        if self.lines.len() > 2 {
            self.lines.insert(3, b" \t".to_vec());
        }
        self.line_end = "\r\n";
        self
    }

    /// The same in the next round of `needs`.
    pub(super) fn answered(&mut self, answers: &Map<String, Value>, state: Option<&str>) {
        let header =
            self.lines.iter().position(|line| line.starts_with(b"{\"type\":\"compact\"")).unwrap_or(0);
        change_line(&mut self.lines[header], |header| {
            header["answers"] = Value::Object(answers.clone());
            header["state"] = json!(state);
        });
    }

    /// Whether the host would append these.
    pub(super) fn validate(&self, payloads: Vec<Payload>) -> Result<(), Refusal> {
        let stream: &Stream = self.survey.stream;
        let asked = Asked {
            stream,
            pairs: &self.survey.pairs,
            range: self.range,
            requested: self.requested,
            produces: &self.description.produces,
            accepted: &[],
            overlap: Overlap::Partial,
            hints: &BTreeMap::new(),
        };
        validate::validate(&asked, payloads).map(drop)
    }
}

fn change_line(line: &mut Vec<u8>, change: impl FnOnce(&mut Value)) {
    // The host wrote the line a moment ago.
    if let Ok(mut value) = serde_json::from_slice(line) {
        change(&mut value);
        *line = value.to_string().into_bytes();
    }
}
