//! The one place that reads the host's own environment variables and current folder. Everything else is handed
//! an [`Environment`], so that a test can make one up. What a child is given is another matter: it starts empty.

use std::{
    collections::BTreeMap,
    env, io,
    path::{Path, PathBuf},
};

use crate::store::Fence;

/// What the host knows of where, and as whom, it was started.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The current folder. Every relative path is taken from here.
    pub cwd: PathBuf,
    /// The folder that transcripts and a workspace's files have to lie in, for who takes their names from others.
    pub fence: Option<Fence>,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// `JP_USER_DATA_DIR`: where JP keeps what is the user's.
    pub jp_user_data_dir: Option<PathBuf>,
    /// `XDG_DATA_HOME`, where it is absolute: the specification has others ignored.
    pub xdg_data_home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, where it is absolute.
    pub xdg_config_home: Option<PathBuf>,
    /// `XDG_STATE_HOME`, where it is absolute.
    pub xdg_state_home: Option<PathBuf>,
    /// `XDG_CACHE_HOME`, where it is absolute.
    pub xdg_cache_home: Option<PathBuf>,
    /// The folders of `JP_COMPACT_PLUGIN_PATH`, in order.
    pub plugin_path: Vec<PathBuf>,
    /// `JP_COMPACT_TEST_LANDLOCK`, for tests: act as if the machine's Landlock were no newer than that, 0 for none.
    pub landlock_max: Option<u8>,
    /// `JP_COMPACT_TEST_SECCOMP=0`, for tests: act as if the machine had none.
    pub without_seccomp: bool,
    /// The folder for temporary files.
    pub temp_dir: PathBuf,
    /// The host's own executable, symlinks resolved.
    pub exe: Option<PathBuf>,
    /// The variables that are only known by name once the user's settings are: addresses and keys of models.
    pub variables: Variables,
}

/// Where variables are looked up. A value is read when it is needed and kept nowhere: it may be a key.
#[derive(Debug, Clone)]
pub enum Variables {
    /// Those of this process.
    OfProcess,
    /// These and no others, for tests.
    These(BTreeMap<String, String>),
}

impl Variables {
    /// The value of a variable. An empty one counts as unset.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        let value = match self {
            Self::OfProcess => env::var(name).ok(),
            Self::These(variables) => variables.get(name).cloned(),
        };
        value.filter(|value| !value.is_empty())
    }
}

impl Environment {
    /// Reads the environment of this process.
    ///
    /// # Errors
    ///
    /// Fails where the current folder was removed or cannot be reached.
    pub fn of_process() -> io::Result<Self> {
        Ok(Self {
            cwd: env::current_dir()?,
            fence: None,
            home: env::home_dir().filter(|home| !home.as_os_str().is_empty()),
            jp_user_data_dir: folder("JP_USER_DATA_DIR"),
            xdg_data_home: absolute_folder("XDG_DATA_HOME"),
            xdg_config_home: absolute_folder("XDG_CONFIG_HOME"),
            xdg_state_home: absolute_folder("XDG_STATE_HOME"),
            xdg_cache_home: absolute_folder("XDG_CACHE_HOME"),
            plugin_path: folders("JP_COMPACT_PLUGIN_PATH"),
            landlock_max: env::var("JP_COMPACT_TEST_LANDLOCK").ok().map(|max| max.parse().unwrap_or(0)),
            without_seccomp: env::var_os("JP_COMPACT_TEST_SECCOMP").is_some_and(|word| word == "0"),
            temp_dir: env::temp_dir(),
            exe: env::current_exe().and_then(|exe| exe.canonicalize()).ok(),
            variables: Variables::OfProcess,
        })
    }

    /// An environment that knows a current folder and nothing else.
    #[must_use]
    pub fn bare(cwd: impl AsRef<Path>) -> Self {
        let cwd = cwd.as_ref().to_path_buf();
        Self {
            temp_dir: cwd.clone(),
            cwd,
            fence: None,
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

    /// The folder in which JP keeps what is the user's: `$JP_USER_DATA_DIR`, else `$XDG_DATA_HOME/jp`, else
    /// `~/.local/share/jp`.
    #[must_use]
    pub fn jp_user_data(&self) -> Option<PathBuf> {
        let own = self.jp_user_data_dir.as_ref().map(|folder| self.cwd.join(folder));
        let xdg = || self.xdg_data_home.as_ref().map(|folder| folder.join("jp"));
        let home = || self.home.as_ref().map(|home| home.join(".local/share/jp"));
        own.or_else(xdg).or_else(home)
    }

    /// What is ours in the user's data: `$XDG_DATA_HOME/jp-compact`, else `~/.local/share/jp-compact`.
    #[must_use]
    pub fn data(&self) -> Option<PathBuf> {
        self.ours(self.xdg_data_home.as_ref(), ".local/share")
    }

    /// What is ours in the user's configuration: `$XDG_CONFIG_HOME/jp-compact`, else `~/.config/jp-compact`.
    #[must_use]
    pub fn config(&self) -> Option<PathBuf> {
        self.ours(self.xdg_config_home.as_ref(), ".config")
    }

    /// What is ours in the user's state: `$XDG_STATE_HOME/jp-compact`, else `~/.local/state/jp-compact`.
    #[must_use]
    pub fn state(&self) -> Option<PathBuf> {
        self.ours(self.xdg_state_home.as_ref(), ".local/state")
    }

    /// What is ours in the user's cache: `$XDG_CACHE_HOME/jp-compact`, else `~/.cache/jp-compact`.
    #[must_use]
    pub fn cache(&self) -> Option<PathBuf> {
        self.ours(self.xdg_cache_home.as_ref(), ".cache")
    }

    fn ours(&self, xdg: Option<&PathBuf>, below_home: &str) -> Option<PathBuf> {
        let home = || self.home.as_ref().map(|home| self.cwd.join(home).join(below_home));
        xdg.cloned().or_else(home).map(|folder| folder.join("jp-compact"))
    }

    /// The value of a variable that was granted to a strategy by name, where it is set and is text.
    #[must_use]
    pub fn granted(name: &str) -> Option<String> {
        env::var(name).ok()
    }
}

/// A variable that names a folder. An empty one counts as unset.
fn folder(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn absolute_folder(name: &str) -> Option<PathBuf> {
    folder(name).filter(|folder| folder.is_absolute())
}

/// A variable that lists folders, as PATH does. Empty ones count as not there.
fn folders(name: &str) -> Vec<PathBuf> {
    let listed = env::var_os(name).unwrap_or_default();
    env::split_paths(&listed).filter(|folder| !folder.as_os_str().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(own: Option<&str>, xdg: Option<&str>, home: Option<&str>, expect: Option<&str>) {
        let environment = Environment {
            jp_user_data_dir: own.map(PathBuf::from),
            xdg_data_home: xdg.map(PathBuf::from),
            home: home.map(PathBuf::from),
            ..Environment::bare("/here")
        };
        assert_eq!(environment.jp_user_data(), expect.map(PathBuf::from));
    }

    #[test]
    fn jp_s_own_variable_goes_first() {
        check(Some("/own"), Some("/xdg"), Some("/home/u"), Some("/own"));
    }

    #[test]
    fn a_relative_folder_is_taken_from_the_current_one() {
        check(Some("own"), None, None, Some("/here/own"));
    }

    #[test]
    fn xdg_goes_before_home() {
        check(None, Some("/xdg"), Some("/home/u"), Some("/xdg/jp"));
    }

    #[test]
    fn home_is_last() {
        check(None, None, Some("/home/u"), Some("/home/u/.local/share/jp"));
    }

    #[test]
    fn without_any_there_is_no_such_folder() {
        check(None, None, None, None);
    }

    #[test]
    fn our_own_folders_follow_xdg_and_then_home() {
        let home = Environment { home: Some("/home/u".into()), ..Environment::bare("/here") };
        let xdg = Environment {
            xdg_data_home: Some("/d".into()),
            xdg_config_home: Some("/f".into()),
            xdg_state_home: Some("/s".into()),
            xdg_cache_home: Some("/c".into()),
            ..home.clone()
        };
        let ours = |environment: &Environment| {
            [environment.data(), environment.config(), environment.state(), environment.cache()]
        };
        let below = |folders: [&str; 4]| folders.map(|folder| Some(Path::new(folder).join("jp-compact")));
        assert_eq!(
            ours(&home),
            below(["/home/u/.local/share", "/home/u/.config", "/home/u/.local/state", "/home/u/.cache"])
        );
        assert_eq!(ours(&xdg), below(["/d", "/f", "/s", "/c"]));
        assert_eq!(ours(&Environment::bare("/here")), [None, None, None, None]);
    }

    #[test]
    fn this_process_knows_its_folder_and_executable() {
        let environment = Environment::of_process().unwrap();
        assert!(environment.cwd.is_absolute());
        assert!(environment.exe.is_some_and(|exe| exe.is_file()));
    }
}
