#!/bin/sh
# A command hook for PreCompact: reports that function hooks are off. Without them, Claude Code loads no module of a plugin,
# and its own compaction runs. The module of this plugin sets JP_COMPACT_FUNCTION_HOOKS, because only some versions need
# CLAUDE_CODE_ENABLE_FUNCTION_HOOKS. The hook never blocks a compaction.
cat > /dev/null
[ -n "${JP_COMPACT_FUNCTION_HOOKS:-}" ] ||
    echo '{"systemMessage":"jp-compact: function hooks are off, so the compaction of Claude Code runs. Start Claude Code with CLAUDE_CODE_ENABLE_FUNCTION_HOOKS=1."}'
