//! The published JSON Schemas, by name.
//!
//! They are generated from the types and must not be edited. A message that the host writes has the schema of its
//! serialized form. A message that the host reads has the schema of its deserialized form.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};

use crate::compaction::Payload;
use crate::describe::{DescribeRequest, Description};
use crate::document as doc;
use crate::event::{EventLine, EventsEnd};
use crate::manifest::Manifest;
use crate::record::{BatchAnswer, BatchRecord};
use crate::reply::Reply;
use crate::report::BatchReport;
use crate::request::CompactRequest;

/// The writer and the reader of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Direction {
    /// The host writes it for a strategy. The schema describes the output.
    HostToStrategy,
    /// A strategy writes it for the host. The schema describes the accepted input.
    StrategyToHost,
    /// The author of a plugin writes it, in TOML. The schema describes the accepted input.
    Manifest,
    /// The host writes it for other programs. The schema describes the output.
    Document,
    /// Another program writes it for the host. The schema describes the accepted input.
    Record,
}

impl Direction {
    fn generator(self) -> SchemaGenerator {
        let settings = SchemaSettings::draft2020_12();
        match self {
            Self::HostToStrategy | Self::Document => settings.for_serialize(),
            Self::StrategyToHost | Self::Manifest | Self::Record => settings.for_deserialize(),
        }
        .into_generator()
    }
}

/// One published schema.
#[derive(Debug, Clone, Copy)]
pub struct NamedSchema {
    /// The name, which is also the stem of the file name.
    pub name: &'static str,
    /// The writer and the reader.
    pub direction: Direction,
    /// A description in one line.
    pub description: &'static str,
    generate: fn(SchemaGenerator) -> schemars::Schema,
}

impl NamedSchema {
    const fn new<T: JsonSchema>(name: &'static str, direction: Direction, description: &'static str) -> Self {
        Self { name, direction, description, generate: SchemaGenerator::into_root_schema_for::<T> }
    }

    /// Returns the folder of the published file, in the folder of this crate: `v1` for the strategy protocol, `json` for
    /// the documents of the command line.
    #[must_use]
    pub fn folder(&self) -> &'static str {
        match self.direction {
            Direction::HostToStrategy | Direction::StrategyToHost | Direction::Manifest => "v1",
            Document | Direction::Record => "json",
        }
    }

    /// Returns the schema as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let mut schema = (self.generate)(self.direction.generator());
        let members = schema.ensure_object();
        let mut ordered = serde_json::Map::new();
        for key in ["$schema", "title", "description"] {
            ordered.extend(members.remove_entry(key));
        }
        ordered.append(members);
        ordered.into()
    }

    /// Returns the text of the published file: indented, with a line end.
    #[must_use]
    pub fn render(&self) -> String {
        format!("{:#}\n", self.json())
    }
}

use Direction::{Document, HostToStrategy, StrategyToHost};

static ALL: [NamedSchema; 38] = [
    NamedSchema::new::<DescribeRequest>(
        "describe-request",
        HostToStrategy,
        "the host's request for a description",
    ),
    NamedSchema::new::<Description>("description", StrategyToHost, "the description of a strategy"),
    NamedSchema::new::<CompactRequest>("compact", HostToStrategy, "the header of a request"),
    NamedSchema::new::<EventLine>("event", HostToStrategy, "one event after the header"),
    NamedSchema::new::<EventsEnd>("events-end", HostToStrategy, "the line after the last event"),
    NamedSchema::new::<Reply>("reply", StrategyToHost, "one line of a reply"),
    NamedSchema::new::<Payload>("compaction", StrategyToHost, "one compaction of a result"),
    NamedSchema::new::<Manifest>("manifest", Direction::Manifest, "a plugin's plugin.toml"),
    NamedSchema::new::<BatchReport>("batch-report", Document, "the report of a batch"),
    NamedSchema::new::<BatchRecord<'_>>("batch-record", Direction::Record, "one record for `batch --ndjson`"),
    NamedSchema::new::<BatchAnswer>("batch-answer", Document, "one answer of `batch --ndjson`"),
    NamedSchema::new::<doc::CompactionReport>("compact-report", Document, "the report of a compaction"),
    NamedSchema::new::<doc::ResetDocument>("reset-report", Document, "the report of `--reset`"),
    NamedSchema::new::<doc::AutoReport>("auto-report", Document, "the report of `auto`"),
    NamedSchema::new::<doc::EvalReport>("eval-report", Document, "the report of `eval`"),
    NamedSchema::new::<doc::ForkReport>("fork-report", Document, "the report of `fork`"),
    NamedSchema::new::<doc::SessionListReport>("list-report", Document, "the report of `list`"),
    NamedSchema::new::<doc::ImportReport>("import-report", Document, "the report of `import`"),
    NamedSchema::new::<doc::PrintReport>("print-report", Document, "the output of `print --json`"),
    NamedSchema::new::<doc::QueryReport>("query-report", Document, "the report of `query`"),
    NamedSchema::new::<doc::ShowReport>("show-report", Document, "the report of `show`"),
    NamedSchema::new::<doc::DiffReport>("diff-report", Document, "the report of `diff`"),
    NamedSchema::new::<doc::StatsReport>(
        "stats-report",
        Document,
        "the report of `stats` on one conversation",
    ),
    NamedSchema::new::<doc::StatsTotal>(
        "stats-total",
        Document,
        "the last line of `stats` on several conversations",
    ),
    NamedSchema::new::<doc::LintDocument>("lint-report", Document, "the report of `lint`"),
    NamedSchema::new::<doc::StrategyListReport>(
        "strategy-list-report",
        Document,
        "the report of `strategy list`",
    ),
    NamedSchema::new::<doc::StrategyShowReport>(
        "strategy-show-report",
        Document,
        "the report of `strategy show`",
    ),
    NamedSchema::new::<doc::StrategyTrustReport>(
        "strategy-trust-report",
        Document,
        "the report of `strategy trust`",
    ),
    NamedSchema::new::<doc::StrategyUntrustReport>(
        "strategy-untrust-report",
        Document,
        "the report of `strategy untrust`",
    ),
    NamedSchema::new::<doc::StrategyTestReport>(
        "strategy-test-report",
        Document,
        "the report of `strategy test`",
    ),
    NamedSchema::new::<doc::ConfigReport>("config-report", Document, "the report of `config`"),
    NamedSchema::new::<doc::ConfigSettingsReport>(
        "config-settings-report",
        Document,
        "the report of `config set` and `config unset`",
    ),
    NamedSchema::new::<doc::ConfigTrustReport>(
        "config-trust-report",
        Document,
        "the report of `config trust`",
    ),
    NamedSchema::new::<doc::ApprovalsReport>(
        "config-approvals-report",
        Document,
        "the report of `config trust --list`",
    ),
    NamedSchema::new::<doc::ConfigUntrustReport>(
        "config-untrust-report",
        Document,
        "the report of `config untrust`",
    ),
    NamedSchema::new::<doc::DoctorReport>("doctor-report", Document, "the report of `doctor`"),
    NamedSchema::new::<doc::Failure>(
        "failure",
        Document,
        "the document of a command or a transcript that failed",
    ),
    NamedSchema::new::<doc::LogLine>("log-line", Document, "one line of stderr with `--log-format json`"),
];

/// Returns all published schemas, in the order in which an exchange uses them.
#[must_use]
pub fn all() -> &'static [NamedSchema] {
    &ALL
}

/// Returns the schema with this name.
#[must_use]
pub fn get(name: &str) -> Option<&'static NamedSchema> {
    ALL.iter().find(|schema| schema.name == name)
}

/// Returns the text of the published file of the schema with this name.
#[must_use]
pub fn render(name: &str) -> Option<String> {
    get(name).map(NamedSchema::render)
}
