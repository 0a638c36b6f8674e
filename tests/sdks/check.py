"""Validation of request bodies with the types of the providers' own SDKs.

Reads lines of `{"provider": ..., "body": ...}` on stdin. Writes one line of JSON per body: a list of errors with their
locations, which is empty for a valid body.

The validation is stricter than pydantic's default, like a type checker: lists that are validated lazily are validated
immediately, unknown members are rejected, and values are not converted to another type."""

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from anthropic.types import message_create_params as anthropic
from google.genai import types as google
from ollama import Message
from ollama._types import ChatRequest
from openai.types.chat import completion_create_params as chat
from openai.types.responses import response_create_params as responses
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import SchemaValidator


class Contents(BaseModel):
    """Gemini's request. The SDK has types for its members only."""

    model_config = ConfigDict(alias_generator=to_camel, val_json_bytes="base64")

    contents: list[google.Content]
    system_instruction: google.Content | None = None
    tools: list[google.Tool] | None = None
    tool_config: google.ToolConfig | None = None
    generation_config: google.GenerationConfig | None = None
    safety_settings: list[google.SafetySetting] | None = None


class SentMessage(Message):
    """A message for Ollama. The SDK encodes images as text before sending."""

    images: list[str] | None = None


class Chat(ChatRequest):
    """Ollama's request. The SDK's own type accepts any mapping as a message."""

    messages: list[SentMessage]


# The type of each provider's request, and its required members besides the conversation.
REQUESTS: dict[str, tuple[Any, Mapping[str, object]]] = {
    "anthropic": (anthropic.MessageCreateParamsNonStreaming, {"model": "m", "max_tokens": 1}),
    "openai": (chat.CompletionCreateParamsNonStreaming, {"model": "m"}),
    "openai-responses": (responses.ResponseCreateParamsNonStreaming, {"model": "m"}),
    "gemini": (Contents, {}),
    "ollama": (Chat, {"model": "m"}),
}


def make_strict(schema: Any) -> Any:
    """Returns a stricter copy of the schema."""
    if isinstance(schema, dict):
        schema = {name: make_strict(value) for name, value in schema.items()}
        match schema.get("type"):
            case "generator":
                schema["type"] = "list"
            case "typed-dict" | "model-fields":
                schema["extra_behavior"] = "forbid"
        return schema
    if isinstance(schema, list | tuple):
        return type(schema)(make_strict(value) for value in schema)
    return schema


def validation_errors(validator: SchemaValidator, body: dict[str, object]) -> list[str]:
    try:
        validator.validate_json(json.dumps(body), strict=True)
    except ValidationError as error:
        errors = Errors()
        for details in error.errors(include_url=False, include_input=False, include_context=False):
            errors.add(body, details)
        return sorted(set(errors.describe(body, "")))
    return []


class Errors:
    """The validation errors of a value. The location of an error is a list of steps. A step is a member of the body, or a type
    of a union."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.members: dict[int | str, Errors] = {}
        self.types: dict[int | str, Errors] = {}

    def add(self, value: Any, error: Mapping[str, Any]) -> None:
        errors, steps = self, error["loc"]
        for index, step in enumerate(steps):
            try:
                value, children = value[step], errors.members
            except (IndexError, KeyError, TypeError):
                is_member = error["type"] == "missing" and index + 1 == len(steps)
                children = errors.members if is_member else errors.types
            errors = children.setdefault(step, Errors())
        errors.messages.append(error["msg"])

    def is_of_another_kind(self) -> bool:
        """Returns whether the type of this union is for another kind of value. Its errors are then irrelevant."""
        discriminators = (self.members.get(name) for name in ("type", "role"))
        if self.messages or any(member and member.messages for member in discriminators):
            return True
        return not self.members and all(errors.is_of_another_kind() for errors in self.types.values())

    def describe(self, value: Any, location: str) -> Iterator[str]:
        yield from (f"{location}: {message}" for message in self.messages)
        for name, member in self.members.items():
            inner = value.get(name) if isinstance(value, dict) else value[name]
            yield from member.describe(inner, f"{location}.{name}".lstrip("."))
        relevant_types = [errors for errors in self.types.values() if not errors.is_of_another_kind()]
        for errors in relevant_types:
            yield from errors.describe(value, location)
        if self.types and not relevant_types:
            discriminators = [value[name] for name in ("type", "role") if isinstance(value, dict) and name in value]
            yield f"{location}: matches no type: {json.dumps(discriminators or type(value).__name__)}"


def main() -> None:
    # Prebuilt validators of models would ignore the stricter schema.
    validators = {
        name: SchemaValidator(make_strict(TypeAdapter(type_).core_schema), _use_prebuilt=False)
        for name, (type_, _) in REQUESTS.items()
    }
    for line in sys.stdin:
        request = json.loads(line)
        provider, (_, required_members) = request["provider"], REQUESTS[request["provider"]]
        # Streaming is not a part of the body in these SDKs, but selects another type.
        body = {**required_members, **request["body"], "stream": False}
        if provider == "gemini":
            del body["stream"]
        print(json.dumps(validation_errors(validators[provider], body)), flush=True)


main()
