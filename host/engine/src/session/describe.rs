//! `describe`: what a plugin says of itself, and what the host tells it that it can do.

use std::time::Duration;

use jp_compact_schema::version::{DESCRIBE_DEADLINE_MS, TEXT_BYTES_MAX, VERSION_BYTES_MAX};
use jp_compact_schema::{DescribeRequest, Description, Host, Mode, agree, from_line, to_line};

use super::{Confined, Starter};
use crate::describe_cache::Known;
use crate::failure::StrategyFailure;
use crate::registry::Plugin;

/// What this host can do for a strategy beside the plain exchange.
const FEATURES: [&str; 3] = ["events.file", "needs.llm", "worker"];

impl Starter {
    /// Asks a plugin to describe itself. Whether what it says will do is for [`check`] to say.
    ///
    /// # Errors
    /// It cannot be started, fails, or says what is no description.
    pub async fn describe(&self, confined: &Confined) -> Result<Description, StrategyFailure> {
        let host = Host {
            name: "jp-compact".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            features: FEATURES.map(str::to_owned).to_vec(),
        };
        let question = vec![to_line(&DescribeRequest::new(host)).unwrap_or_default().into()];
        let deadline = Duration::from_millis(DESCRIBE_DEADLINE_MS);
        let ended = self.run(confined, "describe", question, deadline, &mut |_| {}).await?;
        if !ended.status.success() {
            return Err(StrategyFailure::Crashed {
                status: ended.status,
                answered: false,
                stderr: ended.stderr,
            });
        }
        read_description(&ended.stdout)
    }
}

/// Whether a description is one that the host can work with, of the plugin that it was said of.
///
/// # Errors
/// It is not.
pub fn check(known: &Known, plugin: &Plugin) -> Result<(), StrategyFailure> {
    let description = &known.description;
    agree(&description.protocols).map_err(StrategyFailure::Version)?;
    let name = &plugin.name;
    if description.name != name.as_str() {
        let found_as = if plugin.manifest().is_some() { "manifest" } else { "file" };
        let what = format!("it calls itself `{}`, and its {found_as} is `{name}`", description.name);
        return Err(StrategyFailure::BadDescription { what });
    }
    let sizes = [
        ("version", description.version.len(), VERSION_BYTES_MAX),
        ("description", description.description.len(), TEXT_BYTES_MAX),
    ];
    if let Some((field, bytes, most)) = sizes.into_iter().find(|(_, bytes, most)| bytes > most) {
        let what = format!("its `{field}` has {bytes} bytes, {most} are allowed");
        return Err(StrategyFailure::BadDescription { what });
    }
    if description.produces.is_empty() {
        let what = "it produces nothing: `produces` is empty".into();
        return Err(StrategyFailure::BadDescription { what });
    }
    if !known.takes_defaults
        && let Some(schema) = &description.options_schema
        && let Err(error) = jsonschema::validator_for(schema)
    {
        let what = format!("its `options_schema` is no JSON Schema: {error}");
        return Err(StrategyFailure::BadDescription { what });
    }
    if plugin.mode() == Mode::Worker && !description.has_feature("worker") {
        let what = "its manifest starts it as a worker, and it does not name the feature `worker`".into();
        return Err(StrategyFailure::BadDescription { what });
    }
    Ok(())
}

/// Reads the one line that `describe` answers with.
fn read_description(output: &[u8]) -> Result<Description, StrategyFailure> {
    let bad = |what: String| StrategyFailure::BadDescription { what };
    let text =
        std::str::from_utf8(output).map_err(|error| bad(format!("its description is not UTF-8: {error}")))?;
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let Some(line) = lines.next() else { return Err(bad("it described nothing".into())) };
    if lines.next().is_some() {
        return Err(bad("it wrote more than one line for a description".into()));
    }
    from_line(line.as_bytes()).map_err(|error| bad(format!("its description cannot be read: {error}")))
}
