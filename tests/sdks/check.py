"""Validation of request bodies with the types of the providers' own SDKs.

Reads lines of `{"provider": ..., "body": ...}` on stdin. Writes one line of JSON per body: a list of errors with their
places, which is empty for a valid body.

The validation is stricter than pydantic's default in two points, like a type checker: lists that are validated lazily
are validated at once, and unknown members are rejected."""

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


def strict(schema: Any) -> Any:
    """Returns a stricter copy of the schema."""
    if isinstance(schema, dict):
        schema = {name: strict(value) for name, value in schema.items()}
        match schema.get("type"):
            case "generator":
                schema["type"] = "list"
            case "typed-dict" | "model-fields":
                schema["extra_behavior"] = "forbid"
        return schema
    if isinstance(schema, list | tuple):
        return type(schema)(strict(value) for value in schema)
    return schema


def refused(validator: SchemaValidator, body: dict[str, object]) -> list[str]:
    try:
        validator.validate_json(json.dumps(body), strict=True)
    except ValidationError as error:
        errors = Errors()
        for each in error.errors(include_url=False, include_input=False, include_context=False):
            errors.add(body, each)
        return sorted(set(errors.describe(body, "")))
    return []


class Errors:
    """The validation errors of a value. The location of an error contains types in addition to members, where a union was
    validated. A step that is not a member of the body is a type."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.members: dict[int | str, Errors] = {}
        self.types: dict[int | str, Errors] = {}

    def add(self, value: Any, error: Mapping[str, Any]) -> None:
        errors, steps = self, error["loc"]
        for number, step in enumerate(steps):
            try:
                value, among = value[step], errors.members
            except (IndexError, KeyError, TypeError):
                is_member = error["type"] == "missing" and number + 1 == len(steps)
                among = errors.members if is_member else errors.types
            errors = among.setdefault(step, Errors())
        errors.refused.append(error["msg"])

    def is_another(self) -> bool:
        """Returns whether this is a union type of another kind than the value, so that its errors are irrelevant."""
        kind = (self.members.get(name) for name in ("type", "role"))
        if self.refused or any(member and member.refused for member in kind):
            return True
        return not self.members and all(errors.is_another() for errors in self.types.values())

    def describe(self, value: Any, place: str) -> Iterator[str]:
        yield from (f"{place}: {refused}" for refused in self.refused)
        for name, member in self.members.items():
            inner = value.get(name) if isinstance(value, dict) else value[name]
            yield from member.describe(inner, f"{place}.{name}".lstrip("."))
        kinds = [errors for errors in self.types.values() if not errors.is_another()]
        for kind in kinds:
            yield from kind.describe(value, place)
        if self.types and not kinds:
            shown = [value[name] for name in ("type", "role") if isinstance(value, dict) and name in value]
            yield f"{place}: matches no type: {json.dumps(shown or type(value).__name__)}"


def main() -> None:
    # Prebuilt validators of models would ignore the stricter schema.
    validators = {
        name: SchemaValidator(strict(TypeAdapter(type_).core_schema), _use_prebuilt=False)
        for name, (type_, _) in REQUESTS.items()
    }
    for line in sys.stdin:
        request = json.loads(line)
        provider, (_, demanded) = request["provider"], REQUESTS[request["provider"]]
        # Streaming is not a part of the body in these SDKs, but selects another type.
        body = {**demanded, **request["body"], "stream": False}
        if provider == "gemini":
            del body["stream"]
        print(json.dumps(refused(validators[provider], body)), flush=True)


main()
