"""What a record comes back as. Types, and the answer that is given where the worker could give none."""

from __future__ import annotations

from typing import Any, TypedDict


class Failure(TypedDict):
    """Why a record was not compacted.

    `code` is the worker's own, or one of this client's: `worker_died`, `worker_overdue`, `record_invalid`.
    """

    code: str
    message: str
    retryable: bool


class JpTokens(TypedDict):
    """How many JP itself sends a model."""

    before: int
    after: int


class _ViewTokens(TypedDict):
    before: int
    after: int


class Tokens(_ViewTokens, total=False):
    """How many the view has. `jp` is there for JP's conversations, unless the answer holds a view."""

    jp: JpTokens


class Saved(TypedDict):
    """What compacting came to."""

    tokens: Tokens
    percent: float
    overlays: int


class _Always(TypedDict):
    id: Any
    ok: bool


class Answer(_Always, total=False):
    """The answer to one record: `error` where it is not `ok`, else the transcript or its view, and what was saved.

    `jp-compact schema batch-answer` tells all of it.
    """

    format: str
    transcript: Any
    view: Any
    overlays: Any
    saved: Saved
    declines: list[Any]
    warnings: list[str]
    error: Failure


def failed(of: object, code: str, message: str, *, retryable: bool) -> Answer:
    """The answer to the record with this id, which nobody else can give."""
    return {"id": of, "ok": False, "error": {"code": code, "message": message, "retryable": retryable}}
