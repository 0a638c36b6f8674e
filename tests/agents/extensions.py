"""Tests of the extensions for pi, OpenCode, and Codex in the real programs: `extensions.py JP_COMPACT BIN [AGENT...]`.

The provider on the loopback interface rejects what providers reject, and records each request.
"""

import concurrent.futures
import json
import pathlib
import shutil
import sys
import tempfile
import time
import traceback

import run

PLUGINS = pathlib.Path(__file__).resolve().parents[2] / "plugins"


class Extension:
    """The parts that are the same for all agents. It is a mixin of an agent of `run`."""

    def configure(self):
        super().configure()
        self.env["PATH"] = f"{self.jp_compact.parent}:{self.env['PATH']}"

    def bodies(self):
        requests = [json.loads(path.read_text()) for path in sorted(self.provider.folder.iterdir())]
        errors = [request["error"] for request in requests if request["error"]]
        assert not errors, errors
        return [request["body"] for request in requests]

    def turns(self, *turns):
        for turn in turns:
            self.run(self.turn(turn))

    def before(self, turn):
        """Returns the conversation of a new prompt, before that prompt."""
        self.run(self.turn(turn))
        *before, prompt = self.last_request()
        assert f"jpc-turn-{turn}" in prompt[1], prompt
        return before


def size(parts):
    return len(json.dumps(parts, ensure_ascii=False))


def texts(parts):
    """Returns the texts of the user and of the model."""
    return [part for part in parts if part[0] in ("user", "assistant")]


def smaller(name, whole, small):
    """Checks that every text is there, and returns the saving."""
    assert all(text in texts(small) for text in texts(whole)), f"{name}: a text was lost"
    assert size(small) < 0.6 * size(whole), (size(small), size(whole))
    return f"{size(whole):,} -> {size(small):,} characters"


class Pi(Extension, run.Pi):
    """Compacts automatically, then resumes with and without the extension."""

    def configure(self):
        super().configure()
        path = self.home / ".pi/agent/models.json"
        config = json.loads(path.read_text())
        config["providers"]["mock"]["models"][0]["contextWindow"] = 30_000
        path.write_text(json.dumps(config))
        settings = {"compaction": {"enabled": True, "reserveTokens": 8_000, "keepRecentTokens": 4_000}}
        (self.home / ".pi/agent/settings.json").write_text(json.dumps(settings))
        self.options = f" -e {PLUGINS / 'pi/jp-compact.ts'}"

    def with_prompt(self, command, prompt):
        return super().with_prompt(command, prompt) + self.options

    def check(self):
        self.turns(1, 2)
        asked = len(self.bodies())
        whole = self.last_request()
        small = [part for part in self.before(6) if "jp-compact: " not in str(part[-1])]
        assert len(self.bodies()) == asked + 1, "pi asked for a summary"
        result = smaller(self.name, whole, small)
        self.options = " --no-extensions"
        again = self.before(7)
        assert size(again) > 0.9 * size(whole), "the session is not whole without the extension"
        return result

    def asked(self):
        """Returns whether pi asked the model for a summary."""
        return any(not body.get("tools") for body in self.bodies())

    def twice(self):
        """The second compaction works on the result of the first."""
        self.turns(1, 2, 2)
        whole = self.last_request()
        small = [part for part in self.before(6) if "jp-compact: " not in str(part[-1])]
        assert not self.asked(), "pi asked for a summary"
        assert size(small) < 0.3 * size(whole), (size(small), size(whole))
        assert sum(part[1:] == ("I read file 2-1.",) for part in small) == 2, small
        return f"{size(whole):,} -> {size(small):,} characters"

    def use_digest(self, bounds):
        folder = self.home / ".config/jp-compact"
        folder.mkdir(parents=True)
        profile = f'[conversation.compaction.profiles.short]\nstrategies = ["digest"]\n{bounds}\n'
        (folder / "config.toml").write_text(profile)
        self.options += " --jp-profile short"

    def summary(self):
        """A summary replaces the entries that it covers. The request of the open turn stays. So does the summary, if the next
        compaction has none."""
        self.use_digest("keep_steps = 2")
        self.turns(1, 2)
        whole = self.last_request()
        self.check_summary(whole, self.before(6), 1)
        self.turns(2)
        whole = self.last_request()
        self.check_summary(whole, self.before(7), 1)
        self.options = self.options.replace("short", "agent")
        self.turns(2)
        whole, small = self.last_request(), self.before(11)
        self.check_summary(whole, small, 13)
        assert not self.asked(), "pi asked for a summary"
        return f"{size(whole):,} -> {size(small):,} characters"

    def summary_of_all(self):
        """After a summary of all entries, the next compaction keeps the entries between the two."""
        self.use_digest("keep_last = 0")
        self.turns(1, 2)
        self.check_summary(self.last_request(), self.before(6), 0)
        self.options = self.options.replace("short", "agent")
        self.turns(2)
        whole, small = self.last_request(), self.before(7)
        self.check_summary(whole, small, 12)
        assert not self.asked() and "jpc-turn-6" in json.dumps(small)
        return f"{size(whole):,} -> {size(small):,} characters"

    def check_summary(self, whole, small, steps):
        text = json.dumps(small)
        assert size(small) < 0.5 * size(whole), (size(small), size(whole))
        assert text.count("was compacted into the following summary") == 1, text
        assert "No model wrote this" in text and "jpc-turn-2" in text, text
        assert sum(part[0] == "result" for part in small) == steps, text

    def falls_back(self):
        self.options += " --jp-compact /no/jp-compact"
        self.turns(1, 2, 6)
        assert self.asked(), "pi asked for no summary"
        assert "every message is kept" not in json.dumps(self.bodies())
        return "the compaction of pi ran"

    def falls_back_after_a_kept_turn(self):
        """pi sends a summary before all entries, so it cannot send the first turn before the summary."""
        self.use_digest("keep_first = 1\nkeep_steps = 2")
        self.turns(1, 2, 6)
        assert self.asked(), "pi asked for no summary"
        assert "every message is kept" not in json.dumps(self.bodies())
        return "the compaction of pi ran"


class OpenCode(Extension, run.OpenCode):
    """Sends smaller requests, and keeps the session."""

    def configure(self):
        super().configure()
        path = self.app / "opencode.json"
        config = json.loads(path.read_text())
        config["plugin"] = [f"file://{PLUGINS / 'opencode/jp-compact.ts'}"]
        path.write_text(json.dumps(config))
        self.env["JP_COMPACT_THRESHOLD"] = "20000"

    def check(self):
        self.turns(1, 2)
        small = self.before(6)
        (session,) = json.loads(self.jp("list", "--json", "--agent", self.name))["sessions"]
        document = json.loads(self.export(session["id"]).read_text())
        states = [part["state"] for message in document["messages"] for part in message["parts"] if part["type"] == "tool"]
        raw = sum(len(state["output"]) for state in states)
        sent = sum(len(part[-1]) for part in small if part[0] == "result")
        assert len(states) == 14 and sent < 0.5 * raw, (len(states), sent, raw)
        assert all("brown fox" in state["output"] for state in states), "the session was changed"
        assert [f"I read file 2-{number}." for number in range(1, 13)] == [part[1] for part in texts(small) if "file 2-" in part[1]]
        return f"{raw:,} -> {sent:,} characters of results"


class Codex(Extension, run.Codex):
    """Gets facts back after a compaction by Codex."""

    def configure(self):
        super().configure()
        path = self.home / ".codex/config.toml"
        # The first prompt of turn 3 is over the limit, and a request after the compaction is not.
        path.write_text("model_auto_compact_token_limit = 15000\n" + path.read_text())
        shutil.copy(PLUGINS / "codex/hooks.json", self.home / ".codex/hooks.json")

    def with_prompt(self, command, prompt):
        return f"{super().with_prompt(command, prompt)} --dangerously-bypass-hook-trust"

    def check(self):
        self.run(self.with_prompt("codex exec", "jpc-turn-1: read the files. Never touch the folder vendor."))
        self.turns(3)
        body = self.bodies()[-1]
        (facts,) = [run.text_of(item["content"]) for item in body["input"]
                    if item.get("role") == "developer" and "No model wrote this" in run.text_of(item["content"])]
        assert "Never touch the folder vendor." in facts and "cat out-1-2.txt" in facts, facts
        return f"{len(facts):,} characters were given back"


CASES = {
    "pi": (Pi, "check"),
    "pi-twice": (Pi, "twice"),
    "pi-summary": (Pi, "summary"),
    "pi-summary-of-all": (Pi, "summary_of_all"),
    "pi-kept-turn": (Pi, "falls_back_after_a_kept_turn"),
    "pi-without-jp-compact": (Pi, "falls_back"),
    "opencode": (OpenCode, "check"),
    "codex": (Codex, "check"),
}


def check(name, jp_compact, bin):
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="extension-", ignore_cleanup_errors=True) as folder:
        agent, method = CASES[name]
        try:
            result = getattr(agent(pathlib.Path(folder).resolve() / "w", jp_compact, bin), method)()
        except Exception:
            return False, f"{name}: failed\n{traceback.format_exc()}"
    return True, f"{name}: {result}, {time.monotonic() - started:.0f} s"


def main():
    jp_compact, bin = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    names = sys.argv[3:] or list(CASES)
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(names)) as pool:
        results = list(pool.map(lambda name: check(name, jp_compact, bin), names))
    for _, text in results:
        print(text)
    print(f"{sum(ok for ok, _ in results)} passed")
    sys.exit(0 if all(ok for ok, _ in results) else 1)


if __name__ == "__main__":
    main()
