use super::*;

use bytes::Bytes;
use proptest::prelude::*;

use crate::key::Unusable;
use crate::select::{InvalidSelector, Message, Selector, View};

fn fields(selectors: &[&str]) -> FingerprintSelector {
    let selectors: Result<Vec<Selector>, _> = selectors.iter().map(|text| text.parse()).collect();
    selectors
        .and_then(FingerprintSelector::fields)
        .expect("are selectors")
}

fn fingerprint(selector: &FingerprintSelector, payload: &[u8]) -> Result<Fingerprint, Unusable> {
    let payload = Bytes::copy_from_slice(payload);
    let view = View::new(Message {
        payload: &payload,
        headers: &[],
        coordinates: "",
    });
    Ok(selector.fingerprint(&view)?.expect("is wanted"))
}

fn compare(selector: &FingerprintSelector, a: &[u8], b: &[u8]) -> Comparison {
    let [a, b] = [a, b].map(|payload| fingerprint(selector, payload).expect("is usable"));
    a.compare(b)
}

#[test]
fn the_payload_counts_by_what_it_says() {
    let payload = FingerprintSelector::Payload;
    for (a, b, expected) in [
        (
            &br#"{"a":1,"b":[1]}"#[..],
            &b" { \"b\":[1.0], \"\\u0061\":10e-1 }"[..],
            Comparison::Same,
        ),
        (b"{\"a\":1}", b"{\"a\":\"1\"}", Comparison::Different),
        (b"[1,2]", b"[2,1]", Comparison::Different),
        (b"not JSON", b"not JSON", Comparison::Same),
        (b"not JSON", b"not  JSON", Comparison::Different),
        (b"", b" ", Comparison::Different),
        (b"\xff", b"\xff", Comparison::Same),
    ] {
        let named = (a.escape_ascii(), b.escape_ascii());
        assert_eq!(compare(&payload, a, b), expected, "{} {}", named.0, named.1);
    }
    let code = |bytes: &[u8]| fingerprint(&payload, bytes).map_err(|unusable| unusable.code());
    assert_eq!(code(br#"{"a":{"b":1,"b":1}}"#), Err("member-duplicated"));
    assert_eq!(code(b"[1e1000]"), Err("number-too-long"));
    assert_eq!(code(&[b'['; 200]), Err("nested-too-deep"));
}

#[test]
fn named_fields_are_all_that_counts() {
    let selector = fields(&["json:/amount", "json:/currency"]);
    let original = br#"{"amount":10,"currency":"EUR","at":1}"#;
    for (payload, expected) in [
        (
            &br#"{"at":2,"currency":"EUR","amount":1.0e1}"#[..],
            Comparison::Same,
        ),
        (
            br#"{"amount":"10","currency":"EUR"}"#,
            Comparison::Different,
        ),
        (br#"{"amount":10,"currency":"USD"}"#, Comparison::Different),
        (br#"{"amount":10}"#, Comparison::Different),
        (br#"{"amount":10,"currency":null}"#, Comparison::Different),
        (
            br#"{"amount":10,"currency":["EUR"]}"#,
            Comparison::Different,
        ),
        (b"{}", Comparison::Different),
    ] {
        assert_eq!(
            compare(&selector, original, payload),
            expected,
            "{}",
            payload.escape_ascii()
        );
    }
    assert_eq!(
        compare(&selector, b"{}", b"{\"at\":1}"),
        Comparison::Same,
        "absent is absent"
    );
    let nested = fields(&["json:/o"]);
    assert_eq!(
        compare(
            &nested,
            br#"{"o":{"a":1,"b":2}}"#,
            br#"{"o":{"b":2,"a":1.0}}"#
        ),
        Comparison::Same
    );
    let code = fingerprint(&selector, b"x").map_err(|unusable| unusable.code());
    assert_eq!(code, Err("not-json"));
    let twice = fingerprint(&nested, br#"{"o":[{"a":1,"a":1}]}"#);
    assert_eq!(
        twice,
        Err(Unusable::MemberDuplicated {
            at: "json:/o".into()
        })
    );
}

#[test]
fn other_selectors_are_another_scheme() -> Result<(), Unusable> {
    let one = fingerprint(&fields(&["json:/a", "json:/b"]), b"{}")?;
    let other = fingerprint(&fields(&["json:/b", "json:/a"]), b"{}")?;
    let payload = fingerprint(&FingerprintSelector::Payload, b"{}")?;
    assert_eq!(one.compare(other), Comparison::Incomparable);
    assert_eq!(one.compare(payload), Comparison::Incomparable);
    assert_eq!(
        FingerprintSelector::fields(vec![]),
        Err(InvalidSelector::Empty)
    );
    let bytes = Bytes::new();
    let view = View::new(Message {
        payload: &bytes,
        headers: &[],
        coordinates: "",
    });
    assert_eq!(FingerprintSelector::None.fingerprint(&view), Ok(None));
    Ok(())
}

#[test]
fn a_fingerprint_never_changes() -> Result<(), Unusable> {
    let payload = fingerprint(&FingerprintSelector::Payload, br#"{"b":1.0,"a":"x"}"#)?;
    let named = fingerprint(&fields(&["json:/a", "json:/c"]), br#"{"b":1.0,"a":"x"}"#)?;
    assert_eq!(
        payload.to_string(),
        "6821a594:d9cb3aa63b4607b8d963348de0720a53",
        "this is a stored format"
    );
    assert_eq!(
        named.to_string(),
        "be942fd9:893954d1f654cdc908a01bea037f4e54",
        "this is a stored format"
    );
    Ok(())
}

proptest! {
    #[test]
    fn bytes_give_the_fingerprint_back(scheme: u32, digest: [u8; 16]) {
        let fingerprint = Fingerprint { scheme, digest };
        prop_assert_eq!(Fingerprint::from_bytes(fingerprint.to_bytes()), fingerprint);
    }

    #[test]
    fn fields_never_run_into_each_other(a in "[a-c\t]{0,6}", b in "[a-c\t]{0,6}") {
        let selector = fields(&["field:1", "field:2", "field:3"]);
        let first_three = |text: &str| {
            text.split('\t').take(3).map(str::to_owned).collect::<Vec<_>>()
        };
        let same = compare(&selector, a.as_bytes(), b.as_bytes()) == Comparison::Same;
        prop_assert_eq!(same, first_three(&a) == first_three(&b));
    }
}

#[test]
fn a_fingerprint_is_shown_with_its_scheme_and_kept_as_its_bytes() {
    let fingerprint = Fingerprint {
        scheme: 0x0102,
        digest: [0xab; 16],
    };
    let digits = "ab".repeat(16);
    assert_eq!(fingerprint.to_string(), format!("00000102:{digits}"));
    assert_eq!(Fingerprint::from_bytes(fingerprint.to_bytes()), fingerprint);
    assert_eq!(fingerprint.to_bytes()[..5], [2, 1, 0, 0, 0xab]);
}
