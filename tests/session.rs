//! Sessions with real processes, through the real runner: what one process does for one request, a worker does
//! for thousands. `tests/hostile/worker` behaves as each request's options say.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on is a test that failed")]
#![cfg(target_os = "linux")]

#[path = "session/needs.rs"]
mod needs;
#[path = "session/runs.rs"]
mod runs;
#[path = "session/workers.rs"]
mod workers;
#[path = "session/world.rs"]
mod world;
