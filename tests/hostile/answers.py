#!/usr/bin/env -S python3 -I
"""A conformant strategy with one defect in its answers. MODE selects the defect. A table in the tests has the expected results."""

import json
import os
import signal
import sys
import time

MODE = "@MODE@"

DESCRIPTION = {
    "type": "describe", "protocols": [1], "name": "answers", "version": "1.0.0", "description": "Misbehave",
    "produces": ["summary" if "summary" in MODE else "reasoning"], "input": "none", "features": ["worker"],
    "determinism": "pure",
}


def answer(request):
    """Returns the bytes of the reply."""
    reply_id, range_ = request["id"], request["range" if "summary" in MODE else "requested_range"]
    policy = {"summary": {"summary": "What was said."}} if "summary" in MODE else {"reasoning": "strip"}
    compaction = {"from_turn": range_["from_turn"], "to_turn": range_["to_turn"], **policy}
    result = {"type": "result", "id": reply_id, "compactions": [compaction]}
    if MODE == "inverts its range":
        compaction["from_turn"] = compaction["to_turn"] + 1
    elif MODE == "leaves its range":
        compaction["to_turn"] += 1
    elif MODE == "goes beyond its kinds":
        compaction["tool_calls"] = {"policy": "omit"}
    elif MODE == "stamps itself":
        compaction["timestamp"] = "2999-01-01 00:00:00.0"
    elif MODE == "writes an empty summary":
        compaction["summary"]["summary"] = ""
    elif MODE == "writes a large summary":
        compaction["summary"]["summary"] = "x" * (300 << 10)
    elif MODE == "writes a summary of 10 MB":
        compaction["summary"]["summary"] = "x" * 10_000_000
    elif MODE == "answers with another id":
        result["id"] = "c999"
    line = json.dumps(result).encode() + b"\n"
    replies = {
        "writes half a message": line[: len(line) // 2] + b"\n",
        "answers twice": line + line,
        "writes a word first": b"scanning ...\n" + line,
        "logs first": json.dumps({"type": "log", "id": reply_id, "level": "info", "message": "first"}).encode() + b"\n" + line,
        "writes Latin-1": b"\xe9\n" + line,
        "writes a BOM": b"\xef\xbb\xbf" + line,
        "writes NULs": b"\0\0\0\n" + line,
        "nests deep": b"[" * 100_000 + b"\n" + line,
        "nests deep in an ignored member": line.replace(b'"id": ', b'"x_deep": ' + b"[" * 100_000 + b"]" * 100_000 + b', "id": ', 1),
        "writes huge numbers": line.replace(b'"to_turn": ', b'"to_turn": 99999999999999999999'),
        "writes a key twice": line.replace(b'"to_turn"', b'"from_turn": 0, "to_turn"'),
        "writes no last newline": line[:-1] if VERB == "run" else line,
        "writes nothing": b"",
    }
    return replies.get(MODE, line)


def write(reply):
    if MODE == "drips":
        for byte in reply:
            os.write(1, bytes([byte]))
        return
    sys.stdout.buffer.write(reply)
    sys.stdout.buffer.flush()


def behave():
    """Misbehaves before the answer, or instead of it."""
    if MODE == "hangs":
        time.sleep(1000)
    elif MODE == "ignores SIGTERM":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1000)
    elif MODE == "floods stdout":
        while True:
            sys.stdout.buffer.write(b"x" * 65536)
    elif MODE == "writes much to stderr":
        for _ in range(64):
            sys.stderr.write("x" * (1 << 20))
    elif MODE == "takes all memory":
        blocks = [bytearray(1 << 28) for _ in range(64)]
        sys.stderr.write(str(len(blocks)))
    elif MODE == "kills itself":
        os.kill(os.getpid(), signal.SIGKILL)
    elif MODE == "leaves a process":
        if os.fork() == 0:
            time.sleep(1000)
    elif MODE == "closes stdin":
        os.close(0)


def main():
    if not os.environ.get("JP_COMPACT_PROTOCOL") or sys.stdin.isatty() or VERB not in ("describe", "run", "worker"):
        return 64
    if VERB == "describe":
        print(json.dumps(DESCRIPTION))
        return 0
    for line in sys.stdin.buffer:
        request = json.loads(line) if line.strip() else {}
        if request.get("type") != "compact":
            continue
        if VERB == "run":
            behave()
        write(answer(request))
        if VERB == "run":
            break
    sys.stdout.flush()
    return 1 if MODE == "fails after its answer" and VERB == "run" else 0


VERB = sys.argv[1] if len(sys.argv) > 1 else ""
sys.exit(main())
