//! The frame of each page: header, style, and a policy that forbids scripts and all requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jp_compact_terminal::escape;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("style.css");

/// Makes a complete page. `sections` have the ids of the links at the top.
pub(crate) fn page(title: &str, sections: &[Section]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#content" { "Skip to the content" }
                header {
                    h1 { (title) }
                    nav aria-label="Sections" {
                        @for (index, section) in sections.iter().enumerate() {
                            @if index > 0 { " · " }
                            a href={ "#" (section.id) } { (section.title) }
                        }
                    }
                }
                main #content tabindex="-1" {
                    @for section in sections {
                        section id=(section.id) aria-labelledby={ (section.id) "-title" } {
                            h2 id={ (section.id) "-title" } { (section.title) }
                            (section.content)
                        }
                    }
                }
                footer.muted { p { "Made by jp-compact " (env!("CARGO_PKG_VERSION")) "." } }
            }
        }
    };
    // A text must neither change the direction of the words after it nor control a terminal that shows the file.
    escape::text(&page.into_string())
}

/// A part of a page with its heading.
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) content: Markup,
}

/// Returns a table or chart that can be wider than the window. It can be scrolled, also with the keyboard.
pub(crate) fn scrollable(label: &str, content: &Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(label) { (content) } }
}

/// Returns a chart from `chart`, with a text for readers who do not see it.
pub(crate) fn figure(svg: &str, label: &str, caption: &Markup) -> Markup {
    html! {
        figure {
            div role="img" aria-label=(label) { (PreEscaped(svg)) }
            figcaption { (caption) }
        }
    }
}

/// Returns the Content-Security-Policy. It allows only the style of the page, by its digest, so a text that forges a
/// script or a style has no effect.
fn policy() -> String {
    let digest = STANDARD.encode(Sha256::digest(STYLE));
    format!("default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_allows_the_style_of_the_page_only() {
        let page = page("<title>", &[]);
        let style = page.split("<style>").nth(1).and_then(|rest| rest.split("</style>").next());
        let digest = STANDARD.encode(Sha256::digest(style.expect("a style")));
        assert!(page.contains(&format!("default-src 'none'; style-src 'sha256-{digest}'")));
        assert!(page.contains("<h1>&lt;title&gt;</h1>"));
    }

    #[test]
    fn controls_and_invisible_characters_are_escaped() {
        let content = html! { pre { "a\u{1b}[31m\u{202e}\n\tb\u{200b}" } };
        let page = page("x\u{7}y", &[Section { id: "a", title: "A", content }]);
        assert!(page.contains("<h1>x\\u{7}y</h1>"), "{page}");
        assert!(page.contains("<pre>a\\u{1b}[31m\\u{202e}\n\tb\\u{200b}</pre>"), "{page}");
        assert!(page.contains(STYLE));
    }
}
