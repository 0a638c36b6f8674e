#!/usr/bin/env -S python3 -I
"""A strategy that keeps every rule but one: the check of the kit whose number MODE is. With none it is sound."""

import json
import os
import subprocess
import sys
import time

MODE = "@MODE@"

DESCRIPTION = {
    "type": "describe", "protocols": [1], "name": "broken", "version": "1.0.0", "description": "Break one rule",
    "produces": ["reasoning", "tool_calls"], "input": "full", "scope": "range", "features": ["worker", "pipeline"],
    "determinism": "pure",
    "options_schema": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}, "additionalProperties": False},
}
SUMMARIZES = ("P09", "P10", "P11", "N01", "N02", "N03", "N04", "N05")
if MODE in SUMMARIZES or MODE == "summary":
    DESCRIPTION["produces"] = ["summary"]
if MODE == "N05":
    DESCRIPTION["determinism"] = "stochastic"
if MODE in ("N02", "N03", "N04", "N05", "summary"):
    DESCRIPTION["needs"] = ["llm"]
for mode, key, value in (
    ("D03", "name", "another"), ("D04", "protocols", [2]), ("D05", "produces", []),
    ("D06", "options_schema", {"type": "object", "properties": {"n": {"type": "integer", "default": "one"}}}),
):
    if MODE == mode:
        DESCRIPTION[key] = value


def say(message):
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
    say(DESCRIPTION)


def lines():
    if MODE == "F05":
        for text in sys.stdin:
            yield from (line for line in text.splitlines() if line.strip())
    for line in sys.stdin.buffer:
        if MODE == "F03" and (line == b"\r\n" or line.endswith(b"\r\n")):
            sys.exit(1)
        if MODE == "F04" and len(line) > 1 << 20:
            line = line[: 1 << 20]
        if line.strip():
            yield line


def needs(request, key, **more):
    messages = [{"role": "user", "content": "Summarize."}]
    say({"type": "needs", "id": request["id"], "requests": {key: {"kind": "llm.complete", "messages": messages}}, **more})


def answer(request, events):
    reply_id, here = request["id"], request["requested_range"]
    whole = {"from_turn": here["from_turn"], "to_turn": here["to_turn"]}
    last = whole["to_turn"]
    result = {"type": "result", "id": reply_id}
    if MODE in SUMMARIZES or MODE == "summary":
        range_ = request["range"]
        whole = {"from_turn": range_["from_turn"], "to_turn": range_["to_turn"]}
        texts = [value["ok"]["text"] if MODE == "N05" else value.get("ok", {}).get("text", "refused") for value in request["answers"].values()]
        if MODE == "N03" or (not texts and MODE in ("N01", "N05", "summary")):
            return needs(request, f"k{len(texts)}")
        if MODE == "N02" and len(texts) < 2:
            return needs(request, "k")
        if MODE == "N04" and not texts:
            return needs(request, "k", state="x" * 65537)
        text = " " if MODE == "P09" else "What was said."
        one = {**whole, "summary": {"summary": text}}
        if MODE == "P11" and request["context"]["compactions"]:
            one["from_turn"] = 1
        return say({**result, "compactions": [one, one] if MODE == "P10" else [one]})
    selective = lambda *calls: {**whole, "tool_calls": {"policy": "selective", "calls": list(calls)}}
    strip = {**whole, "reasoning": "strip"}
    compactions = {
        "P01": [], "P02": [{**strip, "reasonning": "strip"}], "P03": [{**strip, "from_turn": last + 1}],
        "P04": [{**strip, "to_turn": last + 1}], "P05": [whole], "P06": [{**whole, "summary": {"summary": "text"}}],
        "P07": [{**strip, "to_turn": min(2, last)}], "P08": [selective({"seq": 0, "response": "strip"})],
    }.get(MODE, [strip])
    if MODE == "F01" and any(key.startswith("x_") for key in request["context"]):
        sys.exit(1)
    if MODE == "F06" and request["dry_run"]:
        return say({"type": "decline", "id": reply_id, "reason": "a dry run"})
    if MODE == "F07":
        return say({"type": "decline", "id": reply_id, "reason": str(time.time())})
    if MODE == "W01" and VERB == "worker":
        return say({"type": "decline", "id": reply_id, "reason": "as a worker I do nothing"})
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
        say({"type": "progress", "id": reply_id, "done": "half"})
    if MODE == "R10":
        reply_id = "c1"
    if MODE == "R11":
        return say({"type": "error", "id": reply_id, "code": "internal", "message": "no"})
    say({"type": "result", "id": reply_id, "compactions": compactions})
    if MODE == "R06":
        say({"type": "decline", "id": reply_id, "reason": "or not"})
    return None


def main():
    if not os.environ.get("JP_COMPACT_PROTOCOL"):
        return 0 if MODE == "S02" else 64
    if VERB == "describe":
        return describe()
    if VERB not in ("run", "worker"):
        return 0 if MODE == "S03" else 64
    request, events, seen = None, [], 0
    for line in lines():
        message = json.loads(line)
        if message["type"] == "compact":
            request, events = message, []
        elif message["type"] == "event":
            events.append(message)
        elif message["type"] == "events_end":
            answer(request, events)
            seen += 1
            if VERB == "run":
                break
            if MODE == "W04" and seen == 3:
                break
        elif MODE == "F02":
            return 1
    sys.stdout.flush()
    if MODE == "R02" and VERB == "run":
        return 3
    if MODE == "R03":
        subprocess.Popen(["sleep", "20"])
    if MODE == "W03" and VERB == "worker":
        return 3
    return 0


VERB = sys.argv[1] if len(sys.argv) > 1 else ""
sys.exit(main())
