"""The view of messages, as the adapters for agent frameworks need it. Each block has the member `row`, the key of the part
that it was made from. jp-compact leaves `row` in the view. On any failure, the messages stay as they are.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from ._worker import StartError, Worker

_log = logging.getLogger("jp_compact")


class Viewer:
    """Makes views with a worker that it starts when it needs one.

    `arguments` are options of `batch`, by default the profile `agent`. A transcript is compacted only if its `str` has
    at least three characters for each token of `threshold`.
    """

    def __init__(self, *arguments: str, threshold: int = 20_000, executable: str = "jp-compact", deadline: float = 30.0) -> None:
        self._arguments = arguments or ("--profile", "agent")
        self._threshold, self._executable, self._deadline = threshold, executable, deadline
        self._lock = threading.Lock()
        self._worker: Worker | None = None

    def view(self, transcript: Any, format: str) -> Any:
        """Returns the view in the form of the transcript, or None."""
        if len(str(transcript)) < 3 * self._threshold:
            return None
        with self._lock:
            try:
                if self._worker is None:
                    options = (*self._arguments, "--view")
                    self._worker = Worker(*options, executable=self._executable, deadline=self._deadline)
                answer = self._worker.compact({"id": 0, "format": format, "transcript": transcript})
            except StartError as error:
                _log.warning("nothing was compacted: %s", error)
                return None
        if not answer["ok"]:
            _log.warning("nothing was compacted: %s", answer["error"]["message"])
            return None
        return answer["view"]

    def close(self) -> None:
        """Ends the worker. If another thread is making a view, waits for it."""
        with self._lock:
            if self._worker is not None:
                self._worker.close()
                self._worker = None

    def __del__(self) -> None:
        if hasattr(self, "_worker"):
            self.close()


def rows(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns a request to Anthropic. A block has its `role`. Consecutive blocks of one role form one message."""
    messages: list[dict[str, Any]] = []
    for block in blocks:
        role = block.pop("role")
        if not messages or messages[-1]["role"] != role:
            messages.append({"role": role, "content": []})
        messages[-1]["content"].append(block)
    return {"model": "unknown", "max_tokens": 1, "messages": messages}


def blocks(view: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the blocks of a view, each with its `role`."""
    found: list[dict[str, Any]] = []
    for message in view["messages"]:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [{**part, "role": message["role"]} for part in parts]
    return found
