//! A limit on the size of files, in a process of its own: the limit is the process's.

use std::{convert::Infallible, fs, time::Duration};

use jp_compact_engine::{
    environment::Environment,
    store::{Piece, ReplaceError, StoreError, StoreErrorKind, locate, read, replace},
};
use rustix::process::{Resource, getrlimit, setrlimit};

#[test]
fn a_file_beyond_the_limit_is_refused_before_the_signal_that_kills() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.json");
    fs::write(&path, vec![b' '; 10_000]).unwrap();
    let place = locate(path.as_os_str(), &Environment::bare(folder.path())).unwrap();
    let snapshot = read(&place).unwrap();
    let before = getrlimit(Resource::Fsize);

    let mut limit = before;
    limit.current = Some(10_000);
    setrlimit(Resource::Fsize, limit).unwrap();
    let write = |more: usize| {
        replace(&place, &snapshot, 0, Duration::ZERO, |_| {
            Ok::<_, Infallible>(vec![Piece::Old(0..10_000), Piece::New(vec![b'x'; more])])
        })
    };
    write(0).unwrap();
    let refused = write(1);
    setrlimit(Resource::Fsize, before).unwrap();

    let Err(ReplaceError::Store(error)) = refused else { panic!("it was written") };
    assert!(matches!(error, StoreError::TooLarge { size_bytes: 10_001, limit_bytes: 10_000, .. }), "{error}");
    assert_eq!(error.kind(), StoreErrorKind::Unwritable);
    assert_eq!(fs::read(&path).unwrap(), snapshot);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
