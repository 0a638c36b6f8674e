"""The types of answers, including answers for records that the worker could not answer."""

from __future__ import annotations

from typing import Any, TypedDict


class Failure(TypedDict):
    """The reason why a record failed.

    `kind` is a kind of jp-compact, or of this client: `worker_died`, `worker_overdue`, `worker_not_started`,
    `record_invalid`. `code` is the exit code of jp-compact for such a failure.
    """

    code: int
    kind: str
    message: str
    causes: list[str]
    hint: str | None
    retryable: bool


class JpTokens(TypedDict):
    """The number of tokens that JP itself sends to a model."""

    raw: int
    view_before: int
    view_after: int


class Tokens(TypedDict):
    """The number of tokens. `jp` is `None` for formats other than JP's, and in answers with a view."""

    raw: int
    view_before: int
    view_after: int
    jp: JpTokens | None


class Saved(TypedDict):
    """The savings. `of` names the key of `tokens` that `percent` refers to."""

    tokens: int
    percent: float
    of: str


class _CommonFields(TypedDict):
    id: Any
    ok: bool


class Answer(_CommonFields, total=False):
    """The answer to one record. If `ok` is true, it has the transcript or view and the savings, otherwise an `error`.

    `jp-compact schema batch-answer` prints the full schema.
    """

    format: str
    transcript: Any
    view: Any
    overlays: Any
    estimator: str
    tokens: Tokens
    saved: Saved
    restored_tokens: int
    new_overlays: int
    declines: list[Any]
    nothing: str
    eval: dict[str, Any]
    warnings: list[str]
    error: Failure


# The exit codes of the failures of this client.
_CODES = {"worker_died": 1, "worker_not_started": 1, "record_invalid": 4, "worker_overdue": 14}


def failed(record_id: object, kind: str, message: str, *, retryable: bool) -> Answer:
    """Returns a failed answer for the record with this id."""
    error: Failure = {
        "code": _CODES[kind],
        "kind": kind,
        "message": message,
        "causes": [],
        "hint": None,
        "retryable": retryable,
    }
    return {"id": record_id, "ok": False, "error": error}
