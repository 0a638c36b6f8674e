//! Resolution of a TRANSCRIPT argument (id, folder or file) to the conversation on disk.

use std::{fs, os::unix::fs::symlink};

use jp_compact_store::{StoreError, StoreErrorKind};

use crate::world::{ID, LONGER, STREAM, World, set_age};

#[test]
fn id_is_found_from_a_subfolder_of_the_workspace() {
    let world = World::new();
    let path = world.in_workspace("17738399468-fix-the-build", STREAM, 0);
    for name in [ID, "jp-c17738399468"] {
        let place = world.locate(name).unwrap();
        assert_eq!(place.path(), path);
        assert_eq!(place.id(), Some(ID));
        assert!(place.twins().is_empty());
    }
}

#[test]
fn whole_id_does_not_match_a_longer_id() {
    let world = World::new();
    world.in_workspace("177383994680", STREAM, 0);
    assert!(matches!(world.locate(ID), Err(StoreError::UnknownId { workspace: Some(_), .. })));
}

#[test]
fn archived_conversation_is_found_in_either_storage() {
    let world = World::new();
    let path = world.in_workspace(".archive/17738399468-old", STREAM, 0);
    assert_eq!(world.locate(ID).unwrap().path(), path);
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    let path = world.in_user_storage(".archive/17738399468-old", STREAM, 0);
    assert_eq!(world.locate(ID).unwrap().path(), path);
}

#[test]
fn newer_copy_is_selected() {
    let world = World::new();
    let workspace_copy = world.in_workspace(ID, STREAM, 10);
    let user_copy = world.in_user_storage("17738399468-slug", STREAM, 20);
    let place = world.locate(ID).unwrap();
    assert_eq!((place.path(), place.twins()), (&*workspace_copy, &[user_copy.clone()][..]));
    set_age(&user_copy, 5);
    let place = world.locate(ID).unwrap();
    assert_eq!((place.path(), place.twins()), (&*user_copy, &[workspace_copy][..]));
}

#[test]
fn user_copy_wins_when_ages_are_equal() {
    let world = World::new();
    world.in_workspace(ID, STREAM, 10);
    let user_copy = world.in_user_storage(ID, STREAM, 10);
    assert_eq!(world.locate(ID).unwrap().path(), user_copy);
}

#[test]
fn age_includes_base_config() {
    let world = World::new();
    let workspace_copy = world.in_workspace(ID, STREAM, 20);
    world.in_user_storage(ID, STREAM, 10);
    let base_config = workspace_copy.with_file_name("base_config.json");
    fs::write(&base_config, "{}").unwrap();
    set_age(&base_config, 5);
    assert_eq!(world.locate(ID).unwrap().path(), workspace_copy);
}

#[test]
fn path_to_the_older_copy_selects_the_newer_copy() {
    let world = World::new();
    let workspace_copy = world.in_workspace(ID, STREAM, 20);
    let user_copy = world.in_user_storage(ID, LONGER, 10);
    for name in [workspace_copy.parent().unwrap(), &workspace_copy, user_copy.parent().unwrap(), &user_copy] {
        let place = world.locate(name).unwrap();
        assert_eq!(
            (place.path(), place.twins()),
            (&*user_copy, &[workspace_copy.clone()][..]),
            "{}",
            name.display()
        );
    }
}

#[test]
fn relative_path_resolves_from_the_current_folder() {
    let mut world = World::new();
    let path = world.in_workspace(ID, STREAM, 0);
    world.environment.cwd = world.jp("conversations");
    assert_eq!(world.locate(ID).unwrap().path(), path);
    world.environment.cwd = path.parent().unwrap().to_path_buf();
    for name in [".", "events.json"] {
        assert_eq!(world.locate(name).unwrap().id(), Some(ID), "{name}");
    }
}

#[test]
fn user_copy_finds_its_workspace_from_any_folder() {
    let mut world = World::new();
    let workspace_copy = world.in_workspace(ID, STREAM, 20);
    let user_copy = world.in_user_storage(ID, STREAM, 10);
    world.environment.cwd = world.path("data");
    assert!(world.locate(&user_copy).unwrap().twins().is_empty());
    symlink(world.jp(""), world.user("storage")).unwrap();
    assert_eq!(world.locate(&user_copy).unwrap().twins(), [&*workspace_copy]);
    fs::remove_file(world.user("storage")).unwrap();
    fs::create_dir(world.user("roots")).unwrap();
    let root = format!("{{\"path\":{:?},\"last_used\":\"2026-01-01T00:00:00Z\"}}", world.path("ws"));
    fs::write(world.user("roots/0a.json"), root).unwrap();
    assert_eq!(world.locate(&user_copy).unwrap().twins(), [&*workspace_copy]);
}

#[test]
fn storage_of_another_workspace_is_ignored() {
    let world = World::new();
    world.in_user_storage(ID, STREAM, 0);
    fs::write(world.jp(".id"), "other\n").unwrap();
    assert!(matches!(world.locate(ID), Err(StoreError::UnknownId { .. })));
}

#[test]
fn uses_jps_choice_between_two_storages_of_a_workspace() {
    let world = World::new();
    world.conversation(&world.path("data/workspace/zz-otvo8/conversations").join(ID), STREAM, 0);
    let user_copy = world.in_user_storage(ID, STREAM, 100);
    assert_eq!(world.locate(ID).unwrap().path(), user_copy);
}

#[test]
fn two_folders_with_the_same_id_are_an_ambiguity_error() {
    let world = World::new();
    world.in_workspace(ID, STREAM, 0);
    world.in_workspace("17738399468-again", STREAM, 0);
    let error = world.locate(ID).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Conflict);
    let text = error.to_string();
    assert!(text.contains("conversations/17738399468 and"), "{text}");
    assert!(text.ends_with("conversations/17738399468-again"), "{text}");
}

#[test]
fn folder_path_resolves_an_ambiguous_id() {
    let world = World::new();
    let first = world.in_workspace(ID, STREAM, 20);
    let second = world.in_workspace("17738399468-again", STREAM, 10);
    let place = world.locate(first.parent().unwrap()).unwrap();
    assert_eq!((place.path(), place.twins()), (&*first, &[second][..]));
}

#[test]
fn folder_without_events_is_not_a_twin() {
    let world = World::new();
    let path = world.in_workspace(ID, STREAM, 0);
    fs::create_dir(world.user("conversations").join(ID)).unwrap();
    let place = world.locate(ID).unwrap();
    assert_eq!((place.path(), place.twins().len()), (&*path, 0));
}

#[test]
fn folder_without_events_is_an_error() {
    let world = World::new();
    fs::create_dir(world.jp("conversations").join(ID)).unwrap();
    for name in [world.jp("conversations").join(ID).as_os_str(), ID.as_ref()] {
        let error = world.locate(name).unwrap_err();
        assert!(matches!(error, StoreError::NoEvents { .. }), "{error}");
        assert!(error.to_string().contains("has no events.json"));
    }
}

#[test]
fn argument_that_is_neither_path_nor_id_is_not_found() {
    let world = World::new();
    for name in ["nowhere", "../17738399468", "jp-c", "x/17738399468", "", "events.json"] {
        let error = world.locate(name).unwrap_err();
        assert!(matches!(error, StoreError::NotFound { .. }), "{name}: {error}");
        assert_eq!(error.kind(), StoreErrorKind::Unreadable);
        assert!(error.hint().is_some());
    }
}

#[test]
fn id_outside_a_workspace_reports_that_there_is_no_workspace() {
    let mut world = World::new();
    world.in_workspace(ID, STREAM, 0);
    world.environment.cwd = world.path("data");
    let error = world.locate(ID).unwrap_err();
    assert!(matches!(error, StoreError::UnknownId { workspace: None, .. }), "{error}");
}

#[test]
fn folder_outside_a_workspace_has_no_twin() {
    let world = World::new();
    let path = world.conversation(&world.path("copy/17738399468-x"), STREAM, 0);
    world.in_user_storage(ID, LONGER, 0);
    let place = world.locate(path.parent().unwrap()).unwrap();
    assert_eq!((place.path(), place.id(), place.twins().len()), (&*path, Some(ID), 0));
}

#[test]
fn file_path_accepts_any_file_name() {
    let world = World::new();
    let path = world.path("ws/deep/er/export.json");
    fs::write(&path, STREAM).unwrap();
    let place = world.locate("export.json").unwrap();
    assert_eq!((place.path(), place.id()), (&*path, None));
}

#[test]
fn symlink_to_a_conversation_folder_resolves_with_its_twin() {
    let world = World::new();
    let workspace_copy = world.in_workspace(ID, STREAM, 10);
    let user_copy = world.in_user_storage(ID, STREAM, 20);
    symlink(workspace_copy.parent().unwrap(), world.path("link")).unwrap();
    let place = world.locate(world.path("link")).unwrap();
    assert_eq!((place.path(), place.twins()), (&*workspace_copy, &[user_copy][..]));
}

#[test]
fn symlinked_jp_folder_still_finds_the_user_storage() {
    let world = World::new();
    let user_copy = world.in_user_storage(ID, STREAM, 20);
    fs::rename(world.jp(""), world.path("elsewhere")).unwrap();
    symlink(world.path("elsewhere"), world.path("ws/.jp")).unwrap();
    let workspace_copy = world.in_workspace(ID, STREAM, 10);
    for name in [workspace_copy.parent().unwrap().as_os_str(), ID.as_ref()] {
        let place = world.locate(name).unwrap();
        assert_eq!((place.path(), place.twins()), (&*workspace_copy, &[user_copy.clone()][..]));
    }
}
