//! The published JSON Schemas, by name.
//!
//! They are generated from the types and must not be edited. A message that the host writes has the schema of its
//! serialized form. A message that the host reads has the schema of its deserialized form.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};

use crate::compaction::Payload;
use crate::describe::{DescribeRequest, Description};
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
    Report,
    /// Another program writes it for the host. The schema describes the accepted input.
    Record,
}

impl Direction {
    fn generator(self) -> SchemaGenerator {
        let settings = SchemaSettings::draft2020_12();
        match self {
            Self::HostToStrategy | Self::Report => settings.for_serialize(),
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

    /// Returns the schema as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let mut generated = (self.generate)(self.direction.generator());
        let generated = generated.ensure_object();
        let mut ordered = serde_json::Map::new();
        for key in ["$schema", "title", "description"] {
            ordered.extend(generated.remove_entry(key));
        }
        ordered.append(generated);
        ordered.into()
    }

    /// Returns the text of the published file: indented, with a line end.
    #[must_use]
    pub fn render(&self) -> String {
        format!("{:#}\n", self.json())
    }
}

use Direction::{HostToStrategy, StrategyToHost};

static ALL: [NamedSchema; 11] = [
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
    NamedSchema::new::<BatchReport>("batch-report", Direction::Report, "the report of a batch"),
    NamedSchema::new::<BatchRecord<'_>>("batch-record", Direction::Record, "one record for `batch --ndjson`"),
    NamedSchema::new::<BatchAnswer>("batch-answer", Direction::Report, "one answer of `batch --ndjson`"),
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
