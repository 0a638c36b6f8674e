//! The C types of `jp_compact_strategy.h`. A test compares their layout with the header.

use std::ffi::{c_char, c_int, c_void};

/// The only version of the table.
pub const ABI: u32 = 1;

/// `jpc_emit`: takes a context and one line.
pub type EmitFn = unsafe extern "C" fn(ctx: *mut c_void, line: *const u8, len: usize) -> c_int;

/// `run` of `jpc_strategy_v1`: takes the request, the events, and the function and context for reply lines.
pub type RunFn = unsafe extern "C" fn(*const u8, usize, *const u8, usize, EmitFn, *mut c_void) -> i32;

/// `jpc_strategy_v1`.
#[derive(Debug)]
#[repr(C)]
pub struct StrategyV1 {
    /// [`ABI`].
    pub abi: u32,
    /// The size of this struct.
    pub size: u32,
    /// The answer to `describe`, with a static lifetime.
    pub describe_json: *const c_char,
    /// Answers one request.
    pub run: RunFn,
}
