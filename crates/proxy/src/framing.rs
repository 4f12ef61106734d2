//! Requests that two servers may read in two ways, beyond those that the parser refuses.

use axum::http::header::{CONNECTION, EXPECT, HOST, TRANSFER_ENCODING};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version, request};
use semel_core::Code;
use semel_http::Problem;

/// Checks what the parser leaves to its user, and gives a request of HTTP/2 the field `Host`.
///
/// # Errors
///
/// The answer to a request that is not passed on
pub(crate) fn check(head: &mut request::Parts) -> Result<(), Box<Problem>> {
    check_host(head)?;
    let codings: Vec<_> = head.headers.get_all(TRANSFER_ENCODING).iter().collect();
    let is_chunked = |coding: &&HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if codings.len() > 1 || !codings.iter().all(is_chunked) {
        let detail = "its only transfer coding can be `chunked`, once";
        return Err(Box::new(refusal(detail, head.version)));
    }
    let mut expected = head.headers.get_all(EXPECT).iter();
    let is_known = |it: &HeaderValue| it.as_bytes().eq_ignore_ascii_case(b"100-continue");
    if !expected.all(is_known) {
        let detail = "this request expects what is not known here; 100-continue is";
        let code = Code::Unsupported.as_str();
        let problem = Problem::new(StatusCode::EXPECTATION_FAILED, code, detail);
        return Err(Box::new(closing(problem, head.version)));
    }
    if head.method == Method::CONNECT {
        let detail = "this is no proxy to other hosts, so nothing can be connected through it";
        let code = Code::Unsupported.as_str();
        let problem = Problem::new(StatusCode::NOT_IMPLEMENTED, code, detail);
        return Err(Box::new(closing(problem, head.version)));
    }
    Ok(())
}

/// The answer to a request whose framing is of no use; the connection ends with it.
pub(crate) fn refusal(detail: &str, version: Version) -> Problem {
    let code = Code::InvalidInput.as_str();
    let detail = format!("this request is not passed on: {detail}");
    closing(Problem::new(StatusCode::BAD_REQUEST, code, detail), version)
}

fn closing(problem: Problem, version: Version) -> Problem {
    if version == Version::HTTP_2 {
        return problem;
    }
    problem.with_header(CONNECTION, HeaderValue::from_static("close"))
}

/// A request names its host once, and the same one wherever it does.
fn check_host(head: &mut request::Parts) -> Result<(), Box<Problem>> {
    let version = head.version;
    let bad = |detail: &str| Err(Box::new(refusal(detail, version)));
    let host = match host(&head.headers) {
        Ok(host) => host,
        Err(detail) => return bad(detail),
    };
    let target = head.uri.authority().cloned();
    // It would be passed on as one for `/`, past a route that guards that path (RFC 9112 §3.2.3).
    if target.is_some() && head.uri.scheme().is_none() && head.method != Method::CONNECT {
        return bad("its target is a host alone, which goes with CONNECT");
    }
    if target.as_ref().is_some_and(|it| it.as_str().contains('@')) {
        return bad("its target has a user in it");
    }
    match (host, target) {
        (Some(host), Some(target)) if !is_same(&host, &target) => {
            bad("its target is on another host than `Host` says")
        }
        (None, Some(target)) if version == Version::HTTP_2 => {
            let Ok(host) = HeaderValue::from_str(target.as_str()) else {
                return bad("its `:authority` is no host");
            };
            head.headers.insert(HOST, host);
            Ok(())
        }
        (None, _) if version == Version::HTTP_10 => Ok(()),
        (None, _) => bad("it does not say for which host it is"),
        (Some(_), _) => Ok(()),
    }
}

fn is_same(host: &Authority, target: &Authority) -> bool {
    let port = |it: &Authority| it.port_u16();
    host.host().eq_ignore_ascii_case(target.host()) && port(host) == port(target)
}

/// The host that the field `Host` names.
fn host(headers: &HeaderMap) -> Result<Option<Authority>, &'static str> {
    let mut sent = headers.get_all(HOST).iter();
    let Some(host) = sent.next() else {
        return Ok(None);
    };
    if sent.next().is_some() {
        return Err("it has two fields `Host`");
    }
    let host = Authority::try_from(host.as_bytes());
    let host = host.map_err(|_| "its field `Host` is no host")?;
    if host.as_str().contains(['@', '"', '\\']) || host.host().is_empty() {
        return Err("its field `Host` is no host");
    }
    Ok(Some(host))
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn checked(target: &str, fields: &[(&str, &str)], version: Version) -> Result<String, u16> {
        let mut request = Request::builder().uri(target).version(version);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let mut head = request.body(()).expect("a request").into_parts().0;
        match check(&mut head) {
            Ok(()) => {
                let host = head.headers.get(HOST).map(HeaderValue::to_str);
                Ok(host.transpose().expect("a text").unwrap_or("").to_owned())
            }
            Err(problem) => Err(problem.status().as_u16()),
        }
    }

    #[test]
    fn a_request_names_one_host() {
        let (one, two) = (Version::HTTP_11, Version::HTTP_2);
        let host = ("host", "api:80");
        for (target, fields, version, expected) in [
            ("/", &[host][..], one, Ok("api:80")),
            ("/", &[], one, Err(400)),
            ("/", &[], Version::HTTP_10, Ok("")),
            ("/", &[host, host], one, Err(400)),
            ("/", &[("host", "a b")], one, Err(400)),
            ("/", &[("host", "a/b")], one, Err(400)),
            ("/", &[("host", "")], one, Err(400)),
            ("/", &[("host", "me@api")], one, Err(400)),
            ("http://API:80/", &[host], one, Ok("api:80")),
            ("http://other/", &[host], one, Err(400)),
            ("http://api:81/", &[host], one, Err(400)),
            ("http://me@api:80/", &[host], one, Err(400)),
            ("http://api:80/", &[], one, Err(400)),
            ("api:80", &[host], one, Err(400)),
            ("api", &[], Version::HTTP_10, Err(400)),
            ("http://api:80/", &[], two, Ok("api:80")),
            ("http://api:80/", &[("host", "other")], two, Err(400)),
        ] {
            let found = checked(target, fields, version);
            assert_eq!(
                found.as_deref().map_err(|it| *it),
                expected,
                "{target} {fields:?}"
            );
        }
    }

    #[test]
    fn one_coding_and_one_expectation_are_known() {
        let with = |fields: &[(&str, &str)]| {
            let mut all = vec![("host", "api")];
            all.extend_from_slice(fields);
            checked("/", &all, Version::HTTP_11).err()
        };
        assert_eq!(with(&[("transfer-encoding", "Chunked")]), None);
        for coding in ["gzip, chunked", "chunked, chunked", "identity", "xchunked"] {
            assert_eq!(
                with(&[("transfer-encoding", coding)]),
                Some(400),
                "{coding}"
            );
        }
        let chunked = ("transfer-encoding", "chunked");
        assert_eq!(with(&[chunked, chunked]), Some(400));
        assert_eq!(with(&[("expect", "100-continue")]), None);
        assert_eq!(with(&[("expect", "miracles")]), Some(417));
    }
}
