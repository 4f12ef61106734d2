//! The parts of a request that must be the same under one key, as a document that the engine makes a fingerprint of.

use axum::extract::OriginalUri;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, Uri, request};
use semel_core::json::{Document, Kind, Pointer};
use serde_json::{Map, Value};

/// The parts of a request that must be the same under one key.
///
/// On a route without tenants, `Authorization` is one of them, so that no caller is shown the answer to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The method.
    pub method: bool,
    /// The path, as the client sent it.
    pub path: bool,
    /// The query, as the client sent it.
    pub query: bool,
    /// Headers, whose every value counts.
    pub headers: Vec<HeaderName>,
    /// The body.
    pub body: BodyPart,
}

/// The part of a body that counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BodyPart {
    /// All of it: JSON by its value, anything else byte for byte.
    #[default]
    Whole,
    /// The values in a JSON body that these pointers lead to; all of a body that is no JSON.
    Fields(Vec<Pointer>),
    /// None of it.
    Nothing,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            method: true,
            path: true,
            query: true,
            headers: Vec::new(),
            body: BodyPart::Whole,
        }
    }
}

impl Parts {
    /// Returns the parts of this request as a JSON object, values other than method and path as digests.
    pub(crate) fn document(&self, head: &request::Parts, body: &[u8], has_tenant: bool) -> Vec<u8> {
        let uri = uri_of(head);
        let mut parts = Map::new();
        let mut put = |name: &str, value: String| {
            parts.insert(name.to_owned(), Value::String(value));
        };
        if self.method {
            put("method", head.method.to_string());
        }
        if self.path {
            put("path", uri.path().to_owned());
        }
        if let Some(query) = uri.query().filter(|_| self.query) {
            put("query", digest(query.as_bytes()));
        }
        if !(has_tenant || semel_core::planted("H02")) && head.headers.contains_key(AUTHORIZATION) {
            put(
                "header:authorization",
                digest_of(&head.headers, &AUTHORIZATION),
            );
        }
        for name in &self.headers {
            if head.headers.contains_key(name) {
                put(&format!("header:{name}"), digest_of(&head.headers, name));
            }
        }
        match &self.body {
            _ if semel_core::planted("H01") => {}
            BodyPart::Nothing => {}
            BodyPart::Whole => put("body", body_digest(head, body)),
            BodyPart::Fields(pointers) => match fields(head, body, pointers) {
                Some(fields) => fields
                    .into_iter()
                    .for_each(|(name, value)| put(&name, value)),
                None => put("body", body_digest(head, body)),
            },
        }
        // A map of strings can always be written.
        serde_json::to_vec(&parts).unwrap_or_default()
    }
}

impl Parts {
    /// Returns the first named field that a request does not have, or has as `null`: nothing tells it from another request
    /// without that field.
    pub(crate) fn absent_field(&self, head: &request::Parts, body: &[u8]) -> Option<&Pointer> {
        let BodyPart::Fields(pointers) = &self.body else {
            return None;
        };
        let document = Document::parse(body).ok().filter(|_| is_json(head));
        pointers.iter().find(|pointer| {
            let document = document.as_ref();
            let found = document.and_then(|document| document.pointer(pointer).ok()?);
            found.is_none_or(|value| value.kind() == Kind::Null)
        })
    }
}

/// Returns the key of a request that has none: the same for requests whose parts are the same.
pub(crate) fn derived_key(document: &[u8]) -> String {
    digest(document)
}

/// The address that the client asked for: a router that nests others cuts it on the way.
pub(crate) fn uri_of(head: &request::Parts) -> &Uri {
    let original = head.extensions.get::<OriginalUri>();
    original.map_or(&head.uri, |OriginalUri(uri)| uri)
}

fn body_digest(head: &request::Parts, body: &[u8]) -> String {
    let canonical = is_json(head).then(|| {
        let document = Document::parse(body).ok()?;
        let mut canonical = Vec::with_capacity(body.len());
        document.root().canonical(&mut canonical).ok()?;
        Some(canonical)
    });
    match canonical.flatten() {
        Some(canonical) => format!("json {}", digest(&canonical)),
        None => format!("bytes {}", digest(body)),
    }
}

/// The named values of a body; none if it is no JSON, or not clear.
fn fields(
    head: &request::Parts,
    body: &[u8],
    pointers: &[Pointer],
) -> Option<Vec<(String, String)>> {
    let document = Document::parse(body).ok().filter(|_| is_json(head))?;
    let mut fields = Vec::with_capacity(pointers.len());
    for pointer in pointers {
        if let Some(value) = document.pointer(pointer).ok()? {
            let mut canonical = Vec::new();
            value.canonical(&mut canonical).ok()?;
            fields.push((format!("json:{pointer}"), digest(&canonical)));
        }
    }
    Some(fields)
}

fn is_json(head: &request::Parts) -> bool {
    let media_type = head
        .headers
        .get(CONTENT_TYPE)
        .and_then(|it| it.to_str().ok());
    let media_type = media_type
        .and_then(|it| it.split(';').next())
        .unwrap_or_default();
    let media_type = media_type.trim().to_ascii_lowercase();
    media_type == "application/json" || media_type.ends_with("+json")
}

/// The digest of all values of a header, of which none runs into the next.
fn digest_of(headers: &HeaderMap, name: &HeaderName) -> String {
    let mut hasher = blake3::Hasher::new();
    for value in headers.get_all(name) {
        hasher.update(&(value.len() as u64).to_le_bytes());
        hasher.update(value.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use axum::http::{Method, Request};

    use super::*;

    fn head(uri: &str, headers: &[(&str, &str)]) -> request::Parts {
        let mut request = Request::builder().method(Method::POST).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");

    fn of(parts: &Parts, head: &request::Parts, body: &str) -> Vec<u8> {
        parts.document(head, body.as_bytes(), false)
    }

    #[test]
    fn another_method_path_query_or_body_is_another_request() {
        let parts = Parts::default();
        let base = of(&parts, &head("/charges?a=1", &[]), "x");
        assert_eq!(base, of(&parts, &head("/charges?a=1", &[]), "x"));
        assert_ne!(base, of(&parts, &head("/charges?a=2", &[]), "x"));
        assert_ne!(base, of(&parts, &head("/charges", &[]), "x"));
        assert_ne!(base, of(&parts, &head("/refunds?a=1", &[]), "x"));
        assert_ne!(base, of(&parts, &head("/charges?a=1", &[]), "y"));
        let mut patch = head("/charges?a=1", &[]);
        patch.method = Method::PATCH;
        assert_ne!(base, of(&parts, &patch, "x"));
        // Other headers do not count, unless they are named.
        assert_eq!(
            base,
            of(&parts, &head("/charges?a=1", &[("x-trace", "1")]), "x")
        );
        let named = Parts {
            headers: vec![HeaderName::from_static("x-version")],
            ..Parts::default()
        };
        let versions = ["1", "2"].map(|it| of(&named, &head("/", &[("x-version", it)]), ""));
        assert_ne!(versions[0], versions[1]);
    }

    #[test]
    fn json_counts_by_its_value_and_all_else_by_its_bytes() {
        let parts = Parts::default();
        let json = head("/", &[JSON]);
        let [one, other] = [r#"{"a":1.0,"b":2}"#, "{ \"b\":2, \"a\":1 }"];
        assert_eq!(of(&parts, &json, one), of(&parts, &json, other));
        // However large it is, and not as a float has it.
        let [one_large, other_large] = [r#"{"a":1e400}"#, r#"{"a":10e399}"#];
        assert_eq!(of(&parts, &json, one_large), of(&parts, &json, other_large));
        let larger = of(&parts, &json, r#"{"a":1e401}"#);
        assert_ne!(of(&parts, &json, one_large), larger);
        let plain = head("/", &[("content-type", "text/plain")]);
        assert_ne!(of(&parts, &plain, one), of(&parts, &plain, other));
        // What only says that it is JSON is compared byte for byte, not refused.
        let lone_surrogate = r#"{"a":"\ud800"}"#;
        let deep = "[".repeat(10_000);
        for broken in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":NaN}"#,
            lone_surrogate,
            "{",
            "",
            &deep,
        ] {
            assert_eq!(of(&parts, &json, broken), of(&parts, &json, broken));
            assert_ne!(
                of(&parts, &json, broken),
                of(&parts, &json, &format!("{broken} "))
            );
        }
    }

    #[test]
    fn named_fields_alone_count_where_the_body_has_them() {
        let pointers = ["/amount", "/to/iban"].map(|it| Pointer::parse(it).expect("a pointer"));
        let parts = Parts {
            body: BodyPart::Fields(pointers.into()),
            ..Parts::default()
        };
        let json = head("/", &[JSON]);
        let base = of(
            &parts,
            &json,
            r#"{"amount":10,"to":{"iban":"x"},"sent":"now"}"#,
        );
        assert_eq!(
            base,
            of(
                &parts,
                &json,
                r#"{"amount":10.0,"to":{"iban":"x"},"sent":"later"}"#
            )
        );
        assert_ne!(
            base,
            of(
                &parts,
                &json,
                r#"{"amount":11,"to":{"iban":"x"},"sent":"now"}"#
            )
        );
        assert_ne!(base, of(&parts, &json, r#"{"amount":10,"sent":"now"}"#));
        // Without JSON, all of the body counts.
        assert_ne!(of(&parts, &json, "a"), of(&parts, &json, "b"));
        let nothing = Parts {
            body: BodyPart::Nothing,
            ..Parts::default()
        };
        assert_eq!(of(&nothing, &json, "a"), of(&nothing, &json, "b"));
    }

    #[test]
    fn callers_are_told_apart_by_their_authorization_where_there_is_no_tenant() {
        let parts = Parts::default();
        let of = |token: &str, has_tenant| {
            parts.document(&head("/", &[("authorization", token)]), b"", has_tenant)
        };
        assert_ne!(of("Bearer a", false), of("Bearer b", false));
        assert_eq!(of("Bearer a", true), of("Bearer b", true));
        let text = String::from_utf8(of("Bearer secret", false)).expect("text");
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn a_nested_router_does_not_hide_the_path() {
        let parts = Parts::default();
        let mut first = head("/charges", &[]);
        first
            .extensions
            .insert(OriginalUri(Uri::from_static("/v1/charges")));
        let mut second = head("/charges", &[]);
        second
            .extensions
            .insert(OriginalUri(Uri::from_static("/v2/charges")));
        assert_ne!(of(&parts, &first, ""), of(&parts, &second, ""));
    }

    #[test]
    fn a_field_that_is_absent_or_null_is_named() {
        let pointers = ["/order", "/to/iban"].map(|it| Pointer::parse(it).expect("a pointer"));
        let parts = Parts {
            body: BodyPart::Fields(pointers.into()),
            ..Parts::default()
        };
        let json = head("/", &[JSON]);
        let absent = |head, body: &str| {
            let absent = parts.absent_field(head, body.as_bytes());
            absent.map(ToString::to_string)
        };
        assert_eq!(absent(&json, r#"{"order":0,"to":{"iban":""}}"#), None);
        for (body, pointer) in [
            (r#"{"order":1}"#, "/to/iban"),
            (r#"{"order":1,"to":{"iban":null}}"#, "/to/iban"),
            (r#"{"order":null,"to":{"iban":"x"}}"#, "/order"),
            (r#"{"order":1,"order":2,"to":{"iban":"x"}}"#, "/order"),
            ("order=1", "/order"),
            ("", "/order"),
        ] {
            assert_eq!(absent(&json, body).as_deref(), Some(pointer), "{body}");
        }
        let plain = head("/", &[]);
        let of_no_type = absent(&plain, r#"{"order":1,"to":{"iban":"x"}}"#);
        assert_eq!(of_no_type.as_deref(), Some("/order"));
        assert_eq!(Parts::default().absent_field(&json, b""), None);
    }

    #[test]
    fn a_derived_key_is_the_same_for_the_same_request() {
        let parts = Parts::default();
        let key = |body: &str| derived_key(&of(&parts, &head("/", &[JSON]), body));
        assert_eq!(key(r#"{"a":1,"b":2}"#), key(r#"{"b":2,"a":1}"#));
        assert_ne!(key("{}"), key("[]"));
        assert_eq!(key("{}").len(), 64);
    }
}
