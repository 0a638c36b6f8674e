//! The decision whether a model may be asked. A request costs money and sends the conversation to a provider. The
//! provider, the model, the instructions, and the profile that leads to them must therefore be built in, come from the
//! user's configuration, or be typed. The user must approve every other value once per folder, exactly as it was shown.
//! The same holds for a strategy that may use the network, because its options can name an address.
//!
//! Only [`allow`] and `check` decide. A request to a model needs an [`Allowed`], so no command can skip the decision.
//! `RunSettings::allow` calls `check` for strategies that may use the network.

mod record;

use std::fmt;
use std::path::PathBuf;

use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::trust::quoted;
use jp_compact_schema::Llm;
use serde_json::Value;

use jp_compact_config::{ConfigScope, ConfiguredModel, ForeignValue, ModelDecision, Provenance};
use jp_compact_llm::{ModelName, Models};

pub use record::{Approval, Approvals, ApprovalsError};

/// The origin of a request to compact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// The user, on the command line.
    User,
    /// The user, who continues the conversation with `query`. That command uses the model of the conversation.
    Query,
    /// A client of the MCP server. Its arguments do not come from the user.
    Client {
        /// Whether the user started the server with `--allow-model`.
        allowed: bool,
    },
}

/// The data for the decision that are the same for every request of a run.
#[derive(Debug, Clone)]
pub struct ConsentContext {
    asker: Asker,
    scope: ConfigScope,
    approvals: Approvals,
}

/// A request to use a model.
#[derive(Debug, Clone, Copy)]
pub struct ModelUseRequest<'a> {
    /// The strategy that needs the model, with its options. `None` if no strategy needs it.
    pub strategy: Option<(&'a str, &'a serde_json::Map<String, Value>)>,
    /// The configuration values that led to this request.
    pub provenance: &'a Provenance,
    /// The configured models. The first one that exists applies.
    pub configured_models: [Option<&'a ConfiguredModel>; 2],
}

/// Permission to ask a model. Only [`allow`] creates it.
#[derive(Debug, Clone)]
pub struct Allowed(Option<Llm>);

impl Allowed {
    /// Returns the model. `None` if the user neither typed nor configured a model.
    #[must_use]
    pub fn model(&self) -> Option<&Llm> {
        self.0.as_ref()
    }
}

/// A model must not be asked, or its name is invalid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option of a strategy is not a model name.
    #[error("strategy `{strategy}` does not take these options: {reason}")]
    BadModel { strategy: String, reason: String },
    #[error("no model may be asked")]
    Denied(#[source] Box<Denial>),
}

/// The reason why a model must not be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// The request came from a client of a server.
    Client,
    /// Some values are neither the user's own nor approved.
    NotApproved {
        foreign: Vec<ForeignValue>,
        /// The folder for which the user can approve the values.
        folder: PathBuf,
    },
    /// Some values are from a folder that does not contain the transcript, so they cannot be approved.
    OutsideFolder { foreign: Vec<ForeignValue> },
    /// The approvals cannot be trusted or read.
    Insecure(ApprovalsError),
}

impl ConsentContext {
    /// Creates the data for a configuration of this scope. Reads no approvals yet.
    #[must_use]
    pub fn new(scope: ConfigScope, asker: Asker, environment: &Environment) -> Self {
        Self { asker, scope, approvals: Approvals::open(environment) }
    }
}

/// Decides whether a model may be asked, and selects it. A model in the options of the strategy precedes a typed model,
/// which precedes the configured models.
///
/// # Errors
/// The model must not be asked, or an option is not a model name.
pub fn allow(
    models: &Models,
    consent: &ConsentContext,
    wants: &ModelUseRequest<'_>,
) -> Result<Allowed, Error> {
    let model_option =
        wants.strategy.and_then(|(name, options)| Some((name, options.get("model")?.as_str()?)));
    let (model, configured) = match (model_option, models.requested_model()) {
        (Some((strategy, text)), _) => {
            let model = text.parse::<ModelName>().map_err(|error| Error::BadModel {
                strategy: strategy.to_owned(),
                reason: error.to_string(),
            })?;
            (Some(model), None)
        }
        (None, Some(requested)) => (Some(requested.clone()), None),
        (None, None) => {
            let configured = wants.configured_models.into_iter().flatten().next();
            (configured.map(|configured| configured.model.clone()), configured)
        }
    };
    // Recorded answers cost nothing, and nothing is sent.
    if !models.replays() {
        check(consent, wants.provenance, configured).map_err(|denial| Error::Denied(Box::new(denial)))?;
    }
    Ok(Allowed(model.map(|model| {
        let window = models.context_window(&model);
        Llm { context_window: window.map(|window| window.tokens), model: model.to_string() }
    })))
}

/// Checks that every foreign value that leads to a model, or to a strategy with the network, is approved.
///
/// # Errors
/// A value is not approved, or a client may not choose it.
pub(crate) fn check(
    consent: &ConsentContext,
    provenance: &Provenance,
    configured: Option<&ConfiguredModel>,
) -> Result<(), Denial> {
    if consent.asker == (Asker::Client { allowed: false }) {
        return Err(Denial::Client);
    }
    let foreign_model = match configured {
        // The user selected the conversation, and `query` shows its model.
        Some(model) if consent.asker == Asker::Query && model.is_of_conversation() => None,
        Some(model) => model.foreign.as_ref(),
        None => None,
    };
    let (mut approvable, mut outside) = (Vec::new(), Vec::new());
    for foreign in provenance.foreign().iter().chain(foreign_model) {
        match consent.scope.folder_to_approve(&foreign.origin) {
            Some(folder) => approvable.push((folder, foreign)),
            None => outside.push(foreign.clone()),
        }
    }
    if !outside.is_empty() {
        return Err(Denial::OutsideFolder { foreign: outside });
    }
    let mut unapproved = Vec::new();
    for (folder, foreign) in approvable {
        if !consent.approvals.covers(folder, &foreign.decision).map_err(Denial::Insecure)? {
            unapproved.push(foreign.clone());
        }
    }
    // For a workspace, `config trust` shows only the values of its files. For the folder of a transcript, which is
    // deeper, it also shows the values of the transcript's files.
    let folders = unapproved.iter().filter_map(|foreign| consent.scope.shown_with(&foreign.origin));
    match folders.max_by_key(|folder| folder.components().count()) {
        Some(folder) => Err(Denial::NotApproved { foreign: unapproved, folder }),
        None => Ok(()),
    }
}

impl Denial {
    /// Returns the next command to try.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Client => {
                "the user may start the server with `jp-compact mcp --allow-model`; profiles that use neither a model \
                 nor the network work without it"
                    .into()
            }
            Self::NotApproved { foreign, .. } => {
                let alternative = match foreign.as_slice() {
                    [ForeignValue { decision: ModelDecision::Model { model, .. }, .. }] => {
                        format!("`--model {model}` allows this model for one run; ")
                    }
                    _ => String::new(),
                };
                format!("{alternative}review the request and approve it with")
            }
            Self::OutsideFolder { foreign } => {
                let is_model =
                    |foreign: &ForeignValue| matches!(foreign.decision, ModelDecision::Model { .. });
                let options = match (foreign.iter().all(is_model), foreign.iter().any(is_model)) {
                    (true, _) => "`--model PROVIDER/NAME`",
                    (_, true) => "`--profile NAME` and `--model PROVIDER/NAME`",
                    _ => "`--profile NAME`",
                };
                let mut files = foreign.iter().filter_map(|foreign| foreign.origin.source.workspace_file());
                match files.next() {
                    Some(file) => {
                        format!("if the file is your own, pass `--config {}`; or pass {options}", quoted(file))
                    }
                    None => format!("pass {options}"),
                }
            }
            Self::Insecure(error) => error.hint(),
        }
    }

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
        let (foreign, reason) = match self {
            Self::Client => return f.write_str("the server was not started with `--allow-model`"),
            Self::Insecure(error) => return write!(f, "{error}"),
            Self::NotApproved { foreign, .. } => {
                (foreign, "this is not your own configuration, and it is not approved")
            }
            Self::OutsideFolder { foreign } => {
                (foreign, "this is not your own configuration, and the transcript is not in its folder")
            }
        };
        for foreign in foreign {
            write!(f, "{foreign}; ")?;
        }
        f.write_str(reason)
    }
}

impl std::error::Error for Denial {}
