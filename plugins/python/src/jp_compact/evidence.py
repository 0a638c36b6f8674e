"""The report of `jp-compact eval` as rows, and as a data frame if pandas is installed."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from ._worker import StartError

# A missed gate and a failed row still have a report.
_WITH_REPORT = (0, 3, 19)
# The columns that a report leaves empty if there is not enough data.
_MAYBE_UNKNOWN = ("break_even_requests", "percent", "low", "high", "newest_percent", "random_percent")


def evaluate(
    paths: Sequence[str | os.PathLike[str]],
    strategies: Sequence[str],
    *arguments: str,
    executable: str = "jp-compact",
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> dict[str, Any]:
    """Evaluates strategies on transcripts and returns the document `eval-report`."""
    typed = [item for strategy in strategies for item in ("--strategy", strategy)]
    command = [executable, "eval", "--json", *typed, *arguments, "--", *(os.fspath(path) for path in paths)]
    try:
        done = subprocess.run(command, capture_output=True, check=False, env=env, cwd=cwd)
    except OSError as error:
        raise StartError(f"failed to start {executable}: {error}") from error
    report: dict[str, Any] = json.loads(done.stdout) if done.returncode in _WITH_REPORT and done.stdout else {}
    if "strategies" not in report:
        raise StartError(done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}")
    return report


def rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns one row for each strategy and class of a report."""
    table = []
    for strategy in report["strategies"]:
        shared = {
            "strategy": strategy["label"],
            "status": strategy["status"],
            "saved_percent": strategy["saved"]["percent"],
            "view_before": strategy["tokens"]["view_before"],
            "view_after": strategy["tokens"]["view_after"],
            "break_even_requests": strategy["cache"]["break_even_requests"],
            "rules_broken": strategy["rules_broken"],
        }
        for name, recall in strategy["recall"].items():
            low, high = recall["interval"] or (None, None)
            table.append(
                {
                    **shared,
                    "class": name,
                    "kept": recall["kept"],
                    "at_risk": recall["at_risk"],
                    "percent": recall["percent"],
                    "low": low,
                    "high": high,
                    "newest_percent": strategy["controls"]["newest"]["recall"][name]["percent"],
                    "random_percent": strategy["controls"]["random"]["recall"][name]["percent"],
                }
            )
    return table


def frame(report: Mapping[str, Any]) -> Any:
    """Returns the rows of a report as a data frame. It needs pandas. An unknown number is NaN, even if all numbers are unknown."""
    table = importlib.import_module("pandas").DataFrame(rows(report))
    return table.astype(dict.fromkeys(_MAYBE_UNKNOWN, "float64"))
