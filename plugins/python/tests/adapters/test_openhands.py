"""The condenser with the real SDK of OpenHands, and a model that records its requests."""

from __future__ import annotations

import tempfile
import unittest
from collections.abc import Sequence
from typing import Any, Self

from openhands.sdk import Agent, Conversation
from openhands.sdk.event import ObservationEvent
from openhands.sdk.llm import Message, MessageToolCall, TextContent
from openhands.sdk.testing import TestLLM
from openhands.sdk.tool import Action, Observation, Tool, ToolDefinition, ToolExecutor, register_tool
from pydantic import Field, PrivateAttr

from jp_compact.openhands import CompactCondenser

STEPS = 8
OUTPUT = "".join(f"line {line} of the file: the quick brown fox\n" for line in range(200))


class ReadAction(Action):
    path: str = Field(description="The path")


class ReadObservation(Observation):
    pass


class ReadExecutor(ToolExecutor[ReadAction, ReadObservation]):
    def __call__(self, action: ReadAction, conversation: Any = None) -> ReadObservation:
        return ReadObservation.from_text(text=f"{action.path}\n{OUTPUT}")


class ReadTool(ToolDefinition[ReadAction, ReadObservation]):
    @classmethod
    def create(cls, conv_state: Any = None, **_: Any) -> Sequence[Self]:
        return [cls(description="Reads a file.", action_type=ReadAction, observation_type=ReadObservation, executor=ReadExecutor())]


register_tool("ReadTool", ReadTool)


class Recorder(TestLLM):
    _requests: list[list[Message]] = PrivateAttr(default_factory=list)

    def completion(self, messages: list[Message], *args: Any, **kwargs: Any) -> Any:
        self._requests.append(messages)
        return super().completion(messages, *args, **kwargs)


def text(message: Message) -> str:
    return "".join(part.text for part in message.content if isinstance(part, TextContent))


def run(**settings: Any) -> tuple[list[Message], list[Any]]:
    """Returns the last request, and all events of the conversation."""
    replies = []
    for step in range(STEPS):
        call = MessageToolCall(id=f"call_{step}", name="read", arguments=f'{{"path": "src/{step}.rs"}}', origin="completion")
        replies.append(Message(role="assistant", content=[TextContent(text=f"I read {step}.")], tool_calls=[call]))
    llm = Recorder.from_messages([*replies, Message(role="assistant", content=[TextContent(text="Done.")])])
    condenser = CompactCondenser(threshold=1_000, **settings)
    with tempfile.TemporaryDirectory() as folder:
        conversation = Conversation(Agent(llm=llm, tools=[Tool(name="ReadTool")], condenser=condenser), workspace=folder)
        conversation.send_message("Never write to vendor.")
        conversation.run()
        return llm._requests[-1], list(conversation.state.events)


class OpenHands(unittest.TestCase):
    def test_request_is_smaller_and_events_are_whole(self) -> None:
        request, events = run()
        results = [text(message) for message in request if message.role == "tool"]
        raw = [event for event in events if isinstance(event, ObservationEvent)]
        self.assertEqual((len(results), len(raw)), (STEPS, STEPS))
        self.assertLess(sum(map(len, results)), 0.6 * STEPS * len(OUTPUT))
        self.assertTrue(all(OUTPUT in event.model_dump_json().replace("\\n", "\n") for event in raw))
        said = [text(message) for message in request if message.role == "assistant"]
        self.assertEqual(said, [f"I read {step}." for step in range(STEPS)])

    def test_summaries_of_many_requests_do_not_pile_up(self) -> None:
        request, events = run(arguments=["--strategy", "digest", "--keep-steps", "1"])
        self.assertEqual(sum("No model wrote this" in text(message) for message in request), 1, request)
        self.assertEqual(sum(isinstance(event, ObservationEvent) for event in events), STEPS)

    def test_missing_executable_changes_nothing(self) -> None:
        with self.assertLogs("jp_compact", "WARNING"):
            request, _ = run(executable="/no/jp-compact")
        self.assertGreater(sum(len(text(message)) for message in request if message.role == "tool"), STEPS * len(OUTPUT))


if __name__ == "__main__":
    unittest.main()
