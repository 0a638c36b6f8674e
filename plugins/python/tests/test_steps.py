"""Positions and steps."""

from __future__ import annotations

import unittest

from jp_compact.steps import contains_step, copy_range, steps


class Steps(unittest.TestCase):
    def test_range_excludes_the_users_events_of_a_cut_turn(self) -> None:
        range_ = {"from_turn": 1, "from_step": 2, "to_turn": 3, "to_step": 0}
        positions = [(0, 0), (1, None), (1, 1), (1, 2), (2, None), (2, 9), (3, None), (3, 0), (3, 1), (4, 0)]
        found = [position for position in positions if contains_step(range_, *position)]
        self.assertEqual(found, [(1, 2), (2, None), (2, 9), (3, 0)])
        whole = {"from_turn": 1, "to_turn": 1}
        self.assertTrue(contains_step(whole, 1, None))
        self.assertEqual(copy_range({**range_, "x": 1, "to_step": None}), {"from_turn": 1, "to_turn": 3, "from_step": 2})

    def test_late_results_join_their_step(self) -> None:
        positions = [(0, None), (0, 0), (0, 1), (0, 0), (0, None), (1, None)]
        events = [{"seq": seq, "turn": turn, "step": step} for seq, (turn, step) in enumerate(positions)]
        found = [(turn, step, [event["seq"] for event in group]) for turn, step, group in steps(events)]
        self.assertEqual(found, [(0, None, [0]), (0, 0, [1, 3]), (0, 1, [2]), (0, None, [4]), (1, None, [5])])
