//! API keys. They are read when they are needed, stored in a type that prints nothing, and removed from
//! messages of providers.

use std::collections::BTreeMap;
use std::time::Duration;

use jp_compact_runtime::environment::Variables;
use jp_compact_runtime::process;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::Mutex;

use super::provider::{KeySource, Target};

/// The time limit for a command that prints a key. It may ask the user for a passphrase.
const COMMAND_DEADLINE: Duration = Duration::from_secs(60);
/// The maximum length of a key.
const KEY_BYTES_MAX: usize = 16 << 10;

/// The keys of a run, by provider. Each is looked up once, or again after an error.
#[derive(Debug, Default)]
pub(super) struct Keys(Mutex<BTreeMap<String, Option<SecretString>>>);

impl Keys {
    /// Returns the key for a model, if it has one, or an error with a remedy.
    pub(super) async fn get(
        &self,
        target: &Target,
        variables: &Variables,
    ) -> Result<Option<SecretString>, String> {
        let provider = target.model.provider();
        let mut keys = self.0.lock().await;
        let key = match keys.get(provider) {
            Some(key) => key.clone(),
            None => {
                let key = find_key(&target.key, variables)
                    .await
                    .map_err(|error| format!("failed to find a key for `{provider}`: {error}"))?;
                keys.insert(provider.to_owned(), key.clone());
                key
            }
        };
        if key.is_none() && target.key_needed {
            return Err(format!("failed to find a key for `{provider}`: {}", remedy(target)));
        }
        Ok(key)
    }
}

fn remedy(target: &Target) -> String {
    let provider = target.model.provider();
    let KeySource::Variables(names) = &target.key else { return "its command printed nothing".into() };
    let set = if names.is_empty() { String::new() } else { format!("set {}, or ", names.join(" or ")) };
    format!("{set}name a variable or a command under [llm.providers.{provider}]")
}

async fn find_key(source: &KeySource, variables: &Variables) -> Result<Option<SecretString>, String> {
    let text = match source {
        KeySource::Variables(names) => match names.iter().find_map(|name| variables.get(name)) {
            Some(text) => text,
            None => return Ok(None),
        },
        KeySource::Command(command) => command_output(command).await?,
    };
    let text = text.trim();
    // An invalid header value would be quoted in an error of the client.
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the value contains characters that a key cannot have".into());
    }
    Ok((!text.is_empty()).then(|| SecretString::from(text)))
}

/// Returns the output of a command. The output must not appear in any message, because it may be the key.
async fn command_output(command: &[String]) -> Result<String, String> {
    let [program, ..] = command else { return Err("`api_key_command` is empty".into()) };
    let result = process::run_command(command, COMMAND_DEADLINE, KEY_BYTES_MAX).await;
    let (status, stdout) = result.map_err(|error| format!("`{program}` failed: {error}"))?;
    if !status.success() {
        return Err(format!("`{program}` failed: {status}"));
    }
    String::from_utf8(stdout).map_err(|_| format!("`{program}` printed invalid UTF-8"))
}

/// Removes the key, and every word with the beginning of the key, from a message of a provider.
pub(super) fn without_key(text: &str, key: Option<&SecretString>) -> String {
    /// Providers quote the start of a key that they reject.
    const PART_CHARS: usize = 8;
    let Some(key) = key.map(SecretString::expose_secret) else { return text.to_owned() };
    let text = text.replace(key, "[key]");
    let Some(part) = key.get(..PART_CHARS) else { return text };
    let words = text.split_inclusive(char::is_whitespace);
    words.map(|word| if word.contains(part) { "[key] " } else { word }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    #[track_caller]
    fn check_command(command: &[&str], expect: Result<Option<&str>, &str>) {
        let source = KeySource::Command(command.iter().map(|word| (*word).to_owned()).collect());
        let key = block_on(find_key(&source, &Variables::These(BTreeMap::new())));
        match (key, expect) {
            (Ok(key), Ok(expect)) => assert_eq!(key.as_ref().map(SecretString::expose_secret), expect),
            (Err(what), Err(part)) => assert!(what.contains(part) && !what.contains("sekret"), "{what}"),
            (key, expect) => panic!("found {key:?}, expected {expect:?}"),
        }
    }

    #[test]
    fn reads_a_key_from_a_command_without_a_shell() {
        check_command(&["echo", " sk-$HOME;x "], Ok(Some("sk-$HOME;x")));
        check_command(&["true"], Ok(None));
        check_command(&["sh", "-c", "echo sekret; echo sekret >&2; exit 3"], Err("exit status: 3"));
        check_command(&["echo", "sekret", "sekret"], Err("characters that a key cannot have"));
        check_command(&["head", "-c", "20000", "/dev/zero"], Err("more than 16384 bytes"));
        check_command(&["no-such-program-here"], Err("`no-such-program-here` failed"));
        check_command(&[], Err("is empty"));
    }

    #[test]
    fn a_key_is_never_printed() {
        let key = SecretString::from("sk-sekret-sekret");
        assert!(!format!("{key:?}").contains("sekret"));
        let keys = Keys(Mutex::new(BTreeMap::from([("p".to_owned(), Some(key))])));
        assert!(!format!("{keys:?}").contains("sekret"));
    }

    #[test]
    fn removes_the_key_from_provider_messages() {
        let key = SecretString::from("sk-sekret-sekret");
        let check = |text: &str, expect| assert_eq!(without_key(text, Some(&key)), expect);
        check("bad key sk-sekret-sekret given", "bad key [key] given");
        check("bad key sk-sekre***ret given", "bad key [key] given");
        check("too many tokens", "too many tokens");
        assert_eq!(without_key("as it is", None), "as it is");
    }
}
