"""The report of `eval` as rows."""

from __future__ import annotations

import importlib.util
import json
import unittest

from jp_compact import StartError
from jp_compact.evidence import evaluate, frame, rows

from .world import World


def session(calls: int) -> str:
    """Returns a request body with this many calls, each of which uses a name of the one before. The last message names all."""
    messages: list[object] = [{"role": "user", "content": "Fix it. Never touch main."}]
    for call in range(calls):
        arguments = json.dumps({"path": f"src/part_{call - 1}/main.rs"})
        function = {"name": "read", "arguments": arguments}
        messages.append(
            {
                "role": "assistant",
                "content": f"It is in read_part_{call - 1}.",
                "tool_calls": [{"id": f"c{call}", "type": "function", "function": function}],
            }
        )
        result = f"src/part_{call}/main.rs:{1000 + call}: read_part_{call} is here\n" * 9
        messages.append({"role": "tool", "tool_call_id": f"c{call}", "content": result})
    changed = " ".join(f"src/part_{call}/main.rs" for call in range(calls))
    messages.append({"role": "assistant", "content": f"Changed {changed}."})
    return json.dumps({"model": "m", "messages": messages})


class Evidence(World):
    def test_rows_have_the_counts_of_the_report(self) -> None:
        (self.home / "session.json").write_text(session(40))
        report = evaluate(["session.json"], ["strip-tools"], env=self.env, cwd=str(self.home))
        table = rows(report)
        self.assertEqual(len(table), 3 * 8)
        path = next(row for row in table if row["strategy"] == "strip-tools" and row["class"] == "path")
        recall = report["strategies"][2]["recall"]["path"]
        self.assertEqual((path["kept"], path["at_risk"]), (recall["kept"], recall["at_risk"]))
        self.assertGreater(path["at_risk"], 0)

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed")
    def test_frame_has_the_rows_and_numbers(self) -> None:
        for calls in (40, 2):
            (self.home / "session.json").write_text(session(calls))
            report = evaluate(["session.json"], ["strip-tools", "extract"], env=self.env, cwd=str(self.home))
            table = frame(report)
            self.assertEqual(len(table), len(rows(report)))
            # The line of the README.
            pivot = table.pivot(index="strategy", columns="class", values="percent")
            self.assertEqual(pivot.shape, (4, 8))
            self.assertEqual({str(kind) for kind in pivot.dtypes}, {"float64"}, f"{calls} calls")
            paths = pivot.loc[["none", "drop-all"], "path"].tolist()
            if calls == 40:
                self.assertEqual(paths, [100.0, 0.0])
            else:
                self.assertTrue(pivot.isna().all(axis=None))

    def test_missed_gate_has_a_report_and_a_wrong_option_has_none(self) -> None:
        (self.home / "session.json").write_text(session(40))
        report = evaluate(
            ["session.json"], ["strip-tools"], "--require-saving=100", env=self.env, cwd=str(self.home)
        )
        self.assertFalse(report["gates"][0]["met"])
        with self.assertRaisesRegex(StartError, "nonsense"):
            evaluate(["session.json"], ["nonsense"], env=self.env, cwd=str(self.home))
