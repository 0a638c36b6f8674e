//! New ids. Within a fork, an old id always leads to the same new id, even in other files of the session. Therefore, no
//! table of ids is needed. Two forks never share an id.

use std::hash::{BuildHasher as _, RandomState};
use std::process;

use jiff::Timestamp;
use jp_compact_runtime::digest::of_bytes;

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The source of the new ids of one fork.
#[derive(Debug, Clone)]
pub(crate) struct NewIds {
    seed: String,
    now: Timestamp,
}

impl NewIds {
    pub(crate) fn new(now: Timestamp) -> Self {
        // The standard library seeds each state from the random numbers of the system.
        let random = [0_u8; 2].map(|_| RandomState::new().hash_one(process::id()));
        Self { seed: format!("{random:?}{now}"), now }
    }

    /// Returns 64 hexadecimal digits that belong to an old id.
    fn digits(&self, old: &str) -> String {
        of_bytes(format!("{} {old}", self.seed).as_bytes())
    }

    /// Returns a UUID, version 4.
    pub(crate) fn uuid4(&self, old: &str) -> String {
        let digits = self.digits(old);
        uuid(&digits[..12], '4', &digits[12..])
    }

    /// Returns a UUID, version 7, with the current time.
    pub(crate) fn uuid7(&self, old: &str) -> String {
        let time = format!("{:012x}", self.now.as_millisecond());
        uuid(&time, '7', &self.digits(old))
    }

    /// Returns eight hexadecimal digits.
    pub(crate) fn short(&self, old: &str) -> String {
        self.digits(old)[..8].to_owned()
    }

    /// Returns an id of OpenCode with the prefix and the time of the old id. OpenCode sorts messages and parts by id.
    pub(crate) fn opencode(&self, old: &str) -> String {
        match old.get(..16) {
            Some(start) if old.len() == 30 => format!("{start}{}", self.base62(old)),
            // `-` precedes every character of an id, so the order stays.
            _ => format!("{old}-{}", self.base62(old)),
        }
    }

    /// Returns the id of a new session of OpenCode. Newer sessions have smaller ids.
    pub(crate) fn opencode_session(&self, old: &str) -> String {
        let time = !(self.now.as_millisecond().cast_unsigned() << 12) & 0xffff_ffff_ffff;
        format!("ses_{time:012x}{}", self.base62(old))
    }

    fn base62(&self, old: &str) -> String {
        let digits = self.digits(old);
        let pairs = digits.as_bytes().chunks_exact(2).take(14);
        let values = pairs.map(|pair| std::str::from_utf8(pair).map(|pair| u8::from_str_radix(pair, 16)));
        values
            .map(|value| char::from(BASE62[value.map_or(0, |value| value.map_or(0, usize::from)) % 62]))
            .collect()
    }
}

/// Composes a UUID from the digits of its time, its version, and random digits.
fn uuid(time: &str, version: char, random: &str) -> String {
    let variant = match random.as_bytes()[3] % 4 {
        0 => '8',
        1 => '9',
        2 => 'a',
        _ => 'b',
    };
    format!(
        "{}-{}-{version}{}-{variant}{}-{}",
        &time[..8],
        &time[8..12],
        &random[..3],
        &random[4..7],
        &random[7..19]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> NewIds {
        NewIds::new(Timestamp::from_second(1_800_000_000).unwrap())
    }

    #[test]
    fn fork_always_maps_an_id_to_the_same_new_id() {
        let (first, second) = (ids(), ids());
        assert_eq!(first.uuid4("a"), first.uuid4("a"));
        assert_ne!(first.uuid4("a"), first.uuid4("b"));
        assert_ne!(first.uuid4("a"), second.uuid4("a"));
    }

    #[test]
    fn ids_have_the_form_of_their_agent() {
        let ids = ids();
        let uuid = ids.uuid4("a");
        assert_eq!((uuid.len(), &uuid[14..15]), (36, "4"));
        assert!(matches!(&uuid[19..20], "8" | "9" | "a" | "b"));
        assert_eq!(&ids.uuid7("a")[..15], "01a3185c-5000-7");
        assert_eq!(ids.short("a").len(), 8);
        let message = ids.opencode("msg_1fd182bd5001Gt2c4EWaLRLgFH");
        assert_eq!((&message[..16], message.len()), ("msg_1fd182bd5001", 30));
        let session = ids.opencode_session("ses_e02e7d4b5ffeNVBHE12HmE4Jxa");
        assert_eq!((&session[..4], session.len()), ("ses_", 30));
    }
}
