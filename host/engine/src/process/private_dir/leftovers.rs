//! What killed runs have left among the temporary files: folders of the user's own, under a name as this program
//! gives it, that no process holds. A process holds a folder until it ends, whatever ends it, and whatever its
//! number is and wherever it can be seen.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Stat, flock, fstat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::{PREFIX, remove_or_report, report, tree};

/// A folder for temporary files may hold anything; it is looked through no further than this.
const ENTRIES_MAX: usize = 1 << 16;

/// Removes what nobody holds.
pub(super) fn remove(temp_dir: &Path) {
    let Ok(parent) = tree::open_temp_dir(temp_dir) else { return };
    let Ok(entries) = Dir::read_from(&parent) else { return };
    let names = entries.flatten().take(ENTRIES_MAX).map(|entry| entry.file_name().to_owned());
    let names: Vec<CString> = names.filter(|name| is_ours(name.to_bytes())).collect();
    for name in names {
        let path = temp_dir.join(OsStr::from_bytes(name.to_bytes()));
        match abandoned(parent.as_fd(), &name) {
            Ok(Some(folder)) => remove_or_report(parent.as_fd(), &path, folder.as_fd()),
            Ok(None) | Err(Errno::NOENT) => {}
            Err(error) => report(&path, &error.into()),
        }
    }
}

/// Whether it is a name as [`super::PrivateDir`] gives it.
fn is_ours(name: &[u8]) -> bool {
    let parts = std::str::from_utf8(name).ok().and_then(|name| name.strip_prefix(PREFIX)?.strip_prefix('-'));
    let Some((pid, random)) = parts.and_then(|parts| parts.split_once('-')) else { return false };
    let is_random = random.len() == 16 && random.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    is_random && !pid.is_empty() && pid.bytes().all(|c| c.is_ascii_digit())
}

/// The folder, if it is one, the user's own, and nobody's that lives; held from now on.
fn abandoned(parent: BorrowedFd<'_>, name: &CStr) -> Result<Option<OwnedFd>, Errno> {
    let is_own =
        |stat: &Stat| FileType::from_raw_mode(stat.st_mode).is_dir() && stat.st_uid == geteuid().as_raw();
    if !is_own(&statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?) {
        return Ok(None);
    }
    let folder = tree::open(parent, name)?;
    // Another may have taken its place meanwhile.
    let is_free =
        is_own(&fstat(&folder)?) && flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok();
    Ok(is_free.then_some(folder))
}

#[cfg(test)]
mod tests {
    use super::is_ours;

    #[test]
    fn a_name_is_known_by_its_grammar() {
        assert!(is_ours(b"jp-compact-17-0123456789abcdef"));
        for name in [
            "jp-compact",
            "jp-compact-notes",
            "jp-compact-17",
            "jp-compact-17-0123456789abcde",
            "jp-compact-17-0123456789abcdef0",
            "jp-compact-17-0123456789ABCDEF",
            "jp-compact--0123456789abcdef",
            "jp-compact-1a-0123456789abcdef",
            "xjp-compact-17-0123456789abcdef",
        ] {
            assert!(!is_ours(name.as_bytes()), "{name}");
        }
    }
}
