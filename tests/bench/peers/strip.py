"""A script that strips the tool calls of a JP stream, as a user would write it. The peer of `print --compacted`."""

import base64
import sys

if sys.argv[1] == "orjson":
    import orjson

    loads, dumps = orjson.loads, lambda value: orjson.dumps(value, option=orjson.OPT_INDENT_2)
else:
    import json

    loads, dumps = json.loads, lambda value: json.dumps(value, indent=2, ensure_ascii=False).encode()

with open(sys.argv[2], "rb") as file:
    events = loads(file.read())
names = {event["id"]: event["name"] for event in events if event["type"] == "tool_call_request"}
for event in events:
    if event["type"] == "tool_call_request":
        event["arguments"] = {}
    elif event["type"] == "tool_call_response":
        status = "error" if event["is_error"] else "success"
        text = f"[compacted] {names.get(event['id'], 'unknown')}: {status}"
        event["content"] = base64.b64encode(text.encode()).decode()
sys.stdout.buffer.write(dumps(events) + b"\n")
