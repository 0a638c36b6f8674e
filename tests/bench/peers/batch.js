// A script that strips a folder of JP streams, as a user would write it. The peer of `batch --out` with
// strip-reasoning, strip-tools and micro. Two threads share the files.
const fs = require("fs");
const path = require("path");
const { Worker, isMainThread, workerData } = require("worker_threads");

const KEPT_TURNS = 3, KEPT_RESULTS = 10, SHORT_BYTES = 800;
const EXEMPT = new Set(["LoadSkill", "Task", "TodoWrite", "TodoRead", "Ask"]);

function strip(events) {
  let turn = 0, hasEvents = false;
  const turns = [], names = new Map(), results = [];
  events.forEach((event, index) => {
    if (event.type === "turn_start" && hasEvents) turn += 1;
    hasEvents ||= event.type !== "config_delta";
    turns.push(turn);
    if (event.type === "tool_call_request") names.set(event.id, event.name);
    else if (event.type === "tool_call_response") results.push(index);
  });
  const oldResults = new Set(results.slice(0, -KEPT_RESULTS));
  return events.filter((event, index) => {
    if (turns[index] > turn - KEPT_TURNS) return true;
    if ("reasoning" in event) return false;
    if (event.type === "tool_call_request") {
      event.arguments = {};
    } else if (event.type === "tool_call_response") {
      const name = names.get(event.id) ?? "unknown";
      let text = `[compacted] ${name}: ${event.is_error ? "error" : "success"}`;
      const isLong = Buffer.from(event.content, "base64").length > SHORT_BYTES;
      if (oldResults.has(index) && !EXEMPT.has(name) && isLong) text = `[Previous: used ${name}]`;
      event.content = Buffer.from(text).toString("base64");
    }
    return true;
  });
}

if (isMainThread) {
  for (const part of [0, 1]) new Worker(__filename, { workerData: { part, args: process.argv.slice(2, 4) } });
} else {
  const { part, args: [source, out] } = workerData;
  fs.readdirSync(source).sort().forEach((name, index) => {
    if (index % 2 !== part) return;
    const view = strip(JSON.parse(fs.readFileSync(path.join(source, name, "events.json"), "utf8")));
    fs.mkdirSync(path.join(out, name), { recursive: true });
    fs.writeFileSync(path.join(out, name, "events.json"), JSON.stringify(view, null, 2) + "\n");
  });
}
