use super::*;

use bytes::Bytes;

use crate::select::Message;

#[test]
fn times_are_read_as_rfc_3339_says() {
    for (text, expected) in [
        ("1970-01-01T00:00:00Z", Some(0)),
        ("1970-01-01T00:00:00.001Z", Some(1)),
        ("2026-11-21T10:33:00Z", Some(1_795_257_180_000)),
        ("2026-11-21t11:33:00.5+01:00", Some(1_795_257_180_500)),
        (
            "2026-11-21 06:03:00.123456789-04:30",
            Some(1_795_257_180_123),
        ),
        ("2024-02-29T23:59:59z", Some(1_709_251_199_000)),
        ("2000-03-01T00:00:00Z", Some(951_868_800_000)),
        ("2016-12-31T23:59:60Z", Some(1_483_228_800_000)),
        ("9999-12-31T23:59:59.999Z", Some(253_402_300_799_999)),
        ("1970-01-01T01:00:00+01:00", Some(0)),
        ("1970-01-01T00:59:59+01:00", None),
        ("2026-11-22T10:32:00+23:59", Some(1_795_257_180_000)),
        ("2026-11-20T10:34:00-23:59", Some(1_795_257_180_000)),
        ("2026-11-22T10:33:00+24:00", None),
        ("2026-11-21T11:33:00+00:60", None),
        ("1969-12-31T23:59:59.999Z", None),
        ("0000-01-01T00:00:00Z", None),
        ("2023-02-29T00:00:00Z", None),
        ("2100-02-29T00:00:00Z", None),
        ("2026-04-31T00:00:00Z", None),
        ("2026-13-01T00:00:00Z", None),
        ("2026-00-01T00:00:00Z", None),
        ("2026-01-00T00:00:00Z", None),
        ("2026-01-01T24:00:00Z", None),
        ("2026-01-01T00:60:00Z", None),
        ("2026-01-01T00:00:61Z", None),
        ("2026-01-01T00:00:00", None),
        ("2026-01-01T00:00:00.Z", None),
        ("2026-01-01T00:00:00+24:00", None),
        ("2026-01-01T00:00:00+0100", None),
        ("2026-01-01T00:00:00Zx", None),
        ("2026-01-01", None),
        ("+2026-01-01T00:00:00Z", None),
        ("２026-01-01T00:00:00Z", None),
        ("yesterday", None),
        ("", None),
        (" 1700000000 ", Some(1_700_000_000_000)),
    ] {
        assert_eq!(millis_of_text(text), expected, "{text}");
    }
}

#[test]
fn the_size_of_a_number_tells_its_unit() {
    for (text, expected) in [
        ("0", Some(0)),
        ("0.0019", Some(1)),
        ("1700000000", Some(1_700_000_000_000)),
        ("1700000000.25", Some(1_700_000_000_250)),
        ("99999999999.999", Some(99_999_999_999_999)),
        ("100000000000", Some(100_000_000_000)),
        ("1700000000123", Some(1_700_000_000_123)),
        ("1700000000123.9", Some(1_700_000_000_123)),
        ("99999999999999", Some(99_999_999_999_999)),
        ("100000000000000", Some(100_000_000_000)),
        ("1700000000123456", Some(1_700_000_000_123)),
        ("1700000000123456789", Some(1_700_000_000_123)),
        ("99999999999999999999", Some(99_999_999_999_999)),
        ("100000000000000000000", None),
        ("-1", None),
        ("-0.5", None),
        ("1.", None),
        (".5", None),
        ("1.2.3", None),
        (".", None),
    ] {
        assert_eq!(millis_of_number(text), expected, "{text}");
    }
}

#[test]
fn a_birth_is_missing_or_invalid_with_its_selector() {
    for (payload, expected) in [
        (r#"{"at":"2026-11-21T10:33:00Z"}"#, Ok(1_795_257_180_000)),
        (r#"{"at":1.7e9}"#, Ok(1_700_000_000_000)),
        (
            "{}",
            Err(Unusable::BirthMissing {
                at: "json:/at".into(),
            }),
        ),
        (
            r#"{"at":null}"#,
            Err(Unusable::BirthMissing {
                at: "json:/at".into(),
            }),
        ),
        (
            r#"{"at":"soon"}"#,
            Err(Unusable::BirthInvalid {
                at: "json:/at".into(),
            }),
        ),
        (
            r#"{"at":-1}"#,
            Err(Unusable::BirthInvalid {
                at: "json:/at".into(),
            }),
        ),
        (
            r#"{"at":[]}"#,
            Err(Unusable::BirthInvalid {
                at: "json:/at".into(),
            }),
        ),
    ] {
        let bytes = Bytes::from_static(payload.as_bytes());
        let view = View::new(Message {
            payload: &bytes,
            headers: &[],
            coordinates: "",
        });
        let selector = "json:/at".parse().expect("is a selector");
        assert_eq!(of(&view, &selector), expected, "{payload}");
    }
}

#[test]
fn every_month_of_every_kind_of_year_begins_where_the_last_ended() {
    for year in [1972, 1999, 2000, 2023, 2024, 2096, 2100, 2400] {
        let mut expected = None;
        for month in 1..=12 {
            let first = millis_of_text(&format!("{year}-{month:02}-01T00:00:00Z"));
            assert!(first.is_some() && (expected.is_none() || first == expected));
            let is_there = |day: u64| {
                millis_of_text(&format!("{year}-{month:02}-{day:02}T00:00:00Z")).is_some()
            };
            let days = (1..=40).filter(|day| is_there(*day)).count();
            let is_leap = [1972, 2000, 2024, 2096, 2400].contains(&year);
            let february = if is_leap { 29 } else { 28 };
            let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            assert_eq!(days, lengths[month - 1], "{year}-{month:02}");
            let millis = days as u64 * 86_400_000;
            expected = first.map(|first| first + millis);
        }
    }
}
