use super::*;

use std::borrow::Cow;
use std::error::Error;

use bytes::Bytes;
use bytestring::ByteString;

use crate::json::Tape;
use crate::key::Unusable;

type Headers = [(ByteString, Bytes)];

/// The value that `selector` finds, in a form that is easy to compare: its type and its text.
fn found(
    payload: &[u8],
    headers: &Headers,
    selector: &str,
) -> Result<Option<String>, Box<dyn Error>> {
    let payload = Bytes::copy_from_slice(payload);
    let view = View::new(Message {
        payload: &payload,
        headers,
        coordinates: "payments/3/17",
    });
    let selected = view.select(&selector.parse()?)?;
    Ok(selected.map(|selected| {
        let noun = selected.noun();
        match selected {
            Selected::Null => noun.into(),
            Selected::Bool(value) => format!("{noun} {value}"),
            Selected::Number(text) | Selected::Text(text) => format!("{noun} {text}"),
            Selected::Bytes(bytes) => format!("{noun} {}", bytes.escape_ascii()),
            Selected::Event(source, id) => format!("{noun} {source} {id}"),
            Selected::Nested(node) => format!("{noun} {}", node.raw()),
        }
    }))
}

fn headers(pairs: &[(&str, &'static [u8])]) -> Box<Headers> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).into(), Bytes::from_static(value)))
        .collect()
}

#[test]
fn each_form_finds_its_value() -> Result<(), Box<dyn Error>> {
    let payload = br#"{"a":{"b":["x","\u00e9\n"]},"n":1.50e1,"t":true,"z":null,"o":{}}"#;
    let headers = headers(&[("Event-Id", b"e-1"), ("raw", b"\xff\x00"), ("empty", b"")]);
    let hash = format!("a string {}", blake3::hash(payload).to_hex());
    for (selector, expected) in [
        ("json:/a/b/0", Some("a string x")),
        ("json:/a/b/1", Some("a string é\n")),
        ("json:/a/b", Some(r#"an array ["x","\u00e9\n"]"#)),
        ("json:/o", Some("an object {}")),
        ("json:/n", Some("a number 15")),
        ("json:/t", Some("a boolean true")),
        ("json:/z", Some("null")),
        ("json:/a/c", None),
        ("header:event-id", Some("a string e-1")),
        ("header:raw", Some(r"not UTF-8 \xff\x00")),
        ("header:empty", Some("a string ")),
        ("header:none", None),
        ("coordinates", Some("a string payments/3/17")),
        ("hash", Some(&hash)),
    ] {
        assert_eq!(
            found(payload, &headers, selector)?.as_deref(),
            expected,
            "{selector}"
        );
    }
    for (selector, expected) in [
        ("field:1", Some("a string a b")),
        ("field:2", Some("a string ")),
        ("field:3", Some(r"not UTF-8 \xff")),
        ("field:4", None),
        ("field:18446744073709551615", None),
        ("line", Some(r"not UTF-8 a b\t\t\xff")),
    ] {
        assert_eq!(
            found(b"a b\t\t\xff", &[], selector)?.as_deref(),
            expected,
            "{selector}"
        );
    }
    assert_eq!(found(b"", &[], "line")?.as_deref(), Some("a string "));
    assert_eq!(found(b"", &[], "field:1")?.as_deref(), Some("a string "));
    assert_eq!(found(b" 7.0", &[], "json:")?.as_deref(), Some("a number 7"));
    Ok(())
}

#[test]
fn an_event_is_its_source_and_id() -> Result<(), Box<dyn Error>> {
    let structured = br#"{"specversion":"1.0","source":"/s","id":"1","data":{}}"#;
    let event = |payload: &[u8], headers: &Headers| found(payload, headers, "cloudevents");
    assert_eq!(event(structured, &[])?.as_deref(), Some("an event /s 1"));
    for (source, id) in [
        ("ce-source", "CE-ID"),
        ("ce_source", "ce_id"),
        ("cloudEvents:source", "cloudEvents_id"),
    ] {
        let headers = headers(&[(source, b"/h"), (id, b"2")]);
        assert_eq!(
            event(b"not JSON", &headers)?.as_deref(),
            Some("an event /h 2")
        );
        assert_eq!(
            event(structured, &headers)?.as_deref(),
            Some("an event /h 2"),
            "binary mode"
        );
    }
    let half = headers(&[("ce-id", b"2")]);
    assert_eq!(event(structured, &half)?.as_deref(), Some("an event /s 1"));
    assert_eq!(event(br#"{"source":"/s","id":1}"#, &half)?, None);
    assert_eq!(event(b"[]", &[])?, None);
    assert!(event(b"not JSON", &half).is_err());
    assert!(event(br#"{"source":"/s","id":"1","id":"1"}"#, &[]).is_err());
    Ok(())
}

#[test]
fn json_is_scanned_once_and_only_when_asked_for() -> Result<(), Box<dyn Error>> {
    let payload = Bytes::from_static(br#"{"a":"x"}"#);
    let view = View::new(Message {
        payload: &payload,
        headers: &[],
        coordinates: "",
    });
    for selector in ["line", "hash", "coordinates", "field:1", "header:a"] {
        view.select(&selector.parse()?)?;
        assert!(
            format!("{view:?}").contains("<uninit>"),
            "{selector} needs no JSON"
        );
    }
    let first: *const _ = view.document()?;
    view.select(&"json:/a".parse()?)?;
    assert!(std::ptr::eq(first, view.document()?));
    let text = view.select(&"json:/a".parse()?)?;
    let Some(Selected::Text(Cow::Borrowed(text))) = text else {
        panic!("{text:?}")
    };
    assert!(payload.as_ptr_range().contains(&text.as_ptr()), "no copy");
    Ok(())
}

#[test]
fn a_view_gives_back_the_memory_that_it_scanned_into() -> Result<(), Box<dyn Error>> {
    let payload = Bytes::from_static(b"[1,2,3,4]");
    let message = Message {
        payload: &payload,
        headers: &[],
        coordinates: "",
    };
    let shown = |tape: &Tape| format!("{tape:?}");
    let view = View::new(message);
    view.select(&"json:/0".parse()?)?;
    let tape = view.into_tape();
    let scanned = shown(&tape);
    assert_ne!(scanned, shown(&Tape::default()));
    // The same holds where nothing was scanned since.
    assert_eq!(shown(&View::onto(message, tape).into_tape()), scanned);
    Ok(())
}

#[test]
fn faults_name_the_selector() {
    let fault = |payload: &'static [u8], headers: &Headers, selector: &str| {
        let payload = Bytes::from_static(payload);
        let view = View::new(Message {
            payload: &payload,
            headers,
            coordinates: "",
        });
        let selector = selector.parse().expect("is a selector");
        view.select(&selector).err()
    };
    let at = |text: &str| Box::from(text);
    let twice = headers(&[("id", b"1"), ("ID", b"2"), ("same", b"1"), ("same", b"1")]);
    assert_eq!(
        fault(b"", &twice, "header:same"),
        None,
        "said twice, but the same"
    );
    for (payload, selector, expected) in [
        (&b"\xff"[..], "json:/a", "not-json"),
        (b"", "json:/a", "not-json"),
        (b"{", "cloudevents", "not-json"),
        (b"{\"a\":1,\"a\":1}", "json:/a", "member-duplicated"),
        (b"[1e1000]", "json:/0", "number-too-long"),
        (b"", "header:Id", "member-duplicated"),
    ] {
        let code = fault(payload, &twice, selector).map(|fault| fault.code());
        assert_eq!(code, Some(expected), "{selector}");
    }
    let fault = fault(b"{\"a\":1,\"a\":1}", &[], "json:/a");
    assert_eq!(
        fault,
        Some(Unusable::MemberDuplicated { at: at("json:/a") })
    );
}

#[test]
fn selectors_read_as_they_are_written() -> Result<(), Box<dyn Error>> {
    for text in [
        "json:",
        "json:/",
        "json:/a/b~1c/0",
        "header:X-Tenant",
        "header:a:b",
        "field:1",
        "field:12",
        "line",
        "coordinates",
        "cloudevents",
        "hash",
    ] {
        assert_eq!(text.parse::<Selector>()?.to_string(), text);
    }
    assert_eq!("field:007".parse::<Selector>()?.to_string(), "field:7");
    Ok(())
}

#[test]
fn a_bad_selector_is_told_what_was_probably_meant() {
    const FORMS: &str = " (a selector is json:/POINTER, header:NAME, field:N, line, coordinates, cloudevents or hash)";
    let unknown = |rest: &str| format!("unknown selector {rest}{FORMS}");
    let did_you_mean =
        |text: &str, meant: &str| unknown(&format!("{text:?}, did you mean {meant:?}?"));
    for (text, expected) in [
        ("jsn:/id", did_you_mean("jsn:/id", "json:/id")),
        ("JSON:/id", did_you_mean("JSON:/id", "json:/id")),
        ("heder:id", did_you_mean("heder:id", "header:id")),
        ("headers", did_you_mean("headers", "header:NAME")),
        ("lines", did_you_mean("lines", "line")),
        ("line:", did_you_mean("line:", "line")),
        ("cordinates", did_you_mean("cordinates", "coordinates")),
        ("cloudevent", did_you_mean("cloudevent", "cloudevents")),
        ("/id", did_you_mean("/id", "json:/id")),
        ("id", did_you_mean("id", "json:/id")),
        ("$.id", did_you_mean("$.id", "json:/id")),
        (
            ".data.pay-id",
            did_you_mean(".data.pay-id", "json:/data/pay-id"),
        ),
        ("x y", unknown("\"x y\"")),
        ("$", unknown("\"$\"")),
        ("a..b", unknown("\"a..b\"")),
        ("xyz:/id", unknown("\"xyz:/id\"")),
        ("", unknown("\"\"")),
        ("json", "this selector is written json:/POINTER".into()),
        (
            "json:id",
            "a JSON pointer begins with a slash: \"json:/id\"".into(),
        ),
        (
            "json:/~",
            "in a JSON pointer a tilde is written ~0 and a slash ~1, unlike in \"/~\"".into(),
        ),
        ("header:", "this selector is written header:NAME".into()),
        ("field:0", "this selector is written field:N, from 1".into()),
        (
            "field:-1",
            "this selector is written field:N, from 1".into(),
        ),
        (
            "field:+1",
            "this selector is written field:N, from 1".into(),
        ),
        ("field", "this selector is written field:N, from 1".into()),
        (
            "cel:msg.id",
            "cel selectors are not supported in this build".into(),
        ),
    ] {
        let error = text
            .parse::<Selector>()
            .map(|selector| selector.to_string());
        assert_eq!(
            error.map_err(|error| error.to_string()),
            Err(expected),
            "{text}"
        );
    }
    let long = "x".repeat(1 << 20);
    assert!(long.parse::<Selector>().is_err(), "and no quadratic search");
}
