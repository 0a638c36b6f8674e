//! The samples: the project's own in `samples/`, and files that the programs wrote, outside of the repository.

use std::fs;
use std::path::Path;

use jp_compact_transcripts::Format;

pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Returns our samples of a format: `<format>.<extension>` or `<format>-<variant>.<extension>`.
pub(crate) fn project_samples(format: Format) -> Vec<Sample> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/samples");
    let others: Vec<_> = Format::ALL
        .iter()
        .map(|other| other.as_str())
        .filter(|other| other.len() > format.as_str().len())
        .collect();
    let is_of_format = |name: &str| {
        let rest = name.strip_prefix(format.as_str());
        let is_of_another = others.iter().any(|other| name.starts_with(other));
        rest.is_some_and(|rest| rest.starts_with(['.', '-'])) && !is_of_another
    };
    read(&folder, is_of_format)
}

/// Returns the samples of the programs themselves, if they are present.
pub(crate) fn program_samples(folder: &str) -> Vec<Sample> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/transcripts").join(folder);
    if shared.is_dir() { read(&shared, |_| true) } else { Vec::new() }
}

fn read(folder: &Path, matches: impl Fn(&str) -> bool) -> Vec<Sample> {
    let mut samples = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if matches(&name) {
            samples.push(Sample { name, bytes: fs::read(path).unwrap() });
        }
    }
    samples.sort_by(|left, right| left.name.cmp(&right.name));
    samples
}
