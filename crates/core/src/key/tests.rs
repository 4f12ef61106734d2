mod injective;

use super::*;

use std::cmp::Ordering;
use std::error::Error;

use crate::select::{Message, Selector, View};

/// The text of the key that `selectors` (one to a line) find in a message, or the code of the fault.
fn key(payload: &[u8], selectors: &str) -> Result<String, &'static str> {
    key_of(payload, selectors)
        .map(|key| key.to_string())
        .map_err(|unusable| unusable.code())
}

fn key_of(payload: &[u8], selectors: &str) -> Result<Key, Unusable> {
    let payload = Bytes::copy_from_slice(payload);
    let headers = [
        ("id".into(), Bytes::from_static(b"h-1")),
        ("raw".into(), Bytes::from_static(b"\xff")),
        ("blank".into(), Bytes::from_static(b" \t")),
    ];
    let view = View::new(Message {
        payload: &payload,
        headers: &headers,
        coordinates: "t/0/5",
    });
    selector(selectors).key(&view)
}

fn selector(lines: &str) -> KeySelector {
    let selectors: Result<Vec<Selector>, _> = lines.lines().map(str::parse).collect();
    selectors
        .and_then(KeySelector::try_from)
        .expect("are selectors")
}

#[test]
fn keys_keep_their_type() {
    for (payload, selector, expected) in [
        (r#"{"k":"pay-1"}"#, "json:/k", "pay-1"),
        (r#"{"k":"\u0070ay-1"}"#, "json:/k", "pay-1"),
        (r#"{"k":"1"}"#, "json:/k", "1"),
        (r#"{"k":1}"#, "json:/k", "json:1"),
        (r#"{"k":1.0}"#, "json:/k", "json:1"),
        (r#"{"k":-0.0}"#, "json:/k", "json:0"),
        (
            r#"{"k":9007199254740993}"#,
            "json:/k",
            "json:9007199254740993",
        ),
        (r#"{"k":"json:1"}"#, "json:/k", r#"json:"json:1""#),
        (r#"{"k":"json:\"é"}"#, "json:/k", r#"json:"json:\"é""#),
        (r#"{"k":" padded "}"#, "json:/k", " padded "),
        (
            r#"{"k":"a","n":10e-1}"#,
            "json:/k\njson:/n",
            r#"json:["a",1]"#,
        ),
        (
            r#"{"k":"a,b","n":"]"}"#,
            "json:/k\njson:/n\nheader:id",
            r#"json:["a,b","]","h-1"]"#,
        ),
        (
            r#"{"source":"/s","id":"7"}"#,
            "cloudevents",
            r#"json:["/s","7"]"#,
        ),
        (
            r#"{"source":"/s","id":"7"}"#,
            "cloudevents\nfield:1\ncoordinates",
            r#"json:[["/s","7"],"{\"source\":\"/s\",\"id\":\"7\"}","t/0/5"]"#,
        ),
        ("x", "header:id", "h-1"),
        ("x", "coordinates", "t/0/5"),
        ("a\tb", "field:2", "b"),
        (
            "",
            "hash",
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
        ),
    ] {
        assert_eq!(
            key(payload.as_bytes(), selector).as_deref(),
            Ok(expected),
            "{payload}"
        );
    }
}

#[test]
fn a_line_may_be_any_text() {
    for text in ["", " ", "\t", "a\u{0}b", "x\r", "1", "{\"a\":1}"] {
        assert_eq!(key(text.as_bytes(), "line").as_deref(), Ok(text));
    }
    assert_eq!(key(b"json:1", "line").as_deref(), Ok(r#"json:"json:1""#));
    assert_eq!(key(b"json:", "line").as_deref(), Ok(r#"json:"json:""#));
    let longest = "x".repeat(255);
    assert_eq!(key(longest.as_bytes(), "line"), Ok(longest.clone()));
    for payload in [format!("{longest}x").as_bytes(), b"\xff"] {
        let hash = format!(r#"{{"blake3":"{}"}}"#, blake3::hash(payload).to_hex());
        assert_eq!(key(payload, "line"), Ok(format!("json:{hash}")));
        assert_eq!(
            key(payload, "line\nheader:id"),
            Ok(format!("json:[{hash},\"h-1\"]"))
        );
    }
    let escaped = format!("json:{}", "\u{1}".repeat(250));
    assert!(key(escaped.as_bytes(), "line").is_ok_and(|text| text.len() > Key::MAX_BYTES));
}

#[test]
fn what_cannot_be_a_key_says_why() {
    let long = |length| format!(r#"{{"k":"{}"}}"#, "x".repeat(length));
    assert_eq!(
        key(long(1_024).as_bytes(), "json:/k").map(|key| key.len()),
        Ok(1_024)
    );
    assert_eq!(key(long(1_025).as_bytes(), "json:/k"), Err("key-too-long"));
    assert_eq!(
        key(long(1_024).as_bytes(), "json:/k\nheader:id"),
        Err("key-too-long")
    );
    let deep = [vec![b'['; 129], vec![b']'; 129]].concat();
    assert_eq!(key(&deep, "json:/0"), Err("nested-too-deep"));
    for (payload, selector, expected) in [
        ("", "json:/k", "not-json"),
        ("{", "json:/k", "not-json"),
        ("{}", "json:/k", "key-missing"),
        ("{}", "header:none", "key-missing"),
        ("{}", "field:2", "key-missing"),
        (r#"{"k":null}"#, "json:/k", "key-null"),
        (r#"{"k":false}"#, "json:/k", "key-not-scalar"),
        (r#"{"k":["a"]}"#, "json:/k", "key-not-scalar"),
        (r#"{"k":{"a":1,"a":1}}"#, "json:/k", "key-not-scalar"),
        ("{}", "header:raw", "key-not-scalar"),
        ("{}", "header:blank", "key-blank"),
        (r#"{"k":""}"#, "json:/k", "key-blank"),
        (r#"{"k":" \t\u00a0\u3000"}"#, "json:/k", "key-blank"),
        (r#"{"k":"a\nb"}"#, "json:/k", "key-control-character"),
        (r#"{"k":"a\u0000"}"#, "json:/k", "key-control-character"),
        ("{\"k\":\"a\u{7f}\"}", "json:/k", "key-control-character"),
        ("{\"k\":\"a\u{85}b\"}", "json:/k", "key-control-character"),
        (r#"{"k":1,"k":1}"#, "json:/k", "member-duplicated"),
        (r#"{"k":1e1000}"#, "json:/k", "number-too-long"),
        (r#"{"k":"a"}"#, "json:/k\njson:/n", "key-missing"),
        (r#"{"k":"a","n":""}"#, "json:/k\njson:/n", "key-blank"),
        (r#"{"source":" ","id":"1"}"#, "cloudevents", "key-blank"),
    ] {
        assert_eq!(
            key(payload.as_bytes(), selector),
            Err(expected),
            "{payload}"
        );
    }
    assert_eq!(key(b"{\"k\":\"\xff\"}", "json:/k"), Err("not-json"));
    let unusable = key_of(b"{\"a\":\"x\",\"b\":true}", "json:/a\njson:/b").expect_err("is no key");
    assert_eq!(
        unusable.to_string(),
        "json:/b is a boolean, neither a string nor a number"
    );
}

#[test]
fn a_key_selector_shows_as_it_was_written() -> Result<(), Box<dyn Error>> {
    let one: KeySelector = "json:/a".parse()?;
    assert_eq!(one.to_string(), "json:/a");
    let two = KeySelector::try_from(vec!["json:/a".parse()?, "header:b".parse()?])?;
    assert_eq!(two.to_string(), "json:/a + header:b");
    Ok(())
}

#[test]
fn what_was_kept_of_a_key_is_one_again() {
    let kept = Bytes::from_static(b"json:7");
    assert_eq!(Key::from_canonical(kept), Some(Key::from(7)));
    assert_eq!(Key::from_canonical(Bytes::from_static(b"\xff")), None);
}

#[test]
fn a_key_shares_the_memory_of_its_message() -> Result<(), Box<dyn Error>> {
    let payload = Bytes::from_static(br#"{"k":"pay-1"}"#);
    let view = View::new(Message {
        payload: &payload,
        headers: &[],
        coordinates: "pay-1",
    });
    let shared = selector("json:/k").key(&view)?;
    assert!(payload.as_ptr_range().contains(&shared.as_bytes().as_ptr()));
    let line = KeySelector::line().key(&view)?;
    assert_eq!(line.as_bytes().as_ptr(), payload.as_ptr());
    assert_eq!(selector("coordinates").key(&view)?, shared);
    assert_ne!(
        shared.detached().as_bytes().as_ptr(),
        shared.as_bytes().as_ptr()
    );
    assert_eq!(shared.detached(), shared);
    let whole = line.into_bytes();
    assert_eq!(
        (whole.as_ptr(), whole.len()),
        (payload.as_ptr(), payload.len())
    );
    Ok(())
}

#[test]
fn typed_keys_are_read_as_they_are_shown() {
    for (typed, expected) in [
        ("pay-1", "pay-1"),
        ("", ""),
        (" x ", " x "),
        ("json:1.0", "json:1"),
        ("json: 1 ", "json:1"),
        (r#"json:"pay-1""#, "pay-1"),
        (r#"json:"json:1""#, r#"json:"json:1""#),
        (r#"json: ["a" , 1e1]"#, r#"json:["a",10]"#),
        (r#"json:[["s","i"],"x"]"#, r#"json:[["s","i"],"x"]"#),
    ] {
        assert_eq!(
            Key::parse(typed).map(|key| key.to_string()).as_deref(),
            Ok(expected),
            "{typed}"
        );
    }
    let digest = format!("json:{{\"blake3\":\"{}\"}}", "0f".repeat(32));
    assert_eq!(
        Key::parse(&digest).map(|key| key.to_string()),
        Ok(digest.clone())
    );
    for typed in [
        "json:null",
        "json:true",
        "json:[]",
        "json:{}",
        "json:[null]",
        "json:{\"a\":1}",
    ] {
        assert_eq!(Key::parse(typed), Err(InvalidKey::NotAKey), "{typed}");
    }
    assert_eq!(
        Key::parse(&digest.replace("0f", "0F")),
        Err(InvalidKey::NotAKey)
    );
    // As long as a digest, and each digit is one.
    let number = format!("json:{{\"blake3\":1e{}5}}", "0".repeat(61));
    assert_eq!(Key::parse(&number), Err(InvalidKey::NotAKey));
    for typed in ["json:", "json:x", "json:01", "json:1e1000"] {
        assert!(
            matches!(Key::parse(typed), Err(InvalidKey::NotJson(_))),
            "{typed}"
        );
    }
}

#[test]
fn a_selector_of_keys_shows_its_parts_in_order() {
    let both = selector("json:/a\nheader:b");
    let parts: Vec<String> = both.selectors().iter().map(ToString::to_string).collect();
    assert_eq!(parts, ["json:/a", "header:b"]);
}

#[test]
fn what_is_no_key_says_what_one_is() {
    let said = |typed| Key::parse(typed).map_err(|error| error.to_string());
    let words = "a typed key is json: and a string, a number or a list";
    assert_eq!(said("json:true"), Err(words.to_owned()));
    let not_json = said("json:{").expect_err("it is no JSON");
    assert!(
        not_json.starts_with("what follows json: is not JSON ("),
        "{not_json}"
    );
}

#[test]
fn keys_of_a_program_are_strings_or_numbers() -> Result<(), Box<dyn Error>> {
    assert_eq!(Key::new("json:1")?.as_str(), r#"json:"json:1""#);
    assert_eq!(Key::from(u64::MAX).as_str(), "json:18446744073709551615");
    assert_eq!(Key::new(&"x".repeat(1_024))?.as_str().len(), 1_024);
    for (text, code) in [
        (Bytes::from("x".repeat(1_025)), "key-too-long"),
        (
            Bytes::from(format!("json:{}", "x".repeat(1_019))),
            "key-too-long",
        ),
        (Bytes::from_static(b" "), "key-blank"),
        (Bytes::from_static(b"a\0"), "key-control-character"),
        (Bytes::from_static(b"\xff"), "key-not-scalar"),
    ] {
        assert_eq!(
            Key::shared(text).map_err(|unusable| unusable.code()),
            Err(code)
        );
    }
    assert_eq!(Key::from_canonical(Bytes::from_static(b"\xff")), None);
    Ok(())
}

#[test]
fn every_reason_is_stored_and_restored() {
    let at = || Box::from("json:/a: b\n\u{1b}[2J\u{202e}\"é\" + field:2");
    let json = |fault| Unusable::NotJson(crate::json::JsonError { fault, offset: 7 });
    let mut reasons = vec![
        Unusable::KeyMissing { at: at() },
        Unusable::KeyNull { at: at() },
        Unusable::KeyBlank { at: at() },
        Unusable::KeyTooLong { at: at() },
        Unusable::KeyControlCharacter { at: at() },
        Unusable::MemberDuplicated { at: at() },
        Unusable::NumberTooLong { at: at() },
        Unusable::NestedTooDeep,
        Unusable::MessageTooLarge {
            size_bytes: 9,
            limit_bytes: 8,
        },
        Unusable::BirthMissing { at: at() },
        Unusable::BirthInvalid { at: at() },
        Unusable::EntityMissing { at: at() },
        Unusable::VersionInvalid { at: at() },
        Unusable::TenantMissing { at: at() },
        Unusable::ProducerMissing { at: at() },
        Unusable::ProducerFenced { at: at() },
        Unusable::ProducerUnknown { at: at() },
        Unusable::SequenceGap { at: at() },
    ];
    reasons.extend(crate::json::Fault::ALL.map(json));
    reasons.extend(Selected::NOUNS.map(|found| Unusable::KeyNotScalar { at: at(), found }));
    let mut codes: Vec<_> = reasons.iter().map(Unusable::code).collect();
    for reason in reasons {
        assert_eq!(
            Unusable::restore(reason.code(), &reason.detail()),
            Some(reason.clone())
        );
        let line = reason.to_string();
        assert!(
            line.starts_with(char::is_lowercase) && !line.ends_with('.'),
            "{line}"
        );
        let hidden = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!line.contains(hidden), "{line:?}");
        assert!(
            !line.contains("json:/a") || line.contains(r#"json:/a: b\n\u{1b}[2J\u{202e}"é" + "#),
            "{line}"
        );
    }
    codes.sort_unstable();
    codes.dedup();
    let mut known = Unusable::CODES;
    known.sort_unstable();
    assert_eq!(codes, known, "each code is somebody's");
    assert_eq!(Unusable::restore("too-old", ""), None);
    assert_eq!(Unusable::restore("not-json", "x"), None);
}

#[test]
fn scopes_are_checked() {
    let longest = "é".repeat(127) + "x";
    assert!(Scope::new(&longest, &longest).is_ok());
    assert_eq!(Scope::new("", "").err(), Some(InvalidScope::OperationEmpty));
    let long = longest.clone() + "x";
    assert_eq!(
        Scope::new(&long, "a").err(),
        Some(InvalidScope::TooLong { part: "tenant" })
    );
    assert_eq!(
        Scope::new("", &long).err(),
        Some(InvalidScope::TooLong { part: "operation" })
    );
    let control = InvalidScope::ControlCharacter { part: "operation" };
    assert_eq!(Scope::new("", "a\n").err(), Some(control));
}

#[test]
fn a_scope_in_memory_of_its_own_is_the_same() -> Result<(), Box<dyn Error>> {
    let scope = Scope::new("acme", "payments")?;
    let detached = scope.detached();
    assert_eq!((&detached, detached.cmp(&scope)), (&scope, Ordering::Equal));
    assert_ne!(scope.tenant().as_ptr(), detached.tenant().as_ptr());
    let key = Key::parse("pay-1")?;
    assert_eq!(OpId::of(&detached, &key), OpId::of(&scope, &key));
    Ok(())
}

#[test]
fn an_operation_id_never_changes() -> Result<(), Box<dyn Error>> {
    let id = OpId::of(&Scope::new("acme", "payments")?, &Key::parse("pay-1")?);
    let hex = "34c9b6bb96444560113ab55481ba0ce98765d5c81b23737bcf34c2007e40c910";
    assert_eq!(id.to_string(), hex, "this is a stored format");
    // Lengths around those at which the code takes another path to the same result.
    for len in [1, 60, 64, 215, 216, 217, 218, 1_023, 1_024, 5_000] {
        let key = "k".repeat(len);
        let mut prefixed = Vec::new();
        for part in ["acme", "payments", &key] {
            prefixed.extend_from_slice(&(part.len() as u64).to_le_bytes());
            prefixed.extend_from_slice(part.as_bytes());
        }
        let derived = blake3::derive_key("semel 2026-11-21 operation id v1", &prefixed);
        let id = OpId::of(&Scope::new("acme", "payments")?, &Key::parse(&key)?);
        assert_eq!(*id.as_bytes(), derived, "{len}");
    }
    assert_eq!(hex.parse::<OpId>()?, id);
    assert_eq!(OpId::from_bytes(*id.as_bytes()), id);
    assert_eq!("xyz".parse::<OpId>(), Err(InvalidOpId));
    Ok(())
}
