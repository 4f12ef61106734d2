//! A whole message that was set aside: the model of `semel dead-letters show` and `semel quarantine show`.

use std::borrow::Cow;

use semel_core::Key;
use semel_core::json::Mask;
use semel_worker::replay::Kind;
use serde::{Deserialize, Serialize};

use super::Found;
use crate::value::{Base64, Time, tenant, text_or_base64};

/// All of a message that was set aside; in JSON an object whose members are stable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WholeMessage<'a> {
    /// Its id.
    pub id: String,
    /// The key, if it is known.
    pub key: Option<Cow<'a, str>>,
    /// The id of the operation, if its key is known.
    pub operation_id: Option<String>,
    /// The pipeline.
    pub pipeline: Cow<'a, str>,
    /// The tenant; none where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Cow<'a, str>>,
    /// The state of the record, or that the message is in quarantine.
    pub state: Cow<'static, str>,
    /// The reason for which it was set aside.
    pub reason: Cow<'a, str>,
    /// The time since which it is kept.
    pub since: Time,
    /// The last error of a dead letter.
    #[serde(rename = "error", skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'a, str>>,
    /// The details of the reason, of any other message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Cow<'a, str>>,
    /// The place in the source where it was read.
    pub coordinates: Cow<'a, str>,
    /// The id that the transport gave it, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<Cow<'a, str>>,
    /// The same, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport_base64: Option<Base64<'a>>,
    /// The headers.
    pub headers: Vec<Header<'a>>,
    /// The size of the payload.
    pub size_bytes: usize,
    /// The payload, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Cow<'a, str>>,
    /// The same, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<Base64<'a>>,
    /// The reason why the payload is not here, or not all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
}

/// A header of a message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Header<'a> {
    /// The name.
    pub name: Cow<'a, str>,
    /// The value, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Cow<'a, str>>,
    /// The same, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<Base64<'a>>,
}

impl<'a> WholeMessage<'a> {
    /// Lays out a message of this kind.
    pub fn of(found: &'a Found, kind: Kind) -> Self {
        let message = &found.message;
        let (payload, payload_base64) = text_or_base64(&message.payload);
        let transport = message.transport.as_deref().map(text_or_base64);
        let (transport, transport_base64) = transport.unwrap_or_default();
        let headers = message.headers.iter().map(|(name, value)| {
            let (value, value_base64) = text_or_base64(value);
            Header {
                name: (&**name).into(),
                value: value.map(Cow::Borrowed),
                value_base64,
            }
        });
        let is_dead = kind == Kind::DeadLetters;
        let detail = Some(&*message.detail);
        Self {
            id: message.id().to_string(),
            key: message.key.as_ref().map(Key::as_str).map(Into::into),
            operation_id: found.operation().map(|it| it.id().to_string()),
            pipeline: message.scope.operation().into(),
            tenant: tenant(&message.scope).map(Into::into),
            state: found.standing(kind).into(),
            reason: (&*message.reason).into(),
            since: Time(message.since),
            error: detail.filter(|_| is_dead).map(Into::into),
            detail: detail.filter(|_| !is_dead).map(Into::into),
            coordinates: (&*message.coordinates).into(),
            transport: transport.map(Into::into),
            transport_base64,
            headers: headers.collect(),
            size_bytes: message.payload.len(),
            payload: payload.map(Cow::Borrowed),
            payload_base64,
            withheld: None,
        }
    }

    /// Returns the payload; nothing where it is withheld.
    pub fn payload(&self) -> Option<&[u8]> {
        either(self.payload.as_deref(), self.payload_base64.as_ref())
    }

    /// Returns the id that the transport gave it.
    pub fn transport(&self) -> Option<&[u8]> {
        either(self.transport.as_deref(), self.transport_base64.as_ref())
    }

    /// Leaves out the payload and the values of the headers, which not everybody may see.
    #[must_use]
    pub fn without_payload(mut self) -> Self {
        (self.payload, self.payload_base64) = (None, None);
        withhold_values(&mut self.headers);
        self.withheld = Some(Withheld::Role);
        self
    }

    /// Hides members of the payload, and the values of headers of such a name. Where members cannot be told, the whole
    /// payload is left out.
    #[must_use]
    pub fn masked(mut self, mask: &Mask) -> Self {
        if mask.is_empty() {
            return self;
        }
        mask_values(&mut self.headers, mask);
        let (shown, withheld) = masked(self.payload.take(), self.size_bytes as u64, mask);
        (self.payload, self.payload_base64) = (shown, None);
        self.withheld = self.withheld.or(withheld);
        self
    }
}

/// Leaves out the values of headers.
pub(crate) fn withhold_values(headers: &mut [Header<'_>]) {
    for header in headers {
        (header.value, header.value_base64) = (None, None);
    }
}

/// Hides the values of headers of a name that the mask has.
pub(crate) fn mask_values(headers: &mut [Header<'_>], mask: &Mask) {
    for header in headers {
        if mask.has_name(&header.name) {
            (header.value, header.value_base64) = (Some(HIDDEN.into()), None);
        }
    }
}

impl Header<'_> {
    /// Returns the value; nothing where it is withheld.
    pub fn value(&self) -> Option<&[u8]> {
        either(self.value.as_deref(), self.value_base64.as_ref())
    }
}

/// The bytes of what is text or base64.
pub(crate) fn either<'a>(
    text: Option<&'a str>,
    base64: Option<&'a Base64<'_>>,
) -> Option<&'a [u8]> {
    text.map(str::as_bytes).or(base64.map(|it| &*it.0))
}

/// The reason why a payload is not shown, or not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Withheld {
    /// The caller's role does not see payloads.
    Role,
    /// Members are hidden.
    Members,
    /// Members are to be hidden, and it is no JSON, in which they could be told.
    NoJson,
}

/// Hides members of a text of so many bytes, or nothing of one without.
pub(crate) fn masked<'a>(
    text: Option<Cow<'a, str>>,
    len_bytes: u64,
    mask: &Mask,
) -> (Option<Cow<'a, str>>, Option<Withheld>) {
    let unshown = Some(Withheld::NoJson).filter(|_| len_bytes > 0);
    let Some(text) = text else {
        return (None, unshown);
    };
    match mask.apply(&text) {
        None => (None, unshown),
        Some(Cow::Borrowed(_)) => (Some(text), None),
        Some(Cow::Owned(shown)) => (Some(shown.into()), Some(Withheld::Members)),
    }
}

/// Hides members of the body of an HTTP message, and the headers of such a name.
pub(crate) fn masked_http(text: &str, mask: &Mask) -> (Option<String>, Option<Withheld>) {
    let unshown = (None, Some(Withheld::NoJson));
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return unshown;
    };
    let Some(body) = Some(body)
        .filter(|it| it.is_empty())
        .map(Cow::Borrowed)
        .or_else(|| mask.apply(body))
    else {
        return unshown;
    };
    let mut withheld = Some(Withheld::Members).filter(|_| matches!(body, Cow::Owned(_)));
    let mut shown = String::with_capacity(text.len());
    for line in head.split("\r\n") {
        match line.split_once(':') {
            Some((name, _)) if mask.has_name(name) => {
                shown.extend([name, ": ", HIDDEN]);
                withheld = Some(Withheld::Members);
            }
            Some(_) | None => shown.push_str(line),
        }
        shown.push_str("\r\n");
    }
    shown.push_str("\r\n");
    shown.push_str(&body);
    (Some(shown), withheld)
}

/// The value of a hidden header.
const HIDDEN: &str = "***";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn shows(text: &str, expected: Option<&str>, withheld: Option<Withheld>) {
        let mask = ["iban", "set-cookie"].map(|it| it.parse().expect("a member"));
        let (shown, why) = masked_http(text, &mask.into_iter().collect());
        assert_eq!((shown.as_deref(), why), (expected, withheld), "{text}");
    }

    #[test]
    fn of_an_answer_the_body_and_headers_are_masked() {
        let answer = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\nSet-Cookie: a=b\r\n\r\n{\"iban\":1}";
        let shown = "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\nSet-Cookie: ***\r\n\r\n{\"iban\":\"***\"}";
        shows(answer, Some(shown), Some(Withheld::Members));
        let empty = "HTTP/1.1 204 No Content\r\n\r\n";
        shows(empty, Some(empty), None);
        let open = "HTTP/1.1 200 OK\r\netag: 1\r\n\r\n{\"a\":1}";
        shows(open, Some(open), None);
    }

    #[test]
    fn an_answer_in_which_no_member_can_be_told_is_not_shown() {
        for text in ["HTTP/1.1 200 OK\r\n\r\niban=1", "{\"iban\":1}", ""] {
            shows(text, None, Some(Withheld::NoJson));
        }
    }
}
