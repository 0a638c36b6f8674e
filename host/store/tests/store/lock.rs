//! Locking: which lock file a write takes, and when a second writer waits or fails.

use std::{
    convert::Infallible,
    fs::{self, File},
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use jp_compact_store::{Current, LOCK_WAIT, Piece, Place, ReplaceError, StoreError, read, replace};

use crate::world::{ID, STREAM, World, names};

/// Replaces the file with the same bytes and calls `while_locked` while the lock is held.
fn rewrite(
    place: &Place,
    wait: Duration,
    mut while_locked: impl FnMut(),
) -> Result<(), ReplaceError<Infallible>> {
    let snapshot = read(place).unwrap();
    replace(place, &snapshot, 0, wait, |_| {
        while_locked();
        Ok(vec![Piece::New(STREAM.to_vec())])
    })
}

fn take_lock(path: &Path) -> File {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = File::options().create(true).append(true).open(path).unwrap();
    file.try_lock().unwrap();
    file
}

#[track_caller]
fn check_locked(result: Result<(), ReplaceError<Infallible>>, lock: &Path) {
    match result {
        Err(ReplaceError::Store(StoreError::Locked { lock: path, .. })) => assert_eq!(path, lock),
        other => panic!("{other:?}"),
    }
}

#[test]
fn user_storage_lock_is_held_and_its_file_remains() {
    let world = World::new();
    let lock = world.lock();
    rewrite(&world.place(), Duration::ZERO, || assert!(File::open(&lock).unwrap().try_lock().is_err()))
        .unwrap();
    File::open(&lock).unwrap().try_lock().unwrap();
}

#[test]
fn workspace_lock_is_used_without_a_user_storage() {
    let world = World::new();
    fs::remove_dir_all(world.user("")).unwrap();
    let lock = world.jp(&format!("locks/jp-c{ID}.lock"));
    rewrite(&world.place(), Duration::ZERO, || assert!(File::open(&lock).unwrap().try_lock().is_err()))
        .unwrap();
}

#[test]
fn locked_error_contains_the_lock_path() {
    let world = World::new();
    let place = world.place();
    let _lock_file = take_lock(&world.lock());
    check_locked(rewrite(&place, Duration::ZERO, || panic!("built without the lock")), &world.lock());
    assert_eq!(names(place.path().parent().unwrap()), ["events.json"]);
}

#[test]
fn lock_file_in_the_workspace_is_respected() {
    let world = World::new();
    let place = world.place();
    let lock = world.jp(&format!("locks/jp-c{ID}.lock"));
    let _lock_file = take_lock(&lock);
    check_locked(rewrite(&place, Duration::ZERO, || panic!("built without the lock")), &lock);
}

#[test]
fn error_names_the_lock_file_that_cannot_be_opened() {
    let world = World::new();
    let place = world.place();
    let lock = world.jp(&format!("locks/jp-c{ID}.lock"));
    drop((take_lock(&lock), take_lock(&world.lock())));
    fs::rename(&lock, world.path("target")).unwrap();
    symlink(world.path("target"), &lock).unwrap();
    match rewrite(&place, Duration::ZERO, || panic!("built without the lock")) {
        Err(ReplaceError::Store(StoreError::Unwritable { path, .. })) => assert_eq!(path, lock),
        other => panic!("{other:?}"),
    }
}

#[test]
fn waits_until_the_lock_is_released() {
    let world = World::new();
    let place = world.place();
    let lock_file = take_lock(&world.lock());
    let released = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            rewrite(&place, LOCK_WAIT, || assert!(released.load(Ordering::SeqCst), "built too early"))
        });
        released.store(true, Ordering::SeqCst);
        drop(lock_file);
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn unlinked_lock_file_neither_blocks_nor_admits_a_writer() {
    let world = World::new();
    let place = world.place();
    let released = AtomicBool::new(false);
    let first = take_lock(&world.lock());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            rewrite(&place, LOCK_WAIT, || assert!(released.load(Ordering::SeqCst), "built too early"))
        });
        // Another writer's locked file takes the name in one step, so the name is never free for the waiting thread.
        let replacement = world.path("replacement.lock");
        let second = take_lock(&replacement);
        fs::rename(&replacement, world.lock()).unwrap();
        drop(first);
        released.store(true, Ordering::SeqCst);
        drop(second);
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn folder_itself_is_locked_outside_a_workspace() {
    let world = World::new();
    let path = world.conversation(&world.path("copy"), STREAM, 0);
    let folder = path.parent().unwrap();
    let place = world.locate(folder).unwrap();
    rewrite(&place, Duration::ZERO, || assert!(File::open(folder).unwrap().try_lock().is_err())).unwrap();
    assert_eq!(names(folder), ["events.json"]);
    let lock_file = File::open(folder).unwrap();
    lock_file.lock().unwrap();
    check_locked(rewrite(&place, Duration::ZERO, || ()), folder);
}

#[test]
fn concurrent_appends_are_all_kept() {
    let world = World::new();
    let place = world.place();
    fs::write(place.path(), b"").unwrap();
    thread::scope(|scope| {
        for writer in 0..4u8 {
            let place = &place;
            scope.spawn(move || {
                for _ in 0..10 {
                    let snapshot = read(place).unwrap();
                    replace(place, &snapshot, snapshot.len(), Duration::from_secs(300), |current| {
                        let old = match current {
                            Current::Same => snapshot.len(),
                            Current::Grown(bytes) => bytes.len(),
                        };
                        Ok::<_, Infallible>(vec![Piece::Old(0..old), Piece::New(vec![b'0' + writer])])
                    })
                    .unwrap();
                }
            });
        }
    });
    let bytes = fs::read(place.path()).unwrap();
    for writer in b'0'..b'4' {
        assert_eq!(bytes.iter().filter(|byte| **byte == writer).count(), 10);
    }
}
