use semel_core::Certainty::{MaybeApplied, NotApplied};
use semel_engine::effect::Class;
use semel_gateway::{Answer, Proof, Route};

use super::*;

static NONE: Statuses = Statuses::NONE;

fn answer(
    status: u16,
    headers: &[(&'static str, &'static str)],
    body: &'static str,
) -> Response<Bytes> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response
        .body(Bytes::from_static(body.as_bytes()))
        .expect("an answer")
}

fn keyed(past: Past) -> Known<'static> {
    Known {
        is_keyed: true,
        past,
        decisive: &NONE,
        unsure: &NONE,
    }
}

fn bare(status: u16, known: Known<'_>) -> Meaning {
    meaning(&answer(status, &[], ""), known)
}

fn problem(status: u16, code: &'static str, past: Past) -> Meaning {
    let body =
        format!(r#"{{"type":"urn:semel:problem:{code}","code":"{code}","operation_id":"abc"}}"#);
    let response = Response::builder().status(status);
    let response = response.header("content-type", "application/problem+json");
    let response = response.body(Bytes::from(body)).expect("an answer");
    assert_eq!(operation_id(&response).as_deref(), Some("abc"));
    meaning(&response, keyed(past))
}

const PASTS: [Past; 2] = [Past::Clean, Past::Doubtful];

#[test]
fn success_speaks_for_every_attempt() {
    for past in PASTS {
        for status in [200, 201, 202, 204, 206] {
            let result = Meaning::Result {
                is_outcome: true,
                is_replay: false,
            };
            assert_eq!(bare(status, keyed(past)), result);
        }
    }
}

#[test]
fn a_refusal_is_the_end_and_says_nothing_of_earlier_attempts() {
    for status in [400, 401, 402, 403, 404, 405, 407, 410, 413, 422] {
        let result = Meaning::Result {
            is_outcome: false,
            is_replay: false,
        };
        let doubt = Meaning::Final {
            reason: Reason::Unclear,
            happened: Happened::Maybe,
        };
        assert_eq!(bare(status, keyed(Past::Clean)), result, "{status}");
        assert_eq!(bare(status, keyed(Past::Doubtful)), doubt, "{status}");
    }
}

#[test]
fn a_redirect_is_the_outcome_under_a_key_and_says_nothing_after_a_doubt() {
    for status in [300, 301, 302, 303, 304, 307, 308] {
        let result = |is_outcome| Meaning::Result {
            is_outcome,
            is_replay: false,
        };
        assert_eq!(bare(status, keyed(Past::Clean)), result(true), "{status}");
        let unkeyed = Known {
            is_keyed: false,
            ..keyed(Past::Clean)
        };
        assert_eq!(bare(status, unkeyed), result(false), "{status}");
        let doubt = Meaning::Final {
            reason: Reason::Unclear,
            happened: Happened::Maybe,
        };
        assert_eq!(bare(status, keyed(Past::Doubtful)), doubt, "{status}");
    }
}

#[test]
fn a_decisive_refusal_speaks_for_every_attempt_of_a_keyed_request() {
    let decisive: Statuses = "402".parse().expect("codes");
    for past in PASTS {
        let known = Known {
            decisive: &decisive,
            ..keyed(past)
        };
        let result = Meaning::Result {
            is_outcome: true,
            is_replay: false,
        };
        assert_eq!(bare(402, known), result);
    }
    let unkeyed = Known {
        is_keyed: false,
        decisive: &decisive,
        ..keyed(Past::Doubtful)
    };
    assert!(matches!(bare(402, unkeyed), Meaning::Final { .. }));
}

#[test]
fn load_and_requests_under_way_are_worth_another_attempt() {
    for past in PASTS {
        for status in [408, 425, 429, 503] {
            let meaning = bare(status, keyed(past));
            assert_eq!(meaning, again(Reason::Throttled, NotApplied), "{status}");
        }
        let meaning = bare(409, keyed(past));
        assert_eq!(meaning, again(Reason::InProgress, MaybeApplied));
        for status in [500, 501, 502, 504, 599] {
            let meaning = bare(status, keyed(past));
            assert_eq!(meaning, again(Reason::Unclear, MaybeApplied), "{status}");
        }
    }
    let unkeyed = Known {
        is_keyed: false,
        ..keyed(Past::Clean)
    };
    assert!(
        matches!(bare(409, unkeyed), Meaning::Result { .. }),
        "without a key, a conflict"
    );
}

#[test]
fn a_code_that_the_server_is_unsure_of_proves_nothing() {
    let unsure: Statuses = "403,408,503".parse().expect("codes");
    for past in PASTS {
        let known = Known {
            unsure: &unsure,
            ..keyed(past)
        };
        for status in [403, 408, 503] {
            assert_eq!(
                bare(status, known),
                again(Reason::Unclear, MaybeApplied),
                "{status}"
            );
        }
        assert_eq!(bare(429, known), again(Reason::Throttled, NotApplied));
        // Whatever time it names.
        let away = answer(503, &[("retry-after", "7")], "");
        assert_eq!(meaning(&away, known), again(Reason::Unclear, MaybeApplied));
        let failed = answer(500, &[("retry-after", "7")], "");
        let expected = again(Reason::Unclear, MaybeApplied);
        assert_eq!(meaning(&failed, keyed(past)), expected);
    }
}

/// An answer proves the same of its attempt to a gateway of its upstream and to a client of its server.
#[test]
fn a_gateway_and_a_client_read_the_same_answer_alike() {
    let provider_window = std::time::Duration::from_secs(3_600);
    for unsure in ["", "408,503", "404,4xx"] {
        let unsure: Statuses = unsure.parse().expect("codes");
        let route = Route {
            class: Class::Keyed { provider_window },
            unsure: unsure.clone(),
            ..Route::default()
        };
        for (status, stated) in (300..600).flat_map(|it| [(it, false), (it, true)]) {
            // To a gateway, it says that this request did nothing; a client asks of all under the key (decision 0016).
            if status == 409 {
                continue;
            }
            // What others state is believed in place of a status that says "not applied".
            if stated && ![401, 403, 407, 408, 425, 429, 503].contains(&status) {
                continue;
            }
            let answer = if stated {
                certain(status, "about:blank", "maybe_applied")
            } else {
                answer(status, &[], "")
            };
            let proof = route.proof(
                Answer {
                    status: answer.status(),
                    headers: answer.headers(),
                    trailers: None,
                    body: Some(answer.body()),
                    sender: Sender::Server,
                },
                Past::Clean,
            );
            let known = Known {
                unsure: &unsure,
                ..keyed(Past::Clean)
            };
            let certainty = match meaning(&answer, known) {
                Meaning::Again { certainty, .. } => certainty,
                Meaning::Final { happened, .. } if happened != Happened::No => MaybeApplied,
                Meaning::Final { .. } | Meaning::Result { .. } => NotApplied,
            };
            let expected = match proof {
                Proof::MaybeApplied => MaybeApplied,
                Proof::NotApplied | Proof::Outcome => NotApplied,
            };
            assert_eq!(certainty, expected, "{status}, stated: {stated}, {unsure}");
        }
    }
}

/// A problem with a code that says nothing here, and with this certainty.
fn certain(status: u16, kind: &str, certainty: &str) -> Response<Bytes> {
    let body = format!(r#"{{"type":"{kind}","status":{status},"certainty":"{certainty}"}}"#);
    let response = Response::builder()
        .status(status)
        .header("content-type", "application/problem+json")
        .header("retry-after", "1");
    response.body(Bytes::from(body)).expect("an answer")
}

#[test]
fn a_problem_that_says_maybe_applied_is_believed_whatever_its_status_and_code() {
    let maybe = |reason| again(reason, MaybeApplied);
    for (status, code, expected) in [
        (503, "timeout", maybe(Reason::Throttled)),
        (503, "store-unavailable", maybe(Reason::Throttled)),
        (429, "throttled", maybe(Reason::Throttled)),
        (425, "throttled", maybe(Reason::Throttled)),
        (409, "in-progress", maybe(Reason::InProgress)),
        (502, "upstream-unreachable", maybe(Reason::Unclear)),
        (404, "not-found", maybe(Reason::Unclear)),
        (303, "elsewhere", maybe(Reason::Unclear)),
        (
            422,
            "key-reused",
            Meaning::Final {
                reason: Reason::KeyReused,
                happened: Happened::Maybe,
            },
        ),
    ] {
        let answer = certain(
            status,
            &format!("urn:semel:problem:{code}"),
            "maybe_applied",
        );
        assert_eq!(meaning(&answer, keyed(Past::Clean)), expected, "{code}");
    }
    // A doubt is believed of anybody.
    let answer = certain(503, "about:blank", "maybe_applied");
    let expected = maybe(Reason::Throttled);
    assert_eq!(meaning(&answer, keyed(Past::Clean)), expected);
    // What was surely applied stays so.
    let kind = "urn:semel:problem:answer-too-large";
    let expected = Meaning::Final {
        reason: Reason::NotKept,
        happened: Happened::Yes,
    };
    let answer = certain(410, kind, "maybe_applied");
    assert_eq!(meaning(&answer, keyed(Past::Clean)), expected);
}

#[test]
fn a_stored_answer_is_the_result_whatever_its_code() {
    for header in ["idempotency-replayed", "idempotent-replayed"] {
        for status in [200, 402, 404, 409, 500] {
            let stored = answer(status, &[(header, "true")], "");
            let result = Meaning::Result {
                is_outcome: true,
                is_replay: true,
            };
            assert_eq!(meaning(&stored, keyed(Past::Doubtful)), result, "{status}");
        }
        let not = answer(500, &[(header, "false")], "");
        assert!(matches!(
            meaning(&not, keyed(Past::Clean)),
            Meaning::Again { .. }
        ));
    }
}

#[test]
fn a_problem_says_more_than_its_status() {
    let end = |reason, happened| Meaning::Final { reason, happened };
    for past in PASTS {
        let of_past = if past == Past::Clean {
            Happened::No
        } else {
            Happened::Maybe
        };
        for (status, code, expected) in [
            (422, "key-reused", end(Reason::KeyReused, of_past)),
            (400, "key-reused", end(Reason::KeyReused, of_past)),
            (409, "in-doubt", end(Reason::InDoubt, Happened::Maybe)),
            (409, "dead", end(Reason::Dead, Happened::Maybe)),
            (410, "answer-too-large", end(Reason::NotKept, Happened::Yes)),
            (410, "answer-streamed", end(Reason::NotKept, Happened::Yes)),
            (500, "record-corrupt", end(Reason::Unclear, Happened::Maybe)),
            (409, "in-progress", again(Reason::InProgress, MaybeApplied)),
            (409, "claim-lost", again(Reason::Unclear, MaybeApplied)),
            (
                502,
                "upstream-unreachable",
                again(Reason::Unclear, NotApplied),
            ),
            (502, "upstream-broken", again(Reason::Unclear, MaybeApplied)),
            (
                504,
                "upstream-timeout",
                again(Reason::Unclear, MaybeApplied),
            ),
            (
                500,
                "outcome-unrecorded",
                again(Reason::Unclear, MaybeApplied),
            ),
            (
                503,
                "store-unavailable",
                again(Reason::Throttled, NotApplied),
            ),
        ] {
            assert_eq!(problem(status, code, past), expected, "{code} {past:?}");
        }
    }
    assert!(matches!(
        problem(400, "key-missing", Past::Clean),
        Meaning::Result { .. }
    ));
}

#[test]
fn an_answer_that_was_no_success_and_was_not_kept_is_not_taken_for_one() {
    let body = r#"{"type":"urn:semel:problem:answer-too-large","original_status":404}"#;
    let gone = answer(410, &[("content-type", "application/problem+json")], body);
    let expected = Meaning::Final {
        reason: Reason::NotKept,
        happened: Happened::Maybe,
    };
    assert_eq!(meaning(&gone, keyed(Past::Clean)), expected);
}

#[test]
fn stripe_names_a_reused_key_in_its_own_way() {
    let body =
        r#"{"error":{"type":"idempotency_error","message":"Keys for idempotent requests…"}}"#;
    let reused = answer(400, &[("content-type", "application/json")], body);
    let expected = Meaning::Final {
        reason: Reason::KeyReused,
        happened: Happened::No,
    };
    assert_eq!(meaning(&reused, keyed(Past::Clean)), expected);
    let other = answer(
        400,
        &[("content-type", "application/json")],
        r#"{"error":{"type":"card_error"}}"#,
    );
    assert!(matches!(
        meaning(&other, keyed(Past::Clean)),
        Meaning::Result { .. }
    ));
}

#[test]
fn the_operation_is_named_by_a_header_too() {
    let named = answer(200, &[("semel-operation-id", "abc")], "");
    assert_eq!(operation_id(&named).as_deref(), Some("abc"));
    assert_eq!(operation_id(&answer(500, &[], "")), None);
}
