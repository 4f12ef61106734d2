//! The tenant of a message, as its payload or headers state it: a part of the identity of its operation.

use std::borrow::Cow;

use crate::key::{Scope, Unusable};
use crate::select::{Selected, Selector, View};

/// The tenant that `selector` finds.
///
/// # Shape
/// Text is itself, byte for byte; a number is its canonical decimal spelling, so that `42`, `42.0` and `"42"` are
/// one tenant. Any text that [`Scope`] takes and that is not blank
///
/// # Errors
/// `tenant-missing`, whatever is wrong: the message says nothing, or nothing that can be a tenant.
pub fn of<'v>(view: &'v View<'_>, selector: &Selector) -> Result<Cow<'v, str>, Unusable> {
    let found = match view.select(selector) {
        Ok(Some(Selected::Text(text) | Selected::Number(text))) if is_tenant(&text) => Some(text),
        Ok(_) | Err(_) => None,
    };
    found.ok_or_else(|| Unusable::TenantMissing {
        at: selector.to_string().into(),
    })
}

/// Returns whether a selector can find a tenant: not one whose value tells messages apart, so that each would be a
/// tenant of its own.
pub const fn can_select(selector: &Selector) -> bool {
    match selector {
        Selector::Json(_) | Selector::Header(_) | Selector::Field(_) => true,
        Selector::Line | Selector::Coordinates | Selector::CloudEvents | Selector::Hash => false,
    }
}

/// Returns whether a text can be the tenant of a message.
fn is_tenant(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= Scope::MAX_BYTES && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use bytestring::ByteString;

    use super::*;
    use crate::select::Message;

    /// Returns the tenant of a message with this payload, and this header `X-Tenant`.
    fn tenant(selector: &str, payload: &str, header: &'static [u8]) -> Option<String> {
        let payload = Bytes::copy_from_slice(payload.as_bytes());
        let headers = [(ByteString::from("X-Tenant"), Bytes::from_static(header))];
        let view = View::new(Message {
            payload: &payload,
            headers: &headers,
            coordinates: "in:1",
        });
        let selector: Selector = selector.parse().expect("a selector");
        match of(&view, &selector) {
            Ok(tenant) => Some(tenant.into_owned()),
            Err(error) => {
                assert_eq!(error.code(), "tenant-missing");
                assert_eq!(error.detail(), selector.to_string());
                None
            }
        }
    }

    #[test]
    fn a_tenant_is_text_as_it_is_or_a_number_as_it_is_spelt() {
        let json = |payload: &str| tenant("json:/t", payload, b"");
        assert_eq!(json(r#"{"t":"acme"}"#).as_deref(), Some("acme"));
        assert_eq!(json(r#"{"t":" Acmé "}"#).as_deref(), Some(" Acmé "));
        for number in ["42", "42.0", "4.2e1", "\"42\""] {
            let payload = format!("{{\"t\":{number}}}");
            assert_eq!(json(&payload).as_deref(), Some("42"), "{number}");
        }
        let header = tenant("header:x-tenant", "not json", b"acme");
        assert_eq!(header.as_deref(), Some("acme"));
        assert_eq!(tenant("field:2", "1\tacme", b"").as_deref(), Some("acme"));
    }

    #[test]
    fn nothing_else_is_a_tenant() {
        let long = format!(r#"{{"t":"{}"}}"#, "x".repeat(Scope::MAX_BYTES + 1));
        for payload in [
            "{}",
            "not json",
            r#"{"t":null}"#,
            r#"{"t":true}"#,
            r#"{"t":["acme"]}"#,
            r#"{"t":{"name":"acme"}}"#,
            r#"{"t":""}"#,
            r#"{"t":" \t "}"#,
            r#"{"t":"a\nb"}"#,
            r#"{"t":"a","t":"b"}"#,
            &long,
        ] {
            assert_eq!(tenant("json:/t", payload, b""), None, "{payload}");
        }
        for header in [&b""[..], b" ", b"\xff"] {
            assert_eq!(tenant("header:X-Tenant", "{}", header), None, "{header:?}");
        }
        assert_eq!(tenant("header:Other", "{}", b"acme"), None);
    }

    #[test]
    fn what_tells_messages_apart_selects_no_tenant() {
        let can = |text: &str| can_select(&text.parse().expect("a selector"));
        assert!(["json:/t", "header:t", "field:1"].into_iter().all(can));
        assert!(
            !["line", "coordinates", "cloudevents", "hash"]
                .into_iter()
                .any(can)
        );
    }
}
