"""The capability with the real pydantic-ai, and a model that records its requests."""

from __future__ import annotations

import unittest
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from jp_compact.pydantic_ai import CompactHistory

STEPS = 8
OUTPUT = "".join(f"line {line} of the file: the quick brown fox\n" for line in range(200))


def parts(messages: list[ModelMessage], kind: type) -> list[Any]:
    return [part for message in messages for part in message.parts if isinstance(part, kind)]


def run(*arguments: str, **settings: Any) -> tuple[list[ModelMessage], list[ModelMessage]]:
    """Returns the last request, and all messages of the run. Each response has thinking."""
    requests: list[list[ModelMessage]] = []

    def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        requests.append(messages)
        step = len(requests) - 1
        thinking = ThinkingPart(f"I need {step}.", signature="s")
        call = ToolCallPart("read_file", {"path": f"src/{step}.rs"}, tool_call_id=f"call_{step}")
        return ModelResponse(parts=[thinking, TextPart(f"I read {step}."), call] if step < STEPS else [TextPart("Done.")])

    history = CompactHistory(*arguments, **{"threshold": 1_000, **settings})
    agent = Agent(FunctionModel(model), capabilities=[history])

    @agent.tool_plain
    def read_file(path: str) -> str:
        return f"{path}\n{OUTPUT}"

    result = agent.run_sync("Never write to vendor.")
    return requests[-1], result.all_messages()


def size(messages: list[ModelMessage]) -> int:
    return sum(len(str(part.content)) for part in parts(messages, ToolReturnPart))


def step(number: int, *more: UserPromptPart) -> list[ModelMessage]:
    """Returns a call, and the message with its result and more parts."""
    call = ToolCallPart("read_file", {"path": f"src/{number}.rs"}, tool_call_id=f"call_{number}")
    return [ModelResponse(parts=[call]), ModelRequest(parts=[ToolReturnPart("read_file", OUTPUT, f"call_{number}"), *more])]


def outline(messages: list[ModelMessage]) -> list[str]:
    """Returns the role of each part, and its id or the start of its text."""
    roles = [("assistant" if isinstance(message, ModelResponse) else "user", part) for message in messages for part in message.parts]
    return [f"{role}: {getattr(part, 'tool_call_id', None) or part.content[:34]}" for role, part in roles]


class PydanticAi(unittest.TestCase):
    def test_request_is_smaller_and_history_is_whole(self) -> None:
        request, history = run()
        self.assertEqual(sum(OUTPUT in part.content for part in parts(history, ToolReturnPart)), STEPS)
        self.assertLess(size(request), 0.6 * STEPS * len(OUTPUT))
        self.assertEqual([part.content for part in parts(request, UserPromptPart)], ["Never write to vendor."])
        self.assertEqual([part.content for part in parts(request, TextPart)], [f"I read {step}." for step in range(STEPS)])
        calls = [part.tool_call_id for part in parts(request, ToolCallPart)]
        self.assertEqual(calls, [part.tool_call_id for part in parts(request, ToolReturnPart)])

    def test_summary_is_between_the_kept_turns_and_is_not_the_words_of_the_user(self) -> None:
        messages: list[ModelMessage] = []
        for turn in range(5):
            messages += [ModelRequest(parts=[UserPromptPart(f"Question {turn}.")]), ModelResponse(parts=[TextPart(f"Answer {turn}.")])]
        messages[5:5] = step(0)
        history = CompactHistory("--strategy", "digest", "--keep-first", "1", "--keep-last", "1", threshold=1)
        summary = ["user: [Summary of previous conversation]", "assistant: Turns 1 to 3 of this conversation,"]
        expected = ["user: Question 0.", "assistant: Answer 0.", *summary, "user: Question 4.", "assistant: Answer 4."]
        self.assertEqual(outline(history.compact(messages)), expected)

    def test_summary_of_steps_is_before_the_request_of_the_open_turn(self) -> None:
        messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("Never write to vendor.")])]
        for number in range(5):
            messages += step(number)
        history = CompactHistory("--strategy", "digest", "--keep-steps", "1", threshold=1)
        summary = ["user: [Summary of previous conversation]", "assistant: Turns 0 to 0.3 of this conversatio"]
        expected = [*summary, "user: Never write to vendor.", "assistant: call_4", "user: call_4"]
        self.assertEqual(outline(history.compact(messages)), expected)

    def test_summaries_of_many_requests_do_not_pile_up(self) -> None:
        request, history = run("--strategy", "digest", "--keep-steps", "1")
        expected = ["user: [Summary of previous conversation]", "assistant: Turns 0 to 0.6 of this conversatio"]
        expected += ["user: Never write to vendor.", "assistant: I need 7.", "assistant: I read 7.", "assistant: call_7", "user: call_7"]
        self.assertEqual(outline(request), expected)
        self.assertEqual(len(parts(history, ToolReturnPart)), STEPS)
        self.assertFalse(any("Summary" in text for text in outline(history)))

    def test_result_stays_with_its_call_if_a_summary_splits_its_message(self) -> None:
        messages: list[ModelMessage] = [ModelRequest(parts=[SystemPromptPart("Be brief."), UserPromptPart("Never write to vendor.")])]
        messages += step(0, UserPromptPart("A picture."))
        for number in range(1, 5):
            messages += step(number)
        history = CompactHistory("--strategy", "digest", "--keep-first", "1", "--keep-steps", "1", threshold=1)
        compacted = history.compact(messages)
        expected = ["user: Be brief.", "user: Never write to vendor.", "assistant: call_0", "user: call_0"]
        expected += ["user: [Summary of previous conversation]", "assistant: Turns 1 to 1.2 of this conversatio"]
        expected += ["user: A picture.", "assistant: call_4", "user: call_4"]
        self.assertEqual(outline(compacted), expected)

    def test_missing_executable_changes_nothing(self) -> None:
        with self.assertLogs("jp_compact", "WARNING"):
            request, _ = run(executable="/no/jp-compact")
        self.assertGreater(size(request), STEPS * len(OUTPUT))


if __name__ == "__main__":
    unittest.main()
