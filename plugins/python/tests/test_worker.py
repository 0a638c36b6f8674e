"""The worker client: one answer for each record, in order, even if a record kills the process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import unittest
from collections.abc import Iterator

from jp_compact import Answer, Failure, Saved, StartError, Worker

from .world import FATAL, LINES, STRIPS, World, conversation


def records(count: int, **tools: str) -> Iterator[dict[str, object]]:
    """Yields this many records. `at_N` is the tool that record N calls."""
    for number in range(count):
        tool = tools.get(f"at_{number}", "cargo_test")
        yield {"id": f"row {number}", "transcript": conversation(tool)}


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Answers(World):
    def test_record_gets_an_answer(self) -> None:
        with self.worker(*STRIPS) as worker:
            answer = worker.compact({"id": "a", "transcript": conversation()})
            self.assertEqual(answer["id"], "a")
            self.assert_compacted(answer)
            self.assertEqual(worker.restarts, 0)

    def test_types_match_the_schema(self) -> None:
        completed = subprocess.run(
            ["jp-compact", "schema", "batch-answer"], env=self.env, check=True, capture_output=True
        )
        definitions = json.loads(completed.stdout)["$defs"]
        good, bad = (definitions[name]["properties"].keys() for name in ("GoodAnswer", "BadAnswer"))
        self.assertEqual(Answer.__annotations__.keys(), good | bad)
        for typed_dict, name in [(Failure, "ErrorReport"), (Saved, "Saved")]:
            self.assertEqual(typed_dict.__annotations__.keys(), definitions[name]["properties"].keys())

    def test_accepts_paths_and_foreign_transcripts(self) -> None:
        path = self.home / "session.jsonl"
        path.write_text(LINES)
        with self.worker(*STRIPS) as worker:
            answers = list(worker.map([{"id": 1, "path": str(path)}, {"id": 2, "transcript": LINES}]))
        self.assertEqual([answer["ok"] for answer in answers], [True, True], answers)

    def test_id_is_returned_unchanged(self) -> None:
        ids = [None, 0, -1, 2**70, 0.1 + 0.2, "ä\n", "a", "a", ["list"], {"k": 1}, True]
        with self.worker(*STRIPS, window=3) as worker:
            answers = list(worker.map({"id": record_id, "transcript": conversation()} for record_id in ids))
        self.assertEqual([answer["id"] for answer in answers], ids)
        self.assertTrue(all(answer["ok"] for answer in answers))

    def test_record_without_id(self) -> None:
        with self.worker(*STRIPS) as worker:
            self.assertIsNone(worker.compact({"transcript": conversation()})["id"])

    def test_answers_large_records_in_order(self) -> None:
        large = conversation().replace("The tests of", "The tests of " + "x" * 1_500_000)
        with self.worker(*STRIPS, window=5) as worker:
            large_records = ({"id": number, "transcript": large} for number in range(12))
            answers = list(worker.map(large_records))
            self.assertEqual(worker.restarts, 0)
        self.assertEqual([answer["id"] for answer in answers], list(range(12)))
        for answer in answers:
            self.assert_compacted(answer, large)

    def test_reads_at_most_one_window_ahead(self) -> None:
        read = []

        def source() -> Iterator[dict[str, object]]:
            for record in records(9):
                read.append(record["id"])
                yield record

        with self.worker(*STRIPS, window=3) as worker:
            for number, _ in enumerate(worker.map(source())):
                self.assertLessEqual(len(read), number + 3)
        self.assertEqual(len(read), 9)

    def test_invalid_transcript_fails_alone(self) -> None:
        bad: list[dict[str, object]] = [{"id": 1, "transcript": 7}, {"id": 2, "path": "/nowhere"}, {"id": 3}]
        with self.worker(*STRIPS) as worker:
            answers = list(worker.map([*bad, *records(1)]))
            self.assertEqual(worker.restarts, 0)
        self.assertEqual([answer["ok"] for answer in answers], [False, False, False, True])
        for answer in answers[:3]:
            self.assertTrue(answer["error"]["message"])

    def test_record_that_is_not_json_is_not_sent(self) -> None:
        cells = [float("nan"), b"bytes", "\ud800", {1, 2}]
        with self.worker(*STRIPS) as worker:
            answers = list(worker.map([{"id": 0, "transcript": cell} for cell in cells]))
            for answer in answers:
                self.assert_failed(answer, "record_invalid")
            self.assertEqual(worker.restarts, 0)


class Supervision(World):
    def test_record_that_kills_the_worker_fails_alone(self) -> None:
        with self.worker(*FATAL, window=4) as worker:
            answers = list(worker.map(records(9, at_4="kills_the_host")))
            # The record is tried twice: among others, then alone.
            self.assertEqual(worker.restarts, 2)
        self.assertEqual([answer["id"] for answer in answers], [f"row {number}" for number in range(9)])
        self.assert_failed(answers.pop(4), "worker_died", "killed by signal 9")
        for answer in answers:
            self.assert_compacted(answer)

    def test_killed_worker_is_restarted_without_loss(self) -> None:
        with self.worker(*STRIPS, window=4) as worker:
            answers = []
            for answer in worker.map(records(9)):
                answers.append(answer)
                if len(answers) == 3:
                    assert worker.pid
                    os.kill(worker.pid, signal.SIGKILL)
            self.assertEqual(worker.restarts, 1)
        self.assertEqual([answer["id"] for answer in answers], [f"row {number}" for number in range(9)])
        for answer in answers:
            self.assert_compacted(answer)

    def test_record_that_hangs_is_overdue(self) -> None:
        with self.worker(*FATAL, window=3, deadline=5.0) as worker:
            answers = list(worker.map(records(4, at_1="stops_the_host")))
            # The record is tried twice: among others, then alone.
            self.assertEqual(worker.restarts, 2)
        self.assert_failed(answers.pop(1), "worker_overdue")
        for answer in answers:
            self.assert_compacted(answer)

    def test_invalid_answer_restarts_the_worker(self) -> None:
        for tool, reason in [("speaks_for_the_host", "not JSON"), ("answers_for_the_host", "not the answer")]:
            with self.subTest(tool), self.worker(*FATAL, window=3) as worker:
                answers = list(worker.map(records(5, at_2=tool)))
                self.assertEqual(worker.restarts, 2)
                self.assert_failed(answers.pop(2), "worker_died", reason)
                for answer in answers:
                    self.assert_compacted(answer)

    def test_invalid_options_raise_start_error(self) -> None:
        with self.worker("--strategy", "no-such-strategy") as worker:
            with self.assertRaisesRegex(StartError, "no-such-strategy"):
                worker.compact({"transcript": conversation()})

    def test_missing_executable_raises_start_error(self) -> None:
        with self.assertRaises(StartError):
            Worker(executable="/nowhere/jp-compact")

    def test_abandoned_map_does_not_affect_the_next(self) -> None:
        with self.worker(*STRIPS) as worker:
            answers = worker.map(records(6))
            self.assertEqual(next(answers)["id"], "row 0")
            with self.assertRaisesRegex(RuntimeError, "busy"):
                worker.compact({})
            answers.close()
            self.assertIsNone(worker.pid)
            self.assertEqual(worker.compact({"id": "new", "transcript": conversation()})["id"], "new")
            self.assertEqual(worker.restarts, 1)

    def test_close_kills_the_worker(self) -> None:
        worker = self.worker(*STRIPS)
        answers = worker.map(records(3))
        next(answers)
        pid = worker.pid
        assert pid
        os.kill(pid, signal.SIGSTOP)
        worker.close()
        self.assertFalse(is_alive(pid))
        self.assertIsNone(worker.pid)
        with self.assertRaisesRegex(RuntimeError, "closed"):
            next(answers)

    def test_idle_worker_exits_by_itself(self) -> None:
        worker = self.worker(*STRIPS)
        worker.compact({"transcript": conversation()})
        assert worker._process
        child = worker._process._child
        worker.close()
        self.assertEqual(child.returncode, 0)
        worker.close()


if __name__ == "__main__":
    unittest.main()
