//! The part of a request that must be the same under one intent.

use bytes::Bytes;
use http::Request;
use semel_core::json::{Document, write_string};

/// Returns method, address and body as JSON. A body that is JSON counts by its value, any other byte by byte. Headers
/// do not count: credentials and traces change from one call to the next.
pub(crate) fn fingerprint(request: &Request<Bytes>) -> Vec<u8> {
    let mut json = b"{\"method\":".to_vec();
    write_string(request.method().as_str(), &mut json);
    json.extend_from_slice(b",\"uri\":");
    write_string(&request.uri().to_string(), &mut json);
    let head_bytes = json.len();
    json.extend_from_slice(b",\"body\":");
    json.extend_from_slice(request.body());
    json.push(b'}');
    // A body that is no JSON by itself may yet complete an object, so it is read alone, too. One that is JSON may be
    // nested too deep inside of another.
    if Document::parse(request.body()).is_ok() && Document::parse(&json).is_ok() {
        return json;
    }
    json.truncate(head_bytes);
    json.extend_from_slice(b",\"digest\":");
    write_string(&blake3::hash(request.body()).to_hex(), &mut json);
    json.push(b'}');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, body: &[u8]) -> Vec<u8> {
        let request = Request::post(path).body(Bytes::copy_from_slice(body));
        fingerprint(&request.expect("a request"))
    }

    #[test]
    fn every_body_makes_json_that_tells_it_from_others() {
        let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
        let bodies: [&[u8]; 6] = [
            b"",
            b"{\"a\":1}",
            b"text",
            b"1,\"x\":2",
            b"\xff\x00",
            deep.as_bytes(),
        ];
        let mut seen = std::collections::BTreeSet::new();
        for path in ["/charges", "/charges?\u{22}"].map(|it| it.replace('"', "%22")) {
            for body in bodies {
                let json = of(&path, body);
                assert!(Document::parse(&json).is_ok(), "{}", body.escape_ascii());
                assert!(seen.insert(json));
            }
        }
    }
}
