//! The ribbon of a conversation: one block for each event, as wide as its tokens, and an arc from each later use of a
//! text to its source.

use maud::{Markup, html};

/// The maximum number of blocks and arcs that a browser shows without delay.
pub(crate) const ELEMENTS_MAX: usize = 5_000;
const WIDTH: f64 = 1_000.0;
const BLOCK_HEIGHT: f64 = 26.0;
const ARC_HEIGHT: f64 = 110.0;
/// A thinner block would be invisible.
const WIDTH_MIN: f64 = 0.4;

/// One event of the ribbon. It has no text of the conversation, because a page without texts has a ribbon too.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RibbonBlock {
    /// The words before the event's number in a tooltip, for example `tool result`.
    pub(crate) kind: &'static str,
    pub(crate) tokens: u64,
    /// The state of the event, and the class in `style.css`. The legend has the word of [`state_words`].
    pub(crate) state: &'static str,
}

/// A use of a text after the cut, and the last event before the cut that has the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RibbonArc {
    /// Index of a block.
    pub(crate) source: usize,
    /// Index of a block.
    pub(crate) later_use: usize,
    /// Whether the view no longer has the text.
    pub(crate) is_lost: bool,
}

/// Draws the legend of these states.
pub(crate) fn legend(states: &[&'static str]) -> Markup {
    html! {
        p {
            @for state in states {
                span.key { svg viewBox="0 0 16 12" aria-hidden="true" { rect class=(state) width="16" height="12" {} } }
                (state_words(state)) "  "
            }
        }
    }
}

fn state_words(state: &'static str) -> &'static str {
    if state == "future" { "after the cut" } else { state }
}

/// Draws the ribbon. Returns `None` if it has too many blocks and arcs, or if no block has tokens.
pub(crate) fn draw(blocks: &[RibbonBlock], arcs: &[RibbonArc], label: &str) -> Option<Markup> {
    let total: u64 = blocks.iter().map(|block| block.tokens).sum();
    if blocks.len() + arcs.len() > ELEMENTS_MAX || total == 0 {
        return None;
    }
    let scale = WIDTH / total as f64;
    let mut start = 0.0;
    let spans: Vec<(f64, f64)> = blocks
        .iter()
        .map(|block| {
            let span = (start, block.tokens as f64 * scale);
            start += span.1;
            span
        })
        .collect();
    // Without arcs, the space for them would be an empty band above the blocks.
    let top = if arcs.is_empty() { 0.0 } else { ARC_HEIGHT };
    let center = |index: usize| spans.get(index).map(|(start, width)| start + width / 2.0);
    Some(html! {
        svg viewBox=(format!("0 0 {WIDTH} {}", top + BLOCK_HEIGHT)) role="img" aria-label=(label)
            preserveAspectRatio="none" {
            // The lost uses are drawn last, so that no other arc hides them.
            @for is_lost in [false, true] {
                @for arc in arcs.iter().filter(|arc| arc.is_lost == is_lost) {
                    @if let (Some(from), Some(to)) = (center(arc.later_use), center(arc.source)) {
                        path class=(if is_lost { "arc lost" } else { "arc" }) d=(arc_path(from, to)) {}
                    }
                }
            }
            @for (index, (block, (start, width))) in blocks.iter().zip(&spans).enumerate() {
                rect class=(block.state) x=(short(*start)) y=(top)
                    width=(short(width.max(WIDTH_MIN))) height=(BLOCK_HEIGHT) {
                    title { (block.kind) " " (index) ": " (block.tokens) " tokens, " (state_words(block.state)) }
                }
            }
        }
    })
}

/// Formats a curve that is higher for a longer distance.
fn arc_path(from: f64, to: f64) -> String {
    let height = ARC_HEIGHT - (from - to).abs() / WIDTH * ARC_HEIGHT * 1.8 - 8.0;
    let (middle, top) = (f64::midpoint(from, to), height.max(-ARC_HEIGHT));
    format!("M{} {ARC_HEIGHT}Q{} {} {} {ARC_HEIGHT}", short(from), short(middle), short(top), short(to))
}

/// Formats a coordinate with one decimal. More decimals would only make the page larger.
fn short(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(tokens: u64) -> RibbonBlock {
        RibbonBlock { kind: "tool result", tokens, state: "removed" }
    }

    #[test]
    fn blocks_are_as_wide_as_their_tokens() {
        let arcs = [RibbonArc { source: 0, later_use: 1, is_lost: true }];
        let svg = draw(&[block(1), block(3)], &arcs, "two events").expect("a ribbon").into_string();
        assert!(svg.contains(r#"x="0.0" y="110" width="250.0""#), "{svg}");
        assert!(svg.contains(r#"x="250.0" y="110" width="750.0""#), "{svg}");
        assert!(svg.contains(r#"<path class="arc lost" d="M625.0 110Q375.0"#), "{svg}");
    }

    #[test]
    fn ribbon_without_arcs_has_no_band_above_the_blocks() {
        let svg = draw(&[block(1)], &[], "one event").expect("a ribbon").into_string();
        assert!(svg.contains(r#"viewBox="0 0 1000 26""#) && svg.contains(r#"y="0" width="1000.0""#), "{svg}");
    }

    #[test]
    fn too_many_blocks_and_empty_conversations_have_no_ribbon() {
        assert!(draw(&vec![block(1); ELEMENTS_MAX + 1], &[], "").is_none());
        assert!(draw(&[block(0)], &[], "").is_none());
    }
}
