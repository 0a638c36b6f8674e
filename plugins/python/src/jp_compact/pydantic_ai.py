"""A capability for agents of pydantic-ai: each request to the model contains the view of the history.

`Agent(model, capabilities=[CompactHistory()])`. The history of the run keeps all messages. A history processor would replace
them, and the next request would contain a summary of a summary.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import anyio.to_thread
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from ._view import Viewer, blocks, rows


class CompactHistory(AbstractCapability[Any]):
    """Compacts the messages of a request. The arguments are those of `jp_compact._view.Viewer`."""

    def __init__(self, *arguments: str, **settings: Any) -> None:
        self._viewer = Viewer(*arguments, **settings)

    async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
        # pydantic-ai does not store the changes of this hook.
        messages = await anyio.to_thread.run_sync(self.compact, request_context.messages)
        return dataclasses.replace(request_context, messages=messages)

    def compact(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        """Returns the messages of the view."""
        parts = {f"{at}.{number}": part for at, message in enumerate(messages) for number, part in enumerate(message.parts)}
        sent = [block for row, part in parts.items() for block in _blocks(row, part)]
        view = self._viewer.view(rows([dict(block) for block in sent]), "anthropic")
        if view is None:
            return messages
        before, after = {block["row"]: block for block in sent}, blocks(view)
        kept = {block["row"]: block for block in after if "row" in block}
        summaries = _summaries(after)
        compacted: list[ModelMessage] = []
        for at, message in enumerate(messages):
            left: list[Any] = []
            for number, part in enumerate(message.parts):
                row = f"{at}.{number}"
                if row in summaries and isinstance(message, ModelRequest):
                    # A result must directly follow its call. So the parts before the summary form a separate message.
                    compacted += _with_parts(message, left)
                    left = []
                compacted += summaries.get(row, [])
                if row not in before or row in kept:
                    left.append(_part(part, before.get(row), kept.get(row)))
            compacted += _with_parts(message, left)
        return compacted + summaries.get(None, [])


def _summaries(view: list[dict[str, Any]]) -> dict[str | None, list[ModelMessage]]:
    """Returns the messages of the summaries, with the row of the next block as the key. Only summaries have no row.

    The text is in the assistant's half of a pair, so that it never counts as the user's own words.
    """
    summaries: dict[str | None, list[ModelMessage]] = {}
    row: str | None = None
    for block in reversed(view):
        row = block.get("row", row)
        if "row" not in block:
            is_answer, text = block["role"] == "assistant", block["text"]
            message = ModelResponse(parts=[TextPart(text)]) if is_answer else ModelRequest(parts=[UserPromptPart(text)])
            summaries.setdefault(row, []).insert(0, message)
    return summaries


def _blocks(row: str, part: Any) -> list[dict[str, Any]]:
    if isinstance(part, UserPromptPart) and isinstance(part.content, str):
        return [{"role": "user", "type": "text", "text": part.content, "row": row}]
    if isinstance(part, ToolReturnPart):
        text = part.model_response_str()
        return [{"role": "user", "type": "tool_result", "tool_use_id": part.tool_call_id, "content": text, "row": row}]
    # The answer to a rejected call. pydantic-ai will remove the class `RetryPromptPart`.
    if part.part_kind == "retry-prompt" and part.tool_name is not None:
        text = part.content if isinstance(part.content, str) else part.model_response()
        result = {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": text, "is_error": True}
        return [{"role": "user", **result, "row": row}]
    if isinstance(part, TextPart) and part.content:
        return [{"role": "assistant", "type": "text", "text": part.content, "row": row}]
    if isinstance(part, ToolCallPart):
        arguments = part.args_as_dict()
        return [{"role": "assistant", "type": "tool_use", "id": part.tool_call_id, "name": part.tool_name, "input": arguments, "row": row}]
    return []


def _with_parts(message: ModelMessage, parts: list[Any]) -> list[ModelMessage]:
    """Returns the message with only these parts, or no message if nothing is left that a provider accepts."""
    is_changed = len(parts) < len(message.parts)
    if not parts or (is_changed and all(isinstance(part, ThinkingPart) for part in parts)):
        return []
    return [dataclasses.replace(message, parts=parts)]  # type: ignore[arg-type]


def _part(part: Any, before: dict[str, Any] | None, after: dict[str, Any] | None) -> Any:
    if before is None or after is None or before == after:
        return part
    if isinstance(part, ToolCallPart):
        return dataclasses.replace(part, args=after["input"])
    return dataclasses.replace(part, content=after.get("content", after.get("text")))
