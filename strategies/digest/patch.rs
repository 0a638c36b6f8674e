//! The files that a patch in the form of `apply_patch` touches. Nothing is applied.

use crate::tools::Op;

/// Each file that the patch names, with what becomes of it.
pub(crate) fn files(patch: &str) -> Vec<(Op, String)> {
    let mut files: Vec<(Op, String)> = Vec::new();
    for line in patch.lines() {
        let Some(rest) = line.strip_prefix("*** ") else { continue };
        let Some((verb, path)) = rest.split_once(": ") else { continue };
        let path = path.trim().to_owned();
        match verb {
            "Add File" => files.push((Op::Created, path)),
            "Update File" => files.push((Op::Modified, path)),
            "Delete File" => files.push((Op::Deleted, path)),
            "Move to" => {
                // It stands under the update of the file that is moved.
                if let Some(last) = files.last_mut() {
                    last.0 = Op::Deleted;
                }
                files.push((Op::Created, path));
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
    fn every_file_of_a_patch_is_named() {
        let patch = "*** Begin Patch\n*** Add File: new.rs\n+*** Add File: no.rs\n*** Update File: old.rs\n\
                     *** Move to: moved.rs\n@@ fn main\n-x\n*** Update File: a b.rs\n*** Delete File: gone.rs\n*** End Patch\n";
        let expect = [
            (Op::Created, "new.rs"),
            (Op::Deleted, "old.rs"),
            (Op::Created, "moved.rs"),
            (Op::Modified, "a b.rs"),
            (Op::Deleted, "gone.rs"),
        ];
        assert_eq!(files(patch), expect.map(|(op, path)| (op, path.to_owned())));
    }

    #[test]
    fn what_is_no_patch_names_nothing() {
        assert_eq!(files("--- a/x\n+++ b/x\n*** Move to\n*** : x"), []);
    }
}
