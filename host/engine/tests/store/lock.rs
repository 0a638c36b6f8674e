//! Who may write when.

use std::{
    convert::Infallible,
    fs::{self, File},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use jp_compact_engine::store::{Current, LOCK_WAIT, Piece, Place, ReplaceError, StoreError, read, replace};

use crate::world::{ID, STREAM, World, names};

/// Replaces a place's bytes with the same, looking at something while the lock is held.
fn rewrite(place: &Place, wait: Duration, look: impl FnOnce()) -> Result<(), ReplaceError<Infallible>> {
    let snapshot = read(place).unwrap();
    replace(place, &snapshot, 0, wait, |_| {
        look();
        Ok(vec![Piece::New(STREAM.to_vec())])
    })
}

fn hold(path: &Path) -> File {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = File::options().create(true).append(true).open(path).unwrap();
    file.try_lock().unwrap();
    file
}

#[track_caller]
fn check_locked(result: Result<(), ReplaceError<Infallible>>, lock: &Path) {
    match result {
        Err(ReplaceError::Store(StoreError::Locked { lock: named, .. })) => assert_eq!(named, lock),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_lock_of_the_user_s_storage_is_held_while_building_and_stays_behind() {
    let world = World::new();
    let lock = world.lock();
    rewrite(&world.place(), Duration::ZERO, || assert!(File::open(&lock).unwrap().try_lock().is_err()))
        .unwrap();
    File::open(&lock).unwrap().try_lock().unwrap();
}

#[test]
fn without_a_user_s_storage_the_lock_is_the_workspace_s() {
    let world = World::new();
    fs::remove_dir_all(world.user("")).unwrap();
    let lock = world.jp(&format!("locks/jp-c{ID}.lock"));
    rewrite(&world.place(), Duration::ZERO, || assert!(File::open(&lock).unwrap().try_lock().is_err()))
        .unwrap();
}

#[test]
fn a_held_lock_is_an_error_that_names_it() {
    let world = World::new();
    let place = world.place();
    let _held = hold(&world.lock());
    check_locked(rewrite(&place, Duration::ZERO, || panic!("built without the lock")), &world.lock());
    assert_eq!(names(place.path().parent().unwrap()), ["events.json"]);
}

#[test]
fn a_lock_file_in_the_workspace_counts_where_jp_would_take_it() {
    let world = World::new();
    let place = world.place();
    let _held = hold(&world.jp(&format!("locks/jp-c{ID}.lock")));
    check_locked(rewrite(&place, Duration::ZERO, || panic!("built without the lock")), &world.lock());
}

#[test]
fn a_lock_is_waited_for() {
    let world = World::new();
    let place = world.place();
    let held = hold(&world.lock());
    let released = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            rewrite(&place, LOCK_WAIT, || assert!(released.load(Ordering::SeqCst), "built too early"))
        });
        released.store(true, Ordering::SeqCst);
        drop(held);
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn a_lock_on_a_file_that_was_unlinked_keeps_nobody_waiting_and_lets_nobody_in() {
    let world = World::new();
    let place = world.place();
    let released = AtomicBool::new(false);
    let first = hold(&world.lock());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            rewrite(&place, LOCK_WAIT, || assert!(released.load(Ordering::SeqCst), "built too early"))
        });
        // As JP does, but that another takes a lock of the same name at once.
        fs::remove_file(world.lock()).unwrap();
        let second = File::options().create(true).append(true).open(world.lock()).unwrap();
        second.lock().unwrap();
        drop(first);
        released.store(true, Ordering::SeqCst);
        drop(second);
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn outside_a_workspace_the_folder_is_locked_and_no_file_stays() {
    let world = World::new();
    let path = world.conversation(&world.path("copy"), STREAM, 0);
    let folder = path.parent().unwrap();
    let place = world.locate(folder).unwrap();
    rewrite(&place, Duration::ZERO, || assert!(File::open(folder).unwrap().try_lock().is_err())).unwrap();
    assert_eq!(names(folder), ["events.json"]);
    let held = File::open(folder).unwrap();
    held.lock().unwrap();
    check_locked(rewrite(&place, Duration::ZERO, || ()), folder);
}

#[test]
fn no_append_is_lost_among_many() {
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
