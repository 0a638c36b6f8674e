//! What makes a file or a folder a plugin, and what it is called: an executable or a shared library by its
//! file's stem, a folder by its `plugin.toml`. Reads manifests, and executes nothing.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jp_compact_schema::{Manifest, Mode, StrategyName};

use super::Folder;
use crate::failure::StrategyFailure;
use crate::small_file;

/// What makes a folder a plugin.
pub const MANIFEST_FILE: &str = "plugin.toml";
/// What a bundled strategy's executable is called before its name.
const BUNDLED_PREFIX: &str = "compact-strategy-";

/// A file or folder that is a strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// The strategy's name.
    pub name: StrategyName,
    /// The file or folder, as it was reached.
    pub path: PathBuf,
    /// The same, symbolic links resolved: what trust is about.
    pub real: PathBuf,
    /// How it was found.
    pub origin: Origin,
    /// What it is.
    pub form: Form,
    /// Whether another of that name runs in its place.
    pub shadowed: bool,
}

/// How a plugin was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// By its path.
    Path,
    /// In a folder of `--trust-dir`.
    TrustDir,
    /// In a folder of `--plugin-dir`.
    PluginDir,
    /// In a folder of `JP_COMPACT_PLUGIN_PATH`.
    PluginPath,
    /// Beside the host's executable: it came with the host.
    Bundled,
    /// In the workspace's `.jp`.
    Workspace,
    /// In the user's data.
    User,
    /// In the machine's.
    Machine,
}

/// What a plugin is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// An executable.
    Executable,
    /// A shared library, which the runner opens.
    Dylib,
    /// A folder with this manifest.
    Folder(Box<Manifest>),
    /// A folder whose manifest is none, and why. It is called as its folder is, and does not run.
    Broken(String),
}

impl Origin {
    /// The word that lists show.
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

    /// Whether its folder was named on the command line: one that is missing is then an error.
    pub(super) fn is_named_by_hand(self) -> bool {
        matches!(self, Self::TrustDir | Self::PluginDir)
    }
}

impl Plugin {
    /// Whether it came with the host.
    #[must_use]
    pub fn bundled(&self) -> bool {
        self.origin == Origin::Bundled
    }

    /// The manifest, where there is one.
    #[must_use]
    pub fn manifest(&self) -> Option<&Manifest> {
        match &self.form {
            Form::Folder(manifest) => Some(manifest),
            _ => None,
        }
    }

    /// For how many requests a process of it is started.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.manifest().map_or(Mode::Auto, |manifest| manifest.run.mode)
    }

    /// How long it wants for one round, where its manifest says that.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.manifest()?.run.timeout_ms.map(Duration::from_millis)
    }

    /// Whether both are one file, however each was reached.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        let identity = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        self.real == other.real
            || (identity(&self.real).is_some() && identity(&self.real) == identity(&other.real))
    }
}

/// The plugins of a folder, by the names of their files.
pub(super) fn in_folder(folder: &Folder) -> io::Result<Vec<Plugin>> {
    let mut paths: Vec<_> = fs::read_dir(&folder.path)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    paths.sort();
    // What is no plugin is passed over: a README, a file without its run bit, a folder without manifest.
    Ok(paths.iter().filter_map(|path| plugin(path, folder.origin).ok()).collect())
}

/// The plugin at a path.
pub(super) fn at(path: &Path, origin: Origin) -> Result<Plugin, StrategyFailure> {
    plugin(path, origin).map_err(|what| StrategyFailure::NoPlugin { path: path.to_owned(), what })
}

fn plugin(path: &Path, origin: Origin) -> Result<Plugin, String> {
    let real = path.canonicalize().map_err(|error| error.to_string())?;
    let file = fs::metadata(&real).map_err(|error| error.to_string())?;
    let (name, form) = if file.is_dir() {
        match manifest(&real) {
            Ok(None) => return Err(format!("a folder without `{MANIFEST_FILE}`")),
            Ok(Some(manifest)) => (Ok(manifest.name.clone()), Form::Folder(Box::new(manifest))),
            Err(what) => (named_for(file_name(path)?), Form::Broken(what)),
        }
    } else if !file.is_file() {
        return Err("neither a file nor a folder".into());
    } else if path.extension().is_some_and(|extension| extension == "so") {
        let stem = stem(path)?;
        (named_for(stem.strip_prefix("lib").unwrap_or(stem)), Form::Dylib)
    } else if file.permissions().mode() & 0o111 == 0 {
        return Err("it is not executable: `chmod +x` makes it so".into());
    } else {
        let stem = if origin == Origin::Bundled {
            let name = file_name(path)?.strip_prefix(BUNDLED_PREFIX);
            name.ok_or("no strategy of the host's own")?
        } else {
            stem(path)?
        };
        (named_for(stem), Form::Executable)
    };
    Ok(Plugin { name: name?, path: path.to_owned(), real, origin, form, shadowed: false })
}

fn named_for(stem: &str) -> Result<StrategyName, String> {
    StrategyName::parse(&stem.replace('_', "-")).map_err(|error| error.to_string())
}

fn file_name(path: &Path) -> Result<&str, String> {
    path.file_name().and_then(|name| name.to_str()).ok_or_else(|| "its name is not text".into())
}

fn stem(path: &Path) -> Result<&str, String> {
    path.file_stem().and_then(|name| name.to_str()).ok_or_else(|| "its name is not text".into())
}

/// A folder's manifest, if there is one.
fn manifest(folder: &Path) -> Result<Option<Manifest>, String> {
    let path = folder.join(MANIFEST_FILE);
    let read = small_file::read(&path, small_file::MANIFEST);
    let Some(bytes) = read.map_err(|error| error.to_string())? else { return Ok(None) };
    let text = small_file::text(bytes).map_err(|error| error.to_string())?;
    toml::from_str(&text).map(Some).map_err(|error| error.to_string().trim_end().to_owned())
}

/// A file in a folder that would be the strategy of this name, were it executable.
pub(super) fn not_executable(folder: &Path, name: &str) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.flatten().map(|file| file.path());
    let is_named = |path: &PathBuf| {
        stem(path).and_then(named_for).is_ok_and(|own| own.as_str() == name) && path.is_file()
    };
    files.filter(is_named).min()
}

/// Whether a path leads to a file that may be executed.
pub(super) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest_of(name: &str) -> String {
        format!(
            "manifest = 1\nname = \"{name}\"\nversion = \"1\"\ndescription = \"d\"\nprotocols = [1]\n\
             [run]\ncommand = [\"./run\"]\n"
        )
    }

    /// The names of the plugins in a folder with these files: name, text, mode.
    #[track_caller]
    fn check(files: &[(&str, &str, u32)], expect: &[&str]) {
        let base = tempfile::tempdir().unwrap();
        for (name, text, mode) in files {
            let path = base.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        }
        let folder = Folder { path: base.path().to_owned(), origin: Origin::User };
        let found: Vec<_> =
            in_folder(&folder).unwrap().iter().map(|plugin| plugin.name.to_string()).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn an_executable_is_named_for_its_stem() {
        check(
            &[("keep_errors.py", "", 0o755), ("strip-all", "", 0o755), ("library", "", 0o755)],
            &["keep-errors", "library", "strip-all"],
        );
    }

    #[test]
    fn a_library_loses_its_lib() {
        check(&[("libtool_dedupe.so", "", 0o644), ("other.so", "", 0o755)], &["tool-dedupe", "other"]);
    }

    #[test]
    fn a_folder_is_named_by_its_manifest() {
        check(&[("folder/plugin.toml", &manifest_of("inner"), 0o644)], &["inner"]);
    }

    #[test]
    fn a_folder_with_a_wrong_manifest_is_named_for_itself() {
        let misspelt = manifest_of("inner") + "[permissions]\nnetwrok = true\n";
        check(&[("outer/plugin.toml", &misspelt, 0o644)], &["outer"]);
    }

    #[test]
    fn everything_else_is_skipped() {
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
