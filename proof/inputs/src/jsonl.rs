//! The lines between Semel and a child that speaks jsonl.

use std::num::NonZeroU32;

use bytes::Bytes;
use semel_core::json::Tape;
use semel_core::{Claim, ClaimId, FencingToken, Key, Operation, Scope, Timestamp};
use semel_engine::effect::{Call, Verdict};
use semel_worker::effect::jsonl::frame;
use serde_json::Value;

use super::Fate;
use super::selectors::refusal;

/// Checks that an accepted answer says what JSON says.
pub(crate) fn check_answer(data: &[u8]) -> Result<Fate, String> {
    let answer = match frame::answer(data, &mut Tape::default()) {
        Ok(answer) => answer,
        Err(why) => return refusal(&why),
    };
    let value: Value = match serde_json::from_slice(data) {
        Ok(value) => value,
        // Some numbers are valid JSON and yet too large for a double.
        Err(why) if why.to_string().starts_with("number out of range") => {
            return Ok(Fate::Accepted);
        }
        Err(why) => return Err(format!("taken, but {why}")),
    };
    if value["id"].as_u64() != Some(answer.id) {
        return Err(format!("{} is not the id of {value}", answer.id));
    }
    let (status, said) = match &answer.verdict {
        Verdict::Done(result) => {
            let result = match &**result {
                b"" => None,
                result => serde_json::from_slice(result).map_err(|why| format!("result: {why}"))?,
            };
            if result.as_ref() != value.get("result").filter(|value| !value.is_null()) {
                return Err(format!("{result:?} is not the result of {value}"));
            }
            ("done", "")
        }
        Verdict::NotApplied { error, .. } => ("retry", &**error),
        Verdict::Dead { error, .. } => ("dead", &**error),
        Verdict::MaybeApplied { error } => ("unknown", &**error),
        Verdict::DoneUnkept { .. } => return Err("a result that is not kept".to_owned()),
        Verdict::Away { .. } | Verdict::Broken { .. } => {
            return Err("a child that answers is not away".to_owned());
        }
    };
    if value["status"].as_str() != Some(status) || said.chars().any(char::is_control) {
        return Err(format!("{:?} of {value}", answer.verdict));
    }
    Ok(Fate::Accepted)
}

/// Checks that any payload goes to the child in one line, and can be read back from it.
pub(crate) fn check_request(data: &[u8]) -> Result<Fate, String> {
    let name = Scope::new("", "pay\"ments").map_err(|why| why.to_string())?;
    let claim = Claim {
        operation: Operation::new(name, Key::from(1)),
        claim_id: ClaimId::from_u128(1),
        token: FencingToken::new(7),
        lease_until: Timestamp::EPOCH,
        attempt: NonZeroU32::MIN.get(),
        takeover: false,
        resumed: false,
        formerly_expired: false,
        possible_repeat: false,
        first_started_at: None,
    };
    let call = Call {
        claim,
        payload: Bytes::copy_from_slice(data),
        headers: Vec::new(),
        coordinates: String::from_utf8_lossy(data).into_owned().into(),
        span: None,
    };
    let line = frame::request(5, &call);
    let Some(body) = line.strip_suffix(b"\n") else {
        return Err("a line without an end".to_owned());
    };
    if body.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return Err("more than one line".to_owned());
    }
    let value: Value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(why) if why.to_string().starts_with("number out of range") => {
            return Ok(Fate::Accepted);
        }
        // The payload may be as deep as Semel reads, and is one level deeper here.
        Err(why) if why.to_string().starts_with("recursion limit") => return Ok(Fate::Accepted),
        Err(why) => return Err(format!("a request that is no JSON: {why}")),
    };
    if value["coordinates"].as_str() != Some(&*call.coordinates) {
        return Err(format!("other coordinates: {value}"));
    }
    if let Some(text) = value.get("payload_base64").and_then(Value::as_str) {
        return if unbase64(text).as_deref() == Some(data) {
            Ok(Fate::Refused)
        } else {
            Err(format!("another payload: {text}"))
        };
    }
    let payload: Value = serde_json::from_slice(data).map_err(|why| why.to_string())?;
    match value.get("payload") {
        Some(sent) if *sent == payload => Ok(Fate::Accepted),
        sent => Err(format!("{sent:?} is not {payload}")),
    }
}

fn unbase64(text: &str) -> Option<Vec<u8>> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let value = DIGITS.iter().position(|known| *known == digit)?;
        bits = (bits << 6 | u32::try_from(value).ok()?) & 0xFFFF;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xFF).ok()?);
        }
    }
    Some(bytes)
}

pub(crate) const WORDS: &[&[u8]] = &[
    b"\"id\":3",
    b"\"id\":3.0",
    b"\"id\":18446744073709551615",
    b"\"id\":18446744073709551616",
    b"\"id\":-0",
    b"\"status\":\"done\"",
    b"\"status\":\"retry\"",
    b"\"status\":\"dead\"",
    b"\"status\":\"unknown\"",
    b"\"\\u0073tatus\":\"done\"",
    b"\"result\":",
    b"\"result\":null",
    b"\"result\":\"a\\\"b\"",
    b"\"error\":",
    b"\"error\":\"a\\nb\"",
    b"\"error\":null",
    b"\"retry_after\":\"5s\"",
    b"\"retry_after\":\"5\\u001b\"",
    b",",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"\\\\\"",
    b"\\u202e",
    b" ",
    b"\n",
    b"\r",
    b"\xff",
    b"1e400",
];
