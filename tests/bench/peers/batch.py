"""A script that strips a folder of JP streams, as a user would write it.

The peer of `batch --out` with strip-reasoning, strip-tools and micro. Two processes share the files.
"""

import base64
import multiprocessing
import pathlib
import sys

import orjson

KEPT_TURNS, KEPT_RESULTS, SHORT_BYTES = 3, 10, 800
EXEMPT = {"LoadSkill", "Task", "TodoWrite", "TodoRead", "Ask"}


def strip(events):
    turn, has_events, turns, names, results = 0, False, [], {}, []
    for index, event in enumerate(events):
        kind = event["type"]
        if kind == "turn_start" and has_events:
            turn += 1
        has_events = has_events or kind != "config_delta"
        turns.append(turn)
        if kind == "tool_call_request":
            names[event["id"]] = event["name"]
        elif kind == "tool_call_response":
            results.append(index)
    old_results = set(results[:-KEPT_RESULTS])
    for index, event in enumerate(events):
        kind = event["type"]
        if turns[index] <= turn - KEPT_TURNS:
            if "reasoning" in event:
                continue
            if kind == "tool_call_request":
                event["arguments"] = {}
            elif kind == "tool_call_response":
                name = names.get(event["id"], "unknown")
                text = f"[compacted] {name}: {'error' if event['is_error'] else 'success'}"
                is_long = len(base64.b64decode(event["content"])) > SHORT_BYTES
                if index in old_results and name not in EXEMPT and is_long:
                    text = f"[Previous: used {name}]"
                event["content"] = base64.b64encode(text.encode()).decode()
        yield event


def strip_part(part):
    source, out = map(pathlib.Path, sys.argv[1:3])
    for path in sorted(source.glob("*/events.json"))[part::2]:
        view = list(strip(orjson.loads(path.read_bytes())))
        target = out / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(orjson.dumps(view, option=orjson.OPT_INDENT_2) + b"\n")


if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        pool.map(strip_part, range(2))
