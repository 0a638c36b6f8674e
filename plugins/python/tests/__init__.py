"""The tests of `jp_compact`. They run the `jp-compact` on PATH, without mocks."""
