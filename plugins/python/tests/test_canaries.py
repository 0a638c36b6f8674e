"""Canaries of `compaction-conformance-kit` after five rounds: the kit calls a compactor, which calls `batch --ndjson`."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import threading
import unittest
from base64 import b64decode, b64encode
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from jp_compact import Worker

from .world import ROOT, World

STRATEGIES = ("strip-tools", "strip-tools:mode=strip-responses", "micro", "extract", "trim", "digest", "summarize")
REFERENCES = ("ChecklistCompactor", "NaiveSummaryCompactor", "LossyTruncationCompactor")
PAGE = ROOT / "docs/evidence.md"
BEGIN, END = "<!-- canaries -->\n", "<!-- end of canaries -->\n"
HEAD = "| row | rules | constraints | facts | goals | preferences | size | in results | size | chained |\n" + "|---" * 10 + "|\n"
# A canary in a tool result is in the middle of this log.
LOG = [f"10:00:{second:02} worker {second % 7} has built item {1000 + 37 * second} of the queue" for second in range(60)]


class ForgetfulModel(BaseHTTPRequestHandler):
    """A model that always answers the same sentence: a canary in its summary was kept by the strategy."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": "They worked on the project."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "g", "choices": [choice], "usage": usage}
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def events(turns: list[Any]) -> list[dict[str, Any]]:
    """Returns the turns of the kit as a conversation of JP. A turn of a tool is a call and its result."""
    found: list[dict[str, Any]] = []
    for index, turn in enumerate(turns):
        time = {"timestamp": f"2026-03-01 00:{index // 60:02}:{index % 60:02}.000"}
        if turn.role == "tool":
            found.append({**time, "type": "tool_call_request", "id": f"c{index}", "name": "log", "arguments": {"item": index}})
            content = b64encode(turn.text.encode()).decode()
            found.append({**time, "type": "tool_call_response", "id": f"c{index}", "content": content, "is_error": False})
        elif turn.role == "assistant":
            found.append({**time, "type": "chat_response", "message": turn.text})
        else:
            found += [{**time, "type": "turn_start"}, {**time, "type": "chat_request", "content": turn.text}]
    return found


def text_of(view: list[dict[str, Any]]) -> str:
    """Returns the text of a view in the form of the kit."""
    lines = []
    for event in view:
        if event["type"] == "tool_call_response":
            lines.append(f"[tool] {b64decode(event['content']).decode()}")
        elif event["type"].startswith("chat_"):
            lines.append(f"[user] {event['content']}" if "content" in event else f"[assistant] {event['message']}")
    return "\n".join(lines)


class Compactor:
    """A compactor in the sense of the kit. It keeps the conversation with its overlays, because the kit passes only a text to the next round.

    With `chained`, each round compacts the view of the last one as if it were a new conversation.
    """

    def __init__(self, workers: tuple[Worker, Worker], chained: bool) -> None:
        self.name, self._chained = "jp-compact", chained
        self._worker, self._viewer = workers
        self._events: list[dict[str, Any]] = []

    def compact(self, turns: list[Any], round_num: int = 1, budget_chars: int | None = None) -> Any:
        record = {"transcript": events(turns) if round_num == 1 else self._events, "format": "jp"}
        done, viewed = self._worker.compact(record), self._viewer.compact(record)
        assert done["ok"] and viewed["ok"], (done, viewed)
        self._events = viewed["view"] if self._chained else done["transcript"]
        context = importlib.import_module("compaction_kit").CompactedContext
        return context(text=text_of(viewed["view"]), compactor_name=self.name, round_num=round_num)


@unittest.skipUnless(importlib.util.find_spec("compaction_kit"), "compaction-conformance-kit is not installed")
class Canaries(World):
    def test_table_of_five_rounds_is_current(self) -> None:
        server = HTTPServer(("127.0.0.1", 0), ForgetfulModel)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.env |= {"OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}", "OPENAI_API_KEY": "sk-0123456789"}
        rows = {f"`{strategy}`": self.row(strategy) for strategy in STRATEGIES}
        for row in list(rows)[:6]:
            self.assertEqual(rows[row][:5], [4] * 5, f"{row} lost a canary that the user said")
        kit = importlib.import_module("compaction_kit")
        rows |= {f"the kit's `{name}`": self.measures([getattr(kit, name)()] * 3) for name in REFERENCES}
        table = HEAD + "".join(f"| {row} | {' | '.join(map(str, cells))} |\n" for row, cells in rows.items())
        before, rest = PAGE.read_text().split(BEGIN)
        current, after = rest.split(END)
        if "UPDATE_EVIDENCE" in os.environ:
            PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")
        else:
            self.assertEqual(current.strip(), table.strip(), "run .ci/python with UPDATE_EVIDENCE=1")

    def row(self, strategy: str) -> list[object]:
        options = ("--strategy", strategy, "--keep-last", "0", "--model", "openai/g", "--sandbox=contained")
        workers = self.worker(*options), self.worker(*options, "--view")
        return self.measures([Compactor(workers, chained) for chained in (False, False, True)])

    def measures(self, compactors: list[Any]) -> list[object]:
        """Returns the cells of a row: the kept canaries of each type and the size, then those that were in tool results."""
        kit = importlib.import_module("compaction_kit")
        said = kit.build_seeded_session()
        put = [replace(turn, role="tool", text="\n".join([*LOG[:30], turn.text, *LOG[30:]])) for turn in said.turns]
        found = replace(said, turns=tuple(new if old.canary_id else old for old, new in zip(said.turns, put)))
        runs = [kit.run_conformance(session, compactor, rounds=5) for session, compactor in zip((said, found, found), compactors)]
        last = [run.rounds[-1] for run in runs]
        kept = [sum(result.survived.values()) for result in last]
        sizes = [f"{result.output_chars / run.rounds[0].input_chars:.0%}" for run, result in zip(runs, last)]
        types = [round(4 * share) for share in last[0].survival_by_type.values()]
        return [*types, sizes[0], kept[1], sizes[1], kept[2]]
