//! Sessions of Claude Code for benchmarks, of any size and in the shape of real ones: one content block per
//! line, and each tool result twice. Peer scripts strip the same parts.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::generate::random_text::{Random, code, prose, signature};
use crate::measure::{Usage, alternate, command, run, run_into};
use crate::table::Table;
use crate::{JP_COMPACT, PEERS};

/// Adds rows for stripping a session of `bytes` bytes with jp-compact, with `cp`, and with the peer scripts.
pub(crate) fn add_rows(table: &mut Table, folder: &Path, runs: usize, bytes: usize) -> io::Result<()> {
    let session = folder.join("session.jsonl");
    write(&session, bytes)?;
    run(command(JP_COMPACT, folder)
        .args(["-q", "--keep-last", "0", "--strategy", "strip-tools"])
        .arg(&session))?;
    run(command(JP_COMPACT, folder)
        .args(["-q", "--keep-last", "0", "--strategy", "strip-reasoning"])
        .arg(&session))?;
    let out = folder.join("out");
    let remove_output =
        |usage: io::Result<Usage>| usage.and_then(|usage| fs::remove_file(&out).map(|()| usage));
    let ours = || {
        let mut command = command(JP_COMPACT, folder);
        command.arg("print").arg(&session).args(["--compacted", "--as", "source"]);
        remove_output(run_into(&mut command, &out))
    };
    let mut ours_once = ours;
    let mut cp = || remove_output(run(command("cp", folder).arg(&session).arg(&out)));
    let [usage, copied] = alternate(runs, [&mut ours_once, &mut cp])?;
    table.add_times("Claude Code session, stripped: CPU / cp", usage.cpu, copied.cpu, Some(3.5));
    let size = fs::metadata(&session)?.len();
    table.add_peak("Claude Code session, stripped: peak / file", usage.peak_bytes, size, 1.1);
    let peers: [(&str, [&str; 3], [&str; 2]); 2] = [
        ("python3, orjson", ["python3", "-c", "import orjson"], ["python3", "strip_claude.py"]),
        ("node", ["node", "-e", "0"], ["node", "strip_claude.js"]),
    ];
    for (name, probe, program) in peers {
        let row = format!("Claude Code session, stripped: CPU / {name}");
        if run(command(probe[0], folder).args(&probe[1..]).stderr(Stdio::null())).is_err() {
            table.add_absent(&row);
            continue;
        }
        let mut ours_again = ours;
        let mut peer = || {
            let mut command = command(program[0], folder);
            remove_output(run_into(command.current_dir(PEERS).arg(program[1]).arg(&session), &out))
        };
        let [usage, peer] = alternate(runs.min(3), [&mut ours_again, &mut peer])?;
        table.add_times(&row, usage.cpu, peer.cpu, None);
    }
    Ok(())
}

/// Writes a session of about `bytes` bytes.
pub(crate) fn write(path: &Path, bytes: usize) -> io::Result<()> {
    let mut session = Session {
        random: Random::new(crate::SEED),
        out: BufWriter::with_capacity(1 << 20, File::create(path)?),
        written_bytes: 0,
        lines: 0,
        parent: Value::Null,
    };
    while session.written_bytes < bytes {
        session.write_turn()?;
    }
    session.out.flush()
}

struct Session<W> {
    random: Random,
    out: W,
    written_bytes: usize,
    lines: usize,
    parent: Value,
}

impl<W: Write> Session<W> {
    fn write_turn(&mut self) -> io::Result<()> {
        let request = prose(&mut self.random, 300, 100);
        self.write_line("user", json!({ "role": "user", "content": request }), None)?;
        for _ in 0..12 {
            let thought = prose(&mut self.random, 500, 200);
            let signature = signature(&mut self.random, 400);
            self.write_assistant(json!({ "type": "thinking", "thinking": thought, "signature": signature }))?;
            let id = format!("toolu_{:020}", self.lines);
            let path = format!("/home/ada/garden/{}.rs", self.lines);
            let input = json!({ "file_path": path, "new_string": code(&mut self.random, 300) });
            self.write_assistant(json!({ "type": "tool_use", "id": id, "name": "Edit", "input": input }))?;
            let output = code(&mut self.random, 1500);
            let failed = self.random.percent(5);
            let mut block = json!({ "tool_use_id": id, "type": "tool_result", "content": output });
            if failed {
                block["is_error"] = true.into();
            }
            let tool_use_result = json!({ "filePath": path, "originalFile": output, "structuredPatch": [] });
            self.write_line("user", json!({ "role": "user", "content": [block] }), Some(tool_use_result))?;
        }
        let answer = prose(&mut self.random, 400, 100);
        self.write_assistant(json!({ "type": "text", "text": answer }))
    }

    fn write_assistant(&mut self, block: Value) -> io::Result<()> {
        let message = json!({
            "id": format!("msg_{:020}", self.lines),
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [block],
            "stop_reason": null,
            "usage": { "input_tokens": 12, "cache_read_input_tokens": 20_000, "output_tokens": 34 },
        });
        self.write_line("assistant", message, None)
    }

    fn write_line(&mut self, kind: &str, message: Value, tool_use_result: Option<Value>) -> io::Result<()> {
        self.lines += 1;
        let uuid = format!("00000000-0000-4000-8000-{:012}", self.lines);
        let mut line = json!({
            "parentUuid": self.parent,
            "isSidechain": false,
            "userType": "external",
            "cwd": "/home/ada/garden",
            "sessionId": "0a1b2c3d-1111-4222-8333-444455556666",
            "version": "2.1.0",
            "type": kind,
            "message": message,
            "uuid": uuid,
            "timestamp": format!("2026-03-01T{:02}:{:02}:{:02}.120Z", self.lines / 3600 % 24, self.lines / 60 % 60, self.lines % 60),
        });
        if let Some(tool_use_result) = tool_use_result {
            line["toolUseResult"] = tool_use_result;
        }
        self.parent = uuid.into();
        let text = format!("{line}\n");
        self.written_bytes += text.len();
        self.out.write_all(text.as_bytes())
    }
}
