#!/bin/sh
# A command hook for the start of a session after a compaction: adds paths, commands, open errors, and constraints
# that a summary may have lost. After a compaction by this plugin, nothing is added: strategies keep these facts.
[ -z "${JP_COMPACT_ANSWERED:-}" ] || exit 0
executable=${CLAUDE_PLUGIN_OPTION_EXECUTABLE:-jp-compact}
command -v "$executable" > /dev/null || exit 0
exec "$executable" auto --hook --give-back
