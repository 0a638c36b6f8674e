"""A condenser for agents of OpenHands: each step of the agent reads the view of the events.

`Agent(llm=..., tools=..., condenser=CompactCondenser())`. The conversation keeps all events.
"""

from __future__ import annotations

import json
import logging

from openhands.sdk.context.condenser.base import PipelinableCondenserBase
from openhands.sdk.context.view import View
from openhands.sdk.event import LLMConvertibleEvent
from openhands.sdk.event.base import Event
from openhands.sdk.llm import LLM
from pydantic import Field, PrivateAttr, ValidationError

from ._view import Viewer

_log = logging.getLogger("jp_compact")


class CompactCondenser(PipelinableCondenserBase):
    """Compacts the events of a view. `arguments` are options of `batch`, by default the profile `agent`."""

    arguments: list[str] = Field(default_factory=list)
    threshold: int = 20_000
    executable: str = "jp-compact"
    _viewer: Viewer | None = PrivateAttr(default=None)

    def condense(self, view: View, agent_llm: LLM | None = None) -> View:
        if self._viewer is None:
            self._viewer = Viewer(*self.arguments, threshold=self.threshold, executable=self.executable)
        before = {event.id: (event, json.loads(event.model_dump_json())) for event in view.events}
        after = self._viewer.view([plain for _, plain in before.values()], "openhands")
        if after is None:
            return view
        try:
            # An unchanged event stays the same object.
            events = [before[plain["id"]][0] if before.get(plain["id"], (None, None))[1] == plain else _event(plain) for plain in after]
        except (KeyError, TypeError, ValidationError) as error:
            _log.warning("nothing was compacted: %s", error)
            return view
        return view.model_copy(update={"events": events})


def _event(plain: dict[str, object]) -> LLMConvertibleEvent:
    event = Event.model_validate(plain)
    if not isinstance(event, LLMConvertibleEvent):
        raise TypeError(f"{type(event).__name__} is not sent to a model")
    return event
