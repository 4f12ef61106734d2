use semel_core::{Error, ErrorKind, Key, Operation, Scope};

use semel_engine::system::SystemClock;

use super::*;

/// Prints nothing.
struct Nobody;

impl LogWriter for Nobody {
    fn text(&self, _: Level, _: &str) {}

    fn object(&self, _: Level, _: &Decision<'_>) {}
}

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
fn text_shows_a_key_only_where_somebody_has_to_look() {
    let scope = Scope::new("", "payments").expect("a scope");
    let operation = Operation::new(scope, Key::new("alice@example.org").expect("a key"));
    let events = [
        Event::Completed {
            operation: &operation,
            takeover: false,
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
            differing: &semel_core::Differing::NotKept,
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
        Event::Parked {
            operation: &operation,
            coordinates: "in:1",
            state: StateKind::Dead,
        },
        Event::OutcomeDiffers {
            operation: &operation,
        },
        Event::Dead {
            operation: &operation,
            coordinates: "in:1",
            error: "no",
        },
        Event::InDoubt {
            operation: &operation,
            coordinates: "in:1",
            error: "no",
        },
        Event::Parked {
            operation: &operation,
            coordinates: "in:1",
            state: StateKind::InDoubt,
        },
    ];
    for (at, event) in events.iter().enumerate() {
        let decision = Decision::of("payments", event, None).expect("a decision");
        let is_shown = decision.text().contains("alice");
        assert_eq!(is_shown, at >= 9, "{event:?}");
        assert!(!decision.text().is_empty(), "{event:?}");
        assert!(!json(event, None).contains("\"message\":\"\""), "{event:?}");
        assert!(
            json(event, None).contains("\"key\":\"alice@example.org\""),
            "{event:?}"
        );
    }
}

#[test]
fn a_decision_about_a_claim_names_no_place() {
    let operation = &operation();
    let coordinates = "";
    let error = "declined";
    for (event, text) in [
        (
            Event::Dead {
                operation,
                coordinates,
                error,
            },
            "dead: declined (key 1, ",
        ),
        (
            Event::InDoubt {
                operation,
                coordinates,
                error,
            },
            "in doubt: nobody knows whether it happened: declined (key 1, ",
        ),
        (
            Event::Parked {
                operation,
                coordinates,
                state: StateKind::InDoubt,
            },
            "in doubt: the operation was claimed once more (key 1, ",
        ),
        (
            Event::TooOld {
                operation,
                coordinates,
            },
            "refused: no record, and older than the window [too-old]",
        ),
    ] {
        let decision = Decision::of("payments", &event, None).expect("a decision");
        assert!(decision.text().starts_with(text), "{}", decision.text());
        let json = json(&event, None);
        for word in ["coordinates", "quarantined", "dead letter", "kept"] {
            assert!(!json.contains(word), "{word}: {json}");
        }
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
        Event::SourceBack { lasted: wait },
        Event::TargetBack { lasted: wait },
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
        Event::Renewed { count: 3, lost: 0 },
        Event::Swept {
            removed: 1,
            doubted: 0,
        },
    ] {
        assert!(Decision::of("payments", &event, None).is_none());
    }
}

#[test]
fn what_is_set_aside_is_told_with_its_reason_its_key_as_json_and_the_beginning_of_its_id() {
    let scope = || Scope::new("", "payments").expect("a scope");
    for (key, literal) in [
        (Key::new("say \"hi\"").expect("a key"), r#""say \"hi\"""#),
        (Key::from(1), "1"),
    ] {
        let operation = Operation::new(scope(), key);
        let id = operation.id().to_string();
        let named = format!("(key {literal}, operation {})", &id[..8]);
        let dead = Event::Dead {
            operation: &operation,
            coordinates: "in:1",
            error: "exit code 3: declined",
        };
        let doubt = Event::InDoubt {
            operation: &operation,
            coordinates: "in:1",
            error: "no answer in 1s",
        };
        for (event, expected) in [
            (&dead, format!("dead: in:1: exit code 3: declined {named}")),
            (
                &doubt,
                format!("in doubt: nobody knows whether in:1 happened: no answer in 1s {named}"),
            ),
        ] {
            let decision = Decision::of("payments", event, None).expect("a decision");
            assert_eq!(decision.text(), expected);
        }
        assert!(json(&doubt, None).contains("\"error\":\"no answer in 1s\""));
    }
}

#[test]
fn a_store_that_answers_again_is_good_news() {
    let event = Event::BreakerClosed {
        lasted: Duration::from_secs(1),
    };
    let decision = Decision::of("payments", &event, None).expect("a decision");
    assert_eq!(decision.level(), Level::Info);
}

#[test]
fn an_outage_is_told_once_and_so_is_its_end() {
    let clock = Arc::new(SystemClock::new());
    let log = EventLog::new(Arc::new(Nobody), Form::Off, Verbosity::Attention, clock);
    let error = Error::new(ErrorKind::Unavailable, "gone");
    let full = Error::new(ErrorKind::Unavailable, "full").with_code(Code::TargetUnavailable);
    let busy = Error::new(ErrorKind::Throttled, "busy");
    let (wait, lasted) = (Duration::ZERO, Duration::from_secs(8));
    let cause = Pause::TargetAway;
    let told = |pipeline: &str, event: Event<'_>| log.is_news(pipeline, &event);
    let (away, back) = (
        || Event::SourceAway { error: &error },
        || Event::SourceBack { lasted },
    );
    assert!(!told("p", back()), "nobody has heard of it");
    for _ in 0..2 {
        assert!(told("p", away()));
        assert!(!told("p", away()));
        assert!(told("p", back()));
        assert!(!told("p", back()));
    }
    assert!(told("q", away()), "of each pipeline");
    // A probe finds it, a message meets it, and the pipeline that paused reports the end.
    let target = || Event::TargetAway {
        error: &error,
        wait,
    };
    assert!(told("p", target()));
    let paused = || Event::Paused {
        cause,
        error: "gone",
        wait,
    };
    assert!(!told("p", paused()));
    assert!(told("p", Event::Resumed { cause, lasted }));
    assert!(!told("p", Event::TargetBack { lasted }));
    assert!(told("p", paused()));
    // The breaker reports a store; nothing else reports an output, or a store that refuses because of load.
    let failed = |error| Event::StoreFailed { error, wait };
    assert!(!told("q", failed(&error)));
    assert!(told("q", failed(&busy)));
    assert!(told("q", failed(&full)));
    assert!(!told("q", failed(&full)));
    assert_eq!(lasted_text(Duration::from_millis(12_345)), "12 s");
    assert_eq!(lasted_text(Duration::from_millis(8_140)), "8.1 s");
    assert_eq!(lasted_text(Duration::from_millis(340)), "340 ms");
}
