use semel_core::{StateKind, Window};

use super::*;
use crate::samples::{EARLIER, LATER, NOW, operation, record};

const WINDOW: Window = Window::new(Duration::from_secs(80));

fn states() -> Vec<State> {
    let recovery = Recovery::Park;
    let at = EARLIER;
    vec![
        State::Claimed { lease_until: LATER },
        State::Claimed { lease_until: NOW },
        State::Started {
            lease_until: LATER,
            recovery,
        },
        State::Started {
            lease_until: NOW,
            recovery,
        },
        State::Released { not_before: LATER },
        State::Released { not_before: NOW },
        State::Completed { at, window: WINDOW },
        State::Dead { at, window: WINDOW },
        State::InDoubt { since: at },
    ]
}

fn propose(change: KeyChange, state: State, is_left_alone: bool) -> Proposal {
    propose_of(Arrival::Delivery, change, state, is_left_alone)
}

fn propose_of(arrival: Arrival, change: KeyChange, state: State, is_left_alone: bool) -> Proposal {
    change.propose(Seen {
        operation: &operation(),
        record: &record(state),
        now: NOW,
        is_left_alone,
        arrival,
    })
}

/// A proposal in a word: the name of its order, and the action that its remark or advice names.
fn word(proposal: &Proposal) -> String {
    let action = |advice: Option<&Advice>| {
        let Some(action) = advice.and_then(|it| it.action.as_ref()) else {
            return String::new();
        };
        let json = serde_json::to_value(action).expect("JSON");
        format!(", {}", json["action"].as_str().unwrap_or_default())
    };
    match proposal {
        Proposal::Do { order, remark } => format!("{}{}", order.action(), action(remark.as_ref())),
        Proposal::Already { .. } => "already".to_owned(),
        Proposal::Refuse { advice } => format!("refused{}", action(Some(advice))),
    }
}

fn words(change: KeyChange) -> Vec<String> {
    let states = states().into_iter();
    states
        .map(|state| word(&propose(change, state, false)))
        .collect()
}

#[test]
fn each_state_has_a_proposal_of_each_change() {
    assert_eq!(
        words(KeyChange::Release),
        [
            "release",
            "already",
            "release",
            "already",
            "release",
            "already",
            "refused, forget",
            "requeue, replay",
            "refused, explain"
        ]
    );
    assert_eq!(
        words(KeyChange::Forget),
        [
            "refused, release",
            "refused, explain",
            "refused, release",
            "refused, explain",
            "forget",
            "forget",
            "forget",
            "forget",
            "refused, explain"
        ]
    );
    assert_eq!(words(KeyChange::Hold(true)), ["hold"; 9]);
    assert_eq!(words(KeyChange::Hold(false)), ["already"; 9]);
    let longer = words(KeyChange::Extend(WINDOW.duration() * 2));
    assert_eq!(longer[..6], ["refused"; 6]);
    assert_eq!(longer[6..], ["extend", "extend", "refused, explain"]);
    let same = words(KeyChange::Extend(WINDOW.duration()));
    assert_eq!(same[6..], ["already", "already", "refused, explain"]);
}

#[test]
fn a_lease_in_files_that_nobody_has_open_is_left_to_its_end() {
    for state in states() {
        let is_running = matches!(state.kind(), StateKind::Claimed | StateKind::Started);
        let alone = word(&propose(KeyChange::Release, state, true));
        if is_running {
            assert_eq!(alone, "already", "{state:?}");
        } else {
            assert_eq!(alone, word(&propose(KeyChange::Release, state, false)));
        }
    }
}

#[test]
fn a_proposal_is_data() {
    let completed = State::Completed {
        at: EARLIER,
        window: WINDOW,
    };
    let json = |change| serde_json::to_value(propose(change, completed, false)).expect("JSON");
    let refused = json(KeyChange::Release);
    assert_eq!(refused["proposal"], "refuse");
    assert_eq!(refused["advice"]["action"]["action"], "forget");
    let text = refused["advice"]["text"].as_str().unwrap_or_default();
    assert!(!text.contains("semel"), "no command: {text}");
    let forget = json(KeyChange::Forget);
    assert_eq!(
        (&forget["proposal"], &forget["order"]),
        (&"do".into(), &"forget".into())
    );
}

#[test]
fn of_a_key_that_clients_claim_no_message_and_no_worker_is_told() {
    for change in [
        KeyChange::Release,
        KeyChange::Forget,
        KeyChange::Hold(true),
        KeyChange::Extend(WINDOW.duration()),
    ] {
        for state in states() {
            // Nobody who opens the store ends the lease of a client.
            let proposal = propose_of(Arrival::Claim, change, state, true);
            let told = format!("{proposal:?}").to_lowercase();
            for word in [
                "message", "deliver", "worker", "pipeline", "opens it", "replay",
            ] {
                assert!(!told.contains(word), "{word}: {state:?}: {told}");
            }
            let of_worker = propose_of(Arrival::Delivery, change, state, false);
            let kind = |it: &Proposal| word(it).split(',').next().map(str::to_owned);
            assert_eq!(kind(&proposal), kind(&of_worker), "{state:?}");
        }
    }
}
