//! The exchange of one request, with a new process for each round of `needs`. It also determines which check an invalid
//! reply fails.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use jp_compact_core::reply::{self, ReplyViolation, Terminal};
use jp_compact_core::validate::Refusal;
use jp_compact_schema::version::{NEEDS_MAX, NEEDS_ROUNDS_MAX, RESULT_BYTES_MAX, STATE_BYTES_MAX};
use jp_compact_schema::{Description, NeedRequest, Needs, Payload, Reply};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::ask::Request;
use super::plugin::TestedPlugin;
use jp_compact_runtime::jail::Confinement;
use jp_compact_runtime::process::{self, Ended, GRACE, Launch, ProcessError};

/// A failed check with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CheckFailure {
    pub(super) id: &'static str,
    pub(super) why: String,
}

/// Creates a failure of this check.
pub(super) fn failure(id: &'static str, why: impl std::fmt::Display) -> CheckFailure {
    CheckFailure { id, why: why.to_string() }
}

/// The environment in which the checks start processes.
#[derive(Debug, Clone, Copy)]
pub struct CheckSetup<'a> {
    /// The path of `compact-runner`.
    pub runner: &'a Path,
    /// The folder for private directories.
    pub temp_dir: &'a Path,
    /// The size limit of a private directory.
    pub private_bytes_max: u64,
    /// The time limit for a request.
    pub deadline: Duration,
    /// The time limit for a description: the limit of the protocol, or a longer limit of the user. An interpreter on a
    /// busy machine may need more than two seconds to start.
    pub describe_deadline: Duration,
    /// The confinement of the strategy.
    pub confinement: Confinement<'a>,
    /// The values of the granted variables.
    pub env: &'a [(String, String)],
}

impl<'a> CheckSetup<'a> {
    pub(super) fn launch<'b>(&self, program: &'b Path, args: &'b [&'b str], stdin: Vec<u8>) -> Launch<'b>
    where
        'a: 'b,
    {
        Launch {
            runner: self.runner,
            program,
            confinement: self.confinement,
            args,
            stdin: vec![Bytes::from(stdin)],
            env: self.env,
            temp_dir: self.temp_dir,
            private_bytes_max: self.private_bytes_max,
            deadline: self.deadline,
            grace: GRACE,
            stdout_bytes_max: usize::try_from(RESULT_BYTES_MAX).unwrap_or(usize::MAX),
        }
    }

    pub(super) async fn start(
        &self,
        plugin: &TestedPlugin,
        verb: &str,
        stdin: Vec<u8>,
    ) -> Result<Ended, ProcessError> {
        process::run(self.launch(&plugin.program, &plugin.arguments(verb), stdin)).await
    }
}

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    /// Valid, and the model answers.
    Plain,
    /// Valid, but the model refuses. The strategy may give up.
    Refused,
    /// Invalid. The strategy may reply with an error.
    Invalid,
}

/// The source of a line in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// Stdin of the strategy.
    Host,
    /// Stdout of the strategy.
    Strategy,
    /// Stderr of the strategy.
    Stderr,
}

/// Receives the request of each round, and then the whole output of the round.
pub(super) type OnOutput<'a> = &'a mut dyn FnMut(Speaker, &[u8]);

/// Sends a request, and sends it again for each round of `needs` and for a range that must be wider. Returns
/// the line that ended the last round.
pub(super) async fn exchange(
    setup: &CheckSetup<'_>,
    plugin: &TestedPlugin,
    request: &mut Request<'_>,
    case: Case,
    on_output: OnOutput<'_>,
) -> Result<Terminal, CheckFailure> {
    let mut rounds = Rounds::default();
    loop {
        let bytes = request.bytes();
        on_output(Speaker::Host, &bytes);
        let ended = setup.start(plugin, "run", bytes).await.map_err(|error| process_failure(&error))?;
        on_output(Speaker::Strategy, &ended.stdout);
        on_output(Speaker::Stderr, ended.stderr.text().as_bytes());
        let terminal = terminal(&ended, &request.id)?;
        if let Some(terminal) = rounds.next(request, terminal, case)? {
            return Ok(terminal);
        }
    }
}

/// The needs that were requested so far in one exchange.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    answers: Map<String, Value>,
    used_keys: BTreeSet<String>,
    count: u32,
}

impl Rounds {
    /// Handles the end of one round. Returns `None` if the changed request must be sent again.
    pub(super) fn next(
        &mut self,
        request: &mut Request<'_>,
        terminal: Terminal,
        case: Case,
    ) -> Result<Option<Terminal>, CheckFailure> {
        let Terminal::Needs(needs) = terminal else {
            if request.extend_after(&terminal) {
                *self = Self::default();
                return Ok(None);
            }
            return check_reply(request, terminal, case).map(Some);
        };
        self.count += 1;
        if self.count > NEEDS_ROUNDS_MAX {
            return Err(failure("N03", format!("it asked again after {NEEDS_ROUNDS_MAX} rounds")));
        }
        check_needs(&needs, request.description, &mut self.used_keys)?;
        if self.used_keys.len() > NEEDS_MAX {
            return Err(failure(
                "N03",
                format!("it made {} requests; at most {NEEDS_MAX} are allowed", self.used_keys.len()),
            ));
        }
        for (key, need) in &needs.requests {
            self.answers.insert(key.clone(), answer(need, case));
        }
        request.set_answers(&self.answers, needs.state.as_deref());
        Ok(None)
    }
}

pub(super) fn process_failure(error: &ProcessError) -> CheckFailure {
    let id = match error {
        ProcessError::Deadline { .. } => "R01",
        ProcessError::OutputTooLarge { .. } => "R04",
        ProcessError::PipesHeldOpen => "R03",
        // The same check fails if the jail kills it at another limit.
        ProcessError::PrivateDirTooLarge(_) => "R02",
        _ => "S01",
    };
    failure(id, error)
}

/// Returns the line that ends the reply, if the reply is valid and the process ended correctly.
pub(super) fn terminal(ended: &Ended, id: &str) -> Result<Terminal, CheckFailure> {
    let parsed = reply::read(&ended.stdout, id);
    let stderr_tail = || match ended.stderr.last_lines(3) {
        lines if lines.is_empty() => String::new(),
        lines => format!("; the last lines of its stderr: {lines}"),
    };
    match parsed {
        Ok(answer) if ended.status.success() || matches!(answer.terminal, Terminal::Error(_)) => {
            Ok(answer.terminal)
        }
        Ok(_) => {
            Err(failure("R02", format!("it ended with {} after its answer{}", ended.status, stderr_tail())))
        }
        Err(ReplyViolation::NoTerminal) if !ended.status.success() => {
            Err(failure("R02", format!("it ended with {} without an answer{}", ended.status, stderr_tail())))
        }
        Err(violation) => Err(violation_failure(&violation, &ended.stdout)),
    }
}

pub(super) fn violation_failure(violation: &ReplyViolation, output: &[u8]) -> CheckFailure {
    let id = match violation {
        ReplyViolation::NotUtf8 { .. } => "R07",
        ReplyViolation::WrongId { .. } => "R10",
        ReplyViolation::NoTerminal => "R05",
        ReplyViolation::AfterTerminal { .. } => "R06",
        ReplyViolation::NotAMessage { line, .. } => not_a_message(output, *line),
        ReplyViolation::KeyUsedTwice { .. } => "N02",
        ReplyViolation::TooManyRounds { .. } | ReplyViolation::TooManyNeeds { .. } => "N03",
        ReplyViolation::StateTooLarge { .. } => "N04",
    };
    failure(id, violation)
}

/// Distinguishes a line that is not a message, an invalid compaction in a result, and any other invalid message.
fn not_a_message(output: &[u8], line: usize) -> &'static str {
    let text = output.split(|byte| *byte == b'\n').nth(line - 1).unwrap_or_default();
    let value: Value = serde_json::from_slice(text).unwrap_or_default();
    let Some(kind) = value["type"].as_str() else { return "R08" };
    let compactions = Vec::<Payload>::deserialize(&value["compactions"]);
    let why = compactions.err().map(|error| error.to_string()).unwrap_or_default();
    let is_unknown = why.contains("unknown field") || why.contains("unknown variant");
    if kind == "result" && is_unknown { "P02" } else { "R09" }
}

/// Checks whether the host would accept the reply.
fn check_reply(request: &Request<'_>, terminal: Terminal, case: Case) -> Result<Terminal, CheckFailure> {
    match &terminal {
        Terminal::Result(result) => {
            request.validate(result.compactions.clone()).map_err(|refusal| refusal_failure(&refusal))?;
            if let Some(range) = request.wrong_summary_range(&terminal) {
                return Err(failure("P12", format!("its summary covers {range}")));
            }
        }
        Terminal::Error(error) if case == Case::Plain => {
            return Err(failure("R11", format!("it answered {}: {}", error.code, error.message)));
        }
        _ => {}
    }
    Ok(terminal)
}

fn refusal_failure(refusal: &Refusal) -> CheckFailure {
    let id = match refusal {
        Refusal::Nothing => "P01",
        Refusal::Inverted { .. } => "P03",
        Refusal::OutOfRange { .. } => "P04",
        Refusal::NoPolicy => "P05",
        Refusal::NotProduced(_) => "P06",
        Refusal::SplitsCall { .. } => "P07",
        Refusal::SelectiveEmpty | Refusal::Call { .. } => "P08",
        Refusal::SummaryBlank
        | Refusal::SummaryNul
        | Refusal::SummaryTooLong(_)
        | Refusal::SummaryLarger { .. } => "P09",
        Refusal::SummariesOverlap(..) => "P10",
        Refusal::NotClosed { .. } => "P11",
        Refusal::TooMany(_) => "P13",
        Refusal::Stepped
        | Refusal::NoSuchStep(_)
        | Refusal::SummaryInsideTurn(_)
        | Refusal::SummaryBeforeThinking(_) => "P14",
        _ => "P02",
    };
    failure(id, refusal)
}

fn check_needs(
    needs: &Needs,
    description: &Description,
    used_keys: &mut BTreeSet<String>,
) -> Result<(), CheckFailure> {
    let names_llm = description.needs.iter().any(|need| need == "llm");
    let asks_llm = needs.requests.values().any(|need| matches!(need, NeedRequest::LlmComplete { .. }));
    if asks_llm && !names_llm {
        return Err(failure("N01", "it asks a model, but `needs` of its description does not list `llm`"));
    }
    if needs.requests.is_empty() {
        return Err(failure("N02", "its `requests` is empty"));
    }
    if let Some(key) = needs.requests.keys().find(|key| !used_keys.insert((*key).clone())) {
        return Err(failure("N02", format!("it used the key `{key}` twice")));
    }
    match needs.state.as_ref().map_or(0, String::len) as u64 {
        bytes if bytes > STATE_BYTES_MAX => Err(failure("N04", format!("its state is {bytes} bytes"))),
        _ => Ok(()),
    }
}

fn answer(need: &NeedRequest, case: Case) -> Value {
    match (need, case) {
        (_, Case::Refused) => {
            json!({"err": {"code": "llm_refused", "message": "the model of the checks refuses"}})
        }
        (NeedRequest::LlmComplete { .. }, _) => {
            let text = "They read a file, fixed it, and looked for more.";
            json!({"ok": {"text": text, "model": "kit/fixed", "usage": {"input_tokens": 9, "output_tokens": 9}}})
        }
        (NeedRequest::TokensCount { text, .. }, _) => json!({"ok": {"tokens": text.len().div_ceil(4)}}),
        _ => {
            json!({"err": {"code": "need_unknown", "message": "this host does not support this kind of request"}})
        }
    }
}

/// Returns a terminal line without its id, for comparing it with the reply to another request.
pub(super) fn without_id(terminal: Terminal) -> Value {
    let reply = match terminal {
        Terminal::Result(result) => Reply::Result(result),
        Terminal::Decline(decline) => Reply::Decline(decline),
        Terminal::Needs(needs) => Reply::Needs(needs),
        Terminal::Error(error) => Reply::Error(error),
    };
    let mut value = serde_json::to_value(reply).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.shift_remove("id");
    }
    value
}

#[cfg(test)]
mod tests {
    use jp_compact_runtime::process::Exceeded;

    use super::*;

    #[test]
    fn exceeded_limit_is_not_a_failed_start() {
        let failure = process_failure(&ProcessError::PrivateDirTooLarge(Exceeded::Entries(9)));
        assert_eq!(failure.id, "R02", "{}", failure.why);
    }
}
