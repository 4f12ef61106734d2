//! The fields that a proxy takes out of a message, and those that it adds.

use std::fmt::Write as _;
use std::net::IpAddr;

use axum::http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, EXPECT, FORWARDED, HOST,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE, VIA,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Version};
use semel_gateway::{KEY_HEADER, OPERATION_ID_HEADER};
use semel_http::Peer;

/// Takes out of a request what is for this connection alone, and what only Semel may say. A request for an upgrade keeps
/// the field `Upgrade`.
///
/// # Errors
///
/// The name of a field that is for the upstream, and that `Connection` names as one for this connection
pub(crate) fn strip_request(headers: &mut HeaderMap, version: Version) -> Result<(), HeaderName> {
    let named = named(headers);
    if let Some(name) = named.iter().find(|name| for_the_upstream(name)) {
        return Err(name.clone());
    }
    // A change to HTTP/2 would let what follows get around the routes.
    let upgrades = version == Version::HTTP_11
        && named.contains(&UPGRADE)
        && headers.contains_key(UPGRADE)
        && !any_word(headers, &UPGRADE, |word| word.eq_ignore_ascii_case("h2c"));
    let upgrade = upgrades.then(|| headers.get(UPGRADE).cloned()).flatten();
    let takes_trailers = any_word(headers, &TE, |word| word.eq_ignore_ascii_case("trailers"));
    strip(headers, &named);
    headers.remove(PROXY_AUTHORIZATION);
    headers.remove(HTTP2_SETTINGS);
    headers.remove(OPERATION_ID_HEADER);
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    if let Some(upgrade) = upgrade {
        headers.insert(UPGRADE, upgrade);
    }
    join_cookies(headers);
    strip_look_alikes(headers);
    Ok(())
}

/// Takes out of a request that goes to an upstream what the proxy does for its client: it reads the body, and asks for it.
pub(crate) fn strip_expectation(headers: &mut HeaderMap) {
    headers.remove(EXPECT);
}

/// Takes out the fields that some servers cannot tell from those that the proxy vouches for: they read `_` as `-`.
fn strip_look_alikes(headers: &mut HeaderMap) {
    let has_underscore = |name: &&HeaderName| name.as_str().contains('_');
    let names: Vec<_> = headers.keys().filter(has_underscore).cloned().collect();
    for name in names {
        let read = name.as_str().replace('_', "-");
        let is_ours = [KEY_HEADER, OPERATION_ID_HEADER, X_REAL_IP]
            .iter()
            .any(|it| it.as_str() == read);
        if is_ours || read.starts_with(X_FORWARDED) {
            headers.remove(name);
        }
    }
}

/// Makes one field of those into which a client of HTTP/2 may split its cookies (RFC 9113 §8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let cookies: Vec<_> = headers.get_all(COOKIE).iter().collect();
    if cookies.len() < 2 {
        return;
    }
    let texts: Vec<_> = cookies.iter().map(|it| it.as_bytes()).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&texts.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}

/// Takes out of an answer what is for the connection to the upstream alone.
pub(crate) fn strip_response(headers: &mut HeaderMap) {
    let named = named(headers);
    strip(headers, &named);
    headers.remove(PROXY_AUTHENTICATE);
}

/// Tells the upstream who asks for what, and that a proxy stands between.
pub(crate) fn add_forwarded(
    headers: &mut HeaderMap,
    peer: Option<Peer>,
    version: Version,
    trusts: bool,
) {
    if !trusts {
        let is_said = |name: &&HeaderName| {
            name.as_str().starts_with(X_FORWARDED) || [FORWARDED, X_REAL_IP].contains(name)
        };
        let said: Vec<_> = headers.keys().filter(is_said).cloned().collect();
        for name in said {
            headers.remove(name);
        }
    }
    let host = headers.get(HOST).cloned();
    let mut element = String::new();
    if let Some(peer) = peer {
        let scheme = if peer.is_encrypted { "https" } else { "http" };
        let ip = peer.address.ip().to_canonical();
        append(headers, X_FORWARDED_FOR, &ip.to_string());
        let proto = headers.entry(X_FORWARDED_PROTO);
        proto.or_insert(HeaderValue::from_static(scheme));
        // Writing to a text never fails.
        let _ = match ip {
            IpAddr::V4(ip) => write!(element, "for={ip};"),
            IpAddr::V6(ip) => write!(element, "for=\"[{ip}]\";"),
        };
        let _ = write!(element, "proto={scheme}");
    }
    if let Some(host) = host {
        // The framing was checked: it has no quotes.
        if let Ok(host) = host.to_str() {
            let separator = if element.is_empty() { "" } else { ";" };
            let _ = write!(element, "{separator}host=\"{host}\"");
        }
        headers.entry(X_FORWARDED_HOST).or_insert(host);
    }
    if !element.is_empty() {
        append(headers, FORWARDED, &element);
    }
    let version = match version {
        Version::HTTP_2 => "2.0",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    };
    append(headers, VIA, &format!("{version} semel"));
}

/// Adds a member to a list, which may be in several fields already.
fn append(headers: &mut HeaderMap, name: HeaderName, member: &str) {
    let mut list = Vec::new();
    for value in headers.get_all(&name) {
        list.extend_from_slice(value.as_bytes());
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(member.as_bytes());
    if let Ok(list) = HeaderValue::from_bytes(&list) {
        headers.insert(name, list);
    }
}

/// The fields that `Connection` names.
fn named(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(CONNECTION).iter();
    let words = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let names = words.filter_map(|word| HeaderName::from_bytes(word.trim_ascii()).ok());
    names.collect()
}

fn strip(headers: &mut HeaderMap, named: &[HeaderName]) {
    for name in named {
        headers.remove(name);
    }
    for name in [CONNECTION, TE, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    headers.remove(KEEP_ALIVE);
    headers.remove(PROXY_CONNECTION);
}

/// Tells whether a field is for the one who answers, whatever `Connection` says: without it, the request would mean
/// something else. Messages of producers would lose their identity, and be taken twice.
fn for_the_upstream(name: &HeaderName) -> bool {
    let known = [
        KEY_HEADER,
        AUTHORIZATION,
        CONTENT_LENGTH,
        CONTENT_TYPE,
        COOKIE,
        HOST,
        FORWARDED,
        PRODUCER,
        EPOCH,
        SEQUENCE,
        MESSAGE_ID,
    ];
    known.contains(name) || name.as_str().starts_with(X_FORWARDED)
}

fn any_word(headers: &HeaderMap, name: &HeaderName, is_it: impl Fn(&str) -> bool) -> bool {
    let values = headers.get_all(name).iter();
    let mut texts = values.filter_map(|value| value.to_str().ok());
    texts.any(|text| text.split(',').any(|word| is_it(word.trim())))
}

/// The beginning of the names of fields in which proxies say who asks for what.
const X_FORWARDED: &str = "x-forwarded-";
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
/// The identity of a message, which a source of kind `ingest` reads behind the proxy's own paths.
const PRODUCER: HeaderName = HeaderName::from_static("semel-producer");
const EPOCH: HeaderName = HeaderName::from_static("semel-epoch");
const SEQUENCE: HeaderName = HeaderName::from_static("semel-sequence");
const MESSAGE_ID: HeaderName = HeaderName::from_static("semel-id");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::from_static(name);
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    fn stripped(sent: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = fields(sent);
        strip_request(&mut headers, Version::HTTP_11).expect("nothing for the upstream");
        headers
    }

    #[test]
    fn fields_of_a_connection_stay_on_it() {
        let headers = stripped(&[
            ("connection", "close, X-Once"),
            ("x-once", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic x"),
            ("te", "gzip"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("http2-settings", "x"),
            ("semel-operation-id", "ab"),
            ("semel_operation-id", "ab"),
            ("idempotency_key", "k"),
            ("x_forwarded_for", "6.6.6.6"),
            ("x_other", "1"),
            ("traceparent", "00-1-2-01"),
            ("idempotency-key", "\"pay-1\""),
        ]);
        let expected = fields(&[
            ("x_other", "1"),
            ("traceparent", "00-1-2-01"),
            ("idempotency-key", "\"pay-1\""),
        ]);
        assert_eq!(headers, expected);
        assert_eq!(stripped(&[("te", "gzip, trailers")])[TE], "trailers");
        // One who answers here may have a use for it.
        let mut headers = stripped(&[("expect", "100-continue")]);
        assert!(headers.contains_key(EXPECT));
        strip_expectation(&mut headers);
        assert!(headers.is_empty());
    }

    #[test]
    fn an_upgrade_is_one_if_the_connection_names_it_and_not_to_http2() {
        let asked = [("connection", "Upgrade"), ("upgrade", "websocket")];
        assert_eq!(stripped(&asked)[UPGRADE], "websocket");
        let mut old = fields(&asked);
        strip_request(&mut old, Version::HTTP_10).expect("it");
        assert!(old.is_empty());
        for other in ["h2c", "websocket, H2C"] {
            assert!(stripped(&[("connection", "upgrade"), ("upgrade", other)]).is_empty());
        }
    }

    #[test]
    fn a_connection_does_not_take_what_is_for_the_upstream() {
        for name in [
            "Idempotency-Key",
            "authorization",
            "host",
            "content-length",
            "x-forwarded-for",
            "semel-producer",
            "Semel-Epoch",
            "semel-sequence",
            "semel-id",
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONNECTION, name.parse().expect("a value"));
            let refused = strip_request(&mut headers, Version::HTTP_11);
            assert!(refused.is_err(), "{name}");
        }
    }

    #[test]
    fn forwarded_fields_are_replaced_or_added_to() {
        let peer = Peer {
            address: "[::ffff:10.0.0.1]:4000".parse().expect("an address"),
            is_encrypted: true,
        };
        let sent = [
            ("host", "api.example"),
            ("x-forwarded-for", "6.6.6.6"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "evil"),
            ("x-forwarded-port", "666"),
            ("x-forwarded-prefix", "/evil"),
            ("x-forwarded-server", "evil"),
            ("forwarded", "for=6.6.6.6"),
            ("x-real-ip", "6.6.6.6"),
            ("via", "1.1 a"),
        ];
        let mut headers = fields(&sent);
        add_forwarded(&mut headers, Some(peer), Version::HTTP_11, false);
        let expected = fields(&[
            ("host", "api.example"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "api.example"),
            ("forwarded", "for=10.0.0.1;proto=https;host=\"api.example\""),
            ("via", "1.1 a, 1.1 semel"),
        ]);
        assert_eq!(headers, expected);
        let mut headers = fields(&sent);
        add_forwarded(&mut headers, Some(peer), Version::HTTP_2, true);
        assert_eq!(headers["x-forwarded-for"], "6.6.6.6, 10.0.0.1");
        assert_eq!(headers["x-forwarded-proto"], "http");
        assert_eq!(headers["x-forwarded-host"], "evil");
        assert_eq!(headers["x-forwarded-prefix"], "/evil");
        assert_eq!(
            headers["forwarded"],
            "for=6.6.6.6, for=10.0.0.1;proto=https;host=\"api.example\""
        );
        assert_eq!(headers["via"], "1.1 a, 2.0 semel");
    }
}
