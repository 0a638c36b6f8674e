//! The executable on a pseudo-terminal, and the screen that its user sees.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::process::{Child, Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use rustix::pty::{self, OpenptFlags};
use rustix::termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use super::World;

/// The number of lines of the screen. No test writes more lines, so nothing scrolls out of it.
const ROWS: u16 = 60;

/// A running command whose stdin, stderr, and controlling terminal are a pseudo-terminal.
pub(crate) struct TerminalSession {
    child: Child,
    terminal: File,
    screen: vt100::Parser,
}

impl TerminalSession {
    pub(crate) fn start(world: &World, arguments: &[&str], columns: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let terminal = pty::openpt(flags).unwrap();
        pty::grantpt(&terminal).unwrap();
        pty::unlockpt(&terminal).unwrap();
        let size = Winsize { ws_row: ROWS, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        let name = pty::ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let other_end = || File::options().read(true).write(true).open(&name).unwrap();
        let input = other_end();
        // Without this mode, Ctrl-C discards the output that this process has not read yet, such as a part of a redraw.
        let mut modes = tcgetattr(&input).unwrap();
        modes.local_modes |= LocalModes::NOFLSH;
        tcsetattr(&input, OptionalActions::Now, &modes).unwrap();
        // A new session, so that the keys of this terminal interrupt the command.
        let mut command = Command::new("/usr/bin/setsid");
        world.isolate(&mut command).arg("--ctty").arg(cargo_bin!("jp-compact")).args(arguments);
        let child = world.spawn(command.stdin(input).stdout(Stdio::null()).stderr(other_end()));
        let [rows, columns] = [ROWS, columns].map(|count| NonZero::new(count).unwrap());
        Self { child, terminal: File::from(terminal), screen: vt100::Parser::new(rows, columns, 0) }
    }

    /// Returns the words on the screen, without line breaks, because these depend on the width.
    pub(crate) fn words(&self) -> String {
        let text = self.screen.screen().contents();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until all these texts are on the screen at the same time.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, texts: &[&str]) {
        while !texts.iter().all(|text| self.words().contains(text)) {
            assert!(self.read(), "the command has ended without {texts:?}:\n{}", self.words());
        }
    }

    /// Reads until the command ends. Returns its exit code and the words that remain on the screen.
    pub(crate) fn finish(mut self) -> (Option<i32>, String) {
        while self.read() {}
        (self.child.wait().unwrap().code(), self.words())
    }

    /// Reads the next output. Returns false after the last process has closed the terminal.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        match self.terminal.read(&mut buffer) {
            Ok(read @ 1..) => {
                self.screen.process(&buffer[..read]);
                true
            }
            _ => false,
        }
    }
}

impl Drop for TerminalSession {
    fn drop(&mut self) {
        // The command may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
