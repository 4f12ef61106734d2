use bytes::Bytes;

use super::*;
use crate::fingerprint::{FingerprintSelector, Reading};
use crate::key::{Key, Scope};
use crate::select::{Message, Selector, View};

fn operation(key: &str) -> Operation {
    let scope = Scope::new("acme", "payments").expect("a scope");
    Operation::new(scope, Key::parse(key).expect("a key"))
}

fn read(selector: &FingerprintSelector, payload: &str) -> Reading {
    let payload = Bytes::copy_from_slice(payload.as_bytes());
    let message = Message {
        payload: &payload,
        headers: &[],
        coordinates: "",
    };
    let read = selector.read(&View::new(message)).expect("it is readable");
    read.expect("a fingerprint is wanted")
}

fn fields(selectors: &[&str]) -> FingerprintSelector {
    let parse = |text: &&str| -> Selector { text.parse().expect("a selector") };
    FingerprintSelector::fields(selectors.iter().map(parse).collect()).expect("some")
}

/// The description of how the second payload differs.
fn told(selector: &FingerprintSelector, first: &str, second: &str) -> String {
    let operation = operation("pay-1");
    let (first, second) = (read(selector, first), read(selector, second));
    assert_ne!(first.fingerprint(), second.fingerprint());
    let first = first.members(&operation);
    second.differing(&operation, first.as_ref()).to_string()
}

#[test]
fn the_members_of_an_object_that_differ_are_named() {
    let payload = FingerprintSelector::Payload;
    let first = r#"{"id":1,"amount":5,"to":{"iban":"x","bic":"y"},"note":null}"#;
    for (second, expected) in [
        (
            r#"{"to":{"bic":"y","iban":"x"},"amount":6,"id":1,"note":null}"#,
            "json:/amount differs",
        ),
        (
            r#"{"id":1,"amount":6,"to":{"iban":"z","bic":"y"},"note":null}"#,
            "json:/amount and json:/to differ",
        ),
        (
            r#"{"id":2,"amount":6,"to":5,"note":null}"#,
            "json:/amount, json:/id and json:/to differ",
        ),
        (
            r#"{"id":1,"amount":5,"to":{"iban":"x","bic":"y"},"note":null,"a/b":1}"#,
            "json:/a~1b is new",
        ),
        (
            r#"{"id":1,"amount":5,"note":null}"#,
            "one member of the first is missing",
        ),
        (
            r#"{"id":3,"colour":5,"z\n":5}"#,
            "json:/id differs; json:/colour and json:/z\u{fffd} are new; 3 members of the first are missing",
        ),
        (
            "[1]",
            "what differs cannot be told: there are no members, or more than 32",
        ),
        (
            "plain",
            "what differs cannot be told: there are no members, or more than 32",
        ),
    ] {
        assert_eq!(told(&payload, first, second), expected, "{second}");
    }
    assert_eq!(
        told(&payload, "[1]", first),
        "what differs cannot be told: no member of the first was kept"
    );
}

#[test]
fn the_selectors_that_find_something_else_are_named() {
    let selected = fields(&["json:/amount", "json:/currency"]);
    let first = r#"{"amount":5,"currency":"EUR"}"#;
    for (second, expected) in [
        (r#"{"amount":5.5,"currency":"EUR"}"#, "json:/amount differs"),
        (r#"{"amount":5}"#, "json:/currency differs"),
        ("{}", "json:/amount and json:/currency differ"),
    ] {
        assert_eq!(told(&selected, first, second), expected, "{second}");
    }
}

#[test]
fn members_do_not_show_as_equal_in_two_operations() {
    let reading = read(&FingerprintSelector::Payload, r#"{"amount":5,"to":"x"}"#);
    let [one, other] = ["pay-1", "pay-2"].map(|key| reading.members(&operation(key)).expect("two"));
    let (one, other) = (one.pairs().expect("pairs"), other.pairs().expect("pairs"));
    assert_eq!((one.len(), other.len()), (2, 2));
    for (one, other) in one.iter().zip(other) {
        assert_eq!(one[..2], other[..2], "the same name");
        assert_ne!(one[2..], other[2..], "another value as far as anybody sees");
    }
}

#[test]
fn members_never_change() {
    let reading = read(&FingerprintSelector::Payload, r#"{"amount":5,"to":"x"}"#);
    let members = reading.members(&operation("pay-1")).expect("two");
    assert_eq!(format!("{members:?}"), "Members(01c9fba1bef3ea240f)");
    let reading = read(&fields(&["json:/amount"]), r#"{"amount":5}"#);
    let members = reading.members(&operation("pay-1")).expect("one");
    assert_eq!(format!("{members:?}"), "Members(01ed62cd39)");
}

#[test]
fn of_too_many_members_none_is_kept() {
    let object = |count: usize, value: u32| {
        let members: Vec<_> = (0..count)
            .map(|at| format!("\"m{at:02}\":{value}"))
            .collect();
        format!("{{{}}}", members.join(","))
    };
    let payload = FingerprintSelector::Payload;
    let operation = operation("pay-1");
    let most = read(&payload, &object(Members::MAX, 1)).members(&operation);
    assert_eq!(most.as_ref().and_then(Members::count), Some(32));
    let again = Members::from_bytes(most.as_ref().expect("members").as_bytes());
    assert_eq!(again, most);
    assert_eq!(
        read(&payload, &object(Members::MAX + 1, 1)).members(&operation),
        None
    );
    assert_eq!(read(&payload, "{}").members(&operation), None);
    let said = told(&payload, &object(10, 1), &object(10, 2));
    assert!(said.ends_with("json:/m07 and 2 more differ"), "{said}");
}

#[test]
fn hashes_that_are_alike_name_nothing() {
    let operation = operation("pay-1");
    let reading = read(&FingerprintSelector::Payload, r#"{"amount":5}"#);
    let kept = reading.members(&operation);
    let alike = reading.differing(&operation, kept.as_ref());
    assert_eq!(alike, Differing::Alike);
    assert_eq!(
        alike.to_string(),
        "the members that differ cannot be told: their short hashes are the same"
    );
    // In a form that this version does not know.
    let later = Members::from_bytes(&[9, 1, 2, 3]);
    assert_eq!(
        reading.differing(&operation, later.as_ref()),
        Differing::NotKept
    );
    assert_eq!(later.and_then(|it| it.count()), None);
    assert_eq!(Members::from_bytes(&[]), None);
    assert_eq!(Members::from_bytes(&[1; 256]), None);
}

#[test]
fn hashes_alone_say_how_many_differ() {
    let operation = operation("pay-1");
    let members = |payload| read(&FingerprintSelector::Payload, payload).members(&operation);
    let first = members(r#"{"a":1,"b":1,"c":1}"#);
    for (second, expected) in [
        (
            members(r#"{"a":1,"b":2,"c":1}"#),
            Differing::Unnamed { count: 1 },
        ),
        (
            members(r#"{"a":1,"b":2,"d":1}"#),
            Differing::Unnamed { count: 3 },
        ),
        (first.clone(), Differing::Alike),
        (None, Differing::NoMembers),
    ] {
        assert_eq!(
            Differing::unnamed(first.as_ref(), second.as_ref()),
            expected
        );
    }
    assert_eq!(Differing::unnamed(None, first.as_ref()), Differing::NotKept);
    assert_eq!(
        Differing::Unnamed { count: 1 }.to_string(),
        "one member differs"
    );
    assert_eq!(
        Differing::Unnamed { count: 3 }.to_string(),
        "3 members differ"
    );
}
