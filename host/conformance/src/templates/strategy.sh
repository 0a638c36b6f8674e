#!/bin/sh
# @NAME@: strips the output of tool calls. Replace the filter with your own.
[ -n "$JP_COMPACT_PROTOCOL" ] && [ ! -t 0 ] || { echo "@NAME@: a strategy of jp-compact" >&2; exit 64; }
case "$1" in
  describe) echo '{"type":"describe","protocols":[1],"name":"@NAME@","version":"0.1.0","description":"Strip the output of tool calls","produces":["tool_calls"],"input":"none","features":["worker"],"determinism":"pure"}' ;;
  run | worker) exec jq --unbuffered -c 'select(.type == "compact") | .requested_range as $range
    | if any(.context.turns[]; .turn >= $range.from_turn and .turn <= $range.to_turn and .kinds.tool_response_tokens > 0)
      then {type: "result", id, compactions: [{from_turn: $range.from_turn, to_turn: $range.to_turn, tool_calls: {policy: "strip", request: false, response: true}}]}
      else {type: "decline", id, reason: "no tool output in range"} end' ;;
  *) exit 64 ;;
esac
