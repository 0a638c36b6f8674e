#!/usr/bin/env python3
"""The generator of the corpus of the fuzz targets.

Writes one folder and one dictionary per target below FOLDER. The inputs are the project's samples and generated ones. The
result is always the same."""

import hashlib
import json
import random
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "host/transcripts/tests/formats/samples"
# Longer inputs slow every target down and find no more bugs.
INPUT_BYTES_MAX = 24_000


def with_choices(text: bytes, choices: bytes) -> bytes:
    """Joins a text and its choices. `choices.rs` splits them."""
    return text + b"\0" + choices


def compact(value) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def pretty(value) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()


def random_choices(rng: random.Random, length: int = 24) -> bytes:
    """Returns random choices without a NUL, because the last NUL splits an input."""
    return bytes(rng.randrange(1, 256) for _ in range(length))


# JP's stream.

TEXTS = ["", "abcd", '"\\\n\U0001f600', "so it is", "aGk=", "\u200b\u2028", "x" * 300]
IDS = ["a", "b", "c\u00e9"]


def event(rng: random.Random) -> dict:
    text, name = rng.choice(TEXTS), rng.choice(["read", "grep"])
    return rng.choice([
        lambda: {"type": "turn_start"},
        lambda: {"type": "turn_start"},
        lambda: {"type": "chat_request", "content": text},
        lambda: {"type": "chat_response", "message": text},
        lambda: {"type": "chat_response", "reasoning": text, "metadata": {"anthropic_thinking_signature": "c2ln"}},
        lambda: {"type": "chat_response", "data": [text, 1]},
        lambda: {"type": "tool_call_request", "id": rng.choice(IDS), "name": name, "arguments": {"x": "aGk="}},
        lambda: {"type": "tool_call_request", "id": rng.choice(IDS), "name": name},
        lambda: {"type": "tool_call_response", "id": rng.choice(IDS), "content": text, "is_error": rng.random() < 0.3},
        lambda: {"type": "tool_call_response", "id": rng.choice(IDS), "content": "Ym9keSAw", "is_error": False},
        lambda: {"type": "inquiry_request", "id": rng.choice(IDS), "source": 1, "question": {}},
        lambda: {"type": "inquiry_response", "id": rng.choice(IDS), "answer": text},
        lambda: {"type": "config_delta", "delta": {"assistant": {"model": {"id": "anthropic/claude"}}}},
        lambda: {"type": "bookmark", "content": text},
    ])()


def overlay(rng: random.Random) -> dict:
    random_call = lambda: rng.choice([
        {"seq": rng.randrange(30), "id": rng.choice(IDS), "request": "strip"},
        {"seq": rng.randrange(30), "id": rng.choice(IDS), "response": {"replace": rng.choice(TEXTS)}},
        {"seq": rng.randrange(30), "id": rng.choice(IDS), "response": "strip"},
        {"seq": rng.randrange(30), "id": rng.choice(IDS), "omit": True},
    ])
    kind, policies = rng.choice([
        ("compaction", {"summary": {"summary": rng.choice(TEXTS)}}),
        ("compaction", {"reasoning": "strip"}),
        ("compaction", {"tool_calls": {"policy": "omit"}}),
        ("compaction", {"tool_calls": {"policy": "strip", "request": True, "response": rng.random() < 0.5}}),
        ("jp_compact_overlay", {"tool_calls": {"policy": "selective", "calls": [random_call() for _ in range(4)]}}),
        ("jp_compact_overlay", {
            "tool_calls": {"policy": "strip", "request": True, "response": True},
            "tool_overrides": {"read": {"request": "keep"}, "grep": {"response": "strip"}},
        }),
        ("jp_compact_receipt", {"strategy": "s", "options": {}, "input_sha256": "", "tier": ""}),
    ])
    random_turn = lambda: rng.choice([*range(8), 18446744073709551615])
    return {"timestamp": timestamp(60 + rng.randrange(4)), "type": kind, "from_turn": random_turn(), "to_turn": random_turn(), **policies}


def timestamp(second: int) -> str:
    return f"2026-04-02 09:{second // 60:02}:{second % 60:02}.5"


def streams(rng: random.Random):
    yield b"[]", b""
    yield (ROOT / "tests/sample/events.json").read_bytes(), b""
    for case in sorted((ROOT / "host/core/tests/cases").glob("*/events.json")):
        yield case.read_bytes(), random_choices(rng)
    for number in range(120):
        elements = [{"timestamp": timestamp(second), **event(rng)} for second in range(rng.randrange(1, 30))]
        for _ in range(rng.randrange(4)):
            elements.insert(rng.randrange(len(elements) + 1), overlay(rng))
        write = rng.choice([pretty, compact, lambda values: b" [\t" + b" ,\n\n".join(map(compact, values)) + b" \r\n]\n\n"])
        yield write(elements), random_choices(rng) if number % 4 else b""


# Transcripts of other agents.

def transcripts(rng: random.Random):
    samples = sorted(SAMPLES.iterdir())
    jp_sample = ROOT / "tests/sample/events.json"
    for path in [*samples, jp_sample]:
        text = path.read_bytes()
        # Without choices, all calls are omitted. The fuzzer finds other choices.
        yield text, b""
        for _ in range(4):
            yield text, random_choices(rng, 60)
        yield b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"), random_choices(rng)
        yield text[: rng.randrange(len(text))], random_choices(rng)
        lines = text.splitlines(keepends=True)
        if path.suffix == ".jsonl" and len(lines) > 2:
            for _ in range(2):
                selected = rng.sample(lines, rng.randrange(1, len(lines)))
                yield b"".join(selected), random_choices(rng)
            yield b"".join(line for line in lines for _ in range(2)), random_choices(rng)
    # The first line of a log, followed by another log.
    logs = [path.read_bytes() for path in samples if path.suffix == ".jsonl"]
    for _ in range(20):
        first, second = rng.sample(logs, 2)
        yield first[: first.find(b"\n") + 1] + second, random_choices(rng)
    sidecar = {"jp_compact_sidecar": 1, "format": "codex", "source": {"bytes": 1, "sha256": "0"}}
    yield compact({**sidecar, "overlays": [overlay(rng) for _ in range(3)]}), b""


# Replies of strategies.

PROTOCOL = (ROOT / "schema/PROTOCOL.md").read_text()


def examples(language: str) -> list:
    """Returns the fenced blocks of one language in PROTOCOL.md."""
    return re.findall(rf"```{language}\n(.*?)```", PROTOCOL, re.S)


def json_values(block: str) -> list:
    """Parses the consecutive JSON values of a block."""
    values, decoder, index = [], json.JSONDecoder(), 0
    while block[index:].strip():
        index += len(block[index:]) - len(block[index:].lstrip())
        try:
            value, index = decoder.raw_decode(block, index)
        except ValueError:
            break
        values.append(value)
    return values


def payload(rng: random.Random) -> dict:
    start, length = rng.randrange(4), rng.randrange(4)
    random_call = lambda: rng.choice([
        {"seq": rng.randrange(60), "request": "strip"},
        {"seq": rng.randrange(60), "response": {"replace": rng.choice(TEXTS)}},
        {"seq": rng.randrange(60), "response": "strip"},
        {"seq": rng.randrange(60), "omit": True},
    ])
    policies = rng.choice([
        {"summary": {"summary": rng.choice(TEXTS)}},
        {"reasoning": "strip"},
        {"tool_calls": {"policy": "omit"}},
        {"tool_calls": {"policy": "strip", "request": True, "response": rng.random() < 0.5}},
        {"tool_calls": {"policy": "selective", "calls": [random_call() for _ in range(rng.randrange(4))]}},
        {"reasoning": "strip", "tool_calls": {"policy": "strip", "request": False, "response": True}},
    ])
    return {"from_turn": start, "to_turn": start + length, **policies}


def replies(rng: random.Random):
    for value in (value for block in examples("json") for value in json_values(block)):
        if isinstance(value, dict):
            yield compact({**value, "id": "c1"}) + b"\n", random_choices(rng)
    leading_lines = [
        {"type": "progress", "id": "c1", "done": 1, "total": 2, "message": "half"},
        {"type": "log", "id": "c1", "level": "warn", "message": "so"},
        {"type": "later", "x": [1, {"y": None}]},
    ]
    need = {"kind": "llm.complete", "system": "s", "messages": [{"role": "user", "content": "c"}], "max_tokens": 9}
    needs = {"k": need, "t": {"kind": "tokens.count", "text": "t"}}
    terminal_lines = [
        {"type": "decline", "id": "c1", "reason": "nothing"},
        {"type": "error", "id": "c1", "code": "internal", "message": "m", "transient": True, "hint": "h"},
        {"type": "needs", "id": "c1", "requests": needs, "state": "s"},
    ]
    diagnostic = {"severity": "warning", "code": "c", "message": "m", "turn": 1, "seq": 2}
    for number in range(160):
        result = {"type": "result", "id": "c1", "compactions": [payload(rng) for _ in range(rng.randrange(1, 4))]}
        if rng.random() < 0.2:
            result["diagnostics"] = [diagnostic]
        lines = rng.sample(leading_lines, rng.randrange(3)) + [result if number % 4 else rng.choice(terminal_lines)]
        # The first choices select the whole range, because the streams have only a few turns.
        yield b"\n".join(map(compact, lines)) + b"\n", bytes([rng.randrange(1, 5)]) + b"\x01" * 3 + random_choices(rng, 12)


# Manifests.

def manifests(rng: random.Random):
    for path in sorted(ROOT.glob("plugins/*/plugin.toml")):
        yield path.read_bytes(), b""
    for block in examples("toml"):
        yield block.encode(), b""
    random_list = lambda words: rng.choice([[], words[:1], words])
    for _ in range(80):
        lines = [
            "manifest = 1", f'name = "{rng.choice(["a", "keep-errors", "jp-x", "A", "a--b", "x1"])}"',
            f'version = "{rng.choice(["1", "0.1.0", ""])}"', 'description = "d \\u00e9"', "protocols = [1, 2]", "[run]",
            rng.choice(['command = ["./run", "-x"]', "command = []", 'dylib = "libx.so"', 'command = [""]']),
            f'mode = "{rng.choice(["auto", "one-shot", "worker"])}"',
            f'timeout = "{rng.choice(["60s", "0s", "1500ms", "2m", "999999999m", "01s"])}"',
            "[permissions]", f"llm = {rng.choice(['true', 'false'])}", "network = true", "subprocess = false",
            f"env = {json.dumps(random_list(['HOME', '_X1', '1X', 'A B']))}",
            f"read = {json.dumps(random_list(['/etc', '/', 'etc', '/a/../b']))}",
            f'runtime = "{rng.choice(["python", "node", "sh", "", "perl"])}"',
        ]
        missing_line = rng.randrange(len(lines) * 2)
        yield "\n".join(line for number, line in enumerate(lines) if number != missing_line).encode() + b"\n", b""


# Configurations.

RULES = [
    '[assistant.model]\nid = "anthropic/claude"\n',
    "[conversation.compaction]\nrules = []\n",
    '[[conversation.compaction.rules]]\nkeep_last = 2\nreasoning = "strip"\n',
    '[conversation.compaction]\nrules = ["s:..-3", "r", { keep_first = "5h", tool_calls = "strip-requests" }]\n',
    '[[conversation.compaction.rules]]\n[conversation.compaction.rules.summary]\nmodel.id = "openai/gpt"\n',
    '[providers.llm.aliases.fast]\nprovider = "ollama"\nname = "q"\n[assistant]\nmodel = "fast"\n',
    "[conversation.compaction]\nkeep_last = 3\n[conversation.tools.read.compaction]\nrequest = 1\n",
]
# The layer of a text: its choice byte modulo five.
WORKSPACE, USER, FILE, SET, JP = (bytes([5 + layer]) for layer in range(5))


def configurations(rng: random.Random):
    folder = ROOT / "host/config/src"
    files = [(folder / name).read_bytes() for name in ["example.toml", "built_in.toml"]]
    readme_examples = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    commented = files[0].replace(b"# ", b"").replace(b"#\n", b"\n")
    parts = [b"[" + part for text in files for part in re.split(rb"^\[", text, flags=re.M)[1:]]
    parts += [b"[" + part for part in re.split(rb"^\[", commented, flags=re.M)[1:]]
    parts += [text.encode() for text in readme_examples]
    settings = [b"conversation.compaction.keep_last=5", b"llm.model=anthropic/x", b"conversation.compaction.min_saving = 2"]
    for text in [*files, *parts]:
        for source in [WORKSPACE, USER, FILE]:
            yield text, source
    for text in settings:
        yield text, SET
    for text in RULES:
        yield text.encode(), JP
    for _ in range(120):
        layers = [rng.choice(parts) for _ in range(rng.randrange(1, 4))]
        sources = [rng.choice([WORKSPACE, USER, FILE]) for _ in layers]
        if rng.random() < 0.3:
            layers, sources = [*layers, rng.choice(settings)], [*sources, SET]
        if rng.random() < 0.5:
            layers, sources = [rng.choice(RULES).encode(), *layers][:4], [JP, *sources]
        yield b"\x01".join(layers), b"".join(sources)


# Records.

def records(rng: random.Random):
    paths = [*sorted(SAMPLES.iterdir()), ROOT / "tests/sample/events.json"]
    for number, path in enumerate(paths):
        text = path.read_text()
        forms, without_bom = [text], text.removeprefix("\ufeff")
        try:
            forms.append(json.loads(without_bom))
        except ValueError:
            forms.append([json.loads(line) for line in without_bom.split("\n") if line.strip()])
        for form in forms:
            record = {"id": rng.choice([number, "c", None, [1, {"a": 2}]]), "transcript": form}
            if rng.random() < 0.3:
                record["format"] = rng.choice(["jp", "codex", "openai-chat", "no-such"])
            yield compact(record) + b"\n", random_choices(rng, 4)
    small_transcript = compact([{"timestamp": timestamp(1), "type": "chat_request", "content": "so"}])
    invalid_records = [
        b"{}", b"[1]", b"not json", b'{"id":1,"path":"/etc/passwd"}', b'{"id":1.50,"transcript":3}',
        b'{"id":"\xff"}', b'{"id":2,"transcript":[],"path":"x"}', b'{"transcript":null,"path":null,"format":null}',
        b"  ", b"\xc3",
    ]
    for _ in range(40):
        lines = [rng.choice([*invalid_records, b'{"id": %d, "transcript":%s}' % (rng.randrange(99), small_transcript)]) for _ in range(4)]
        yield rng.choice([b"\n", b"\r\n", b"\n\n"]).join(lines), random_choices(rng, 4)


# A word is a JSON string with its quotes, or a TOML key.
WORDS = {
    "json": re.compile(rb'"[A-Za-z0-9_.$@-]{1,32}"'),
    "toml": re.compile(rb"[A-Za-z_][A-Za-z0-9_.-]{1,32}"),
}
TARGETS = {
    "stream": (streams, "json"),
    "formats": (transcripts, "json"),
    "replies": (replies, "json"),
    "manifest": (manifests, "toml"),
    "configuration": (configurations, "toml"),
    "records": (records, "json"),
}


def dictionary(texts: list, language: str) -> str:
    """Returns the words that occur in several inputs: names of members and types, but not contents."""
    counts = Counter(word for text in set(texts) for word in set(WORDS[language].findall(text)))
    words = sorted(word for word, count in counts.items() if count > 1)
    escaped = ("".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02x}" for b in word) for word in words)
    return "".join(f'"{word}"\n' for word in escaped)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: corpus.py FOLDER")
    for target, (inputs, language) in TARGETS.items():
        folder = Path(sys.argv[1]) / target
        folder.mkdir(parents=True, exist_ok=True)
        # One generator per target: a new sample for one target does not change the others.
        accepted = [(text, choices) for text, choices in inputs(random.Random(target)) if len(text) <= INPUT_BYTES_MAX]
        for text, choices in accepted:
            data = with_choices(text, choices) if choices else text
            (folder / hashlib.sha256(data).hexdigest()[:32]).write_bytes(data)
        folder.with_suffix(".dict").write_text(dictionary([text for text, _ in accepted], language))
        print(f"{target}: {len(accepted)} inputs")


if __name__ == "__main__":
    main()
