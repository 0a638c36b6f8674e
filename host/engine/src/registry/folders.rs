//! The folders of discovery, in their order: those named by hand, the host's own, the workspace's, the user's,
//! the machine's. Nothing here looks into them.

use std::path::{Path, PathBuf};

use super::plugin::Origin;
use crate::environment::Environment;

/// Where an administrator puts plugins.
const OF_THE_MACHINE: &str = "/usr/local/lib/jp-compact/plugins";
/// Where a workspace and a user keep them, below what is JP's and what is ours.
const OF_A_WORKSPACE: &str = ".jp/compact/plugins";
const PLUGINS: &str = "plugins";

/// The folders that were named by hand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// `--trust-dir`: searched first.
    pub trust_dirs: &'a [PathBuf],
    /// `--plugin-dir`.
    pub plugin_dirs: &'a [PathBuf],
}

/// A folder that is searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// The folder.
    pub path: PathBuf,
    /// Why it is searched.
    pub origin: Origin,
}

/// Every folder, in order. `home` is where the host's own executable is.
pub(super) fn of(environment: &Environment, wanted: &Wanted<'_>, home: &Path) -> Vec<Folder> {
    let workspace = environment.cwd.ancestors().find(|folder| folder.join(".jp").is_dir());
    let listed = |folders: &[PathBuf], origin| -> Vec<Folder> {
        folders.iter().map(|folder| Folder { path: environment.cwd.join(folder), origin }).collect()
    };
    let one = |path: Option<PathBuf>, origin| path.map(|path| Folder { path, origin });
    let mut folders = listed(wanted.trust_dirs, Origin::TrustDir);
    folders.extend(listed(wanted.plugin_dirs, Origin::PluginDir));
    folders.extend(listed(&environment.plugin_path, Origin::PluginPath));
    folders.extend(one(Some(home.to_owned()), Origin::Bundled));
    folders.extend(one(workspace.map(|root| root.join(OF_A_WORKSPACE)), Origin::Workspace));
    folders.extend(one(environment.data().map(|data| data.join(PLUGINS)), Origin::User));
    folders.extend(one(Some(OF_THE_MACHINE.into()), Origin::Machine));
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_the_one_that_is_written_down() {
        let base = tempfile::tempdir().unwrap();
        let cwd = base.path().join("work/deep");
        std::fs::create_dir_all(&cwd).unwrap();
        std::fs::create_dir(base.path().join("work/.jp")).unwrap();
        let environment = Environment {
            home: Some("/home/u".into()),
            plugin_path: vec!["/path".into(), "relative".into()],
            ..Environment::bare(&cwd)
        };
        let wanted = Wanted { trust_dirs: &["built".into()], plugin_dirs: &["/a".into(), "b".into()] };
        let paths: Vec<_> =
            of(&environment, &wanted, Path::new("/bin")).into_iter().map(|folder| folder.path).collect();
        let expect = [
            cwd.join("built"),
            "/a".into(),
            cwd.join("b"),
            "/path".into(),
            cwd.join("relative"),
            "/bin".into(),
            base.path().join("work/.jp/compact/plugins"),
            "/home/u/.local/share/jp-compact/plugins".into(),
            OF_THE_MACHINE.into(),
        ];
        assert_eq!(paths, expect);
    }
}
