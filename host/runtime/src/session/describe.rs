//! `describe`: the request for the description of a plugin, with the features of the host.

use jp_compact_schema::version::{TEXT_BYTES_MAX, VERSION_BYTES_MAX};
use jp_compact_schema::{DescribeRequest, Description, Host, Mode, agree, from_line, to_line};

use super::error::Error;
use super::{Confined, Starter};
use crate::describe_cache::CheckedDescription;
use crate::registry::Plugin;

/// The features of this host in addition to the plain exchange.
const FEATURES: [&str; 5] = ["events.file", "needs.llm", "needs.many", "steps", "worker"];

impl Starter {
    /// Asks a plugin for its description. The caller must validate it with [`check`] or [`Described::new`](super::Described::new).
    ///
    /// # Errors
    /// The plugin cannot be started, fails, or returns no valid description.
    pub async fn describe(&self, confined: &Confined) -> Result<CheckedDescription, Error> {
        let host = Host {
            name: "jp-compact".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            features: FEATURES.map(str::to_owned).to_vec(),
        };
        let request = vec![to_line(&DescribeRequest::new(host)).unwrap_or_default().into()];
        let ended = self.run(confined, "describe", request, self.describe_deadline, &mut |_| {}).await?;
        if !ended.status.success() {
            return Err(Error::Crashed { status: ended.status, answered: false, stderr: ended.stderr });
        }
        read_description(&ended.stdout).map(CheckedDescription::new)
    }
}

/// Checks whether the host can work with a description, and whether it belongs to the plugin.
///
/// # Errors
/// The first problem that was found.
pub fn check(known: &CheckedDescription, plugin: &Plugin) -> Result<(), Error> {
    let description = &known.description;
    agree(&description.protocols).map_err(Error::Version)?;
    let name = &plugin.name;
    if description.name != name.as_str() {
        let found_as = if plugin.manifest().is_some() { "manifest" } else { "file" };
        let reason = format!("it describes itself as `{}`, but its {found_as} is `{name}`", description.name);
        return Err(Error::BadDescription { reason });
    }
    let sizes = [
        ("version", description.version.len(), VERSION_BYTES_MAX),
        ("description", description.description.len(), TEXT_BYTES_MAX),
    ];
    if let Some((field, bytes, bytes_max)) = sizes.into_iter().find(|(_, bytes, bytes_max)| bytes > bytes_max)
    {
        let reason = format!("its `{field}` has {bytes} bytes; at most {bytes_max} are allowed");
        return Err(Error::BadDescription { reason });
    }
    if description.produces.is_empty() {
        let reason = "its `produces` is empty".into();
        return Err(Error::BadDescription { reason });
    }
    if !known.takes_defaults
        && let Some(schema) = &description.options_schema
        && let Err(error) = jsonschema::validator_for(schema)
    {
        let reason = format!("its `options_schema` is not a valid JSON Schema: {error}");
        return Err(Error::BadDescription { reason });
    }
    if plugin.mode() == Mode::Worker && !description.has_feature("worker") {
        let reason =
            "its manifest starts it as a worker, but its description lacks the feature `worker`".into();
        return Err(Error::BadDescription { reason });
    }
    Ok(())
}

/// Parses the single line of a description.
fn read_description(output: &[u8]) -> Result<Description, Error> {
    let invalid = |reason: String| Error::BadDescription { reason };
    let text = std::str::from_utf8(output)
        .map_err(|error| invalid(format!("its description is not UTF-8: {error}")))?;
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let Some(line) = lines.next() else { return Err(invalid("it returned no description".into())) };
    if lines.next().is_some() {
        return Err(invalid("its description has more than one line".into()));
    }
    from_line(line.as_bytes()).map_err(|error| invalid(format!("its description is invalid: {error}")))
}
