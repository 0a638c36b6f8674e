//! The file of `--prices`, with the prices of cached input.

use std::path::Path;

use jp_compact_evidence::prices::Prices;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::small_file;

use crate::error::Report;
use crate::exit::Exit;

/// The size limit of a file with prices.
const PRICES_BYTES_MAX: u64 = 1 << 20;

/// Reads the prices of a file. `None` without a file.
pub(crate) fn read_prices(file: Option<&Path>, environment: &Environment) -> Result<Option<Prices>, Report> {
    let Some(file) = file else { return Ok(None) };
    let path = environment.cwd.join(file);
    let failure = |cause: String| {
        let hint = "docs/reference/evidence.md has an example";
        let message = format!("failed to read the prices in {}", path.display());
        let mut report = Report::new(Exit::Usage, message, Some(hint));
        report.causes.push(cause);
        report
    };
    let text = small_file::read_named(&path, PRICES_BYTES_MAX).and_then(small_file::text);
    let text = text.map_err(|error| failure(error.to_string()))?;
    Prices::parse(&text).map(Some).map_err(|error| failure(error.to_string()))
}
