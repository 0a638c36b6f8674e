// Replaces the output of reads of a file that was read or written again later. It reads the whole conversation, because the
// later call may be after the range. It needs only the library of Node.js.

import { isatty } from "node:tty";

const strings = (description, values) => ({ description, type: "array", items: { type: "string" }, default: values });
const properties = {
  read: strings("tools that read a file", ["fs_read_file", "read_file", "Read"]),
  write: strings("tools that write a file", ["fs_create_file", "fs_modify_file", "fs_delete_file", "write_file", "Write", "Edit"]),
  path: strings("arguments that name the file", ["path", "file_path"]),
};
const description = {
  type: "describe", protocols: [1], name: "supersede", version: "0.1.0",
  description: "Replace reads of a file that was read or written again",
  produces: ["tool_calls"], input: "full", scope: "conversation", features: ["worker"], determinism: "pure",
  options_schema: { type: "object", properties, additionalProperties: false },
};

/** Returns the successful calls that read or wrote a file, in the order of their responses. */
function touches(events, options) {
  const waiting = new Map();
  const touches = [];
  for (const { seq, turn, event } of events) {
    if (event.type === "tool_call_request") {
      const kind = options.read.includes(event.name) ? "read" : options.write.includes(event.name) ? "write" : null;
      const key = options.path.find((key) => typeof event.arguments?.[key] === "string");
      const { [key]: path, ...rest } = event.arguments ?? {};
      const call = { kind: key === undefined ? null : kind, path, part: JSON.stringify(Object.entries(rest).sort()), request: turn };
      // Ids can be reused. A response belongs to the oldest pending call with its id. A pending call is dropped when a
      // later turn reuses its id.
      const earlier = (waiting.get(event.id) ?? []).filter(({ request }) => request === turn);
      waiting.set(event.id, [...earlier, call]);
    } else if (event.type === "tool_call_response") {
      const call = waiting.get(event.id)?.shift();
      if (call?.kind && event.is_error !== true) touches.push({ ...call, seq, turn });
    }
  }
  return touches;
}

/** A write supersedes every earlier read. A read supersedes reads of the same part, or all if it reads the whole file. */
const supersedes = (later, read) =>
  later.path === read.path && (later.kind === "write" || later.part === read.part || later.part === "[]");

function answer({ id, requested_range: range, options }, events) {
  const defaults = Object.fromEntries(Object.entries(properties).map(([key, property]) => [key, property.default]));
  const all = touches(events, { ...defaults, ...options });
  const inside = (turn) => range.from_turn <= turn && turn <= range.to_turn;
  const calls = all.flatMap((read, place) => {
    if (read.kind !== "read" || !inside(read.turn) || !inside(read.request)) return [];
    const later = all.slice(place + 1).find((other) => supersedes(other, read));
    return later ? [{ seq: read.seq, response: { replace: `[${later.kind === "read" ? "read again" : "changed"} in turn ${later.turn}]` } }] : [];
  });
  if (calls.length === 0) return { type: "decline", id, reason: "no file in range was read or written again" };
  return { type: "result", id, compactions: [{ from_turn: range.from_turn, to_turn: range.to_turn, tool_calls: { policy: "selective", calls } }] };
}

/** Yields the lines of stdin. `readline` would also split at a U+2028 inside an event. */
async function* lines() {
  let held = [];
  for await (const chunk of process.stdin) {
    let start = 0;
    for (let end; (end = chunk.indexOf(10, start)) !== -1; start = end + 1) {
      yield Buffer.concat([...held, chunk.subarray(start, end)]).toString();
      held = [];
    }
    held.push(chunk.subarray(start));
  }
  yield Buffer.concat(held).toString();
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
