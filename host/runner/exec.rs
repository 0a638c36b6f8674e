//! The steps that need `unsafe` code: closing inherited files, signals, a copy of this process, exec.
#![expect(unsafe_code, reason = "close_range, signal masks and execve have no safe form")]

use std::ffi::{CString, NulError, OsStr, OsString, c_char};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::{io, iter, ptr};

/// Closes all files except the three pipes. The host's own files are close-on-exec, but it may have inherited others.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn close_inherited() -> Result<(), String> {
    // Called by its number, because older C libraries lack the function.
    // SAFETY: the call takes three integers. Neither the runner nor the standard library uses a descriptor above 2.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    if result == 0 { Ok(()) } else { Err(format!("failed to close files: {}", io::Error::last_os_error())) }
}

/// Closes the three pipes. Nothing may use them until they are opened again.
#[cfg(target_os = "linux")]
pub(crate) fn close_pipes() {
    for descriptor in 0..=2 {
        // SAFETY: the call takes an integer. The caller holds the pipes in a socket, and opens them again under the same
        // numbers. There is no other thread.
        let _ = unsafe { libc::close(descriptor) };
    }
}

/// Closes the descriptors 3 to 4095.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn close_inherited() -> Result<(), String> {
    for descriptor in 3..4096 {
        // SAFETY: the call takes an integer. Nothing in this process uses a descriptor above 2. A closed descriptor is
        // ignored.
        let _ = unsafe { libc::close(descriptor) };
    }
    Ok(())
}

/// Restores default signal actions and an empty mask, because both survive an exec. Rust ignores SIGPIPE, and the host may
/// have inherited other ignored signals (`nohup`).
pub(crate) fn reset_signals() -> Result<(), String> {
    for signal in 1..=64 {
        // SAFETY: SIG_DFL installs no handler. The call fails for SIGKILL, SIGSTOP, and the C library's internal signals.
        let _ = unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    unblock_signals()
}

pub(crate) fn unblock_signals() -> Result<(), String> {
    set_mask(libc::sigemptyset)
}

/// Blocks all signals except SIGKILL and SIGSTOP.
#[cfg(target_os = "linux")]
pub(crate) fn block_signals() -> Result<(), String> {
    set_mask(libc::sigfillset)
}

fn set_mask(fill: unsafe extern "C" fn(*mut libc::sigset_t) -> libc::c_int) -> Result<(), String> {
    let mut signals = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `fill` initializes the whole set before sigprocmask reads it. The old mask is not requested.
    let result = unsafe {
        fill(signals.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, signals.as_ptr(), ptr::null_mut())
    };
    if result == 0 {
        Ok(())
    } else {
        Err(format!("failed to set the signal mask: {}", io::Error::last_os_error()))
    }
}

/// Copies this process. The copy has the same parent. Returns `None` in the copy, otherwise its process id.
#[cfg(target_os = "linux")]
pub(crate) fn copy_process() -> io::Result<Option<u32>> {
    let flags = libc::c_long::from(libc::CLONE_PARENT | libc::SIGCHLD);
    // SAFETY: like `fork`, the copy gets its own memory and stack. There is one thread, so no lock is held in the copy.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    u32::try_from(pid).map(|pid| (pid > 0).then_some(pid)).map_err(|_| io::Error::last_os_error())
}

/// Waits until the process has ended. It also returns if waiting fails.
#[cfg(target_os = "linux")]
pub(crate) fn wait_for_exit(process: &impl AsRawFd) {
    let mut exit_event = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer refers to one entry, which outlives the call.
    while unsafe { libc::poll(&raw mut exit_event, 1, -1) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

/// Executes the program. Returns the reason of a failure. It uses `execve`, because `execvp` would run a file without `#!`
/// in a shell.
pub(crate) fn replace(program: &OsStr, args: &[OsString], environment: &[OsString], jailed: bool) -> String {
    let all_args = iter::once(program).chain(args.iter().map(OsString::as_os_str));
    let strings = c_strings(all_args).and_then(|argv| Ok((argv, c_strings(environment)?)));
    let Ok((argv, envp)) = strings else {
        return "an argument contains a NUL byte".to_owned();
    };
    let (argv_pointers, envp_pointers) = (pointers(&argv), pointers(&envp));
    // SAFETY: both tables consist of C strings and end in a null pointer. The strings are in `argv` and `envp`, which outlive
    // the call.
    unsafe { libc::execve(argv_pointers[0], argv_pointers.as_ptr(), envp_pointers.as_ptr()) };
    failure_reason(&io::Error::last_os_error(), jailed)
}

fn c_strings(texts: impl IntoIterator<Item: AsRef<OsStr>>) -> Result<Vec<CString>, NulError> {
    texts.into_iter().map(|text| CString::new(text.as_ref().as_bytes())).collect()
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// Returns the system's message, and an explanation where that message is misleading.
fn failure_reason(error: &io::Error, jailed: bool) -> String {
    match error.raw_os_error() {
        Some(libc::ENOEXEC) => {
            format!("{error}: not a script with a `#!` line, and not an executable for this machine")
        }
        Some(libc::ENOENT) => format!("{error}: the file or the interpreter of its `#!` line is missing"),
        Some(libc::EACCES) if jailed => {
            format!(
                "{error}: no permission to execute the file or its interpreter; a script needs the grant `runtime`"
            )
        }
        Some(libc::EACCES) => format!("{error}: no permission to execute the file or its interpreter"),
        _ => error.to_string(),
    }
}
