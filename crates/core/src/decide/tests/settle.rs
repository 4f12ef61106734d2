//! The rows of `settle` and `renew`.

use super::*;
use crate::attempt::AttemptEnd;
use crate::decide;
use crate::record::StateKind;
use crate::settle::{Renewal, Renewed, Settled};

#[test]
fn a_start_of_mine_is_started_and_keeps_the_first_start() {
    let decision = settled(
        record(claimed(LATER)),
        start(Recovery::Park),
        StateKind::Started,
    );
    assert_eq!(decision.state, started(LATER, Recovery::Park));
    assert_eq!(decision.first_started_at, Some(NOW));
    let before = Record {
        first_started_at: Some(EARLIER),
        ..record(started(LATER, Recovery::Park))
    };
    let again = settled(before, start(Recovery::Rerun), StateKind::Started);
    assert_eq!(again.state, started(LATER, Recovery::Rerun));
    assert_eq!(again.first_started_at, Some(EARLIER));
}

#[test]
fn a_start_past_the_providers_window_is_fenced() {
    let window = Duration::from_secs(60);
    let within = Recovery::RerunWithin(window);
    let taken_over = |state, first| Record {
        first_started_at: Some(first),
        doubt: Some(within),
        ..record(state)
    };
    for state in [claimed(LATER), started(LATER, within)] {
        let inside = taken_over(state, LATER.minus(window));
        settled(inside, start(within), StateKind::Started);
        let over = taken_over(state, NOW.minus(window));
        let step = settlement(MINE, start(within));
        let decision = decide::settle(Some(&over), None, &step, NOW);
        assert!(matches!(
            decision.answer,
            Settled::Fenced { found: Some(kind) } if kind == state.kind()
        ));
        unchanged(&decision);
        // An effect that began in time counts, whenever it ends.
        settled(over, complete(), StateKind::Completed);
    }
}

#[test]
fn a_lease_that_is_over_does_not_fence_its_own_claim() {
    for state in [claimed(EARLIER), started(EARLIER, Recovery::Park)] {
        settled(record(state), complete(), StateKind::Completed);
    }
}

#[test]
fn a_completion_of_mine_is_completed_with_its_outcome() {
    let before = Record {
        last_error: Some("earlier".into()),
        doubt: Some(Recovery::Rerun),
        ..record(started(LATER, Recovery::Rerun))
    };
    let after = settled(before, complete(), StateKind::Completed);
    assert_eq!(
        (after.state, after.outcome),
        (completed(NOW), Some(outcome("done")))
    );
    assert_eq!((after.last_error, after.doubt), (None, None));
}

#[test]
fn a_completion_of_the_claim_in_doubt_is_late_evidence() {
    let before = Record {
        doubt: Some(Recovery::Park),
        ..record(in_doubt(EARLIER))
    };
    let after = settled(before, complete(), StateKind::Completed);
    assert_eq!((after.state, after.doubt), (completed(NOW), None));
}

#[test]
fn a_decisive_failure_of_the_claim_in_doubt_is_late_evidence() {
    let vanished = |recovery| {
        let mut before = Record {
            doubt: Some(recovery),
            ..record(started(EARLIER, recovery))
        };
        before.remember(EARLIER, AttemptEnd::Vanished, None);
        before.state = in_doubt(EARLIER);
        before
    };
    let within = Recovery::RerunWithin(Duration::from_secs(60));
    for recovery in [within, Recovery::Rerun, Recovery::Park] {
        let before = vanished(recovery);
        let after = settled(before.clone(), fail_decisively(), StateKind::Dead);
        assert_eq!((after.state, after.doubt), (dead(NOW), None));
        let error = after.last_error.as_deref();
        assert_eq!(error, Some("the stored answer: refused"));
        assert_eq!(after.past, before.past, "the attempt has one end");
        // One that speaks for its own attempt alone says nothing of the others.
        let again = settlement(MINE, fail());
        let decision = decide::settle(Some(&before), None, &again, NOW);
        let is_kept = matches!(decision.answer, Settled::Now(StateKind::InDoubt));
        assert!(is_kept, "{:?}", decision.answer);
        unchanged(&decision);
        fenced(Some(before), OTHER, fail_decisively());
    }
}

#[test]
fn a_release_of_mine_is_released_after_its_backoff() {
    for state in [claimed(LATER), started(LATER, Recovery::Park)] {
        let after = settled(record(state), sure(true), StateKind::Released);
        assert_eq!(after.state, released(NOW.plus(Duration::from_secs(5))));
        assert_eq!(
            (after.attempts, after.last_error.as_deref()),
            (1, Some("no answer"))
        );
        assert_eq!(after.doubt, None);
    }
}

#[test]
fn a_release_that_is_not_counted_takes_the_attempt_back() {
    let after = settled(record(claimed(LATER)), sure(false), StateKind::Released);
    assert_eq!(after.attempts, 0);
}

#[test]
fn a_counted_release_at_the_cap_is_dead_an_uncounted_one_is_not() {
    let at = |attempts| Record {
        attempts,
        ..record(claimed(LATER))
    };
    let cap = crate::claim::AttemptLimits::default().failed.get();
    settled(at(cap - 1), sure(true), StateKind::Released);
    let spent = settled(at(cap), sure(true), StateKind::Dead);
    assert_eq!(spent.state, dead(NOW));
    settled(at(cap + 1), sure(false), StateKind::Released);
    let vanished = Record {
        attempts: cap + 2,
        vanished: 3,
        ..record(claimed(LATER))
    };
    settled(vanished, sure(true), StateKind::Released);
}

#[test]
fn an_unsure_release_before_the_start_leaves_no_doubt() {
    let after = settled(record(claimed(LATER)), unsure(), StateKind::Released);
    assert_eq!(after.doubt, None);
}

#[test]
fn an_unsure_release_of_a_park_is_in_doubt() {
    let after = settled(
        record(started(LATER, Recovery::Park)),
        unsure(),
        StateKind::InDoubt,
    );
    assert_eq!(
        (after.state, after.doubt),
        (in_doubt(NOW), Some(Recovery::Park))
    );
}

#[test]
fn an_unsure_release_of_a_rerun_is_released_with_its_doubt() {
    let after = settled(
        record(started(LATER, Recovery::Rerun)),
        unsure(),
        StateKind::Released,
    );
    assert_eq!(after.doubt, Some(Recovery::Rerun));
}

#[test]
fn an_unsure_release_of_a_rerun_at_the_cap_is_in_doubt() {
    let before = Record {
        attempts: 10,
        ..record(started(LATER, Recovery::Rerun))
    };
    settled(before, unsure(), StateKind::InDoubt);
}

#[test]
fn a_sure_release_at_the_cap_after_an_unsure_one_is_in_doubt() {
    let before = Record {
        attempts: 10,
        doubt: Some(Recovery::Rerun),
        ..record(started(LATER, Recovery::Rerun))
    };
    settled(before, sure(true), StateKind::InDoubt);
}

#[test]
fn an_unsure_keyed_release_is_in_doubt_once_the_window_is_over() {
    let window = Duration::from_secs(60);
    let at = |first| Record {
        first_started_at: Some(first),
        ..record(started(LATER, Recovery::RerunWithin(window)))
    };
    settled(at(LATER.minus(window)), unsure(), StateKind::Released);
    settled(at(NOW.minus(window)), unsure(), StateKind::InDoubt);
}

#[test]
fn a_failure_of_mine_is_dead() {
    for state in [claimed(LATER), started(LATER, Recovery::Park)] {
        let after = settled(record(state), fail(), StateKind::Dead);
        assert_eq!(after.last_error.as_deref(), Some("refused"));
    }
}

#[test]
fn a_failure_speaks_for_earlier_attempts_only_where_it_is_decisive() {
    let within = Recovery::RerunWithin(Duration::from_secs(60));
    for doubt in [within, Recovery::Rerun, Recovery::Park] {
        for state in [claimed(LATER), started(LATER, doubt)] {
            let doubted = Record {
                doubt: Some(doubt),
                ..record(state)
            };
            let after = settled(doubted.clone(), fail(), StateKind::InDoubt);
            assert_eq!(after.doubt, Some(doubt), "{doubt:?}");
            assert_eq!(after.last_error.as_deref(), Some("refused"));
            let after = settled(doubted, fail_decisively(), StateKind::Dead);
            assert_eq!(after.doubt, None, "{doubt:?}");
        }
    }
    let after = settled(record(started(LATER, within)), fail(), StateKind::Dead);
    assert_eq!(after.doubt, None, "its own attempt is the first one");
}

#[test]
fn the_same_report_again_changes_nothing() {
    for (state, step) in [
        (completed(NOW), complete()),
        (released(NOW), sure(true)),
        (released(NOW), unsure()),
        (dead(NOW), sure(true)),
        (dead(NOW), fail()),
        (in_doubt(NOW), unsure()),
        (in_doubt(NOW), fail()),
    ] {
        let decision = decide::settle(Some(&record(state)), None, &settlement(MINE, step), NOW);
        let same = matches!(decision.answer, Settled::Now(kind) if kind == state.kind());
        assert!(same, "{state:?}: {:?}", decision.answer);
        unchanged(&decision);
    }
}

#[test]
fn what_my_claim_cannot_do_any_more_is_fenced() {
    for (state, step) in [
        (released(NOW), start(Recovery::Park)),
        (released(NOW), complete()),
        (released(NOW), fail()),
        (completed(NOW), start(Recovery::Park)),
        (completed(NOW), sure(true)),
        (completed(NOW), fail()),
        (dead(NOW), start(Recovery::Park)),
        (dead(NOW), complete()),
        (in_doubt(NOW), start(Recovery::Park)),
    ] {
        fenced(Some(record(state)), MINE, step);
    }
}

#[test]
fn every_step_of_another_claim_is_fenced_in_every_state() {
    for state in every_state() {
        for step in every_step() {
            fenced(Some(record(state)), OTHER, step);
        }
    }
}

#[test]
fn every_step_on_nothing_is_fenced() {
    let forgotten = record(completed(NOW.minus(Duration::from_secs(91))));
    for step in every_step() {
        fenced(None, MINE, step.clone());
        let decision = decide::settle(Some(&forgotten), None, &settlement(MINE, step), NOW);
        assert!(matches!(decision.answer, Settled::Fenced { found: None }));
        unchanged(&decision);
    }
}

#[test]
fn a_completion_raises_the_version_and_frees_the_entity() {
    let held = entity(Some(3), Some((MINE, LATER)));
    let after = settled_gated(claimed(LATER), &held, complete());
    assert_eq!(after, Some(entity(Some(5), None)));
}

#[test]
fn a_late_completion_neither_lowers_the_version_nor_frees_another_claim() {
    let taken = entity(Some(7), Some((OTHER, LATER)));
    let after = settled_gated(claimed(EARLIER), &taken, complete());
    assert_eq!(after, Some(taken));
}

#[test]
fn whatever_else_ends_a_claim_frees_the_entity_and_raises_nothing() {
    let held = entity(Some(3), Some((MINE, LATER)));
    for step in [sure(true), unsure(), sure(false), fail()] {
        let after = settled_gated(started(LATER, Recovery::Park), &held, step);
        assert_eq!(after, Some(entity(Some(3), None)));
    }
}

#[test]
fn a_start_leaves_the_entity_alone_and_needs_it() {
    let held = entity(Some(3), Some((MINE, LATER)));
    assert_eq!(
        settled_gated(claimed(LATER), &held, start(Recovery::Park)),
        None
    );
    let gated = Record {
        gate: Some(gate(5)),
        ..record(claimed(EARLIER))
    };
    let taken = entity(Some(3), Some((OTHER, LATER)));
    let asked = settlement(MINE, start(Recovery::Park));
    let decision = decide::settle(Some(&gated), Some(&taken), &asked, NOW);
    assert!(matches!(
        decision.answer,
        Settled::Fenced {
            found: Some(StateKind::Claimed)
        }
    ));
    unchanged(&decision);
}

#[test]
fn an_effect_that_has_begun_is_marked_though_its_entity_or_its_provider_is_lost() {
    let begun = |recovery| Step::Start {
        recovery,
        has_begun: true,
    };
    let gated = Record {
        gate: Some(gate(5)),
        ..record(claimed(EARLIER))
    };
    let taken = entity(Some(3), Some((OTHER, LATER)));
    let asked = settlement(MINE, begun(Recovery::Park));
    let decision = decide::settle(Some(&gated), Some(&taken), &asked, NOW);
    assert_eq!(written(&decision).state, started(EARLIER, Recovery::Park));
    assert_eq!(decision.entity, None, "the entity is left alone");
    let after = Record {
        gate: None,
        ..written(&decision).clone()
    };
    settled(after, unsure(), StateKind::InDoubt);
    let within = Recovery::RerunWithin(Duration::from_secs(60));
    let over = Record {
        first_started_at: Some(NOW.minus(Duration::from_secs(60))),
        doubt: Some(within),
        ..record(claimed(LATER))
    };
    settled(over, begun(within), StateKind::Started);
    // It is no way back for a claim that was given up.
    for state in [released(NOW), completed(NOW), dead(NOW), in_doubt(NOW)] {
        fenced(Some(record(state)), MINE, begun(Recovery::Park));
    }
    fenced(Some(record(claimed(LATER))), OTHER, begun(Recovery::Park));
}

#[test]
fn a_failure_ends_its_operation_and_leaves_the_entity_to_whoever_took_it() {
    let taken = entity(Some(3), Some((OTHER, LATER)));
    for (state, doubt, expected) in [
        (claimed(EARLIER), None, StateKind::Dead),
        (claimed(EARLIER), Some(Recovery::Rerun), StateKind::InDoubt),
        (started(EARLIER, Recovery::Park), None, StateKind::Dead),
    ] {
        let before = Record {
            gate: Some(gate(5)),
            doubt,
            ..record(state)
        };
        let asked = settlement(MINE, fail());
        let decision = decide::settle(Some(&before), Some(&taken), &asked, NOW);
        assert_eq!(written(&decision).state.kind(), expected);
        assert_eq!(decision.entity, Some(taken.clone()));
    }
}

#[test]
fn a_renewal_of_mine_extends_the_lease_live_or_over() {
    for lease_until in [LATER, NOW, EARLIER] {
        let decision = renew(&record(claimed(lease_until)), None, MINE);
        assert!(matches!(decision.answer, Renewed::Until(until) if until == NOW.plus(LEASE)));
        assert_eq!(written(&decision).state, claimed(NOW.plus(LEASE)));
        let decision = renew(&record(started(lease_until, Recovery::Park)), None, MINE);
        assert_eq!(
            written(&decision).state,
            started(NOW.plus(LEASE), Recovery::Park)
        );
        assert_eq!(written(&decision).attempts, 1);
    }
}

#[test]
fn a_renewal_of_another_claim_is_lost_in_every_state() {
    for state in every_state() {
        let decision = renew(&record(state), None, OTHER);
        assert!(matches!(decision.answer, Renewed::Lost { found } if found == Some(state.kind())));
        unchanged(&decision);
    }
}

#[test]
fn a_renewal_of_what_nobody_holds_is_lost() {
    for state in [released(NOW), completed(NOW), dead(NOW), in_doubt(NOW)] {
        let decision = renew(&record(state), None, MINE);
        assert!(matches!(decision.answer, Renewed::Lost { .. }), "{state:?}");
        unchanged(&decision);
    }
    let forgotten = record(completed(NOW.minus(Duration::from_secs(91))));
    assert!(matches!(
        renew(&forgotten, None, MINE).answer,
        Renewed::Lost { found: None }
    ));
}

#[test]
fn a_renewal_holds_the_entity_and_is_lost_with_it() {
    let gated = Record {
        gate: Some(gate(5)),
        ..record(claimed(EARLIER))
    };
    let held = entity(Some(3), Some((MINE, EARLIER)));
    let decision = renew(&gated, Some(&held), MINE);
    assert_eq!(
        decision.entity,
        Some(entity(Some(3), Some((MINE, NOW.plus(LEASE)))))
    );
    for lost in [
        entity(Some(3), Some((OTHER, EARLIER))),
        entity(Some(6), None),
    ] {
        let decision = renew(&gated, Some(&lost), MINE);
        assert!(matches!(
            decision.answer,
            Renewed::Lost {
                found: Some(StateKind::Claimed)
            }
        ));
        unchanged(&decision);
    }
}

fn start(recovery: Recovery) -> Step {
    Step::Start {
        recovery,
        has_begun: false,
    }
}

fn sure(counted: bool) -> Step {
    release(Certainty::NotApplied, counted)
}

fn unsure() -> Step {
    release(Certainty::MaybeApplied, true)
}

fn every_step() -> [Step; 6] {
    [
        start(Recovery::Park),
        complete(),
        sure(true),
        sure(false),
        unsure(),
        fail(),
    ]
}

/// Checks that the owner's step is accepted; returns the record after it.
fn settled(before: Record, step: Step, expected: StateKind) -> Record {
    let decision = decide::settle(Some(&before), None, &settlement(MINE, step), NOW);
    let kind = matches!(decision.answer, Settled::Now(kind) if kind == expected);
    assert!(kind, "{before:?}: {:?}", decision.answer);
    let after = written(&decision);
    assert_eq!(
        (after.claim_id, after.token),
        (before.claim_id, before.token)
    );
    after.clone()
}

/// Checks that the owner's step at version 5 is accepted; returns the entity record after it.
fn settled_gated(state: State, entity: &EntityRecord, step: Step) -> Option<EntityRecord> {
    let before = Record {
        gate: Some(gate(5)),
        ..record(state)
    };
    let decision = decide::settle(Some(&before), Some(entity), &settlement(MINE, step), NOW);
    assert!(
        matches!(decision.answer, Settled::Now(_)),
        "{:?}",
        decision.answer
    );
    decision.entity
}

fn fenced(before: Option<Record>, claim_id: ClaimId, step: Step) {
    let found = before.as_ref().map(|record| record.state.kind());
    let decision = decide::settle(before.as_ref(), None, &settlement(claim_id, step), NOW);
    let fenced = matches!(decision.answer, Settled::Fenced { found: it } if it == found);
    assert!(fenced, "{before:?}: {:?}", decision.answer);
    unchanged(&decision);
}

fn renew(before: &Record, entity: Option<&EntityRecord>, claim_id: ClaimId) -> Decision<Renewed> {
    let renewal = Renewal {
        operation: request(claim_id).operation,
        claim_id,
        lease: LEASE,
    };
    decide::renew(Some(before), entity, &renewal, NOW)
}
