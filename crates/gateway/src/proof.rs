//! The meaning of an answer for the attempt that brought it about, and for earlier ones.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use semel_core::Certainty;

use crate::evidence::{Sender, TIME_LIMIT, certainty_of_status, stated_certainty};
use crate::route::{Mode, Route};
use crate::statuses::Statuses;

/// The meaning of an answer for its key. A service can put one among the extensions of its answer, where it knows better
/// than the status says. It says nothing where a keyed service gives a stored answer again: that is the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It is the outcome, which every duplicate gets.
    Outcome,
    /// This attempt surely did nothing: the key is free again.
    NotApplied,
    /// Nobody knows: the class of the route decides.
    MaybeApplied,
}

/// The earlier attempts under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// There was none, or all of them surely did nothing.
    Clean,
    /// One of them may have been applied.
    Doubtful,
}

/// An answer of the handler: what of it can prove something.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The trailers, where gRPC has its status.
    pub trailers: Option<&'a HeaderMap>,
    /// The body, if all of it was read.
    pub body: Option<&'a [u8]>,
    /// The one who sent it.
    pub sender: Sender,
}

impl Route {
    /// Tells what an answer proves.
    pub fn proof(&self, answer: Answer<'_>, past: Past) -> Proof {
        let status = answer.effective_status();
        // The stored answer to the first attempt, from behind the look-up of the key.
        if self.is_keyed() && answer.is_replayed() {
            return Proof::Outcome;
        }
        match answer.certainty(status, &self.unsure) {
            Some(Certainty::NotApplied) if semel_core::planted("H04") => {}
            Some(Certainty::NotApplied) => return Proof::NotApplied,
            Some(Certainty::MaybeApplied) => return Proof::MaybeApplied,
            None => {}
        }
        // The handler is still at it, under the same key.
        if self.is_keyed() && status == StatusCode::CONFLICT {
            return Proof::NotApplied;
        }
        let speaks_for_all = status.is_success() || self.decisive.has(status);
        match (past, self.by_status(status)) {
            (Past::Clean, proof) => proof,
            (Past::Doubtful, proof) if semel_core::planted("H05") => proof,
            (Past::Doubtful, _) if speaks_for_all => Proof::Outcome,
            (Past::Doubtful, Proof::Outcome) if !status.is_server_error() => Proof::NotApplied,
            (Past::Doubtful, _) => Proof::MaybeApplied,
        }
    }

    /// Tells whether an answer of this status can be an outcome.
    pub(crate) fn may_be_outcome(&self, status: StatusCode) -> bool {
        let says_otherwise = certainty_of_status(status, Sender::Handler, &self.unsure).is_some();
        !says_otherwise && self.by_status(status) == Proof::Outcome
    }

    /// Tells what a status proves that may be that of an outcome.
    fn by_status(&self, status: StatusCode) -> Proof {
        let is_stored_by_stripe = self.mode == Mode::Stripe && status.is_server_error();
        let is_stored = is_stored_by_stripe || semel_core::planted("H03");
        if self.outcomes.has(status) || is_stored {
            Proof::Outcome
        } else {
            Proof::MaybeApplied
        }
    }
}

impl Answer<'_> {
    /// Returns what it says of its attempt, whatever else the route takes for an outcome: by what it states, else by its
    /// status. One of gRPC has a status of its own.
    fn certainty(&self, status: StatusCode, unsure: &Statuses) -> Option<Certainty> {
        if status != self.status {
            return certainty_of_status(status, Sender::Handler, unsure);
        }
        let by_status = certainty_of_status(status, self.sender, unsure);
        let stated = self
            .body
            .filter(|_| by_status == Some(Certainty::NotApplied))
            .and_then(|body| stated_certainty(status, self.headers, body));
        stated.or(by_status)
    }

    /// Tells whether it says that it is the stored answer to an earlier request.
    pub(crate) fn is_replayed(&self) -> bool {
        REPLAYED.iter().any(|name| {
            let value = self.headers.get(name);
            value.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"))
        })
    }

    /// Tells whether what it means was not read: the end of an answer of gRPC.
    pub(crate) fn is_half_read(&self) -> bool {
        self.status.is_success() && is_grpc(self.headers) && self.code() == GrpcCode::Unread
    }

    /// The status, or for gRPC the one that its code stands for.
    fn effective_status(&self) -> StatusCode {
        if !self.status.is_success() || !is_grpc(self.headers) {
            return self.status;
        }
        let code = match self.code() {
            GrpcCode::Found(code) => Some(code),
            GrpcCode::None => None,
            // A failure has no message, so an answer that is too long to be read is that of a success. What hides its end
            // in another way goes by its status.
            GrpcCode::Unread => return self.status,
        };
        match code.as_deref() {
            Some(b"0") => StatusCode::OK,
            // Invalid argument, failed precondition, out of range.
            Some(b"3" | b"9" | b"11") => StatusCode::BAD_REQUEST,
            // Not found, unimplemented.
            Some(b"5" | b"12") => StatusCode::NOT_FOUND,
            Some(b"6") => StatusCode::CONFLICT,
            Some(b"7") => StatusCode::FORBIDDEN,
            Some(b"16") => StatusCode::UNAUTHORIZED,
            // Cancelled, deadline exceeded; resource exhausted and unavailable, which a connection that breaks off and an
            // answer that is too long have as well.
            Some(b"1" | b"4" | b"8" | b"14") => TIME_LIMIT,
            // Unknown, aborted, internal, data loss; and an answer without an end.
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Finds the code of gRPC. That of gRPC-Web is in the last frame of the body.
    fn code(&self) -> GrpcCode {
        let in_fields = self
            .trailers
            .and_then(|trailers| trailers.get(GRPC_STATUS))
            .or_else(|| self.headers.get(GRPC_STATUS));
        if let Some(code) = in_fields {
            return GrpcCode::Found(code.as_bytes().to_vec());
        }
        match (self.body, is_grpc_web(self.headers)) {
            (Some(body), true) => match web_code(body) {
                Some(code) => GrpcCode::Found(code),
                None => GrpcCode::Unread,
            },
            (Some(_), false) => GrpcCode::None,
            (None, _) => GrpcCode::Unread,
        }
    }
}

/// The code of an answer of gRPC.
#[derive(Debug, PartialEq, Eq)]
enum GrpcCode {
    /// This one.
    Found(Vec<u8>),
    /// The answer ends without one.
    None,
    /// The place where it would be was not read.
    Unread,
}

/// Reads the code in the last frame of a body of gRPC-Web; none if the body is in another form.
fn web_code(mut body: &[u8]) -> Option<Vec<u8>> {
    while let Some((head, rest)) = body.split_first_chunk::<5>() {
        let [flags, len @ ..] = *head;
        let len = usize::try_from(u32::from_be_bytes(len)).ok()?;
        let (frame, rest) = rest.split_at_checked(len)?;
        if flags == WEB_TRAILERS {
            return rest.is_empty().then(|| web_field(frame)).flatten();
        }
        body = rest;
    }
    None
}

fn web_field(trailers: &[u8]) -> Option<Vec<u8>> {
    trailers.split(|byte| *byte == b'\n').find_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at(colon);
        let is_code = name.eq_ignore_ascii_case(GRPC_STATUS.as_str().as_bytes());
        is_code.then(|| value[1..].trim_ascii().to_vec())
    })
}

fn is_grpc_web(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc-web"))
}

/// Tells whether these are the headers of an answer of gRPC.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// The first byte of the frame of gRPC-Web that has the trailers, uncompressed.
const WEB_TRAILERS: u8 = 0x80;

/// The headers by which an answer says that it is a stored one: ours, and Stripe's.
const REPLAYED: [HeaderName; 2] = [
    HeaderName::from_static("idempotency-replayed"),
    HeaderName::from_static("idempotent-replayed"),
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::HeaderValue;
    use semel_engine::effect::{Class, OnDoubt};

    use super::Proof::{MaybeApplied, NotApplied, Outcome};
    use super::*;

    fn proof(route: &Route, status: u16, past: Past) -> Proof {
        with(route, status, &HeaderMap::new(), past)
    }

    fn with(route: &Route, status: u16, headers: &HeaderMap, past: Past) -> Proof {
        let answer = Answer {
            status: StatusCode::from_u16(status).expect("a status"),
            headers,
            trailers: None,
            body: Some(b""),
            sender: Sender::Handler,
        };
        route.proof(answer, past)
    }

    fn of_server(route: &Route, status: u16, body: &str, past: Past) -> Proof {
        let mut headers = HeaderMap::new();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        let answer = Answer {
            status: StatusCode::from_u16(status).expect("a status"),
            headers: &headers,
            trailers: None,
            body: Some(body.as_bytes()),
            sender: Sender::Server,
        };
        route.proof(answer, past)
    }

    fn keyed() -> Route {
        let provider_window = Duration::from_secs(86_400);
        Route {
            class: Class::Keyed { provider_window },
            ..Route::default()
        }
    }

    #[test]
    fn success_redirects_and_refusals_are_outcomes() {
        for route in [Route::default(), keyed()] {
            for status in [
                200, 201, 204, 299, 301, 303, 400, 402, 404, 405, 410, 422, 451,
            ] {
                assert_eq!(proof(&route, status, Past::Clean), Outcome, "{status}");
            }
        }
    }

    #[test]
    fn refusals_before_the_handler_always_release() {
        for past in [Past::Clean, Past::Doubtful] {
            for route in [Route::default(), keyed()] {
                for status in [401, 403, 407, 425, 429, 503] {
                    assert_eq!(proof(&route, status, past), NotApplied, "{status} {past:?}");
                }
            }
        }
    }

    /// A layer inside of ours answers so when it drops a handler that runs.
    #[test]
    fn a_408_proves_nothing_whatever_the_route() {
        let stripe = Route {
            mode: Mode::Stripe,
            ..Route::default()
        };
        for past in [Past::Clean, Past::Doubtful] {
            for route in [Route::default(), keyed(), stripe.clone()] {
                assert_eq!(proof(&route, 408, past), MaybeApplied, "{past:?}");
            }
        }
    }

    /// RFC 9110 §15.5.9: it did not get all of the request.
    #[test]
    fn a_408_of_a_server_says_that_nothing_was_applied_unless_the_route_is_unsure() {
        let unsure = Route {
            unsure: "408,503".parse().expect("statuses"),
            ..Route::default()
        };
        for past in [Past::Clean, Past::Doubtful] {
            for status in [408, 503] {
                for (route, expected) in [
                    (&Route::default(), NotApplied),
                    (&keyed(), NotApplied),
                    (&unsure, MaybeApplied),
                ] {
                    let found = of_server(route, status, "", past);
                    assert_eq!(found, expected, "{status} {past:?}");
                }
            }
            assert_eq!(of_server(&unsure, 429, "", past), NotApplied);
        }
    }

    /// As the claim API answers, and many a server behind another gateway of ours.
    #[test]
    fn a_503_that_states_a_doubt_is_a_doubt() {
        let problem = |certainty: &str| {
            format!(r#"{{"type":"urn:semel:problem:timeout","certainty":"{certainty}"}}"#)
        };
        for past in [Past::Clean, Past::Doubtful] {
            for (certainty, expected) in
                [("maybe_applied", MaybeApplied), ("not_applied", NotApplied)]
            {
                let found = of_server(&Route::default(), 503, &problem(certainty), past);
                assert_eq!(found, expected, "{certainty}");
            }
        }
        let refused = of_server(
            &Route::default(),
            404,
            &problem("maybe_applied"),
            Past::Clean,
        );
        assert_eq!(refused, Outcome, "of others, the status decides");
    }

    #[test]
    fn whatever_else_may_have_been_applied() {
        for past in [Past::Clean, Past::Doubtful] {
            for status in [500, 501, 502, 504, 507, 599] {
                assert_eq!(
                    proof(&Route::default(), status, past),
                    MaybeApplied,
                    "{status}"
                );
            }
        }
        let only_success = Route {
            outcomes: "2xx".parse().expect("it"),
            ..Route::default()
        };
        assert_eq!(proof(&only_success, 404, Past::Clean), MaybeApplied);
    }

    #[test]
    fn after_a_doubt_only_success_and_decisive_codes_are_outcomes() {
        let route = Route {
            decisive: "402,500".parse().expect("it"),
            class: Class::Unkeyed(OnDoubt::Repeat),
            ..Route::default()
        };
        for (status, expected) in [
            (200, Outcome),
            (204, Outcome),
            (402, Outcome),
            (500, Outcome),
            (303, NotApplied),
            (400, NotApplied),
            (404, NotApplied),
            (409, NotApplied),
            (502, MaybeApplied),
        ] {
            assert_eq!(proof(&route, status, Past::Doubtful), expected, "{status}");
        }
        assert_eq!(proof(&route, 500, Past::Clean), MaybeApplied);
    }

    #[test]
    fn a_409_of_a_keyed_handler_is_never_an_outcome() {
        let decisive = Route {
            decisive: "409".parse().expect("it"),
            ..keyed()
        };
        for past in [Past::Clean, Past::Doubtful] {
            assert_eq!(proof(&keyed(), 409, past), NotApplied);
            assert_eq!(proof(&decisive, 409, past), NotApplied);
        }
        assert_eq!(proof(&Route::default(), 409, Past::Clean), Outcome);
    }

    #[test]
    fn a_stored_answer_of_a_keyed_handler_is_the_first_one() {
        for name in ["idempotency-replayed", "idempotent-replayed"] {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static("true"));
            for status in [200, 402, 404, 409, 500] {
                assert_eq!(with(&keyed(), status, &headers, Past::Doubtful), Outcome);
            }
            assert_eq!(
                with(&Route::default(), 500, &headers, Past::Clean),
                MaybeApplied
            );
            headers.insert(name, HeaderValue::from_static("false"));
            assert_eq!(with(&keyed(), 404, &headers, Past::Doubtful), NotApplied);
        }
    }

    #[test]
    fn stripe_stores_server_errors_too() {
        let route = Route {
            mode: Mode::Stripe,
            ..Route::default()
        };
        assert_eq!(proof(&route, 500, Past::Clean), Outcome);
        assert_eq!(proof(&route, 503, Past::Clean), NotApplied);
        assert_eq!(proof(&route, 500, Past::Doubtful), MaybeApplied);
        assert_eq!(proof(&route, 200, Past::Doubtful), Outcome);
    }

    #[test]
    fn grpc_says_it_in_its_own_code() {
        let of = |code: Option<&'static str>, in_trailers: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(
                CONTENT_TYPE,
                HeaderValue::from_static("application/grpc+proto"),
            );
            let mut trailers = HeaderMap::new();
            if let Some(code) = code {
                let there = if in_trailers {
                    &mut trailers
                } else {
                    &mut headers
                };
                there.insert(GRPC_STATUS, HeaderValue::from_static(code));
            }
            let answer = Answer {
                status: StatusCode::OK,
                headers: &headers,
                trailers: in_trailers.then_some(&trailers),
                body: Some(b""),
                sender: Sender::Server,
            };
            Route::default().proof(answer, Past::Clean)
        };
        for (codes, expected) in [
            (&["0", "3", "5", "6", "9", "11", "12"][..], Outcome),
            (&["7", "16"], NotApplied),
            (
                &["1", "2", "4", "8", "10", "13", "14", "15", "17", "x"],
                MaybeApplied,
            ),
        ] {
            for code in codes {
                assert_eq!(of(Some(code), true), expected, "{code}");
                assert_eq!(of(Some(code), false), expected, "{code}");
            }
        }
        assert_eq!(of(None, true), MaybeApplied, "an answer without an end");
        // However the route takes server errors.
        let stripe = Route {
            mode: Mode::Stripe,
            ..Route::default()
        };
        for code in ["1", "4", "8", "14"] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            headers.insert(GRPC_STATUS, HeaderValue::from_static(code));
            assert_eq!(
                with(&stripe, 200, &headers, Past::Clean),
                MaybeApplied,
                "{code}"
            );
        }
    }

    #[test]
    fn grpc_web_says_it_in_its_last_frame_or_by_its_status() {
        let of = |kind: &'static str, body: Option<&[u8]>| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            let answer = Answer {
                status: StatusCode::OK,
                headers: &headers,
                trailers: None,
                body,
                sender: Sender::Server,
            };
            Route::default().proof(answer, Past::Clean)
        };
        let web = |trailers: &str| {
            let mut body = b"\x00\x00\x00\x00\x01x\x80\x00\x00\x00".to_vec();
            body.push(u8::try_from(trailers.len()).expect("short"));
            body.extend_from_slice(trailers.as_bytes());
            of("application/grpc-web+proto", Some(&body))
        };
        assert_eq!(web("grpc-status:0\r\n"), Outcome);
        assert_eq!(web("grpc-message:a\r\nGrpc-Status: 5\r\n"), Outcome);
        assert_eq!(web("grpc-status: 16\r\n"), NotApplied);
        assert_eq!(web("grpc-status:14\r\n"), MaybeApplied);
        // What is in another form goes by its status.
        for body in [&b""[..], b"\x00\x00\x00\x00\x09x", b"\x80\x00"] {
            assert_eq!(of("application/grpc-web+proto", Some(body)), Outcome);
        }
        assert_eq!(of("application/grpc-web-text", Some(b"AAAAAAF4")), Outcome);
        // And so does what is too long to be read.
        for kind in ["application/grpc", "application/grpc-web"] {
            assert_eq!(of(kind, None), Outcome, "{kind}");
        }
    }
}
