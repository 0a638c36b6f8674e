"""The middleware with the real LangChain, and a model that records its requests."""

from __future__ import annotations

import unittest
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from jp_compact.langchain import CompactMiddleware

STEPS = 8
OUTPUT = "".join(f"line {line} of the file: the quick brown fox\n" for line in range(200))


@tool
def read_file(path: str) -> str:
    """Reads a file."""
    return f"{path}\n{OUTPUT}"


class Recorder(BaseChatModel):
    """Calls the tool, then answers."""

    requests: list[list[BaseMessage]] = []

    @property
    def _llm_type(self) -> str:
        return "recorder"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.requests.append(messages)
        step = len(self.requests) - 1
        call = {"name": "read_file", "args": {"path": f"src/{step}.rs"}, "id": f"call_{step}"}
        message = AIMessage(f"I read {step}.", tool_calls=[call]) if step < STEPS else AIMessage("Done.")
        return ChatResult(generations=[ChatGeneration(message=message)])


def run(*arguments: str, **settings: Any) -> tuple[list[BaseMessage], list[BaseMessage]]:
    """Returns the last request, and all messages of the state."""
    model = Recorder(requests=[])
    agent = create_agent(model, [read_file], middleware=[CompactMiddleware(*arguments, **{"threshold": 1_000, **settings})])
    state = agent.invoke({"messages": [{"role": "user", "content": "Never write to vendor."}]}, {"recursion_limit": 100})
    return model.requests[-1], state["messages"]


def size(messages: list[BaseMessage]) -> int:
    return sum(len(str(message.content)) for message in messages)


class LangChain(unittest.TestCase):
    def test_request_is_smaller_and_state_is_whole(self) -> None:
        request, state = run()
        self.assertLess(size(request), 0.6 * size(state))
        self.assertEqual(sum(isinstance(message, ToolMessage) and OUTPUT in message.content for message in state), STEPS)
        texts = [message.content for message in request if not isinstance(message, ToolMessage)]
        self.assertEqual(texts, ["Never write to vendor.", *(f"I read {step}." for step in range(STEPS))])
        calls = [call["id"] for message in request for call in getattr(message, "tool_calls", [])]
        self.assertEqual(calls, [message.tool_call_id for message in request if isinstance(message, ToolMessage)])

    def test_summaries_of_many_requests_do_not_pile_up(self) -> None:
        request, state = run("--strategy", "digest", "--keep-steps", "2")
        self.assertEqual(sum("No model wrote this" in str(message.content) for message in request), 1, request)
        self.assertEqual(sum(isinstance(message, ToolMessage) for message in state), STEPS)

    def test_summary_of_turns_is_not_the_words_of_the_user(self) -> None:
        messages: list[AnyMessage] = []
        for turn in range(5):
            messages += [HumanMessage(f"Question {turn}."), AIMessage(f"Answer {turn}. " + OUTPUT)]
        middleware = CompactMiddleware("--strategy", "digest", "--keep-first", "1", "--keep-last", "1", threshold=1)
        compacted = middleware.compact(messages)
        kinds = [type(message) for message in compacted]
        self.assertEqual(kinds, [HumanMessage, AIMessage] * 3)
        self.assertEqual(compacted[2].content, "[Summary of previous conversation]")
        self.assertIn("No model wrote this", str(compacted[3].content))

    def test_omitted_call_of_claude_leaves_no_block(self) -> None:
        messages: list[AnyMessage] = [HumanMessage("Read.")]
        for step in range(4):
            call = {"name": "read_file", "args": {"path": f"src/{step}.rs"}, "id": f"call_{step}"}
            block = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}
            text = {"type": "text", "text": f"I read {step}."}
            messages += [AIMessage([text, block], tool_calls=[call]), ToolMessage(OUTPUT, tool_call_id=call["id"])]
        messages += [AIMessage("Done."), HumanMessage("Thanks.")]
        compacted = CompactMiddleware("--strategy", "strip-tools:mode=omit", "--keep-last", "1", threshold=1).compact(messages)
        answers = [message for message in compacted if isinstance(message, AIMessage)]
        self.assertEqual([message.text for message in answers], [*(f"I read {step}." for step in range(4)), "Done."])
        self.assertEqual([call for message in answers for call in message.tool_calls], [])
        self.assertNotIn("tool_use", str(compacted))

    def test_results_in_a_message_of_the_user_change_nothing(self) -> None:
        result = {"type": "tool_result", "tool_use_id": "call_0", "content": OUTPUT}
        call = {"type": "tool_use", "id": "call_0", "name": "read_file", "input": {}}
        messages: list[AnyMessage] = [HumanMessage("Read."), AIMessage([call]), HumanMessage([result, {"type": "text", "text": "Go on."}])]
        messages += [AIMessage(OUTPUT), HumanMessage("Thanks."), AIMessage("Done.")]
        with self.assertLogs("jp_compact", "WARNING"):
            self.assertIs(CompactMiddleware("--strategy", "digest", "--keep-last", "1", threshold=1).compact(messages), messages)

    def test_missing_executable_changes_nothing(self) -> None:
        with self.assertLogs("jp_compact", "WARNING"):
            request, state = run(executable="/no/jp-compact")
        self.assertEqual(request, state[:-1])


if __name__ == "__main__":
    unittest.main()
