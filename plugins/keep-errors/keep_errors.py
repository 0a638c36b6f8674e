"""Strips the output of tool calls that went well, and keeps that of calls that failed.

It reads the outline alone: which event is a response, of which tool, and whether it failed. Nothing outside
the standard library, and one process for as many requests as the host sends.
"""

import json
import os
import sys

DESCRIPTION = {
    "type": "describe",
    "protocols": [1],
    "name": "keep-errors",
    "version": "0.1.0",
    "description": "Strip successful tool output, keep failures",
    "produces": ["tool_calls"],
    "input": "outline",
    "features": ["worker"],
    "determinism": "pure",
    "options_schema": {
        "type": "object",
        "properties": {
            "keep": {
                "description": "tools whose output is kept in any case",
                "type": "array",
                "items": {"type": "string"},
                "default": [],
            },
        },
        "additionalProperties": False,
    },
}


def successes(request):
    """The seqs of the responses in range that went well, and of which the view still shows something."""
    requested, outline = request["requested_range"], request["outline"]
    shown = {row["turn"] for row in request["context"]["turns"] if row["kinds"]["tool_response_tokens"] > 0}
    keep, failed = set(request["options"].get("keep", [])), set(outline["error"])
    for seq, turn, kind, tool in zip(outline["seq"], outline["turn"], outline["type"], outline["tool"]):
        in_range = requested["from_turn"] <= turn <= requested["to_turn"] and turn in shown
        # A response without a request belongs to no tool that could be named.
        kept = tool is not None and outline["tools"][tool] in keep
        if outline["types"][kind] == "tool_call_response" and in_range and not kept and seq not in failed:
            yield seq


def answer(request):
    calls = [{"seq": seq, "response": "strip"} for seq in successes(request)]
    if not calls:
        return {"type": "decline", "id": request["id"], "reason": "no successful tool output in range"}
    requested = request["requested_range"]
    compaction = {
        "from_turn": requested["from_turn"],
        "to_turn": requested["to_turn"],
        # Only the halves that are listed change; everything else stays as earlier overlays have it.
        "tool_calls": {"policy": "selective", "calls": calls},
    }
    return {"type": "result", "id": request["id"], "compactions": [compaction]}


def main():
    verb = sys.argv[1] if len(sys.argv) > 1 else ""
    if not os.environ.get("JP_COMPACT_PROTOCOL") or sys.stdin.isatty() or verb not in ("describe", "run", "worker"):
        print("keep-errors: a strategy of jp-compact.", DESCRIPTION["description"], file=sys.stderr)
        return 64
    if verb == "describe":
        print(json.dumps(DESCRIPTION))
        return 0
    for line in sys.stdin.buffer:
        message = json.loads(line) if line.strip() else {}
        if message.get("type") != "compact":
            continue
        # Flushed, for the host may wait for this answer before it writes on.
        print(json.dumps(answer(message)), flush=True)
        if verb == "run":
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
