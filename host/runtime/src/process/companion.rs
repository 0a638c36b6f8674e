//! A helper process of the host: an executable of the installation, which answers each request with bytes. It is trusted,
//! so it has neither a jail nor a deadline. It is started on demand, and ends when this process closes its stdin.

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout};

use super::child::start_companion;

/// The pipes of a running helper process. Dropping them ends it.
#[derive(Debug)]
pub struct Companion {
    stdin: ChildStdin,
    stdout: ChildStdout,
}

impl Companion {
    /// Starts the executable.
    ///
    /// # Errors
    /// The executable could not be started.
    pub fn start(program: &Path) -> io::Result<Self> {
        start_companion(program).map(|(stdin, stdout)| Self { stdin, stdout })
    }

    /// Writes a request, and then reads an answer whose length is known. The process must read the whole request before
    /// it answers.
    ///
    /// # Errors
    /// The process has ended.
    pub fn ask(&mut self, request: &[&[u8]], answer: &mut [u8]) -> io::Result<()> {
        request.iter().try_for_each(|part| self.stdin.write_all(part))?;
        self.stdout.read_exact(answer)
    }
}
