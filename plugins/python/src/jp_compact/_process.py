"""A process that exchanges lines, with deadlines. This module does not interpret the lines.

It uses no threads. While it waits for a line, it also writes pending input and reads stderr, so the pipes cannot deadlock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import signal
import subprocess
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import IO

_PIPE_BYTES = 1 << 20
_STDERR_TAIL_BYTES = 8192
_GRACE_SECONDS = 5.0


class Died(Exception):
    """The process ended or closed its stdout. As in `subprocess`, a negative `status` is a signal."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Overdue(Exception):
    """No line was received in time."""


class Process:
    """A process that reads and writes lines."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None, cwd: str | None) -> None:
        # A new session: Ctrl-C reaches only the caller, and one signal kills the process and its children.
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        # Also kills the process after garbage collection and at the end of the interpreter.
        self._kill_group = weakref.finalize(self, _kill_group, self._child)
        assert self._child.stdin and self._child.stdout and self._child.stderr
        self._stdin, self._stdout, self._stderr = self._child.stdin, self._child.stdout, self._child.stderr
        self._outgoing = bytearray()
        self._incoming = bytearray()
        self._searched_bytes = 0
        self._stderr_tail = b""
        self._selector = selectors.DefaultSelector()
        for pipe in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(pipe.fileno(), False)
            _enlarge(pipe)
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._selector.register(self._stderr, selectors.EVENT_READ)

    @property
    def pid(self) -> int:
        return self._child.pid

    def send(self, line: bytes) -> None:
        """Sends a line. The part that does not fit into the pipe is sent by `receive`."""
        if not self._outgoing and not self._stdin.closed:
            self._selector.register(self._stdin, selectors.EVENT_WRITE)
        self._outgoing += line
        self._write()

    def receive(self, seconds: float) -> bytes:
        """Returns the next line, without its line end."""
        deadline = time.monotonic() + seconds
        while True:
            line = self._take_line()
            if line is not None:
                return line
            if self._stdout.closed:
                raise self._exit_error()
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise Overdue(f"jp-compact gave no answer within {seconds:g} s")
            for key, _ in self._selector.select(remaining):
                if key.fileobj is self._stdin:
                    self._write()
                elif key.fileobj is self._stdout:
                    self._incoming += self._read(self._stdout)
                else:
                    self._stderr_tail = (self._stderr_tail + self._read(self._stderr))[-_STDERR_TAIL_BYTES:]

    def kill(self) -> None:
        """Kills the process and its children."""
        self._kill_group()
        self._close()

    def end(self) -> None:
        """Closes stdin so the process can exit, and kills it after a grace period."""
        self._close_pipe(self._stdin)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_GRACE_SECONDS)
        self.kill()

    def _take_line(self) -> bytes | None:
        end = self._incoming.find(b"\n", self._searched_bytes)
        if end < 0:
            self._searched_bytes = len(self._incoming)
            return None
        line = bytes(self._incoming[:end])
        del self._incoming[: end + 1]
        self._searched_bytes = 0
        return line

    def _write(self) -> None:
        try:
            while self._outgoing:
                with memoryview(self._outgoing) as view, view[:_PIPE_BYTES] as part:
                    written = os.write(self._stdin.fileno(), part)
                del self._outgoing[:written]
        except BlockingIOError:
            return
        except (BrokenPipeError, ValueError):
            # The process has closed stdin. It may still write answers.
            self._outgoing.clear()
            self._close_pipe(self._stdin)
            return
        self._selector.unregister(self._stdin)

    def _read(self, pipe: IO[bytes]) -> bytes:
        try:
            data = os.read(pipe.fileno(), _PIPE_BYTES)
        except BlockingIOError:
            return b""
        if not data:
            self._close_pipe(pipe)
        return data

    def _close_pipe(self, pipe: IO[bytes]) -> None:
        if not pipe.closed:
            with contextlib.suppress(KeyError):
                self._selector.unregister(pipe)
            pipe.close()

    def _exit_error(self) -> Died:
        """Returns the error for the end of the process, with the end of stderr."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_GRACE_SECONDS)
        while not self._stderr.closed:
            # Only orphaned children can still write to it, so this does not wait for more.
            data = self._read(self._stderr)
            if not data:
                break
            self._stderr_tail = (self._stderr_tail + data)[-_STDERR_TAIL_BYTES:]
        status = self._child.returncode
        if status is None:
            status, reason = 0, "closed its stdout"
        elif status < 0:
            reason = f"was killed by signal {-status}"
        else:
            reason = f"ended with exit code {status}"
        self.kill()
        stderr = self._stderr_tail.decode("utf-8", "replace").strip()
        return Died(status, f"jp-compact {reason}" + (f"; stderr: {stderr[-500:]}" if stderr else ""))

    def _close(self) -> None:
        for pipe in (self._stdin, self._stdout, self._stderr):
            self._close_pipe(pipe)
        self._selector.close()


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    # The process id cannot be reused before `wait`.
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _enlarge(pipe: IO[bytes]) -> None:
    """Enlarges a pipe for several records, so the process can work while the caller handles an answer."""
    size = getattr(fcntl, "F_SETPIPE_SZ", None)
    if size is not None:
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe.fileno(), size, _PIPE_BYTES)
