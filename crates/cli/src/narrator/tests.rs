use semel_core::{Error, ErrorKind, Key, Operation, Scope};

use super::*;

fn operation() -> Operation {
    let scope = Scope::new("", "payments").expect("a scope");
    Operation::new(scope, Key::from(1))
}

fn json(event: &Event<'_>, origin: Option<Origin<'_>>) -> String {
    let decision = Decision::of("payments", event, origin).expect("a decision");
    serde_json::to_string(&decision).expect("JSON")
}

#[test]
fn a_decision_is_logged_with_key_correlation_and_outcome() {
    let operation = operation();
    let headers = [
        ("X-Request-Id".into(), b"request-7".as_slice().into()),
        ("TraceParent".into(), b"00-ab-cd-01".as_slice().into()),
    ];
    let event = Event::Replayed {
        operation: &operation,
        duplicate: Duplicate::Republish,
    };
    let id = operation.id();
    assert_eq!(
        json(&event, Some(Origin::new("orders:0:17", &headers))),
        format!(
            "{{\"pipeline\":\"payments\",\"decision\":\"replayed\",\"operation_id\":\"{id}\",\
             \"key\":\"json:1\",\"coordinates\":\"orders:0:17\",\"correlation_id\":\"00-ab-cd-01\",\
             \"duplicate\":\"republish\",\
             \"message\":\"duplicate of something done: skipped\"}}"
        )
    );
    let without = json(&event, Some(Origin::new("orders:0:17", &headers[..1])));
    assert!(
        without.contains("\"correlation_id\":\"request-7\""),
        "{without}"
    );
    assert!(!json(&event, None).contains("correlation_id"));
}

#[test]
fn text_never_shows_a_key() {
    let scope = Scope::new("", "payments").expect("a scope");
    let operation = Operation::new(scope, Key::new("alice@example.org").expect("a key"));
    let events = [
        Event::Completed {
            operation: &operation,
        },
        Event::Replayed {
            operation: &operation,
            duplicate: Duplicate::Unknown,
        },
        Event::Busy {
            operation: &operation,
            wait: Duration::ZERO,
        },
        Event::Conflicted {
            operation: &operation,
            coordinates: "in:1",
            duplicate: Duplicate::Unknown,
        },
        Event::Stale {
            operation: &operation,
            applied: 7,
        },
        Event::TooOld {
            operation: &operation,
            coordinates: "in:1",
        },
        Event::Released {
            operation: &operation,
            error: "no",
            wait: Duration::ZERO,
        },
        Event::Dead {
            operation: &operation,
            coordinates: "in:1",
            error: "no",
        },
        Event::InDoubt {
            operation: &operation,
            coordinates: "in:1",
        },
        Event::Parked {
            operation: &operation,
            coordinates: "in:1",
            state: StateKind::Dead,
        },
    ];
    for event in &events {
        let decision = Decision::of("payments", event, None).expect("a decision");
        assert!(!decision.text().contains("alice"), "{event:?}");
        assert!(!decision.text().is_empty(), "{event:?}");
        assert!(!json(event, None).contains("\"message\":\"\""), "{event:?}");
        assert!(
            json(event, None).contains("\"key\":\"alice@example.org\""),
            "{event:?}"
        );
    }
}

#[test]
fn a_decision_about_no_message_has_words_too() {
    let error = Error::new(ErrorKind::Unavailable, "gone");
    let wait = Duration::ZERO;
    let events = [
        Event::SourceAway { error: &error },
        Event::Elsewhere {
            deliveries: 3,
            within: wait,
        },
        Event::StoreFailed {
            error: &error,
            wait,
        },
        Event::BreakerOpened {
            error: &error,
            wait,
        },
        Event::BreakerClosed { lasted: wait },
        Event::TargetAway {
            error: &error,
            wait,
        },
        Event::DeadLetterRefused {
            coordinates: "in:1",
            error: &error,
        },
        Event::Revoked {
            deliveries: 2,
            given_back: 1,
        },
    ];
    for event in &events {
        assert!(!json(event, None).contains("\"message\":\"\""), "{event:?}");
    }
}

#[test]
fn housekeeping_is_no_decision() {
    for event in [
        Event::Renewed { count: 3 },
        Event::Swept {
            removed: 1,
            doubted: 0,
        },
    ] {
        assert!(Decision::of("payments", &event, None).is_none());
    }
}
