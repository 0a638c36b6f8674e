//! The border to a shared library (`jp_compact_strategy.h`): opening it, one call of it, and the lines that it
//! emits meanwhile.
#![expect(unsafe_code, reason = "a library's functions have no safe form")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// The one symbol of a library.
const SYMBOL: &[u8] = b"jp_compact_strategy_v1\0";
const ABI: u32 = 1;

type Emit = unsafe extern "C" fn(*mut c_void, *const u8, usize) -> c_int;
type Run = unsafe extern "C" fn(*const u8, usize, *const u8, usize, Emit, *mut c_void) -> i32;

/// `jpc_strategy_v1` of `jp_compact_strategy.h`.
#[repr(C)]
struct StrategyV1 {
    abi: u32,
    size: u32,
    describe_json: *const c_char,
    run: Option<Run>,
}

/// A library that kept the rules so far. It is never unloaded.
pub(crate) struct Strategy {
    pub(crate) description: &'static CStr,
    run: Run,
}

impl Strategy {
    /// Opens the library at a path.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: opening runs the library's initialisers, and it is not to be trusted with them; that is why it has
        // a process of its own, which was confined before.
        let library =
            unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| reason(&error))?;
        type Entry = unsafe extern "C" fn() -> *const StrategyV1;
        // SAFETY: the header gives the symbol this type. A library that gives it another breaks this process alone.
        let entry = unsafe { library.get::<Entry>(SYMBOL) }.map_err(|error| reason(&error))?;
        // SAFETY: as above; the function takes nothing.
        let table = unsafe { entry() };
        // What was found in it must outlive everything.
        std::mem::forget(library);
        if table.is_null() {
            return Err("it has no strategy".into());
        }
        // SAFETY: every version of the table begins with these two numbers, and it lives for ever.
        let (abi, size) = unsafe { ((*table).abi, (*table).size) };
        if abi != ABI || (size as usize) < size_of::<StrategyV1>() {
            return Err(format!(
                "its table is of version {abi} with {size} bytes; this runner knows version {ABI}"
            ));
        }
        // SAFETY: the table is of this version and at least of this size.
        let StrategyV1 { describe_json, run, .. } = unsafe { table.read() };
        let (false, Some(run)) = (describe_json.is_null(), run) else {
            return Err("its table lacks `describe_json` or `run`".into());
        };
        // SAFETY: the header says that the text ends in a NUL and lives for ever.
        let description = unsafe { CStr::from_ptr(describe_json) };
        Ok(Self { description, run })
    }

    /// Puts one request. What the library emits is written at once.
    pub(crate) fn run(&self, request: &[u8], events: &[u8], output: &mut File) -> Result<(), String> {
        let mut sink = Sink { output, failed: None };
        // SAFETY: both buffers and the sink outlive the call, and `emit` takes the sink for what it is. Whether
        // the library reads only what it was given is its own affair; it has this process to itself.
        let status = unsafe {
            let context: *mut c_void = (&raw mut sink).cast();
            (self.run)(request.as_ptr(), request.len(), events.as_ptr(), events.len(), emit, context)
        };
        match sink.failed {
            Some(error) => Err(format!("the host reads no more: {error}")),
            None if status != 0 => Err(format!("it returned {status}")),
            None => Ok(()),
        }
    }
}

/// The system's own words, which the crate keeps as a cause.
fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Where a library's lines go.
struct Sink<'a> {
    output: &'a mut File,
    failed: Option<io::Error>,
}

/// `jpc_emit`: writes one line, at once, for the library may take its time until the next.
unsafe extern "C" fn emit(context: *mut c_void, line: *const u8, len: usize) -> c_int {
    if context.is_null() || line.is_null() {
        return 1;
    }
    // SAFETY: the library passes on what `run` was given, which is the sink of this very call, on the same thread;
    // nobody else has a reference to it meanwhile.
    let sink = unsafe { &mut *context.cast::<Sink<'_>>() };
    // SAFETY: the header asks for `len` bytes at `line`, unchanged for the time of the call.
    let line = unsafe { std::slice::from_raw_parts(line, len) };
    if sink.failed.is_none() {
        let line = [line.strip_suffix(b"\n").unwrap_or(line), b"\n"].concat();
        sink.failed = sink.output.write_all(&line).err();
    }
    c_int::from(sink.failed.is_some())
}
