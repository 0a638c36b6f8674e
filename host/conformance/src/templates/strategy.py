"""@NAME@: strips the output of tool calls. Replace `answer` with your own code."""

import json
import os
import sys

DESCRIPTION = {
    "type": "describe",
    "protocols": [1],
    "name": "@NAME@",
    "version": "0.1.0",
    "description": "Strip the output of tool calls",
    "produces": ["tool_calls"],
    "input": "none",
    "features": ["worker"],
    "determinism": "pure",
}


def answer(request):
    requested = request["requested_range"]
    first, last = requested["from_turn"], requested["to_turn"]
    rows = [row for row in request["context"]["turns"] if first <= row["turn"] <= last]
    if not any(row["kinds"]["tool_response_tokens"] for row in rows):
        return {"type": "decline", "id": request["id"], "reason": "no tool output in range"}
    policy = {"policy": "strip", "request": False, "response": True}
    compaction = {"from_turn": first, "to_turn": last, "tool_calls": policy}
    return {"type": "result", "id": request["id"], "compactions": [compaction]}


def main():
    verb = sys.argv[1] if len(sys.argv) > 1 else ""
    if not os.environ.get("JP_COMPACT_PROTOCOL") or sys.stdin.isatty() or verb not in ("describe", "run", "worker"):
        print("@NAME@: a strategy of jp-compact.", DESCRIPTION["description"], file=sys.stderr)
        return 64
    if verb == "describe":
        print(json.dumps(DESCRIPTION))
        return 0
    for line in sys.stdin.buffer:
        message = json.loads(line) if line.strip() else {}
        if message.get("type") == "compact":
            print(json.dumps(answer(message)), flush=True)
            if verb == "run":
                break
    return 0


sys.exit(main())
