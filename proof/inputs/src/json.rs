//! The JSON canonicaliser beside `serde_json`.

use std::borrow::Cow;

use semel_core::json::{Document, Fault, Kind, Node};
use serde_json::{Number, Value};

use super::Fate;

/// Checks that both accept the same texts, and that the canonical form has the same value and is
/// its own canonical form.
pub(crate) fn check(data: &[u8]) -> Result<Fate, String> {
    let theirs: Result<Value, _> = serde_json::from_slice(data);
    let document = match (Document::parse(data), &theirs) {
        (Ok(document), _) => document,
        (Err(why), Ok(_)) if why.fault == Fault::TooDeep => return Ok(Fate::Refused),
        (Err(why), Ok(value)) => return Err(format!("{why}, but it is {value}")),
        (Err(why), Err(_)) if why.offset <= data.len() => return Ok(Fate::Refused),
        (Err(why), Err(_)) => return Err(format!("{why}, beyond the end")),
    };
    match &theirs {
        Ok(_) => {}
        // Some numbers are valid JSON and yet too large for a double.
        Err(why) if why.to_string().starts_with("number out of range") => {}
        // Semel accepts one level more.
        Err(why) if why.to_string().starts_with("recursion limit") => {}
        Err(why) => return Err(format!("taken, but {why}")),
    }
    walk(document.root());
    let mut canonical = Vec::new();
    if let Err(why) = document.root().canonical(&mut canonical) {
        return match why.fault {
            Fault::DuplicateMember | Fault::NumberTooLong => Ok(Fate::Refused),
            _ => Err(format!("{why}, found late")),
        };
    }
    let again = Document::parse(&canonical).map_err(|why| format!("canonical, but {why}"))?;
    let mut twice = Vec::new();
    again
        .root()
        .canonical(&mut twice)
        .map_err(|why| format!("canonical, but {why}"))?;
    if twice != canonical {
        return Err("the canonical form is not its own".to_owned());
    }
    if let Ok(theirs) = theirs {
        let ours: Value = serde_json::from_slice(&canonical).map_err(|why| why.to_string())?;
        if !same(&ours, &theirs) {
            return Err(format!("{ours} is not {theirs}"));
        }
        // Written by another program, in another order and with other escapes, it is the same
        // value.
        if is_exact(&theirs) && canonical_of(theirs.to_string().as_bytes()) != Some(canonical) {
            return Err(format!("another canonical form for {theirs}"));
        }
    }
    Ok(Fate::Accepted)
}

fn canonical_of(text: &[u8]) -> Option<Vec<u8>> {
    let document = Document::parse(text).ok()?;
    let mut canonical = Vec::new();
    document.root().canonical(&mut canonical).ok()?;
    Some(canonical)
}

/// Returns whether `serde_json` keeps every digit of it.
fn is_exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_i64() || number.is_u64(),
        Value::Array(values) => values.iter().all(is_exact),
        Value::Object(members) => members.values().all(is_exact),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// Calls every method on every value.
fn walk(node: Node<'_>) {
    let text: Cow<'_, str> = node.text();
    debug_assert!(node.kind() == Kind::Text || text == node.raw());
    node.children().for_each(walk);
}

/// Returns whether the values are the same, where a double may have lost the last digits of a
/// number.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => same_number(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, one)| other.get(name).is_some_and(|other| same(one, other)))
        }
        _ => one == other,
    }
}

fn same_number(one: &Number, other: &Number) -> bool {
    if let (Some(one), Some(other)) = (one.as_i128(), other.as_i128()) {
        return one == other;
    }
    let (Some(one), Some(other)) = (one.as_f64(), other.as_f64()) else {
        return false;
    };
    // Below the least normal double, digits go missing one by one.
    (one - other).abs() <= one.abs().max(other.abs()) * 1e-15 + 1e-300
}

pub(crate) const WORDS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"\"",
    b"\"a\"",
    b"0",
    b"-0",
    b"-",
    b"1.0",
    b"1.",
    b".5",
    b"01",
    b"1e1",
    b"1E+2",
    b"1e-3",
    b"1e400",
    b"1e1000",
    b"-1e-999",
    b"18446744073709551615",
    b"18446744073709551616",
    b"true",
    b"false",
    b"null",
    b"NaN",
    b"\\u0000",
    b"\\ud83d",
    b"\\ude00",
    b"\\ud83d\\ude00",
    b"\\n",
    b"\\/",
    b"\\",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xc0\x80",
    b"\x1f",
    "é".as_bytes(),
    b"\n",
    b"\r",
    b"\t",
    b" ",
    b"\"a\":1,\"a\":2",
    b"\"a\":1,\"\\u0061\":2",
];
