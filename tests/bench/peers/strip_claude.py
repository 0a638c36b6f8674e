"""A script that strips calls and reasoning of a Claude Code session. The peer of `print --compacted`."""

import sys

import orjson

names, parents, lines = {}, {}, []
with open(sys.argv[1], "rb") as file:
    for raw in file:
        line = orjson.loads(raw)
        content = (line.get("message") or {}).get("content")
        if isinstance(content, list):
            kept = []
            for block in content:
                if block["type"] == "tool_use":
                    names[block["id"]] = block["name"]
                    block["input"] = {}
                elif block["type"] == "tool_result":
                    status = "error" if block.get("is_error") else "success"
                    block["content"] = f"[compacted] {names.get(block['tool_use_id'], 'unknown')}: {status}"
                    if "toolUseResult" in line:
                        line["toolUseResult"] = block["content"]
                elif block["type"] in ("thinking", "redacted_thinking"):
                    continue
                kept.append(block)
            if not kept:
                parents[line["uuid"]] = line["parentUuid"]
                continue
            line["message"]["content"] = kept
        lines.append(line)
out = sys.stdout.buffer
for line in lines:
    while line.get("parentUuid") in parents:
        line["parentUuid"] = parents[line["parentUuid"]]
    out.write(orjson.dumps(line))
    out.write(b"\n")
