//! The files that a plugin executes but does not contain: the interpreter of its `#!` line, the program of the
//! `command` in its manifest, and absolute paths among the arguments of either. Trust in a plugin includes those
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
use crate::registry::{Form, Plugin};

/// The first line of the hashed text, if a plugin executes such files.
const HEADING: &[u8] = b"jp-compact plugin and what it runs 1\n";
/// The limit of Linux for nested `#!` lines.
const SCRIPTS_MAX: usize = 5;

/// A file outside the system folders that a plugin executes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runs {
    /// The path as the plugin states it, or as it was found on PATH.
    pub named: PathBuf,
    /// The path with symbolic links resolved.
    pub real: PathBuf,
}

/// The digests of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    /// Covers the plugin and all files that it runs outside the system folders.
    pub(super) sha256: String,
    /// Covers the plugin alone.
    pub(super) own: String,
    pub(super) runs: Vec<Runs>,
}

impl Identity {
    /// Combines the digest of the plugin with the digests of the files that it runs.
    pub(super) fn new(own: String, runs: Vec<Runs>, digests: &Digests) -> io::Result<Self> {
        if runs.is_empty() {
            return Ok(Self { sha256: own.clone(), own, runs });
        }
        let mut all = [HEADING, own.as_bytes(), b"\n"].concat();
        for Runs { named, real } in &runs {
            let named = named.as_os_str().as_bytes();
            all.extend_from_slice(format!("{} {}:", digests.get(real)?, named.len()).as_bytes());
            all.extend_from_slice(named);
            all.push(b'\n');
        }
        Ok(Self { sha256: digest::of_bytes(&all), own, runs })
    }
}

/// Returns the files outside the system folders that a plugin executes. `root` is the plugin or its copy.
///
/// # Errors
/// It is uncertain what the plugin would start.
pub(super) fn resolve(plugin: &Plugin, root: &Path) -> Result<Vec<Runs>, String> {
    let mut found = Vec::new();
    match &plugin.form {
        Form::Executable => follow(root, &mut found)?,
        Form::Folder(manifest) => {
            let Program::Command(command) = &manifest.run.program else { return Ok(found) };
            let Some((program, args)) = command.split_first() else { return Ok(found) };
            if program.contains('/') && !program.starts_with('/') {
                follow(&root.join(program), &mut found)?;
            } else if let Some(named) = shebang::find(program)
                && let Some(real) = add(named, &mut found)
            {
                follow(&real, &mut found)?;
            }
            files(args, &mut found);
        }
        Form::Dylib | Form::Broken(_) => {}
    }
    Ok(found)
}

/// Adds the interpreter of a script and the interpreters of that interpreter, if they are outside the system folders.
fn follow(script: &Path, found: &mut Vec<Runs>) -> Result<(), String> {
    let mut next = Some(script.to_owned()).filter(|path| path.is_file());
    for _ in 0..SCRIPTS_MAX {
        let Some(script) = next else { return Ok(()) };
        let Some(line) = shebang::read(&script)? else { return Ok(()) };
        next = add(line.program, found);
        files(&line.args, found);
    }
    Err(format!("the `#!` line of {} has too many nested interpreters", script.display()))
}

/// Adds a file if its path is outside the system folders, before or after links are resolved. A missing file is
/// skipped, because it cannot start.
fn add(named: PathBuf, found: &mut Vec<Runs>) -> Option<PathBuf> {
    let real = named.canonicalize().ok().filter(|real| real.is_file())?;
    if is_of_system(&named) && is_of_system(&real) {
        return None;
    }
    if !found.iter().any(|other| other.named == named) {
        found.push(Runs { named, real: real.clone() });
    }
    Some(real)
}

fn files(args: &[String], found: &mut Vec<Runs>) {
    let absolute = args.iter().map(PathBuf::from).filter(|path| path.is_absolute());
    absolute.for_each(|path| drop(add(path, found)));
}
