"""The supervised worker: it tracks pending records, restarts the process, and finds the record that kills it."""

from __future__ import annotations

import itertools
import json
import threading
from collections import deque
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, cast

from ._answer import Answer, failed
from ._process import Died, Overdue, Process

# Exit codes that do not depend on records: wrong options, or a missing, untrusted, or invalid strategy.
_START_ERRORS = (2, 10, 11, 12, 20, 21)


class StartError(Exception):
    """The worker cannot be started, or rejects its options. Every record would fail."""


class _InvalidAnswer(Exception):
    """A line that is not the answer to the pending record."""


@dataclass
class _PendingRecord:
    """A record without an answer so far."""

    number: int
    id: object
    line: bytes
    # The answer to a record that cannot be sent.
    refusal: Answer | None = None
    sent: bool = False
    # The record was pending when the worker ended. It is sent alone now, to find out whether it is the cause.
    suspect: bool = False


class Worker:
    """A `jp-compact batch --ndjson` process that is restarted whenever it dies.

    `arguments` are options of `batch`, such as `"--strategy", "strip-tools"`. Every record gets one answer, in
    order, and a record never raises an exception. If the worker dies, writes invalid output, or gives no answer for
    `deadline` seconds, the pending records are sent again, one at a time. If the worker dies again, the answer is
    `worker_died`. If a single record exceeds the deadline, the answer is `worker_overdue`.

    A worker is not thread-safe: a concurrent call raises `RuntimeError`. Use one worker per thread.
    """

    def __init__(
        self,
        *arguments: str,
        executable: str = "jp-compact",
        deadline: float = 300.0,
        window: int = 8,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> None:
        if window < 1 or deadline <= 0:
            raise ValueError("window and deadline must be positive")
        self._command = [executable, "batch", "--ndjson", "--allow-empty", *arguments]
        self._deadline, self._window, self._env, self._cwd = deadline, window, env, cwd
        self._lock = threading.Lock()
        self._closed = False
        self._number = 0
        self._starts = 0
        self._answered = False
        self._process: Process | None = None
        self._running_process()

    @property
    def pid(self) -> int | None:
        """The id of the running process, if any."""
        return self._process.pid if self._process else None

    @property
    def restarts(self) -> int:
        """The number of restarts."""
        return self._starts - 1

    def compact(self, record: Mapping[str, object]) -> Answer:
        """Sends one record, and returns its answer."""
        [answer] = self.map([record])
        return answer

    def map(self, records: Iterable[Mapping[str, object]]) -> Generator[Answer, None, None]:
        """Yields the answers to all records, in order. Up to `window` records are read ahead and pending at once."""
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("this worker is busy: another thread or an unfinished `map` uses it")
        waiting: deque[_PendingRecord] = deque()
        try:
            source = iter(records)
            while True:
                for record in itertools.islice(source, self._window - len(waiting)):
                    waiting.append(self._pending_record(record))
                if not waiting:
                    return
                answer = self._answer(waiting)
                waiting.popleft()
                yield answer
        finally:
            # Later answers to these records could not be assigned.
            if any(item.sent for item in waiting):
                self._kill()
            self._lock.release()

    def close(self) -> None:
        """Ends the worker. A worker with pending records is killed."""
        self._closed = True
        if self._process is not None and self._lock.acquire(blocking=False):
            self._process.end()
            self._process = None
            self._lock.release()
        self._kill()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _pending_record(self, record: Mapping[str, object]) -> _PendingRecord:
        # The worker gets a number as the id, so the caller's id can be any object.
        self._number += 1
        record_id = record.get("id")
        sent_record = {"id": self._number, **{key: value for key, value in record.items() if key != "id"}}
        try:
            text = json.dumps(sent_record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            line = text.encode() + b"\n"
        except (TypeError, ValueError, RecursionError) as error:
            message = f"the record cannot be sent as JSON: {error}"
            refusal = failed(record_id, "record_invalid", message, retryable=False)
            return _PendingRecord(self._number, record_id, b"", refusal)
        return _PendingRecord(self._number, record_id, line)

    def _answer(self, waiting: deque[_PendingRecord]) -> Answer:
        """Returns the answer to the first waiting record. Suspects are always first, and are sent alone."""
        head = waiting[0]
        while head.refusal is None:
            process = self._running_process()
            for item in [head] if head.suspect else waiting:
                if not item.sent and item.refusal is None:
                    item.sent = True
                    process.send(item.line)
            try:
                answer = _parse(process.receive(self._deadline), head)
                self._answered = True
                return answer
            except Overdue as error:
                # The worker handles several records at once. Only a single pending record is known to be late.
                was_alone = self._kill_and_requeue(waiting) == 1
                if was_alone:
                    return failed(head.id, "worker_overdue", str(error), retryable=True)
            except (Died, _InvalidAnswer) as error:
                rejects_options = isinstance(error, Died) and error.status in _START_ERRORS and not self._answered
                was_suspect = head.suspect
                self._kill_and_requeue(waiting)
                if rejects_options:
                    raise StartError(str(error)) from None
                if was_suspect:
                    return failed(head.id, "worker_died", str(error), retryable=True)
        return head.refusal

    def _kill_and_requeue(self, waiting: Iterable[_PendingRecord]) -> int:
        """Kills the worker, and marks the pending records as suspects. Returns their number."""
        self._kill()
        pending = [item for item in waiting if item.sent]
        for item in pending:
            item.sent, item.suspect = False, True
        return len(pending)

    def _running_process(self) -> Process:
        if self._closed:
            raise RuntimeError("this worker is closed")
        if self._process is None:
            try:
                self._process = Process(self._command, self._env, self._cwd)
            except OSError as error:
                raise StartError(f"failed to start {self._command[0]}: {error}") from error
            self._starts += 1
            self._answered = False
        return self._process

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None


def _parse(line: bytes, item: _PendingRecord) -> Answer:
    """Parses an answer, and restores the caller's id."""
    try:
        answer: Any = json.loads(line)
    except ValueError:
        raise _InvalidAnswer("jp-compact wrote a line that is not JSON") from None
    if not isinstance(answer, dict) or answer.get("id") != item.number or not isinstance(answer.get("ok"), bool):
        raise _InvalidAnswer("jp-compact wrote a line that is not the answer to this record")
    answer["id"] = item.id
    return cast(Answer, answer)
