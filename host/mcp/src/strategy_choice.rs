//! The strategies that a client names in `compact`. The client is not the user, so it must name neither a file nor a model:
//! a path would reveal what exists outside of the served folder, and the user selects the provider.

use jp_compact_core::spec::{Options, Spec};

use crate::arguments::CompactArguments;

/// The option that selects a model.
const MODEL: &str = "model";

/// The strategies of one call. At most one member is given.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ClientChoice {
    pub strategies: Vec<Spec>,
    pub profile: Option<String>,
    pub inline: Option<String>,
}

impl ClientChoice {
    /// Parses the choice of a client. A model may send empty values for arguments that it does not use.
    ///
    /// # Errors
    /// Several kinds are given, or a strategy names a file or a model.
    pub fn new(arguments: &CompactArguments) -> Result<Self, String> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let (profile, inline) = (given(&arguments.profile), given(&arguments.inline));
        let texts = arguments.strategies.iter().flatten().map(|text| text.trim());
        let strategies: Vec<Spec> =
            texts.filter(|text| !text.is_empty()).map(strategy).collect::<Result<_, _>>()?;
        let kinds = [!strategies.is_empty(), profile.is_some(), inline.is_some()];
        if kinds.into_iter().filter(|is_given| *is_given).count() > 1 {
            return Err("give only one of `strategies`, `profile`, and `inline`".to_owned());
        }
        Ok(Self { strategies, profile, inline })
    }
}

/// Parses `NAME` or `NAME:key=value`.
fn strategy(text: &str) -> Result<Spec, String> {
    let spec: Spec = text.parse().map_err(|error| format!("`strategies`: `{text}`: {error}"))?;
    if spec.name.contains('/') {
        return Err(format!("`strategies`: `{text}` is a path; a client can only name installed strategies"));
    }
    let names_model = match &spec.options {
        Options::File(_) => {
            return Err(format!("`strategies`: `{text}` names a file; write the options as `key=value`"));
        }
        Options::Pairs(pairs) => pairs.iter().any(|(key, _)| key == MODEL),
        Options::Object(members) => members.contains_key(MODEL),
    };
    if names_model {
        return Err(format!(
            "`strategies`: `{text}` names a model; only the user selects it, with `--model`"
        ));
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn choice(mut arguments: Value) -> Result<ClientChoice, String> {
        arguments["transcript"] = json!("talk");
        ClientChoice::new(&serde_json::from_value(arguments).unwrap())
    }

    #[track_caller]
    fn check_refused(arguments: Value, reason: &str) {
        let error = choice(arguments).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }

    #[test]
    fn accepts_one_kind_of_choice() {
        let parsed =
            choice(json!({"strategies": ["strip-tools:mode=omit", "micro"], "profile": ""})).unwrap();
        assert_eq!(
            parsed.strategies.iter().map(|spec| &*spec.name).collect::<Vec<_>>(),
            ["strip-tools", "micro"]
        );
        assert_eq!(choice(json!({"inline": "r+t"})).unwrap().inline.as_deref(), Some("r+t"));
        assert_eq!(choice(json!({"strategies": [], "inline": " "})).unwrap(), ClientChoice::default());
        check_refused(json!({"strategies": ["micro"], "profile": "light"}), "only one of");
        check_refused(json!({"inline": "r", "profile": "light"}), "only one of");
    }

    #[test]
    fn refuses_files_and_models() {
        check_refused(json!({"strategies": ["../evil"]}), "is a path");
        check_refused(json!({"strategies": ["micro:@/etc/passwd"]}), "names a file");
        check_refused(json!({"strategies": ["summarize:model=openai/g"]}), "names a model");
        check_refused(json!({"strategies": ["summarize:{\"model\":\"openai/g\"}"]}), "names a model");
        check_refused(json!({"strategies": ["micro:x"]}), "expected `key=value`");
    }
}
