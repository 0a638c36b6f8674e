"""Runs the action as GitHub and GitLab do, on samples, with the `jp-compact` from PATH."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
ACTION = yaml.safe_load((HERE / "action.yml").read_text())
SAMPLES = ROOT / "host/transcripts/tests/formats/samples"


def example(mark):
    """Returns the YAML after a mark of the README."""
    text = (HERE / "README.md").read_text()
    return yaml.safe_load(re.search(rf"<!-- {mark} -->\n```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[1])


class Action(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="jpc")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.transcript = self.folder / "conversations/my sample/events.json"
        shutil.copytree(ROOT / "tests/sample", self.transcript.parent)
        self.before = self.transcript.read_bytes()
        self.summary = self.folder / "summary.md"

    def sh(self, script, code, **variables):
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "GITHUB_STEP_SUMMARY": str(self.summary)}
        ran = subprocess.run(
            ["sh", "-euc", script], cwd=self.folder, env=env | variables, capture_output=True, text=True
        )
        self.assertEqual(ran.returncode, code, ran.stderr)
        return ran

    def action(self, code, **inputs):
        """Runs the step as GitHub does: replaces each expression with its input."""
        inputs = {name.replace("_", "-"): value for name, value in inputs.items()}
        self.assertLessEqual(inputs.keys(), ACTION["inputs"].keys())
        values = {name: inputs.get(name, of["default"]) for name, of in ACTION["inputs"].items()}
        [step] = ACTION["runs"]["steps"]
        self.assertNotIn("${{", step["run"])
        expression = re.compile(r"\$\{\{ inputs\.([a-z-]+) \}\}")
        env = {name: str(values[expression.fullmatch(text)[1]]) for name, text in step["env"].items()}
        return self.sh(step["run"], code, GITHUB_ACTION_PATH=str(HERE), **env)

    def assert_reported(self, *, met, failures):
        report = json.loads((self.folder / "report.json").read_text())
        self.assertEqual([gate["met"] for gate in report["gates"]], met)
        self.assertTrue(report["complete"])
        self.assertEqual(xml.parse(self.folder / "junit.xml").getroot().get("failures"), str(failures))
        return report

    def test_passes_every_input(self):
        [step] = ACTION["runs"]["steps"]
        script = (HERE / "run").read_text()
        read = set(re.findall(r"\$\{(INPUT_[A-Z_]+)", script)) | {"JP_COMPACT"}
        self.assertEqual(set(step["env"]), read)
        handed = {name.removeprefix("INPUT_").lower().replace("_", "-") for name in read - {"JP_COMPACT"}}
        self.assertEqual(handed | {"executable"}, set(ACTION["inputs"]))

    def test_succeeds_if_a_gate_is_met(self):
        self.action(0, paths="conversations", strategies="strip-tools\nstrip-reasoning\n", keep_last=1, require_saving=20)
        report = self.assert_reported(met=[True], failures=0)
        self.assertEqual([one["status"] for one in report["transcripts"]], ["compacted"])
        self.assertTrue(report["dry_run"])
        self.assertEqual(self.transcript.read_bytes(), self.before)
        self.assertIn("1 transcript: 1 compacted", self.summary.read_text())

    def test_fails_if_a_gate_is_not_met(self):
        self.action(3, paths="conversations", require_saving=99, forbid_growth="true", max_failures=0)
        report = self.assert_reported(met=[False, True, True], failures=1)
        self.assertEqual([gate["gate"] for gate in report["gates"]], ["require-saving", "forbid-growth", "max-failures"])
        self.assertIn("gate require-saving not met", self.summary.read_text())

    def test_checks_each_view(self):
        self.action(3, paths="conversations", require_fit=1, require_valid="anthropic")
        self.assert_reported(met=[True, False], failures=1)
        self.action(0, paths="conversations", require_fit=100000, require_valid="anthropic")
        self.assert_reported(met=[True, True], failures=0)

    def test_fails_without_transcripts_unless_allowed(self):
        (self.folder / "empty").mkdir()
        self.action(3, paths="empty", require_saving=0)
        self.assert_reported(met=[False], failures=1)
        self.action(4, paths="empty")
        self.action(0, paths="empty", require_saving=0, allow_empty="true")
        self.assert_reported(met=[True], failures=0)

    def test_writes_overlays_without_dry_run(self):
        self.action(0, paths="conversations/my sample\n", profile="light", keep_last=1, dry_run="false")
        self.assertGreater(self.transcript.read_text().count('"type": "compaction"'), 0)

    def test_writes_views_to_another_folder(self):
        self.action(0, paths="conversations", strategies="strip-tools", keep_last=1, out="views", dry_run="false")
        self.assertEqual(self.transcript.read_bytes(), self.before)
        self.assertTrue(list((self.folder / "views").rglob("*.json")))

    def test_names_a_failed_transcript(self):
        (self.transcript.parent / "events.json").write_text("<not JSON>")
        self.action(19, paths="conversations")
        summary = self.summary.read_text()
        self.assertIn("my sample", summary)
        self.assertNotIn("<not", summary)

    def test_writes_reports_where_configured(self):
        self.action(0, paths="conversations", report="my report.json", junit="")
        self.assertTrue(json.loads((self.folder / "my report.json").read_text())["complete"])
        self.assertFalse((self.folder / "report.json").exists() or (self.folder / "junit.xml").exists())

    def test_rejects_another_version(self):
        self.assertIn("expected version 999", self.action(2, version="999").stderr)
        version = subprocess.run(["jp-compact", "--version"], capture_output=True, text=True).stdout.split()[-1]
        self.action(0, version=version, paths="conversations")

    def test_does_not_execute_inputs(self):
        self.action(19, paths="$(touch evil); `touch evil`\n*")
        self.assertFalse((self.folder / "evil").exists())

    def test_reads_transcripts_of_other_programs(self):
        shutil.copytree(SAMPLES, self.folder / "samples")
        self.action(0, paths="samples", strategies="strip-tools", keep_last=1)
        report = self.assert_reported(met=[], failures=0)
        listed = {Path(one["path"]).name for one in report["transcripts"]}
        self.assertEqual(listed, {path.name for path in SAMPLES.iterdir()})

    def test_github_example_runs(self):
        step = example("github")[0]
        self.assertTrue((ROOT / step["uses"].split("@")[0].split("/", 2)[2] / "action.yml").is_file())
        self.action(0, **{name: value for name, value in step["with"].items()}, keep_last=1)

    def test_gitlab_example_runs(self):
        job = example("gitlab")["jp-compact"]
        self.assertEqual(job["artifacts"]["reports"]["junit"], "junit.xml")
        _, script = job["script"]
        # Only the path of the clone differs from the example.
        script = script.replace("/opt/jp-compact", f'"{ROOT}"')
        self.sh(script, 0)
        self.assert_reported(met=[True], failures=0)
        self.sh(script + " --require-fit 1", 3)
        self.assert_reported(met=[True, False], failures=1)


if __name__ == "__main__":
    unittest.main()
