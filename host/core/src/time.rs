//! Timestamps in JP's form, `2026-03-18 11:58:01.2358` in UTC. The parser also accepts RFC 3339. Timestamps must be
//! compared as parsed values, never as text (docs/reference/store.md#on-disk).

use jiff::{Timestamp, civil::DateTime, tz::Offset};

use crate::text;

/// Parses a timestamp in JP's form or in RFC 3339.
#[must_use]
pub fn parse(text: &str) -> Option<Timestamp> {
    parse_common(text.as_bytes()).or_else(|| parse_general(text))
}

/// Same as [`parse`], for a JSON string with its quotes.
pub(crate) fn parse_stored(raw: &[u8]) -> Option<Timestamp> {
    raw.get(1..raw.len().saturating_sub(1)).and_then(parse_common).or_else(|| parse(&text::unquote(raw)))
}

fn parse_general(text: &str) -> Option<Timestamp> {
    // After the date, a sign or a `Z` begins an offset. A date without a time is rejected.
    let time_of_day = text.get(10..).filter(|rest| rest.contains(':'))?;
    if time_of_day.contains(['+', '-', 'Z', 'z']) {
        return text.parse().ok();
    }
    let civil: DateTime = text.parse().ok()?;
    Offset::UTC.to_timestamp(civil).ok()
}

/// Parses the two most frequent forms fast: JP's own, and RFC 3339 in UTC. Returns `None` for all other text.
fn parse_common(text: &[u8]) -> Option<Timestamp> {
    let (text, separator) = match text {
        [text @ .., b'Z'] => (text, b'T'),
        text => (text, b' '),
    };
    let (date_time, fraction) = text.split_first_chunk::<19>()?;
    let number = |from: usize, to: usize| digits(&date_time[from..to]);
    let separators = [date_time[4], date_time[7], date_time[10], date_time[13], date_time[16]];
    let fraction = match fraction {
        [] => b"0",
        [b'.', fraction @ ..] => fraction,
        _ => return None,
    };
    if separators != [b'-', b'-', separator, b':', b':'] || !(1..=9).contains(&fraction.len()) {
        return None;
    }
    let nanoseconds = digits(fraction)? * 10_i32.pow(u32::try_from(9 - fraction.len()).ok()?);
    let to_i8 = |number: Option<i32>| i8::try_from(number?).ok();
    let civil = DateTime::new(
        i16::try_from(number(0, 4)?).ok()?,
        to_i8(number(5, 7))?,
        to_i8(number(8, 10))?,
        to_i8(number(11, 13))?,
        to_i8(number(14, 16))?,
        to_i8(number(17, 19))?,
        nanoseconds,
    );
    Offset::UTC.to_timestamp(civil.ok()?).ok()
}

/// Parses at most nine digits.
fn digits(text: &[u8]) -> Option<i32> {
    text.iter()
        .try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + i32::from(byte - b'0')))
}

/// Formats a timestamp in JP's form: up to nanoseconds, without trailing zeros, but at least `.0`.
#[must_use]
pub fn format(timestamp: Timestamp) -> String {
    let civil = Offset::UTC.to_datetime(timestamp);
    let fraction = format!("{:09}", civil.subsec_nanosecond());
    let fraction = fraction.trim_end_matches('0');
    let fraction = if fraction.is_empty() { "0" } else { fraction };
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{fraction}",
        civil.year(),
        civil.month(),
        civil.day(),
        civil.hour(),
        civil.minute(),
        civil.second()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(parse(text).map(format).as_deref(), expected, "{text}");
    }

    #[test]
    fn parses_both_forms_and_formats_one() {
        check("2026-03-18 11:58:01.2358", Some("2026-03-18 11:58:01.2358"));
        check("2026-03-18 11:58:01", Some("2026-03-18 11:58:01.0"));
        check("2026-03-18 11:58:01.000000001", Some("2026-03-18 11:58:01.000000001"));
        check("2026-03-18T11:58:01Z", Some("2026-03-18 11:58:01.0"));
        check("2027-01-01T00:00:00.5+02:00", Some("2026-12-31 22:00:00.5"));
        check("2026-03-18T11:58:01", Some("2026-03-18 11:58:01.0"));
    }

    #[test]
    fn rejects_invalid_times() {
        for text in ["", "now", "2026-03-18", "12:00", "2026-13-01 00:00:00", "1700000000"] {
            check(text, None);
        }
    }

    #[test]
    fn compares_parsed_values() {
        assert!(parse("2026-12-31 23:00:00.0") > parse("2027-01-01T00:00:00.5+02:00"));
    }

    proptest! {
        #[test]
        fn fast_path_agrees_with_general_parser(
            text in "[0-9]{4}-[01][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-6][0-9]:[0-6][0-9]([.,][0-9]{0,10})?Z?",
        ) {
            prop_assert_eq!(parse(&text), parse_general(&text));
        }
    }
}
