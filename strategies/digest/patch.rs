//! The files in a patch in the format of `apply_patch`. No patch is applied.

use crate::file_op::FileOp;

/// Returns the files of a patch, with their operations.
pub(crate) fn files(patch: &str) -> Vec<(FileOp, String)> {
    let mut files: Vec<(FileOp, String)> = Vec::new();
    for line in patch.lines() {
        let Some(rest) = line.strip_prefix("*** ") else { continue };
        let Some((verb, path)) = rest.split_once(": ") else { continue };
        let path = path.trim().to_owned();
        match verb {
            "Add File" => files.push((FileOp::Created, path)),
            "Update File" => files.push((FileOp::Modified, path)),
            "Delete File" => files.push((FileOp::Deleted, path)),
            "Move to" => {
                // A move follows the update of the moved file.
                if let Some(last) = files.last_mut() {
                    last.0 = FileOp::Deleted;
                }
                files.push((FileOp::Created, path));
            }
            _ => {}
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_all_files_of_a_patch() {
        let patch = "*** Begin Patch\n*** Add File: new.rs\n+*** Add File: no.rs\n*** Update File: old.rs\n\
                     *** Move to: moved.rs\n@@ fn main\n-x\n*** Update File: a b.rs\n*** Delete File: gone.rs\n*** End Patch\n";
        let expect = [
            (FileOp::Created, "new.rs"),
            (FileOp::Deleted, "old.rs"),
            (FileOp::Created, "moved.rs"),
            (FileOp::Modified, "a b.rs"),
            (FileOp::Deleted, "gone.rs"),
        ];
        assert_eq!(files(patch), expect.map(|(op, path)| (op, path.to_owned())));
    }

    #[test]
    fn other_texts_have_no_files() {
        assert_eq!(files("--- a/x\n+++ b/x\n*** Move to\n*** : x"), []);
    }
}
