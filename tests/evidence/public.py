"""The tables of docs/evidence.md about public sessions. They are made, and written to the page or compared with it.

    public.py PAGE --jp-compact PROGRAM --plugins FOLDER [--sessions FOLDER] [--checkout FOLDER] [--write]

FOLDER of `--sessions` has a table of the sessions with their licenses, and a folder for each format. Only sessions under
the MIT license are used. FOLDER of `--checkout` is `test/test_data/real_projects` of
https://github.com/handgemacht-ai/claude-code-log at the commit in the page. Its sessions that are not in `--sessions`
were not used to choose options. Without a folder, its tables are skipped. `--plugins` has the installed examples.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys

CLASSES = ("path", "number", "identifier", "word", "command", "error", "quote", "constraint")
PLUGINS = ("dedupe", "drop-arguments", "drop-large", "keep-errors", "supersede", "truncate")
PRESETS = ("clear-tool-uses", "opencode-prune", "gemini-mask", "mask-10", "head-300", "cap-8000")
EXTRACTS = (
    "extract",
    "extract:keep_steps=0",
    "extract:keep_steps=0,merge=8",
    # Without prose, as before the option `prose` existed.
    "extract:keep_steps=0,budget=0.25,prose=0,edge_lines=7",
    # The row for names, and the row for prose, which has the largest sum of saved tokens and words.
    "extract:keep_steps=0,merge=8,budget=1,line_bytes=10,edge_lines=0,min_bytes=0,exempt=[]",
    "extract:keep_steps=0,merge=16,budget=1,prose=1,line_bytes=10,edge_lines=0,min_bytes=0,exempt=[]",
)
STRATEGIES = (
    "strip-reasoning",
    "strip-tools",
    "strip-tools:mode=strip-responses",
    "micro",
    "digest",
    *EXTRACTS,
    "trim",
    *(f"trim:preset={preset}" for preset in PRESETS),
    *PLUGINS,
)
# The exit code if some transcripts or strategies failed. It is accepted, because some files of a checkout are not
# transcripts. A failed strategy is found in the report.
UNREADABLE = 19
# The results of the prototype that docs/evidence.md describes: saved, paths, numbers, identifiers, and quotes, in
# percent. Its cut is at 62 % of the tool output.
PROTOTYPE = {
    "trim:preset=cap-8000": (19.8, 98.8, 89.3, 89.6, 94.5),
    "trim:preset=head-300": (40.8, 88.6, 69.6, 90.9, 39.1),
    "trim:preset=mask-10": (38.1, 86.8, 75.0, 90.9, 41.4),
    "trim:preset=clear-tool-uses": (48.9, 83.8, 62.5, 87.1, 23.6),
    "strip-tools:mode=strip-responses": (67.1, 81.4, 46.4, 66.4, 12.3),
    "strip-tools": (91.4, 42.5, 12.5, 22.3, 0.0),
}
HELD_OUT = (*EXTRACTS, "strip-tools:mode=strip-responses", "trim:preset=clear-tool-uses")


def sources(folder):
    """Yields the file, the repository, and the commit of each session under the MIT license."""
    [page] = folder.glob("SOURCES.*")
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 8 and cells[5] == "MIT":
            yield folder / cells[0] / cells[1], cells[2], cells[4]


def evaluate(arguments, sessions, strategies, *options):
    command = [arguments.jp_compact, "eval", "--json", "--sandbox=contained", "--trust-dir", arguments.plugins, *options]
    for strategy in strategies:
        command += ["--strategy", strategy]
    done = subprocess.run([*command, "--", *sessions], capture_output=True, check=False)
    if done.returncode not in (0, UNREADABLE):
        raise SystemExit(done.stderr.decode())
    report = json.loads(done.stdout)
    for row in report["strategies"]:
        if row["status"] != "ok":
            raise SystemExit(f"{row['label']}: {row['error']}")
    return report


def shown(number):
    return "–" if number is None else f"{number:.1f}"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def share(recall):
    return f"{shown(recall['percent'])} ({recall['kept']}/{recall['at_risk']})"


def strategy_table(report):
    rows = []
    for row in report["strategies"]:
        recall = [share(row["recall"][name]) for name in CLASSES]
        cost = shown(row["cache"]["break_even_requests"])
        rows.append([f"`{row['label']}`", shown(row["saved"]["percent"]), *recall, cost])
    return table(["strategy", "saved", *(f"{name}s" for name in CLASSES), "break-even"], rows)


def session_table(report, known):
    rows = []
    for transcript, (path, repository, commit) in zip(report["transcripts"], known, strict=True):
        source = f"[{repository}](https://github.com/{repository}/tree/{commit})"
        rows.append([transcript["format"], f"`{path.name}`", source, f"`{transcript['sha256']}`", transcript["results"], transcript["cuts"]])
    return table(["format", "session", "source", "SHA-256", "results", "cuts"], rows)


def percents(row):
    return [row["saved"]["percent"], *(row["recall"][name]["percent"] for name in ("path", "number", "identifier", "quote"))]


def by_label(report):
    return {row["label"]: row for row in report["strategies"]}


def prototype_table(report):
    rows = []
    for label, expected in PROTOTYPE.items():
        found = percents(by_label(report)[label])
        cells = [f"{shown(new)} ({old})" for new, old in zip(found, expected, strict=True)]
        rows.append([f"`{label}`", *cells])
    return table(["strategy", "saved", "paths", "numbers", "identifiers", "quotes"], rows)


def held_out_table(chosen, held_out):
    """Returns a table with two rows for each strategy."""
    rows = []
    for label in HELD_OUT:
        sets = [by_label(report)[label] for report in (chosen, held_out)]
        for name, row in zip(("chosen", "held out"), sets, strict=True):
            recall = [share(row["recall"][kind]) for kind in ("path", "number", "identifier", "word", "quote")]
            rows.append([f"`{label}`", name, shown(row["saved"]["percent"]), *recall])
    return table(["strategy", "sessions", "saved", "paths", "numbers", "identifiers", "words", "quotes"], rows)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def name(transcript):
    return pathlib.Path(transcript["path"]).name


def with_cuts(report):
    return [transcript for transcript in report["transcripts"] if transcript["cuts"]]


def tables(arguments):
    """Yields the name and the text of each table."""
    if not arguments.sessions:
        return
    known = list(sources(arguments.sessions))
    report = evaluate(arguments, [path for path, _, _ in known], STRATEGIES)
    yield "public sessions", session_table(report, known)
    yield "public table", strategy_table(report)
    if not arguments.checkout:
        return
    used = {digest(path) for path, _, _ in known}
    everything = sorted(arguments.checkout.rglob("*.jsonl"))
    others = [path for path in everything if digest(path) not in used]
    pi = [path for path, _, _ in known if path.parent.name == "pi"]
    prototype = evaluate(arguments, [*everything, *pi], PROTOTYPE, "--cut=62")
    yield "prototype", f"{len(with_cuts(prototype))} sessions.\n\n" + prototype_table(prototype)
    held_out = evaluate(arguments, others, HELD_OUT)
    rows = [[f"`{name(one)}`", f"`{one['sha256']}`", one["results"], one["cuts"]] for one in with_cuts(held_out)]
    yield "held-out sessions", table(["session", "SHA-256", "results", "cuts"], rows)
    yield "held out", held_out_table(report, held_out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--jp-compact", required=True)
    parser.add_argument("--plugins", required=True)
    parser.add_argument("--sessions", type=pathlib.Path)
    parser.add_argument("--checkout", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    page = arguments.page.read_text()
    different = []
    for name, text in tables(arguments):
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        before, rest = page.split(begin)
        current, after = rest.split(end)
        if current.strip() != text.strip():
            different.append(name)
        page = f"{before}{begin}\n{text}\n{end}{after}"
    if arguments.write:
        arguments.page.write_text(page)
    elif different:
        sys.exit(f"different: {', '.join(different)}; UPDATE_EVIDENCE=1 writes them")


main()
