"""The facts of a range that a summary must not lose, for strategies in Python that write summaries.

The definitions are those of PROTOCOL.md, "Kept verbatim". This module needs no other module, so a strategy can contain a copy
of it: the jail has no packages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

HEADING = "## Kept verbatim"
LABELS = {
    "constraint": "Constraints of the user, the latest last:",
    "command": "Commands:",
    "error code": "Error codes:",
    "path": "Paths:",
}
SUMMARY_REQUEST = "[Summary of previous conversation]"

_BINDING = re.compile(r"\b(never|always|must|don['\u2019]t|do not|only|from now on)\b", re.IGNORECASE)
_PATH = re.compile(
    r"(?:[\w.@~-]*/)+[\w.@-]+\.\w+|\b[\w-]+\.(?:py|ts|tsx|js|rs|go|md|json|toml|html|yml|yaml|sh|css|jsonl)\b"
)
_ERROR_LINE = re.compile("error|failed|panicked|traceback", re.IGNORECASE)
_SYSTEM_ERRORS = (
    "EACCES EADDRINUSE EAGAIN EBADF EBUSY ECONNABORTED ECONNREFUSED ECONNRESET EDQUOT EEXIST EFAULT "
    "EHOSTUNREACH EINTEGRITY EINTR EINVAL EISDIR ELOOP EMFILE ENAMETOOLONG ENETUNREACH ENFILE ENOENT ENOEXEC "
    "ENOMEM ENOSPC ENOSYS ENOTCONN ENOTDIR ENOTEMPTY ENOTFOUND EPERM EPIPE ERESOLVE EROFS ETIMEDOUT EXDEV"
).split()
_ERROR_CODE = re.compile(rf"\b(?:[A-Z]{{1,5}}[0-9]{{3,5}}|{'|'.join(_SYSTEM_ERRORS)})\b")

Fact = tuple[str, str]


def constraints(message: str) -> list[str]:
    """Returns the constraints of a user's message: its sentences with a binding word."""
    sentences = (part.strip() for line in message.split("\n") for part in re.split(r"(?<=[.!?]) ", line))
    return [sentence for sentence in sentences if _BINDING.search(sentence)]


def facts(events: Iterable[Mapping[str, Any]]) -> list[Fact]:
    """Returns the facts of the decoded events of a range, the most important first.

    These are the constraints, then the newest other facts, then the paths that are only in responses and in the contents of
    attachments.
    """
    newest: dict[Fact, tuple[int, int]] = {}
    for number, (kind, text, rank) in enumerate(_found(events)):
        old_rank, _ = newest.get((kind, text), (rank, 0))
        newest[kind, text] = (min(rank, old_rank), -number)
    return sorted(newest, key=lambda fact: newest[fact])


def _found(events: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, int]]:
    """Returns the facts of each event. The answer to SUMMARY_REQUEST is the summary of a copied transcript."""
    is_summary = False
    for event in events:
        match event:
            case {"type": "chat_response", "message": str(text)} if is_summary:
                yield from _facts_of_message(text)
            case _:
                yield from _facts_of(event)
        is_summary = event.get("content") == SUMMARY_REQUEST


def _facts_of(event: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Returns the kind, the text, and the rank of each fact of an event."""
    match event:
        case {"type": "chat_request", "content": str(text), "metadata": {"attachment": str(name)}}:
            yield from _paths(text, 2)
            yield from _paths(name, 1)
        case {"type": "chat_request", "content": str(text)}:
            yield from _facts_of_message(text)
        case {"type": "chat_response", "message": str(text)}:
            yield from _facts_of_section(text)
            yield from _paths(text, 1)
        case {"type": "tool_call_request"}:
            arguments = event.get("arguments") or {}
            command = _command(arguments)
            if command:
                yield "command", command, 1
            yield from _paths(arguments, 1)
        case {"type": "tool_call_response", "content": str(text)}:
            failed = event.get("is_error")
            lines = (line for line in text.split("\n") if failed or _ERROR_LINE.search(line))
            yield from (("error code", code, 1) for line in lines for code in _ERROR_CODE.findall(line))
            yield from _paths(text, 2)
        case (
            {"type": "chat_response", "reasoning": str(value)}
            | {"type": "chat_response", "data": value}
            | {"type": "inquiry_request", "question": value}
            | {"type": "inquiry_response", "answer": value}
        ):
            yield from _paths(value, 1)


def _facts_of_message(text: str) -> Iterator[tuple[str, str, int]]:
    """Returns the facts of a message of the user, or of a copied summary, which represents such messages."""
    lines = (line for kind, _, line in _lines(text) if not kind)
    yield from (("constraint", sentence, 0) for line in lines for sentence in constraints(line))
    yield from _facts_of_section(text)
    yield from _paths(text, 1)


def _facts_of_section(text: str) -> Iterator[tuple[str, str, int]]:
    """Returns the facts of the section in a copied summary."""
    yield from ((kind, fact, int(kind != "constraint")) for kind, fact, _ in _lines(text) if kind and fact)


def _paths(value: Any, rank: int) -> Iterator[tuple[str, str, int]]:
    yield from (("path", path, rank) for text in _texts(value) for path in _PATH.findall(text))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for member in value.values() for text in _texts(member))
    elif isinstance(value, list):
        yield from (text for member in value for text in _texts(member))


def _command(arguments: Mapping[str, Any]) -> str | None:
    if "path" in arguments or "file_path" in arguments:
        return None
    command = arguments.get("command", arguments.get("cmd"))
    if isinstance(command, list):
        words = [word for word in command if isinstance(word, str)]
        is_shell = len(words) == 3 and words[0] in ("bash", "sh", "zsh") and words[1] in ("-c", "-lc")
        command = words[2] if is_shell else " ".join(words)
    if not isinstance(command, str):
        return None
    return next((line.strip() for line in command.split("\n") if line.strip()), None)


def _lines(text: str) -> Iterator[tuple[str | None, str | None, str]]:
    """Returns the lines of a text. A fact in a section has its kind and its text. Headings and labels are skipped."""
    labels = {label.strip(": ").lower(): kind for kind, label in LABELS.items()}
    in_section, kind = False, None
    for line in re.split(r"(?<=\n)", text):
        plain = line.strip()
        bare = plain.strip("#*: ").lower()
        if plain[:1] in ("#", "*") and bare == "kept verbatim":
            in_section, kind = True, None
        elif not in_section:
            yield None, None, line
        elif bare in labels:
            kind = labels[bare]
        elif kind and plain.startswith("- "):
            yield kind, plain[2:], line
        elif plain:
            in_section = False
            yield None, None, line


def without_section(summary: str) -> str:
    """Returns a summary without its section."""
    return "".join(line for kind, _, line in _lines(summary) if kind is None).strip()


def append_facts(summary: str, known: Iterable[Fact], bytes_max: int) -> tuple[str, dict[str, Any] | None]:
    """Appends the facts that a summary lacks, as far as they fit into ``bytes_max``.

    ``known`` are the facts of the range, the most important first. A section that a model copied is replaced, and a blank
    summary stays blank. Returns the text, and a diagnostic with the counts, or ``None`` if the summary had all facts.
    """
    facts_by_priority = list(known)
    is_known = set(facts_by_priority).__contains__
    text = "".join(line for kind, fact, line in _lines(summary) if kind is None or not is_known((kind, fact or "")))
    if not text.strip():
        return summary, None
    paths = set(_PATH.findall(text))
    chosen: list[Fact] = []
    left_out: list[Fact] = []
    for fact in facts_by_priority:
        kind, content = fact
        if _has(text, paths, fact):
            continue
        if len(_section([*chosen, fact]).encode()) > bytes_max:
            left_out.append(fact)
            continue
        chosen.append(fact)
        paths.update(_PATH.findall(content))
    parts = []
    if chosen:
        parts.append(f"appended {_counts(chosen)} that the summary lacked")
        # The newest fact is the first in `chosen`, and the last in the section.
        text = text.strip() + _section(chosen[::-1])
    if left_out:
        parts.append(f"left out {_counts(left_out)} for lack of room")
    if not parts:
        return text, None
    severity = "warning" if any(kind == "constraint" for kind, _ in left_out) else "info"
    return text, {"severity": severity, "code": "kept_verbatim", "message": "; ".join(parts)}


def _has(text: str, paths: set[str], fact: Fact) -> bool:
    kind, content = fact
    if kind == "path":
        return content in paths
    if kind == "error code":
        return re.search(rf"\b{re.escape(content)}\b", text) is not None
    return content in text


def _section(chosen: list[Fact]) -> str:
    section = f"\n\n{HEADING}\n"
    for kind, label in LABELS.items():
        items = [content for other, content in chosen if other == kind]
        if items:
            section += f"\n{label}\n" + "".join(f"- {item}\n" for item in items)
    return section.rstrip()


def _counts(chosen: list[Fact]) -> str:
    counts = [(kind, sum(other == kind for other, _ in chosen)) for kind in LABELS]
    return ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts if count)
