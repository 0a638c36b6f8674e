//! Equality of the committed schemas and the schemas generated from the types. `UPDATE_SCHEMAS=1` writes the
//! files.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use jp_compact_schema::catalog;

const COMMAND: &str = "UPDATE_SCHEMAS=1 cargo test -p jp-compact-schema --features generate --test drift";

/// The folders of schemas: the strategy protocol, and the documents of the command line.
const FOLDERS: [&str; 2] = ["v1", "json"];

fn crate_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn committed_schemas_match_the_types() {
    let update = std::env::var_os("UPDATE_SCHEMAS").is_some_and(|value| value == "1");
    for schema in catalog::all() {
        let path = crate_folder().join(schema.folder).join(format!("{}.schema.json", schema.name));
        let rendered = schema.render();
        if update {
            fs::write(&path, rendered).unwrap();
            continue;
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == rendered,
            "{} differs from the types. If the change is intended, run: {COMMAND}",
            path.display()
        );
    }
    for folder in FOLDERS {
        let schemas = catalog::all().iter().filter(|schema| schema.folder == folder);
        let expected: BTreeSet<String> =
            schemas.map(|schema| format!("{}.schema.json", schema.name)).collect();
        let found: BTreeSet<String> = fs::read_dir(crate_folder().join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(found, expected, "schema/{folder} has an extra schema or lacks one");
    }
}
