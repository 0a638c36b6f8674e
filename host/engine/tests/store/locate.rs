//! What a TRANSCRIPT argument means.

use std::{fs, os::unix::fs::symlink};

use jp_compact_engine::store::{StoreError, StoreErrorKind};

use crate::world::{ID, LONGER, STREAM, World, set_age};

#[test]
fn an_id_is_found_from_below_the_workspace() {
    let world = World::new();
    let path = world.shared("17738399468-fix-the-build", STREAM, 0);
    for name in [ID, "jp-c17738399468"] {
        let place = world.locate(name).unwrap();
        assert_eq!(place.path(), path);
        assert_eq!(place.id(), Some(ID));
        assert!(place.twins().is_empty());
    }
}

#[test]
fn an_id_is_no_prefix_of_another() {
    let world = World::new();
    world.shared("177383994680", STREAM, 0);
    assert!(matches!(world.locate(ID), Err(StoreError::UnknownId { workspace: Some(_), .. })));
}

#[test]
fn an_archived_conversation_is_found_in_either_storage() {
    let world = World::new();
    let path = world.shared(".archive/17738399468-old", STREAM, 0);
    assert_eq!(world.locate(ID).unwrap().path(), path);
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    let path = world.own(".archive/17738399468-old", STREAM, 0);
    assert_eq!(world.locate(ID).unwrap().path(), path);
}

#[test]
fn the_newer_copy_is_the_one() {
    let world = World::new();
    let shared = world.shared(ID, STREAM, 10);
    let own = world.own("17738399468-slug", STREAM, 20);
    let place = world.locate(ID).unwrap();
    assert_eq!((place.path(), place.twins()), (&*shared, &[own.clone()][..]));
    set_age(&own, 5);
    let place = world.locate(ID).unwrap();
    assert_eq!((place.path(), place.twins()), (&*own, &[shared][..]));
}

#[test]
fn a_tie_goes_to_the_user_s_copy() {
    let world = World::new();
    world.shared(ID, STREAM, 10);
    let own = world.own(ID, STREAM, 10);
    assert_eq!(world.locate(ID).unwrap().path(), own);
}

#[test]
fn the_age_of_base_config_counts() {
    let world = World::new();
    let shared = world.shared(ID, STREAM, 20);
    world.own(ID, STREAM, 10);
    let base_config = shared.with_file_name("base_config.json");
    fs::write(&base_config, "{}").unwrap();
    set_age(&base_config, 5);
    assert_eq!(world.locate(ID).unwrap().path(), shared);
}

#[test]
fn a_folder_or_file_of_the_older_copy_means_the_newer_too() {
    let world = World::new();
    let shared = world.shared(ID, STREAM, 20);
    let own = world.own(ID, LONGER, 10);
    for named in [shared.parent().unwrap(), &shared, own.parent().unwrap(), &own] {
        let place = world.locate(named).unwrap();
        assert_eq!((place.path(), place.twins()), (&*own, &[shared.clone()][..]), "{}", named.display());
    }
}

#[test]
fn a_relative_path_is_taken_from_the_current_folder() {
    let mut world = World::new();
    let path = world.shared(ID, STREAM, 0);
    world.environment.cwd = world.jp("conversations");
    assert_eq!(world.locate(ID).unwrap().path(), path);
    world.environment.cwd = path.parent().unwrap().to_path_buf();
    for named in [".", "events.json"] {
        assert_eq!(world.locate(named).unwrap().id(), Some(ID), "{named}");
    }
}

#[test]
fn a_user_s_copy_finds_its_workspace_from_anywhere() {
    let mut world = World::new();
    let shared = world.shared(ID, STREAM, 20);
    let own = world.own(ID, STREAM, 10);
    world.environment.cwd = world.path("data");
    assert!(world.locate(&own).unwrap().twins().is_empty());
    symlink(world.jp(""), world.user("storage")).unwrap();
    assert_eq!(world.locate(&own).unwrap().twins(), [&*shared]);
    fs::remove_file(world.user("storage")).unwrap();
    fs::create_dir(world.user("roots")).unwrap();
    let root = format!("{{\"path\":{:?},\"last_used\":\"2026-01-01T00:00:00Z\"}}", world.path("ws"));
    fs::write(world.user("roots/0a.json"), root).unwrap();
    assert_eq!(world.locate(&own).unwrap().twins(), [&*shared]);
}

#[test]
fn a_storage_of_another_workspace_is_not_looked_in() {
    let world = World::new();
    world.own(ID, STREAM, 0);
    fs::write(world.jp(".id"), "other\n").unwrap();
    assert!(matches!(world.locate(ID), Err(StoreError::UnknownId { .. })));
}

#[test]
fn of_two_storages_for_one_workspace_jp_s_choice_is_taken() {
    let world = World::new();
    world.conversation(&world.path("data/workspace/zz-otvo8/conversations").join(ID), STREAM, 0);
    let own = world.own(ID, STREAM, 100);
    assert_eq!(world.locate(ID).unwrap().path(), own);
}

#[test]
fn two_folders_with_one_id_are_ambiguous_and_both_named() {
    let world = World::new();
    world.shared(ID, STREAM, 0);
    world.shared("17738399468-again", STREAM, 0);
    let error = world.locate(ID).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Conflict);
    let text = error.to_string();
    assert!(text.contains("conversations/17738399468 and"), "{text}");
    assert!(text.ends_with("conversations/17738399468-again"), "{text}");
}

#[test]
fn one_of_two_folders_with_one_id_can_be_named_by_its_path() {
    let world = World::new();
    let first = world.shared(ID, STREAM, 20);
    let second = world.shared("17738399468-again", STREAM, 10);
    let place = world.locate(first.parent().unwrap()).unwrap();
    assert_eq!((place.path(), place.twins()), (&*first, &[second][..]));
}

#[test]
fn a_folder_without_events_beside_the_real_one_is_no_copy() {
    let world = World::new();
    let path = world.shared(ID, STREAM, 0);
    fs::create_dir(world.user("conversations").join(ID)).unwrap();
    let place = world.locate(ID).unwrap();
    assert_eq!((place.path(), place.twins().len()), (&*path, 0));
}

#[test]
fn a_folder_without_events_is_no_conversation() {
    let world = World::new();
    fs::create_dir(world.jp("conversations").join(ID)).unwrap();
    for named in [world.jp("conversations").join(ID).as_os_str(), ID.as_ref()] {
        let error = world.locate(named).unwrap_err();
        assert!(matches!(error, StoreError::NoEvents { .. }), "{error}");
        assert!(error.to_string().contains("holds no events.json"));
    }
}

#[test]
fn what_is_neither_path_nor_id_is_not_found() {
    let world = World::new();
    for name in ["nowhere", "../17738399468", "jp-c", "x/17738399468", "", "events.json"] {
        let error = world.locate(name).unwrap_err();
        assert!(matches!(error, StoreError::NotFound { .. }), "{name}: {error}");
        assert_eq!(error.kind(), StoreErrorKind::Unreadable);
        assert!(error.hint().is_some());
    }
}

#[test]
fn an_id_outside_any_workspace_says_so() {
    let mut world = World::new();
    world.shared(ID, STREAM, 0);
    world.environment.cwd = world.path("data");
    let error = world.locate(ID).unwrap_err();
    assert!(matches!(error, StoreError::UnknownId { workspace: None, .. }), "{error}");
}

#[test]
fn a_folder_outside_a_workspace_stands_alone() {
    let world = World::new();
    let path = world.conversation(&world.path("copy/17738399468-x"), STREAM, 0);
    world.own(ID, LONGER, 0);
    let place = world.locate(path.parent().unwrap()).unwrap();
    assert_eq!((place.path(), place.id(), place.twins().len()), (&*path, Some(ID), 0));
}

#[test]
fn a_file_of_any_name_is_found_by_its_path() {
    let world = World::new();
    let path = world.path("ws/deep/er/export.json");
    fs::write(&path, STREAM).unwrap();
    let place = world.locate("export.json").unwrap();
    assert_eq!((place.path(), place.id()), (&*path, None));
}

#[test]
fn a_link_to_a_conversation_s_folder_leads_to_it_and_its_twin() {
    let world = World::new();
    let shared = world.shared(ID, STREAM, 10);
    let own = world.own(ID, STREAM, 20);
    symlink(shared.parent().unwrap(), world.path("link")).unwrap();
    let place = world.locate(world.path("link")).unwrap();
    assert_eq!((place.path(), place.twins()), (&*shared, &[own][..]));
}

#[test]
fn a_workspace_whose_jp_is_a_link_has_its_user_s_storage() {
    let world = World::new();
    let own = world.own(ID, STREAM, 20);
    fs::rename(world.jp(""), world.path("elsewhere")).unwrap();
    symlink(world.path("elsewhere"), world.path("ws/.jp")).unwrap();
    let shared = world.shared(ID, STREAM, 10);
    for named in [shared.parent().unwrap().as_os_str(), ID.as_ref()] {
        let place = world.locate(named).unwrap();
        assert_eq!((place.path(), place.twins()), (&*shared, &[own.clone()][..]));
    }
}
