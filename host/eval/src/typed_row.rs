//! A row as the user types it: a strategy, and the file with recorded answers. It opens no file.

use std::path::PathBuf;
use std::str::FromStr;

use jp_compact_core::spec::Spec;

/// A row as the user typed it: a strategy, and the file with recorded answers.
#[derive(Debug, Clone)]
pub struct TypedRow {
    pub typed: String,
    pub spec: Spec,
    pub answers: Option<PathBuf>,
}

impl FromStr for TypedRow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, options) = match text.split_once(':') {
            Some((name, options)) => (name, format!(":{options}")),
            None => (text, String::new()),
        };
        // A path can contain a folder such as `@scope`, which is not a file with answers.
        let (name, answers) = match name.rsplit_once('@') {
            Some((name, file)) if !name.is_empty() && !name.ends_with('/') && !file.is_empty() => {
                (name, Some(PathBuf::from(file)))
            }
            _ => (name, None),
        };
        Ok(Self { typed: text.to_owned(), spec: format!("{name}{options}").parse()?, answers })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[track_caller]
    fn check(typed: &str, name: &str, answers: Option<&str>, has_options: bool) {
        let row: TypedRow = typed.parse().unwrap();
        assert_eq!((row.spec.name.as_str(), !row.spec.options.is_empty()), (name, has_options), "{typed}");
        assert_eq!(row.answers.as_deref(), answers.map(Path::new), "{typed}");
    }

    #[test]
    fn answers_follow_the_name() {
        check("summarize", "summarize", None, false);
        check("summarize@a.jsonl", "summarize", Some("a.jsonl"), false);
        check("summarize@dir/a.jsonl:focus=x@y", "summarize", Some("dir/a.jsonl"), true);
        check("summarize:@options.json", "summarize", None, true);
        check("./my@answers", "./my", Some("answers"), false);
        check("./node_modules/@scope/strategy", "./node_modules/@scope/strategy", None, false);
    }
}
