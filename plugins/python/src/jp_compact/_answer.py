"""The types of answers, and the answers for records that the worker could not answer."""

from __future__ import annotations

from typing import Any, TypedDict


class Failure(TypedDict):
    """The reason why a record failed.

    `code` is a code of jp-compact, or of this client: `worker_died`, `worker_overdue`, `record_invalid`.
    """

    code: str
    message: str
    retryable: bool


class JpTokens(TypedDict):
    """The number of tokens that JP itself sends to a model."""

    before: int
    after: int


class _ViewTokens(TypedDict):
    before: int
    after: int


class Tokens(_ViewTokens, total=False):
    """The number of tokens in the view. `jp` is present for conversations of JP, except in answers with a view."""

    jp: JpTokens


class Saved(TypedDict):
    """The savings."""

    tokens: Tokens
    percent: float
    overlays: int


class _Always(TypedDict):
    id: Any
    ok: bool


class Answer(_Always, total=False):
    """The answer to one record. If `ok` is true, it has the transcript or view and the savings, otherwise an `error`.

    `jp-compact schema batch-answer` prints the full schema.
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
    """Returns a failed answer for the record with this id."""
    return {"id": of, "ok": False, "error": {"code": code, "message": message, "retryable": retryable}}
