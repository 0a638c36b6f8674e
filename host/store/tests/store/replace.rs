//! Replacement of a file: the new bytes, the copies, and every conflict. After an error the old file is
//! unchanged and no temporary file remains.

use std::{
    cell::Cell,
    convert::Infallible,
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
    time::Duration,
};

use jp_compact_store::{
    Current, Piece, Place, ReplaceError, StoreError, StoreErrorKind, check_writable, locate, read, replace,
};
use proptest::prelude::*;

use crate::world::{ID, LONGER, OTHER, STREAM, World, names, set_age};

const NEW: &[u8] = b"[\n  {\"a\":1},\n  {\"new\":1}\n]\n";

/// The bytes of `STREAM` up to the end of its last element.
const KEPT_BYTES: usize = 11;

/// Reads the file, calls `change_file`, and replaces the file with `NEW`.
fn append(place: &Place, change_file: impl FnOnce()) -> Result<(), ReplaceError<Infallible>> {
    let snapshot = read(place).unwrap();
    change_file();
    replace(place, &snapshot, KEPT_BYTES, Duration::ZERO, |_| {
        Ok(vec![Piece::Old(0..KEPT_BYTES), Piece::New(NEW[KEPT_BYTES..].to_vec())])
    })
}

fn has_no_leftovers(place: &Place) -> bool {
    names(place.path().parent().unwrap()) == ["events.json"]
}

#[track_caller]
fn check_not_written(
    place: &Place,
    change_file: impl FnOnce(),
    unchanged: &[u8],
    message: &str,
) -> StoreError {
    let Err(ReplaceError::Store(error)) = append(place, change_file) else { panic!("the file was written") };
    assert!(error.to_string().contains(message), "{error}");
    assert_eq!(fs::read(place.path()).unwrap(), unchanged);
    assert!(has_no_leftovers(place), "{:?}", names(place.path().parent().unwrap()));
    error
}

#[test]
fn file_contains_the_pieces_and_nothing_else_is_left() {
    let world = World::new();
    let place = world.place();
    append(&place, || ()).unwrap();
    assert_eq!(fs::read(place.path()).unwrap(), NEW);
    assert!(has_no_leftovers(&place));
}

#[test]
fn mode_and_owner_are_kept_on_replace() {
    let world = World::new();
    let place = world.place();
    fs::set_permissions(place.path(), Permissions::from_mode(0o640)).unwrap();
    let root = rustix::process::geteuid().is_root();
    if root {
        std::os::unix::fs::chown(place.path(), Some(65534), Some(65533)).unwrap();
    }
    append(&place, || ()).unwrap();
    let metadata = fs::metadata(place.path()).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o640);
    if root {
        use std::os::unix::fs::MetadataExt;
        assert_eq!((metadata.uid(), metadata.gid()), (65534, 65533));
    }
}

#[test]
fn builder_receives_the_whole_grown_file() {
    let world = World::new();
    let place = world.place();
    let snapshot = read(&place).unwrap();
    fs::write(place.path(), LONGER).unwrap();
    replace(&place, &snapshot, KEPT_BYTES, Duration::ZERO, |current| {
        let Current::Grown(bytes) = current else { panic!("expected growth") };
        assert_eq!(bytes, LONGER);
        Ok::<_, Infallible>(vec![Piece::Old(0..bytes.len()), Piece::New(b" ".to_vec())])
    })
    .unwrap();
    assert_eq!(fs::read(place.path()).unwrap(), [LONGER, b" "].concat());
}

#[test]
fn builder_receives_a_changed_ending_of_the_same_length() {
    let world = World::new();
    let place = world.place();
    let snapshot = read(&place).unwrap();
    fs::write(place.path(), b"[\n  {\"a\":1} ]\n").unwrap();
    let grown = Cell::new(false);
    replace(&place, &snapshot, KEPT_BYTES, Duration::ZERO, |current| {
        grown.set(matches!(current, Current::Grown(_)));
        Ok::<_, Infallible>(vec![Piece::Old(0..KEPT_BYTES)])
    })
    .unwrap();
    assert!(grown.get());
}

/// Appends to a large file after the byte at `changed` has changed. Returns the result, and the file that `build` got last.
fn append_to_large_file(changed: Option<usize>) -> (Result<(), StoreError>, Option<Current>) {
    let world = World::new();
    let place = world.place();
    let mut bytes = [&STREAM[..KEPT_BYTES], &b" ".repeat(5 << 20), b"]\n"].concat();
    fs::write(place.path(), &bytes).unwrap();
    let snapshot = read(&place).unwrap();
    if let Some(changed) = changed {
        bytes[changed] = b'\t';
        fs::write(place.path(), &bytes).unwrap();
    }
    let mut last = None;
    let result = replace(&place, &snapshot, KEPT_BYTES, Duration::ZERO, |current| {
        last = Some(current);
        Ok::<_, Infallible>(vec![Piece::Old(0..bytes.len() - 2), Piece::New(b",2]".to_vec())])
    });
    let expected = if result.is_ok() { [&bytes[..bytes.len() - 2], b",2]"].concat() } else { bytes };
    assert!(fs::read(place.path()).unwrap() == expected);
    assert!(has_no_leftovers(&place));
    let result = result.map_err(|error| match error {
        ReplaceError::Store(error) => error,
        ReplaceError::Build(never) => match never {},
    });
    (result, last)
}

#[test]
fn large_file_that_changes_is_built_again_or_is_a_conflict() {
    assert!(matches!(append_to_large_file(None), (Ok(()), Some(Current::Same))));
    let (result, last) = append_to_large_file(Some(4 << 20));
    assert!(result.is_ok() && matches!(&last, Some(Current::Grown(bytes)) if bytes[4 << 20] == b'\t'));
    let (result, _) = append_to_large_file(Some(KEPT_BYTES - 1));
    assert_eq!(result.unwrap_err().kind(), StoreErrorKind::Conflict);
}

#[test]
fn longer_file_renamed_into_place_counts_as_growth() {
    let world = World::new();
    let place = world.place();
    append(&place, || {
        fs::write(world.path("next"), LONGER).unwrap();
        fs::rename(world.path("next"), place.path()).unwrap();
    })
    .unwrap();
    assert_eq!(fs::read(place.path()).unwrap(), NEW);
}

#[test]
fn change_in_the_bytes_already_read_is_a_conflict() {
    let world = World::new();
    let place = world.place();
    let error =
        check_not_written(&place, || fs::write(place.path(), OTHER).unwrap(), OTHER, "was changed since");
    assert_eq!(error.kind(), StoreErrorKind::Conflict);
}

#[test]
fn growth_after_a_change_is_a_conflict() {
    let world = World::new();
    let place = world.place();
    let changed = [&OTHER[..OTHER.len() - 3], b",\n  {\"d\":4}\n]\n"].concat();
    check_not_written(&place, || fs::write(place.path(), &changed).unwrap(), &changed, "was changed since");
}

#[test]
fn shorter_file_is_a_conflict() {
    let world = World::new();
    let place = world.place();
    let shorter = &STREAM[..STREAM.len() - 1];
    check_not_written(&place, || fs::write(place.path(), shorter).unwrap(), shorter, "shrank since");
}

#[test]
fn deleted_file_is_a_conflict() {
    let world = World::new();
    let place = world.place();
    let Err(ReplaceError::Store(error)) = append(&place, || fs::remove_file(place.path()).unwrap()) else {
        panic!("the file was written")
    };
    assert_eq!(error.kind(), StoreErrorKind::Conflict);
    assert!(names(place.path().parent().unwrap()).is_empty());
}

#[track_caller]
fn check_change_while_building(change: impl Fn(&Path)) {
    let world = World::new();
    let place = world.place();
    let snapshot = read(&place).unwrap();
    let result = replace(&place, &snapshot, KEPT_BYTES, Duration::ZERO, |_| {
        change(place.path());
        Ok::<_, Infallible>(vec![Piece::New(NEW.to_vec())])
    });
    assert!(matches!(result, Err(ReplaceError::Store(StoreError::Changed { .. }))), "{result:?}");
    assert_eq!(fs::read(place.path()).unwrap(), OTHER);
    assert!(has_no_leftovers(&place));
}

#[test]
fn file_replaced_while_building_is_a_conflict() {
    check_change_while_building(|path| {
        let next = path.parent().unwrap().join("../next");
        fs::write(&next, OTHER).unwrap();
        fs::rename(next, path).unwrap();
    });
}

#[test]
fn file_written_while_building_is_a_conflict() {
    check_change_while_building(|path| fs::write(path, OTHER).unwrap());
}

#[test]
fn builder_error_leaves_the_file_unchanged() {
    let world = World::new();
    let place = world.place();
    let snapshot = read(&place).unwrap();
    let result = replace(&place, &snapshot, KEPT_BYTES, Duration::ZERO, |_| Err("no"));
    assert!(matches!(result, Err(ReplaceError::Build("no"))));
    assert_eq!(fs::read(place.path()).unwrap(), STREAM);
    assert!(has_no_leftovers(&place));
}

#[test]
fn twin_that_is_a_prefix_is_not_updated() {
    let world = World::new();
    let workspace_copy = world.in_workspace(ID, b"[]", 20);
    world.in_user_storage(ID, STREAM, 10);
    let place = world.locate(ID).unwrap();
    append(&place, || ()).unwrap();
    assert_eq!(fs::read(place.path()).unwrap(), NEW);
    assert_eq!(fs::read(workspace_copy).unwrap(), b"[]");
}

/// Returns the modification time of a copy. JP loads the copy with the later time.
fn modified(path: &Path) -> std::time::SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

const OVERLAY: &str = r#"{"type":"compaction","timestamp":"2027-01-01 00:00:00.0","from_turn":0,"to_turn":0,"reasoning":"strip"}"#;

#[test]
fn twin_with_equal_raw_events_is_updated_and_keeps_its_time() {
    let with_overlay = format!("[\n  {{\"a\":1}},\n  {OVERLAY}\n]\n");
    for (user_events, workspace_events) in
        [(STREAM, STREAM), (STREAM, with_overlay.as_bytes()), (with_overlay.as_bytes(), STREAM)]
    {
        let world = World::new();
        let workspace_copy = world.in_workspace(ID, workspace_events, 20);
        let user_copy = world.in_user_storage(ID, user_events, 10);
        fs::set_permissions(&workspace_copy, Permissions::from_mode(0o640)).unwrap();
        let time_before = modified(&workspace_copy);
        let place = world.locate(ID).unwrap();
        let snapshot = read(&place).unwrap();
        replace(&place, &snapshot, KEPT_BYTES, Duration::ZERO, |_| {
            Ok::<_, Infallible>(vec![Piece::New(NEW.to_vec())])
        })
        .unwrap();
        assert_eq!(
            (fs::read(&workspace_copy).unwrap(), fs::read(&user_copy).unwrap()),
            (NEW.to_vec(), NEW.to_vec())
        );
        assert_eq!(modified(&workspace_copy), time_before);
        assert_eq!(fs::metadata(&workspace_copy).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(workspace_copy.parent().unwrap()), ["events.json"]);
        assert_eq!(world.locate(ID).unwrap().path(), place.path(), "JP must load the same copy as before");
    }
}

#[test]
fn copy_that_jp_loads_stays_newer_when_the_clock_runs_backwards() {
    let world = World::new();
    let workspace_copy = world.in_workspace(ID, STREAM, 10);
    let user_copy = world.in_user_storage(ID, STREAM, 20);
    // Both times are in the future, as after a clock that ran ahead.
    for (path, seconds) in [(&user_copy, 9_000_000_000), (&workspace_copy, 9_000_000_001)] {
        let time = std::time::UNIX_EPOCH + Duration::from_secs(seconds);
        fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    }
    let place = world.locate(ID).unwrap();
    assert_eq!(place.path(), workspace_copy);
    append(&place, || ()).unwrap();
    assert!(modified(&workspace_copy) > modified(&user_copy));
    assert_eq!(world.locate(ID).unwrap().path(), workspace_copy);
}

#[test]
fn symlinked_twin_is_compared_but_not_written() {
    let world = World::new();
    let workspace_copy = world.in_workspace(ID, STREAM, 20);
    fs::rename(&workspace_copy, world.path("real.json")).unwrap();
    symlink(world.path("real.json"), &workspace_copy).unwrap();
    world.in_user_storage(ID, STREAM, 10);
    append(&world.locate(ID).unwrap(), || ()).unwrap();
    assert!(workspace_copy.is_symlink());
    assert_eq!(fs::read(world.path("real.json")).unwrap(), STREAM);
    fs::write(world.path("real.json"), OTHER).unwrap();
    set_age(&world.path("real.json"), 20);
    check_not_written(&world.locate(ID).unwrap(), || (), NEW, "disagree");
}

#[test]
fn unwritable_twin_leaves_both_copies_unchanged() {
    if rustix::process::geteuid().is_root() {
        // Root may write everywhere, so this test works only for other users.
        return;
    }
    let world = World::new();
    let workspace_copy = world.in_workspace(ID, STREAM, 20);
    world.in_user_storage(ID, STREAM, 10);
    fs::set_permissions(workspace_copy.parent().unwrap(), Permissions::from_mode(0o555)).unwrap();
    check_not_written(&world.locate(ID).unwrap(), || (), STREAM, "events.json");
    fs::set_permissions(workspace_copy.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    assert_eq!(fs::read(workspace_copy).unwrap(), STREAM);
}

#[test]
fn twin_with_other_events_is_a_conflict_naming_both_paths() {
    for twin in [OTHER, LONGER] {
        let world = World::new();
        let workspace_copy = world.in_workspace(ID, twin, 20);
        world.in_user_storage(ID, STREAM, 10);
        let place = world.locate(ID).unwrap();
        let error = check_not_written(&place, || (), STREAM, &workspace_copy.display().to_string());
        assert!(error.to_string().contains(&place.path().display().to_string()));
        assert_eq!(error.kind(), StoreErrorKind::Conflict);
        assert_eq!(fs::read(workspace_copy).unwrap(), twin);
    }
}

#[test]
fn twin_changed_after_reading_is_a_conflict() {
    let world = World::new();
    let workspace_copy = world.in_workspace(ID, STREAM, 20);
    world.in_user_storage(ID, STREAM, 10);
    let place = world.locate(ID).unwrap();
    check_not_written(&place, || fs::write(&workspace_copy, LONGER).unwrap(), STREAM, "disagree");
}

#[test]
fn deleted_twin_is_ignored() {
    let world = World::new();
    let workspace_copy = world.in_workspace(ID, OTHER, 20);
    world.in_user_storage(ID, STREAM, 10);
    let place = world.locate(ID).unwrap();
    append(&place, || fs::remove_file(&workspace_copy).unwrap()).unwrap();
}

#[test]
fn symlink_is_not_written_through() {
    let world = World::new();
    let place = world.place();
    fs::rename(place.path(), world.path("real.json")).unwrap();
    symlink(world.path("real.json"), place.path()).unwrap();
    assert!(matches!(check_writable(&place), Err(StoreError::Symlink { .. })));
    check_not_written(&place, || (), STREAM, "is a symlink");
    assert!(place.path().is_symlink());
}

#[test]
fn file_replaced_by_a_symlink_is_not_written_through() {
    let world = World::new();
    let place = world.place();
    let replace_by_link = || {
        fs::rename(place.path(), world.path("real.json")).unwrap();
        symlink(world.path("real.json"), place.path()).unwrap();
    };
    check_not_written(&place, replace_by_link, STREAM, "is a symlink");
}

#[test]
fn symlinked_parent_folder_is_written_through() {
    let world = World::new();
    let path = world.conversation(&world.path("copy"), STREAM, 0);
    symlink(world.path("copy"), world.path("link")).unwrap();
    append(&world.locate(world.path("link")).unwrap(), || ()).unwrap();
    assert_eq!(fs::read(path).unwrap(), NEW);
}

#[test]
fn file_with_another_name_is_not_written() {
    let world = World::new();
    let path = world.path("export.json");
    fs::write(&path, STREAM).unwrap();
    let place = world.locate(&path).unwrap();
    let result = append(&place, || ());
    assert!(matches!(result, Err(ReplaceError::Store(StoreError::NotEvents { .. }))), "{result:?}");
    assert_eq!(fs::read(path).unwrap(), STREAM);
}

#[test]
fn removes_temporary_files_of_dead_processes_only() {
    let world = World::new();
    let place = world.place();
    let folder = place.path().parent().unwrap();
    let mut child = Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let kept_names = [
        format!(".events.json.jpc-{}-0a", std::process::id()),
        ".events.json.jpc-x-0a".to_owned(),
        "notes.tmp".to_owned(),
    ];
    for name in kept_names.iter().chain([&format!(".events.json.jpc-{dead}-0a")]) {
        fs::write(folder.join(name), b"").unwrap();
    }
    append(&place, || ()).unwrap();
    let mut expect: Vec<_> = kept_names.into_iter().chain(["events.json".to_owned()]).collect();
    expect.sort();
    assert_eq!(names(folder), expect);
}

#[test]
fn unwritable_folder_error_contains_the_file_path() {
    if rustix::process::geteuid().is_root() {
        // Root may write everywhere, so this test works only for other users.
        return;
    }
    let world = World::new();
    let place = world.place();
    let folder = place.path().parent().unwrap();
    fs::set_permissions(folder, Permissions::from_mode(0o555)).unwrap();
    let error = check_not_written(&place, || (), STREAM, "events.json");
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(error.kind(), StoreErrorKind::Unwritable);
}

fn pieces(length: usize) -> impl Strategy<Value = Vec<Piece>> {
    let old = (0..=length, 0..=length).prop_map(|(a, b)| Piece::Old(a.min(b)..a.max(b)));
    let new = prop::collection::vec(any::<u8>(), 0..200).prop_map(Piece::New);
    prop::collection::vec(prop_oneof![old, new], 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn file_equals_the_concatenated_pieces(
        (bytes, pieces) in prop::collection::vec(any::<u8>(), 0..3000)
            .prop_flat_map(|bytes| { let pieces = pieces(bytes.len()); (Just(bytes), pieces) })
    ) {
        let world = World::new();
        let path = world.conversation(&world.path("copy"), &bytes, 0);
        let place = locate(path.as_os_str(), &world.environment).unwrap();
        let snapshot = read(&place).unwrap();
        let expect: Vec<u8> = pieces
            .iter()
            .flat_map(|piece| match piece {
                Piece::Old(range) => &bytes[range.clone()],
                Piece::New(new) => new,
            })
            .copied()
            .collect();
        replace(&place, &snapshot, bytes.len(), Duration::ZERO, |current| {
            assert!(matches!(current, Current::Same));
            Ok::<_, Infallible>(pieces.clone())
        })
        .unwrap();
        prop_assert_eq!(fs::read(&path).unwrap(), expect);
        prop_assert_eq!(names(path.parent().unwrap()), ["events.json"]);
    }
}
