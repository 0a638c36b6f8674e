//! The removal of leftovers: temporary folders of killed runs. A leftover is a folder that belongs to the
//! user, has a name of this program, and is not locked by any process. A process keeps its lock until it
//! ends, even if it runs in another PID namespace.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Stat, flock, fstat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::{PREFIX, remove_or_report, report, tree};

/// The temporary directory may contain any number of entries. The search stops after this many.
const ENTRIES_MAX: usize = 1 << 16;

/// Removes all leftovers from the temporary directory.
pub(super) fn remove(temp_dir: &Path) {
    let Ok(parent) = tree::open_temp_dir(temp_dir) else { return };
    let Ok(entries) = Dir::read_from(&parent) else { return };
    let names = entries.flatten().take(ENTRIES_MAX).map(|entry| entry.file_name().to_owned());
    let names: Vec<CString> = names.filter(|name| is_private_dir_name(name.to_bytes())).collect();
    for name in names {
        let path = temp_dir.join(OsStr::from_bytes(name.to_bytes()));
        match lock_if_abandoned(parent.as_fd(), &name) {
            Ok(Some(folder)) => remove_or_report(parent.as_fd(), &path, folder.as_fd()),
            Ok(None) | Err(Errno::NOENT) => {}
            Err(error) => report(&path, &error.into()),
        }
    }
}

/// Returns whether [`super::PrivateDir`] creates names of this form.
fn is_private_dir_name(name: &[u8]) -> bool {
    let parts = std::str::from_utf8(name).ok().and_then(|name| name.strip_prefix(PREFIX)?.strip_prefix('-'));
    let Some((pid, random)) = parts.and_then(|parts| parts.split_once('-')) else { return false };
    let is_random = random.len() == 16 && random.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    is_random && !pid.is_empty() && pid.bytes().all(|c| c.is_ascii_digit())
}

/// Opens and locks a folder if it belongs to the user and is not locked by a live process.
fn lock_if_abandoned(parent: BorrowedFd<'_>, name: &CStr) -> Result<Option<OwnedFd>, Errno> {
    let is_users_folder =
        |stat: &Stat| FileType::from_raw_mode(stat.st_mode).is_dir() && stat.st_uid == geteuid().as_raw();
    if !is_users_folder(&statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?) {
        return Ok(None);
    }
    let folder = tree::open(parent, name)?;
    // The folder may have been replaced in the meantime.
    let is_abandoned =
        is_users_folder(&fstat(&folder)?) && flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok();
    Ok(is_abandoned.then_some(folder))
}

#[cfg(test)]
mod tests {
    use super::is_private_dir_name;

    #[test]
    fn recognizes_names_by_their_format() {
        assert!(is_private_dir_name(b"jp-compact-17-0123456789abcdef"));
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
            assert!(!is_private_dir_name(name.as_bytes()), "{name}");
        }
    }
}
