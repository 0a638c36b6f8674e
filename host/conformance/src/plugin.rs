//! The plugin under test: an executable, a shared library, or a folder with a manifest. This module reads the
//! manifest and must not execute anything.

use std::io;
use std::path::{Path, PathBuf};

use jp_compact_schema::{Manifest, Permissions, Program, Runtime};

use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::jail::{Abilities, Jail, is_of_system};
use jp_compact_runtime::session;
use jp_compact_runtime::small_file;
use jp_compact_runtime::trust::{self, Grant, grants};

/// The folders that are searched for a program name without a slash, as PROTOCOL.md defines them.
const PATH: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// The program with which a check removes an environment variable of the plugin.
pub(super) const ENV: &str = "/usr/bin/env";

/// The reason why a path is not a plugin that can be started.
#[derive(Debug, thiserror::Error)]
pub enum TestedPluginError {
    /// The folder has no manifest.
    #[error("it has no plugin.toml")]
    NoManifest,
    /// The manifest cannot be read, or is invalid.
    #[error("plugin.toml: {0}")]
    Manifest(String),
    /// The program of a plugin folder is missing. `command` builds it, if the folder shows how it is built.
    #[error("`{program}` is missing")]
    NotBuilt { program: String, command: Option<String> },
    /// The interpreter of a script is not installed.
    #[error("the interpreter `{0}` of its `#!` line is not installed")]
    NoInterpreter(String),
    #[error("`{0}` was not found in {folders}", folders = PATH.join(":"))]
    NoProgram(String),
    #[error("its manifest names no program in `command`")]
    NoCommand,
    #[error("its path or name is not UTF-8")]
    NotUtf8,
    #[error("{0}")]
    NotFound(#[from] io::Error),
    /// The shared library of the plugin does not exist.
    #[error("{path}: {error}")]
    NoLibrary { path: String, error: io::Error },
}

/// A plugin that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestedPlugin {
    /// The name in the manifest, or the file name. The plugin's description must have the same name.
    pub name: String,
    /// The manifest of a plugin folder.
    pub manifest: Option<Manifest>,
    /// The program to execute.
    pub program: PathBuf,
    /// The arguments before the verb.
    pub args: Vec<String>,
    /// The file or folder of the plugin.
    path: PathBuf,
    /// The granted permissions. Empty at first.
    granted: Permissions,
}

impl TestedPlugin {
    /// Returns the plugin at a path. `runner` loads shared libraries.
    ///
    /// # Errors
    /// The path is not a valid plugin.
    pub fn at(path: &Path, runner: &Path) -> Result<Self, TestedPluginError> {
        let path = path.canonicalize()?;
        if path.is_dir() {
            return Self::in_folder(&path, runner);
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str()).ok_or(TestedPluginError::NotUtf8)?;
        let (program, args, stem) = if path.extension().is_some_and(|extension| extension == "so") {
            let stem = stem.strip_prefix("lib").unwrap_or(stem);
            (runner.to_owned(), library_args(&path)?, stem)
        } else {
            // Bundled strategies are tested like all others.
            let stem = stem.strip_prefix("compact-strategy-").unwrap_or(stem);
            check_interpreter(&path)?;
            (path.clone(), Vec::new(), stem)
        };
        Ok(Self {
            name: stem.replace('_', "-"),
            manifest: None,
            program,
            args,
            path,
            granted: Permissions::default(),
        })
    }

    /// Returns the plugin of a folder with a manifest.
    fn in_folder(folder: &Path, runner: &Path) -> Result<Self, TestedPluginError> {
        let file = folder.join("plugin.toml");
        let invalid = |error: io::Error| TestedPluginError::Manifest(error.to_string());
        let bytes = small_file::read(&file, small_file::MANIFEST).map_err(invalid)?;
        let text = small_file::text(bytes.ok_or(TestedPluginError::NoManifest)?).map_err(invalid)?;
        let manifest: Manifest = toml::from_str(&text)
            .map_err(|error| TestedPluginError::Manifest(error.to_string().trim_end().to_owned()))?;
        grants::check(&manifest.permissions).map_err(TestedPluginError::Manifest)?;
        let (program, args) = match &manifest.run.program {
            Program::Dylib(file) => {
                check_built(folder, file, &text)?;
                let args = library_args(&folder.join(file))?;
                trust::file_in(file, folder).map_err(TestedPluginError::Manifest)?;
                (runner.to_owned(), args)
            }
            Program::Command(command) => {
                let (first, rest) = command.split_first().ok_or(TestedPluginError::NoCommand)?;
                check_built(folder, first, &text)?;
                let program = if first.contains('/') && !first.starts_with('/') {
                    trust::file_in(first, folder).map_err(TestedPluginError::Manifest)?
                } else {
                    find_program(folder, first)?
                };
                // An argument that names a file of the folder is replaced by the path of the file, because the
                // process has another working folder.
                let args = rest.iter().map(|arg| {
                    let file = trust::file_in(arg, folder).ok();
                    file.and_then(|file| file.to_str().map(str::to_owned)).unwrap_or_else(|| arg.clone())
                });
                (program, args.collect())
            }
        };
        let name = manifest.name.to_string();
        Ok(Self {
            name,
            manifest: Some(manifest),
            program,
            args,
            path: folder.to_owned(),
            granted: Permissions::default(),
        })
    }

    /// Returns the arguments for a verb.
    pub(super) fn arguments<'a>(&'a self, verb: &'a str) -> Vec<&'a str> {
        self.args.iter().map(String::as_str).chain([verb]).collect()
    }

    /// Returns the plugin with these additional permissions.
    #[must_use]
    pub fn granted(mut self, added: &[Grant]) -> Self {
        self.granted = grants::add(self.granted, added);
        self
    }

    /// Returns the permissions that the plugin asks for but does not have. Two are left out: an interpreter in a
    /// system folder, which needs no approval, and `llm`, because the checks call no model.
    #[must_use]
    pub fn missing(&self) -> Vec<Grant> {
        let asked = self.manifest.as_ref().map(|manifest| manifest.permissions.clone()).unwrap_or_default();
        let is_of_system = self.interpreter().is_some_and(|path| is_of_system(&path));
        let needs_no_question =
            |grant: &Grant| *grant == Grant::Llm || is_of_system && matches!(grant, Grant::Runtime(_));
        let mut missing = grants::missing(&asked, &self.granted);
        missing.retain(|grant| !needs_no_question(grant));
        missing
    }

    /// Returns the permissions that the plugin lacks, and the permission that it probably tried to use. The text of the
    /// failed check decides about the second.
    #[must_use]
    pub fn missing_permissions(&self, failure: &str) -> (Vec<Grant>, Option<Grant>) {
        let runtime = self.interpreter().map_or(Runtime::None, |path| trust::runtime(&path));
        let lacks_runtime =
            runtime != Runtime::None && !self.may_interpret() && failure.contains("failed to start");
        let tried = if lacks_runtime {
            Some(Grant::Runtime(runtime))
        } else {
            let mut allowed = self.granted.clone();
            if allowed.runtime == Runtime::None && self.may_interpret() {
                allowed.runtime = runtime;
            }
            session::guess(failure, &allowed, &self.path)
        };
        (self.missing(), tried)
    }

    /// Returns the granted permissions together with `added`.
    #[must_use]
    pub fn all_with(&self, added: &[Grant]) -> Vec<Grant> {
        grants::grants(&grants::add(self.granted.clone(), added))
    }

    /// Returns the current values of the granted variables.
    #[must_use]
    pub fn env(&self) -> Vec<(String, String)> {
        let names = self.granted.env.iter();
        names.filter_map(|name| Some((name.clone(), Environment::granted(name)?))).collect()
    }

    /// Returns the path of the interpreter, with links resolved: the program itself if it is outside of the plugin, or
    /// the interpreter that the `#!` line of the program names.
    fn interpreter(&self) -> Option<PathBuf> {
        if self.program.starts_with(&self.path) {
            trust::interpreter(&self.program)
        } else if self.args.first().is_some_and(|arg| arg == "--dylib") {
            None
        } else {
            self.program.canonicalize().ok()
        }
    }

    /// Returns whether the interpreter may run. An interpreter in a system folder needs no approval if the manifest
    /// asks for a runtime, or if there is no manifest.
    fn may_interpret(&self) -> bool {
        let needs_runtime = |manifest: &Manifest| manifest.permissions.runtime != Runtime::None;
        let is_of_system = self.interpreter().is_some_and(|path| is_of_system(&path));
        self.granted.runtime != Runtime::None
            || is_of_system && self.manifest.as_ref().is_none_or(needs_runtime)
    }

    /// Returns a jail with the granted permissions, or `None` if this machine has no jail. It differs from the jail of
    /// the host: it also allows `env`, which the checks use, and an interpreter outside the system folders always needs
    /// a grant.
    #[must_use]
    pub fn jail(&self, abilities: Abilities) -> Option<Jail> {
        let interpreter = self.interpreter();
        let may_run = interpreter.as_deref().filter(|_| self.may_interpret());
        let jail = Jail::new(abilities, &self.path, &self.granted, may_run)?.with_program(Path::new(ENV));
        let is_library = self.args.first().is_some_and(|arg| arg == "--dylib");
        Some(if is_library { jail.with_program(&self.program) } else { jail })
    }
}

/// Rejects a folder whose program is not built yet. A manifest of `strategy new` has the command in a comment.
fn check_built(folder: &Path, program: &str, manifest: &str) -> Result<(), TestedPluginError> {
    let path = folder.join(program);
    if !program.contains('/') {
        return Ok(());
    }
    if path.is_file() {
        return check_interpreter(&path);
    }
    let command = manifest.lines().find_map(|line| line.strip_prefix("# Build:")).map(str::trim);
    let command = command.or_else(|| folder.join("Cargo.toml").is_file().then_some("cargo build"));
    Err(TestedPluginError::NotBuilt { program: program.to_owned(), command: command.map(str::to_owned) })
}

/// The longest `#!` line that is read.
const SHEBANG_BYTES_MAX: u64 = 256;

/// Rejects a script whose interpreter is not installed. The system would only report that a file is missing.
fn check_interpreter(script: &Path) -> Result<(), TestedPluginError> {
    let start = small_file::read_start(script, SHEBANG_BYTES_MAX).unwrap_or_default();
    let start = String::from_utf8_lossy(&start);
    let Some(line) = start.strip_prefix("#!").and_then(|rest| rest.lines().next()) else { return Ok(()) };
    let mut words = line.split_whitespace();
    let Some(program) = words.next() else { return Ok(()) };
    let name = if program == ENV { words.next().unwrap_or(program) } else { program };
    if name.starts_with('-') || find_program(Path::new("/"), name).is_ok_and(|path| path.exists()) {
        return Ok(());
    }
    Err(TestedPluginError::NoInterpreter(name.to_owned()))
}

/// Finds the program of a command: a path in the folder, or a name on PATH.
fn find_program(folder: &Path, name: &str) -> Result<PathBuf, TestedPluginError> {
    if name.contains('/') {
        return Ok(folder.join(name));
    }
    let mut candidates = PATH.iter().map(|folder| Path::new(folder).join(name));
    candidates.find(|path| path.is_file()).ok_or_else(|| TestedPluginError::NoProgram(name.to_owned()))
}

/// Returns the arguments that make the runner load a library.
fn library_args(path: &Path) -> Result<Vec<String>, TestedPluginError> {
    let path = path
        .canonicalize()
        .map_err(|error| TestedPluginError::NoLibrary { path: path.display().to_string(), error })?;
    let path = path.to_str().ok_or(TestedPluginError::NotUtf8)?;
    Ok(vec!["--dylib".into(), path.to_owned()])
}
