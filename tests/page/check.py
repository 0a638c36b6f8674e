"""The checks of a page in a real Chromium.

    check.py PAGE --json DOCUMENT --axe AXE --chromium PROGRAM [--screenshots FOLDER]

Each check that fails is one line on stdout, and the exit code is 1. A page is opened at three widths, light and dark.
"""

import argparse
import json
import pathlib
import sys

from playwright.sync_api import sync_playwright

WIDTHS = (400, 800, 1280)
# The variable that the scripts in the texts of the transcript would set.
FORGED = "window.forged"
# The policy forbids every script, even one that is put into a copy of the page.
INJECTED = "<script>window.forged = 1</script><img src=x onerror='window.forged = 1'>"


def value_at(document, path):
    """Returns the value at a path such as `strategies.0.saved.percent`."""
    for part in path.split("."):
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def figures(page, document):
    """Yields the figures of the page that differ from the document."""
    cells = page.eval_on_selector_all(
        "data[data-key]", "cells => cells.map(cell => [cell.dataset.key, cell.value, cell.textContent])"
    )
    if not cells:
        yield "the page has no figures"
    for key, value, text in cells:
        expected = value_at(document, key)
        if expected is None:
            yield f"{key}: the page has {value}, the document nothing"
        elif abs(float(value) - float(expected)) > 1e-9:
            yield f"{key}: the page has {value}, the document {expected}"
        elif not text.strip():
            yield f"{key}: the page does not show it"


def check_view(browser, arguments, document, width, scheme):
    """Yields the problems at one width and color scheme."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    problems = []
    page.on("console", lambda message: problems.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(arguments.page.resolve().as_uri())
    yield from figures(page, document)
    if page.evaluate("document.scrollingElement.scrollWidth > window.innerWidth"):
        yield "the page is wider than the window"
    page.keyboard.press("Tab")
    if page.evaluate("document.activeElement.className") != "skip":
        yield "the first key does not reach the link to the content"
    if page.evaluate(FORGED) is not None:
        yield "a script of the transcript ran"
    violations = page.evaluate(arguments.axe.read_text() + "; axe.run().then(result => result.violations)")
    for violation in violations:
        yield f"accessibility: {violation['id']}: {violation['help']}: {violation['nodes'][0]['html'][:120]}"
    page.evaluate("document.activeElement.blur()")
    if arguments.screenshots:
        name = f"{arguments.page.stem}-{width}-{scheme}.png"
        page.screenshot(path=arguments.screenshots / name, full_page=True)
    if len(requests) != 1:
        yield f"the page requested {requests[1:]}"
    yield from problems
    context.close()


def check_injection(browser, arguments, folder):
    """Yields the effects of a script that is put into a copy of the page."""
    copy = folder / "injected.html"
    copy.write_text(arguments.page.read_text().replace("</main>", f"{INJECTED}</main>"))
    page = browser.new_page()
    page.goto(copy.resolve().as_uri())
    if page.evaluate(FORGED) is not None:
        yield "an injected script ran"
    page.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    parser.add_argument("--axe", type=pathlib.Path, required=True)
    parser.add_argument("--chromium", required=True)
    parser.add_argument("--screenshots", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.screenshots:
        arguments.screenshots.mkdir(parents=True, exist_ok=True)
    document = json.loads(arguments.json.read_text())
    problems = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=arguments.chromium, args=["--no-sandbox"])
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                problems += [f"{width} {scheme}: {text}" for text in check_view(browser, arguments, document, width, scheme)]
        problems += check_injection(browser, arguments, arguments.page.parent)
        browser.close()
    print("\n".join(problems) or "no problem")
    sys.exit(bool(problems))


main()
