//! The prices of cached input: the file of `--prices`, and `--long-cache`.

use std::path::Path;

use jp_compact_evidence::prices::Prices;
use jp_compact_runtime::environment::Environment;
use jp_compact_runtime::small_file;

use crate::args::RunArgs;
use crate::error::Report;
use crate::exit::Exit;

/// The size limit of a file with prices.
const PRICES_BYTES_MAX: u64 = 1 << 20;

/// Returns the prices that the options select. `None` for the built-in prices.
pub(crate) fn read_prices(args: &RunArgs, environment: &Environment) -> Result<Option<Prices>, Report> {
    let prices = args.prices.as_deref().map(|file| read_file(file, environment)).transpose()?;
    if !args.long_cache {
        return Ok(prices);
    }
    Ok(Some(prices.unwrap_or_else(Prices::built_in).with_long_cache()))
}

fn read_file(file: &Path, environment: &Environment) -> Result<Prices, Report> {
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
    Prices::parse(&text).map_err(|error| failure(error.to_string()))
}
