//! Tests for the removal of hostile folder trees. Foreign folders must stay.

use super::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::process::Command;

use rustix::fs::{Mode, OFlags, mkdirat, openat};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn lock(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
}

/// Nests folders with the same name and returns the innermost one.
fn nest(outermost: &Path, levels: usize, name: &str) -> OwnedFd {
    let open = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = openat(CWD, outermost, open, Mode::empty()).unwrap();
    for _ in 0..levels {
        mkdirat(&folder, name, Mode::RWXU).unwrap();
        folder = openat(&folder, name, open, Mode::empty()).unwrap();
    }
    folder
}

/// Returns the messages about this folder. Other tests produce messages about other folders.
fn left_in(base: &Path) -> Vec<String> {
    let mut all = LEFT_BEHIND.lock().unwrap();
    let (here, elsewhere) = all.drain(..).partition(|what| what.contains(base.to_str().unwrap()));
    *all = elsewhere;
    here
}

#[track_caller]
fn is_removed(fill: impl FnOnce(&Path)) {
    // Uses memory if possible, because some disks take milliseconds to remove a folder.
    let base = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let dir = PrivateDir::make(base.path()).unwrap();
    fill(dir.path());
    let path = dir.path().to_owned();
    drop(dir);
    assert_eq!(left_in(base.path()), Vec::<String>::new());
    assert!(!path.exists());
}

#[test]
fn names_are_unique_and_folders_are_private() {
    let base = tempfile::tempdir().unwrap();
    let dirs = [(); 2].map(|()| PrivateDir::make(base.path()).unwrap());
    assert_ne!(dirs[0].path(), dirs[1].path());
    let start = format!("{}/jp-compact-{}-", base.path().display(), std::process::id());
    assert!(dirs[0].path().to_str().unwrap().starts_with(&start));
    assert_eq!(mode(dirs[0].path()), 0o700);
}

#[test]
fn removes_folders_nested_beyond_path_limits() {
    is_removed(|dir| drop(nest(dir, 15_000, "d")));
    is_removed(|dir| drop(nest(dir, 1_000, &"d".repeat(255))));
}

#[test]
fn removes_many_entries() {
    is_removed(|dir| {
        for number in 0..2_000 {
            fs::create_dir(dir.join(format!("folder-{number}"))).unwrap();
            fs::write(dir.join(format!("folder-{number}/file")), "").unwrap();
            fs::write(dir.join(format!("file-{number}")), "").unwrap();
        }
    });
}

#[test]
fn removes_locked_trees_and_keeps_link_targets() {
    let base = tempfile::tempdir().unwrap();
    let outside = base.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "").unwrap();
    fs::set_permissions(&outside, Permissions::from_mode(0o555)).unwrap();
    is_removed(|dir| {
        let deep = dir.join("a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "").unwrap();
        symlink(&outside, dir.join("a/link")).unwrap();
        symlink(&outside, deep.join("link")).unwrap();
        for path in [&*deep, &dir.join("a"), dir] {
            lock(path);
        }
        // Modes do not stop root, so the unlocking is tested separately.
        let folder = tree::open_to_change(CWD, dir).unwrap();
        drop(tree::open_to_change(&folder, "a").unwrap());
        assert_eq!([mode(dir), mode(&dir.join("a")), mode(&deep)], [0o700, 0o700, 0]);
        assert!(tree::open_to_change(CWD, &dir.join("a/link")).is_err());
    });
    assert_eq!((mode(&outside), outside.join("file").exists()), (0o555, true));
}

/// Mounts something in the folder, which cannot be removed.
#[test]
#[ignore = "it mounts, in a mount namespace that another test has made"]
fn keeps_and_reports_a_mount_in_a_folder() {
    let base = tempfile::tempdir().unwrap();
    let elsewhere = base.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("file"), "").unwrap();
    let dir = PrivateDir::make(base.path()).unwrap();
    let (path, place) = (dir.path().to_owned(), dir.path().join("a/b/mounted"));
    fs::create_dir_all(&place).unwrap();
    fs::write(path.join("a/file"), "").unwrap();
    assert!(mount(&["--bind"], &elsewhere, &place));
    drop(dir);
    assert!(!path.join("a/file").exists() && place.exists() && elsewhere.join("file").exists());
    let [left] = &left_in(base.path())[..] else { panic!("not reported") };
    assert!(left.starts_with(&format!("failed to remove the private folder {}: ", path.display())), "{left}");
    assert!(left.contains("busy"), "{left}");
}

#[expect(clippy::disallowed_methods, reason = "no crate here can mount")]
fn mount(flags: &[&str], what: &Path, place: &Path) -> bool {
    Command::new("mount").args(flags).args([what, place]).status().unwrap().success()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it starts itself where it may mount")]
fn keeps_mounts() {
    let test = "process::private_dir::tests::keeps_and_reports_a_mount_in_a_folder";
    let unshare = |words: &[&std::ffi::OsStr]| {
        Command::new("unshare").args(["--mount", "--propagation", "private"]).args(words).output()
    };
    if !unshare(&["true".as_ref()]).is_ok_and(|output| output.status.success()) {
        return; // Only root may, and not in every container.
    }
    let own = std::env::current_exe().unwrap();
    let output = unshare(&[own.as_ref(), test.as_ref(), "--exact".as_ref(), "--ignored".as_ref()]).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn removes_unlocked_leftovers_and_keeps_locked_folders() {
    let base = tempfile::tempdir().unwrap();
    let name = |end: &str| base.path().join(format!("jp-compact-{end}"));
    let (left, not_ours) = (name("4194304-0123456789abcdef"), name("notes"));
    fs::create_dir(&left).unwrap();
    drop(nest(&left, 200, "d"));
    lock(&left);
    fs::create_dir(&not_ours).unwrap();
    let (file, link) = (name("1-0000000000000001"), name("1-0000000000000002"));
    fs::write(&file, "").unwrap();
    symlink(&not_ours, &link).unwrap();
    let held = PrivateDir::make(base.path()).unwrap();
    // The first removal of this process was earlier, so this acts like another run.
    assert!(!left.exists());
    leftovers::remove(base.path());
    for path in [held.path(), &not_ours, &file, &link] {
        assert!(path.symlink_metadata().is_ok(), "{} is gone", path.display());
    }
    // Must not open a folder of another user. Only root can create one.
    if fs::metadata(base.path()).unwrap().uid() == 0 {
        let foreign = name("1-0000000000000003");
        fs::create_dir(&foreign).unwrap();
        std::os::unix::fs::chown(&foreign, Some(65_534), None).unwrap();
        leftovers::remove(base.path());
        assert!(foreign.exists());
    }
}

#[track_caller]
fn exceeds(expect: Option<Exceeded>, fill: impl FnOnce(&Path)) {
    let base = tempfile::tempdir().unwrap();
    let dir = PrivateDir::make(base.path()).unwrap();
    fill(dir.path());
    assert_eq!(size::exceeded(dir.folder.as_fd(), 0, 1 << 20), expect);
}

#[test]
fn detects_each_limit() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("large"), vec![1; 2 << 20]).unwrap();
    exceeds(None, |dir| {
        fs::write(dir.join("file"), vec![1; 500 << 10]).unwrap();
        symlink(outside.path(), dir.join("link")).unwrap();
        drop(nest(dir, size::DEPTH_MAX, "d"));
    });
    exceeds(Some(Exceeded::Depth(size::DEPTH_MAX)), |dir| drop(nest(dir, size::DEPTH_MAX + 1, "d")));
    exceeds(Some(Exceeded::Bytes(1 << 20)), |dir| {
        fs::create_dir(dir.join("a")).unwrap();
        fs::write(dir.join("a/one"), vec![1; 600 << 10]).unwrap();
        fs::write(dir.join("a/two"), vec![1; 600 << 10]).unwrap();
        lock(&dir.join("a"));
    });
}
