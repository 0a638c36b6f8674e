"""Forks of the sessions of real agents, which the agents then resume: `run.py JP_COMPACT BIN [AGENT...]`.

For each agent: make a session of five turns against the loopback provider, `fork --compact`, run the printed command
with one more prompt, and compare the recorded request with `print --compacted --as PROVIDER`. Then resume the original,
and compare its request with `print --as PROVIDER`.

Not compared, because the agent or the renderer adds it: system prompts, `<system-reminder>` texts and attachments of
Claude Code, the environment context of Codex and of Qwen Code, the status lines of OpenHands' terminal, and our
`[Continue]`. Signed thinking and encrypted reasoning are compared.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time
import traceback

import provider

TURNS = 5
LINES = 85
PROFILE = "default"
REMINDER = re.compile(r"\s*<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
# When OpenHands makes a request, it adds these lines to each result of its tool. The events do not contain them.
STATUS = re.compile(r"\s*\[(The command completed with|Current working directory:|Python interpreter:|Command finished with) [^\n]*\]")
# Texts that agents add: the context of Codex, and the exchange with which Qwen Code begins each conversation.
ADDED = ("<environment_context>", "This is the Qwen Code.", "Got it. Thanks for the context!")
CONTINUE = "[Continue]"
PROMPT = "jpc-turn-{}: read the files"


def text_of(content):
    """Returns the text of a message or of a result."""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [])


def parsed(arguments):
    return json.loads(arguments) if isinstance(arguments, str) else arguments


def parts_anthropic(body):
    """Returns the parts of a conversation: texts, calls, and results."""
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            kind = block["type"]
            if kind == "text":
                yield message["role"], block["text"]
            elif kind == "tool_use":
                yield "call", block["id"], block["name"], block["input"]
            elif kind == "tool_result":
                yield "result", block["tool_use_id"], text_of(block.get("content"))
            elif kind == "thinking":
                yield "thinking", block["thinking"], block["signature"]


def parts_responses(body):
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "message":
            yield item["role"], text_of(item["content"])
        elif kind == "function_call":
            yield "call", item["call_id"], item["name"], parsed(item["arguments"])
        elif kind == "reasoning":
            yield "thinking", item["encrypted_content"]
        elif kind == "function_call_output":
            yield "result", item["call_id"], text_of(item["output"])


def parts_chat(body):
    for message in body["messages"]:
        if message["role"] == "tool":
            yield "result", message["tool_call_id"], text_of(message["content"])
            continue
        if message.get("content"):
            yield message["role"], text_of(message["content"])
        for call in message.get("tool_calls") or []:
            yield "call", call["id"], call["function"]["name"], parsed(call["function"]["arguments"])


def parts_gemini(body):
    for content in body["contents"]:
        for part in provider.parts_once(content):
            if "text" in part:
                yield "user" if content["role"] == "user" else "assistant", part["text"]
            elif "functionCall" in part:
                yield "call", part["functionCall"]["name"], part["functionCall"].get("args", {})
            elif "functionResponse" in part:
                yield "result", part["functionResponse"]["name"], json.dumps(part["functionResponse"]["response"])


def conversation(parts):
    """Returns the parts without those that the agent or the renderer adds."""
    kept = []
    for kind, *rest in parts:
        if kind in ("system", "developer"):
            continue
        *ids, last = rest
        if isinstance(last, str):
            last = STATUS.sub("", REMINDER.sub("", last)).strip()
            if not last or last == CONTINUE or last.startswith(ADDED):
                continue
        kept.append((kind, *ids, last))
    return kept


class Agent:
    """An agent in a folder of its own, with its own home and its own provider."""

    name = command = form = ""
    # The greatest difference of a saving from the reported one, as a share.
    error = 0.1
    parts = staticmethod(parts_anthropic)

    def __init__(self, root, jp_compact, bin):
        self.root, self.home, self.app = root, root / "home", root / "app"
        self.home.mkdir(parents=True)
        self.app.mkdir()
        self.jp_compact = jp_compact
        self.provider = provider.Provider(root / "requests")
        self.env = {"PATH": f"{bin}:{os.environ['PATH']}", "HOME": str(self.home), "TMPDIR": str(root), "LANG": "C.UTF-8"}
        for turn, calls in provider.CALLS.items():
            for number in range(1, calls + 1):
                name = f"{turn}-{number}"
                line = "file {0} line {1}: the quick brown fox jumps over the lazy dog {2}\n"
                lines = [line.format(name, at, provider.digest(f"{name} {at}")) for at in range(LINES)]
                (self.app / f"out-{name}.txt").write_text("".join(lines))
        self.configure()

    def run(self, words, expected=0):
        shell = isinstance(words, str)
        done = subprocess.run(words, shell=shell, cwd=self.app, env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120)
        if done.returncode != expected:
            raise AssertionError(f"{words} exited with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done.stdout

    def jp(self, *words):
        return self.run([str(self.jp_compact), *words])

    def make_session(self):
        for turn in range(1, TURNS + 1):
            self.run(self.turn(turn))

    def last_request(self):
        """Returns the parts of the last recorded conversation."""
        requests = sorted(self.provider.folder.iterdir())
        bodies = [json.loads(path.read_text()) for path in requests]
        assert all(body["error"] is None for body in bodies), [body["error"] for body in bodies]
        marked = [body["body"] for body in bodies if provider.MARK.search(json.dumps(body["body"])) and body["body"].get("tools")]
        return conversation(self.parts(marked[-1]))

    def resumed(self, command, turn):
        """Resumes a session with one more prompt. Returns the conversation before that prompt."""
        self.run(self.with_prompt(command, PROMPT.format(turn)))
        *before, prompt = self.last_request()
        assert prompt[0] == "user" and f"jpc-turn-{turn}" in prompt[1], prompt
        return before

    def printed(self, path, *options):
        return conversation(self.parts(json.loads(self.jp("print", str(path), "--as", self.form, *options))))

    def original(self):
        """Returns the id of the session, and its file."""
        (session,) = json.loads(self.jp("list", "--json", "--agent", self.name))["sessions"]
        return session["id"], pathlib.Path(session["path"])

    def check(self):
        self.make_session()
        id, path = self.original()
        digest = self.digest(path)
        # A copy gets the overlays, because a sidecar next to the original would change the view of the original.
        copy = self.copied(path)
        self.jp(str(copy), "--profile", PROFILE)
        report = json.loads(self.jp("fork", id, f"--compact={PROFILE}", "--json"))
        command = report["session"]["resume"]
        small = self.resumed(command, TURNS + 1)
        same(self.name, "the fork", small, self.printed(copy, "--compacted"))
        assert self.digest(path) == digest, "the original was changed"
        whole = self.resumed(self.resume_original(id), TURNS + 2)
        same(self.name, "the original", whole, self.printed(copy))
        return self.sizes(report, whole, small)

    def copied(self, path):
        copy = self.root / f"copy{path.suffix}"
        copy.write_bytes(path.read_bytes())
        return copy

    def digest(self, path):
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def sizes(self, report, whole, small):
        before, after = (len(json.dumps(parts, ensure_ascii=False)) for parts in (whole, small))
        tokens = report["report"]["tokens"]
        # In shares, because a token has no fixed number of characters.
        reported, saved = 1 - tokens["view_after"] / tokens["view_before"], 1 - after / before
        error = abs(saved - reported) / reported
        result = f"{self.name}: {before:,} -> {after:,} characters, {saved:.1%} less, the report has {reported:.1%}"
        assert error <= self.error, result
        return result


def same(agent, what, request, printed):
    for index in range(max(len(request), len(printed))):
        left, right = (parts[index] if index < len(parts) else None for parts in (request, printed))
        assert left == right, f"{agent}: part {index} of {what} differs\n  request: {left!r:.600}\n  print:   {right!r:.600}"


class ClaudeCode(Agent):
    name, form = "claude-code", "anthropic"

    def configure(self):
        self.env |= {"ANTHROPIC_BASE_URL": self.provider.url, "ANTHROPIC_API_KEY": "k", "DISABLE_AUTOUPDATER": "1",
                     "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "MAX_THINKING_TOKENS": "2000"}

    def with_prompt(self, command, prompt):
        return f"{command} -p {shlex.quote(prompt)} --model claude-sonnet-4-5 --allowedTools Bash"

    def turn(self, turn):
        return self.with_prompt("claude" if turn == 1 else "claude -c", PROMPT.format(turn))

    def resume_original(self, id):
        return f"claude --resume {id}"


class Codex(Agent):
    name, form, parts = "codex", "openai-responses", staticmethod(parts_responses)

    def configure(self):
        folder = self.home / ".codex"
        folder.mkdir()
        (folder / "config.toml").write_text(
            f'model = "gpt-5"\nmodel_provider = "mock"\ninclude_permissions_instructions = false\n'
            f'[model_providers.mock]\nname = "mock"\nbase_url = "{self.provider.url}/v1"\nwire_api = "responses"\nenv_key = "K"\n')
        self.env["K"] = "k"

    def with_prompt(self, command, prompt):
        # `codex resume` is for a terminal. `codex exec resume` is the same without one.
        command = command.replace("codex resume", "codex exec resume")
        return f"{command} --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox {shlex.quote(prompt)}"

    def turn(self, turn):
        return self.with_prompt("codex exec" if turn == 1 else "codex exec resume --last", PROMPT.format(turn))

    def resume_original(self, id):
        return f"codex resume {id}"


class Pi(Agent):
    name, form = "pi", "anthropic"

    def configure(self):
        folder = self.home / ".pi/agent"
        folder.mkdir(parents=True)
        cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        model = {"id": "m1", "name": "m1", "reasoning": True, "input": ["text"], "contextWindow": 200000,
                 "maxTokens": 8000, "cost": cost}
        mock = {"baseUrl": self.provider.url, "apiKey": "k", "api": "anthropic-messages", "models": [model]}
        (folder / "models.json").write_text(json.dumps({"providers": {"mock": mock}}))
        self.env["PI_OFFLINE"] = "1"

    def with_prompt(self, command, prompt):
        return f"{command} -p --provider mock --model m1 --thinking low {shlex.quote(prompt)}"

    def turn(self, turn):
        return self.with_prompt("pi" if turn == 1 else "pi -c", PROMPT.format(turn))

    def resume_original(self, id):
        return f"pi --session {id}"


class OpenCode(Agent):
    name, form, parts = "opencode", "openai", staticmethod(parts_chat)

    def configure(self):
        options = {"baseURL": f"{self.provider.url}/v1", "apiKey": "k"}
        mock = {"npm": "@ai-sdk/openai-compatible", "name": "mock", "options": options, "models": {"m1": {"name": "m1"}}}
        config = {"provider": {"mock": mock}, "model": "mock/m1", "small_model": "mock/m1", "autoupdate": False}
        (self.app / "opencode.json").write_text(json.dumps(config))
        self.env |= {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1",
                     "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}

    def with_prompt(self, command, prompt):
        # `opencode --session` is for a terminal. `opencode run --session` is the same without one.
        return f"{command.replace('opencode --session', 'opencode run --session')} {shlex.quote(prompt)}"

    def turn(self, turn):
        return self.with_prompt("opencode run" if turn == 1 else "opencode run -c", PROMPT.format(turn))

    def resume_original(self, id):
        return f"opencode --session {id}"

    def export(self, id):
        path = self.root / "export.json"
        self.run(f"opencode export {id} > {path}")
        return path

    def original(self):
        (session,) = json.loads(self.jp("list", "--json", "--agent", self.name))["sessions"]
        self.id = session["id"]
        return self.id, self.export(self.id)

    def resumed(self, command, turn):
        if turn == TURNS + 2:
            # The database holds the original, and `check` compares only an old export. So it is exported again.
            before = (self.root / "copy.json").read_bytes()
            assert self.export(self.id).read_bytes() == before, "the original was changed"
        return super().resumed(command, turn)


class GeminiCli(Agent):
    name, form, parts = "gemini-cli", "gemini", staticmethod(parts_gemini)
    # A session that is resumed in another minute, as on a slow machine, has responses without a call. They are counted, but
    # neither Gemini CLI nor `print` sends them.
    error = 0.15

    def configure(self):
        folder = self.home / ".gemini"
        folder.mkdir()
        # At its start, Gemini CLI deletes the second file of a session, which can be the one with the conversation.
        general = {"enableAutoUpdate": False, "sessionRetention": {"enabled": False}}
        settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": general,
                    "privacy": {"usageStatisticsEnabled": False}}
        (folder / "settings.json").write_text(json.dumps(settings))
        (folder / "trustedFolders.json").write_text(json.dumps({str(self.app): "TRUST_FOLDER"}))
        self.env |= {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": self.provider.url, "NO_COLOR": "1", "GEMINI_CLI_NO_RELAUNCH": "1"}

    def with_prompt(self, command, prompt):
        return f"{command} --model gemini-2.5-pro --yolo -p {shlex.quote(prompt)}"

    def original(self):
        # A session that is resumed in another minute has a second file, with nothing but a header.
        sessions = json.loads(self.jp("list", "--json", "--agent", self.name))["sessions"]
        path = max(sessions, key=lambda session: session["bytes"])["path"]
        return path, pathlib.Path(path)

    def turn(self, turn):
        return self.with_prompt("gemini" if turn == 1 else "gemini --resume latest", PROMPT.format(turn))

    def resume_original(self, id):
        return f"gemini --session-file {id}"


class OpenHands(Agent):
    name, form, parts = "openhands", "openai", staticmethod(parts_chat)

    def configure(self):
        self.env |= {"LLM_MODEL": "openai/m1", "LLM_BASE_URL": f"{self.provider.url}/v1", "LLM_API_KEY": "k",
                     "OPENHANDS_SUPPRESS_BANNER": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_COLOR": "1"}

    def with_prompt(self, command, prompt):
        return f"{command} --headless --override-with-envs --always-approve -t {shlex.quote(prompt)}"

    def turn(self, turn):
        return self.with_prompt("openhands" if turn == 1 else "openhands --resume --last", PROMPT.format(turn))

    def resume_original(self, id):
        return f"openhands --resume {id}"

    def copied(self, path):
        """Returns one file with all events, in the form in which jp-compact reads the folder."""
        copy = self.root / "copy.jsonl"
        copy.write_bytes(b"".join(file.read_bytes() + b"\n" for file in sorted(path.glob("event-*.json"))))
        return copy

    def digest(self, path):
        files = [path.with_name("base_state.json"), *sorted(path.glob("event-*.json"))]
        return hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in files)).hexdigest()


class QwenCode(Agent):
    name, form, parts = "qwen-code", "openai", staticmethod(parts_chat)

    def configure(self):
        folder = self.home / ".qwen"
        folder.mkdir()
        # Qwen Code's memory is off, because it would send the last request of a run.
        memory = {"enableManagedAutoMemory": False, "enableManagedAutoDream": False}
        (folder / "settings.json").write_text(json.dumps({"memory": memory, "general": {"enableAutoUpdate": False}}))
        self.env |= {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{self.provider.url}/v1", "OPENAI_MODEL": "m1",
                     "NO_COLOR": "1"}

    def with_prompt(self, command, prompt):
        return f"{command} --auth-type openai --yolo -p {shlex.quote(prompt)}"

    def turn(self, turn):
        return self.with_prompt("qwen" if turn == 1 else "qwen --continue", PROMPT.format(turn))

    def resume_original(self, id):
        return f"qwen --resume {id}"


class KimiCli(Agent):
    name, form, parts = "kimi-cli", "openai", staticmethod(parts_chat)

    def configure(self):
        folder = self.home / ".kimi"
        folder.mkdir()
        (folder / "config.toml").write_text(
            f'default_model = "m1"\n[models.m1]\nprovider = "mock"\nmodel = "m1"\nmax_context_size = 200000\n'
            f'[providers.mock]\ntype = "openai_legacy"\nbase_url = "{self.provider.url}/v1"\napi_key = "k"\n')

    def with_prompt(self, command, prompt):
        return f"{command} --print --yolo -p {shlex.quote(prompt)}"

    def turn(self, turn):
        return self.with_prompt("kimi" if turn == 1 else "kimi --continue", PROMPT.format(turn))

    def resume_original(self, id):
        return f"kimi --resume {id}"


AGENTS = {agent.name: agent for agent in (ClaudeCode, Codex, Pi, OpenCode, GeminiCli, OpenHands, QwenCode, KimiCli)}


def check(name, jp_compact, bin):
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="agents-", ignore_cleanup_errors=True) as folder:
        # Some agents refuse to use the system's folder for temporary files as their home.
        root = pathlib.Path(folder).resolve() / "w"
        try:
            result = AGENTS[name](root, jp_compact, bin).check()
        except Exception:
            return False, f"{name}: failed\n{traceback.format_exc()}"
    return True, f"{result}, {time.monotonic() - started:.0f} s"


def main():
    jp_compact, bin = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    names = sys.argv[3:] or list(AGENTS)
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(names)) as pool:
        results = list(pool.map(lambda name: check(name, jp_compact, bin), names))
    for _, text in results:
        print(text)
    print(f"{sum(ok for ok, _ in results)} passed")
    sys.exit(0 if all(ok for ok, _ in results) else 1)


if __name__ == "__main__":
    main()
