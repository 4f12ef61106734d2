//! Outcomes as clients give and get them: JSON by its text, or bytes with their content type.

use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use semel_core::json::{Document, Kind};
use semel_core::{Code, Outcome};
use semel_engine::once::TYPED_JSON;
use semel_http::Problem;
use semel_http::member::{Fault, Member};
use serde::Serialize;
use serde_json::value::RawValue;

/// Reads the outcome that a completion gives; without one it is empty.
pub(crate) fn read(
    outcome: Option<Member<'_>>,
    base64: Option<Member<'_>>,
    content_type: Option<Member<'_>>,
    limit_bytes: usize,
) -> Result<Outcome, Fault> {
    match (outcome, base64, content_type) {
        (Some(_), Some(base64), _) => {
            Err(base64.fault("an outcome is given either as JSON or in base64"))
        }
        (_, None, Some(content_type)) => {
            Err(content_type.fault("a content type belongs to `outcome_base64`"))
        }
        (Some(json), None, None) => {
            let text = Bytes::from(json.json_text().into_owned());
            Ok(Outcome::raw(text, limit_bytes))
        }
        (None, Some(base64), content_type) => {
            let bytes = base64.base64()?;
            let Some(content_type) = content_type else {
                return Ok(media(UNKNOWN_TYPE, bytes, limit_bytes));
            };
            let text = content_type.text_within(Outcome::CONTENT_TYPE_BYTES)?;
            if !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
                return Err(content_type.fault("a content type is printable ASCII"));
            }
            Ok(media(&text, bytes, limit_bytes))
        }
        (None, None, None) => Ok(Outcome::empty()),
    }
}

fn media(content_type: &str, bytes: Bytes, limit_bytes: usize) -> Outcome {
    let kept = Outcome::media(content_type, bytes.clone(), limit_bytes);
    kept.unwrap_or_else(|| Outcome::raw(bytes, limit_bytes))
}

/// An outcome as members of an answer. An empty one has none.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Remembered {
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome_too_large: Option<bool>,
}

impl Remembered {
    /// Lays out an outcome, whoever recorded it: the API, a pipeline, or a program with the library.
    pub(crate) fn of(outcome: &Outcome) -> Result<Self, Problem> {
        match outcome {
            Outcome::TooLarge { .. } => Ok(Self {
                outcome_too_large: Some(true),
                ..Self::default()
            }),
            Outcome::Kept { codec: 0, bytes } => Ok(Self::raw(bytes)),
            Outcome::Kept {
                codec: TYPED_JSON,
                bytes,
            } => Self::typed(bytes).ok_or_else(unreadable),
            Outcome::Kept { .. } => {
                let (content_type, bytes) = outcome.as_media().ok_or_else(unreadable)?;
                Ok(Self::bytes(content_type, bytes))
            }
        }
    }

    /// Lays out raw bytes: as JSON if they are JSON, as a handler in another language gives it. A text that an operator
    /// gave is no JSON unless it reads as such: it goes out as bytes that say what they are.
    fn raw(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::default();
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Self::bytes(UNKNOWN_TYPE, bytes);
        };
        match json(text) {
            Some(outcome) => Self {
                outcome: Some(outcome),
                ..Self::default()
            },
            None => Self::bytes(TEXT_TYPE, bytes),
        }
    }

    /// Lays out the value of an outcome of the Rust library. One without a value could not be written.
    fn typed(bytes: &[u8]) -> Option<Self> {
        let document = Document::parse(bytes).ok()?;
        let Some(value) = document.root().member("value").ok()? else {
            return Some(Self::default());
        };
        let raw = value.raw();
        let outcome = if value.kind() == Kind::Text {
            json(&format!("\"{raw}\""))
        } else {
            json(raw)
        };
        Some(Self {
            outcome: Some(outcome?),
            ..Self::default()
        })
    }

    fn bytes(content_type: &str, bytes: &[u8]) -> Self {
        Self {
            outcome_base64: Some(STANDARD.encode(bytes)),
            content_type: Some(content_type.to_owned()),
            ..Self::default()
        }
    }
}

fn json(text: &str) -> Option<Box<RawValue>> {
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    RawValue::from_string(text.to_owned()).ok()
}

fn unreadable() -> Problem {
    let code = Code::OutcomeUnreadable.as_str();
    let detail =
        "the operation is completed, but its outcome is in a form that this version does not know";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, code, detail)
}

/// The content type of bytes of which nobody said more.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// The content type of a text that is no JSON.
const TEXT_TYPE: &str = "text/plain; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(outcome: &Outcome) -> String {
        let remembered = Remembered::of(outcome).expect("a readable outcome");
        serde_json::to_string(&remembered).expect("JSON")
    }

    #[test]
    fn an_outcome_of_another_door_is_shown_as_what_it_is() {
        let raw = |bytes: &'static [u8]| Outcome::raw(Bytes::from_static(bytes), 64);
        let typed = |text: &'static str| Outcome::Kept {
            codec: TYPED_JSON,
            bytes: Bytes::from_static(text.as_bytes()),
        };
        for (outcome, expected) in [
            (Outcome::empty(), "{}"),
            (raw(b"{\"ok\" : 1.0}\n"), r#"{"outcome":{"ok" : 1.0}}"#),
            (
                raw(b"done"),
                r#"{"outcome_base64":"ZG9uZQ==","content_type":"text/plain; charset=utf-8"}"#,
            ),
            (
                raw(b"\xff"),
                r#"{"outcome_base64":"/w==","content_type":"application/octet-stream"}"#,
            ),
            (
                typed(r#"{"type":"charge","version":1,"value":{"cents":1.50}}"#),
                r#"{"outcome":{"cents":1.50}}"#,
            ),
            (
                typed(r#"{"type":"string","version":1,"value":"a\"b"}"#),
                r#"{"outcome":"a\"b"}"#,
            ),
            (typed(r#"{"type":"charge","version":1}"#), "{}"),
            (
                Outcome::raw(Bytes::from_static(b"12345"), 4),
                r#"{"outcome_too_large":true}"#,
            ),
        ] {
            assert_eq!(shown(&outcome), expected);
        }
    }

    #[test]
    fn an_unknown_codec_is_refused_and_not_taken_for_none() {
        for codec in [1, Outcome::MEDIA_CODEC, 3, u16::MAX] {
            let bytes = Bytes::from_static(b"\x09");
            let problem = Remembered::of(&Outcome::Kept { codec, bytes }).expect_err("unreadable");
            assert_eq!(problem.code(), "outcome-unreadable");
        }
    }
}
