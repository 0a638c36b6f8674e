//! A transcript on disk, and what became of it: untouched to the byte, or with JP's grammar behind old bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

/// A file as it was, to be compared with what it is.
#[derive(Debug, Clone)]
pub(crate) struct Transcript {
    pub(crate) path: PathBuf,
    before: Vec<u8>,
    written: SystemTime,
    beside: Vec<String>,
}

impl Transcript {
    /// What the file is now.
    #[track_caller]
    pub(crate) fn at(path: PathBuf) -> Self {
        let before = fs::read(&path).unwrap();
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        let beside = names(path.parent().unwrap());
        Self { path, before, written, beside }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap()
    }

    pub(crate) fn before(&self) -> &[u8] {
        &self.before
    }

    pub(crate) fn now(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    /// Not a byte, not the time, nothing beside it.
    #[track_caller]
    pub(crate) fn assert_untouched(&self) {
        assert!(self.now() == self.before, "{} changed", self.path.display());
        assert_eq!(fs::metadata(&self.path).unwrap().modified().unwrap(), self.written, "it was written to");
        assert_eq!(names(self.folder()), self.beside, "something was left beside it");
    }

    /// The same bytes, whoever wrote them last.
    #[track_caller]
    pub(crate) fn assert_same_bytes(&self) {
        assert!(self.now() == self.before, "{} changed", self.path.display());
        assert_eq!(names(self.folder()), self.beside, "something was left beside it");
    }

    /// What was appended. The bytes up to behind the last element are those of before, and JP can read the rest.
    #[track_caller]
    pub(crate) fn appended(&self) -> Vec<Value> {
        let now = self.now();
        assert!(now.starts_with(history(&self.before)), "history changed in {}", self.path.display());
        assert!(now.ends_with(b"\n]\n") || !self.before.ends_with(b"\n]\n"), "JP's own layout is kept");
        assert_eq!(names(self.folder()), self.beside, "something was left beside it");
        let old: Vec<Value> = serde_json::from_slice(&self.before).unwrap();
        let new: Vec<Value> = serde_json::from_slice(&now).unwrap();
        let appended = new[old.len()..].to_vec();
        appended.iter().for_each(assert_jp_reads);
        appended
    }

    /// The overlays appended, each of which has its receipt behind it.
    #[track_caller]
    pub(crate) fn overlays(&self) -> Vec<Value> {
        let appended = self.appended();
        let pairs: Vec<_> = appended.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        for (overlay, receipt) in &pairs {
            assert_eq!(receipt["type"], "jp_compact_receipt");
            for member in ["timestamp", "from_turn", "to_turn"] {
                assert_eq!(receipt[member], overlay[member], "a receipt is of its overlay");
            }
            for member in ["strategy", "version", "executable_sha256", "options", "input_sha256", "tier"] {
                assert!(!receipt[member].is_null(), "a receipt without `{member}`");
            }
        }
        pairs.into_iter().map(|(overlay, _)| overlay).collect()
    }
}

/// The bytes up to behind the last element.
fn history(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii_end().strip_suffix(b"]").unwrap().trim_ascii_end()
}

/// JP's grammar, as JP-STREAM has it: one malformed `compaction` makes a conversation unloadable.
#[track_caller]
fn assert_jp_reads(element: &Value) {
    let members = element.as_object().unwrap();
    let time = element["timestamp"].as_str().unwrap();
    let well_formed = time.len() > 20 && time.is_ascii() && &time[10..11] == " " && &time[19..20] == ".";
    assert!(well_formed && (!time.ends_with('0') || time.ends_with(".0")), "not JP's time: {time}");
    assert!(element["from_turn"].is_u64() && element["to_turn"].is_u64(), "{element}");
    match element["type"].as_str().unwrap() {
        "compaction" => {
            let known = ["timestamp", "type", "from_turn", "to_turn", "summary", "reasoning", "tool_calls"];
            assert!(
                members.keys().all(|key| known.contains(&key.as_str())),
                "JP would drop a key: {element}"
            );
            if let Some(reasoning) = members.get("reasoning") {
                assert_eq!(reasoning, "strip");
            }
            if let Some(summary) = members.get("summary") {
                assert!(summary["summary"].is_string() && summary.as_object().unwrap().len() == 1);
            }
            match members.get("tool_calls").map(|policy| (policy["policy"].as_str().unwrap(), policy)) {
                None => {}
                Some(("omit", policy)) => assert_eq!(policy.as_object().unwrap().len(), 1),
                Some(("strip", policy)) => {
                    assert!(policy["request"].is_boolean() && policy["response"].is_boolean());
                    assert_eq!(policy.as_object().unwrap().len(), 3);
                }
                Some((other, _)) => panic!("JP knows no policy `{other}`"),
            }
        }
        // JP keeps an event of a type that it does not know.
        "jp_compact_overlay" | "jp_compact_receipt" => {}
        other => panic!("`{other}` was appended"),
    }
}

/// The names in a folder, sorted.
#[track_caller]
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
