//! The one place that reads the time. Whoever needs `now` is handed a [`Clock`], or the time itself.

use jiff::Timestamp;

/// Where the time comes from.
#[derive(Debug, Clone, Copy, Default)]
pub enum Clock {
    /// The system's clock.
    #[default]
    System,
    /// One moment that never passes: `--now`, and tests.
    Fixed(Timestamp),
}

impl Clock {
    /// The time now, as this clock has it.
    #[must_use]
    pub fn now(self) -> Timestamp {
        match self {
            #[expect(clippy::disallowed_methods, reason = "this is the clock")]
            Self::System => Timestamp::now(),
            Self::Fixed(at) => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_clock_stands_still() {
        let at = Timestamp::from_second(1_700_000_000).unwrap();
        assert_eq!(Clock::Fixed(at).now(), at);
    }

    #[test]
    fn the_system_clock_is_not_set_to_the_epoch() {
        assert!(Clock::default().now() > Timestamp::from_second(1_700_000_000).unwrap());
    }
}
