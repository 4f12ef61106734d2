//! The rows of `operate` and `sweep`.

use super::*;
use crate::claim::Admission;
use crate::decide::{self, Directed, Order, Refusal, Verdict};
use crate::record::StateKind;

#[test]
fn every_order_about_nothing_is_refused() {
    let forgotten = record(completed(NOW.minus(Duration::from_secs(91))));
    for order in every_order() {
        for record in [None, Some(&forgotten)] {
            let decision = decide::operate(record, None, &order, NOW);
            assert!(
                matches!(decision.answer, Directed::Refused(Refusal::Absent)),
                "{order:?}"
            );
            unchanged(&decision);
        }
    }
}

#[test]
fn resolved_as_applied_is_completed_with_the_verdicts_outcome() {
    let after = ordered(in_doubt(EARLIER), applied(), StateKind::Completed);
    assert_eq!(
        (after.state, after.outcome),
        (completed(NOW), Some(outcome("seen")))
    );
    assert_eq!((after.doubt, after.attempts), (None, 1));
}

#[test]
fn resolved_as_not_applied_is_released_once_it_was_quiet() {
    let quiet = Duration::from_secs(60);
    let order = not_applied(quiet);
    let after = ordered(
        in_doubt(NOW.minus(quiet)),
        order.clone(),
        StateKind::Released,
    );
    assert_eq!((after.state, after.doubt), (released(NOW), None));
    assert_eq!(
        (after.attempts, after.vanished),
        (0, 0),
        "attempts are counted anew"
    );
    let until = LATER;
    refused(
        record(in_doubt(LATER.minus(quiet))),
        &order,
        Refusal::NotQuiet { until },
    );
}

#[test]
fn a_verdict_is_as_old_as_its_evidence() {
    let quiet = Duration::from_secs(60);
    let asked = |asked| {
        Order::Resolve(Verdict::NotApplied {
            quiet,
            asked: Some(asked),
        })
    };
    let since = NOW.minus(quiet * 2);
    let until = since.plus(quiet);
    let early = asked(until.minus(Duration::from_millis(1)));
    refused(record(in_doubt(since)), &early, Refusal::NotQuiet { until });
    ordered(in_doubt(since), asked(until), StateKind::Released);
    // A time that has not come is no evidence.
    let until = LATER;
    let doubt = record(in_doubt(LATER.minus(quiet)));
    refused(doubt, &asked(LATER), Refusal::NotQuiet { until });
}

#[test]
fn resolved_as_abandoned_is_dead() {
    let after = ordered(in_doubt(EARLIER), abandon(), StateKind::Dead);
    assert_eq!((after.state, after.doubt), (dead(NOW), None));
}

#[test]
fn anything_but_a_doubt_cannot_be_resolved() {
    for state in every_state() {
        for order in [applied(), not_applied(Duration::ZERO), abandon()] {
            if state.kind() != StateKind::InDoubt {
                refused(record(state), &order, Refusal::State(state.kind()));
            }
        }
    }
}

#[test]
fn a_verdict_of_applied_raises_the_version() {
    let before = Record {
        gate: Some(gate(5)),
        ..record(in_doubt(EARLIER))
    };
    for (known, expected) in [(None, 5), (Some(3), 5), (Some(7), 7)] {
        let known = entity(known, None);
        let decision = decide::operate(Some(&before), Some(&known), &applied(), NOW);
        assert_eq!(decision.entity, Some(entity(Some(expected), None)));
    }
    let known = entity(Some(3), None);
    for order in [not_applied(Duration::ZERO), abandon()] {
        let decision = decide::operate(Some(&before), Some(&known), &order, NOW);
        assert_eq!(decision.entity.and_then(|entity| entity.applied), Some(3));
    }
}

#[test]
fn requeued_is_released_with_attempts_counted_anew() {
    let after = ordered(dead(EARLIER), Order::Requeue, StateKind::Released);
    assert_eq!(
        (after.state, after.attempts, after.vanished),
        (released(NOW), 0, 0)
    );
}

#[test]
fn a_retry_keeps_the_doubt_and_its_first_start_and_counts_attempts_anew() {
    for doubt in [Recovery::Rerun, Recovery::RerunWithin(WINDOW.duration())] {
        let before = Record {
            vanished: 1,
            doubt: Some(doubt),
            first_started_at: Some(EARLIER),
            possible_repeats: 2,
            last_error: Some("no answer".into()),
            ..record(in_doubt(EARLIER))
        };
        let decision = decide::operate(Some(&before), None, &Order::Retry, NOW);
        assert!(matches!(
            decision.answer,
            Directed::Now(Some(StateKind::Released))
        ));
        let expected = Record {
            state: released(NOW),
            attempts: 0,
            vanished: 0,
            ..before
        };
        assert_eq!(written(&decision), &expected);
        // The very next claim is granted, and is in doubt again when it vanishes again.
        let next = decide::claim(Some(&expected), None, &request(OTHER), NOW, NEW_TOKEN);
        let is_repeat = doubt == Recovery::Rerun;
        assert!(
            matches!(&next.answer, Admission::Granted(claim)
                if claim.possible_repeat == is_repeat && claim.first_started_at == Some(EARLIER)),
            "{:?}",
            next.answer
        );
        assert_eq!(written(&next).doubt, Some(doubt));
    }
}

#[test]
fn a_retry_past_the_providers_window_or_of_a_park_is_refused() {
    let first = NOW.minus(WINDOW.duration());
    let millisecond = Duration::from_millis(1);
    let within = Recovery::RerunWithin(WINDOW.duration());
    for (doubt, first_started_at, is_carried_out) in [
        (within, first.plus(millisecond), true),
        (within, first, false),
        (Recovery::Park, NOW, false),
    ] {
        let before = Record {
            doubt: Some(doubt),
            first_started_at: Some(first_started_at),
            ..record(in_doubt(first_started_at))
        };
        if is_carried_out {
            let decision = decide::operate(Some(&before), None, &Order::Retry, NOW);
            assert_eq!(written(&decision).state, released(NOW));
        } else {
            refused(before, &Order::Retry, Refusal::State(StateKind::InDoubt));
        }
    }
}

#[test]
fn anything_but_a_doubt_cannot_be_retried() {
    for state in every_state() {
        if state.kind() != StateKind::InDoubt {
            refused(record(state), &Order::Retry, Refusal::State(state.kind()));
        }
    }
}

#[test]
fn anything_but_the_dead_cannot_be_requeued() {
    for state in every_state() {
        if state.kind() != StateKind::Dead {
            refused(record(state), &Order::Requeue, Refusal::State(state.kind()));
        }
    }
}

#[test]
fn a_release_ends_the_wait_now_and_changes_nothing_else() {
    let park = Recovery::Park;
    for (state, ended) in [
        (claimed(LATER), claimed(NOW)),
        (started(LATER, park), started(NOW, park)),
        (released(LATER), released(NOW)),
        (claimed(EARLIER), claimed(EARLIER)),
        (started(EARLIER, park), started(EARLIER, park)),
        (released(EARLIER), released(EARLIER)),
    ] {
        let before = Record {
            doubt: Some(Recovery::Rerun),
            held: true,
            last_error: Some("earlier".into()),
            ..record(state)
        };
        let decision = decide::operate(Some(&before), None, &Order::Release, NOW);
        let kind = state.kind();
        assert!(matches!(decision.answer, Directed::Now(Some(now)) if now == kind));
        let expected = Record {
            state: ended,
            ..before
        };
        assert_eq!((written(&decision), &decision.entity), (&expected, &None));
    }
}

#[test]
fn a_release_ends_the_hold_of_its_own_claim_on_the_entity() {
    for state in [claimed(LATER), started(LATER, Recovery::Rerun)] {
        let before = Record {
            gate: Some(gate(5)),
            ..record(state)
        };
        let held = |until| entity(Some(3), Some((MINE, until)));
        let release = |known: Option<EntityRecord>| {
            decide::operate(Some(&before), known.as_ref(), &Order::Release, NOW).entity
        };
        assert_eq!(release(Some(held(LATER))), Some(held(NOW)));
        assert_eq!(release(Some(held(EARLIER))), Some(held(EARLIER)));
        for known in [entity(Some(3), Some((OTHER, LATER))), entity(Some(3), None)] {
            assert_eq!(release(Some(known)), None, "it is not its own");
        }
        assert_eq!(release(None), None);
    }
}

#[test]
fn what_nobody_waits_for_cannot_be_released() {
    for state in [completed(NOW), dead(NOW), in_doubt(EARLIER)] {
        refused(record(state), &Order::Release, Refusal::State(state.kind()));
    }
}

#[test]
fn holding_changes_the_hold_and_nothing_else() {
    for state in every_state() {
        let before = Record {
            doubt: Some(Recovery::Rerun),
            ..record(state)
        };
        let decision = decide::operate(Some(&before), None, &Order::Hold(true), NOW);
        assert_eq!(
            *written(&decision),
            Record {
                held: true,
                ..before
            }
        );
    }
}

#[test]
fn holding_what_is_held_already_changes_nothing() {
    for held in [true, false] {
        let before = Record {
            held,
            ..record(dead(NOW))
        };
        let decision = decide::operate(Some(&before), None, &Order::Hold(held), NOW);
        assert!(matches!(
            decision.answer,
            Directed::Now(Some(StateKind::Dead))
        ));
        unchanged(&decision);
    }
}

#[test]
fn finished_and_released_can_be_forgotten() {
    for state in [completed(NOW), dead(NOW), released(NOW)] {
        let decision = decide::operate(Some(&record(state)), None, &Order::Forget, NOW);
        assert!(matches!(decision.answer, Directed::Now(None)));
        assert_eq!(decision.change, Change::Remove);
    }
}

#[test]
fn a_window_is_made_longer_and_nothing_else() {
    for finished in [completed, dead] {
        let before = Record {
            past: vec![],
            ..record(finished(EARLIER))
        };
        let longer = WINDOW.duration() * 2;
        let decision = decide::operate(Some(&before), None, &Order::Extend(longer), NOW);
        let after = written(&decision);
        let expected = WINDOW.resized(longer).expires_at(EARLIER);
        assert_eq!(after.expires_at(), Some(expected));
        let state = before.state;
        assert_eq!(
            Record {
                state,
                ..after.clone()
            },
            before
        );
    }
}

#[test]
fn no_order_makes_a_window_shorter() {
    for shorter in [Duration::ZERO, WINDOW.duration() / 2, WINDOW.duration()] {
        for state in [completed(EARLIER), dead(EARLIER)] {
            let order = Order::Extend(shorter);
            let decision = decide::operate(Some(&record(state)), None, &order, NOW);
            let now = matches!(decision.answer, Directed::Now(Some(kind)) if kind == state.kind());
            assert!(now, "{:?}", decision.answer);
            unchanged(&decision);
        }
    }
}

#[test]
fn what_has_not_finished_has_no_window_to_make_longer() {
    for state in [
        claimed(EARLIER),
        started(EARLIER, Recovery::Park),
        released(NOW),
        in_doubt(EARLIER),
    ] {
        let order = Order::Extend(WINDOW.duration() * 2);
        refused(record(state), &order, Refusal::State(state.kind()));
    }
}

#[test]
fn running_and_doubtful_cannot_be_forgotten() {
    for state in [
        claimed(EARLIER),
        started(EARLIER, Recovery::Park),
        in_doubt(EARLIER),
    ] {
        refused(record(state), &Order::Forget, Refusal::State(state.kind()));
    }
}

#[test]
fn a_sweep_removes_the_finished_at_the_end_of_their_window() {
    let end = NOW.minus(WINDOW.duration());
    for finished in [completed, dead] {
        assert_eq!(decide::sweep(&record(finished(end)), NOW), Change::Remove);
        let later = end.plus(Duration::from_millis(1));
        assert_eq!(decide::sweep(&record(finished(later)), NOW), Change::Keep);
        let held = Record {
            held: true,
            ..record(finished(end))
        };
        assert_eq!(decide::sweep(&held, NOW), Change::Keep);
    }
}

#[test]
fn a_sweep_never_removes_the_unresolved() {
    for state in [
        claimed(Timestamp::EPOCH),
        started(Timestamp::EPOCH, Recovery::Rerun),
        started(Timestamp::EPOCH, Recovery::RerunWithin(Duration::ZERO)),
        released(Timestamp::EPOCH),
        in_doubt(Timestamp::EPOCH),
    ] {
        assert_eq!(
            decide::sweep(&record(state), NOW),
            Change::Keep,
            "{state:?}"
        );
    }
}

#[test]
fn a_sweep_brings_a_vanished_park_to_light() {
    let park = |lease_until| record(started(lease_until, Recovery::Park));
    assert_eq!(decide::sweep(&park(LATER), NOW), Change::Keep);
    let Change::Put(after) = decide::sweep(&park(NOW), NOW) else {
        panic!("it is found")
    };
    assert_eq!((after.state, after.claim_id), (in_doubt(NOW), MINE));
    assert_eq!((after.vanished, after.doubt), (1, Some(Recovery::Park)));
}

fn applied() -> Order {
    Order::Resolve(Verdict::Applied {
        outcome: outcome("seen"),
        window: WINDOW,
    })
}

fn not_applied(quiet: Duration) -> Order {
    Order::Resolve(Verdict::NotApplied { quiet, asked: None })
}

fn abandon() -> Order {
    Order::Resolve(Verdict::Abandon { window: WINDOW })
}

#[test]
fn what_was_quiet_for_the_default_window_is_abandoned_from_that_very_moment() {
    let millisecond = Duration::from_millis(1);
    let now = NOW.plus(Duration::from_secs(30 * 86_400));
    let quiet = decide::quiet_before(now);
    for (since, expected) in [(quiet, true), (quiet.plus(millisecond), false)] {
        let claimed = State::Claimed { lease_until: since };
        let released = State::Released { not_before: since };
        assert_eq!(decide::is_abandoned(&record(claimed), now), expected);
        assert_eq!(decide::is_abandoned(&record(released), now), expected);
    }
    for state in [in_doubt(Timestamp::EPOCH), completed(Timestamp::EPOCH)] {
        assert!(!decide::is_abandoned(&record(state), now), "{state:?}");
    }
}

fn every_order() -> [Order; 10] {
    [
        applied(),
        not_applied(Duration::ZERO),
        abandon(),
        Order::Release,
        Order::Requeue,
        Order::Retry,
        Order::Hold(true),
        Order::Hold(false),
        Order::Forget,
        Order::Extend(WINDOW.duration() * 2),
    ]
}

/// Checks that the order is carried out; returns the record after it.
fn ordered(state: State, order: Order, expected: StateKind) -> Record {
    let before = Record {
        vanished: 1,
        doubt: Some(Recovery::Park),
        ..record(state)
    };
    let decision = decide::operate(Some(&before), None, &order, NOW);
    let now = matches!(decision.answer, Directed::Now(Some(kind)) if kind == expected);
    assert!(now, "{order:?}: {:?}", decision.answer);
    written(&decision).clone()
}

fn refused(before: Record, order: &Order, expected: Refusal) {
    let decision = decide::operate(Some(&before), None, order, NOW);
    let refused = matches!(decision.answer, Directed::Refused(refusal) if refusal == expected);
    assert!(refused, "{order:?} on {before:?}: {:?}", decision.answer);
    unchanged(&decision);
}
