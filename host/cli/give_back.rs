//! The facts that a hook adds to the context after a compaction by Claude Code or Codex: paths, commands, open errors,
//! and constraints of the compacted part. The strategy `digest` lists them, so no model is asked. The session must not
//! be changed.

use std::path::Path;

use jp_compact_core::Bound;
use jp_compact_core::select::{KeepLast, RequestedSelection};
use jp_compact_engine::compact::{self, Opened};
use jp_compact_engine::plan::CommandLineChoice;
use jp_compact_sessions::{GIVE_BACK_TOKENS, compacted_part};
use jp_compact_store::Place;

use crate::error::Report;
use crate::exit::Exit;
use crate::setup::Setup;

/// Returns the facts that the last compaction of a session hid, as text. `None` if it hid no facts.
pub(crate) async fn facts(session: &Path, setup: &mut Setup<'_>) -> Result<Option<String>, Report> {
    let opened = setup.read(session.as_os_str())?;
    let format = opened.stream.format();
    let Some(part) = compacted_part(format, opened.stream.bytes()) else { return Ok(None) };
    let part = opened.stream.bytes().slice_ref(part);
    let stream = compact::read_bytes(part, Some(format), session)?;
    let hidden = Opened::new(Place::nowhere("the compacted part"), None, stream);
    let spec = format!("digest:facts_tokens={GIVE_BACK_TOKENS}");
    let strategies = [spec.parse().map_err(|_| Report::bug())?];
    let selection =
        RequestedSelection { from: Some(Bound::turn(0)), to: None, keep_last: KeepLast::turns(0) };
    let choice = CommandLineChoice { strategies: &strategies, selection, ..CommandLineChoice::default() };
    let run = setup.planner.plan(&choice, &hidden).await?;
    let (_, sidecar) = compact::compact_in_memory(&run, &hidden).await?;
    let Some(sidecar) = sidecar else { return Ok(None) };
    let view = compact::with_sidecar(hidden.stream, sidecar.into())
        .map_err(|error| Report::new(Exit::Transcript, error.to_string(), None))?;
    let text = view.overlays().last().and_then(|overlay| overlay.summary.clone());
    Ok(text.map(|text| shortened(&text, |text| run.io.estimator.tokens(text))))
}

/// Returns the text without its last lines, so that it has at most the tokens that a hook may add.
fn shortened(text: &str, tokens: impl Fn(&str) -> u64) -> String {
    let mut kept = text.trim_end();
    while tokens(kept) > GIVE_BACK_TOKENS {
        kept = kept.rsplit_once('\n').map_or("", |(before, _)| before);
    }
    kept.to_owned()
}
