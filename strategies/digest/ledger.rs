//! What happened in a range, event by event: what was asked, which files were touched, what was run, what failed
//! and did not succeed later, and what was said last.

use std::collections::HashMap;

use jp_compact_strategy::event::{Call, Output, Said};
use serde_json::Value;

use crate::status::Status;
use crate::tools::{Act, Op, act};

/// The sums of a range, each list in the order in which things last happened.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// What the user asked, and in which turn.
    pub(crate) asked: Vec<(usize, String)>,
    /// What was attached to it, and the last turn in which it was.
    pub(crate) attached: Recent<String, usize>,
    /// What became of each file.
    pub(crate) files: Recent<String, File>,
    /// The last run of each command.
    pub(crate) commands: Recent<String, Ran>,
    /// What failed, and was not done since.
    pub(crate) errors: Recent<Deed, Open>,
    /// What the assistant said last.
    pub(crate) last: Option<String>,
    /// Calls that wait for their answer.
    waiting: Vec<(usize, Call)>,
}

/// What became of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct File {
    /// The last operation of all, and its turn.
    pub(crate) last: (Op, usize),
    /// The last that was no reading: it is what a later reader has to know.
    pub(crate) changed: Option<(Op, usize)>,
}

/// The runs of one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) turn: usize,
    pub(crate) times: usize,
    /// None: nobody knows, for it was not answered.
    pub(crate) status: Option<Status>,
}

/// Something that can fail, and can be done again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Deed {
    Read(String),
    Write(String),
    Command(String),
    /// A tool with these arguments.
    Other(String),
}

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) turn: usize,
    pub(crate) status: Status,
    pub(crate) text: String,
}

impl Ledger {
    pub(crate) fn add(&mut self, turn: usize, said: Said) {
        match said {
            Said::User(text) => self.asked.push((turn, text)),
            Said::Attachment { name, .. } => self.attached.put(name, turn),
            Said::Assistant(text) if !text.trim().is_empty() => self.last = Some(text),
            Said::Data(data) => self.last = Some(data.to_string()),
            Said::Call(call) => self.waiting.push((turn, call)),
            // Ids come again: the latest call that waits is the one that is answered.
            Said::Output(output) => {
                if let Some(place) = self.waiting.iter().rposition(|(_, call)| call.id == output.id) {
                    let (_, call) = self.waiting.remove(place);
                    self.answered(turn, &call, &output);
                }
            }
            _ => {}
        }
    }

    /// The end of the range: commands that were never answered have run, perhaps.
    pub(crate) fn end(mut self) -> Self {
        for (turn, call) in std::mem::take(&mut self.waiting) {
            if let Act::Command(line) = act(&call) {
                self.ran(line, turn, None);
            }
        }
        self
    }

    fn answered(&mut self, turn: usize, call: &Call, output: &Output) {
        let status = Status::of(output);
        let deeds: Vec<Deed> = match act(call) {
            Act::Files(files) => {
                let deed = |(op, path): &(Op, String)| match op {
                    Op::Read => Deed::Read(path.clone()),
                    _ => Deed::Write(path.clone()),
                };
                let deeds = files.iter().map(deed).collect();
                if !status.is_failure() {
                    for (op, path) in files {
                        let before = self.files.get(&path).and_then(|file| file.changed);
                        let changed = if op == Op::Read { before } else { Some((op, turn)) };
                        self.files.put(path, File { last: (op, turn), changed });
                    }
                }
                deeds
            }
            Act::Command(line) => {
                self.ran(line.clone(), turn, Some(status));
                vec![Deed::Command(line)]
            }
            Act::Other => {
                let arguments = Value::Object(call.arguments.clone());
                vec![Deed::Other(format!("{} {arguments}", call.tool))]
            }
        };
        for deed in deeds {
            if status.is_failure() {
                self.errors.put(deed, Open { turn, status, text: output.content.clone() });
            } else {
                // A file that could be written is there to be read.
                if let Deed::Write(path) = &deed {
                    self.errors.remove(&Deed::Read(path.clone()));
                }
                self.errors.remove(&deed);
            }
        }
    }

    fn ran(&mut self, line: String, turn: usize, status: Option<Status>) {
        let times = self.commands.get(&line).map_or(0, |ran| ran.times) + 1;
        self.commands.put(line, Ran { turn, times, status });
    }
}

/// A map whose entries stand in the order in which they were last put.
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

    /// The entries, the latest last.
    pub(crate) fn in_order(&self) -> Vec<(&K, &V)> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(_, (put, _))| *put);
        entries.into_iter().map(|(key, (_, value))| (key, value)).collect()
    }
}
