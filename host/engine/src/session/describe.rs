//! `describe`: what a plugin says of itself, and what the host tells it that it can do.

use std::time::Duration;

use jp_compact_schema::version::DESCRIBE_DEADLINE_MS;
use jp_compact_schema::{DescribeRequest, Description, Host, agree, from_line, to_line};

use super::{Described, Starter};
use crate::digest;
use crate::failure::StrategyFailure;
use crate::registry::Plugin;

/// What this host can do for a strategy beside the plain exchange.
const FEATURES: [&str; 3] = ["events.file", "needs.llm", "worker"];

impl Starter {
    /// Asks a plugin to describe itself.
    ///
    /// # Errors
    /// It cannot be started, fails, or says what is no description of it.
    pub async fn describe(&self, plugin: &Plugin) -> Result<Described, StrategyFailure> {
        let executable_sha256 = digest::of_file(&plugin.path)
            .map_err(|source| StrategyFailure::Unreadable { path: plugin.path.clone(), source })?;
        let host = Host {
            name: "jp-compact".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            features: FEATURES.map(str::to_owned).to_vec(),
        };
        let question = to_line(&DescribeRequest::new(host)).unwrap_or_default();
        let deadline = Duration::from_millis(DESCRIBE_DEADLINE_MS);
        let question = vec![question.into()];
        let name = plugin.name.as_str();
        let ended = self.run(&plugin.path, name, "describe", question, deadline, &mut |_| {}).await?;
        if !ended.status.success() {
            return Err(StrategyFailure::Crashed {
                status: ended.status,
                answered: false,
                stderr: ended.stderr,
            });
        }
        let description = read_description(&ended.stdout)?;
        agree(&description.protocols).map_err(StrategyFailure::Version)?;
        if description.name != plugin.name.as_str() {
            let what = format!("it calls itself `{}`, and its file is `{}`", description.name, plugin.name);
            return Err(StrategyFailure::BadDescription { what });
        }
        if description.produces.is_empty() {
            let what = "it produces nothing: `produces` is empty".into();
            return Err(StrategyFailure::BadDescription { what });
        }
        Ok(Described { plugin: plugin.clone(), description, executable_sha256 })
    }
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
