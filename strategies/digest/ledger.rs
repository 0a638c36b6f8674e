//! The facts of a range, collected event by event: requests, files, commands, open errors, and the last message.

use std::collections::{BTreeMap, HashMap, VecDeque};

use jp_compact_strategy::event::{EventBody, ToolCall, ToolOutput};
use serde_json::Value;

use crate::file_op::FileOp;
use crate::status::CallStatus;
use crate::tools::{CallKind, classify};

/// The collected facts. Each list is ordered by the last occurrence. Commands without output are last.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The messages of the user, with their turns.
    pub(crate) requests: Vec<(usize, String)>,
    /// The summaries in a copy of a compacted transcript, with their turns.
    pub(crate) summaries: Vec<(usize, String)>,
    /// The attachments, with the last turn of each.
    pub(crate) attachments: Recent<String, usize>,
    /// The files and their history.
    pub(crate) files: Recent<String, FileHistory>,
    /// The commands and their runs.
    pub(crate) commands: Recent<String, CommandRuns>,
    /// The failed actions that did not succeed later.
    pub(crate) errors: Recent<Action, OpenError>,
    /// The last message of the assistant.
    pub(crate) last: Option<String>,
    /// The tool calls without output so far, with their turns, numbered in order.
    pending: BTreeMap<usize, (usize, ToolCall)>,
    /// The numbers of the calls that can still get an output, by id.
    open: HashMap<String, VecDeque<usize>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHistory {
    /// The last operation and its turn.
    pub(crate) last: (FileOp, usize),
    /// The last operation that changed the file, and its turn.
    pub(crate) changed: Option<(FileOp, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandRuns {
    pub(crate) turn: usize,
    pub(crate) times: usize,
    /// `None` if the call has no output.
    pub(crate) status: Option<CallStatus>,
}

/// An action that can fail and be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Read(String),
    Write(String),
    Command(String),
    /// A call of another tool, with its arguments.
    Other(String),
}

/// A failure that is still open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenError {
    pub(crate) turn: usize,
    pub(crate) status: CallStatus,
    pub(crate) text: String,
}

impl Ledger {
    pub(crate) fn add(&mut self, turn: usize, body: EventBody) {
        match body {
            EventBody::User(text) => self.requests.push((turn, text)),
            EventBody::Summary(text) => self.summaries.push((turn, text)),
            EventBody::Attachment { name, .. } => self.attachments.put(name, turn),
            EventBody::Assistant(text) if !text.trim().is_empty() => self.last = Some(text),
            EventBody::Structured(data) => self.last = Some(data.to_string()),
            EventBody::Call(call) => {
                let number = self.pending.last_key_value().map_or(0, |(last, _)| last + 1);
                let open = self.open.entry(call.id.clone()).or_default();
                // A later turn that reuses the id of an open call abandons that call.
                let oldest = open.front().and_then(|oldest| self.pending.get(oldest));
                if oldest.is_some_and(|(earlier, _)| *earlier != turn) {
                    open.clear();
                }
                open.push_back(number);
                self.pending.insert(number, (turn, call));
            }
            // Ids can be reused. The output belongs to the oldest open call with its id.
            EventBody::Output(output) => {
                let number = self.open.get_mut(&output.id).and_then(VecDeque::pop_front);
                if let Some((_, call)) = number.and_then(|number| self.pending.remove(&number)) {
                    self.record_output(turn, &call, &output);
                }
            }
            _ => {}
        }
    }

    /// Ends the range. Commands without output are recorded, because they may have run.
    pub(crate) fn end(mut self) -> Self {
        for (turn, call) in std::mem::take(&mut self.pending).into_values() {
            if let CallKind::Command(line) = classify(&call) {
                self.record_run(line, turn, None);
            }
        }
        self
    }

    fn record_output(&mut self, turn: usize, call: &ToolCall, output: &ToolOutput) {
        let kind = classify(call);
        // The text of a file can contain the words of an exit status.
        let is_read =
            matches!(&kind, CallKind::Files(files) if files.iter().all(|(op, _)| *op == FileOp::Read));
        let status = if is_read { CallStatus::from_flag(output) } else { CallStatus::from_output(output) };
        let actions: Vec<Action> = match kind {
            CallKind::Files(files) => {
                let action = |(op, path): &(FileOp, String)| match op {
                    FileOp::Read => Action::Read(path.clone()),
                    _ => Action::Write(path.clone()),
                };
                let actions = files.iter().map(action).collect();
                if !status.is_failure() {
                    for (op, path) in files {
                        let before = self.files.get(&path).and_then(|file| file.changed);
                        let changed = if op == FileOp::Read { before } else { Some((op, turn)) };
                        self.files.put(path, FileHistory { last: (op, turn), changed });
                    }
                }
                actions
            }
            CallKind::Command(line) => {
                self.record_run(line.clone(), turn, Some(status));
                vec![Action::Command(line)]
            }
            CallKind::Other => {
                let arguments = Value::Object(call.arguments.clone());
                vec![Action::Other(format!("{} {arguments}", call.tool))]
            }
        };
        for action in actions {
            if status.is_failure() {
                self.errors.put(action, OpenError { turn, status, text: output.content.clone() });
            } else {
                // After a successful write, an earlier failure to read is resolved.
                if let Action::Write(path) = &action {
                    self.errors.remove(&Action::Read(path.clone()));
                }
                self.errors.remove(&action);
            }
        }
    }

    fn record_run(&mut self, line: String, turn: usize, status: Option<CallStatus>) {
        let before = self.commands.get(&line).copied();
        let times = before.map_or(0, |ran| ran.times) + 1;
        // A run without output is recorded at the end, so a later run may precede it.
        let later = before.filter(|ran| ran.turn > turn);
        let (turn, status) = later.map_or((turn, status), |ran| (ran.turn, ran.status));
        self.commands.put(line, CommandRuns { turn, times, status });
    }
}

/// A map that keeps the order in which entries were last inserted.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    entries: HashMap<K, (u64, V)>,
    puts: u64,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), puts: 0 }
    }
}

impl<K: Eq + std::hash::Hash, V> Recent<K, V> {
    fn put(&mut self, key: K, value: V) {
        self.puts += 1;
        self.entries.insert(key, (self.puts, value));
    }

    fn remove(&mut self, key: &K) {
        self.entries.remove(key);
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    /// Returns the entries, the latest last.
    pub(crate) fn in_order(&self) -> Vec<(&K, &V)> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(_, (put, _))| *put);
        entries.into_iter().map(|(key, (_, value))| (key, value)).collect()
    }
}
