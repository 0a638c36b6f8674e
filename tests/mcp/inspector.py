"""Calls of every tool of `jp-compact mcp` by the MCP Inspector, the client of the protocol's authors.

The Inspector starts a new server for each call. A result must have the members that the published schema requires.

Usage: inspector.py JP_COMPACT INSPECTOR"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SESSION = "01a1fd18-25ed-7671-90cc-5ecb92e14c45"
# The calls, in an order in which each one has something to do.
CALLS = [
    ("list", {}),
    ("stats", {"transcript": SESSION}),
    ("compact", {"transcript": SESSION, "strategies": '["strip-tools:mode=strip"]', "keep_last": "1"}),
    ("show", {"transcript": SESSION}),
    ("diff", {"transcript": SESSION}),
    ("print", {"transcript": SESSION, "compacted": "true"}),
    ("search", {"transcript": SESSION, "query": "heron"}),
    ("expand", {"transcript": SESSION, "event": "2"}),
    ("fork", {"transcript": SESSION, "profile": "light"}),
    ("reset", {"transcript": SESSION}),
]


def record(uuid: str, parent: str | None, role: str, content: object, folder: Path) -> str:
    """Returns a record of a session of Claude Code."""
    return json.dumps(
        {
            "type": role,
            "sessionId": SESSION,
            "cwd": str(folder),
            "version": "2.1.330",
            "uuid": uuid,
            "parentUuid": parent,
            "timestamp": "2026-11-23T05:00:00.000Z",
            "message": {"role": role, "content": content},
        }
    )


def write_session(path: Path, folder: Path) -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "the heron stands\n" * 500}
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make"}}
    lines = [
        record("a", None, "user", "Look for birds.", folder),
        record("b", "a", "assistant", [call], folder),
        record("c", "b", "user", [result], folder),
        record("d", "c", "assistant", [{"type": "text", "text": "One."}], folder),
        record("e", "d", "user", "And now?", folder),
        record("f", "e", "assistant", [{"type": "text", "text": "None."}], folder),
    ]
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def main(jp_compact: str, inspector: str) -> None:
    with tempfile.TemporaryDirectory() as temp:
        home = Path(temp).resolve()
        folder = home / "project"
        folder.mkdir()
        path = home / ".claude/projects/p" / f"{SESSION}.jsonl"
        write_session(path, folder)
        before = path.read_bytes()
        # The Inspector passes only a few variables on.
        server = ["env", f"HOME={home}", os.path.abspath(jp_compact), "mcp", str(folder), "--sandbox=contained"]

        def inspect(*options: str) -> dict:
            command = [os.path.abspath(inspector), "--cli", *server, *options]
            run = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=home)
            assert run.returncode == 0, f"{options}: {run.stdout}{run.stderr}"
            return json.loads(run.stdout)

        tools = {tool["name"]: tool for tool in inspect("--method", "tools/list")["tools"]}
        assert set(tools) == {name for name, _ in CALLS}, f"every tool is called: {sorted(tools)}"
        for name, arguments in CALLS:
            pairs = [word for pair in arguments.items() for word in ("--tool-arg", "=".join(pair))]
            result = inspect("--method", "tools/call", "--tool-name", name, *pairs)
            assert not result.get("isError"), f"{name}: {result}"
            required = required_members(tools[name]["outputSchema"])
            assert required <= set(result["structuredContent"]), f"{name}: {sorted(result['structuredContent'])}"
            print(f"{name}: {len(result['content'][0]['text'])} characters, {len(required)} members")
        assert path.read_bytes() == before, "the session is unchanged"


def required_members(schema: dict) -> set[str]:
    """Returns the required members of the document of a result. The other alternative is a failure."""
    return set(schema["anyOf"][0]["required"])


main(*sys.argv[1:])
