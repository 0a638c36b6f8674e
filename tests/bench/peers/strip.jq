# A script that strips the tool calls of a JP stream, as a user would write it. The peer of `print
# --compacted`.
(map(select(.type == "tool_call_request") | {key: .id, value: .name}) | from_entries) as $names
| map(
    if .type == "tool_call_request" then .arguments = {}
    elif .type == "tool_call_response" then
      .content = ("[compacted] \($names[.id] // "unknown"): \(if .is_error then "error" else "success" end)" | @base64)
    else . end)
