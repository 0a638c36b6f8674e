"""Strips the output of successful tool calls, and keeps the output of failed ones.

It reads only the outline, which has the type, the tool, and the success of each event. It needs only the standard library,
and one process serves any number of requests.
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
                "description": "tools whose output is always kept",
                "type": "array",
                "items": {"type": "string"},
                "default": [],
            },
        },
        "additionalProperties": False,
    },
}


def stripped_seqs(request):
    """Yields the seqs of the successful responses in range, for the turns whose output the view still shows."""
    requested, outline = request["requested_range"], request["outline"]
    shown_turns = {row["turn"] for row in request["context"]["turns"] if row["kinds"]["tool_response_tokens"] > 0}
    kept_tools, failed_seqs = set(request["options"].get("keep", [])), set(outline["error"])
    for seq, turn, kind, tool in zip(outline["seq"], outline["turn"], outline["type"], outline["tool"]):
        in_range = requested["from_turn"] <= turn <= requested["to_turn"] and turn in shown_turns
        # The tool of a response without a request is unknown.
        is_kept = tool is not None and outline["tools"][tool] in kept_tools
        if outline["types"][kind] == "tool_call_response" and in_range and not is_kept and seq not in failed_seqs:
            yield seq


def answer(request):
    calls = [{"seq": seq, "response": "strip"} for seq in stripped_seqs(request)]
    if not calls:
        return {"type": "decline", "id": request["id"], "reason": "no successful tool output in range"}
    requested = request["requested_range"]
    compaction = {
        "from_turn": requested["from_turn"],
        "to_turn": requested["to_turn"],
        # Only the listed events change. Earlier overlays still apply to the others.
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
        # Flushed, because the host may wait for this reply before it writes more.
        print(json.dumps(answer(message)), flush=True)
        if verb == "run":
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
