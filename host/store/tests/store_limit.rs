//! The limit on file sizes (`RLIMIT_FSIZE`). This test has its own process because the limit applies to the
//! whole process.

use std::{convert::Infallible, fs, time::Duration};

use jp_compact_runtime::environment::Environment;
use jp_compact_store::{Piece, ReplaceError, StoreError, StoreErrorKind, locate, read, replace};
use rustix::process::{Resource, getrlimit, setrlimit};

#[test]
fn file_above_the_size_limit_is_rejected_without_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.json");
    fs::write(&path, vec![b' '; 10_000]).unwrap();
    let place = locate(path.as_os_str(), &Environment::bare(folder.path())).unwrap();
    let snapshot = read(&place).unwrap();
    let limit_before = getrlimit(Resource::Fsize);

    let mut limit = limit_before;
    limit.current = Some(10_000);
    setrlimit(Resource::Fsize, limit).unwrap();
    let write = |extra_bytes: usize| {
        replace(&place, &snapshot, 0, Duration::ZERO, |_| {
            Ok::<_, Infallible>(vec![Piece::Old(0..10_000), Piece::New(vec![b'x'; extra_bytes])])
        })
    };
    write(0).unwrap();
    let result = write(1);
    setrlimit(Resource::Fsize, limit_before).unwrap();

    let Err(ReplaceError::Store(error)) = result else { panic!("the file was written") };
    assert!(matches!(error, StoreError::TooLarge { size_bytes: 10_001, limit_bytes: 10_000, .. }), "{error}");
    assert_eq!(error.kind(), StoreErrorKind::Unwritable);
    assert_eq!(fs::read(&path).unwrap(), snapshot);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
