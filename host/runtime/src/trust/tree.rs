//! The files of a plugin: one file, or all regular files of a folder. This module computes the digest, makes the copy,
//! and computes a stamp that shows changes without a read. A file that changes while it is read is an error.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use crate::digest::hexadecimal;
use crate::private_file;

/// A larger folder was probably passed by mistake.
const FILES_MAX: usize = 10_000;
const BYTES_MAX: u64 = 512 << 20;
/// The first line of the hashed text of a folder.
const HEADING: &[u8] = b"jp-compact folder 1\n";
/// Two changes within this time can have the same time stamp.
const SETTLED_AFTER: SignedDuration = SignedDuration::from_secs(2);
/// The copy is read-only.
const EXECUTABLE: u32 = 0o555;
const READABLE: u32 = 0o444;

pub(super) struct PluginTree {
    root: PathBuf,
    is_folder: bool,
    /// Sorted by relative path.
    leaves: Vec<Leaf>,
    /// The folders below the root.
    folders: Vec<PathBuf>,
}

struct Leaf {
    /// Relative to the root. Empty if the plugin is a single file.
    relative: PathBuf,
    stamp: Stamp,
    executable: bool,
}

/// Detects whether a file has changed.
#[derive(PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn new(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

impl PluginTree {
    /// Lists the files of a plugin. A symbolic link is an error.
    pub(super) fn read(root: &Path) -> io::Result<Self> {
        let file = fs::symlink_metadata(root)?;
        let mut tree =
            Self { root: root.to_owned(), is_folder: file.is_dir(), leaves: Vec::new(), folders: Vec::new() };
        if tree.is_folder {
            let mut bytes = 0;
            tree.walk(Path::new(""), &mut bytes)?;
            tree.leaves.sort_by(|one, other| one.relative.cmp(&other.relative));
        } else {
            tree.add(PathBuf::new(), &file)?;
        }
        Ok(tree)
    }

    fn walk(&mut self, relative_folder: &Path, bytes: &mut u64) -> io::Result<()> {
        for entry in fs::read_dir(self.root.join(relative_folder))? {
            let entry = entry?;
            let relative = relative_folder.join(entry.file_name());
            let file = fs::symlink_metadata(entry.path())?;
            if file.is_dir() {
                self.folders.push(relative.clone());
                self.walk(&relative, bytes)?;
            } else {
                *bytes += file.len();
                self.add(relative, &file)?;
            }
            if self.leaves.len() + self.folders.len() > FILES_MAX || *bytes > BYTES_MAX {
                return Err(error(&self.root, "has more than 10,000 files and folders, or 512 MiB"));
            }
        }
        Ok(())
    }

    fn add(&mut self, relative: PathBuf, file: &Metadata) -> io::Result<()> {
        if !file.is_file() {
            let problem = if file.is_symlink() { "is a symbolic link" } else { "is not a regular file" };
            return Err(error(&self.root.join(relative), &format!("{problem}, which a digest cannot cover")));
        }
        let executable = file.permissions().mode() & 0o111 != 0;
        self.leaves.push(Leaf { relative, stamp: Stamp::new(file), executable });
        Ok(())
    }

    /// Returns the root first, then all folders and files.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let leaves =
            self.leaves.iter().map(|leaf| &leaf.relative).filter(|path| !path.as_os_str().is_empty());
        let entries = self.folders.iter().chain(leaves).map(|relative| self.root.join(relative));
        std::iter::once(self.root.clone()).chain(entries)
    }

    /// Returns a digest of the stamps, executable bits, and names of the files.
    pub(super) fn stamp(&self) -> String {
        let mut hash = Sha256::new();
        for leaf in &self.leaves {
            let Stamp { device, inode, bytes, modified, changed } = &leaf.stamp;
            let mode = leaf.executable;
            hash.update(format!("{device} {inode} {bytes} {modified:?} {changed:?} {mode} "));
            hash_path(&mut hash, &leaf.relative);
        }
        hexadecimal(hash)
    }

    /// Returns whether every later change must change the stamp. `now` is the time before the files were listed.
    pub(super) fn is_settled(&self, now: Timestamp) -> bool {
        let newest = self.leaves.iter().map(|leaf| leaf.stamp.changed).max().unwrap_or_default();
        let newest = Timestamp::new(newest.0, i32::try_from(newest.1).unwrap_or_default());
        newest.is_ok_and(|newest| now.duration_since(newest) > SETTLED_AFTER)
    }

    /// Returns the SHA-256 of the file. For a folder, hashes the digests, executable bits, and names of its files.
    pub(super) fn digest(&self) -> io::Result<String> {
        self.hash_files(|leaf| {
            let mut nowhere = io::sink();
            copy_bytes(&mut self.open(leaf)?, &mut nowhere, leaf, &self.root)
        })
    }

    /// Copies the files and returns the digest of the copy.
    pub(super) fn copy_to(&self, target: &Path) -> io::Result<String> {
        self.hash_files(|leaf| {
            let path = if self.is_folder { target.join(&leaf.relative) } else { target.to_owned() };
            private_file::check_size(leaf.stamp.bytes)?;
            let mut copy = private_file::begin(&path)?;
            let digest = copy_bytes(&mut self.open(leaf)?, copy.as_file_mut(), leaf, &self.root)?;
            private_file::finish(copy, &path, if leaf.executable { EXECUTABLE } else { READABLE })?;
            Ok(digest)
        })
    }

    fn hash_files(&self, mut digest: impl FnMut(&Leaf) -> io::Result<String>) -> io::Result<String> {
        if let ([leaf], false) = (&self.leaves[..], self.is_folder) {
            return digest(leaf);
        }
        let mut hash = Sha256::new_with_prefix(HEADING);
        for leaf in &self.leaves {
            hash.update(format!("{} {} ", digest(leaf)?, if leaf.executable { 'x' } else { '-' }));
            hash_path(&mut hash, &leaf.relative);
        }
        Ok(hexadecimal(hash))
    }

    fn open(&self, leaf: &Leaf) -> io::Result<File> {
        // The file could have been replaced by a pipe, and opening a pipe would block forever.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let path = if self.is_folder { self.root.join(&leaf.relative) } else { self.root.clone() };
        OpenOptions::new().read(true).custom_flags(flags).open(path)
    }
}

/// Hashes a path. Its length comes first, so two lists of different paths cannot produce the same bytes.
fn hash_path(hash: &mut Sha256, path: &Path) {
    let path = path.as_os_str().as_bytes();
    hash.update(format!("{}:", path.len()));
    hash.update(path);
    hash.update(b"\n");
}

/// Reads a file to its end, writes it to `out`, and returns its digest. Fails if the file is not the listed
/// one or changes during the read.
fn copy_bytes(file: &mut File, out: &mut dyn io::Write, leaf: &Leaf, root: &Path) -> io::Result<String> {
    let is_same = |file: &File| file.metadata().map(|file| file.is_file() && Stamp::new(&file) == leaf.stamp);
    let changed_error = || error(&root.join(&leaf.relative), "changed while it was read");
    if !is_same(file)? {
        return Err(changed_error());
    }
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => {
                hash.update(&buffer[..read]);
                out.write_all(&buffer[..read])?;
            }
        }
    }
    if is_same(file)? { Ok(hexadecimal(hash)) } else { Err(changed_error()) }
}

fn error(path: &Path, problem: &str) -> io::Error {
    io::Error::other(format!("{} {problem}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str, u32)]) -> tempfile::TempDir {
        let base = tempfile::tempdir().unwrap();
        for (name, text, mode) in files {
            let path = base.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        }
        base
    }

    fn digest(files: &[(&str, &str, u32)]) -> String {
        PluginTree::read(folder(files).path()).unwrap().digest().unwrap()
    }

    const FILES: [(&str, &str, u32); 2] = [("plugin.toml", "x", 0o644), ("a/run", "y", 0o755)];

    #[test]
    fn hashes_the_bytes_of_a_file() {
        let base = folder(&[("file", "abc", 0o644)]);
        let digest = PluginTree::read(&base.path().join("file")).unwrap().digest().unwrap();
        assert_eq!(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn the_digest_does_not_depend_on_the_location() {
        assert_eq!(digest(&FILES), digest(&FILES));
    }

    #[test]
    fn bytes_names_and_executable_bits_change_the_digest() {
        for other in [
            [("plugin.toml", "z", 0o644), ("a/run", "y", 0o755)],
            [("plugin.toml", "x", 0o644), ("a/ran", "y", 0o755)],
            [("plugin.toml", "x", 0o644), ("b/run", "y", 0o755)],
            [("plugin.toml", "x", 0o644), ("a/run", "y", 0o644)],
        ] {
            assert_ne!(digest(&FILES), digest(&other), "{other:?}");
        }
        assert_ne!(digest(&FILES), digest(&[FILES[0], FILES[1], ("c", "", 0o644)]));
    }

    #[test]
    fn copies_have_the_same_digest_and_are_read_only() {
        let base = folder(&FILES);
        let target = tempfile::tempdir().unwrap();
        let copy = target.path().join("copy");
        let tree = PluginTree::read(base.path()).unwrap();
        assert_eq!(tree.copy_to(&copy).unwrap(), tree.digest().unwrap());
        assert_eq!(PluginTree::read(&copy).unwrap().digest().unwrap(), tree.digest().unwrap());
        let mode = |path: &str| fs::metadata(copy.join(path)).unwrap().mode() & 0o7777;
        assert_eq!([mode(""), mode("a"), mode("a/run"), mode("plugin.toml")], [0o700, 0o700, 0o555, 0o444]);
    }

    #[test]
    fn rejects_links() {
        let base = folder(&FILES);
        std::os::unix::fs::symlink("/etc/passwd", base.path().join("link")).unwrap();
        let error = PluginTree::read(base.path()).map(drop).unwrap_err().to_string();
        assert!(error.ends_with("link is a symbolic link, which a digest cannot cover"), "{error}");
    }

    #[test]
    fn rejects_a_file_that_changed_after_listing() {
        let base = folder(&FILES);
        let tree = PluginTree::read(base.path()).unwrap();
        fs::write(base.path().join("plugin.toml"), "xx").unwrap();
        let error = tree.digest().unwrap_err().to_string();
        assert!(error.ends_with("changed while it was read"), "{error}");
    }

    #[test]
    fn changes_alter_the_stamp_and_young_stamps_are_not_settled() {
        let base = folder(&FILES);
        let tree = PluginTree::read(base.path()).unwrap();
        assert_eq!(tree.stamp(), PluginTree::read(base.path()).unwrap().stamp());
        fs::write(base.path().join("a/run"), "yy").unwrap();
        assert_ne!(tree.stamp(), PluginTree::read(base.path()).unwrap().stamp());
        let changed = Timestamp::new(fs::metadata(base.path().join("a/run")).unwrap().ctime(), 0).unwrap();
        assert!(!tree.is_settled(changed));
        assert!(tree.is_settled(changed + SignedDuration::from_secs(5)));
    }
}
