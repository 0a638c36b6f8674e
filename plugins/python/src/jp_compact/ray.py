"""An actor for `ray.data`. It does not import Ray, because Ray only requires a class with callable instances."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ._answer import Answer, failed
from ._worker import StartError, Worker

_RECORD_COLUMNS = ("transcript", "path", "format")


class Compactor:
    """Compacts the rows of a batch, for `Dataset.map_batches(Compactor, ...)`.

    A row has the column `transcript` (the text of a file) or `path`, and `format` if it cannot be detected. All columns
    stay, in order. If `ok` is true, `transcript` is the compacted one, otherwise it is unchanged. With `view`, it is always
    unchanged, and a column `view` has the result. The other new columns are `ok`, and `tokens`, `saved`, `overlays`, and
    `error` as JSON text. They are empty instead of null, because a column must have the same type in every block.

    A row never raises an exception, because Ray would restart the actor with the same rows forever. If the worker cannot
    start, every row has the `error` `worker_not_started`. Check `ok`.
    """

    def __init__(
        self,
        *arguments: str,
        view: bool = False,
        executable: str = "jp-compact",
        deadline: float = 300.0,
        window: int = 8,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._arguments = (*arguments, "--view") if view else arguments
        self._column = "view" if view else "transcript"
        self._executable, self._deadline, self._window, self._env = executable, deadline, window, env
        self._worker: Worker | None = None

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
        rows = list(_rows(batch))
        answers = self._answers(rows)
        results = [answer.get(self._column, "") if answer["ok"] else None for answer in answers]
        if self._column in batch:
            results = [original if result is None else result for original, result in zip(batch[self._column], results)]
        columns: dict[str, Sequence[Any]] = {**batch}
        columns[self._column] = ["" if result is None else result for result in results]
        columns["ok"] = [answer["ok"] for answer in answers]
        for name in ("tokens", "saved", "overlays", "error"):
            columns[name] = [json.dumps(answer.get(name)) if answer.get(name) else "" for answer in answers]
        return columns

    def close(self) -> None:
        """Ends the worker. An actor need not call this: the worker exits when its stdin closes."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _answers(self, rows: Sequence[Mapping[str, object]]) -> list[Answer]:
        answers: list[Answer] = []
        try:
            if self._worker is None:
                self._worker = Worker(
                    *self._arguments,
                    executable=self._executable,
                    deadline=self._deadline,
                    window=self._window,
                    env=self._env,
                )
            answers.extend(self._worker.map(rows))
        except StartError as error:
            missing = len(rows) - len(answers)
            answers += [failed(None, "worker_not_started", str(error), retryable=False)] * missing
        return answers


def _rows(batch: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yields the records of a batch. A cell without a value becomes an absent key."""
    names = [name for name in _RECORD_COLUMNS if name in batch]
    size = len(next(iter(batch.values()))) if batch else 0
    for index in range(size):
        cells = {name: _value(batch[name][index]) for name in names}
        yield {name: value for name, value in cells.items() if value is not None and not _is_empty(value)}


def _value(cell: Any) -> Any:
    """Converts a cell for JSON. A value that JSON cannot represent stays unchanged, and its record fails."""
    if isinstance(cell, bytes):
        try:
            return cell.decode()
        except UnicodeDecodeError:
            return cell
    # A scalar or an array of numpy, which is not a dependency.
    tolist = getattr(cell, "tolist", None)
    return tolist() if callable(tolist) else cell


def _is_empty(value: Any) -> bool:
    return isinstance(value, (str, bytes)) and not value
