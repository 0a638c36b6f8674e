"""A middleware for agents of LangChain: each request to the model contains the view of the messages.

`create_agent(model, tools, middleware=[CompactMiddleware()])`. The state keeps all messages.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, convert_to_openai_messages

from ._view import Viewer

_log = logging.getLogger("jp_compact")


class CompactMiddleware(AgentMiddleware):
    """Compacts the messages of a request. The arguments are those of `jp_compact._view.Viewer`."""

    def __init__(self, *arguments: str, **settings: Any) -> None:
        super().__init__()
        self._viewer = Viewer(*arguments, **settings)

    def compact(self, messages: list[AnyMessage]) -> list[AnyMessage]:
        """Returns the messages of the view."""
        plain = [{**message, "row": row} for row, message in enumerate(convert_to_openai_messages(messages))]
        if len(plain) != len(messages):
            # A message of the user with results in the form of Anthropic is several messages of OpenAI.
            _log.warning("nothing was compacted: a message has results in its content")
            return messages
        view = self._viewer.view({"model": "unknown", "messages": plain}, "openai-chat")
        return messages if view is None else [_message(part, plain, messages) for part in view["messages"]]

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> Any:
        return handler(request.override(messages=self.compact(request.messages)))

    async def awrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]) -> Any:
        return await handler(request.override(messages=self.compact(request.messages)))


def _message(part: dict[str, Any], plain: list[dict[str, Any]], messages: list[AnyMessage]) -> Any:
    """Returns the original message of a part of the view, changed if the view changed it."""
    row = part.get("row")
    if row is None:
        # A summary is in the assistant's half of a pair, so that its text never counts as the user's own words.
        return AIMessage(part["content"]) if part["role"] == "assistant" else HumanMessage(part["content"])
    if part == plain[row]:
        return messages[row]
    message: BaseMessage = copy.deepcopy(messages[row])
    if part.get("content") != plain[row].get("content"):
        message.content = part.get("content") or ""
    arguments = {call["id"]: call["function"]["arguments"] for call in part.get("tool_calls") or []}
    calls = [call for call in getattr(message, "tool_calls", []) if call["id"] in arguments]
    if hasattr(message, "tool_calls"):
        message.tool_calls = [{**call, "args": json.loads(arguments[call["id"]])} for call in calls]
    if isinstance(message.content, list):
        # A message of Claude also has its calls in the content.
        omitted = {call["id"] for call in getattr(messages[row], "tool_calls", [])} - arguments.keys()
        message.content = [part for part in message.content if isinstance(part, str) or part.get("id") not in omitted]
    return message
