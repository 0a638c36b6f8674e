"""The environment of the tests: a temporary home folder and a real conversation, with replaceable tool names."""

from __future__ import annotations

import json
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any

from jp_compact import Answer, Worker

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SAMPLE = (ROOT / "tests/sample/events.json").read_text()
LINES = (ROOT / "host/transcripts/tests/formats/samples/claude-code.jsonl").read_text()
STRIPS = ("--strategy", "strip-tools", "--keep-last", "1")
# The strategy that attacks its host runs without a jail. It runs last, so the host already has a compaction.
FATAL = (*STRIPS, "--strategy", "fatal", "--trust-dir", str(HERE / "fatal"), "--sandbox=contained")


def conversation(tool: str = "cargo_test") -> str:
    """Returns the events of a conversation, with some calls of this tool."""
    assert '"cargo_test"' in SAMPLE
    return SAMPLE.replace('"cargo_test"', json.dumps(tool))


class World(unittest.TestCase):
    """A test with its own environment."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="jpc")
        self.addCleanup(folder.cleanup)
        self.home = Path(folder.name)
        self.env = {"PATH": os.environ["PATH"], "HOME": folder.name, "LANG": "C.UTF-8"}

    def worker(self, *arguments: str, **settings: Any) -> Worker:
        worker = Worker(*arguments, env=self.env, cwd=str(self.home), **settings)
        self.addCleanup(worker.close)
        return worker

    def assert_compacted(self, answer: Answer, original: str = SAMPLE) -> None:
        """Checks that the answer is a text that begins with the original and has an overlay."""
        self.assertTrue(answer["ok"], answer)
        events = json.loads(answer["transcript"])
        original_events = json.loads(original)
        self.assertEqual(events[: len(original_events)], original_events)
        self.assertGreater(len(events), len(original_events))

    def assert_failed(self, answer: Answer, kind: str, reason: str = "") -> None:
        self.assertFalse(answer["ok"], answer)
        self.assertEqual(answer["error"]["kind"], kind)
        self.assertIn(reason, answer["error"]["message"])
