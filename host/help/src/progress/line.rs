//! The line with the request that the program waits for: `strip-tools … 3 s`. It appears after a short time, so that a
//! quick request does not flicker. A separate thread redraws the line during the wait.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use jp_compact_runtime::session::Watch;
use jp_compact_schema::Progress;
use jp_compact_terminal::escape;

use super::draw_target;

/// A shorter request is not shown.
const SHOWN_AFTER: Duration = Duration::from_millis(300);
/// The time between two redraws.
const TICK: Duration = Duration::from_millis(100);
/// A longer message is truncated.
const MESSAGE_CHARS_MAX: usize = 60;

/// The line. Its thread ends with it.
pub struct ProgressLine {
    shared: Arc<Shared>,
}

struct Shared {
    bar: ProgressBar,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    current: Option<Wait>,
    has_thread: bool,
    is_closed: bool,
}

/// A request in progress.
struct Wait {
    id: String,
    subject: String,
    /// The progress that the strategy reported.
    message: String,
    start: Instant,
}

impl fmt::Debug for ProgressLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ProgressLine")
    }
}

impl ProgressLine {
    #[must_use]
    pub fn new(hidden: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, draw_target(hidden));
        let style = ProgressStyle::with_template("{spinner} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self { shared: Arc::new(Shared { bar, state, changed }) }
    }

    /// Returns the bar of the line, for a display of several lines.
    pub(super) fn bar(&self) -> ProgressBar {
        self.shared.bar.clone()
    }

    /// Hides the line during a write.
    pub fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.shared.bar.suspend(write)
    }

    /// Shows this request from now on.
    fn begin(&self, id: &str, subject: String) {
        if self.shared.bar.is_hidden() {
            return;
        }
        let mut state = self.shared.lock();
        let message = String::new();
        state.current = Some(Wait { id: id.to_owned(), subject, message, start: Instant::now() });
        if !state.has_thread {
            let shared = Arc::clone(&self.shared);
            // Without a thread there is no line, and the request continues.
            let thread =
                std::thread::Builder::new().name("progress".into()).spawn(move || shared.draw_until_closed());
            state.has_thread = thread.is_ok();
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Redraws the line until the program no longer needs it.
    fn draw_until_closed(&self) {
        let mut state = self.lock();
        while !state.is_closed {
            match &state.current {
                Some(wait) if wait.start.elapsed() >= SHOWN_AFTER => {
                    // The line of an earlier request was cleared. A cleared line is drawn again only after a reset.
                    if self.bar.is_finished() {
                        self.bar.reset();
                    }
                    self.bar.set_message(wait.text(wait.start.elapsed()));
                    self.bar.tick();
                }
                _ => {}
            }
            let wait_max = if state.current.is_some() { TICK } else { Duration::from_secs(3600) };
            state = self.changed.wait_timeout(state, wait_max).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Wait {
    fn text(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs();
        let time = if seconds == 0 { String::new() } else { format!(" {seconds} s") };
        let message = if self.message.is_empty() { String::new() } else { format!(", {}", self.message) };
        format!("{} …{time}{message}", self.subject)
    }
}

impl Watch for ProgressLine {
    fn waits(&self, id: &str, subject: &str) {
        self.begin(id, escape::line(subject));
    }

    fn progress(&self, strategy: &str, id: &str, progress: &Progress) {
        let is_current = self.shared.lock().current.as_ref().is_some_and(|wait| wait.id == id);
        if !is_current {
            self.begin(id, escape::line(strategy));
        }
        if let Some(wait) = &mut self.shared.lock().current {
            wait.message = text(progress);
        }
    }

    fn ended(&self, id: &str) {
        let mut state = self.shared.lock();
        if state.current.as_ref().is_some_and(|wait| wait.id == id) {
            state.current = None;
            self.shared.bar.finish_and_clear();
        }
    }
}

/// Returns the progress of a strategy on one escaped line.
fn text(progress: &Progress) -> String {
    let count = match progress.total {
        Some(total) => format!("{} of {total}", progress.done),
        None => progress.done.to_string(),
    };
    let Some(message) = &progress.message else { return count };
    let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
    format!("{count} {}", escape::line(&message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(done: u64, total: Option<u64>, message: Option<&str>, expected: &str) {
        let message = message.map(str::to_owned);
        assert_eq!(text(&Progress { id: "c1".into(), done, total, message }), expected);
    }

    #[test]
    fn progress_is_one_escaped_line() {
        check(3, None, None, "3");
        check(3, Some(9), Some("scanning"), "3 of 9 scanning");
        check(3, Some(9), Some("a\n\u{1b}[2Jb"), "3 of 9 a\\n\\u{1b}[2Jb");
        check(1, None, Some(&"x".repeat(500)), &format!("1 {}", "x".repeat(60)));
    }

    #[test]
    fn line_has_the_subject_and_the_time() {
        let wait = |message: &str| Wait {
            id: "c1".into(),
            subject: "strip-tools".into(),
            message: message.into(),
            start: Instant::now(),
        };
        assert_eq!(wait("").text(Duration::from_millis(400)), "strip-tools …");
        assert_eq!(wait("").text(Duration::from_millis(3_900)), "strip-tools … 3 s");
        assert_eq!(wait("3 of 9").text(Duration::from_secs(12)), "strip-tools … 12 s, 3 of 9");
    }
}
