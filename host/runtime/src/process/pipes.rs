//! The pump of the three pipes of a process. It serves them concurrently, so that none blocks another. Stdout
//! is limited, stderr is always drained, and stdin is written without copying.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::coop::unconstrained;

use super::{OutputCallbacks, Stderr};

/// The capacity of a pipe.
const READ_BYTES: usize = 64 << 10;
/// A smaller buffer is not worth a system call.
const READ_BYTES_MIN: usize = 4 << 10;
const SLICES_PER_WRITE: usize = 64;

/// The reason why pumping stopped early.
#[derive(Debug)]
pub(super) enum PumpError {
    TooLarge,
    Io(io::Error),
}

/// The host's ends of the three pipes.
pub(super) struct Pipes {
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: ChildStderr,
}

impl Pipes {
    pub(super) fn new(
        stdin: Option<std::process::ChildStdin>,
        stdout: Option<std::process::ChildStdout>,
        stderr: Option<std::process::ChildStderr>,
    ) -> io::Result<Self> {
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(io::Error::other("a pipe was already taken"));
        };
        Ok(Self {
            stdin: ChildStdin::from_std(stdin)?,
            stdout: ChildStdout::from_std(stdout)?,
            stderr: ChildStderr::from_std(stderr)?,
        })
    }

    /// Returns the three pipes for a caller that pumps them itself.
    pub(super) fn into_pipes(self) -> (ChildStdin, ChildStdout, ChildStderr) {
        (self.stdin, self.stdout, self.stderr)
    }

    /// Pumps until both outputs are closed. Input that was not read by then is dropped.
    pub(super) async fn pump(
        self,
        input: Vec<Bytes>,
        stdout: &mut Vec<u8>,
        stdout_bytes_max: usize,
        stderr: &mut Stderr,
        callbacks: OutputCallbacks<'_>,
    ) -> Result<(), PumpError> {
        let outputs = async {
            tokio::try_join!(
                collect(self.stdout, stdout, stdout_bytes_max, callbacks.stdout),
                drain(self.stderr, stderr, callbacks.stderr)
            )
        };
        let feed = async {
            feed(self.stdin, input).await;
            std::future::pending().await
        };
        tokio::select! {
            ended = outputs => ended.map(|_| ()),
            never = feed => never,
        }
    }
}

/// Writes everything and closes stdin. Errors such as EPIPE are ignored. A strategy may answer without
/// reading all input, and a dead strategy is noticed by its exit.
async fn feed(mut stdin: impl AsyncWrite + Unpin, mut input: Vec<Bytes>) {
    let mut first = 0;
    while first < input.len() {
        let mut slices = [IoSlice::new(&[]); SLICES_PER_WRITE];
        for (slice, chunk) in slices.iter_mut().zip(&input[first..]) {
            *slice = IoSlice::new(chunk);
        }
        let slices_len = SLICES_PER_WRITE.min(input.len() - first);
        let Ok(mut written) = stdin.write_vectored(&slices[..slices_len]).await else { return };
        while first < input.len() && written >= input[first].len() {
            // Drops chunks as soon as they are written, because they can be large.
            written -= std::mem::take(&mut input[first]).len();
            first += 1;
        }
        if written > 0 {
            input[first] = input[first].slice(written..);
        }
    }
}

async fn collect(
    mut pipe: impl AsyncRead + Unpin,
    output: &mut Vec<u8>,
    bytes_max: usize,
    on_bytes: &mut (dyn FnMut(&[u8]) + Send),
) -> Result<(), PumpError> {
    loop {
        if output.capacity() - output.len() < READ_BYTES_MIN {
            output.reserve(READ_BYTES);
        }
        let read = pipe.read_buf(output).await.map_err(PumpError::Io)?;
        if output.len() > bytes_max {
            return Err(PumpError::TooLarge);
        }
        if read == 0 {
            return Ok(());
        }
        on_bytes(&output[output.len() - read..]);
    }
}

pub(super) async fn drain(
    mut pipe: impl AsyncRead + Unpin,
    kept: &mut Stderr,
    on_bytes: &mut (dyn FnMut(&[u8]) + Send),
) -> Result<(), PumpError> {
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        buffer.reserve(READ_BYTES);
        if pipe.read_buf(&mut buffer).await.map_err(PumpError::Io)? == 0 {
            return Ok(());
        }
        kept.push(&buffer);
        on_bytes(&buffer);
    }
}

/// A pump that runs while the host waits for other events. It may end before them.
pub(super) struct Pump<'a, F> {
    pipes: Pin<&'a mut F>,
    ended: bool,
}

impl<'a, F: Future<Output = Result<(), PumpError>>> Pump<'a, F> {
    pub(super) fn new(pipes: Pin<&'a mut F>) -> Self {
        Self { pipes, ended: false }
    }

    /// Pumps until the event happens. Fails if the pump fails.
    pub(super) async fn until<T>(&mut self, event: impl Future<Output = T>) -> Result<T, PumpError> {
        // The async runtime gives each task a budget of steps. A flood of output uses all of it, and the
        // event must not starve.
        let mut event = pin!(unconstrained(event));
        loop {
            // Reads available bytes before checking the event, so that bytes that arrived before a deadline
            // are not lost if the clock is read late.
            tokio::select! {
                biased;
                ended = self.pipes.as_mut(), if !self.ended => {
                    self.ended = true;
                    ended?;
                }
                event = &mut event => return Ok(event),
            }
        }
    }

    /// Pumps until both outputs are closed.
    pub(super) async fn end(&mut self) -> Result<(), PumpError> {
        if self.ended { Ok(()) } else { self.pipes.as_mut().await }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_output_does_not_delay_the_deadline() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let busy = async {
                loop {
                    tokio::task::consume_budget().await;
                }
            };
            let mut busy = pin!(busy);
            let deadline =
                tokio::time::timeout(std::time::Duration::from_millis(1), std::future::pending::<()>());
            assert!(Pump::new(busy.as_mut()).until(deadline).await.unwrap().is_err());
        });
    }
}
