"""The report of `eval` as rows."""

from __future__ import annotations

import importlib.util
import json

from jp_compact import StartError
from jp_compact.evidence import evaluate, frame, rows

from .world import World


def session(calls: int) -> str:
    """Returns a request body with this many calls, each of which uses a name of the one before."""
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
    messages.append({"role": "assistant", "content": "Done."})
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
        if importlib.util.find_spec("pandas"):
            self.assertEqual(len(frame(report)), len(table))

    def test_missed_gate_has_a_report_and_a_wrong_option_has_none(self) -> None:
        (self.home / "session.json").write_text(session(40))
        report = evaluate(
            ["session.json"], ["strip-tools"], "--require-saving=100", env=self.env, cwd=str(self.home)
        )
        self.assertFalse(report["gates"][0]["met"])
        with self.assertRaisesRegex(StartError, "nonsense"):
            evaluate(["session.json"], ["nonsense"], env=self.env, cwd=str(self.home))
