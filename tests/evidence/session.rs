//! Generated sessions of a coding agent, with planted facts: paths, identifiers, numbers, commands, errors, quotes, and
//! constraints of the user. Later events use a part of the facts again. The same seed gives the same bytes.

use serde_json::{Value, json};

/// Plain words for names, files, and sentences.
const WORDS: [&str; 64] = [
    "account", "adapter", "archive", "balance", "barrier", "booking", "browser", "builder", "cabinet",
    "calendar", "capture", "carrier", "catalog", "channel", "charger", "circuit", "cleaner", "cluster",
    "collect", "command", "compass", "concert", "contact", "control", "convert", "counter", "courier",
    "cushion", "decoder", "deposit", "desktop", "display", "drawing", "driver", "element", "encoder",
    "exhaust", "factory", "feature", "fiction", "gallery", "gateway", "general", "harvest", "history",
    "housing", "integer", "journal", "kitchen", "lantern", "library", "machine", "manager", "measure",
    "monitor", "network", "package", "payment", "printer", "quarter", "receipt", "storage", "teacher",
    "voucher",
];
const SUFFIXES: [&str; 4] = ["rs", "py", "ts", "toml"];

/// One event of a session.
#[derive(Debug, Clone)]
pub(super) enum Event {
    User(String),
    Assistant(String),
    Call { tool: &'static str, arguments: Value, result: String },
}

/// A generator of numbers: `xorshift64*`. A library could generate other numbers in a later version.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    /// Returns a number below a limit.
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap_or_default()
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.below(WORDS.len())]
    }
}

/// The facts that a session has shown, oldest first.
#[derive(Default)]
struct Facts {
    paths: Vec<String>,
    identifiers: Vec<String>,
    numbers: Vec<String>,
    lines: Vec<String>,
}

/// Makes a session with a number of turns. Each turn has several calls.
pub(super) fn generate(seed: u64, turns: usize) -> Vec<Event> {
    let random = &mut Random::new(seed);
    let facts = &mut Facts::default();
    let mut events = Vec::new();
    for turn in 0..turns {
        events.push(Event::User(request(random, turn)));
        for _ in 0..4 + random.below(8) {
            if random.below(3) == 0 {
                events.push(Event::Assistant(remark(random, facts)));
            }
            events.push(call(random, facts));
        }
        events.push(Event::Assistant(remark(random, facts)));
    }
    events
}

fn request(random: &mut Random, turn: usize) -> String {
    let (first, second) = (random.word(), random.word());
    let rule = match turn % 5 {
        0 => format!(" Never change the {first} of the {second}."),
        2 => format!(" From now on, write the {second} in the {first} only."),
        4 => format!(" The {first} must always follow the {second}."),
        _ => String::new(),
    };
    format!("Please look at the {first} and repair the {second}.{rule}")
}

fn path(random: &mut Random) -> String {
    let (folder, first, second) = (random.word(), random.word(), random.word());
    format!("src/{folder}/{first}_{second}.{}", SUFFIXES[random.below(SUFFIXES.len())])
}

fn identifier(random: &mut Random) -> String {
    let (first, second) = (random.word(), random.word());
    if random.below(2) == 0 {
        return format!("{first}_{second}_{}", random.below(90) + 10);
    }
    let mut letters = second.chars();
    let capital = letters.next().map(|letter| letter.to_ascii_uppercase()).unwrap_or_default();
    format!("{first}{capital}{}", letters.as_str())
}

/// Returns a fact of the session, more often an old one than a new one.
fn recall<'a>(random: &mut Random, facts: &'a [String]) -> Option<&'a String> {
    let (first, second) = (random.below(facts.len()), random.below(facts.len()));
    facts.get(first.min(second))
}

fn remark(random: &mut Random, facts: &Facts) -> String {
    let mut text = format!("The {} of the {} is next.", random.word(), random.word());
    match random.below(5) {
        0 => push(&mut text, " The cause is in ", recall(random, &facts.paths)),
        1 => push(&mut text, " The function is ", recall(random, &facts.identifiers)),
        2 => push(&mut text, " The measured value was ", recall(random, &facts.numbers)),
        3 => push(&mut text, " The line was: ", recall(random, &facts.lines)),
        _ => {}
    }
    text
}

fn push(text: &mut String, words: &str, fact: Option<&String>) {
    if let Some(fact) = fact {
        text.push_str(words);
        text.push_str(fact);
        text.push('.');
    }
}

fn call(random: &mut Random, facts: &mut Facts) -> Event {
    match random.below(4) {
        0 => search(random, facts),
        1 => shell(random, facts),
        2 => edit(random, facts),
        _ => read(random, facts),
    }
}

/// Returns a search that finds new paths.
fn search(random: &mut Random, facts: &mut Facts) -> Event {
    let pattern = random.word();
    let found: Vec<String> = (0..6 + random.below(20)).map(|_| path(random)).collect();
    let lines: Vec<String> =
        found.iter().map(|path| format!("{path}:{}: uses the {pattern}", 10 + random.below(80))).collect();
    facts.paths.extend(found);
    Event::Call { tool: "Grep", arguments: json!({"pattern": pattern}), result: lines.join("\n") }
}

/// Returns a command whose output has numbers. In one of four calls, the output also has an error.
fn shell(random: &mut Random, facts: &mut Facts) -> Event {
    let (first, second) = (random.word(), random.word());
    let number = format!("{}", 1_000 + random.below(900_000));
    let mut lines: Vec<String> = (0..10 + random.below(40))
        .map(|index| format!("step {index} of the {} for the {} took a while", random.word(), random.word()))
        .collect();
    lines.push(format!("the {first} has {number} entries"));
    if random.below(4) == 0 {
        lines
            .push(format!("error: the {second} of the {first} failed with code {}", 100 + random.below(900)));
    }
    facts.lines.extend(lines.iter().skip(3).step_by(9).cloned());
    facts.numbers.push(number);
    Event::Call {
        tool: "Bash",
        arguments: json!({"command": format!("make {first}-{second} --jobs {}", 2 + random.below(30))}),
        result: lines.join("\n"),
    }
}

/// Returns an edit of a known file. Its arguments have new names.
fn edit(random: &mut Random, facts: &mut Facts) -> Event {
    let target = recall(random, &facts.paths).cloned().unwrap_or_else(|| path(random));
    let (old, new) = (identifier(random), identifier(random));
    let known = recall(random, &facts.identifiers).cloned().unwrap_or_else(|| old.clone());
    facts.identifiers.push(new.clone());
    let arguments = json!({
        "file_path": target,
        "old_string": format!("let {old} = {known}();"),
        "new_string": format!("let {old} = {new}({});", 1_000 + random.below(9_000)),
    });
    Event::Call { tool: "Edit", arguments, result: "The file was changed.".into() }
}

/// Returns a file with functions. Most reads are of a known file.
fn read(random: &mut Random, facts: &mut Facts) -> Event {
    let known = if random.below(4) == 0 { None } else { recall(random, &facts.paths).cloned() };
    let target = known.unwrap_or_else(|| path(random));
    let mut text = format!("// The {} of the {}\n", random.word(), random.word());
    for _ in 0..4 + random.below(16) {
        let name = identifier(random);
        let other = identifier(random);
        text.push_str(&format!(
            "fn {name}(value: u64) -> u64 {{\n    // The {} decides about the {}.\n    {other}(value) + {}\n}}\n",
            random.word(),
            random.word(),
            100 + random.below(9_000),
        ));
        facts.identifiers.push(name);
    }
    facts.paths.push(target.clone());
    Event::Call { tool: "Read", arguments: json!({"file_path": target}), result: text }
}
