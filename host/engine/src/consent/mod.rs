//! Whether a model may be asked. A key costs money and a request carries a conversation away, so that the provider, the
//! model, the instructions and the profile that leads to them have to be the user's own: built in, in the user's own
//! configuration, or typed. Everything else has to be approved once, for a folder, as it was shown.
//!
//! [`allow`] is the only place that decides, and an [`Allowed`] the only way to a model: no surface can leave it out.

mod record;

use std::fmt;
use std::path::{Path, PathBuf};

use jp_compact_schema::Llm;
use serde_json::Value;

use crate::config::{Foreign, Lead, Named, Scope, Subject};
use crate::environment::Environment;
use crate::failure::{Failure, StrategyFailure};
use crate::llm::{ModelName, Models};
use crate::trust::quoted;

pub use record::{Approval, Approvals, RecordError};

/// Who decides what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// The user, with a command line.
    User,
    /// The user, who typed that the conversation goes on: with the model that it is held with.
    Query,
    /// A client of a server, whose arguments are not the user's.
    Client {
        /// Whether the user started the server with `--allow-model`.
        allowed: bool,
    },
}

/// What is known of the user's consent.
#[derive(Debug, Clone)]
pub struct Consent {
    asker: Asker,
    scope: Scope,
    approvals: Approvals,
}

/// What somebody wants a model for.
#[derive(Debug, Clone, Copy)]
pub struct Wants<'a> {
    /// The strategy that wants it, if it is one, and its options.
    pub strategy: Option<(&'a str, &'a serde_json::Map<String, Value>)>,
    /// What led there.
    pub lead: &'a Lead,
    /// The models that are named, the nearest first.
    pub named: [Option<&'a Named>; 2],
}

/// That a model may be asked, and which one. Only [`allow`] makes it.
#[derive(Debug, Clone)]
pub struct Allowed(Option<Llm>);

impl Allowed {
    /// The model. None where nobody names one.
    #[must_use]
    pub fn model(&self) -> Option<&Llm> {
        self.0.as_ref()
    }
}

/// Why a model may not be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// A client of a server wants it.
    Client,
    /// Values that are not the user's own, and that are not approved.
    NotApproved {
        /// The values.
        foreign: Vec<Foreign>,
        /// The folder to show them by.
        folder: PathBuf,
    },
    /// Values that are not the user's own, for a transcript that is somewhere else.
    Elsewhere {
        /// The values.
        foreign: Vec<Foreign>,
    },
    /// Others could have written the approvals.
    Insecure(RecordError),
}

impl Consent {
    /// The consent for what the configuration of these files leads to.
    #[must_use]
    pub fn new(scope: Scope, asker: Asker, environment: &Environment) -> Self {
        Self { asker, scope, approvals: Approvals::open(environment) }
    }
}

/// Decides whether a model may be asked, and which: the strategy's option, the one that was typed, the nearest that is
/// named.
///
/// # Errors
/// It may not be asked, or an option does not name a model.
pub fn allow(models: &Models, consent: &Consent, wants: &Wants<'_>) -> Result<Allowed, Failure> {
    let option = wants.strategy.and_then(|(name, options)| Some((name, options.get("model")?.as_str()?)));
    let (model, named) = match (option, models.wish()) {
        (Some((name, option)), _) => {
            let parsed = option.parse::<ModelName>().map_err(|error| {
                Failure::of_strategy(name, StrategyFailure::BadOptions { what: error.to_string() })
            })?;
            (Some(parsed), None)
        }
        (None, Some(wish)) => (Some(wish.clone()), None),
        (None, None) => {
            let named = wants.named.into_iter().flatten().next();
            (named.map(|named| named.model.clone()), named)
        }
    };
    // Recorded answers cost nothing, and are sent nowhere.
    if !models.replays() {
        check(consent, wants.lead, named).map_err(|denial| Failure::NotAllowed(Box::new(denial)))?;
    }
    Ok(Allowed(
        model.map(|model| Llm { context_window: models.context_window(&model), model: model.to_string() }),
    ))
}

fn check(consent: &Consent, lead: &Lead, named: Option<&Named>) -> Result<(), Denial> {
    if consent.asker == (Asker::Client { allowed: false }) {
        return Err(Denial::Client);
    }
    // `query` is asked for by the name of the conversation, and says whom it asks.
    let named = named.filter(|named| consent.asker != Asker::Query || !named.is_of_conversation());
    let named = named.and_then(|named| named.foreign.as_ref());
    let foreign: Vec<&Foreign> = lead.foreign().iter().chain(named).collect();
    let owned = |of: Vec<&Foreign>| of.into_iter().cloned().collect::<Vec<_>>();
    let (covered, elsewhere): (Vec<_>, Vec<_>) =
        foreign.into_iter().partition(|foreign| consent.scope.approved_by(&foreign.origin).is_some());
    if !elsewhere.is_empty() {
        return Err(Denial::Elsewhere { foreign: owned(elsewhere) });
    }
    let mut missing = Vec::new();
    for foreign in covered {
        let Some(root) = consent.scope.approved_by(&foreign.origin) else { continue };
        if !consent.approvals.covers(root, &foreign.subject).map_err(Denial::Insecure)? {
            missing.push(foreign);
        }
    }
    // What a folder shows is what its own files say. A transcript's own files are shown with the transcript.
    let shown = missing.iter().filter_map(|foreign| consent.scope.shown_by(&foreign.origin));
    let Some(folder) = shown.max_by_key(|folder| folder.components().count()).map(Path::to_path_buf) else {
        return Ok(());
    };
    Err(Denial::NotApproved { foreign: owned(missing), folder })
}

impl Denial {
    /// What to do.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Client => {
                "the user may start the server with `jp-compact mcp --allow-model`; profiles that ask no model work \
                 without it"
                    .into()
            }
            Self::NotApproved { foreign, .. } => {
                let typed = match foreign.as_slice() {
                    [Foreign { subject: Subject::Model { model, .. }, .. }] => {
                        format!("`--model {model}` asks it in this run; ")
                    }
                    _ => String::new(),
                };
                format!("{typed}look at what is asked, and approve it with")
            }
            Self::Elsewhere { foreign } => {
                let mut files = foreign.iter().filter_map(|foreign| foreign.origin.source.configuration());
                match files.next() {
                    Some(file) => format!(
                        "if the file is your own, type its name: `--config {}`; or type what you want: `--profile NAME`",
                        quoted(file)
                    ),
                    None => "type what you want: `--profile NAME`, `--model PROVIDER/NAME`".into(),
                }
            }
            Self::Insecure(error) => error.hint(),
        }
    }
}

impl Denial {
    /// The command that shows what is asked, and approves it.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        match self {
            Self::NotApproved { folder, .. } => Some(format!("jp-compact config trust {}", quoted(folder))),
            _ => None,
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (foreign, why) = match self {
            Self::Client => return f.write_str("the server was not started with `--allow-model`"),
            Self::Insecure(error) => return write!(f, "{error}"),
            Self::NotApproved { foreign, .. } => {
                (foreign, "that is not your own configuration, and not approved")
            }
            Self::Elsewhere { foreign } => {
                (foreign, "that is not your own configuration, and the transcript is not in its folder")
            }
        };
        for foreign in foreign {
            write!(f, "{foreign}, and ")?;
        }
        f.write_str(why)
    }
}

impl std::error::Error for Denial {}
