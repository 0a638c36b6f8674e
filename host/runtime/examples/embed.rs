//! Asks the strategy `strip-tools` of the folder `plugins` to compact the conversation on stdin.

use std::{error::Error, io};

use jp_compact_core::request::{self, RequestParameters};
use jp_compact_core::validate::{ValidationContext, validate};
use jp_compact_core::{Stream, Survey, TurnRange, reply::Terminal};
use jp_compact_runtime::registry::{ExtraFolders, Registry};
use jp_compact_runtime::session::{Body, Confined, Described, OnStop, Sessions, Starter};
use jp_compact_runtime::trust::{Trust, TrustOverrides};
use jp_compact_runtime::{clock::Clock, environment::Environment, jail::Abilities, options};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let environment = Environment::of_process()?;
    let folders = ExtraFolders { plugin_dirs: &["plugins".into()], ..ExtraFolders::default() };
    let registry = Registry::discover(&environment, &folders)?;
    let plugin = registry.find("strip-tools")?;
    let trust = Trust::open(&environment, &TrustOverrides::default())?;
    let cleared = trust.clear(&plugin).map_err(|error| format!("the strategy is not trusted: {error}"))?;
    let confined = Confined::jailed(cleared, Abilities::detect_with_limits(&environment), registry.runner())?;
    let starter = Starter::new(registry.runner(), &environment.temp_dir);
    let known = starter.describe(&confined).await?;
    let strategy = Described::new(confined, known)?;

    let stream = Stream::parse(io::read_to_string(io::stdin())?.into_bytes().into())?;
    let (survey, sessions) = (Survey::new(&stream), Sessions::new(starter, None));
    let range = TurnRange::new(0, stream.turns().saturating_sub(2)).ok_or("the range is empty")?;
    let (id, options) = (sessions.id(), options::defaults(&strategy.description));
    let parameters = RequestParameters::new(&id, &strategy.description, range, &options, Clock::System.now());
    let (header, events) = request::header_and_events(&survey, &parameters);
    let reply = sessions.ask(&strategy, header, &Body::from_events(events), OnStop::Refuse).await?;

    let Terminal::Result(result) = reply.terminal else { return Err("the strategy declined".into()) };
    let context = ValidationContext::new(&stream, &survey.pairs, range, &strategy.description.produces);
    #[expect(clippy::print_stdout, reason = "this is the output of the example")]
    for compaction in validate(&context, result.compactions)? {
        println!("{compaction:?}");
    }
    Ok(())
}
