//! The types of a configuration file: the tables of RFD 064 and RFD D17, `[llm]`, and `[limits]`. Unknown keys are
//! rejected. Keys are optional, except a strategy's `name`, `policy` of `tool_calls`, and both halves of its `strip`.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use crate::call::{Call, ToolsMode};
use jp_compact_core::Overlap;
use jp_compact_core::select::KeepLast;
use jp_compact_schema::{Hint, Reasoning, StrategyName, ToolHint};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::{CostPolicy, OnFailure};
use jp_compact_llm::{ModelName, Settings};

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    pub(super) conversation: Conversation,
    pub(super) llm: Settings,
    pub(super) limits: Limits,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Limits {
    #[serde(deserialize_with = "count")]
    pub(super) private_dir_bytes: Option<usize>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Conversation {
    pub(super) compaction: Compaction,
    pub(super) tools: BTreeMap<String, Tool>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Compaction {
    pub(super) default_profile: Option<String>,
    #[serde(deserialize_with = "count")]
    pub(super) keep_last: Option<usize>,
    #[serde(deserialize_with = "count")]
    pub(super) keep_steps: Option<usize>,
    #[serde(deserialize_with = "count")]
    pub(super) keep_tokens: Option<usize>,
    #[serde(deserialize_with = "count")]
    pub(super) keep_first: Option<usize>,
    #[serde(deserialize_with = "parsed")]
    pub(super) overlap: Option<Overlap>,
    #[serde(deserialize_with = "fraction")]
    pub(super) min_saving: Option<f64>,
    pub(super) profiles: BTreeMap<String, Profile>,
    pub(super) auto: Auto,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Profile {
    pub(super) reasoning: Option<Reasoning>,
    pub(super) tool_calls: Option<ToolCalls>,
    pub(super) summary: Option<Summary>,
    pub(super) strategies: Option<Vec<Strategy>>,
    #[serde(deserialize_with = "count")]
    pub(super) keep_last: Option<usize>,
    #[serde(deserialize_with = "count")]
    pub(super) keep_steps: Option<usize>,
    #[serde(deserialize_with = "count")]
    pub(super) keep_tokens: Option<usize>,
    #[serde(deserialize_with = "count")]
    pub(super) keep_first: Option<usize>,
    #[serde(deserialize_with = "fraction")]
    pub(super) trigger_ratio: Option<f64>,
}

impl Compaction {
    pub(super) fn keep_last(&self) -> KeepLast {
        keep_last(self.keep_last, self.keep_steps, self.keep_tokens)
    }
}

impl Profile {
    pub(super) fn keep_last(&self) -> KeepLast {
        keep_last(self.keep_last, self.keep_steps, self.keep_tokens)
    }
}

fn keep_last(turns: Option<usize>, steps: Option<usize>, tokens: Option<usize>) -> KeepLast {
    KeepLast { turns, steps, tokens: tokens.map(|tokens| tokens as u64) }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Summary {
    pub(super) policy: Option<SummaryPolicy>,
    pub(super) model: Option<ModelName>,
    pub(super) instructions: Option<String>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SummaryPolicy {
    Summarize,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Auto {
    pub(super) enabled: Option<bool>,
    #[serde(deserialize_with = "fraction")]
    pub(super) trigger_ratio: Option<f64>,
    pub(super) profile: Option<String>,
    pub(super) fallback_profile: Option<String>,
    #[serde(deserialize_with = "count")]
    pub(super) min_turns: Option<usize>,
    #[serde(deserialize_with = "count")]
    pub(super) token_threshold: Option<usize>,
    pub(super) always: Option<Vec<String>>,
    pub(super) on_failure: Option<OnFailure>,
    pub(super) cost: Option<CostPolicy>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tool {
    pub(super) compaction: Option<ToolCompaction>,
}

/// A value that is a word, or a table with more detail.
trait WordOrTable: Sized {
    type Table: DeserializeOwned;
    /// The valid values, for error messages.
    const EXPECTED: &'static str;
    fn from_word(word: &str) -> Result<Self, String>;
    fn from_table(table: Self::Table) -> Result<Self, String>;
}

struct WordOrTableVisitor<T>(PhantomData<T>);

impl<'de, T: WordOrTable> Visitor<'de> for WordOrTableVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<T, E> {
        T::from_word(word).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<T, A::Error> {
        let table = T::Table::deserialize(MapAccessDeserializer::new(table))?;
        T::from_table(table).map_err(A::Error::custom)
    }
}

/// `tool_calls` of a profile.
#[derive(Debug)]
pub(super) struct ToolCalls(pub(super) ToolsMode);

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolCallsTable {
    policy: ToolCallsPolicy,
    request: Option<bool>,
    response: Option<bool>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ToolCallsPolicy {
    Strip,
    Omit,
}

impl WordOrTable for ToolCalls {
    type Table = ToolCallsTable;
    const EXPECTED: &'static str = "`strip`, `strip-requests`, `strip-responses`, `omit`, or \
                                    `{ policy = \"strip\", request = true, response = true }`";

    fn from_word(word: &str) -> Result<Self, String> {
        word.parse().map(Self)
    }

    fn from_table(table: ToolCallsTable) -> Result<Self, String> {
        match (table.policy, table.request, table.response) {
            (ToolCallsPolicy::Omit, None, None) => Ok(Self(ToolsMode::Omit)),
            (ToolCallsPolicy::Omit, ..) => {
                Err("`omit` removes the whole call and takes no `request` or `response`".into())
            }
            (ToolCallsPolicy::Strip, Some(true), Some(true)) => Ok(Self(ToolsMode::Strip)),
            (ToolCallsPolicy::Strip, Some(true), Some(false)) => Ok(Self(ToolsMode::StripRequests)),
            (ToolCallsPolicy::Strip, Some(false), Some(true)) => Ok(Self(ToolsMode::StripResponses)),
            (ToolCallsPolicy::Strip, Some(false), Some(false)) => {
                Err("`strip` with `request = false` and `response = false` strips nothing".into())
            }
            (ToolCallsPolicy::Strip, ..) => {
                Err("`strip` as a table needs both `request` and `response` (`true` or `false`)".into())
            }
        }
    }
}

impl<'de> Deserialize<'de> for ToolCalls {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordOrTableVisitor(PhantomData))
    }
}

/// An entry of `strategies` of a profile.
#[derive(Debug)]
pub(super) struct Strategy(pub(super) Call);

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StrategyTable {
    name: String,
    #[serde(default)]
    options: Map<String, Value>,
}

impl WordOrTable for Strategy {
    type Table = StrategyTable;
    const EXPECTED: &'static str = "a strategy's name, or `{ name = \"...\", options = { ... } }`";

    fn from_word(word: &str) -> Result<Self, String> {
        Self::from_table(StrategyTable { name: word.to_owned(), options: Map::new() })
    }

    fn from_table(table: StrategyTable) -> Result<Self, String> {
        // A path is not allowed here. Only the command line accepts paths.
        let name = StrategyName::parse(&table.name).map_err(|error| error.to_string())?;
        Ok(Self(Call { options: table.options, ..Call::without_options(name.as_str()) }))
    }
}

impl<'de> Deserialize<'de> for Strategy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordOrTableVisitor(PhantomData))
    }
}

/// `compaction` of a tool.
#[derive(Debug)]
pub(super) struct ToolCompaction(pub(super) ToolHint);

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolCompactionTable {
    request: Option<Hint>,
    response: Option<Hint>,
}

impl WordOrTable for ToolCompaction {
    type Table = ToolCompactionTable;
    const EXPECTED: &'static str = "`keep`, `strip`, `strip-requests`, `strip-responses`, or \
                                    `{ request = \"keep\", response = \"strip\" }`";

    fn from_word(word: &str) -> Result<Self, String> {
        let (request, response) = match word.parse() {
            _ if word == "keep" => (Hint::Keep, Hint::Keep),
            Ok(ToolsMode::Strip) => (Hint::Strip, Hint::Strip),
            Ok(ToolsMode::StripRequests) => (Hint::Strip, Hint::Keep),
            Ok(ToolsMode::StripResponses) => (Hint::Keep, Hint::Strip),
            Ok(ToolsMode::Omit) => {
                return Err("a hint keeps or strips; `omit` is for the `tool_calls` of a profile".into());
            }
            Err(_) => return Err(format!("expected {}, not `{word}`", Self::EXPECTED)),
        };
        Ok(Self(ToolHint { request: Some(request), response: Some(response) }))
    }

    fn from_table(table: ToolCompactionTable) -> Result<Self, String> {
        Ok(Self(ToolHint { request: table.request, response: table.response }))
    }
}

impl<'de> Deserialize<'de> for ToolCompaction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordOrTableVisitor(PhantomData))
    }
}

/// Deserializes a string with the `FromStr` of the type.
fn parsed<'de, T: FromStr<Err = String>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
}

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    const EXPECTED: &str = "a whole number, 0 or more";
    match deserializer.deserialize_any(NumberVisitor { expected: EXPECTED })? {
        Number::Whole(number) => Ok(Some(number)),
        Number::Fraction(_) => Err(D::Error::custom(format!("expected {EXPECTED}"))),
    }
}

fn fraction<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    const EXPECTED: &str = "a fraction from 0 to 1, such as 0.01 for 1 %";
    let number = match deserializer.deserialize_any(NumberVisitor { expected: EXPECTED })? {
        Number::Whole(number) => number as f64,
        Number::Fraction(number) => number,
    };
    if (0.0..=1.0).contains(&number) {
        return Ok(Some(number));
    }
    Err(D::Error::custom(format!("expected {EXPECTED}, not {number}")))
}

enum Number {
    Whole(usize),
    Fraction(f64),
}

/// Visits a number. `expected` is for error messages.
struct NumberVisitor {
    expected: &'static str,
}

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Number, E> {
        let whole = usize::try_from(number).map(Number::Whole);
        whole.map_err(|_| E::custom(format!("expected {}, not {number}", self.expected)))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Number, E> {
        Ok(Number::Fraction(number))
    }
}
