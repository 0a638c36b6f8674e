//! The published JSON Schemas, by name.
//!
//! The files must not be edited: the feature `generate` makes them from the types. A message that the host writes has
//! the schema of its serialized form. A message that the host reads has the schema of its deserialized form.

#[cfg(feature = "generate")]
use schemars::generate::SchemaSettings;
#[cfg(feature = "generate")]
use schemars::{Schema, SchemaGenerator};

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

#[cfg(feature = "generate")]
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
    /// The folder of the published file, in the folder of this crate: `v1` for the strategy protocol, `json` for the
    /// documents of the command line.
    pub folder: &'static str,
    #[cfg(not(feature = "generate"))]
    text: &'static str,
    #[cfg(feature = "generate")]
    generate: fn(SchemaGenerator) -> Schema,
}

impl NamedSchema {
    /// Returns the schema as JSON.
    ///
    /// # Panics
    ///
    /// If the published file is not JSON. A test checks each one.
    #[must_use]
    #[cfg(not(feature = "generate"))]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.text).expect("a test parses each published schema")
    }

    /// Returns the text of the published file: indented, with a line end.
    #[must_use]
    #[cfg(not(feature = "generate"))]
    pub fn render(&self) -> String {
        self.text.to_owned()
    }

    /// Returns the schema generated from the types, as JSON.
    #[must_use]
    #[cfg(feature = "generate")]
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

    /// Returns the text of the file to publish: indented, with a line end.
    #[must_use]
    #[cfg(feature = "generate")]
    pub fn render(&self) -> String {
        format!("{:#}\n", self.json())
    }
}

/// Makes an entry of the list. Without the feature `generate`, the file is included. With the feature, the file of a
/// new schema need not exist yet.
macro_rules! schema {
    ($folder:literal, $name:literal, $type:ty, $direction:expr, $description:literal $(,)?) => {
        NamedSchema {
            name: $name,
            direction: $direction,
            description: $description,
            folder: $folder,
            #[cfg(not(feature = "generate"))]
            text: include_str!(concat!("../", $folder, "/", $name, ".schema.json")),
            #[cfg(feature = "generate")]
            generate: SchemaGenerator::into_root_schema_for::<$type>,
        }
    };
}

use Direction::{Document, HostToStrategy, StrategyToHost};

static ALL: [NamedSchema; 38] = [
    schema!(
        "v1",
        "describe-request",
        crate::describe::DescribeRequest,
        HostToStrategy,
        "the host's request for a description"
    ),
    schema!(
        "v1",
        "description",
        crate::describe::Description,
        StrategyToHost,
        "the description of a strategy"
    ),
    schema!("v1", "compact", crate::request::CompactRequest, HostToStrategy, "the header of a request"),
    schema!("v1", "event", crate::event::EventLine, HostToStrategy, "one event after the header"),
    schema!("v1", "events-end", crate::event::EventsEnd, HostToStrategy, "the line after the last event"),
    schema!("v1", "reply", crate::reply::Reply, StrategyToHost, "one line of a reply"),
    schema!("v1", "compaction", crate::compaction::Payload, StrategyToHost, "one compaction of a result"),
    schema!("v1", "manifest", crate::manifest::Manifest, Direction::Manifest, "a plugin's plugin.toml"),
    schema!("json", "batch-report", crate::report::BatchReport, Document, "the report of a batch"),
    schema!(
        "json",
        "batch-record",
        crate::record::BatchRecord<'_>,
        Direction::Record,
        "one record for `batch --ndjson`"
    ),
    schema!("json", "batch-answer", crate::record::BatchAnswer, Document, "one answer of `batch --ndjson`"),
    schema!(
        "json",
        "compact-report",
        crate::document::CompactionReport,
        Document,
        "the report of a compaction"
    ),
    schema!("json", "reset-report", crate::document::ResetDocument, Document, "the report of `--reset`"),
    schema!("json", "auto-report", crate::document::AutoReport, Document, "the report of `auto`"),
    schema!("json", "eval-report", crate::document::EvalReport, Document, "the report of `eval`"),
    schema!("json", "fork-report", crate::document::ForkReport, Document, "the report of `fork`"),
    schema!("json", "list-report", crate::document::SessionListReport, Document, "the report of `list`"),
    schema!("json", "import-report", crate::document::ImportReport, Document, "the report of `import`"),
    schema!("json", "print-report", crate::document::PrintReport, Document, "the output of `print --json`"),
    schema!("json", "query-report", crate::document::QueryReport, Document, "the report of `query`"),
    schema!("json", "show-report", crate::document::ShowReport, Document, "the report of `show`"),
    schema!("json", "diff-report", crate::document::DiffReport, Document, "the report of `diff`"),
    schema!(
        "json",
        "stats-report",
        crate::document::StatsReport,
        Document,
        "the report of `stats` on one conversation"
    ),
    schema!(
        "json",
        "stats-total",
        crate::document::StatsTotal,
        Document,
        "the last line of `stats` on several conversations"
    ),
    schema!("json", "lint-report", crate::document::LintDocument, Document, "the report of `lint`"),
    schema!(
        "json",
        "strategy-list-report",
        crate::document::StrategyListReport,
        Document,
        "the report of `strategy list`"
    ),
    schema!(
        "json",
        "strategy-show-report",
        crate::document::StrategyShowReport,
        Document,
        "the report of `strategy show`"
    ),
    schema!(
        "json",
        "strategy-trust-report",
        crate::document::StrategyTrustReport,
        Document,
        "the report of `strategy trust`"
    ),
    schema!(
        "json",
        "strategy-untrust-report",
        crate::document::StrategyUntrustReport,
        Document,
        "the report of `strategy untrust`"
    ),
    schema!(
        "json",
        "strategy-test-report",
        crate::document::StrategyTestReport,
        Document,
        "the report of `strategy test`"
    ),
    schema!("json", "config-report", crate::document::ConfigReport, Document, "the report of `config`"),
    schema!(
        "json",
        "config-settings-report",
        crate::document::ConfigSettingsReport,
        Document,
        "the report of `config set` and `config unset`"
    ),
    schema!(
        "json",
        "config-trust-report",
        crate::document::ConfigTrustReport,
        Document,
        "the report of `config trust`"
    ),
    schema!(
        "json",
        "config-approvals-report",
        crate::document::ApprovalsReport,
        Document,
        "the report of `config trust --list`"
    ),
    schema!(
        "json",
        "config-untrust-report",
        crate::document::ConfigUntrustReport,
        Document,
        "the report of `config untrust`"
    ),
    schema!("json", "doctor-report", crate::document::DoctorReport, Document, "the report of `doctor`"),
    schema!(
        "json",
        "failure",
        crate::document::Failure,
        Document,
        "the document of a command or a transcript that failed"
    ),
    schema!(
        "json",
        "log-line",
        crate::document::LogLine,
        Document,
        "one line of stderr with `--log-format json`"
    ),
];

/// Returns all published schemas: first those of the protocol, then those of the documents.
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
