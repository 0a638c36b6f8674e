// A script that strips calls and reasoning of a Claude Code session, as a user would write it. The peer of
// `print --compacted`.
const fs = require("fs");
const names = new Map();
const parents = new Map();
const lines = [];
for (const raw of fs.readFileSync(process.argv[2], "utf8").split("\n")) {
  if (!raw) continue;
  const line = JSON.parse(raw);
  const content = line.message?.content;
  if (Array.isArray(content)) {
    const kept = content.filter((block) => !["thinking", "redacted_thinking"].includes(block.type));
    for (const block of kept) {
      if (block.type === "tool_use") {
        names.set(block.id, block.name);
        block.input = {};
      } else if (block.type === "tool_result") {
        const status = block.is_error ? "error" : "success";
        block.content = `[compacted] ${names.get(block.tool_use_id) ?? "unknown"}: ${status}`;
        if ("toolUseResult" in line) line.toolUseResult = block.content;
      }
    }
    if (kept.length === 0) {
      parents.set(line.uuid, line.parentUuid);
      continue;
    }
    line.message.content = kept;
  }
  lines.push(line);
}
const out = [];
for (const line of lines) {
  while (parents.has(line.parentUuid)) line.parentUuid = parents.get(line.parentUuid);
  out.push(JSON.stringify(line));
}
fs.writeSync(1, out.join("\n") + "\n");
