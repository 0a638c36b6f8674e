"""The counts of anchors at risk and of kept anchors, by the definitions in docs/reference/evidence.md.

It shares no code with the host. `check.py cut SESSION PERCENT` prints the number of events of the prefix, and
`check.py recall SESSION CUT VIEW` prints the numbers of kept anchors and of anchors at risk for each class. SESSION
and VIEW are the output of `jp-compact print --json` for a conversation of JP. VIEW is the view of the prefix.
"""

import json
import re
import sys

PATH = re.compile(
    r"(?:[\w.@~-]*/)+[\w.@-]+\.\w+"
    r"|\b[\w-]+\.(?:py|ts|tsx|js|rs|go|md|json|toml|html|yml|yaml|sh|css|jsonl)\b"
)
NUMBER = re.compile(r"(?<![\w.])[0-9]{3,}(?:\.[0-9]+)?(?!\w)")
IDENTIFIER = re.compile(r"\b(?:[a-z]+_[a-z0-9_]{3,}|[a-z]+[A-Z]\w{3,}|[A-Z][a-z]+[A-Z]\w{2,})\b")
RARE = re.compile(r"\b[a-z]{7,}\b")
QUOTED = re.compile(r"[a-z0-9_./-]+")
BINDING = re.compile(r"\b(?:never|always|must|don['\u2019]t|do not|only|from now on)\b", re.IGNORECASE)
SHELLS = {"bash", "shell", "exec", "terminal", "sh", "run_command"}
CLASSES = ["path", "number", "identifier", "word", "command", "error", "quote", "constraint"]


class Event:
    def __init__(self, item):
        event = item["event"]
        kind = event["type"]
        self.turn = item["turn"]
        self.command = None
        if kind == "chat_request":
            self.role, self.text = "user", event["content"]
        elif kind == "chat_response" and "reasoning" in event:
            self.role, self.text = "reasoning", event["reasoning"]
        elif kind == "chat_response":
            self.role, self.text = "assistant", event["message"]
        elif kind == "tool_call_request":
            self.role, self.text = "call", "\n".join(values(event["arguments"]))
            command = event["arguments"].get("command")
            if event["name"].lower() in SHELLS and isinstance(command, str):
                self.command = (command.strip().splitlines() or [""])[0].rstrip() or None
        else:
            self.role, self.text = "result", event["content"]
        self.anchors = self.find_anchors()

    def find_anchors(self):
        text = self.text
        words = QUOTED.findall(text.lower())
        return {
            "path": {match.group() for match in PATH.finditer(text)},
            "number": {match.group() for match in NUMBER.finditer(text)},
            "identifier": set(IDENTIFIER.findall(text)),
            "word": set(RARE.findall(text)),
            "command": {self.command} - {None},
            "error": {
                line.strip()
                for line in text.split("\n")
                if any(mark in line for mark in ("error", "failed", "panicked", "Traceback"))
            },
            "quote": {tuple(words[start : start + 8]) for start in range(len(words) - 7)},
        }


def values(value):
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, (int, float, str)):
        yield str(value)
    elif isinstance(value, list):
        for item in value:
            yield from values(item)
    else:
        for item in value.values():
            yield from values(item)


def read(path):
    with open(path, encoding="utf-8") as file:
        return [Event(item) for item in json.load(file)]


def steps(events):
    """A step begins with an event of the assistant after a result or a user message."""
    numbers, number, is_open, turn = [], -1, False, None
    for event in events:
        if event.turn != turn:
            turn, is_open = event.turn, False
        if event.role == "user":
            is_open = False
            numbers.append(None)
        elif event.role == "result":
            is_open = False
            numbers.append(number)
        else:
            if not is_open:
                number, is_open = number + 1, True
            numbers.append(number)
    return numbers


def cut(events, percent):
    lengths = [len(event.text) if event.role == "result" else 0 for event in events]
    seen, numbers = 0, steps(events)
    for index, length in enumerate(lengths):
        seen += length
        if events[index].role == "result" and seen >= sum(lengths) * percent / 100:
            return max(other for other, number in enumerate(numbers) if number == numbers[index]) + 1
    raise SystemExit("there is no tool output")


def at_risk(prefix, future):
    anchors = set()
    for name in CLASSES[:-1]:
        for anchor in set().union(*(event.anchors[name] for event in prefix)):
            naming = [event for event in prefix if anchor in event.anchors[name]]
            results = [event for event in naming if event.role == "result"]
            if name == "word" and len(naming) > 2:
                continue
            if name == "error" and not results:
                continue
            if name == "quote" and not 1 <= len(results) <= 3:
                continue
            uses = ("assistant", "call", "reasoning") if name == "quote" else ("assistant", "call")
            first = next((event for event in future if anchor in event.anchors[name]), None)
            if first is not None and first.role in uses:
                anchors.add((name, anchor))
    return anchors


def sentences(text):
    for line in text.splitlines():
        for sentence in re.split(r"(?<=[.!?]) ", line):
            if BINDING.search(sentence):
                yield sentence.strip()


def recall(events, end, view):
    counts = {name: [0, 0] for name in CLASSES}
    for name, anchor in at_risk(events[:end], events[end:]):
        counts[name][0] += any(anchor in event.anchors[name] for event in view)
        counts[name][1] += 1
    for event in events[:end]:
        for sentence in sentences(event.text) if event.role == "user" else ():
            counts["constraint"][0] += any(sentence in other.text for other in view)
            counts["constraint"][1] += 1
    return counts


def main():
    command, session, number = sys.argv[1:4]
    events = read(session)
    if command == "cut":
        print(cut(events, float(number)))
    else:
        print(json.dumps(recall(events, int(number), read(sys.argv[4]))))


if __name__ == "__main__":
    main()
