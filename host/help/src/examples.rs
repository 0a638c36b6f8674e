//! Two examples for each command, except for `config get`, which declares its own. They are the end of `-h`, so each
//! fits a line of 80 columns, and most fit a line of 60.

/// The commands, each with two examples.
pub(crate) const EXAMPLES: [(&str, [&str; 2]); 34] = [
    ("", ["jp-compact 17738399468", "jp-compact 17738399468 -s strip-tools --keep-last 1 -n"]),
    ("auto", ["jp-compact auto 17738399468", "jp-compact auto 17738399468 --context-window 200000 -n"]),
    (
        "batch",
        ["jp-compact batch conversations/ --report report.json", "jp-compact batch . -n --require-saving 30"],
    ),
    ("diff", ["jp-compact diff 17738399468 | less -R", "jp-compact diff 17738399468 -s strip-tools --stat"]),
    (
        "eval",
        [
            "jp-compact eval session.jsonl -s trim --html page.html",
            "jp-compact eval logs/ -s ./mine --require-recall 90:path",
        ],
    ),
    ("list", ["jp-compact list", "jp-compact list --json | jq -r '.sessions[0].id'"]),
    ("fork", ["jp-compact fork 3dee0fbb --compact", "jp-compact fork 17738399468 ./17738399470-x --last 5"]),
    ("resume", ["jp-compact resume 3dee0fbb", "jp-compact resume 3dee0fbb --compact=heavy -n"]),
    (
        "import",
        [
            "jp-compact import session.jsonl --to 17738399471-copy",
            "jp-compact import x.json --format openai-chat --to ./copy",
        ],
    ),
    (
        "print",
        [
            "jp-compact print 17738399468 --compacted | less",
            "jp-compact print 17738399468 --as anthropic > body.json",
        ],
    ),
    (
        "query",
        ["jp-compact query 17738399468 -- Continue", "jp-compact query 17738399468 --compact=heavy -- Why?"],
    ),
    ("show", ["jp-compact show 17738399468", "jp-compact show 17738399468 --json | jq .tokens"]),
    ("stats", ["jp-compact stats 17738399468", "jp-compact stats .jp/conversations/*"]),
    ("lint", ["jp-compact lint 17738399468", "jp-compact lint events.json --provider all"]),
    ("mcp", ["jp-compact mcp", "jp-compact mcp ~/project --allow-model"]),
    ("strategy", ["jp-compact strategy list", "jp-compact strategy new mine --lang python"]),
    (
        "strategy list",
        ["jp-compact strategy list", "jp-compact strategy list --json | jq '.strategies[].name'"],
    ),
    ("strategy show", ["jp-compact strategy show strip-tools", "jp-compact strategy show ./mine --json"]),
    (
        "strategy trust",
        ["jp-compact strategy trust ./mine", "jp-compact strategy trust ./mine --grant subprocess"],
    ),
    ("strategy untrust", ["jp-compact strategy untrust ./mine", "jp-compact strategy untrust mine"]),
    ("strategy test", ["jp-compact strategy test ./mine", "jp-compact strategy test ./mine --only P04"]),
    (
        "strategy new",
        ["jp-compact strategy new mine --lang python", "jp-compact strategy new mine --lang sh"],
    ),
    (
        "strategy run",
        [
            "jp-compact strategy run ./mine 17738399468",
            "jp-compact strategy run ./mine 17738399468 --keep-last 1",
        ],
    ),
    (
        "strategy dev",
        ["jp-compact strategy dev ./mine 17738399468", "jp-compact strategy dev ./mine session.jsonl --stat"],
    ),
    ("init", ["jp-compact init", "jp-compact init --yes --max 10"]),
    (
        "config",
        ["jp-compact config --explain", "jp-compact config --example > ~/.config/jp-compact/config.toml"],
    ),
    (
        "config set",
        [
            "jp-compact config set --conversation ./x conversation.compaction.keep_last=5",
            "jp-compact config set --conversation s.jsonl conversation.tools={}",
        ],
    ),
    (
        "config unset",
        [
            "jp-compact config unset --conversation 17738399468 conversation.compaction",
            "jp-compact config unset --conversation s.jsonl conversation.tools",
        ],
    ),
    ("config trust", ["jp-compact config trust", "jp-compact config trust ~/project --yes"]),
    ("config untrust", ["jp-compact config untrust", "jp-compact config untrust ~/project"]),
    ("doctor", ["jp-compact doctor", "jp-compact doctor --json | jq ."]),
    ("schema", ["jp-compact schema", "jp-compact schema reply"]),
    (
        "completions",
        [
            "source <(jp-compact completions bash)    # in ~/.bashrc, or zsh in ~/.zshrc",
            "jp-compact completions fish > ~/.config/fish/completions/jp-compact.fish",
        ],
    ),
    ("man", ["jp-compact man strategy test | man -l -", "jp-compact man --dir ~/.local/share/man/man1"]),
];
