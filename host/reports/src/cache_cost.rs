//! The cost of a compaction in the provider's prompt cache, as one line of text.

use jp_compact_schema::document::{CacheCost, CacheState};
use jp_compact_terminal::numbers::{counted, grouped};

/// Describes the cost of a compaction. A dry run describes what it would cost.
#[must_use]
pub fn line(cost: &CacheCost, is_dry_run: bool) -> String {
    let (costs, are) = if is_dry_run { ("would cost", "would be") } else { ("costs", "are") };
    let input = format!("{} input tokens", grouped(whole(cost.one_time)));
    let state = match cost.state {
        CacheState::Warm => "warm",
        CacheState::Cold => "cold",
        _ => "state unknown",
    };
    let effect = match cost.state {
        CacheState::Cold if cost.one_time > 0.0 => format!("the summary {costs} as much as {input}"),
        CacheState::Cold => format!("the compaction {costs} nothing"),
        _ => {
            let summary = if cost.summary > 0.0 { ", and the summary paid," } else { "" };
            format!(
                "{} tokens {are} written again{summary} for the price of {input}",
                grouped(cost.rewritten_tokens)
            )
        }
    };
    format!("prompt cache ({}, {state}): {effect}{}", cost.family, payback(cost, is_dry_run))
}

fn payback(cost: &CacheCost, is_dry_run: bool) -> String {
    let (never_pays, pays) =
        if is_dry_run { ("would never pay", "would pay") } else { ("never pays", "pays") };
    match cost.break_even_requests.map(whole) {
        None => format!("; it {never_pays} back"),
        Some(_) if cost.one_time <= 0.0 => String::new(),
        Some(requests) => {
            let requests = usize::try_from(requests).unwrap_or(usize::MAX);
            format!("; it {pays} back after {}", counted(requests.max(1), "request"))
        }
    }
}

/// Rounds a cost up to a whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cost is finite and not negative"
)]
fn whole(number: f64) -> u64 {
    number.ceil().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(state: CacheState, one_time: f64, break_even: Option<f64>) -> CacheCost {
        CacheCost {
            family: "anthropic".into(),
            state,
            last_request: None,
            ttl_minutes: 5,
            prefix_tokens: 0,
            rewritten_tokens: 12_000,
            summary: 0.0,
            one_time,
            one_time_warm: one_time,
            one_time_cold: 0.0,
            per_request_before: 0.0,
            per_request_after: 0.0,
            break_even_requests: break_even,
        }
    }

    #[track_caller]
    fn check(cost: &CacheCost, is_dry_run: bool, expected: &str) {
        assert_eq!(line(cost, is_dry_run), format!("prompt cache (anthropic, {expected}"));
    }

    #[test]
    fn line_names_state_and_break_even() {
        let warm = cost(CacheState::Warm, 15_000.4, Some(11.2));
        let price = "for the price of 15,001 input tokens; it pays back after 12 requests";
        let dry_run = price.replace("pays", "would pay");
        check(&warm, true, &format!("warm): 12,000 tokens would be written again {dry_run}"));
        check(&warm, false, &format!("warm): 12,000 tokens are written again {price}"));
        let unknown = CacheCost { state: CacheState::Unknown, ..warm.clone() };
        check(&unknown, false, &format!("state unknown): 12,000 tokens are written again {price}"));
        let never = cost(CacheState::Warm, 10.0, None);
        check(
            &never,
            false,
            "warm): 12,000 tokens are written again for the price of 10 input tokens; it never pays back",
        );
        check(&cost(CacheState::Cold, 0.0, Some(0.0)), true, "cold): the compaction would cost nothing");
        let summary = CacheCost { summary: 900.0, ..cost(CacheState::Cold, 900.0, Some(0.4)) };
        check(
            &summary,
            false,
            "cold): the summary costs as much as 900 input tokens; it pays back after 1 request",
        );
    }
}
