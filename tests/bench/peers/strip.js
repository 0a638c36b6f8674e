// A script that strips the tool calls of a JP stream, as a user would write it. The peer of `print
// --compacted`.
const fs = require("fs");
const events = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const names = new Map();
for (const event of events) {
  if (event.type === "tool_call_request") names.set(event.id, event.name);
}
for (const event of events) {
  if (event.type === "tool_call_request") {
    event.arguments = {};
  } else if (event.type === "tool_call_response") {
    const status = event.is_error ? "error" : "success";
    const text = `[compacted] ${names.get(event.id) ?? "unknown"}: ${status}`;
    event.content = Buffer.from(text).toString("base64");
  }
}
fs.writeSync(1, JSON.stringify(events, null, 2) + "\n");
