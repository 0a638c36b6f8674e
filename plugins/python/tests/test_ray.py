"""The actor for Ray Data, in a real cluster of one node."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}

import ray
import ray.data

from jp_compact.ray import Compactor

from .test_recipes import block
from .world import FATAL, STRIPS, World, conversation


class Identified(Compactor):
    """Adds the id of the process to each row."""

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
        columns = super().__call__(batch)
        columns["actor"] = [os.getpid()] * len(columns["ok"])
        return columns


class Actors(World):
    folder: tempfile.TemporaryDirectory[str]

    @classmethod
    def setUpClass(cls) -> None:
        # The path must be short, because it is a part of the paths of sockets.
        cls.folder = tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True)
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=200 << 20,
            log_to_driver=False,
            _node_ip_address="127.0.0.1",
            _temp_dir=cls.folder.name,
        )
        ray.data.DataContext.get_current().enable_progress_bars = False

    @classmethod
    def tearDownClass(cls) -> None:
        ray.shutdown()
        cls.folder.cleanup()

    def rows(self, count: int, **tools: str) -> list[dict[str, Any]]:
        names = [tools.get(f"at_{number}", "cargo_test") for number in range(count)]
        return [{"id": number, "transcript": conversation(name)} for number, name in enumerate(names)]

    def test_every_row_survives_a_row_that_kills_its_worker(self) -> None:
        rows = self.rows(200, at_100="kills_the_host")
        rows[50]["transcript"] = "no transcript"
        done = ray.data.from_items(rows, override_num_blocks=20).map_batches(
            Identified,
            fn_constructor_args=FATAL,
            fn_constructor_kwargs={"env": self.env},
            compute=ray.data.ActorPoolStrategy(size=2),
            num_cpus=0.25,
            batch_size=10,
        )
        out = {row["id"]: row for row in done.take_all()}
        self.assertEqual(sorted(out), list(range(200)))
        self.assertEqual(done.count(), 200)
        failed = {number: out.pop(number) for number in (50, 100)}
        for number, row in failed.items():
            self.assertFalse(row["ok"])
            self.assertEqual(row["transcript"], rows[number]["transcript"])
        self.assertEqual(json.loads(failed[100]["error"])["kind"], "worker_died")
        for number, row in out.items():
            self.assertTrue(row["ok"], row["error"])
            self.assertIn('"compaction"', row["transcript"])
            self.assertGreater(len(row["transcript"]), len(rows[number]["transcript"]))
        # No actor died: there were never more than two.
        self.assertEqual(len({row["actor"] for row in [*out.values(), *failed.values()]}), 2)

    def test_every_row_has_the_error_of_a_failed_start(self) -> None:
        done = ray.data.from_items(self.rows(4)).map_batches(
            Compactor,
            fn_constructor_args=("--strategy", "no-such-strategy"),
            fn_constructor_kwargs={"env": self.env},
            compute=ray.data.ActorPoolStrategy(size=1),
            num_cpus=0.25,
        )
        out = done.take_all()
        self.assertEqual(sorted(row["id"] for row in out), [0, 1, 2, 3])
        for row in out:
            self.assertEqual(json.loads(row["error"])["kind"], "worker_not_started")

    def test_recipe(self) -> None:
        ids = [f"00{number}" for number in range(8)]
        lines = [json.dumps({"id": record_id, "transcript": conversation()}) for record_id in ids]
        (self.home / "records.ndjson").write_text("\n".join(lines))
        recipe = block("ray").replace('"records.ndjson"', repr(str(self.home / "records.ndjson")))
        recipe = recipe.replace('"compacted"', repr(str(self.home / "compacted")))
        exec(recipe, {})
        out = ray.data.read_parquet(str(self.home / "compacted")).take_all()
        self.assertEqual(sorted((row["id"], row["ok"]) for row in out), [(record_id, True) for record_id in ids])


class Batches(World):
    """The same class, called as Ray calls it."""

    def compactor(self, *arguments: str, **settings: Any) -> Compactor:
        compactor = Compactor(*arguments, env=self.env, **settings)
        self.addCleanup(compactor.close)
        return compactor

    def test_view_is_a_separate_column(self) -> None:
        batch: dict[str, Sequence[Any]] = {"id": [1, 2], "transcript": [conversation(), "no transcript"], "other": ["a", "b"]}
        out = self.compactor(*STRIPS, view=True)(batch)
        self.assertEqual({name: out[name] for name in batch}, batch)
        self.assertEqual(out["ok"], [True, False])
        self.assertTrue(out["view"][0])
        self.assertEqual(out["view"][1], "")

    def test_accepts_paths(self) -> None:
        path = Path(self.home) / "events.json"
        path.write_text(conversation())
        out = self.compactor(*STRIPS)({"path": [str(path), "/nowhere"]})
        self.assertEqual(out["ok"], [True, False])
        self.assertIn("compaction", out["transcript"][0])
        self.assertEqual(out["transcript"][1], "")
        self.assertEqual(path.read_text(), conversation())

    def test_empty_batch(self) -> None:
        self.assertEqual(self.compactor(*STRIPS)({"id": []})["ok"], [])
