//! The error of a command line that cannot be parsed. clap renders it as text, and this module splits that text into the
//! parts of a report.

use super::{ErrorHint, Report};
use crate::exit::Exit;

/// Splits the text of clap into the message, the arguments that it lists, and the tip. The usage is left out.
pub(crate) fn usage_error(rendered: &str) -> Report {
    let mut lines = rendered.lines().take_while(|line| !line.starts_with("Usage:"));
    let headline = lines.next().unwrap_or_default();
    let mut report = Report::new(Exit::Usage, headline.strip_prefix("error: ").unwrap_or(headline), None);
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("hint: ").or_else(|| line.strip_prefix("tip: ")) {
            Some(hint) => report.hint = Some(ErrorHint::line(hint)),
            None if line.starts_with("For more information") => {}
            None => report.causes.push(line.to_owned()),
        }
    }
    report
}
