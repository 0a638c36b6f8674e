"""Positions and steps, for strategies in Python that have the feature ``steps``.

A step is one response of the model with the results that answer it. Events of the user belong to no step. This module needs
no other module, so a strategy can contain a copy of it: the jail has no packages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def contains_step(range_: Mapping[str, Any], turn: int, step: int | None) -> bool:
    """Returns whether an event of this turn and step is in a range of a request.

    The user's events are in the range only if it contains the whole turn.
    """
    first, last = range_["from_turn"], range_["to_turn"]
    from_step, to_step = range_.get("from_step"), range_.get("to_step")
    is_cut = (turn == first and from_step is not None) or (turn == last and to_step is not None)
    if not first <= turn <= last:
        return False
    if not is_cut:
        return True
    if step is None:
        return False
    is_after = turn > first or from_step is None or step >= from_step
    return is_after and (turn < last or to_step is None or step <= to_step)


def copy_range(range_: Mapping[str, Any]) -> dict[str, int]:
    """Returns the members of a range, for a compaction of exactly this range."""
    names = ("from_turn", "to_turn", "from_step", "to_step")
    return {name: range_[name] for name in names if range_.get(name) is not None}


def steps(events: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, int | None, list[Mapping[str, Any]]]]:
    """Returns the turn, the step, and the events of each step, in order.

    Consecutive events of the user are one group without a step. A late result is in the group of its call.
    """
    groups: list[tuple[int, int | None, list[Mapping[str, Any]]]] = []
    by_step: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for event in events:
        turn, step = event["turn"], event.get("step")
        if groups and groups[-1][:2] == (turn, step):
            groups[-1][2].append(event)
        elif step is not None and (turn, step) in by_step:
            by_step[turn, step].append(event)
        else:
            groups.append((turn, step, [event]))
            if step is not None:
                by_step[turn, step] = groups[-1][2]
    yield from groups
