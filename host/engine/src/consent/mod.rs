//! Decides whether a model may be asked. A request costs money and sends the conversation to a provider. The provider,
//! the model, the instructions, and the profile that leads to them must therefore come from the user: built in, from
//! the user's configuration, or typed. The user must approve anything else once per folder, exactly as it was shown.
//!
//! [`allow`] is the only place that decides, and an [`Allowed`] is the only way to a model. No command can skip the
//! decision.

mod record;

use std::fmt;
use std::path::{Path, PathBuf};

use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::trust::quoted;
use jp_compact_schema::Llm;
use serde_json::Value;

use crate::config::{ConfigScope, ConfiguredModel, Foreign, ModelDecision, Provenance};
use jp_compact_llm::{ModelName, Models};

pub use record::{Approval, Approvals, ApprovalsError};

/// The origin of a request to compact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// The user, on the command line.
    User,
    /// The user, by continuing the conversation. `query` uses the model of the conversation.
    Query,
    /// A client of a server. Its arguments do not come from the user.
    Client {
        /// Whether the user started the server with `--allow-model`.
        allowed: bool,
    },
}

/// The data for the decision.
#[derive(Debug, Clone)]
pub struct Consent {
    asker: Asker,
    scope: ConfigScope,
    approvals: Approvals,
}

/// A request to use a model.
#[derive(Debug, Clone, Copy)]
pub struct Wants<'a> {
    /// The strategy that needs the model, with its options. `None` if it is not a strategy.
    pub strategy: Option<(&'a str, &'a serde_json::Map<String, Value>)>,
    /// The configuration values that led to this request.
    pub provenance: &'a Provenance,
    /// The configured models, the more specific first.
    pub named: [Option<&'a ConfiguredModel>; 2],
}

/// Permission to ask a model. Only [`allow`] creates it.
#[derive(Debug, Clone)]
pub struct Allowed(Option<Llm>);

impl Allowed {
    /// Returns the model. `None` if no model is configured.
    #[must_use]
    pub fn model(&self) -> Option<&Llm> {
        self.0.as_ref()
    }
}

/// A model must not be asked, or is not named.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option of a strategy is not a model name.
    #[error("strategy `{strategy}` does not take these options: {what}")]
    BadModel { strategy: String, what: String },
    #[error("no model may be asked")]
    Denied(#[source] Box<Denial>),
}

/// The reason why a model must not be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// The request came from a client of a server.
    Client,
    /// Values that are neither the user's own nor approved.
    NotApproved {
        /// The values.
        foreign: Vec<Foreign>,
        /// The folder whose values the user can inspect.
        folder: PathBuf,
    },
    /// Values of a folder that does not contain the transcript.
    Elsewhere {
        /// The values.
        foreign: Vec<Foreign>,
    },
    /// Another user could have written the approvals.
    Insecure(ApprovalsError),
}

impl Consent {
    /// Creates the data for the configuration files in this scope.
    #[must_use]
    pub fn new(scope: ConfigScope, asker: Asker, environment: &Environment) -> Self {
        Self { asker, scope, approvals: Approvals::open(environment) }
    }
}

/// Decides whether a model may be asked, and which one. A model in the options of the strategy comes first,
/// then the most specific configured one.
///
/// # Errors
/// The model must not be asked, or an option is not a model name.
pub fn allow(models: &Models, consent: &Consent, wants: &Wants<'_>) -> Result<Allowed, Error> {
    let option = wants.strategy.and_then(|(name, options)| Some((name, options.get("model")?.as_str()?)));
    let (model, named) = match (option, models.requested_model()) {
        (Some((name, option)), _) => {
            let parsed = option
                .parse::<ModelName>()
                .map_err(|error| Error::BadModel { strategy: name.to_owned(), what: error.to_string() })?;
            (Some(parsed), None)
        }
        (None, Some(wish)) => (Some(wish.clone()), None),
        (None, None) => {
            let named = wants.named.into_iter().flatten().next();
            (named.map(|named| named.model.clone()), named)
        }
    };
    // Recorded answers cost nothing and send nothing.
    if !models.replays() {
        check(consent, wants.provenance, named).map_err(|denial| Error::Denied(Box::new(denial)))?;
    }
    Ok(Allowed(
        model.map(|model| Llm { context_window: models.context_window(&model), model: model.to_string() }),
    ))
}

fn check(consent: &Consent, provenance: &Provenance, named: Option<&ConfiguredModel>) -> Result<(), Denial> {
    if consent.asker == (Asker::Client { allowed: false }) {
        return Err(Denial::Client);
    }
    // `query` shows the model that it asks, and the user named the conversation.
    let named = named.filter(|named| consent.asker != Asker::Query || !named.is_of_conversation());
    let named = named.and_then(|named| named.foreign.as_ref());
    let foreign: Vec<&Foreign> = provenance.foreign().iter().chain(named).collect();
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
    // A folder shows the values of its own files. Values of the files of a transcript are shown with the transcript.
    let shown = missing.iter().filter_map(|foreign| consent.scope.shown_by(&foreign.origin));
    let Some(folder) = shown.max_by_key(|folder| folder.components().count()).map(Path::to_path_buf) else {
        return Ok(());
    };
    Err(Denial::NotApproved { foreign: owned(missing), folder })
}

impl Denial {
    /// Returns the next command to try.
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
                    [Foreign { subject: ModelDecision::Model { model, .. }, .. }] => {
                        format!("`--model {model}` allows this model for one run; ")
                    }
                    _ => String::new(),
                };
                format!("{typed}review the request and approve it with")
            }
            Self::Elsewhere { foreign } => {
                let mut files = foreign.iter().filter_map(|foreign| foreign.origin.source.configuration());
                match files.next() {
                    Some(file) => format!(
                        "if the file is your own, pass `--config {}`; or pass `--profile NAME`",
                        quoted(file)
                    ),
                    None => "pass `--profile NAME` or `--model PROVIDER/NAME`".into(),
                }
            }
            Self::Insecure(error) => error.hint(),
        }
    }
}

impl Denial {
    /// Returns the command that shows the values and approves them.
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
                (foreign, "this is not your own configuration, and it is not approved")
            }
            Self::Elsewhere { foreign } => {
                (foreign, "this is not your own configuration, and the transcript is not in its folder")
            }
        };
        for foreign in foreign {
            write!(f, "{foreign}; ")?;
        }
        f.write_str(why)
    }
}

impl std::error::Error for Denial {}
