//! The recognition of plugins: whether a path is one, and its name. An executable or shared library is named after its
//! file stem. A folder is named by its `plugin.toml`. This module reads manifests and must not execute anything.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jp_compact_schema::{Manifest, Mode, StrategyName};

use super::error::Error;
use crate::small_file;

/// The file that makes a folder a plugin.
pub const MANIFEST_FILE: &str = "plugin.toml";
/// The prefix of the executables of bundled strategies.
const BUNDLED_PREFIX: &str = "compact-strategy-";

/// A strategy that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// The name of the strategy.
    pub name: StrategyName,
    /// The path as it was found.
    pub path: PathBuf,
    /// The path with symbolic links resolved. Trust refers to this path.
    pub real: PathBuf,
    /// How the plugin was found.
    pub origin: PluginOrigin,
    /// The form of the plugin.
    pub form: PluginForm,
    /// Whether another plugin with this name runs instead.
    pub shadowed: bool,
}

/// How a plugin was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginOrigin {
    /// By its path.
    Path,
    /// In a folder of `--trust-dir`.
    TrustDir,
    /// In a folder of `--plugin-dir`.
    PluginDir,
    /// In a folder of `JP_COMPACT_PLUGIN_PATH`.
    PluginPath,
    /// In the folder of the host's executable.
    Bundled,
    /// In the `.jp` folder of the workspace.
    Workspace,
    /// In the data folder of the user.
    User,
    /// In the folder of the machine.
    Machine,
}

/// The form of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginForm {
    /// An executable file.
    Executable,
    /// A shared library, which the runner loads.
    Dylib,
    /// A folder with this manifest.
    Folder(Box<Manifest>),
    /// A folder with an invalid manifest, and the error. It is named after the folder and cannot run.
    Broken(String),
}

impl PluginOrigin {
    /// Returns the word for this origin in lists.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::TrustDir => "trust-dir",
            Self::PluginDir => "plugin-dir",
            Self::PluginPath => "plugin-path",
            Self::Bundled => "bundled",
            Self::Workspace => "workspace",
            Self::User => "user",
            Self::Machine => "machine",
        }
    }

    /// Returns whether the folder was given on the command line. If it is missing, that is an error.
    pub(super) fn is_from_command_line(self) -> bool {
        matches!(self, Self::TrustDir | Self::PluginDir)
    }
}

impl Plugin {
    /// Returns whether the plugin came with the host.
    #[must_use]
    pub fn bundled(&self) -> bool {
        self.origin == PluginOrigin::Bundled
    }

    /// Returns the manifest of a plugin folder.
    #[must_use]
    pub fn manifest(&self) -> Option<&Manifest> {
        match &self.form {
            PluginForm::Folder(manifest) => Some(manifest),
            _ => None,
        }
    }

    /// Returns whether a process serves one request or many.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.manifest().map_or(Mode::Auto, |manifest| manifest.run.mode)
    }

    /// Returns the manifest's time limit for one round.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.manifest()?.run.timeout_ms.map(Duration::from_millis)
    }

    /// Returns whether both plugins are the same file or folder.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        let file_id = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        let own_id = file_id(&self.real);
        self.real == other.real || (own_id.is_some() && own_id == file_id(&other.real))
    }
}

/// Returns the plugins of a folder, sorted by file name. Bundled strategies may be in a folder with thousands of other
/// files, such as `/usr/bin`, so a file with another name costs no system call.
pub(super) fn in_folder(folder: &Path, origin: PluginOrigin) -> io::Result<Vec<Plugin>> {
    let entries = fs::read_dir(folder)?;
    let real_folder = folder.canonicalize()?;
    let mut candidates = Vec::new();
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type().ok();
        let name = entry.file_name();
        if kind.is_some_and(|kind| kind.is_file()) && !may_be_plugin(Path::new(&name), origin) {
            continue;
        }
        let is_link = kind.is_none_or(|kind| kind.is_symlink());
        candidates.push((folder.join(&name), (!is_link).then(|| real_folder.join(&name))));
    }
    candidates.sort();
    // Other files are skipped: a README, a file that is not executable, a folder without a manifest.
    let plugins = candidates.into_iter().filter_map(|(path, real)| match real {
        Some(real) => plugin_at(&path, real, origin).ok(),
        None => plugin(&path, origin).ok(),
    });
    Ok(plugins.collect())
}

/// Returns whether a file with this name can be a plugin.
fn may_be_plugin(name: &Path, origin: PluginOrigin) -> bool {
    origin != PluginOrigin::Bundled
        || is_library(name)
        || file_name(name).is_ok_and(|name| name.starts_with(BUNDLED_PREFIX))
}

/// Returns the plugin at a path.
pub(super) fn at(path: &Path, origin: PluginOrigin) -> Result<Plugin, Error> {
    plugin(path, origin).map_err(|reason| Error::NoPlugin { path: path.to_owned(), reason })
}

/// Reads the plugin at a path, or returns why it is not a plugin.
fn plugin(path: &Path, origin: PluginOrigin) -> Result<Plugin, String> {
    let real = path.canonicalize().map_err(|error| error.to_string())?;
    plugin_at(path, real, origin)
}

/// Like [`plugin`], for a path whose symbolic links were resolved.
fn plugin_at(path: &Path, real: PathBuf, origin: PluginOrigin) -> Result<Plugin, String> {
    let metadata = fs::metadata(&real).map_err(|error| error.to_string())?;
    let (name, form) = if metadata.is_dir() {
        match manifest(&real) {
            Ok(None) => return Err(format!("a folder without `{MANIFEST_FILE}`")),
            Ok(Some(manifest)) => (Ok(manifest.name.clone()), PluginForm::Folder(Box::new(manifest))),
            Err(reason) => (strategy_name(file_name(path)?), PluginForm::Broken(reason)),
        }
    } else if !metadata.is_file() {
        return Err("neither a file nor a folder".into());
    } else if is_library(path) {
        let stem = stem(path)?;
        (strategy_name(stem.strip_prefix("lib").unwrap_or(stem)), PluginForm::Dylib)
    } else if metadata.permissions().mode() & 0o111 == 0 {
        return Err("it is not executable; run `chmod +x`".into());
    } else {
        let stem = if origin == PluginOrigin::Bundled {
            let name = file_name(path)?.strip_prefix(BUNDLED_PREFIX);
            name.ok_or("not a strategy of the host")?
        } else {
            stem(path)?
        };
        (strategy_name(stem), PluginForm::Executable)
    };
    Ok(Plugin { name: name?, path: path.to_owned(), real, origin, form, shadowed: false })
}

fn is_library(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "so")
}

fn strategy_name(stem: &str) -> Result<StrategyName, String> {
    StrategyName::parse(&stem.replace('_', "-")).map_err(|error| error.to_string())
}

fn file_name(path: &Path) -> Result<&str, String> {
    path.file_name().and_then(|name| name.to_str()).ok_or_else(|| "its name is not valid UTF-8".into())
}

fn stem(path: &Path) -> Result<&str, String> {
    path.file_stem().and_then(|name| name.to_str()).ok_or_else(|| "its name is not valid UTF-8".into())
}

/// Returns the manifest of a folder, or `None` if there is none.
fn manifest(folder: &Path) -> Result<Option<Manifest>, String> {
    let path = folder.join(MANIFEST_FILE);
    let bytes = small_file::read(&path, small_file::MANIFEST);
    let Some(bytes) = bytes.map_err(|error| error.to_string())? else { return Ok(None) };
    let text = small_file::text(bytes).map_err(|error| error.to_string())?;
    toml::from_str(&text).map(Some).map_err(|error| error.to_string().trim_end().to_owned())
}

/// Returns a file with the name of this strategy. Used when no such file is executable.
pub(super) fn not_executable(folder: &Path, name: &str) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.flatten().map(|file| file.path());
    let is_named = |path: &PathBuf| {
        stem(path).and_then(strategy_name).is_ok_and(|strategy| strategy.as_str() == name) && path.is_file()
    };
    files.filter(is_named).min()
}

/// Returns whether a path leads to an executable file.
pub(super) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn manifest_of(name: &str) -> String {
        format!(
            "manifest = 1\nname = \"{name}\"\nversion = \"1\"\ndescription = \"d\"\nprotocols = [1]\n\
             [run]\ncommand = [\"./run\"]\n"
        )
    }

    /// Checks the names of the plugins in a folder with these files: name, text, mode.
    #[track_caller]
    fn check(files: &[(&str, &str, u32)], expect: &[&str]) {
        check_origin(PluginOrigin::User, files, expect);
    }

    #[track_caller]
    fn check_origin(origin: PluginOrigin, files: &[(&str, &str, u32)], expect: &[&str]) {
        let base = tempfile::tempdir().unwrap();
        for (name, text, mode) in files {
            let path = base.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        }
        let found: Vec<_> =
            in_folder(base.path(), origin).unwrap().iter().map(|plugin| plugin.name.to_string()).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn an_executable_is_named_after_its_stem() {
        check(
            &[("keep_errors.py", "", 0o755), ("strip-all", "", 0o755), ("library", "", 0o755)],
            &["keep-errors", "library", "strip-all"],
        );
    }

    #[test]
    fn strips_the_lib_prefix_of_libraries() {
        check(&[("libtool_dedupe.so", "", 0o644), ("other.so", "", 0o755)], &["tool-dedupe", "other"]);
    }

    #[test]
    fn a_folder_is_named_by_its_manifest() {
        check(&[("folder/plugin.toml", &manifest_of("inner"), 0o644)], &["inner"]);
    }

    #[test]
    fn a_folder_with_an_invalid_manifest_keeps_its_own_name() {
        let misspelt = manifest_of("inner") + "[permissions]\nnetwrok = true\n";
        check(&[("outer/plugin.toml", &misspelt, 0o644)], &["outer"]);
    }

    #[test]
    fn bundled_executables_have_a_prefix() {
        let files = [
            ("compact-strategy-b", "", 0o755),
            ("compact-strategy-a", "", 0o755),
            ("compact-strategy-a.d", "", 0o644),
            ("other", "", 0o755),
            ("libc.so", "", 0o644),
            ("d/plugin.toml", &manifest_of("d"), 0o644),
        ];
        check_origin(PluginOrigin::Bundled, &files, &["a", "b", "d", "c"]);
    }

    #[test]
    fn links_are_resolved_in_the_folder_and_in_its_entries() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let executable = |path: PathBuf| {
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        fs::create_dir(base.join("real")).unwrap();
        executable(base.join("real/compact-strategy-a"));
        executable(base.join("elsewhere"));
        symlink("real", base.join("link")).unwrap();
        symlink("../elsewhere", base.join("real/compact-strategy-b")).unwrap();
        let found = in_folder(&base.join("link"), PluginOrigin::Bundled).unwrap();
        let paths: Vec<_> = found.iter().map(|plugin| (plugin.path.clone(), plugin.real.clone())).collect();
        let a = (base.join("link/compact-strategy-a"), base.join("real/compact-strategy-a"));
        assert_eq!(paths, [a, (base.join("link/compact-strategy-b"), base.join("elsewhere"))]);
    }

    #[test]
    fn skips_other_files() {
        check(
            &[
                ("README.md", "", 0o644),
                ("no-run-bit", "", 0o644),
                (".hidden", "", 0o755),
                ("jp-x", "", 0o755),
                ("Upper", "", 0o755),
                ("libx.so.1", "", 0o644),
                ("folder/run", "", 0o755),
            ],
            &[],
        );
    }
}
