"""Runs the recipes of README.md unchanged."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from .world import HERE, SAMPLE, World, conversation

README = (HERE.parent / "README.md").read_text()


def block(mark: str) -> str:
    """Returns the code block after a mark."""
    found = re.search(rf"^<!-- {mark} -->\n```\w+\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert found, mark
    return found[1]


class Recipes(World):
    def transcripts(self, count: int) -> list[Path]:
        paths = [self.home / f"conversations/number-{number}/events.json" for number in range(count)]
        for path in paths:
            path.parent.mkdir(parents=True)
            path.write_text(SAMPLE)
        return paths

    def sh(self, script: str, **env: str) -> None:
        subprocess.run(["sh", "-euc", script], cwd=self.home, env={**self.env, **env}, check=True)

    def assert_compacted_once(self, paths: list[Path], parts: int) -> None:
        """Checks that each transcript is in one report and has one overlay."""
        reports = [json.loads((self.home / f"reports/{part}.json").read_text()) for part in range(parts)]
        reported = [transcript["path"] for report in reports for transcript in report["transcripts"]]
        self.assertEqual(sorted(reported), sorted(str(path.relative_to(self.home)) for path in paths))
        for path in paths:
            self.assertEqual(path.read_text().count('"type": "compaction"'), 1)

    def test_xargs(self) -> None:
        paths = self.transcripts(12)
        self.sh(block("xargs"))
        self.assert_compacted_once(paths, 4)

    def test_kubernetes(self) -> None:
        job = yaml.safe_load(block("kubernetes"))
        self.assertEqual(job["spec"]["completionMode"], "Indexed")
        container = job["spec"]["template"]["spec"]["containers"][0]
        rule = job["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"]
        self.assertEqual(rule["containerName"], container["name"])
        self.assertEqual(container["command"], ["sh", "-c"])
        [script] = container["args"]
        parts = job["spec"]["completions"]
        self.assertIn(f"$JOB_COMPLETION_INDEX/{parts}", script)
        paths = self.transcripts(12)
        (self.home / "reports").mkdir()
        for part in [*range(parts), 0]:
            self.sh(script, JOB_COMPLETION_INDEX=str(part))
        self.assert_compacted_once(paths, parts)

    def test_client(self) -> None:
        for name in ("one", "two"):
            (self.home / name).mkdir()
        (self.home / "one/events.json").write_text(SAMPLE)
        script = self.home / "client.py"
        script.write_text(block("client"))
        completed = subprocess.run(
            [sys.executable, script], cwd=self.home, env=self.env, check=True, capture_output=True, text=True
        )
        first, second = completed.stdout.splitlines()
        self.assertRegex(first, r"^one/events.json \d+$")
        self.assertRegex(second, "^two/events.json .*events.json")

    def test_spark_without_spark(self) -> None:
        names: dict[str, Any] = {}
        exec(block("spark"), names)
        with contextlib.redirect_stdout(io.StringIO()):
            answers = list(names["compacted"]({"id": n, "transcript": conversation()} for n in range(5)))
        self.assertEqual([(answer["id"], answer["ok"]) for answer in answers], [(n, True) for n in range(5)])
