#!/bin/sh
# Runs a command of the plugin: command.sh fork|diff|undo|stats SESSION EXECUTABLE PROFILE. SESSION is a transcript or an
# id. Never writes to the session's own transcript.
command=$1 session=$2 executable=$3 profile=$4
if [ "$command" = stats ] && [ -z "${JP_COMPACT_FUNCTION_HOOKS:-}" ]; then
    echo "Function hooks are off, so jp-compact answers no compaction. Start Claude Code with CLAUDE_CODE_ENABLE_FUNCTION_HOOKS=1."
fi
# `stats` and `diff` accept no id.
if [ ! -f "$session" ]; then
    path=$(find "${CLAUDE_CONFIG_DIR:-$HOME/.claude}/projects" -name "$session.jsonl" 2> /dev/null | head -n 1)
    if [ -z "$path" ]; then
        echo "The transcript of session $session was not found."
        exit 0
    fi
    session=$path
fi
case "$command" in
fork) exec "$executable" fork "$session" "--compact=$profile" ;;
diff) exec "$executable" diff "$session" --stat --profile "$profile" ;;
stats) exec "$executable" stats "$session" ;;
undo)
    # All messages before the last compaction, as a new session.
    line=$(grep -n '"subtype":"compact_boundary"' "$session" | tail -n 1 | cut -d: -f1)
    if [ -z "$line" ]; then
        echo "This session has no compaction to undo."
        exit 0
    fi
    folder=$(mktemp -d)
    trap 'rm -r "$folder"' EXIT
    head -n "$((line - 1))" "$session" > "$folder/${session##*/}"
    echo "A fork of the session, as it was before the last compaction:"
    "$executable" fork "$folder/${session##*/}"
    ;;
esac
