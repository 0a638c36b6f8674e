//! A transcript on disk, with assertions on its changes: it is untouched, or only elements that JP can read were
//! appended.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

/// The state of a file, captured to compare it with its later state.
#[derive(Debug, Clone)]
pub(crate) struct Transcript {
    pub(crate) path: PathBuf,
    before: Vec<u8>,
    modified: SystemTime,
    siblings: Vec<String>,
}

impl Transcript {
    /// Captures the state of this file.
    #[track_caller]
    pub(crate) fn capture(path: PathBuf) -> Self {
        let before = fs::read(&path).unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let siblings = file_names(path.parent().unwrap());
        Self { path, before, modified, siblings }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap()
    }

    /// Returns the bytes at the time of the capture.
    pub(crate) fn original_bytes(&self) -> &[u8] {
        &self.before
    }

    /// Returns the present bytes.
    pub(crate) fn current_bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    /// Asserts that the bytes, the modification time and the other files of the folder are unchanged.
    #[track_caller]
    pub(crate) fn assert_untouched(&self) {
        assert!(self.current_bytes() == self.before, "{} changed", self.path.display());
        assert_eq!(
            fs::metadata(&self.path).unwrap().modified().unwrap(),
            self.modified,
            "the file was written to"
        );
        assert_eq!(file_names(self.folder()), self.siblings, "another file was left in the folder");
    }

    /// Asserts that the bytes and the other files of the folder are unchanged. The modification time may differ.
    #[track_caller]
    pub(crate) fn assert_same_bytes(&self) {
        assert!(self.current_bytes() == self.before, "{} changed", self.path.display());
        assert_eq!(file_names(self.folder()), self.siblings, "another file was left in the folder");
    }

    /// Returns the appended elements. Asserts that the older elements keep their bytes, and that JP can read the new
    /// ones.
    #[track_caller]
    pub(crate) fn appended(&self) -> Vec<Value> {
        let now = self.current_bytes();
        assert!(
            now.starts_with(through_last_element(&self.before)),
            "history changed in {}",
            self.path.display()
        );
        assert!(now.ends_with(b"\n]\n") || !self.before.ends_with(b"\n]\n"), "JP's layout is lost");
        assert_eq!(file_names(self.folder()), self.siblings, "another file was left in the folder");
        let old: Vec<Value> = serde_json::from_slice(&self.before).unwrap();
        let new: Vec<Value> = serde_json::from_slice(&now).unwrap();
        let appended = new[old.len()..].to_vec();
        appended.iter().for_each(assert_jp_can_read);
        appended
    }

    /// Returns the appended overlays. Asserts that a receipt follows each of them.
    #[track_caller]
    pub(crate) fn overlays(&self) -> Vec<Value> {
        self.overlays_with_receipts().into_iter().map(|(overlay, _)| overlay).collect()
    }

    /// Returns the appended overlays, each with its receipts. Asserts that each has one or more.
    #[track_caller]
    pub(crate) fn overlays_with_receipts(&self) -> Vec<(Value, Vec<Value>)> {
        let mut overlays: Vec<(Value, Vec<Value>)> = Vec::new();
        for element in self.appended() {
            if element["type"] != "jp_compact_receipt" {
                overlays.push((element, Vec::new()));
                continue;
            }
            let (overlay, receipts) = overlays.last_mut().expect("a receipt follows its overlay");
            for member in ["timestamp", "from_turn", "to_turn", "from_step", "to_step"] {
                assert_eq!(
                    element[member], overlay[member],
                    "the receipt and its overlay differ in `{member}`"
                );
            }
            for member in ["strategy", "version", "executable_sha256", "options", "input_sha256", "tier"] {
                assert!(!element[member].is_null(), "a receipt without `{member}`");
            }
            receipts.push(element);
        }
        assert!(overlays.iter().all(|(_, receipts)| !receipts.is_empty()), "an overlay without a receipt");
        overlays
    }
}

/// Returns the bytes through the end of the last element.
fn through_last_element(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii_end().strip_suffix(b"]").unwrap().trim_ascii_end()
}

/// Checks an appended element against JP's grammar. One malformed `compaction` makes a conversation unloadable.
#[track_caller]
fn assert_jp_can_read(element: &Value) {
    let members = element.as_object().unwrap();
    let time = element["timestamp"].as_str().unwrap();
    let has_date_and_fraction =
        time.len() > 20 && time.is_ascii() && &time[10..11] == " " && &time[19..20] == ".";
    assert!(has_date_and_fraction && (!time.ends_with('0') || time.ends_with(".0")), "not JP's time: {time}");
    assert!(element["from_turn"].is_u64() && element["to_turn"].is_u64(), "{element}");
    match element["type"].as_str().unwrap() {
        "compaction" => {
            let jp_members =
                ["timestamp", "type", "from_turn", "to_turn", "summary", "reasoning", "tool_calls"];
            assert!(
                members.keys().all(|key| jp_members.contains(&key.as_str())),
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
                Some((other, _)) => panic!("`{other}` is not a policy of JP"),
            }
        }
        // JP keeps events of unknown types.
        "jp_compact_overlay" | "jp_compact_step_overlay" | "jp_compact_receipt" => {}
        other => panic!("unexpected element of type `{other}`"),
    }
}

/// Returns the sorted names of the entries of a folder.
#[track_caller]
pub(crate) fn file_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
