//! Sessions with real processes and the real runner: one process per request, or a worker for many requests.
//! The options of each request select the behavior of `tests/hostile/worker`.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(target_os = "linux")]

#[path = "session/needs.rs"]
mod needs;
#[path = "session/runs.rs"]
mod runs;
#[path = "session/workers.rs"]
mod workers;
#[path = "session/world.rs"]
mod world;
