//! The bootstrap interval of a recall. Whole sessions are resampled, because the anchors of one session depend on each
//! other. The generator is fixed, so the same sessions give the same interval.

use crate::class::Class;
use crate::recall::RecallCounts;

const SAMPLES: usize = 1_000;
/// The minimum number of anchors at risk for a percentage.
pub const AT_RISK_MIN: u64 = 20;

/// A recall with its interval, in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percent {
    pub percent: f64,
    pub low: f64,
    pub high: f64,
}

/// Returns the pooled recall of a class over sessions. `None` with fewer than [`AT_RISK_MIN`] anchors at risk.
#[must_use]
pub fn percent(sessions: &[RecallCounts], class: Class) -> Option<Percent> {
    let pooled = share(sessions.iter(), class).filter(|(_, at_risk)| *at_risk >= AT_RISK_MIN)?;
    let mut random = SplitMix64(0);
    let mut samples = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let drawn = (0..sessions.len()).map(|_| &sessions[random.below(sessions.len())]);
        // A sample is left out if none of its sessions has an anchor of the class at risk.
        samples.extend(share(drawn, class).map(|(share, _)| share));
    }
    samples.sort_by(f64::total_cmp);
    let quantile = |part: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index of a sample")]
        let index = (part * (samples.len().max(1) - 1) as f64).round() as usize;
        samples.get(index).copied().unwrap_or(pooled.0)
    };
    Some(Percent { percent: pooled.0, low: quantile(0.025), high: quantile(0.975) })
}

/// Returns the kept part in percent, and the number at risk. `None` without an anchor at risk.
fn share<'a>(sessions: impl Iterator<Item = &'a RecallCounts>, class: Class) -> Option<(f64, u64)> {
    let (mut kept, mut at_risk) = (0, 0);
    for session in sessions {
        kept += session.counts(class).kept;
        at_risk += session.counts(class).at_risk;
    }
    (at_risk > 0).then(|| (kept as f64 * 100.0 / at_risk as f64, at_risk))
}

/// The generator SplitMix64.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// Returns a number below `end`.
    #[expect(clippy::cast_possible_truncation, reason = "the result is below `end`")]
    fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(kept: u64, at_risk: u64) -> RecallCounts {
        let mut counts = RecallCounts::default();
        (0..at_risk).for_each(|anchor| counts.add(Class::Path, anchor < kept));
        counts
    }

    #[test]
    fn generator_is_splitmix64() {
        let mut random = SplitMix64(0);
        assert_eq!([random.next(), random.next()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    #[test]
    fn too_few_anchors_have_no_percentage() {
        assert_eq!(percent(&[session(19, 19)], Class::Path), None);
        assert_eq!(percent(&[session(20, 20)], Class::Number), None);
        let whole = Percent { percent: 100.0, low: 100.0, high: 100.0 };
        assert_eq!(percent(&[session(20, 20)], Class::Path), Some(whole));
        assert_eq!(percent(&[session(10, 10), session(10, 10)], Class::Path), Some(whole));
        assert_eq!(percent(&[], Class::Path), None);
    }

    #[test]
    fn interval_is_over_sessions() {
        // A single session has no spread, even if it has many anchors.
        let one = percent(&[session(50, 100)], Class::Path).unwrap();
        assert_eq!((one.low, one.high), (50.0, 50.0));
        let two = percent(&[session(0, 50), session(50, 50)], Class::Path).unwrap();
        assert_eq!((two.percent, two.low, two.high), (50.0, 0.0, 100.0));
        let many: Vec<_> = (0..40).map(|index| session(10 + index % 3, 20)).collect();
        let many = percent(&many, Class::Path).unwrap();
        assert!(
            many.low < many.percent && many.percent < many.high && many.high - many.low < 4.0,
            "{many:?}"
        );
    }
}
