//! The folders of the host and of JP: from variables, from the home folder, or from the process.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use jp_compact_runtime::environment::{Environment, real_path};

#[track_caller]
fn check(jp: Option<&str>, xdg: Option<&str>, home: Option<&str>, expect: Option<&str>) {
    let environment = Environment {
        jp_user_data_dir: jp.map(PathBuf::from),
        xdg_data_home: xdg.map(PathBuf::from),
        home: home.map(PathBuf::from),
        ..Environment::bare("/here")
    };
    assert_eq!(environment.jp_user_data(), expect.map(PathBuf::from));
}

#[test]
fn the_variable_of_jp_comes_first() {
    check(Some("/own"), Some("/xdg"), Some("/home/u"), Some("/own"));
}

#[test]
fn relative_folders_are_below_the_current_folder() {
    check(Some("own"), None, None, Some("/here/own"));
}

#[test]
fn xdg_comes_before_home() {
    check(None, Some("/xdg"), Some("/home/u"), Some("/xdg/jp"));
}

#[test]
fn home_comes_last() {
    check(None, None, Some("/home/u"), Some("/home/u/.local/share/jp"));
}

#[test]
fn returns_none_without_any_variable() {
    check(None, None, None, None);
}

#[test]
fn own_folders_use_xdg_then_home() {
    let home = Environment { home: Some("/home/u".into()), ..Environment::bare("/here") };
    let xdg = Environment {
        xdg_data_home: Some("/d".into()),
        xdg_config_home: Some("/f".into()),
        xdg_state_home: Some("/s".into()),
        xdg_cache_home: Some("/c".into()),
        ..home.clone()
    };
    let own_folders = |environment: &Environment| {
        [environment.data(), environment.config(), environment.state(), environment.cache()]
    };
    let below = |folders: [&str; 4]| folders.map(|folder| Some(Path::new(folder).join("jp-compact")));
    assert_eq!(
        own_folders(&home),
        below(["/home/u/.local/share", "/home/u/.config", "/home/u/.local/state", "/home/u/.cache"])
    );
    assert_eq!(own_folders(&xdg), below(["/d", "/f", "/s", "/c"]));
    assert_eq!(own_folders(&Environment::bare("/here")), [None, None, None, None]);
}

#[test]
fn reads_folder_and_executable_of_this_process() {
    let environment = Environment::of_process().unwrap();
    assert!(environment.cwd.is_absolute());
    assert!(environment.exe.is_some_and(|exe| exe.is_file()));
}

#[test]
fn removed_path_is_found_through_links() {
    let base = tempfile::tempdir().unwrap();
    let path = |name: &str| base.path().canonicalize().unwrap().join(name);
    for (target, link) in [("real/plugin", "link"), ("gone", "folder"), ("a/../loop/../loop", "loop")] {
        symlink(target, path(link)).unwrap();
    }
    assert_eq!(real_path(&path("link")), path("real/plugin"));
    assert_eq!(real_path(&path("folder/x/../plugin")), path("gone/plugin"));
    assert!(real_path(&path("loop")).starts_with(path("")));
}
