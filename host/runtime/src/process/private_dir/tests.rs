//! Tests for the removal of hostile folder trees. Foreign folders must stay.

use super::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::process::Command;

use rustix::fs::{Mode, OFlags, mkdirat, openat};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn revoke_access(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
}

/// Nests folders with the same name and returns the innermost folder.
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
fn messages_about(base: &Path) -> Vec<String> {
    let mut all = LEFT_BEHIND.lock().unwrap();
    let (messages, elsewhere) = all.drain(..).partition(|message| message.contains(base.to_str().unwrap()));
    *all = elsewhere;
    messages
}

#[track_caller]
fn check_removal(fill: impl FnOnce(&Path)) {
    // Uses memory if possible, because some disks take milliseconds to remove a folder.
    let base = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let dir = PrivateDir::make(base.path()).unwrap();
    fill(dir.path());
    let path = dir.path().to_owned();
    drop(dir);
    assert_eq!(messages_about(base.path()), Vec::<String>::new());
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
    check_removal(|dir| drop(nest(dir, 15_000, "d")));
    check_removal(|dir| drop(nest(dir, 1_000, &"d".repeat(255))));
}

#[test]
fn removes_many_entries() {
    check_removal(|dir| {
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
    check_removal(|dir| {
        let deep = dir.join("a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "").unwrap();
        symlink(&outside, dir.join("a/link")).unwrap();
        symlink(&outside, deep.join("link")).unwrap();
        for path in [&*deep, &dir.join("a"), dir] {
            revoke_access(path);
        }
        // Modes do not stop root, so the unlocking is tested separately.
        let folder = tree::open_to_change(CWD, dir).unwrap();
        drop(tree::open_to_change(&folder, "a").unwrap());
        assert_eq!([mode(dir), mode(&dir.join("a")), mode(&deep)], [0o700, 0o700, 0]);
        assert!(tree::open_to_change(CWD, &dir.join("a/link")).is_err());
    });
    assert_eq!((mode(&outside), outside.join("file").exists()), (0o555, true));
}

#[test]
#[cfg(target_os = "linux")]
fn measures_and_removes_folders_without_permissions() {
    // Modes do not stop root. Only the thread of this test changes its user.
    if rustix::process::geteuid().is_root() {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).unwrap();
    }
    for permissions in [0, 0o300, 0o600] {
        let base = tempfile::tempdir().unwrap();
        let dir = PrivateDir::make(base.path()).unwrap();
        let lock = || {
            for path in [&dir.path().join("a"), dir.path()] {
                fs::set_permissions(path, Permissions::from_mode(permissions)).unwrap();
            }
        };
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/file"), [b'x'; 1 << 16]).unwrap();
        lock();
        let exceeded = size::exceeded(dir.folder.as_fd(), 0, 1 << 15);
        assert_eq!(exceeded, Some(Exceeded::Bytes(1 << 15)), "{permissions:o}");
        lock();
        drop(dir);
        assert_eq!(messages_about(base.path()), Vec::<String>::new());
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }
}

/// Mounts a folder below the private folder. The mount point cannot be removed.
#[test]
#[ignore = "it needs the mount namespace that another test creates"]
fn keeps_and_reports_a_mount_in_a_folder() {
    let base = tempfile::tempdir().unwrap();
    let elsewhere = base.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("file"), "").unwrap();
    let dir = PrivateDir::make(base.path()).unwrap();
    let (path, mount_point) = (dir.path().to_owned(), dir.path().join("a/b/mounted"));
    fs::create_dir_all(&mount_point).unwrap();
    fs::write(path.join("a/file"), "").unwrap();
    assert!(mount(&["--bind"], &elsewhere, &mount_point));
    drop(dir);
    assert!(!path.join("a/file").exists() && mount_point.exists() && elsewhere.join("file").exists());
    let [message] = &messages_about(base.path())[..] else { panic!("not reported") };
    assert!(
        message.starts_with(&format!("failed to remove the private folder {}: ", path.display())),
        "{message}"
    );
    assert!(message.contains("busy"), "{message}");
}

#[expect(clippy::disallowed_methods, reason = "no crate here can mount")]
fn mount(flags: &[&str], source: &Path, mount_point: &Path) -> bool {
    Command::new("mount").args(flags).args([source, mount_point]).status().unwrap().success()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it starts itself in a mount namespace")]
fn keeps_mounts() {
    let test = "process::private_dir::tests::keeps_and_reports_a_mount_in_a_folder";
    let unshare = |args: &[&std::ffi::OsStr]| {
        Command::new("unshare").args(["--mount", "--propagation", "private"]).args(args).output()
    };
    if !unshare(&["true".as_ref()]).is_ok_and(|output| output.status.success()) {
        return; // Only root may unshare, and not in every container.
    }
    let test_binary = std::env::current_exe().unwrap();
    let output =
        unshare(&[test_binary.as_ref(), test.as_ref(), "--exact".as_ref(), "--ignored".as_ref()]).unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
}

#[test]
fn removes_unlocked_leftovers_and_keeps_locked_folders() {
    let base = tempfile::tempdir().unwrap();
    let name = |end: &str| base.path().join(format!("jp-compact-{end}"));
    let (leftover, unrelated) = (name("4194304-0123456789abcdef"), name("notes"));
    fs::create_dir(&leftover).unwrap();
    drop(nest(&leftover, 200, "d"));
    revoke_access(&leftover);
    fs::create_dir(&unrelated).unwrap();
    let (file, link) = (name("1-0000000000000001"), name("1-0000000000000002"));
    fs::write(&file, "").unwrap();
    symlink(&unrelated, &link).unwrap();
    let locked = PrivateDir::make(base.path()).unwrap();
    // `make` has removed the leftovers. It does this once per folder, so the test calls the removal again.
    assert!(!leftover.exists());
    leftovers::remove(base.path());
    for path in [locked.path(), &unrelated, &file, &link] {
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
fn check_limit(expect: Option<Exceeded>, fill: impl FnOnce(&Path)) {
    let base = tempfile::tempdir().unwrap();
    let dir = PrivateDir::make(base.path()).unwrap();
    fill(dir.path());
    assert_eq!(size::exceeded(dir.folder.as_fd(), 0, 1 << 20), expect);
}

#[test]
fn detects_each_limit() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("large"), vec![1; 2 << 20]).unwrap();
    check_limit(None, |dir| {
        fs::write(dir.join("file"), vec![1; 500 << 10]).unwrap();
        symlink(outside.path(), dir.join("link")).unwrap();
        drop(nest(dir, size::DEPTH_MAX, "d"));
    });
    check_limit(Some(Exceeded::Depth(size::DEPTH_MAX)), |dir| drop(nest(dir, size::DEPTH_MAX + 1, "d")));
    check_limit(Some(Exceeded::Bytes(1 << 20)), |dir| {
        fs::create_dir(dir.join("a")).unwrap();
        fs::write(dir.join("a/one"), vec![1; 600 << 10]).unwrap();
        fs::write(dir.join("a/two"), vec![1; 600 << 10]).unwrap();
        revoke_access(&dir.join("a"));
    });
}
