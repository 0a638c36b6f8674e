//! The age of a session for people: `5 min ago`. For sessions older than a month, the date in the time zone of the user
//! is printed. Programs read the exact time in `--json`.

use jiff::{Timestamp, Zoned};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Returns the age of a time in RFC 3339. `now` has the time zone of the user. A time that cannot be read is returned
/// unchanged.
#[must_use]
pub fn age(time: &str, now: &Zoned) -> String {
    let Ok(parsed) = time.parse::<Timestamp>() else { return time.to_owned() };
    let seconds = now.timestamp().as_second() - parsed.as_second();
    let plural = |count: i64, unit: &str| format!("{count} {unit}{} ago", if count == 1 { "" } else { "s" });
    match seconds {
        // A clock may be ahead.
        ..MINUTE => "now".to_owned(),
        MINUTE..HOUR => format!("{} min ago", seconds / MINUTE),
        HOUR..DAY => format!("{} h ago", seconds / HOUR),
        seconds if seconds < 30 * DAY => plural(seconds / DAY, "day"),
        _ => parsed.to_zoned(now.time_zone().clone()).date().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(time: &str, expected: &str) {
        check_in(0, time, expected);
    }

    /// `hours` is the offset of the time zone.
    #[track_caller]
    fn check_in(hours: i8, time: &str, expected: &str) {
        let now: Timestamp = "2026-11-23T08:00:00Z".parse().unwrap();
        let zone = jiff::tz::offset(hours).to_time_zone();
        assert_eq!(age(time, &now.to_zoned(zone)), expected);
    }

    #[test]
    fn dates_are_those_of_the_time_zone() {
        check_in(9, "2026-01-03T14:59:59Z", "2026-01-03");
        check_in(9, "2026-01-03T15:00:00Z", "2026-01-04");
        check_in(-5, "2026-01-03T04:59:59Z", "2026-01-02");
        check_in(-5, "2026-11-23T07:01:00Z", "59 min ago");
    }

    #[test]
    fn ages_are_rounded_down_and_old_times_are_dates() {
        check("2026-11-23T08:00:30Z", "now");
        check("2026-11-23T07:59:01Z", "now");
        check("2026-11-23T07:01:00Z", "59 min ago");
        check("2026-11-22T08:00:01Z", "23 h ago");
        check("2026-11-22T08:00:00Z", "1 day ago");
        check("2026-11-03T08:00:00Z", "20 days ago");
        check("2026-01-03T08:00:00Z", "2026-01-03");
        check("yesterday", "yesterday");
    }
}
