//! The boundary to a shared library (`jp_compact_strategy.h`): opening it, calling it, and writing the lines that it
//! emits.
#![expect(unsafe_code, reason = "foreign functions have no safe form")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// The only symbol of a library.
const SYMBOL: &[u8] = b"jp_compact_strategy_v1\0";
const ABI: u32 = 1;

type EmitFn = unsafe extern "C" fn(*mut c_void, *const u8, usize) -> c_int;
type RunFn = unsafe extern "C" fn(*const u8, usize, *const u8, usize, EmitFn, *mut c_void) -> i32;

/// `jpc_strategy_v1` of `jp_compact_strategy.h`.
#[repr(C)]
struct StrategyV1 {
    abi: u32,
    size: u32,
    describe_json: *const c_char,
    run: Option<RunFn>,
}

/// A library with a valid table. It is never unloaded.
pub(crate) struct LoadedStrategy {
    pub(crate) description: &'static CStr,
    run: RunFn,
}

impl LoadedStrategy {
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: opening runs the library's initializers, which are untrusted. Therefore this is a separate process,
        // which is already confined.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| error_message(&error))?;
        type Entry = unsafe extern "C" fn() -> *const StrategyV1;
        // SAFETY: the header declares this type. A library with another type harms only this process.
        let entry = unsafe { library.get::<Entry>(SYMBOL) }.map_err(|error| error_message(&error))?;
        // SAFETY: as above. The function has no parameters.
        let table = unsafe { entry() };
        // The table and its functions must stay valid.
        std::mem::forget(library);
        if table.is_null() {
            return Err("the library returned no strategy".into());
        }
        // SAFETY: every version of the table begins with these two numbers, and the table is static.
        let (abi, size) = unsafe { ((*table).abi, (*table).size) };
        if abi != ABI || (size as usize) < size_of::<StrategyV1>() {
            return Err(format!(
                "unsupported table: version {abi} with {size} bytes, expected version {ABI}"
            ));
        }
        // SAFETY: the table has this version, and at least this size.
        let StrategyV1 { describe_json, run, .. } = unsafe { table.read() };
        let (false, Some(run)) = (describe_json.is_null(), run) else {
            return Err("the table lacks `describe_json` or `run`".into());
        };
        // SAFETY: the header requires a static text that ends with NUL.
        let description = unsafe { CStr::from_ptr(describe_json) };
        Ok(Self { description, run })
    }

    /// Runs one request, and writes each emitted line immediately.
    pub(crate) fn run(&self, request: &[u8], events: &[u8], output: &mut File) -> Result<(), String> {
        let mut sink = LineSink { output, write_error: None };
        // SAFETY: both buffers and the sink outlive the call, and `emit` casts the context to this sink. The library may
        // read out of bounds, but it has this process to itself.
        let status = unsafe {
            let context: *mut c_void = (&raw mut sink).cast();
            (self.run)(request.as_ptr(), request.len(), events.as_ptr(), events.len(), emit, context)
        };
        match sink.write_error {
            Some(error) => Err(format!("failed to write a line to the host: {error}")),
            None if status != 0 => Err(format!("`run` returned {status}")),
            None => Ok(()),
        }
    }
}

/// Returns the message of the system, which `libloading` keeps as the source.
fn error_message(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// The context of `emit`.
struct LineSink<'a> {
    output: &'a mut File,
    write_error: Option<io::Error>,
}

/// `jpc_emit`: writes one line immediately, because the next line may take long.
unsafe extern "C" fn emit(context: *mut c_void, line: *const u8, len: usize) -> c_int {
    if context.is_null() || line.is_null() {
        return 1;
    }
    // SAFETY: the library passes the context that `run` gave it, on the same thread. It is the only reference.
    let sink = unsafe { &mut *context.cast::<LineSink<'_>>() };
    // SAFETY: the header requires `len` bytes at `line`, which do not change during the call.
    let line = unsafe { std::slice::from_raw_parts(line, len) };
    if sink.write_error.is_none() {
        let line = [line.strip_suffix(b"\n").unwrap_or(line), b"\n"].concat();
        sink.write_error = sink.output.write_all(&line).err();
    }
    c_int::from(sink.write_error.is_some())
}
