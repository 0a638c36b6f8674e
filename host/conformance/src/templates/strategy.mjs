// @NAME@: strips the output of tool calls. Replace `answer` with your own code.

import { isatty } from "node:tty";

const description = {
  type: "describe", protocols: [1], name: "@NAME@", version: "0.1.0",
  description: "Strip the output of tool calls",
  produces: ["tool_calls"], input: "none", features: ["worker"], determinism: "pure",
};

function answer({ id, requested_range: range, context }) {
  const inRange = ({ turn }) => range.from_turn <= turn && turn <= range.to_turn;
  if (!context.turns.some((row) => inRange(row) && row.kinds.tool_response_tokens > 0)) {
    return { type: "decline", id, reason: "no tool output in range" };
  }
  const tool_calls = { policy: "strip", request: false, response: true };
  return { type: "result", id, compactions: [{ from_turn: range.from_turn, to_turn: range.to_turn, tool_calls }] };
}

/** Yields the lines of stdin. `readline` would also split a line at U+2028 inside a string. */
async function* lines() {
  let pending = [];
  for await (const chunk of process.stdin) {
    let start = 0;
    for (let end; (end = chunk.indexOf(10, start)) !== -1; start = end + 1) {
      yield Buffer.concat([...pending, chunk.subarray(start, end)]).toString();
      pending = [];
    }
    pending.push(chunk.subarray(start));
  }
  yield Buffer.concat(pending).toString();
}

const verb = process.argv[2];
if (!process.env.JP_COMPACT_PROTOCOL || isatty(0) || !["describe", "run", "worker"].includes(verb)) {
  process.stderr.write(`@NAME@: a strategy of jp-compact. ${description.description}\n`);
  process.exitCode = 64;
} else if (verb === "describe") {
  process.stdout.write(JSON.stringify(description) + "\n");
} else {
  for await (const line of lines()) {
    if (line.trim() === "") continue;
    const message = JSON.parse(line);
    if (message.type !== "compact") continue;
    process.stdout.write(JSON.stringify(answer(message)) + "\n");
    if (verb === "run") break;
  }
}
