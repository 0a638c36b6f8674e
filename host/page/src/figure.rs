//! A number of a page. It has the path of its value in the JSON report, so that a test can compare the two.

use maud::{Markup, html};

use crate::text::grouped;

/// Returns a percentage, or a dash for a value that the report does not have.
pub(crate) fn percent(key: &str, value: Option<f64>) -> Markup {
    cell(key, value, |value| format!("{value:.1} %"))
}

/// Returns a number with one decimal, or a dash.
pub(crate) fn decimal(key: &str, value: Option<f64>) -> Markup {
    cell(key, value, |value| format!("{value:.1}"))
}

/// Returns the number of requests after which a compaction pays back. Without a number, it saves nothing.
pub(crate) fn break_even(key: &str, requests: Option<f64>) -> Markup {
    if requests.is_none() {
        html! { "never" }
    } else {
        decimal(key, requests)
    }
}

/// Returns a whole number.
pub(crate) fn whole(key: &str, value: u64) -> Markup {
    html! { data value=(value) data-key=(key) { (grouped(value)) } }
}

fn cell(key: &str, value: Option<f64>, format: impl Fn(f64) -> String) -> Markup {
    html! {
        @match value {
            Some(value) => data value=(value) data-key=(key) { (format(value)) },
            None => span title="not enough data" { "–" },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_path_and_exact_value() {
        let html = percent("a.0.b", Some(58.25)).into_string();
        assert_eq!(html, r#"<data value="58.25" data-key="a.0.b">58.2 %</data>"#);
        assert_eq!(whole("n", 1_234).into_string(), r#"<data value="1234" data-key="n">1,234</data>"#);
        assert!(!decimal("n", None).into_string().contains("data-key"));
    }
}
