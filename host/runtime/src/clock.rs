//! The only module that reads the system time. Other code receives a [`Clock`] or a timestamp.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// The source of the current time.
#[derive(Debug, Clone, Copy, Default)]
pub enum Clock {
    /// The system clock.
    #[default]
    System,
    /// A fixed time: `--now`, and tests.
    Fixed(Timestamp),
}

impl Clock {
    /// Returns the current time.
    #[must_use]
    pub fn now(self) -> Timestamp {
        match self {
            #[expect(clippy::disallowed_methods, reason = "this is the clock")]
            Self::System => Timestamp::now(),
            Self::Fixed(time) => time,
        }
    }

    /// Returns the current time in the time zone of the user: that of `TZ`, or of the system. Without data about time
    /// zones, it is UTC.
    #[must_use]
    pub fn local_now(self) -> Zoned {
        self.now().to_zoned(TimeZone::system())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_clock_never_changes() {
        let time = Timestamp::from_second(1_700_000_000).unwrap();
        assert_eq!(Clock::Fixed(time).now(), time);
    }

    #[test]
    fn the_system_clock_is_not_set_to_the_epoch() {
        assert!(Clock::default().now() > Timestamp::from_second(1_700_000_000).unwrap());
    }
}
