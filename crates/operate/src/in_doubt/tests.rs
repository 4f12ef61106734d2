use super::*;
use crate::samples::{EARLIER, NOW, operation, record};

const WINDOW: Window = Window::DEFAULT;
const LONG_AGO: Timestamp = Timestamp::EPOCH;

fn doubt(state: State, has_message: bool) -> Doubt {
    Doubt {
        operation: operation(),
        record: record(state),
        has_message,
    }
}

fn words() -> [Word; 3] {
    [
        Word::Applied(Bytes::from_static(b"ok")),
        Word::NotApplied(None),
        Word::Abandon,
    ]
}

#[test]
fn a_word_leads_to_a_state_and_says_what_becomes_of_the_message() {
    let state = State::InDoubt { since: LONG_AGO };
    let found = words().map(|word| {
        let case = Case::new(doubt(state, true), &word, None);
        assert_eq!(case.obstacle(NOW), None, "{word:?}");
        let without = Case::new(doubt(state, false), &word, None);
        assert_eq!(without.message(), MessageFate::None);
        (case.leads_to(), case.message())
    });
    assert_eq!(
        found,
        [
            (StateKind::Completed, MessageFate::Dropped),
            (StateKind::Released, MessageFate::Kept),
            (StateKind::Dead, MessageFate::DeadLetter),
        ]
    );
}

#[test]
fn not_applied_waits_until_no_call_can_land() {
    let state = State::InDoubt { since: EARLIER };
    let [applied, _, abandon] = words();
    for (word, obstacle) in [
        (applied, None),
        (abandon, None),
        (
            Word::NotApplied(None),
            Some(EARLIER.plus(Duration::from_secs(60))),
        ),
        (
            Word::NotApplied(Some(Duration::from_millis(2))),
            Some(EARLIER.plus(Duration::from_millis(2))),
        ),
        (Word::NotApplied(Some(Duration::from_millis(1))), None),
    ] {
        let case = Case::new(doubt(state, true), &word, None);
        let obstacle = obstacle.map(|until| Obstacle::NotQuiet { until });
        assert_eq!(case.obstacle(NOW), obstacle, "{word:?}");
    }
}

#[test]
fn what_an_interrupted_word_left_over_is_resolved_with_the_same_word_alone() {
    let completed = State::Completed {
        at: EARLIER,
        window: WINDOW,
    };
    let [applied, not_applied, abandon] = words();
    let case = |word, has_message| Case::new(doubt(completed, has_message), word, None);
    assert_eq!(case(&applied, true).obstacle(NOW), None);
    assert!(case(&applied, true).is_left_over());
    for case in [
        case(&applied, false),
        case(&not_applied, true),
        case(&abandon, true),
    ] {
        let Some(Obstacle::NotInDoubt { state, next }) = case.obstacle(NOW) else {
            panic!("{case:?}");
        };
        assert_eq!(state, StateKind::Completed);
        assert_eq!(next, Action::new(ActionKind::Explain, operation()));
    }
    let released = State::Released {
        not_before: EARLIER,
    };
    let case = Case::new(doubt(released, true), &not_applied, None);
    assert!(!case.is_left_over(), "its message is where it belongs");
}

#[test]
fn only_what_bears_a_repeat_is_tried_again() {
    let state = State::InDoubt { since: LONG_AGO };
    let mut parked = doubt(state, true);
    parked.record.doubt = Some(semel_core::Recovery::Park);
    let Some(Obstacle::Unretried { next, .. }) = parked.unretried(NOW) else {
        panic!("{parked:?}");
    };
    assert_eq!(next, Action::new(ActionKind::Resolve, operation()));
    let mut borne = doubt(state, true);
    borne.record.doubt = Some(semel_core::Recovery::Rerun);
    assert_eq!(borne.unretried(NOW), None);
    let dead = State::Dead {
        at: EARLIER,
        window: WINDOW,
    };
    let told = doubt(dead, true).unretried(NOW);
    let json = serde_json::to_value(told).expect("JSON");
    assert_eq!(json["obstacle"], "not_in_doubt");
    assert_eq!(json["state"], "dead");
    assert_eq!(json["next"]["action"], "explain");
}

#[test]
fn what_was_resolved_is_a_row_with_names_that_stay() {
    let state = State::InDoubt { since: LONG_AGO };
    let case = Case::new(doubt(state, true), &Word::Abandon, None);
    let id = operation().id();
    assert_eq!(
        serde_json::to_string(&Resolved::of(&case)).expect("JSON"),
        format!(
            r#"{{"key":"pay-1","operation_id":"{id}","pipeline":"payments","before":"in_doubt","after":"dead","message":"dead_letter"}}"#
        )
    );
}
