#!/usr/bin/env -S python3 -I
"""A strategy that violates exactly one rule: the conformance check with the id MODE. Without a mode it is conformant."""

import json
import os
import sys
import time

MODE = "@MODE@"

DESCRIPTION = {
    "type": "describe", "protocols": [1], "name": "broken", "version": "1.0.0", "description": "Break one rule",
    "produces": ["reasoning", "tool_calls"], "input": "full", "scope": "range", "features": ["worker", "pipeline", "events.file"],
    "determinism": "pure",
    "options_schema": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}, "additionalProperties": False},
}
if MODE == "required":
    DESCRIPTION["options_schema"] = {"type": "object", "properties": {"m": {"type": "integer"}}, "required": ["m"]}
SUMMARIZES = ("D10", "P09", "P10", "P11", "P12", "N01", "N02", "N03", "N04", "N05")
if MODE in SUMMARIZES or MODE in ("summary", "own-range"):
    DESCRIPTION["produces"] = ["summary"]
if MODE == "N05":
    DESCRIPTION["determinism"] = "stochastic"
if MODE in ("P14", "P01-steps"):
    DESCRIPTION["features"].append("steps")
if MODE == "F09":
    del DESCRIPTION["options_schema"]
if MODE in ("D10", "N02", "N03", "N04", "N05", "summary"):
    DESCRIPTION["needs"] = ["llm"]
for mode, key, value in (
    ("D03", "name", "another"), ("D04", "protocols", [2]), ("D05", "produces", []),
    ("D06", "options_schema", {"type": "object", "properties": {"n": {"type": "integer", "default": "one"}}}),
):
    if MODE == mode:
        DESCRIPTION[key] = value


def write(message):
    sys.stdout.write(json.dumps(message) + "\n")
    if MODE != "W02":
        sys.stdout.flush()


def describe():
    if MODE == "D01":
        sys.exit(3)
    if MODE == "D08":
        DESCRIPTION["version"] = str(time.time())
    if MODE == "D09" and "x_later" in sys.stdin.readline():
        sys.exit(1)
    if MODE == "D02":
        del DESCRIPTION["input"]
    write(DESCRIPTION)


def lines():
    if MODE == "F05":
        for text in sys.stdin:
            yield from (line for line in text.splitlines() if line.strip())
    for line in sys.stdin.buffer:
        if VERB == "run" and MODE == "F08" and not line.endswith(b"\n"):
            sys.exit(1)
        if VERB == "run" and MODE == "F03" and (line == b"\r\n" or line.endswith(b"\r\n")):
            sys.exit(1)
        if VERB == "run" and MODE == "F04" and len(line) > 1 << 20:
            line = line[: 1 << 20]
        if line.strip():
            yield line


def write_needs(request, key, **fields):
    messages = [{"role": "user", "content": "Summarize."}]
    write({"type": "needs", "id": request["id"], "requests": {key: {"kind": "llm.complete", "messages": messages}}, **fields})


def answer(request, events):
    reply_id, requested = request["id"], request["requested_range"]
    range_ = {"from_turn": requested["from_turn"], "to_turn": requested["to_turn"]}
    if MODE == "P14":
        # The range has two steps, and the turn three.
        range_.update({key: 9 for key in ("to_step",) if key in requested})
    last = range_["to_turn"]
    result = {"type": "result", "id": reply_id}
    if MODE in SUMMARIZES or MODE in ("summary", "own-range"):
        range_ = {"from_turn": request["range"]["from_turn"], "to_turn": request["range"]["to_turn"]}
        texts = [value["ok"]["text"] if MODE == "N05" else value.get("ok", {}).get("text", "refused") for value in request["answers"].values()]
        if MODE == "N03" or (not texts and MODE in ("D10", "N01", "N05", "summary")):
            return write_needs(request, f"k{len(texts)}")
        if MODE == "N02" and len(texts) < 2:
            return write_needs(request, "k")
        if MODE == "N04" and not texts:
            return write_needs(request, "k", state="x" * 65537)
        text = " " if MODE == "P09" else "What was said."
        compaction = {**range_, "summary": {"summary": text}}
        # own-range proposes another range and follows the second request, which is exact. P11 and P12 do not follow it.
        has_overlay = request["context"]["compactions"] and requested["from_turn"] == 0
        if has_overlay and (MODE == "P11" or MODE == "own-range" and not request["range_exact"]):
            compaction["from_turn"] = 1
        if MODE == "P12" and request["range_exact"]:
            compaction["from_turn"] = 2
        return write({**result, "compactions": [compaction, compaction] if MODE == "P10" else [compaction]})
    selective = lambda *calls: {**range_, "tool_calls": {"policy": "selective", "calls": list(calls)}}
    strip = {**range_, "reasoning": "strip"}
    compactions = {
        "P01": [], "P01-steps": [], "P02": [{**strip, "reasonning": "strip"}], "P03": [{**strip, "from_turn": last + 1}],
        "P04": [{**strip, "to_turn": last + 1}], "P05": [range_], "P06": [{**range_, "summary": {"summary": "text"}}],
        "P07": [{**strip, "to_turn": min(2, last)}], "P08": [selective({"seq": 0, "response": "strip"})],
        "P13": [strip] * 1025,
    }.get(MODE, [strip])
    if MODE == "F01" and VERB == "run" and any(key.startswith("x_") for key in request["context"]):
        sys.exit(1)
    if MODE == "required" and "m" not in request["options"]:
        return write({"type": "error", "id": reply_id, "code": "options_invalid", "message": "m is missing"})
    if MODE == "F09" and request["options"]:
        raise ValueError("an option")
    if MODE == "F10" and len(events) == 1:
        raise ValueError("an empty turn")
    if MODE == "F11" and VERB == "run" and any(line["event"]["type"].startswith("x_") for line in events):
        raise ValueError("an unknown event")
    if MODE == "F12" and VERB == "run" and request["events"]["mode"] == "file":
        return write({"type": "decline", "id": reply_id, "reason": "a file"})
    if MODE == "F06" and request["dry_run"]:
        return write({"type": "decline", "id": reply_id, "reason": "a dry run"})
    if MODE == "F07":
        return write({"type": "decline", "id": reply_id, "reason": str(time.time())})
    if MODE == "W01" and VERB == "worker":
        return write({"type": "decline", "id": reply_id, "reason": "as a worker I do nothing"})
    if MODE == "R01":
        time.sleep(60)
    if MODE == "R04":
        sys.stdout.write("x" * (9 << 20))
    if MODE == "R05":
        return None
    if MODE == "R07":
        sys.stdout.flush()
        sys.stdout.buffer.write(b"\xff\n")
    if MODE == "R08":
        print("scanning ...")
    if MODE == "R09":
        write({"type": "progress", "id": reply_id, "done": "half"})
    if MODE == "R10":
        reply_id = "c1"
    if MODE == "R11":
        return write({"type": "error", "id": reply_id, "code": "internal", "message": "no"})
    write({"type": "result", "id": reply_id, "compactions": compactions})
    if MODE == "R06":
        write({"type": "decline", "id": reply_id, "reason": "or not"})
    return None


def requests():
    """Yields each request with its events, whether inline or in a file."""
    request, events = None, []
    for line in lines():
        message = json.loads(line)
        if message["type"] == "compact":
            request, events = message, []
            if MODE == "W05" and VERB == "worker" and (message["events"].get("count") or 0) > 100:
                yield request, []
                # The defect: a worker expects the next request here, but gets the events of this one.
                request, events = next(json.loads(line) for line in lines()), []
                if request["type"] != "compact":
                    sys.exit(1)
            if message["events"]["mode"] == "file":
                with open(message["events"]["path"], "rb") as file:
                    yield request, [json.loads(line) for line in file]
                if MODE == "W06" and VERB == "worker":
                    sys.exit(1)
        elif message["type"] == "event":
            events.append(message)
        elif message["type"] == "events_end":
            yield request, events
        elif (MODE == "F02" and VERB == "run") or (MODE == "W07" and VERB == "worker"):
            sys.exit(1)


def main():
    if not os.environ.get("JP_COMPACT_PROTOCOL"):
        return 0 if MODE == "S02" else 64
    if sys.stdin.isatty():
        return 0 if MODE == "S04" else 64
    if VERB == "describe":
        return describe()
    if VERB not in ("run", "worker"):
        return 0 if MODE == "S03" else 64
    for number, (request, events) in enumerate(requests(), 1):
        answer(request, events)
        # W04 ends after request 7. The first worker of the test gets fewer requests, so no other check fails.
        if VERB == "run" or (MODE == "W04" and number == 7):
            break
    sys.stdout.flush()
    if MODE == "R02" and VERB == "run":
        return 3
    if MODE == "R03":
        # A test starts this strategy thousands of times, and this import is slow.
        import subprocess
        subprocess.Popen(["sleep", "20"])
    if MODE == "W03" and VERB == "worker":
        return 3
    if MODE == "W03-more" and VERB == "worker":
        print("\nmore")
    if MODE == "W03-late" and VERB == "worker":
        # It exits with 0, but only after SIGTERM.
        import signal
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        signal.pause()
    return 0


VERB = sys.argv[1] if len(sys.argv) > 1 else ""
sys.exit(main())
