//! The files that a plugin executes but does not contain: the interpreter of its `#!` line, the program of the
//! `command` in its manifest, and absolute paths in the arguments of either. Trust in a plugin includes those
//! outside the system folders. They are hashed together with the plugin, and the owner and mode checks also cover
//! their paths. This module must never execute anything.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jp_compact_schema::Program;

use super::known::Digests;
use super::shebang;
use crate::digest;
use crate::jail::is_of_system;
use crate::registry::{Plugin, PluginForm};

/// The first line of the hashed text of a plugin that executes files outside the system folders.
const HEADING: &[u8] = b"jp-compact plugin and what it runs 1\n";
/// The maximum nesting of `#!` lines in Linux.
const SCRIPTS_MAX: usize = 5;

/// A file outside the system folders that a plugin executes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutedFile {
    /// The path as the plugin states it, or as it was found on PATH.
    pub path: PathBuf,
    /// The path with symbolic links resolved.
    pub real: PathBuf,
}

/// The digests of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    /// Covers the plugin and all files that it runs outside the system folders.
    pub(super) sha256: String,
    /// Covers the plugin alone.
    pub(super) plugin_sha256: String,
    pub(super) runs: Vec<ExecutedFile>,
}

impl Identity {
    /// Combines the digest of the plugin with the digests of the files that it runs.
    pub(super) fn new(plugin_sha256: String, runs: Vec<ExecutedFile>, digests: &Digests) -> io::Result<Self> {
        if runs.is_empty() {
            return Ok(Self { sha256: plugin_sha256.clone(), plugin_sha256, runs });
        }
        let mut all = [HEADING, plugin_sha256.as_bytes(), b"\n"].concat();
        for ExecutedFile { path, real } in &runs {
            let path = path.as_os_str().as_bytes();
            all.extend_from_slice(format!("{} {}:", digests.get(real)?, path.len()).as_bytes());
            all.extend_from_slice(path);
            all.push(b'\n');
        }
        Ok(Self { sha256: digest::of_bytes(&all), plugin_sha256, runs })
    }
}

/// Returns the files outside the system folders that a plugin executes. `root` is the plugin or its copy.
///
/// # Errors
/// The host cannot determine which files the plugin would execute.
pub(super) fn resolve(plugin: &Plugin, root: &Path) -> Result<Vec<ExecutedFile>, String> {
    let mut found = Vec::new();
    match &plugin.form {
        PluginForm::Executable => add_interpreters(root, &mut found)?,
        PluginForm::Folder(manifest) => {
            let Program::Command(command) = &manifest.run.program else { return Ok(found) };
            let Some((program, args)) = command.split_first() else { return Ok(found) };
            if program.contains('/') && !program.starts_with('/') {
                add_interpreters(&root.join(program), &mut found)?;
            } else if let Some(path) = shebang::find(program)
                && let Some(real) = add_file(path, &mut found)
            {
                add_interpreters(&real, &mut found)?;
            }
            add_absolute_args(args, &mut found);
        }
        PluginForm::Dylib | PluginForm::Broken(_) => {}
    }
    Ok(found)
}

/// Adds the interpreter of a script and the interpreters of that interpreter, up to the first in a system folder.
fn add_interpreters(script: &Path, found: &mut Vec<ExecutedFile>) -> Result<(), String> {
    let mut next = Some(script.to_owned()).filter(|path| path.is_file());
    for _ in 0..=SCRIPTS_MAX {
        let Some(script) = next else { return Ok(()) };
        let Some(line) = shebang::read(&script)? else { return Ok(()) };
        next = add_file(line.program, found);
        add_absolute_args(&line.args, found);
    }
    Err(format!("the `#!` line of {} has too many nested interpreters", script.display()))
}

/// Adds a file if its path is outside the system folders, before or after links are resolved. A missing file is
/// skipped, because it cannot start.
fn add_file(path: PathBuf, found: &mut Vec<ExecutedFile>) -> Option<PathBuf> {
    let real = path.canonicalize().ok().filter(|real| real.is_file())?;
    if is_of_system(&path) && is_of_system(&real) {
        return None;
    }
    if !found.iter().any(|other| other.path == path) {
        found.push(ExecutedFile { path, real: real.clone() });
    }
    Some(real)
}

fn add_absolute_args(args: &[String], found: &mut Vec<ExecutedFile>) {
    for path in args.iter().flat_map(|arg| shebang::absolute_paths(arg)) {
        add_file(path.into(), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the interpreters of the first of `count` scripts. Each but the last is run by the next.
    #[track_caller]
    fn check(count: usize, is_accepted: bool) {
        let base = tempfile::tempdir().unwrap();
        let script = |number: usize| base.path().join(format!("script-{number}"));
        for number in 0..count {
            let next = if number + 1 < count { script(number + 1) } else { "/bin/sh".into() };
            std::fs::write(script(number), format!("#!{}\n", next.display())).unwrap();
        }
        let mut found = Vec::new();
        assert_eq!(add_interpreters(&script(0), &mut found).is_ok(), is_accepted, "{count}");
        assert!(!is_accepted || found.len() == count - 1, "{found:?}");
    }

    #[test]
    fn as_many_nested_scripts_as_in_linux_are_accepted() {
        check(1, true);
        check(5, true);
        check(6, false);
    }
}
