//! `export_strategy!`: the C boundary of a strategy in a shared library.

/// Exports a strategy from a shared library (`crate-type = ["cdylib"]`). Use it instead of `main` and
/// [`serve`](crate::serve). The expression is evaluated for the description and for every request.
#[macro_export]
macro_rules! export_strategy {
    ($strategy:expr) => {
        #[allow(unsafe_code, reason = "the C boundary")]
        const _: () = {
            use ::std::ffi::c_void;
            use $crate::dylib::{EmitFn, StrategyV1};

            struct Table(StrategyV1);
            // SAFETY: neither the table nor its text is ever written.
            unsafe impl Sync for Table {}
            // SAFETY: as above. No thread owns the table.
            unsafe impl Send for Table {}

            unsafe extern "C" fn run(
                request: *const u8,
                len: usize,
                events: *const u8,
                events_len: usize,
                emit: EmitFn,
                ctx: *mut c_void,
            ) -> i32 {
                let bytes = |at: *const u8, len: usize| match at.is_null() || len == 0 {
                    true => &[][..],
                    // SAFETY: the caller passes `len` bytes, which do not change during this call.
                    false => unsafe { ::std::slice::from_raw_parts(at, len) },
                };
                // SAFETY: `emit` gets its own context, on the calling thread, and a line of this length.
                let mut emit = |line: &[u8]| unsafe { emit(ctx, line.as_ptr(), line.len()) } == 0;
                $crate::dylib::run(&$strategy, bytes(request, len), bytes(events, events_len), &mut emit)
            }

            // SAFETY: the library defines no other symbol with this name.
            #[unsafe(no_mangle)]
            extern "C" fn jp_compact_strategy_v1() -> *const StrategyV1 {
                static TABLE: ::std::sync::OnceLock<Table> = ::std::sync::OnceLock::new();
                &TABLE.get_or_init(|| Table(StrategyV1::new(&$strategy, run))).0
            }
        };
    };
}
