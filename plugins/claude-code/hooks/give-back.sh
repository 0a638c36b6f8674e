#!/bin/sh
# A command hook for the start of a session after a compaction: gives paths, commands, open errors, and constraints back
# that a summary may have lost. After a compaction by this plugin, all texts are there, and nothing is given back.
[ -z "${JP_COMPACT_ANSWERED:-}" ] || exit 0
executable=${CLAUDE_PLUGIN_OPTION_EXECUTABLE:-jp-compact}
command -v "$executable" > /dev/null || exit 0
exec "$executable" auto --hook --give-back
