//! The restriction of transcripts to an allowed folder, because a server gets their names from a client. Paths are
//! checked after symlinks are resolved. An error must not reveal whether a file outside the folder exists.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Component, Path, PathBuf},
};

use jp_compact_runtime::{allowed_root::AllowedRoot, environment::Environment};

use super::{Place, StoreError, error::unreadable, place::find};

/// Opens the only folder that may hold transcripts.
///
/// # Errors
///
/// The folder does not exist or cannot be opened.
pub fn allowed_root(folder: &Path, environment: &Environment) -> Result<AllowedRoot, StoreError> {
    let path = environment.cwd.join(folder);
    let real = path.canonicalize().map_err(unreadable("find", &path))?;
    if !real.is_dir() {
        return Err(unreadable("open", path)(io::ErrorKind::NotADirectory.into()));
    }
    AllowedRoot::open(&real).map_err(unreadable("open", &path))
}

/// Finds a transcript by its folder, file, id, or title. An existing path takes precedence.
///
/// # Errors
///
/// The transcript does not exist, or is ambiguous.
pub fn locate(transcript: &OsStr, environment: &Environment) -> Result<Place, StoreError> {
    match &environment.allowed_root {
        Some(root) => find_inside(root, transcript, environment),
        None => find(transcript, environment),
    }
}

/// Finds a transcript like [`locate`], by a path relative to the folder or by an id in the folder's workspace.
/// The transcript is later opened relative to the folder, so a changed path cannot lead out of it.
///
/// # Errors
///
/// The transcript does not exist. Or the transcript, or the copy that JP would load, is outside of the folder.
fn find_inside(
    root: &AllowedRoot,
    transcript: &OsStr,
    environment: &Environment,
) -> Result<Place, StoreError> {
    let outside =
        || StoreError::Outside { transcript: transcript.to_owned(), folder: root.folder().to_owned() };
    // Checked before any access, because the caller must not learn whether a file outside exists.
    let path = normalize(&root.folder().join(transcript));
    if !root.holds(&path) || leads_out(root, &root.folder().join(transcript)) {
        return Err(outside());
    }
    let environment = &Environment { cwd: root.folder().to_owned(), ..environment.clone() };
    let place = find(transcript, environment).map_err(|error| match error {
        // The original error names a path outside.
        StoreError::UnknownId { id, .. } => {
            StoreError::UnknownId { id, workspace: Some(root.folder().to_owned()) }
        }
        StoreError::Ambiguous { ref first, ref second, .. }
            if leads_out(root, first) || leads_out(root, second) =>
        {
            outside()
        }
        error => error,
    })?;
    let file = fs::canonicalize(place.path()).map_err(unreadable("find", place.path()))?;
    if !root.holds(&file) {
        return Err(outside());
    }
    // For the real path, JP may load another copy of the conversation.
    let place = find(file.as_os_str(), environment)?;
    if root.holds(place.path()) { Ok(place.allowed_in(root)) } else { Err(outside()) }
}

/// Returns whether the path, or a folder or link on the way to it, resolves to a place outside. A link to a missing place
/// counts too, because the caller must not learn whether a place outside exists.
fn leads_out(root: &AllowedRoot, path: &Path) -> bool {
    let mut parts = path.ancestors().take_while(|part| *part != root.folder());
    parts.any(|part| part.canonicalize().map_or_else(|_| part.is_symlink(), |real| !root.holds(&real)))
}

/// Removes `.` and `..` from a path without accessing the file system.
fn normalize(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normalized.pop();
            }
            other => normalized.push(other),
        }
    }
    normalized
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests move folders away")]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;
    use crate::read_small;

    /// A conversation inside the allowed root and one outside, with links to both.
    struct Fixture {
        _temp: TempDir,
        root: PathBuf,
        allowed: AllowedRoot,
    }

    fn fixture() -> Fixture {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for folder in ["in/.jp/conversations/17738399468-a", "in/plain", "out/secret", "in-too"] {
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::write(root.join(folder).join("events.json"), "[]").unwrap();
        }
        fs::create_dir(root.join("in/linked")).unwrap();
        symlink(root.join("out/secret"), root.join("in/way-out")).unwrap();
        symlink(root.join("out/secret/events.json"), root.join("in/linked/events.json")).unwrap();
        symlink(root.join("in/plain"), root.join("in/way-in")).unwrap();
        symlink(root.join("in"), root.join("door")).unwrap();
        let allowed = allowed_root(Path::new("door"), &Environment::bare(&root)).unwrap();
        Fixture { _temp: temp, root, allowed }
    }

    /// `expected` is the path inside the allowed root, or `None` for a transcript outside.
    #[track_caller]
    fn check(fixture: &Fixture, transcript: &str, expected: Option<&str>) {
        let transcript = transcript.replace("ROOT", fixture.root.to_str().unwrap());
        let found = find_inside(&fixture.allowed, OsStr::new(&transcript), &Environment::bare(&fixture.root));
        match expected {
            Some(file) => assert_eq!(found.unwrap().path(), fixture.root.join("in").join(file)),
            None => assert!(matches!(found, Err(StoreError::Outside { .. })), "{transcript}: {found:?}"),
        }
    }

    #[test]
    fn admits_every_spelling_of_a_path_inside() {
        let fixture = fixture();
        for name in ["plain", "./plain/", "plain/events.json", "linked/../plain", "way-in", "ROOT/in/plain"] {
            check(&fixture, name, Some("plain/events.json"));
        }
        for name in ["17738399468", "jp-c17738399468", ".jp/conversations/17738399468-a"] {
            check(&fixture, name, Some(".jp/conversations/17738399468-a/events.json"));
        }
    }

    #[test]
    fn rejects_every_spelling_of_a_path_outside() {
        let fixture = fixture();
        for name in [
            "../out/secret",
            "plain/../../out/secret",
            "ROOT/out/secret",
            "ROOT/in/../out/secret",
            "way-out",
            "way-out/events.json",
            "way-out/..",
            "linked",
            "linked/events.json",
            "ROOT/in-too",
            "/",
            "..",
        ] {
            check(&fixture, name, None);
        }
    }

    #[test]
    fn path_replaced_by_link_cannot_lead_outside() {
        let fixture = fixture();
        let environment = Environment::bare(&fixture.root);
        let place = find_inside(&fixture.allowed, OsStr::new("plain"), &environment).unwrap();
        assert!(place.open().is_ok());
        fs::rename(fixture.root.join("in/plain"), fixture.root.join("in/moved")).unwrap();
        symlink(fixture.root.join("out/secret"), fixture.root.join("in/plain")).unwrap();
        assert!(fs::read(place.path()).is_ok(), "the path leads out");
        assert!(place.open().is_err() && place.open_folder().is_err());
        let config = fixture.root.join("in/plain/events.json");
        let restricted = Environment { allowed_root: Some(fixture.allowed.clone()), ..environment };
        assert!(read_small(&config, 10, &restricted).is_err());
    }

    #[test]
    fn missing_file_outside_is_reported_as_outside() {
        let fixture = fixture();
        check(&fixture, "../out/nothing", None);
        check(&fixture, "ROOT/nothing", None);
        symlink(fixture.root.join("out/nothing"), fixture.root.join("in/dangling")).unwrap();
        symlink(fixture.root.join("out"), fixture.root.join("in/out")).unwrap();
        for name in [
            "way-out/nothing",
            "way-out/nothing/events.json",
            "dangling",
            "dangling/events.json",
            "out/nothing/../../in/plain",
            "out/secret/../../in/plain",
        ] {
            check(&fixture, name, None);
        }
    }

    #[test]
    fn id_does_not_find_workspace_above_root() {
        let fixture = fixture();
        let inner = allowed_root(&fixture.root.join("in/plain"), &Environment::bare("/")).unwrap();
        let environment = Environment::bare(&fixture.root);
        let found = find_inside(&inner, OsStr::new("17738399468"), &environment);
        assert!(matches!(found, Err(StoreError::Outside { .. })), "{found:?}");
        assert!(find_inside(&inner, OsStr::new("."), &environment).is_ok());
    }

    #[test]
    fn rejects_conversation_whose_newer_copy_is_outside() {
        let fixture = fixture();
        fs::write(fixture.root.join("in/.jp/.id"), "otvo8\n").unwrap();
        let folder = fixture.root.join("user/workspace/in-otvo8/conversations/17738399468-a");
        fs::create_dir_all(&folder).unwrap();
        let environment = Environment {
            jp_user_data_dir: Some(fixture.root.join("user")),
            ..Environment::bare(&fixture.root)
        };
        let find = || find_inside(&fixture.allowed, OsStr::new("17738399468"), &environment);
        assert!(find().is_ok(), "only one copy exists");
        fs::write(folder.join("events.json"), "[]").unwrap();
        assert!(matches!(find(), Err(StoreError::Outside { .. })), "the newer one is loaded");
    }

    #[test]
    fn missing_transcripts_inside_are_reported() {
        let fixture = fixture();
        let find = |name: &str| find_inside(&fixture.allowed, OsStr::new(name), &Environment::bare("/"));
        assert!(matches!(find("nothing"), Err(StoreError::NotFound { .. })));
        assert!(matches!(find(""), Err(StoreError::NotFound { .. })));
        assert!(matches!(find("17700000000"), Err(StoreError::UnknownId { .. })));
        assert!(matches!(find("linked/.."), Err(StoreError::NoEvents { .. })));
        assert!(allowed_root(Path::new("nothing"), &Environment::bare(&fixture.root)).is_err());
        assert!(allowed_root(Path::new("in/plain/events.json"), &Environment::bare(&fixture.root)).is_err());
    }
}
