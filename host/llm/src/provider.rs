//! The address of a model and the source of its key, from the settings, the environment variables of the provider, or
//! the built-in defaults. The functions are pure, except that they read environment variables.

use jp_compact_runtime::environment::Variables;
use reqwest::Url;

use super::model::ModelName;
use super::settings::{ProviderKind, Settings};

/// The built-in defaults of a provider.
struct BuiltIn {
    names: &'static [&'static str],
    kind: ProviderKind,
    address: &'static str,
    address_variables: &'static [&'static str],
    key_variables: &'static [&'static str],
}

const BUILT_IN: [BuiltIn; 4] = [
    BuiltIn {
        names: &["anthropic"],
        kind: ProviderKind::Anthropic,
        address: "https://api.anthropic.com",
        address_variables: &["ANTHROPIC_BASE_URL"],
        key_variables: &["ANTHROPIC_API_KEY"],
    },
    BuiltIn {
        names: &["openai"],
        kind: ProviderKind::Openai,
        address: "https://api.openai.com/v1",
        address_variables: &["OPENAI_BASE_URL"],
        key_variables: &["OPENAI_API_KEY"],
    },
    BuiltIn {
        // JP calls it google.
        names: &["gemini", "google"],
        kind: ProviderKind::Gemini,
        address: "https://generativelanguage.googleapis.com",
        address_variables: &["GOOGLE_GEMINI_BASE_URL"],
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    },
    BuiltIn {
        names: &["ollama"],
        kind: ProviderKind::Ollama,
        address: "http://127.0.0.1:11434",
        address_variables: &["OLLAMA_HOST"],
        key_variables: &[],
    },
];

/// The address of a model and the source of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) model: ModelName,
    pub(super) kind: ProviderKind,
    /// Ends in a slash.
    pub(super) address: String,
    pub(super) key: KeySource,
    /// Whether the provider rejects requests without a key.
    pub(super) key_needed: bool,
}

/// The source of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeySource {
    /// The first of these variables that is set.
    Variables(Vec<String>),
    /// The output of this command.
    Command(Vec<String>),
}

/// Resolves a model with these settings, or returns the problem.
pub(super) fn target(
    model: &ModelName,
    settings: &Settings,
    variables: &Variables,
) -> Result<Target, String> {
    let provider = model.provider();
    let configured = settings.providers.get(provider).cloned().unwrap_or_default();
    let built_in = BUILT_IN.iter().find(|built_in| built_in.names.contains(&provider));
    let Some(kind) = configured.kind.or(built_in.map(|built_in| built_in.kind)) else {
        let kinds = "anthropic, openai, gemini and ollama need no settings";
        return Err(format!(
            "provider `{provider}` is not known; set `kind` and `base_url` in [llm.providers.{provider}] ({kinds})"
        ));
    };
    if kind == ProviderKind::Gemini && model.name().contains(['/', ':']) {
        // The name is part of the URL path.
        return Err(format!(
            "`{model}` is not a valid model name; names of this provider contain no `/` or `:`"
        ));
    }
    let first_value = |names: &[&str]| names.iter().find_map(|name| variables.get(name));
    let base_url =
        configured.base_url.or_else(|| built_in.and_then(|built_in| first_value(built_in.address_variables)));
    let key_needed = base_url.is_none() && kind != ProviderKind::Ollama;
    let Some(address) = base_url.or_else(|| built_in.map(|built_in| built_in.address.to_owned())) else {
        return Err(format!("provider `{provider}` needs a `base_url` in [llm.providers.{provider}]"));
    };
    let key = match (configured.api_key_env, configured.api_key_command) {
        (_, Some(command)) => KeySource::Command(command),
        (Some(variable), None) => KeySource::Variables(vec![variable]),
        // The variables of a provider are only for this provider, even if others use the same API.
        (None, None) => {
            let names = built_in.map_or(&[][..], |built_in| built_in.key_variables);
            KeySource::Variables(names.iter().map(|name| (*name).to_owned()).collect())
        }
    };
    Ok(Target { model: model.clone(), kind, address: normalized_address(kind, &address)?, key, key_needed })
}

/// Returns whether an address is OpenAI's own.
pub(super) fn is_openai(address: &str) -> bool {
    let known = BUILT_IN.iter().find(|built_in| built_in.kind == ProviderKind::Openai);
    known.is_some_and(|known| address.trim_end_matches('/') == known.address)
}

/// Returns the built-in and the configured variables that may hold a key, as pairs of provider and variable.
pub(super) fn key_variables(settings: &Settings) -> Vec<(String, String)> {
    let built_in = BUILT_IN
        .iter()
        .flat_map(|built_in| built_in.key_variables.iter().map(|name| (built_in.names[0], *name)));
    let configured = settings.providers.iter().filter_map(|(provider, configured)| {
        configured.api_key_env.as_ref().map(|name| (provider.as_str(), name.as_str()))
    });
    let mut variables: Vec<_> =
        built_in.chain(configured).map(|(provider, name)| (provider.to_owned(), name.to_owned())).collect();
    variables.sort();
    variables.dedup();
    variables
}

/// Normalizes an address so that paths can be appended.
fn normalized_address(kind: ProviderKind, text: &str) -> Result<String, String> {
    let text = text.trim().trim_end_matches('/');
    let with_scheme = match kind {
        // OLLAMA_HOST often contains only a host or a port, and may be the address that Ollama listens on.
        ProviderKind::Ollama if !text.contains("://") => {
            let text = text.replace("0.0.0.0", "127.0.0.1");
            let host = if text.starts_with(':') { "127.0.0.1" } else { "" };
            let has_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            format!("http://{host}{text}{}", if has_port { "" } else { ":11434" })
        }
        _ => text.to_owned(),
    };
    let url = Url::parse(&with_scheme).map_err(|error| {
        // A text with `@` may contain a password.
        let shown = if text.contains('@') { "the address".to_owned() } else { format!("`{text}`") };
        format!("{shown} is not a valid URL: {error}")
    })?;
    if !["http", "https"].contains(&url.scheme()) || !url.username().is_empty() || url.password().is_some() {
        return Err("the URL must begin with https:// or http:// and contain no user or password".into());
    }
    // The API version is part of the paths of a provider, and of some addresses.
    let last = url.path().rsplit('/').next().unwrap_or_default();
    let version = match kind {
        ProviderKind::Anthropic if last != "v1" => "/v1",
        ProviderKind::Gemini if !last.starts_with("v1") => "/v1beta",
        _ => "",
    };
    Ok(format!("{with_scheme}{version}/"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn variables(values: &[(&str, &str)]) -> Variables {
        Variables::These(
            values.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect::<BTreeMap<_, _>>(),
        )
    }

    /// Checks the address and the source of the key, or the error.
    #[track_caller]
    fn check(model: &str, settings: &str, set: &[(&str, &str)], expect: Result<(&str, &str), &str>) {
        let settings = toml::from_str(settings).unwrap();
        let result = target(&model.parse().unwrap(), &settings, &variables(set));
        let result = result.map(|target| {
            let key = match target.key {
                KeySource::Variables(names) => names.join(" "),
                KeySource::Command(command) => format!("$({})", command.join(" ")),
            };
            (target.address, key)
        });
        match (result, expect) {
            (Ok(actual), Ok((address, key))) => assert_eq!(actual, (address.to_owned(), key.to_owned())),
            (Err(what), Err(part)) => assert!(what.contains(part), "{what}"),
            (result, expect) => panic!("found {result:?}, expected {expect:?}"),
        }
    }

    #[test]
    fn a_known_provider_needs_no_settings() {
        check("anthropic/c", "", &[], Ok(("https://api.anthropic.com/v1/", "ANTHROPIC_API_KEY")));
        check("openai/g", "", &[], Ok(("https://api.openai.com/v1/", "OPENAI_API_KEY")));
        let google = "https://generativelanguage.googleapis.com/v1beta/";
        check("gemini/g", "", &[], Ok((google, "GEMINI_API_KEY GOOGLE_API_KEY")));
        check("google/g", "", &[], Ok((google, "GEMINI_API_KEY GOOGLE_API_KEY")));
        check("ollama/q", "", &[], Ok(("http://127.0.0.1:11434/", "")));
    }

    #[test]
    fn settings_override_variables_of_the_provider() {
        let set = [("OPENAI_BASE_URL", "http://127.0.0.1:1/v1/")];
        check("openai/g", "", &set, Ok(("http://127.0.0.1:1/v1/", "OPENAI_API_KEY")));
        let settings = "[providers.openai]\nbase_url = \"http://127.0.0.1:2/x\"";
        check("openai/g", settings, &set, Ok(("http://127.0.0.1:2/x/", "OPENAI_API_KEY")));
        let anthropic = |address| [("ANTHROPIC_BASE_URL", address)];
        let expect = Ok(("http://h/v1/", "ANTHROPIC_API_KEY"));
        check("anthropic/c", "", &anthropic("http://h"), expect);
        check("anthropic/c", "", &anthropic("http://h/v1/"), expect);
        check("openai/g", "", &[("OPENAI_BASE_URL", "ftp://h")], Err("begin with https://"));
        check("openai/g", "", &[("OPENAI_BASE_URL", "https://me:secret@h")], Err("contain no user"));
        check("openai/g", "", &[("OPENAI_BASE_URL", "here")], Err("`here` is not a valid URL"));
    }

    #[test]
    fn invalid_address_with_a_password_is_not_printed() {
        let expect = Err("the address is not a valid URL: invalid port number");
        check("openai/g", "", &[("OPENAI_BASE_URL", "https://me:secret@h:99999/v1")], expect);
        check("ollama/q", "", &[("OLLAMA_HOST", "me:secret@h:99999")], expect);
        check(
            "lab/m",
            "[providers.lab]\nkind = \"openai\"\nbase_url = \"http://me:secret@h:99999\"",
            &[],
            expect,
        );
    }

    #[test]
    fn rejects_gemini_names_that_change_the_path() {
        for model in ["gemini/a/b", "google/a:countTokens", "lab/a/b"] {
            let lab = "[providers.lab]\nkind = \"gemini\"\nbase_url = \"http://h\"";
            check(model, lab, &[], Err("is not a valid model name"));
        }
    }

    #[test]
    fn the_ollama_variable_may_be_a_bare_host() {
        let check = |host, expect| check("ollama/q", "", &[("OLLAMA_HOST", host)], Ok((expect, "")));
        check("box", "http://box:11434/");
        check("0.0.0.0:8000", "http://127.0.0.1:8000/");
        check(":8000", "http://127.0.0.1:8000/");
        check("https://box/", "https://box/");
    }

    #[test]
    fn a_custom_provider_needs_a_kind_and_gets_no_other_key() {
        let settings = "[providers.lab]\nkind = \"openai\"\nbase_url = \"https://lab/v1\"";
        let set = [("OPENAI_API_KEY", "x"), ("OPENAI_BASE_URL", "https://other/v1")];
        check("lab/m", settings, &set, Ok(("https://lab/v1/", "")));
        check("lab/m", "", &set, Err("provider `lab` is not known"));
        check("lab/m", "[providers.lab]\nkind = \"openai\"", &set, Err("needs a `base_url`"));
    }

    #[test]
    fn settings_select_the_source_of_the_key() {
        let settings = |key| format!("[providers.openai]\n{key}");
        let check_key =
            |key, expect| check("openai/g", &settings(key), &[], Ok(("https://api.openai.com/v1/", expect)));
        check_key("api_key_env = \"MINE\"", "MINE");
        check_key("api_key_command = [\"pass\", \"openai\"]", "$(pass openai)");
    }

    #[test]
    fn a_custom_address_needs_no_key() {
        let needed = |model: &str, set: &[(&str, &str)]| {
            target(&model.parse().unwrap(), &Settings::default(), &variables(set)).unwrap().key_needed
        };
        assert!(needed("openai/g", &[]));
        assert!(!needed("openai/g", &[("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")]));
        assert!(!needed("ollama/q", &[]));
    }
}
