//! Ownership and mode checks, after the model of StrictModes in OpenSSH. The plugin and every folder above it
//! must be owned by root or the user, and no other user may write to them.

use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use crate::small_file;

const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
/// The maximum number of links in the resolution of a path, as in Linux.
const LINKS_MAX: usize = 40;

/// A file or folder that another user could change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insecure {
    /// The file or folder.
    pub path: PathBuf,
    /// Its permission bits.
    pub mode: u32,
    /// The reason.
    pub why: Why,
}

/// The reason why a file or folder is insecure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The owner is neither root nor the user.
    Owner(u32),
    /// The group may write, and it is not the private group of the owner.
    Group(u32),
    /// Every user may write.
    Others,
}

impl fmt::Display for Insecure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, mode) = (self.path.display(), self.mode);
        match self.why {
            Why::Owner(uid) => {
                write!(f, "{path} (mode {mode:04o}) is owned by uid {uid}, neither root nor you")
            }
            Why::Group(gid) => write!(f, "{path} (mode {mode:04o}) can be written to by group {gid}"),
            Why::Others => write!(f, "{path} (mode {mode:04o}) can be written to by every user"),
        }
    }
}

impl Insecure {
    /// Returns the command that fixes the problem.
    #[must_use]
    pub fn remedy(&self) -> String {
        let path = super::quoted(&self.path);
        match self.why {
            Why::Owner(_) => format!("`chown \"$(id -u)\" {path}`"),
            Why::Group(_) => format!("`chmod g-w {path}`"),
            Why::Others => format!("`chmod go-w {path}`"),
        }
    }
}

/// Checks a real path and every folder above it. Stops below `root` if it is given.
pub(super) fn check_ancestors(path: &Path, root: Option<&Path>) -> io::Result<Option<Insecure>> {
    let mut child: Option<Metadata> = None;
    for ancestor in path.ancestors().take_while(|ancestor| root != Some(*ancestor)) {
        let file = fs::symlink_metadata(ancestor)?;
        if let Some(insecure) = check(ancestor, &file, child.as_ref()) {
            return Ok(Some(insecure));
        }
        child = Some(file);
    }
    Ok(None)
}

/// Checks a file and every folder and link on the way to it, in the order in which the kernel resolves the
/// path. If `root` is given, only checks it and the paths below it.
pub(super) fn check_resolution(path: &Path, root: Option<&Path>) -> io::Result<Option<Insecure>> {
    let reversed = |path: &Path| -> Vec<PathBuf> {
        path.components().rev().map(|component| component.as_os_str().into()).collect()
    };
    let (mut remaining, mut current, mut links) = (reversed(path), PathBuf::from("/"), 0);
    while let Some(component) = remaining.pop() {
        let next = match component.components().next() {
            Some(Component::ParentDir) => current.parent().unwrap_or(Path::new("/")).to_owned(),
            Some(Component::Normal(name)) => current.join(name),
            _ if component.is_absolute() => PathBuf::from("/"),
            _ => continue,
        };
        let file = fs::symlink_metadata(&next)?;
        let is_checked = |path: &Path| root.is_none_or(|root| path.starts_with(root));
        let folder = fs::symlink_metadata(&current)?;
        let mut insecure = check(&current, &folder, Some(&file)).filter(|_| is_checked(&current));
        // The mode of a link means nothing. The mode of its folder decides who may replace it.
        if remaining.is_empty() && !file.is_symlink() && is_checked(&next) {
            insecure = insecure.or_else(|| check(&next, &file, None));
        }
        if insecure.is_some() {
            return Ok(insecure);
        }
        if !file.is_symlink() {
            current = next;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(io::Error::other("too many symbolic links"));
        }
        remaining.extend(reversed(&fs::read_link(&next)?));
    }
    Ok(None)
}

/// Checks a single file or folder. Only the owner of a link matters, not its mode.
pub(super) fn check_one(path: &Path) -> io::Result<Option<Insecure>> {
    let (file, target) = (fs::symlink_metadata(path)?, fs::metadata(path)?);
    let is_real = |found: &Insecure| !file.is_symlink() || matches!(found.why, Why::Owner(_));
    Ok(check(path, &file, None).filter(is_real).or_else(|| check(path, &target, None)))
}

/// Returns the owner of a path or of its link target, if this owner is neither root nor the user.
pub(super) fn other_owner(path: &Path) -> Option<u32> {
    let file = fs::symlink_metadata(path).ok()?;
    let target = if file.is_symlink() { fs::metadata(path).ok() } else { None };
    let user = rustix::process::geteuid().as_raw();
    [Some(file), target].into_iter().flatten().map(|file| file.uid()).find(|owner| ![0, user].contains(owner))
}

fn check(path: &Path, file: &Metadata, below: Option<&Metadata>) -> Option<Insecure> {
    let user = rustix::process::geteuid().as_raw();
    let is_trusted_owner = |file: &Metadata| [0, user].contains(&file.uid());
    let insecure = |why| Some(Insecure { path: path.to_owned(), mode: file.mode() & 0o7777, why });
    if !is_trusted_owner(file) {
        return insecure(Why::Owner(file.uid()));
    }
    // In a sticky folder, users cannot replace the files of other users.
    if file.is_dir() && file.mode() & STICKY != 0 && below.is_some_and(is_trusted_owner) {
        return None;
    }
    if file.mode() & OTHERS_WRITE != 0 {
        return insecure(Why::Others);
    }
    if file.mode() & GROUP_WRITES != 0 && !is_private(file.gid(), file.uid()) {
        return insecure(Why::Group(file.gid()));
    }
    None
}

/// Returns whether a group is the primary group of this user and has no other member.
fn is_private(group: u32, owner: u32) -> bool {
    let read = |path| small_file::read_system_text(path).unwrap_or_default();
    is_private_in(&read("/etc/passwd"), &read("/etc/group"), group, owner)
}

fn is_private_in(passwd: &str, groups: &str, group: u32, owner: u32) -> bool {
    let parse_id = |field: Option<&&str>| field.and_then(|field| field.parse::<u32>().ok());
    let users: Vec<Vec<&str>> = passwd.lines().map(|line| line.split(':').collect()).collect();
    let names: Vec<&str> = users
        .iter()
        .filter(|fields| parse_id(fields.get(2)) == Some(owner) && parse_id(fields.get(3)) == Some(group))
        .map(|fields| fields[0])
        .collect();
    let is_shared = users
        .iter()
        .any(|fields| parse_id(fields.get(3)) == Some(group) && parse_id(fields.get(2)) != Some(owner));
    let members = groups
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .filter(|fields| parse_id(fields.get(2)) == Some(group))
        .flat_map(|fields| fields.get(3).map_or(Vec::new(), |members| members.split(',').collect()));
    !names.is_empty()
        && !is_shared
        && members.into_iter().all(|member| member.is_empty() || names.contains(&member))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/h:/bin/sh\nbob:x:1001:1001::/h:/bin/sh\neve:x:1002:50::/h:/bin/sh\nmax:x:1003:50::/h:/bin/sh\n";
    const GROUPS: &str = "root:x:0:\nann:x:1000:ann\nbob:x:1001:eve\nstaff:x:50:\n";

    #[track_caller]
    fn check_private(group: u32, owner: u32, expect: bool) {
        assert_eq!(is_private_in(PASSWD, GROUPS, group, owner), expect);
    }

    #[test]
    fn a_group_is_private_if_the_owner_is_its_only_member() {
        check_private(1000, 1000, true);
        check_private(0, 0, true);
        check_private(1001, 1001, false);
        check_private(50, 1002, false);
        check_private(1000, 1001, false);
        check_private(4711, 4711, false);
    }

    /// Checks `<base>/a/file` with these modes for `a` and for the file.
    #[track_caller]
    fn check(folder: u32, file: u32, expect: Option<(&str, Why)>) {
        let base = tempfile::tempdir().unwrap();
        let real = base.path().canonicalize().unwrap();
        let (above, path) = (real.join("a"), real.join("a/file"));
        fs::create_dir(&above).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(file)).unwrap();
        fs::set_permissions(&above, fs::Permissions::from_mode(folder)).unwrap();
        let found = check_ancestors(&path, None).unwrap();
        let expect = expect.map(|(name, why)| {
            let path = real.join(name);
            Insecure { mode: if path == above { folder } else { file }, path, why }
        });
        assert_eq!(found, expect);
    }

    #[test]
    fn rejects_files_and_folders_that_others_can_write() {
        check(0o755, 0o755, None);
        check(0o700, 0o700, None);
        check(0o755, 0o757, Some(("a/file", Why::Others)));
        check(0o777, 0o755, Some(("a", Why::Others)));
    }

    #[test]
    fn accepts_own_files_in_sticky_folders() {
        check(0o1777, 0o755, None);
        check(0o1777, 0o757, Some(("a/file", Why::Others)));
    }

    #[test]
    fn ignores_the_sticky_bit_of_the_plugin() {
        check(0o755, 0o1757, Some(("a/file", Why::Others)));
    }

    #[test]
    fn does_not_check_a_trusted_folder_and_above() {
        let base = tempfile::tempdir().unwrap();
        let real = base.path().canonicalize().unwrap().join("a");
        fs::create_dir(&real).unwrap();
        fs::write(real.join("file"), "").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(check_ancestors(&real.join("file"), Some(&real)).unwrap(), None);
        assert!(check_ancestors(&real.join("file"), None).unwrap().is_some());
    }

    #[test]
    fn the_error_names_path_mode_and_remedy() {
        let insecure = Insecure { path: "/a b".into(), mode: 0o777, why: Why::Others };
        assert_eq!(insecure.to_string(), "/a b (mode 0777) can be written to by every user");
        assert_eq!(insecure.remedy(), "`chmod go-w '/a b'`");
    }
}
