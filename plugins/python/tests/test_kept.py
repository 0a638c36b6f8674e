"""The facts that a summary must not lose."""

from __future__ import annotations

import unittest
from typing import Any

from jp_compact.kept import append_facts, constraints, facts, without_section

EVENTS: list[dict[str, Any]] = [
    {"type": "chat_request", "content": "Never touch vendor/. See doc/a.md. Only use cargo!"},
    {"type": "tool_call_request", "id": "1", "name": "bash", "arguments": {"command": "cd src\ncargo test"}},
    {"type": "tool_call_response", "id": "1", "content": "error[E0308]: mismatched types in src/lib.rs", "is_error": False},
    {"type": "tool_call_request", "id": "2", "name": "bash", "arguments": {"command": ["bash", "-lc", "cargo check -p a"]}},
    {"type": "tool_call_request", "id": "3", "name": "edit", "arguments": {"command": "view", "path": "src/b.rs"}},
]
SECTION = """

## Kept verbatim

Constraints of the user, the latest last:
- Never touch vendor/.
- Only use cargo!

Commands:
- cd src
- cargo check -p a

Error codes:
- E0308

Paths:
- doc/a.md
- src/b.rs"""


class Kept(unittest.TestCase):
    def test_sentences_with_a_binding_word_are_constraints(self) -> None:
        self.assertEqual(constraints("Fix it. Never push! It's\nfrom now on so"), ["Never push!", "from now on so"])
        # As in the host, only a line feed ends a line.
        text = "Never push to\u2028main."
        self.assertEqual([fact for _, fact in facts([{"type": "chat_request", "content": text}])], [text])
        self.assertEqual(constraints("A commonly used mustard; only_x; v1.2"), [])

    def test_missing_facts_are_appended(self) -> None:
        known = facts(EVENTS)
        self.assertEqual(known[:3], [("constraint", "Only use cargo!"), ("constraint", "Never touch vendor/."), ("path", "src/b.rs")])
        self.assertEqual(known[-1], ("path", "src/lib.rs"), "only a response names it")
        text, diagnostic = append_facts("They fixed src/lib.rs.", known, 1000)
        self.assertEqual(text, "They fixed src/lib.rs." + SECTION)
        message = "appended 2 constraints, 2 commands, 1 error code, 2 paths that the summary lacked"
        self.assertEqual(diagnostic, {"severity": "info", "code": "kept_verbatim", "message": message})

    def test_constraints_are_first_and_the_rest_is_counted(self) -> None:
        text, diagnostic = append_facts("S", facts(EVENTS), 105)
        self.assertTrue(text.endswith("- Never touch vendor/.\n- Only use cargo!"), text)
        message = "appended 2 constraints that the summary lacked; left out 2 commands, 1 error code, 3 paths for lack of room"
        self.assertEqual((diagnostic or {})["message"], message)
        _, diagnostic = append_facts("S", facts(EVENTS), 10)
        self.assertEqual((diagnostic or {})["severity"], "warning")

    def test_copied_section_is_replaced(self) -> None:
        known = facts(EVENTS)
        once, _ = append_facts("They fixed src/lib.rs.", known, 1000)
        self.assertEqual(append_facts(once, known, 1000)[0], once)
        self.assertEqual(without_section(once), "They fixed src/lib.rs.")
        own = "They fixed src/lib.rs.\n\n**Kept verbatim**\nPaths:\n- src/b.rs\n- own.rs"
        self.assertEqual(append_facts(own, known, 1000)[0], "They fixed src/lib.rs.\n- own.rs".replace("\n-", "\n\n-") + SECTION)
        self.assertEqual(append_facts(" ", known, 1000), (" ", None))

    def test_section_of_a_copied_summary_is_read(self) -> None:
        copied = {"type": "chat_response", "message": "They fixed it." + SECTION}
        self.assertEqual(sorted(facts([copied])), sorted(fact for fact in facts(EVENTS) if fact[1] != "src/lib.rs"))

    def test_sentences_of_a_copied_summary_are_constraints(self) -> None:
        asked = {"type": "chat_request", "content": "[Summary of previous conversation]"}
        said = {"type": "chat_response", "message": "The user said:\nNever push."}
        self.assertEqual(facts([asked, said]), [("constraint", "Never push.")])
        self.assertEqual(facts([said]), [])

    def test_attachments_inquiries_and_structured_answers_have_paths(self) -> None:
        cases: list[tuple[dict[str, Any], list[str]]] = [
            ({"type": "chat_request", "content": "let x = 1;", "metadata": {"attachment": "src/a.rs"}}, ["src/a.rs"]),
            ({"type": "chat_request", "content": "Never use b.rs", "metadata": {"attachment": "a.rs"}}, ["a.rs", "b.rs"]),
            ({"type": "inquiry_request", "question": {"text": "src/a.rs or b.rs?"}}, ["b.rs", "src/a.rs"]),
            ({"type": "inquiry_response", "answer": "use src/b.rs"}, ["src/b.rs"]),
            ({"type": "chat_response", "data": {"files": ["a.rs"]}}, ["a.rs"]),
            ({"type": "chat_response", "message": None, "reasoning": "I change a.rs." + SECTION}, ["src/b.rs", "doc/a.md", "a.rs"]),
        ]
        for event, expected in cases:
            with self.subTest(event=event):
                self.assertEqual(facts([event]), [("path", path) for path in expected])
