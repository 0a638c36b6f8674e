//! `export_strategy!`: the border to C of a strategy that is a shared library, and nothing but the border.

use std::ffi::{c_int, c_void};

/// `jpc_emit`.
pub type Emit = unsafe extern "C" fn(ctx: *mut c_void, line: *const u8, len: usize) -> c_int;

/// `run` of `jpc_strategy_v1`: request, its length, events, their length, and where lines go.
pub type Run = unsafe extern "C" fn(*const u8, usize, *const u8, usize, Emit, *mut c_void) -> i32;

/// Exports a strategy from a shared library (`crate-type = ["cdylib"]`), in the place of `main` and
/// [`serve`](crate::serve). The expression is evaluated for every request.
#[macro_export]
macro_rules! export_strategy {
    ($strategy:expr) => {
        #[allow(unsafe_code, reason = "the border to C, and nothing but the border")]
        const _: () = {
            use ::std::ffi::{c_int, c_void};
            use $crate::dylib::{Emit, StrategyV1};

            struct Table(StrategyV1);
            // SAFETY: the table is never written, nor is the text that it points to.
            unsafe impl Sync for Table {}
            // SAFETY: as above; no thread owns it.
            unsafe impl Send for Table {}

            unsafe extern "C" fn run(
                request: *const u8,
                len: usize,
                events: *const u8,
                events_len: usize,
                emit: Emit,
                ctx: *mut c_void,
            ) -> i32 {
                let bytes = |at: *const u8, len: usize| match at.is_null() || len == 0 {
                    true => &[][..],
                    // SAFETY: the caller promises `len` bytes, unchanged for the time of this call.
                    false => unsafe { ::std::slice::from_raw_parts(at, len) },
                };
                // SAFETY: `emit` takes this context, on this thread, and a line of this length.
                let mut emit = |line: &[u8]| unsafe { emit(ctx, line.as_ptr(), line.len()) } == 0;
                $crate::dylib::run(&$strategy, bytes(request, len), bytes(events, events_len), &mut emit)
            }

            // SAFETY: the symbol is the library's alone; nothing else is called so.
            #[unsafe(no_mangle)]
            extern "C" fn jp_compact_strategy_v1() -> *const StrategyV1 {
                static TABLE: ::std::sync::OnceLock<Table> = ::std::sync::OnceLock::new();
                &TABLE.get_or_init(|| Table(StrategyV1::new(&$strategy, run))).0
            }
        };
    };
}
