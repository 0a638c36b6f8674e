//! The only module that reads the environment variables and the current folder of the host. Other code receives an
//! [`Environment`], so tests can build one. It is not the environment of child processes, which starts empty.

use std::{
    collections::BTreeMap,
    env, io,
    path::{Component, Path, PathBuf},
};

use crate::allowed_root::AllowedRoot;

/// The folders and variables of the host process.
#[derive(Debug, Clone)]
pub struct Environment {
    /// All relative paths are resolved against this folder.
    pub cwd: PathBuf,
    /// If set, files that others name (MCP clients) must be in this folder.
    pub allowed_root: Option<AllowedRoot>,
    /// The home folder of the user.
    pub home: Option<PathBuf>,
    /// `JP_USER_DATA_DIR`: the user data folder of JP.
    pub jp_user_data_dir: Option<PathBuf>,
    /// `XDG_DATA_HOME` if it is absolute. The specification requires that relative values are ignored.
    pub xdg_data_home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME` if it is absolute.
    pub xdg_config_home: Option<PathBuf>,
    /// `XDG_STATE_HOME` if it is absolute.
    pub xdg_state_home: Option<PathBuf>,
    /// `XDG_CACHE_HOME` if it is absolute.
    pub xdg_cache_home: Option<PathBuf>,
    /// The folders of `JP_COMPACT_PLUGIN_PATH`, in order.
    pub plugin_path: Vec<PathBuf>,
    /// `JP_COMPACT_TEST_LANDLOCK`, for tests: the highest Landlock version to use. 0 disables Landlock.
    pub landlock_max: Option<u8>,
    /// `JP_COMPACT_TEST_SECCOMP=0`, for tests: act as if the machine had no seccomp.
    pub without_seccomp: bool,
    /// The folder for temporary files.
    pub temp_dir: PathBuf,
    /// The executable of the host, with symbolic links resolved.
    pub exe: Option<PathBuf>,
    /// All other variables, read by name: for example `PATH`, and the addresses and keys of models.
    pub variables: Variables,
}

/// The source of variables. A value is read when it is needed and never stored, because it may be a key.
#[derive(Debug, Clone)]
pub enum Variables {
    /// The variables of this process.
    OfProcess,
    /// A fixed set, for tests.
    These(BTreeMap<String, String>),
}

impl Variables {
    /// Returns the value of a variable. An empty variable counts as unset.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        let value = match self {
            Self::OfProcess => env::var(name).ok(),
            Self::These(variables) => variables.get(name).cloned(),
        };
        value.filter(|value| !value.is_empty())
    }
}

/// Returns an absolute path without symbolic links, `.`, and `..`. If the path was removed, only the links and folders
/// that still exist are resolved.
#[must_use]
pub fn real_path(path: &Path) -> PathBuf {
    // Same as the limit of Linux. It ends a loop of links.
    let mut links_left = 40;
    resolve(path, &mut links_left)
}

fn resolve(path: &Path, links_left: &mut usize) -> PathBuf {
    let existing = path.ancestors().find_map(|folder| Some((folder, folder.canonicalize().ok()?)));
    let Some((folder, mut real)) = existing else { return path.to_owned() };
    for part in path.strip_prefix(folder).unwrap_or(path).components() {
        match (part, real.join(part).read_link()) {
            (Component::ParentDir, _) => _ = real.pop(),
            (_, Ok(target)) if *links_left > 0 => {
                *links_left -= 1;
                real = resolve(&real.join(target), links_left);
            }
            _ => real.push(part),
        }
    }
    real
}

impl Environment {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// The current folder was removed or cannot be accessed.
    pub fn of_process() -> io::Result<Self> {
        Ok(Self {
            cwd: env::current_dir()?,
            allowed_root: None,
            home: env::home_dir().filter(|home| !home.as_os_str().is_empty()),
            jp_user_data_dir: folder("JP_USER_DATA_DIR"),
            xdg_data_home: absolute_folder("XDG_DATA_HOME"),
            xdg_config_home: absolute_folder("XDG_CONFIG_HOME"),
            xdg_state_home: absolute_folder("XDG_STATE_HOME"),
            xdg_cache_home: absolute_folder("XDG_CACHE_HOME"),
            plugin_path: folders("JP_COMPACT_PLUGIN_PATH"),
            landlock_max: env::var("JP_COMPACT_TEST_LANDLOCK").ok().map(|max| max.parse().unwrap_or(0)),
            without_seccomp: env::var_os("JP_COMPACT_TEST_SECCOMP").is_some_and(|value| value == "0"),
            temp_dir: env::temp_dir(),
            exe: env::current_exe().and_then(|exe| exe.canonicalize()).ok(),
            variables: Variables::OfProcess,
        })
    }

    /// Returns an environment with a current folder, which is also the folder for temporary files, and nothing else.
    #[must_use]
    pub fn bare(cwd: impl AsRef<Path>) -> Self {
        let cwd = cwd.as_ref().to_path_buf();
        Self {
            temp_dir: cwd.clone(),
            cwd,
            allowed_root: None,
            home: None,
            jp_user_data_dir: None,
            xdg_data_home: None,
            xdg_config_home: None,
            xdg_state_home: None,
            xdg_cache_home: None,
            plugin_path: Vec::new(),
            landlock_max: None,
            without_seccomp: false,
            exe: None,
            variables: Variables::These(BTreeMap::new()),
        }
    }

    /// Returns the user data folder of JP: `$JP_USER_DATA_DIR`, else `$XDG_DATA_HOME/jp`, else `~/.local/share/jp`.
    #[must_use]
    pub fn jp_user_data(&self) -> Option<PathBuf> {
        let jp = self.jp_user_data_dir.as_ref().map(|folder| self.cwd.join(folder));
        let xdg = || self.xdg_data_home.as_ref().map(|folder| folder.join("jp"));
        let home = || self.home.as_ref().map(|home| home.join(".local/share/jp"));
        jp.or_else(xdg).or_else(home)
    }

    /// Returns `$XDG_DATA_HOME/jp-compact`, else `~/.local/share/jp-compact`.
    #[must_use]
    pub fn data(&self) -> Option<PathBuf> {
        self.jp_compact_folder(self.xdg_data_home.as_ref(), ".local/share")
    }

    /// Returns `$XDG_CONFIG_HOME/jp-compact`, else `~/.config/jp-compact`.
    #[must_use]
    pub fn config(&self) -> Option<PathBuf> {
        self.jp_compact_folder(self.xdg_config_home.as_ref(), ".config")
    }

    /// Returns `$XDG_STATE_HOME/jp-compact`, else `~/.local/state/jp-compact`.
    #[must_use]
    pub fn state(&self) -> Option<PathBuf> {
        self.jp_compact_folder(self.xdg_state_home.as_ref(), ".local/state")
    }

    /// Returns `$XDG_CACHE_HOME/jp-compact`, else `~/.cache/jp-compact`.
    #[must_use]
    pub fn cache(&self) -> Option<PathBuf> {
        self.jp_compact_folder(self.xdg_cache_home.as_ref(), ".cache")
    }

    /// Returns the folder `jp-compact` in an XDG folder, or in its default below the home folder.
    fn jp_compact_folder(&self, xdg: Option<&PathBuf>, below_home: &str) -> Option<PathBuf> {
        let home = || self.home.as_ref().map(|home| self.cwd.join(home).join(below_home));
        xdg.cloned().or_else(home).map(|folder| folder.join("jp-compact"))
    }

    /// Makes this folder the current folder of this process.
    ///
    /// # Errors
    /// The folder does not exist, or cannot be accessed.
    pub fn enter(folder: &Path) -> io::Result<()> {
        env::set_current_dir(folder)
    }

    /// Returns the leader of this process's session. In a terminal, it is usually the shell.
    #[must_use]
    pub fn session_leader() -> Option<i32> {
        let leader = rustix::process::getsid(None).ok()?;
        Some(leader.as_raw_nonzero().get())
    }

    /// Returns the value of a variable that was granted to a strategy by name, if it is set and valid UTF-8.
    #[must_use]
    pub fn granted(name: &str) -> Option<String> {
        env::var(name).ok()
    }
}

/// Returns a variable that names a folder. An empty variable counts as unset.
fn folder(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn absolute_folder(name: &str) -> Option<PathBuf> {
    folder(name).filter(|folder| folder.is_absolute())
}

/// Returns a variable that lists folders like PATH. Empty parts are skipped.
fn folders(name: &str) -> Vec<PathBuf> {
    let value = env::var_os(name).unwrap_or_default();
    env::split_paths(&value).filter(|folder| !folder.as_os_str().is_empty()).collect()
}
