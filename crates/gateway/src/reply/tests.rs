use semel_core::Differing;
use semel_engine::once::{Cause, TimedOut};
use serde_json::Value;

use super::*;

const ID: OpId = OpId::from_bytes([7; 32]);
const SECOND: Duration = Duration::from_secs(1);

/// A problem as a client sees it: status, code, `Retry-After`, and the members.
fn shown(route: &Route, error: &Error, answered: bool) -> (u16, String, Option<String>, Value) {
    let Reply::Problem(problem) = route.reply(error, answered) else {
        panic!("{error:?} is no problem");
    };
    let members = serde_json::to_value(&problem).expect("an object");
    let response = problem.into_response();
    assert_eq!(
        response.headers()["content-type"],
        "application/problem+json"
    );
    let status = response.status().as_u16();
    let retry = response.headers().get(RETRY_AFTER);
    let retry = retry.map(|it| it.to_str().expect("digits").to_owned());
    let code = members["code"].as_str().expect("a code").to_owned();
    assert_eq!(members["type"], format!("urn:semel:problem:{code}"));
    assert_eq!(members["status"], status);
    if error.operation_id().is_some() {
        assert_eq!(members["operation_id"], ID.to_string());
    }
    (status, code, retry, members)
}

fn row(error: &Error, answered: bool) -> (u16, String, Option<String>) {
    let (status, code, retry, _) = shown(&Route::default(), error, answered);
    (status, code, retry)
}

fn expected(status: u16, code: &str, retry: Option<&str>) -> (u16, String, Option<String>) {
    (status, code.to_owned(), retry.map(str::to_owned))
}

fn store(kind: ErrorKind) -> Error {
    Error::Store {
        operation_id: ID,
        source: semel_core::Error::new(kind, "at db-1.internal:5432"),
    }
}

fn failed(happened: Happened, source: impl Into<Cause>) -> Error {
    Error::Failed {
        operation_id: ID,
        attempt: 1,
        happened,
        retry_after: Duration::ZERO,
        source: source.into(),
    }
}

fn in_doubt(ran: bool, source: impl Into<Cause>) -> Error {
    Error::InDoubt {
        operation_id: ID,
        ran,
        source: source.into(),
    }
}

fn unrecorded(happened: Happened) -> Error {
    Error::Unrecorded {
        operation_id: ID,
        happened,
        source: semel_core::Error::new(ErrorKind::Timeout, "no answer"),
    }
}

fn conflict() -> Error {
    Error::Conflict {
        operation_id: ID,
        differing: Differing::NoMembers,
    }
}

fn busy(retry_after: Duration) -> Error {
    Error::Busy {
        operation_id: ID,
        retry_after,
    }
}

#[test]
fn a_reused_key_is_422_and_says_nothing_of_the_first_request() {
    assert_eq!(row(&conflict(), false), expected(422, "key-reused", None));
    let (.., members) = shown(&Route::default(), &conflict(), false);
    let names: Vec<_> = members.as_object().expect("it").keys().collect();
    assert_eq!(names, ["code", "detail", "operation_id", "status", "type"]);
}

#[test]
fn a_key_in_progress_says_in_whole_seconds_when_to_come_again() {
    for (after, seconds) in [
        (Duration::ZERO, "1"),
        (Duration::from_millis(1), "1"),
        (SECOND, "1"),
        (Duration::from_millis(1_001), "2"),
        (Duration::from_secs(30), "30"),
        (Duration::MAX, "86400"),
    ] {
        let row = row(&busy(after), false);
        assert_eq!(row, expected(409, "in-progress", Some(seconds)));
    }
}

#[test]
fn a_doubt_and_a_dead_operation_are_told() {
    let doubt = in_doubt(false, "timed out");
    assert_eq!(row(&doubt, false), expected(409, "in-doubt", None));
    let (.., members) = shown(&Route::default(), &doubt, false);
    let detail = members["detail"].as_str().expect("it");
    assert!(
        detail.contains(&format!("semel in-doubt show {ID}")),
        "{detail}"
    );
    let dead = Error::Dead {
        operation_id: ID,
        ran: false,
        source: "refused".into(),
    };
    assert_eq!(row(&dead, false), expected(409, "dead", None));
    // Somebody may have given it up without knowing what became of it.
    let (.., members) = shown(&Route::default(), &dead, false);
    let detail = members["detail"].as_str().expect("it");
    assert!(!detail.contains("not carried out"), "{detail}");
    let explain = format!("semel keys explain {ID}` says whether it may have been");
    assert!(detail.contains(&explain), "{detail}");
}

#[test]
fn an_answer_that_is_no_outcome_goes_to_the_client_who_caused_it() {
    for error in [
        failed(Happened::No, "429"),
        failed(Happened::Maybe, "500"),
        in_doubt(true, "500"),
    ] {
        assert!(
            matches!(Route::default().reply(&error, true), Reply::Handler),
            "{error:?}"
        );
    }
}

#[test]
fn a_handler_without_a_whole_answer_is_a_broken_upstream() {
    let timed_out = || TimedOut { limit: SECOND };
    for (error, status, code) in [
        (failed(Happened::Maybe, "broke off"), 502, "upstream-broken"),
        (in_doubt(true, "it panicked"), 502, "upstream-broken"),
        (
            failed(Happened::Maybe, timed_out()),
            504,
            "upstream-timeout",
        ),
        (in_doubt(true, timed_out()), 504, "upstream-timeout"),
    ] {
        assert_eq!(
            row(&error, false),
            expected(status, code, None),
            "{error:?}"
        );
    }
    // Granted too late to begin: nothing was done.
    let never = failed(Happened::No, "it was never begun");
    assert_eq!(
        row(&never, false),
        expected(503, "store-unavailable", Some("1"))
    );
}

#[test]
fn a_store_that_is_away_is_503_or_lets_pass() {
    use ErrorKind::{Poisoned, Throttled, Timeout, Unavailable};
    let open = Route {
        fail: OnOutage::Open,
        ..Route::default()
    };
    for kind in [Unavailable, Timeout, Throttled, Poisoned] {
        let error = store(kind);
        let (status, code, retry, members) = shown(&Route::default(), &error, false);
        assert_eq!((status, code.as_str()), (503, "store-unavailable"));
        assert!(retry.is_some());
        assert!(!members.to_string().contains("db-1"), "{members}");
        assert!(
            matches!(open.reply(&error, false), Reply::Unprotected),
            "{kind:?}"
        );
    }
    assert_eq!(
        row(&Error::Closed, false),
        expected(503, "store-unavailable", Some("1"))
    );
    // A process that is being stopped, and a key that another request runs: nothing is let pass.
    for (error, status, code) in [
        (Error::Closed, 503, "store-unavailable"),
        (busy(SECOND), 409, "in-progress"),
    ] {
        let (found, found_code, retry, _) = shown(&open, &error, false);
        assert_eq!((found, found_code.as_str()), (status, code));
        assert_eq!(retry.as_deref(), Some("1"));
    }
}

#[test]
fn a_damaged_record_is_never_taken_for_absent() {
    let open = Route {
        fail: OnOutage::Open,
        ..Route::default()
    };
    for route in [Route::default(), open] {
        let (status, code, retry, _) = shown(&route, &store(ErrorKind::Corrupt), false);
        assert_eq!(
            (status, code.as_str(), retry),
            (500, "record-corrupt", None)
        );
        let (status, code, ..) = shown(&route, &store(ErrorKind::Internal), false);
        assert_eq!((status, code.as_str()), (500, "internal"));
    }
}

#[test]
fn an_answer_that_could_not_be_stored_is_held_back_unless_the_route_fails_open() {
    for happened in [Happened::Yes, Happened::Maybe] {
        let (status, code, retry, members) = shown(&Route::default(), &unrecorded(happened), true);
        assert_eq!((status, code.as_str()), (500, "outcome-unrecorded"));
        assert_eq!(retry.as_deref(), Some("1"));
        // Nobody knows what becomes of it: the report may still come through.
        assert_eq!(members["certainty"], "maybe_applied");
    }
    let (status, code, _, members) = shown(&Route::default(), &unrecorded(Happened::No), true);
    assert_eq!((status, code.as_str()), (503, "store-unavailable"));
    assert_eq!(members["certainty"], "not_applied");
    let open = Route {
        fail: OnOutage::Open,
        ..Route::default()
    };
    assert!(matches!(
        open.reply(&unrecorded(Happened::Yes), true),
        Reply::Unprotected
    ));
    assert!(matches!(
        open.reply(&unrecorded(Happened::Yes), false),
        Reply::Problem(_)
    ));
}

#[test]
fn a_lost_claim_leaves_the_answer_to_its_successor() {
    let lost = Error::ClaimLost {
        operation_id: ID,
        found: None,
    };
    assert_eq!(row(&lost, true), expected(409, "claim-lost", Some("1")));
}

#[test]
fn an_answer_that_was_not_kept_is_410_and_names_its_status() {
    for (unkept, code) in [
        (Unkept::TooLarge, "answer-too-large"),
        (Unkept::Streamed, "answer-streamed"),
    ] {
        let problem = unkept_answer(unkept, StatusCode::CREATED, ID);
        assert_eq!((problem.status().as_u16(), problem.code()), (410, code));
        let members = serde_json::to_value(&problem).expect("it");
        assert_eq!(members["original_status"], 201);
        assert_eq!(members["operation_id"], ID.to_string());
    }
    let unreadable = |source| Error::Unreadable {
        operation_id: ID,
        source,
    };
    let too_large = unreadable(Unreadable::TooLarge {
        len_bytes: 5,
        digest: [0; 32],
    });
    assert_eq!(
        row(&too_large, false),
        expected(410, "answer-too-large", None)
    );
    let other = unreadable(Unreadable::Other {
        found: "a".into(),
        wanted: "b".into(),
    });
    assert_eq!(
        row(&other, false),
        expected(500, "outcome-unreadable", None)
    );
    let broken = unreadable(Unreadable::Broken {
        wanted: "a".into(),
        why: "b".into(),
    });
    assert_eq!(row(&broken, false), expected(500, "record-corrupt", None));
}

#[test]
fn stripe_has_its_own_status_and_its_own_member() {
    let stripe = Route {
        mode: Mode::Stripe,
        ..Route::default()
    };
    let (status, code, _, members) = shown(&stripe, &conflict(), false);
    assert_eq!((status, code.as_str()), (400, "key-reused"));
    assert_eq!(members["error"]["type"], "idempotency_error");
    let (status, code, retry, members) = shown(&stripe, &busy(SECOND), false);
    assert_eq!(
        (status, code.as_str(), retry.as_deref()),
        (409, "in-progress", Some("1"))
    );
    assert_eq!(members["error"]["code"], "idempotency_key_in_use");
    assert_eq!(members["error"]["message"], members["detail"]);
}
