// Replaces the output of reads of a file that was read or written again later. It reads the whole conversation, because the
// later call may be after the range. It needs only the library of Node.js.

import { isatty } from "node:tty";

const stringList = (description, values) => ({ description, type: "array", items: { type: "string" }, default: values });
const properties = {
  read: stringList("tools that read a file", ["fs_read_file", "read_file", "Read"]),
  write: stringList("tools that write a file", ["fs_create_file", "fs_modify_file", "fs_delete_file", "write_file", "Write", "Edit"]),
  path: stringList("arguments that name the file", ["path", "file_path"]),
};
const description = {
  type: "describe", protocols: [1], name: "supersede", version: "0.1.0",
  description: "Replace reads of a file that was read or written again",
  produces: ["tool_calls"], input: "full", scope: "conversation", features: ["worker"], determinism: "pure",
  options_schema: { type: "object", properties, additionalProperties: false },
};

/** Returns the successful calls that read or wrote a file, in the order of their responses. */
function fileCalls(events, options) {
  const pending = new Map();
  const calls = [];
  for (const { seq, turn, event } of events) {
    if (event.type === "tool_call_request") {
      const kind = options.read.includes(event.name) ? "read" : options.write.includes(event.name) ? "write" : null;
      const key = options.path.find((key) => typeof event.arguments?.[key] === "string");
      const { [key]: path, ...otherArguments } = event.arguments ?? {};
      // Two reads with equal other arguments read the same part of the file.
      const part = JSON.stringify(Object.entries(otherArguments).sort());
      const call = { kind: key === undefined ? null : kind, path, part, requestTurn: turn };
      // Ids can be reused. A response belongs to the oldest pending call with its id. A pending call is dropped when a
      // later turn reuses its id.
      const sameTurn = (pending.get(event.id) ?? []).filter(({ requestTurn }) => requestTurn === turn);
      pending.set(event.id, [...sameTurn, call]);
    } else if (event.type === "tool_call_response") {
      const call = pending.get(event.id)?.shift();
      if (call?.kind && event.is_error !== true) calls.push({ ...call, seq, turn });
    }
  }
  return calls;
}

/** A write supersedes every earlier read. A read supersedes reads of the same part, or all if it reads the whole file. */
const supersedes = (later, read) =>
  later.path === read.path && (later.kind === "write" || later.part === read.part || later.part === "[]");

function answer({ id, requested_range: range, options }, events) {
  const defaults = Object.fromEntries(Object.entries(properties).map(([key, property]) => [key, property.default]));
  const inOrder = fileCalls(events, { ...defaults, ...options });
  const inRange = (turn) => range.from_turn <= turn && turn <= range.to_turn;
  const calls = [];
  for (const [index, read] of inOrder.entries()) {
    if (read.kind !== "read" || !inRange(read.turn) || !inRange(read.requestTurn)) continue;
    const later = inOrder.slice(index + 1).find((call) => supersedes(call, read));
    if (later === undefined) continue;
    const event = later.kind === "read" ? "read again" : "changed";
    calls.push({ seq: read.seq, response: { replace: `[${event} in turn ${later.turn}]` } });
  }
  if (calls.length === 0) return { type: "decline", id, reason: "no file in range was read or written again" };
  return { type: "result", id, compactions: [{ from_turn: range.from_turn, to_turn: range.to_turn, tool_calls: { policy: "selective", calls } }] };
}

/** Yields the lines of stdin. `readline` would also split at a U+2028 inside an event. */
async function* lines() {
  let lineStart = [];
  for await (const chunk of process.stdin) {
    let start = 0;
    for (let end; (end = chunk.indexOf(10, start)) !== -1; start = end + 1) {
      yield Buffer.concat([...lineStart, chunk.subarray(start, end)]).toString();
      lineStart = [];
    }
    lineStart.push(chunk.subarray(start));
  }
  yield Buffer.concat(lineStart).toString();
}

async function serve(verb) {
  let request = null;
  let events = [];
  for await (const line of lines()) {
    if (line.trim() === "") continue;
    const message = JSON.parse(line);
    if (message.type === "compact") [request, events] = [message, []];
    if (message.type === "event") events.push(message);
    if (message.type !== "events_end" || request === null) continue;
    process.stdout.write(JSON.stringify(answer(request, events)) + "\n");
    request = null;
    if (verb === "run") break;
  }
}

const verb = process.argv[2];
if (!process.env.JP_COMPACT_PROTOCOL || isatty(0) || !["describe", "run", "worker"].includes(verb)) {
  process.stderr.write(`supersede: a strategy of jp-compact. ${description.description}\n`);
  process.exitCode = 64;
} else if (verb === "describe") {
  process.stdout.write(JSON.stringify(description) + "\n");
} else {
  await serve(verb);
}
