//! What is started of a plugin that may run: which program with which arguments, from its copy. Paths in a
//! manifest are relative to it, and lead nowhere outside its folder.

use std::path::{Component, Path, PathBuf};

use jp_compact_schema::{Permissions, Program};

use super::grants::{self, Grant};
use super::{command, shebang};
use crate::failure::StrategyFailure;
use crate::registry::{Form, Plugin};

/// A plugin that may be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleared {
    /// The plugin.
    pub plugin: Plugin,
    /// SHA-256 of its bytes.
    pub sha256: String,
    /// What is started: the copy, an interpreter, or the shared library for the runner to open.
    pub program: PathBuf,
    /// Its arguments before the protocol's own.
    pub args: Vec<String>,
    /// The folder that the program may read beside itself: the copy of a folder.
    pub folder: Option<PathBuf>,
    /// What was granted.
    pub permissions: Permissions,
    /// The interpreter that the runtime is of.
    pub interpreter: Option<PathBuf>,
    /// The lock file that was named.
    pub lock: Option<PathBuf>,
}

impl Cleared {
    /// What it asked for and was not granted.
    #[must_use]
    pub fn missing(&self) -> Vec<Grant> {
        if self.plugin.bundled() {
            return Vec::new();
        }
        grants::missing(&super::asked(&self.plugin), &self.permissions)
    }

    /// The command that grants it all of these permissions.
    #[must_use]
    pub fn command(&self, permissions: &Permissions) -> String {
        command::trust(&self.plugin, &grants::grants(permissions), self.lock.as_deref())
    }

    /// Whether the program is a shared library.
    #[must_use]
    pub fn is_dylib(&self) -> bool {
        match &self.plugin.form {
            Form::Dylib => true,
            Form::Folder(manifest) => matches!(manifest.run.program, Program::Dylib(_)),
            Form::Executable | Form::Broken(_) => false,
        }
    }
}

/// A bundled strategy, where it lies.
pub(super) fn bundled(plugin: &Plugin, sha256: String) -> Cleared {
    Cleared {
        program: plugin.path.clone(),
        plugin: plugin.clone(),
        sha256,
        args: Vec::new(),
        folder: None,
        permissions: Permissions::default(),
        interpreter: None,
        lock: None,
    }
}

/// A plugin, as its copy.
pub(super) fn copy(
    plugin: &Plugin,
    sha256: String,
    copy: &Path,
    permissions: Permissions,
    interpreter: Option<PathBuf>,
) -> Result<Cleared, StrategyFailure> {
    let (program, args, folder) = match &plugin.form {
        Form::Folder(manifest) => {
            let bad = |what| StrategyFailure::BadManifest { path: plugin.path.clone(), what };
            let (program, args) = in_folder(&manifest.run.program, copy).map_err(bad)?;
            (program, args, Some(copy.to_owned()))
        }
        _ => (copy.to_owned(), Vec::new(), None),
    };
    let (plugin, lock) = (plugin.clone(), None);
    Ok(Cleared { plugin, sha256, program, args, folder, permissions, interpreter, lock })
}

/// The interpreter that a plugin is run by: of a script's first line, of a manifest's command.
pub(super) fn interpreter(plugin: &Plugin) -> Option<PathBuf> {
    match &plugin.form {
        Form::Executable => shebang::interpreter(&plugin.real),
        Form::Folder(manifest) => match &manifest.run.program {
            Program::Command(command) => {
                let program = command.first()?;
                let inside = plugin.real.join(program);
                if program.contains('/') && !program.starts_with('/') {
                    shebang::interpreter(&inside)
                } else {
                    shebang::look_up(program)
                }
            }
            _ => None,
        },
        Form::Dylib | Form::Broken(_) => None,
    }
}

/// What a manifest starts. An argument that names a file of the folder becomes that file's path, for a strategy
/// is started in a folder of its own.
fn in_folder(program: &Program, copy: &Path) -> Result<(PathBuf, Vec<String>), String> {
    let command = match program {
        Program::Dylib(library) => return Ok((inside(library, copy)?, Vec::new())),
        Program::Command(command) => command,
    };
    let Some((program, args)) = command.split_first() else {
        return Err("`command` names no program".into());
    };
    let path = if program.starts_with('/') {
        PathBuf::from(program)
    } else if program.contains('/') {
        inside(program, copy)?
    } else {
        shebang::look_up(program).ok_or_else(|| format!("`{program}` is not on a strategy's PATH"))?
    };
    let arg = |arg: &String| match inside(arg, copy) {
        Ok(path) => path.to_str().map_or_else(|| arg.clone(), str::to_owned),
        Err(_) => arg.clone(),
    };
    Ok((path, args.iter().map(arg).collect()))
}

/// A file of the folder.
fn inside(relative: &str, folder: &Path) -> Result<PathBuf, String> {
    let steps = Path::new(relative).components();
    if !steps.clone().all(|step| matches!(step, Component::Normal(_) | Component::CurDir)) {
        return Err(format!("`{relative}` leads out of the plugin's folder"));
    }
    let path: PathBuf = folder.join(steps.filter(|step| *step != Component::CurDir).collect::<PathBuf>());
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("there is no file `{relative}` in the plugin's folder"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &[&str], expect: Result<&[&str], &str>) {
        let base = tempfile::tempdir().unwrap();
        let copy = base.path();
        std::fs::write(copy.join("main.py"), "").unwrap();
        let program = Program::Command(command.iter().map(|&word| word.to_owned()).collect());
        let found = in_folder(&program, copy).map(|(program, args)| {
            let words: Vec<_> = std::iter::once(program.to_str().unwrap().to_owned()).chain(args).collect();
            words.iter().map(|word| word.replace(copy.to_str().unwrap(), "COPY")).collect::<Vec<_>>()
        });
        let expect = expect.map(|words| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(found, expect.map_err(str::to_owned));
    }

    #[test]
    fn a_command_is_relative_to_its_manifest() {
        check(&["./main.py"], Ok(&["COPY/main.py"]));
        check(
            &["/bin/x", "-I", "main.py", "--mode=main.py"],
            Ok(&["/bin/x", "-I", "COPY/main.py", "--mode=main.py"]),
        );
    }

    #[test]
    fn a_program_is_looked_up_on_a_strategy_s_own_path() {
        check(&["no-such-program"], Err("`no-such-program` is not on a strategy's PATH"));
    }

    #[test]
    fn a_program_outside_the_folder_is_refused() {
        check(&["../main.py"], Err("`../main.py` leads out of the plugin's folder"));
        check(&["./other"], Err("there is no file `./other` in the plugin's folder"));
    }
}
