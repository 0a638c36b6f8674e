//! The folders that are searched for plugins, in order: folders from the command line, then those of
//! `JP_COMPACT_PLUGIN_PATH`, the host, the workspace, the user, and the machine. This module does not read
//! them.

use std::path::{Path, PathBuf};

use super::plugin::PluginOrigin;
use crate::environment::Environment;

/// The folder for plugins of an administrator.
const MACHINE_PLUGINS: &str = "/usr/local/lib/jp-compact/plugins";
/// The plugin folder of a workspace, relative to its root.
const WORKSPACE_PLUGINS: &str = ".jp/compact/plugins";
/// The plugin folder of a user, relative to the data folder.
const USER_PLUGINS: &str = "plugins";

/// Folders from the command line.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExtraFolders<'a> {
    /// `--trust-dir`: searched first.
    pub trust_dirs: &'a [PathBuf],
    /// `--plugin-dir`.
    pub plugin_dirs: &'a [PathBuf],
}

/// A plugin folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// The path of the folder.
    pub path: PathBuf,
    /// The reason why it is searched.
    pub origin: PluginOrigin,
}

/// Returns every folder in order. `home` is the folder of the host's executable.
pub(super) fn list(environment: &Environment, wanted: &ExtraFolders<'_>, home: &Path) -> Vec<Folder> {
    let workspace = environment.cwd.ancestors().find(|folder| folder.join(".jp").is_dir());
    let with_origin = |folders: &[PathBuf], origin| -> Vec<Folder> {
        folders.iter().map(|folder| Folder { path: environment.cwd.join(folder), origin }).collect()
    };
    let one_with_origin = |path: Option<PathBuf>, origin| path.map(|path| Folder { path, origin });
    let mut folders = with_origin(wanted.trust_dirs, PluginOrigin::TrustDir);
    folders.extend(with_origin(wanted.plugin_dirs, PluginOrigin::PluginDir));
    folders.extend(with_origin(&environment.plugin_path, PluginOrigin::PluginPath));
    folders.extend(one_with_origin(Some(home.to_owned()), PluginOrigin::Bundled));
    folders
        .extend(one_with_origin(workspace.map(|root| root.join(WORKSPACE_PLUGINS)), PluginOrigin::Workspace));
    folders
        .extend(one_with_origin(environment.data().map(|data| data.join(USER_PLUGINS)), PluginOrigin::User));
    folders.extend(one_with_origin(Some(MACHINE_PLUGINS.into()), PluginOrigin::Machine));
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_folders_in_the_documented_order() {
        let base = tempfile::tempdir().unwrap();
        let cwd = base.path().join("work/deep");
        std::fs::create_dir_all(&cwd).unwrap();
        std::fs::create_dir(base.path().join("work/.jp")).unwrap();
        let environment = Environment {
            home: Some("/home/u".into()),
            plugin_path: vec!["/path".into(), "relative".into()],
            ..Environment::bare(&cwd)
        };
        let wanted = ExtraFolders { trust_dirs: &["built".into()], plugin_dirs: &["/a".into(), "b".into()] };
        let paths: Vec<_> =
            list(&environment, &wanted, Path::new("/bin")).into_iter().map(|folder| folder.path).collect();
        let expect = [
            cwd.join("built"),
            "/a".into(),
            cwd.join("b"),
            "/path".into(),
            cwd.join("relative"),
            "/bin".into(),
            base.path().join("work/.jp/compact/plugins"),
            "/home/u/.local/share/jp-compact/plugins".into(),
            MACHINE_PLUGINS.into(),
        ];
        assert_eq!(paths, expect);
    }
}
