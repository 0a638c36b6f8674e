"""Tests of the plugin in plugins/claude-code with the real Claude Code: `claude_plugin.py JP_COMPACT BIN [CASE...]`.

Each case has its own home and its own provider on the loopback interface. The provider rejects what Anthropic rejects:
calls without results, wrong signatures, empty content, and an open turn without its thinking.
"""

import concurrent.futures
import fcntl
import functools
import json
import os
import pathlib
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import traceback
import zlib

import provider
import run

PLUGIN = pathlib.Path(__file__).resolve().parents[2] / "plugins/claude-code"
# Words in the first line of the list of facts.
LISTED = "as listed by a program from its events"
# Texts that Claude Code adds when a command runs.
COMMANDS = re.compile(r"<(local-command-caveat|command-name|local-command-stdout)>")


class Session(run.ClaudeCode):
    """A session with the plugin. Options of the plugin are in `options`."""

    def configure(self):
        super().configure()
        self.env["CLAUDE_CODE_ENABLE_FUNCTION_HOOKS"] = "1"
        self.env["PATH"] = f"{self.jp_compact.parent}:{self.env['PATH']}"
        self.options = {}

    def ask(self, prompt, **env):
        """Runs a prompt or a command in the session. Returns the messages of Claude Code."""
        settings = {"pluginConfigs": {"jp-compact@inline": {"options": self.options}}}
        words = ["claude", *(["-c"] if any(self.provider.folder.iterdir()) else []), "--plugin-dir", str(PLUGIN),
                 "--settings", json.dumps(settings), "--output-format", "stream-json", "--verbose"]
        before, self.env = self.env, self.env | env
        try:
            return [json.loads(line) for line in self.run(self.with_prompt(shlex.join(words), prompt)).splitlines()]
        finally:
            self.env = before

    def turns(self, *turns, **env):
        for turn in turns:
            self.ask(run.PROMPT.format(turn), **env)

    def bodies(self):
        requests = [json.loads(path.read_text()) for path in sorted(self.provider.folder.iterdir())]
        errors = [request["error"] for request in requests if request["error"]]
        assert not errors, errors
        return [request["body"] for request in requests]

    def resumed_body(self, turn):
        """Returns the request of a new prompt in the resumed session."""
        self.turns(turn)
        return self.bodies()[-1]

    def resumed_parts(self, turn):
        parts = run.conversation(self.parts(self.resumed_body(turn)))
        assert f"jpc-turn-{turn}" in parts.pop()[1]
        return [part for part in parts if not COMMANDS.match(str(part[-1]))]

    def view(self, body, answer, *run_options):
        """Returns the parts of the view of a request and its answer, as jp-compact makes it from stdin."""
        messages = [*map(without_reminders, body["messages"]), {"role": "assistant", "content": answer}]
        record = {"id": 1, "format": "anthropic", "transcript": {"model": "m", "max_tokens": 1, "messages": messages}}
        done = subprocess.run([self.jp_compact, "batch", "--ndjson", "--view", *run_options], env=self.env, check=True,
                              input=json.dumps(record) + "\n", capture_output=True, text=True)
        return run.conversation(self.parts(json.loads(done.stdout)["view"]))


def without_reminders(message):
    """Returns a message as Claude Code's hook shows it: without the texts that Claude Code adds to each request."""
    def cleaned(value):
        if isinstance(value, str):
            return run.REMINDER.sub("", value)
        if isinstance(value, list):
            return [part for part in map(cleaned, value) if part.get("text") != ""]
        return {key: cleaned(part) if key in ("text", "content") else part for key, part in value.items()}
    return cleaned(message)


def statuses(messages):
    return [message["text"] for message in messages if message.get("subtype") == "ui_status"]


def size(parts):
    return len(json.dumps(parts, ensure_ascii=False))


def compaction(session):
    """`/compact` takes the view of jp-compact, without asking the model, and a resumed session keeps it."""
    session.turns(1, 2, 3)
    whole = session.bodies()[-1]
    expected = session.view(whole, "Turn 3 is done after 1 results.", "--profile", "agent")
    (status,) = statuses(session.ask("/compact"))[-1:]
    before, after = (int(number.replace(",", "")) for number in re.findall(r"[\d,]+(?= (?:->|tokens))", status))
    assert session.bodies()[-1] == whole, "the model was asked"
    small = session.resumed_parts(6)
    run.same("plugin", "the resumed session", small, expected)
    run.same("plugin", "the session resumed again", session.resumed_parts(7)[: len(small)], small)
    reported, saved = 1 - after / before, 1 - size(small) / size(run.conversation(session.parts(whole)))
    assert abs(saved - reported) / reported <= 0.1, f"the request is {saved:.1%} smaller, and the status reported {reported:.1%}"
    return f"{saved:.1%} less, the status reported {reported:.1%}"


def strategies(session):
    """The option `strategies` replaces the profile."""
    session.options = {"strategies": ["strip-tools:mode=omit"], "minimum_saving": 5}
    session.turns(1, 3, 4, 5)
    expected = session.view(session.bodies()[-1], "Turn 5 is done after 1 results.", "--strategy", "strip-tools:mode=omit")
    session.ask("/compact")
    run.same("plugin", "the resumed session", session.resumed_parts(6), expected)


def automatic(session):
    """Automatic compaction in an open turn keeps the thinking of that turn. The model continues with its calls.

    The copies of that turn's responses have the ids of the originals, so a session that is resumed without a terminal shows
    the originals.
    """
    for path in session.app.glob("out-*.txt"):
        path.write_text(path.read_text() * 3)
    session.turns(1, CLAUDE_CODE_AUTO_COMPACT_WINDOW="100000")
    messages = session.ask(run.PROMPT.format(2), CLAUDE_CODE_AUTO_COMPACT_WINDOW="100000")
    assert messages[-1]["result"] == "Turn 2 is done after 12 results.", messages[-1]
    boundaries = [message for message in messages if message.get("subtype") == "compact_boundary"]
    assert boundaries and all(boundary["compact_metadata"]["trigger"] == "auto" for boundary in boundaries), boundaries
    assert any("->" in status for status in statuses(messages)), statuses(messages)
    bodies = session.bodies()
    sizes = [size(body["messages"]) for body in bodies]
    assert all(body.get("tools") for body in bodies), "Claude Code asked for a summary"
    drops = [at for at in range(1, len(sizes)) if sizes[at] < 0.6 * sizes[at - 1]]
    assert drops, sizes
    texts = json.dumps(session.resumed_body(6)["messages"])
    assert all(f"I read file 2-{number}." in texts for number in range(1, 13))
    return f"{sizes[drops[0] - 1]:,} -> {sizes[drops[0]]:,} characters in the open turn"


def sub_agent(session):
    """Automatic compaction of a sub-agent is answered too, and the main conversation stays as it is."""
    for path in session.app.glob("out-*.txt"):
        path.write_text(path.read_text() * 3)
    messages = session.ask(run.PROMPT.format(10), CLAUDE_CODE_AUTO_COMPACT_WINDOW="100000")
    assert messages[-1]["result"] == "Turn 10 is done after 1 results.", messages[-1]
    bodies = session.bodies()
    assert all(body.get("tools") for body in bodies), "Claude Code asked for a summary"
    is_sub = ["jpc-turn-10" not in json.dumps(body["messages"]) for body in bodies]
    sizes = [size(body["messages"]) for body, sub in zip(bodies, is_sub) if sub]
    drops = [at for at in range(1, len(sizes)) if sizes[at] < 0.6 * sizes[at - 1]]
    assert len(sizes) >= 13 and drops, sizes
    assert any("->" in status for status in statuses(messages)), statuses(messages)
    main = [body for body, sub in zip(bodies, is_sub) if not sub]
    assert len(main) == 2 and "Turn 2 is done after 12 results." in json.dumps(main[-1]["messages"]), len(main)
    # The sub-agent's file belongs to the session, so a copy of the session has it too.
    (path,) = session.home.glob(".claude/projects/*/*.jsonl")
    report = json.loads(session.jp("fork", path.stem, "--compact", "--json"))
    copies = [copy.name for copy in pathlib.Path(report["path"]).with_suffix("").glob("subagents/*.jsonl")]
    assert len(copies) == 1, copies
    return f"{sizes[drops[0] - 1]:,} -> {sizes[drops[0]]:,} characters in the sub-agent"


def terminal(session):
    """In a terminal, the status line shows the saving, and a compaction that `--resume` lost is repeated."""
    for path in session.app.glob("out-*.txt"):
        path.write_text(path.read_text() * 3)
    session.turns(1, 2, CLAUDE_CODE_AUTO_COMPACT_WINDOW="100000")
    lost = size(session.resumed_body(6)["messages"])
    (path,) = session.home.glob(".claude/projects/*/*.jsonl")
    settings = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": {"approved": ["k"], "rejected": []},
                "projects": {str(session.app): {"hasTrustDialogAccepted": True}}}
    (session.home / ".claude.json").write_text(json.dumps(settings))
    command = ["claude", "--resume", path.stem, "--plugin-dir", str(PLUGIN), "--model", "claude-sonnet-4-5"]
    with Terminal(command, session) as screen:
        screen.wait_for("tokens(-")
        screen.wait_for("Compacted")
        screen.send("jpc-turn-7: read the files\r")
        screen.wait_for("Turn7isdone")
    body = session.bodies()[-1]
    assert json.dumps(body["messages"]).count("I read file 2-11.") == 1
    assert size(body["messages"]) < 0.5 * lost, (size(body["messages"]), lost)
    return f"{lost:,} -> {size(body['messages']):,} characters after a compaction that was lost"


class Terminal:
    """A program in a terminal. Only the texts of its output are compared, without spaces and escape sequences."""

    def __init__(self, command, session):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(session.app)
            os.execvpe(command[0], command, session.env | {"TERM": "xterm-256color"})
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self.output = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)

    def send(self, text):
        # Text and a newline in one write are a paste.
        for part in re.findall(r"[^\r]+|\r", text):
            os.write(self.fd, part.encode())
            select.select([self.fd], [], [], 1)

    def wait_for(self, text):
        end = time.monotonic() + 60
        while text not in (seen := self.text()):
            assert time.monotonic() < end, f"{text!r} is not in {seen[-2000:]!r}"
            if select.select([self.fd], [], [], 1)[0]:
                self.output += os.read(self.fd, 65536)

    def text(self):
        plain = re.sub(rb"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07]*\x07|\x1b.", b"", self.output)
        return re.sub(r"\s+", "", plain.decode(errors="replace"))


def parallel_calls_and_images(session):
    """Calls of one response keep their order, and an image in a result stays."""
    (session.app / "picture.png").write_bytes(png(24))
    session.turns(9, 8, 1, 3)
    session.ask("/compact")
    body = json.dumps(session.resumed_body(6)["messages"])
    assert body.count('"image"') == 1, body.count('"image"')
    assert body.count("toolu_0003_") == 4, body.count("toolu_0003_")


def png(side):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + os.urandom(3 * side) for _ in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def falls_back(session, options, reason):
    """Claude Code asks the model for its own summary, and the status has the reason."""
    session.turns(1, 3)
    session.options = options
    before = len(session.bodies())
    messages = session.ask("/compact")
    assert len(session.bodies()) > before, "Claude Code asked for no summary"
    assert any(message.get("compact_result") == "success" for message in messages), messages[-3:]
    assert any(reason in status for status in statuses(messages)), statuses(messages)
    session.turns(6)


def give_back(session):
    """The plugin adds the facts of the compacted part after Claude Code's compaction, but not after the plugin's."""
    session.ask("jpc-turn-1: read the files. Never touch the folder vendor.")
    session.ask("/compact")
    assert LISTED not in json.dumps(session.resumed_body(3)), "facts were given back after a compaction by the plugin"
    session.options = {"minimum_saving": 100}
    session.ask("/compact")
    body = json.dumps(session.resumed_body(6))
    facts = body[body.index(LISTED) :]
    assert "Never touch the folder vendor." in facts and "`cat out-1-2.txt`" in facts, facts[:2000]


def latency(session):
    """Prints the time of `/compact` at about 40,000 tokens. It needs an optimized jp-compact, and runs only if it is named."""
    session.turns(1, 2)
    times = []
    for number in range(5):
        log = session.root / f"debug-{number}.log"
        (path,) = session.home.glob(".claude/projects/*/*.jsonl")
        whole = path.read_bytes()
        words = ["claude", "-c", "--plugin-dir", str(PLUGIN), "--debug-file", str(log)]
        session.run(session.with_prompt(shlex.join(words), "/compact"))
        (settled,) = re.findall(r"jp-compact@inline session.compact settled in ([\d.]+)ms", log.read_text())
        tokens, *_ = re.findall(r"\$\.ui\.status \(jp-compact\): ([\d,]+ -> [\d,]+) tokens", log.read_text())
        times.append(float(settled))
        # The next compaction has the same messages.
        path.write_bytes(whole)
    return f"{tokens} tokens, {', '.join(f'{time:.0f}' for time in sorted(times))} ms"


def commands(session):
    """The commands need no model. The printed commands of `undo` and `fork` resume a session, and the original is unchanged."""
    session.turns(1, 2, 3)
    whole = session.bodies()[-1]
    (path,) = session.home.glob(".claude/projects/*/*.jsonl")
    before = len(session.bodies())
    fork = session.ask("/jp-compact:fork")[-1]["result"]
    assert "-> " in session.ask("/jp-compact:diff")[-1]["result"]
    session.ask("/compact")
    assert "Last compaction: " in (stats := session.ask("/jp-compact:stats")[-1]["result"]), stats
    assert "Function hooks are off" not in stats
    original = path.read_bytes()
    undone = session.ask("/jp-compact:undo")[-1]["result"]
    assert path.read_bytes().startswith(original), "the original was changed"
    assert len(session.bodies()) == before, "the model was asked"
    small, large = (resumed_size(session, text) for text in (fork, undone))
    assert small < 0.5 * size(whole["messages"]) < 0.9 * large < size(whole["messages"]), (small, large)


def unknown_session(session):
    """`undo` reports that a session has no transcript, also before Claude Code has made the folder of transcripts."""
    assert not (session.home / ".claude/projects").exists()
    words = ["sh", PLUGIN / "hooks/command.sh", "undo", "no-such-id", session.jp_compact, "agent"]
    done = subprocess.run(words, env=session.env, capture_output=True, text=True)
    expected = (0, "The transcript of session no-such-id was not found.\n", "")
    assert (done.returncode, done.stdout, done.stderr) == expected, done


def resumed_size(session, text):
    (command,) = re.findall(r"claude --resume [-0-9a-f]{36}", text)
    session.run(session.with_prompt(command, run.PROMPT.format(7)))
    return size(session.bodies()[-1]["messages"])


def without_function_hooks(session):
    """Claude Code 2.1.330 always loads the module, so the command hook is run separately."""
    off = {key: value for key, value in session.env.items() if key != "JP_COMPACT_FUNCTION_HOOKS"}
    for env, is_reported in ((off, True), (off | {"JP_COMPACT_FUNCTION_HOOKS": "1"}, False)):
        hook = subprocess.run([PLUGIN / "hooks/function-hooks-off.sh"], env=env, input="{}", capture_output=True, text=True)
        assert hook.returncode == 0 and ("CLAUDE_CODE_ENABLE_FUNCTION_HOOKS=1" in hook.stdout) == is_reported, hook
        assert not is_reported or json.loads(hook.stdout)["systemMessage"]


def checks(session):
    """`claude plugin validate` and `claude plugin test`."""
    for folder in (PLUGIN, PLUGIN.parents[1]):
        report = session.run(["claude", "plugin", "validate", str(folder)])
        assert "error TS" not in report, report
    session.run(["claude", "plugin", "test", str(PLUGIN)])


CASES = {
    "compaction": compaction,
    "strategies": strategies,
    "automatic": automatic,
    "sub-agent": sub_agent,
    "terminal": terminal,
    "parallel-calls-and-images": parallel_calls_and_images,
    "failed-strategy": functools.partial(falls_back, options={"strategies": ["no-such-strategy"]}, reason="no-such-strategy"),
    "missing-executable": functools.partial(falls_back, options={"executable": "/no/jp-compact"}, reason="ENOENT"),
    "small-saving": functools.partial(falls_back, options={"minimum_saving": 100}, reason="less than 100 %"),
    "give-back": give_back,
    "commands": commands,
    "unknown-session": unknown_session,
    "without-function-hooks": without_function_hooks,
    "checks": checks,
    "latency": latency,
}


def check(name, jp_compact, bin):
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="plugin-", ignore_cleanup_errors=True) as folder:
        try:
            result = CASES[name](Session(pathlib.Path(folder).resolve() / "w", jp_compact, bin))
        except Exception:
            return False, f"{name}: failed\n{traceback.format_exc()}"
    return True, f"{name}: {result or 'passed'}, {time.monotonic() - started:.0f} s"


def main():
    jp_compact, bin = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    names = sys.argv[3:] or [name for name in CASES if name != "latency"]
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        results = list(pool.map(lambda name: check(name, jp_compact, bin), names))
    for _, text in results:
        print(text)
    print(f"{sum(ok for ok, _ in results)} passed")
    sys.exit(0 if all(ok for ok, _ in results) else 1)


if __name__ == "__main__":
    main()
