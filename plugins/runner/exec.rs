//! The calls that have no safe form: closing what was inherited, signals, a copy of this process, exec. With
//! `library.rs` this file has all the `unsafe` of the project's own executables.
#![expect(unsafe_code, reason = "close_range, signal masks and execve have no safe form")]

use std::ffi::{CString, NulError, OsStr, OsString, c_char};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::{io, iter, ptr};

/// Closes everything but the three pipes. The host opens nothing that would be inherited; this
/// holds also for what the host itself inherited.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn close_inherited() -> Result<(), String> {
    // By number, because the C library's own function is younger than the system call.
    // SAFETY: the call takes three integers. Nothing in this process uses a descriptor above 2:
    // the runner opens none, and the standard library keeps none.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    if closed == 0 { Ok(()) } else { Err(format!("open files not closed: {}", io::Error::last_os_error())) }
}

/// Closes everything but the three pipes, as far as anybody counts descriptors.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn close_inherited() -> Result<(), String> {
    for descriptor in 3..4096 {
        // SAFETY: the call takes an integer. Nothing in this process uses a descriptor above 2.
        // That one is not open is no failure.
        let _ = unsafe { libc::close(descriptor) };
    }
    Ok(())
}

/// Ignored signals and the mask outlive an exec. Rust ignores SIGPIPE, and whoever started the
/// host may have ignored more (`nohup`); a strategy starts with the defaults.
pub(crate) fn reset_signals() -> Result<(), String> {
    for signal in 1..=64 {
        // SAFETY: SIG_DFL is no function that could be called at a bad moment. The signals that
        // cannot be set (SIGKILL, SIGSTOP, the C library's own) are refused and stay as they are.
        let _ = unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    mask(libc::sigemptyset)
}

/// No signal but SIGKILL and SIGSTOP arrives any more.
#[cfg(target_os = "linux")]
pub(crate) fn block_signals() -> Result<(), String> {
    mask(libc::sigfillset)
}

fn mask(fill: unsafe extern "C" fn(*mut libc::sigset_t) -> libc::c_int) -> Result<(), String> {
    let mut signals = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both functions that `fill` may be write the whole set they are given, and sigprocmask reads it after
    // that; the old mask is not asked for.
    let set = unsafe {
        fill(signals.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, signals.as_ptr(), ptr::null_mut())
    };
    if set == 0 { Ok(()) } else { Err(format!("signals not masked: {}", io::Error::last_os_error())) }
}

/// Makes a copy of this process that is its parent's child, as this one is. None in the copy, else its number.
#[cfg(target_os = "linux")]
pub(crate) fn copy() -> io::Result<Option<u32>> {
    let flags = libc::c_long::from(libc::CLONE_PARENT | libc::SIGCHLD);
    // SAFETY: as `fork` but for the parent: the copy has memory of its own, and goes on with a copy of this stack.
    // There is one thread, so that nothing is half done in the copy.
    let copy = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    u32::try_from(copy).map(|copy| (copy > 0).then_some(copy)).map_err(|_| io::Error::last_os_error())
}

/// Returns when the process has ended, or cannot be waited for.
#[cfg(target_os = "linux")]
pub(crate) fn wait_for_end_of(process: &impl AsRawFd) {
    let mut ended = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer is to one entry, as the number says, and the entry outlives the call.
    while unsafe { libc::poll(&raw mut ended, 1, -1) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

/// Becomes the program. Returns only when that failed, with the reason. `execve` and not
/// `execvp`, which would hand a file without `#!` to a shell.
pub(crate) fn replace(program: &OsStr, args: &[OsString], environment: &[OsString], jailed: bool) -> String {
    let words = iter::once(program).chain(args.iter().map(OsString::as_os_str));
    let strings = c_strings(words).and_then(|argv| Ok((argv, c_strings(environment)?)));
    let Ok((argv, envp)) = strings else {
        return "an argument holds a NUL byte".to_owned();
    };
    let (words, variables) = (pointers(&argv), pointers(&envp));
    // SAFETY: the first word is a C string, and both tables end in a null pointer; what they
    // point to lives in `argv` and `envp`, which outlive the call.
    unsafe { libc::execve(words[0], words.as_ptr(), variables.as_ptr()) };
    reason(&io::Error::last_os_error(), jailed)
}

fn c_strings(words: impl IntoIterator<Item: AsRef<OsStr>>) -> Result<Vec<CString>, NulError> {
    words.into_iter().map(|word| CString::new(word.as_ref().as_bytes())).collect()
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// The system's reason, with what it usually means where the system's own words mislead.
fn reason(error: &io::Error, jailed: bool) -> String {
    match error.raw_os_error() {
        Some(libc::ENOEXEC) => {
            format!("{error}: neither a script with a `#!` line nor an executable of this machine")
        }
        Some(libc::ENOENT) => format!("{error}: the file or the interpreter of its `#!` line is missing"),
        Some(libc::EACCES) if jailed => {
            format!(
                "{error}: the file or its interpreter may not be executed; a script needs the grant `runtime`"
            )
        }
        Some(libc::EACCES) => format!("{error}: the file or its interpreter may not be executed"),
        _ => error.to_string(),
    }
}
