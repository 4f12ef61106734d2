//! A record exactly as [`Writer`](crate::transfer::Writer) writes it, read member after member in that
//! order: several times as fast as looking for each. A record in any other form is left to serde,
//! which reads the same.

use std::borrow::Cow;
use std::time::Duration;

use memchr::memchr2;

use super::{OutcomeLine, RecordLine};
use crate::transfer::value::{Hashes, Hex, Print, Span, Text, unhex};

/// The record, if all of it has the written form.
pub(super) fn read(json: &str) -> Option<RecordLine<'_>> {
    let mut rest = Rest(json.strip_prefix('{')?);
    let mut line = RecordLine::default();
    if rest.skip("\"tenant\":") {
        line.tenant = rest.text()?;
        rest = Rest(rest.0.strip_prefix(',')?);
    }
    rest.must("\"operation\":")?;
    line.operation = rest.text()?;
    rest.must(",\"key\":")?;
    line.key = rest.text()?;
    rest.must(",\"state\":")?;
    line.state = rest.text()?;
    line.lease_until = rest.member(",\"lease_until\":", Rest::number)?;
    line.not_before = rest.member(",\"not_before\":", Rest::number)?;
    line.at = rest.member(",\"at\":", Rest::number)?;
    line.window = rest.member(",\"window\":", Rest::span)?;
    line.margin = rest.member(",\"margin\":", Rest::span)?;
    line.since = rest.member(",\"since\":", Rest::number)?;
    rest.must(",\"claim\":")?;
    line.claim = Hex(unhex(rest.text()?.0.as_bytes())?);
    rest.must(",\"token\":")?;
    line.token = rest.number()?;
    rest.must(",\"claimed_at\":")?;
    line.claimed_at = rest.number()?;
    rest.must(",\"created_at\":")?;
    line.created_at = rest.number()?;
    rest.must(",\"attempts\":")?;
    line.attempts = rest.small()?;
    line.vanished = rest
        .member(",\"vanished\":", Rest::small)?
        .unwrap_or_default();
    line.possible_repeats = rest
        .member(",\"possible_repeats\":", Rest::small)?
        .unwrap_or_default();
    line.first_started_at = rest.member(",\"first_started_at\":", Rest::number)?;
    line.fingerprint = rest.member(",\"fingerprint\":", Rest::print)?;
    line.members = rest.member(",\"members\":", Rest::hashes)?;
    line.transport = rest.member(",\"transport\":", Rest::text)?;
    line.error = rest.member(",\"error\":", Rest::text)?;
    line.entity = rest.member(",\"entity\":", Rest::text)?;
    line.version = rest.member(",\"version\":", Rest::number)?;
    line.held = rest.skip(",\"held\":true");
    line.outcome = rest.member(",\"outcome\":", Rest::outcome)?;
    (rest.0 == "}").then_some(line)
}

/// The text that is still to be read.
#[derive(Clone, Copy)]
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    /// Returns whether this text came next; if so, it is consumed.
    fn skip(&mut self, wanted: &str) -> bool {
        let rest = self.0.strip_prefix(wanted);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn must(&mut self, wanted: &str) -> Option<()> {
        self.skip(wanted).then_some(())
    }

    /// The value of a member that may be missing.
    #[expect(clippy::option_option, reason = "the outer one ends the reading")]
    fn member<T>(
        &mut self,
        opening: &str,
        value: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.skip(opening) {
            return value(self).map(Some);
        }
        Some(None)
    }

    /// A string in which nothing is escaped.
    fn text(&mut self) -> Option<Text<'a>> {
        let text = self.0.strip_prefix('"')?;
        let end = memchr2(b'"', b'\\', text.as_bytes())?;
        let (text, rest) = text.split_at(end);
        self.0 = rest.strip_prefix('"')?;
        let is_plain = text.bytes().all(|byte| byte >= b' ');
        is_plain.then_some(Text(Cow::Borrowed(text)))
    }

    fn number(&mut self) -> Option<u64> {
        let digits = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.0.split_at(digits);
        if number.len() > 1 && number.starts_with('0') {
            return None;
        }
        self.0 = rest;
        number.parse().ok()
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn span(&mut self) -> Option<Span> {
        self.number().map(Duration::from_millis).map(Span)
    }

    fn print(&mut self) -> Option<Print> {
        Print::read(&self.text()?.0)
    }

    fn hashes(&mut self) -> Option<Hashes> {
        Hashes::read(&self.text()?.0)
    }

    fn outcome(&mut self) -> Option<OutcomeLine<'a>> {
        self.must("{\"text\":")?;
        let text = self.text()?;
        self.must("}")?;
        Some(OutcomeLine {
            text: Some(text),
            ..OutcomeLine::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"tenant":"t","operation":"p","key":"k","state":"completed","lease_until":1,"not_before":2,"at":3,"window":4,"margin":5,"since":6,"claim":"000102030405060708090a0b0c0d0e0f","token":7,"claimed_at":8,"created_at":9,"attempts":10,"vanished":11,"possible_repeats":12,"first_started_at":13,"fingerprint":"00000001:000102030405060708090a0b0c0d0e0f","members":"01ff00","transport":"evt_1","error":"no luck","entity":"e","version":14,"held":true,"outcome":{"text":"ok"}}"#;
    const LEAST: &str = r#"{"operation":"p","key":"","state":"dead","claim":"000102030405060708090a0b0c0d0e0f","token":18446744073709551615,"claimed_at":0,"created_at":0,"attempts":0}"#;

    #[test]
    fn it_is_read_as_serde_reads_it() {
        for json in [WHOLE, LEAST] {
            let slow: RecordLine<'_> = serde_json::from_str(json).expect("a record");
            let swift = read(json).expect("a record as it is written");
            let text = |line: &RecordLine<'_>| serde_json::to_string(line).expect("JSON");
            assert_eq!(text(&swift), text(&slow));
            assert_eq!(text(&swift), json);
        }
    }

    #[test]
    fn nothing_is_read_that_serde_refuses() {
        for json in [WHOLE, LEAST] {
            for at in 0..json.len() {
                for other in [b'"', b'\\', b'0', b'1', b' ', b',', b'}', b'x', 1] {
                    let mut changed = json.as_bytes().to_vec();
                    changed[at] = other;
                    let changed = String::from_utf8(changed).expect("ASCII");
                    if read(&changed).is_some() {
                        let slow = serde_json::from_str::<RecordLine<'_>>(&changed);
                        assert!(slow.is_ok(), "{changed}");
                    }
                }
                let cut = &json[..at];
                assert!(read(cut).is_none(), "{cut}");
            }
        }
    }

    #[test]
    fn what_stands_otherwise_is_left_to_serde() {
        for (from, to) in [
            ("\"key\":\"k\"", "\"key\":\"k\\n\""),
            ("\"window\":4", "\"window\":[4,1]"),
            ("\"error\":\"no luck\"", "\"past\":[]"),
            ("{\"text\":\"ok\"}", "{\"base64\":\"\"}"),
            ("\"at\":3", "\"at\": 3"),
        ] {
            assert!(WHOLE.contains(from), "{from}");
            let json = WHOLE.replace(from, to);
            assert!(read(&json).is_none(), "{json}");
            assert!(
                serde_json::from_str::<RecordLine<'_>>(&json).is_ok(),
                "{json}"
            );
        }
    }
}
