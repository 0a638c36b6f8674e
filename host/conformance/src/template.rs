//! Templates for new strategies, in several languages. Each passes the conformance checks unchanged. A
//! template is only written to a new folder.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use jp_compact_schema::StrategyName;

/// The language of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// An executable. Depends only on `serde_json`.
    Rust,
    /// A script for Python 3.
    Python,
    /// A script for a shell and `jq`.
    Sh,
    /// A script for Node.js.
    Node,
    /// A shared library.
    C,
}

/// A file of a template: name, content, whether it is executable.
type TemplateFile = (&'static str, &'static str, bool);

impl Language {
    fn files(self) -> &'static [TemplateFile] {
        match self {
            Self::Rust => &[
                ("src/main.rs", include_str!("templates/strategy.rs.in"), false),
                ("Cargo.toml", include_str!("templates/Cargo.toml.in"), false),
                (".gitignore", "/target\n/@NAME@\n", false),
            ],
            Self::Python => &[("strategy.py", include_str!("templates/strategy.py"), false)],
            Self::Sh => &[("@NAME@", include_str!("templates/strategy.sh"), true)],
            Self::Node => &[("strategy.mjs", include_str!("templates/strategy.mjs"), false)],
            Self::C => &[
                ("strategy.c", include_str!("templates/strategy.c"), false),
                ("jp_compact_strategy.h", jp_compact_schema::C_HEADER, false),
                (".gitignore", "*.so\n", false),
            ],
        }
    }

    /// Returns the content of `[run]` and the runtime to ask for.
    fn run_section(self) -> (&'static str, &'static str) {
        match self {
            Self::Rust => (r#"command = ["./@NAME@"]"#, ""),
            Self::Python => (r#"command = ["python3", "-I", "strategy.py"]"#, "python"),
            Self::Sh => (r#"command = ["./@NAME@"]"#, "sh"),
            Self::Node => (r#"command = ["node", "strategy.mjs"]"#, "node"),
            Self::C => (r#"dylib = "./lib@NAME@.so""#, ""),
        }
    }

    /// Returns the command that builds the strategy in its folder.
    #[must_use]
    pub fn build(self, name: &StrategyName) -> Option<String> {
        let line = match self {
            // The target folder is outside, because trust covers every file of the plugin folder.
            Self::Rust => {
                "cargo build --release --target-dir ../@NAME@-target && cp ../@NAME@-target/release/@NAME@ ."
            }
            Self::C => "cc -std=c11 -O2 -fPIC -shared -o lib@NAME@.so strategy.c",
            Self::Python | Self::Sh | Self::Node => return None,
        };
        Some(line.replace("@NAME@", name.as_str()))
    }

    /// Returns the file to edit.
    #[must_use]
    pub fn source(self, name: &StrategyName) -> String {
        self.files().first().map_or_else(String::new, |(file, ..)| file.replace("@NAME@", name.as_str()))
    }

    fn manifest(self, name: &StrategyName) -> String {
        let build = self.build(name).map_or_else(String::new, |line| format!("# Build:  {line}\n"));
        let (run, runtime) = self.run_section();
        let permissions = match runtime {
            "" => String::new(),
            runtime => format!("\n[permissions]\nruntime = \"{runtime}\"\n"),
        };
        format!(
            "{build}# Test:   jp-compact strategy test .\n# Try:    jp-compact strategy run . CONVERSATION\n\
             # Use:    jp-compact --strategy . CONVERSATION\n\
             manifest = 1\nname = \"@NAME@\"\nversion = \"0.1.0\"\n\
             description = \"Strip the output of tool calls\"\nprotocols = [1]\n\n[run]\n{run}\n{permissions}"
        )
    }
}

/// Writes the folder of a new strategy.
///
/// # Errors
/// The folder exists or cannot be written.
pub fn create(folder: &Path, name: &StrategyName, language: Language) -> io::Result<()> {
    fs::create_dir(folder)?;
    let manifest = language.manifest(name);
    let files = language.files().iter().copied().chain([("plugin.toml", manifest.as_str(), false)]);
    for (file, text, executable) in files {
        let path = folder.join(file.replace("@NAME@", name.as_str()));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mode = if executable { 0o755 } else { 0o644 };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        file.write_all(text.replace("@NAME@", name.as_str()).as_bytes())?;
    }
    Ok(())
}
