//! The program and arguments that start a trusted plugin from its copy. A relative path of a program is relative
//! to the manifest and must not lead out of its folder.

use std::path::{Component, Path, PathBuf};

use jp_compact_schema::{Permissions, Program, Runtime};

use super::grants::{self, Grant};
use super::{command, shebang};
use crate::registry::{Plugin, PluginForm};

/// A plugin that may be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleared {
    /// The trusted plugin.
    pub plugin: Plugin,
    /// The SHA-256 of the plugin and of the files that it runs outside the system folders.
    pub sha256: String,
    /// The program: the copy, a program outside it, or the shared library that the runner loads.
    pub program: PathBuf,
    /// The arguments before the arguments of the protocol.
    pub args: Vec<String>,
    /// The folder that the program may read: the copy of a plugin folder.
    pub folder: Option<PathBuf>,
    /// The granted permissions.
    pub permissions: Permissions,
    /// The interpreter of the plugin.
    pub interpreter: Option<PathBuf>,
    /// The path of `--trust-lock`.
    pub lock: Option<PathBuf>,
}

impl Cleared {
    /// Returns the permissions that the plugin asked for but was not granted.
    #[must_use]
    pub fn missing(&self) -> Vec<Grant> {
        if self.plugin.bundled() {
            return Vec::new();
        }
        grants::missing(&asked(&self.plugin), &self.permissions)
    }

    /// Returns the command that grants exactly these permissions.
    #[must_use]
    pub fn command(&self, permissions: &Permissions) -> String {
        command::trust(&self.plugin, &grants::grants(permissions), self.lock.as_deref())
    }

    /// Returns whether the program is a shared library.
    #[must_use]
    pub fn is_dylib(&self) -> bool {
        match &self.plugin.form {
            PluginForm::Dylib => true,
            PluginForm::Folder(manifest) => matches!(manifest.run.program, Program::Dylib(_)),
            PluginForm::Executable | PluginForm::Broken(_) => false,
        }
    }
}

/// Returns a bundled strategy, which runs from its own path.
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

/// Returns how the copy of a plugin is started.
///
/// # Errors
/// The manifest names a program that is not in the folder or cannot be found.
pub(super) fn copy(
    plugin: &Plugin,
    sha256: String,
    copy: &Path,
    permissions: Permissions,
    interpreter: Option<PathBuf>,
) -> Result<Cleared, String> {
    let (program, args, folder) = match &plugin.form {
        PluginForm::Folder(manifest) => {
            let (program, args) = in_folder(&manifest.run.program, copy)?;
            (program, args, Some(copy.to_owned()))
        }
        _ => (copy.to_owned(), Vec::new(), None),
    };
    let (plugin, lock) = (plugin.clone(), None);
    Ok(Cleared { plugin, sha256, program, args, folder, permissions, interpreter, lock })
}

/// Returns the permissions from the manifest, or the runtime of a script's interpreter.
#[must_use]
pub fn asked(plugin: &Plugin) -> Permissions {
    match &plugin.form {
        PluginForm::Folder(manifest) => manifest.permissions.clone(),
        PluginForm::Executable => {
            let runtime = interpreter(plugin).map_or(Runtime::None, |path| shebang::runtime(&path));
            Permissions { runtime, ..Permissions::default() }
        }
        PluginForm::Dylib | PluginForm::Broken(_) => Permissions::default(),
    }
}

/// Returns the interpreter from the `#!` line of a script, or from the command of a manifest.
pub(super) fn interpreter(plugin: &Plugin) -> Option<PathBuf> {
    match &plugin.form {
        PluginForm::Executable => shebang::interpreter(&plugin.real),
        PluginForm::Folder(manifest) => match &manifest.run.program {
            Program::Command(command) => {
                let program = command.first()?;
                let path = plugin.real.join(program);
                if program.contains('/') && !program.starts_with('/') {
                    shebang::interpreter(&path)
                } else {
                    shebang::find_real(program)
                }
            }
            _ => None,
        },
        PluginForm::Dylib | PluginForm::Broken(_) => None,
    }
}

/// Returns the program and arguments of a manifest. An argument that names a file in the folder becomes an
/// absolute path, because a strategy is started in another working folder.
fn in_folder(program: &Program, copy: &Path) -> Result<(PathBuf, Vec<String>), String> {
    let command = match program {
        Program::Dylib(library) => return Ok((file_in(library, copy)?, Vec::new())),
        Program::Command(command) => command,
    };
    let Some((program, args)) = command.split_first() else {
        return Err("`command` names no program".into());
    };
    let path = if program.starts_with('/') {
        PathBuf::from(program)
    } else if program.contains('/') {
        file_in(program, copy)?
    } else {
        // Links are kept, because a program can depend on its name.
        shebang::find(program)
            .ok_or_else(|| format!("`{program}` was not found in /usr/local/bin, /usr/bin, or /bin"))?
    };
    let arg = |arg: &String| match file_in(arg, copy) {
        Ok(path) => path.to_str().map_or_else(|| arg.clone(), str::to_owned),
        Err(_) => arg.clone(),
    };
    Ok((path, args.iter().map(arg).collect()))
}

/// Returns the path of a file in the folder of a plugin.
///
/// # Errors
/// The path leads out of the folder, or there is no such file.
pub fn file_in(relative: &str, folder: &Path) -> Result<PathBuf, String> {
    let components = Path::new(relative).components();
    if !components.clone().all(|component| matches!(component, Component::Normal(_) | Component::CurDir)) {
        return Err(format!("`{relative}` leads out of the plugin's folder"));
    }
    let path: PathBuf =
        folder.join(components.filter(|component| *component != Component::CurDir).collect::<PathBuf>());
    if path.is_file() { Ok(path) } else { Err(format!("the plugin's folder has no file `{relative}`")) }
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
    fn resolves_commands_relative_to_the_manifest() {
        check(&["./main.py"], Ok(&["COPY/main.py"]));
        check(
            &["/bin/x", "-I", "main.py", "--mode=main.py"],
            Ok(&["/bin/x", "-I", "COPY/main.py", "--mode=main.py"]),
        );
    }

    #[test]
    fn starts_a_program_by_its_name_in_the_path_of_strategies() {
        let path = shebang::find("sh").unwrap();
        check(&["sh", "main.py"], Ok(&[path.to_str().unwrap(), "COPY/main.py"]));
    }

    #[test]
    fn searches_programs_on_the_path_of_strategies() {
        check(
            &["no-such-program"],
            Err("`no-such-program` was not found in /usr/local/bin, /usr/bin, or /bin"),
        );
    }

    #[test]
    fn rejects_programs_outside_the_folder() {
        check(&["../main.py"], Err("`../main.py` leads out of the plugin's folder"));
        check(&["./other"], Err("the plugin's folder has no file `./other`"));
    }
}
