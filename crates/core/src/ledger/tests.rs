//! The ledger's addition to the decisions: an item sees the decisions on those before it.

use std::time::Duration;

use super::*;
use crate::audit::Note;
use crate::claim::ClaimId;
use crate::decide::Order;
use crate::entity::VersionGate;
use crate::error::{Certainty, ErrorKind};
use crate::key::Key;
use crate::record::StateKind;
use crate::settle::Step;
use crate::window::Window;

fn request(key: &str, claim: u128) -> ClaimRequest {
    let scope = Scope::new("", "payments").expect("a scope");
    let key = Key::parse(key).expect("a key");
    ClaimRequest::new(scope, key, ClaimId::from_u128(claim))
}

fn ledger(found: &[(&ClaimRequest, Found)]) -> Ledger {
    let mut ledger = Ledger::new(Timestamp::from_millis(1_000));
    for (request, found) in found {
        ledger.found(request.operation.id(), &request.operation, found.clone());
    }
    ledger
}

fn tokens(count: u64) -> impl Iterator<Item = FencingToken> {
    (1..=count).map(FencingToken::new)
}

fn give_back(request: &ClaimRequest) -> Settlement {
    let step = Step::Release {
        error: "shutdown".into(),
        certainty: Certainty::NotApplied,
        after: Duration::ZERO,
        counted: false,
        limits: request.limits,
        window: Window::DEFAULT,
    };
    Settlement {
        operation: request.operation.clone(),
        claim_id: request.claim_id,
        step,
    }
}

/// The record that a claim leaves.
fn claimed(request: &ClaimRequest) -> Record {
    let id = request.operation.id();
    let mut ledger = ledger(&[(request, Found::Absent)]);
    let granted = ledger.claim(id, request, &mut tokens(1));
    assert!(matches!(granted, Some(Admission::Granted(_))));
    ledger.record(id).expect("a record").clone()
}

#[test]
fn a_claim_that_is_resumed_needs_no_token() {
    let request = request("a", 1);
    let before = Found::Record(1, claimed(&request));
    let mut ledger = ledger(&[(&request, before)]);
    let answer = ledger.claim(request.operation.id(), &request, &mut tokens(0));
    let Some(Admission::Granted(claim)) = answer else {
        panic!("its own claim: {answer:?}");
    };
    assert_eq!((claim.resumed, claim.token.get()), (true, 1));
}

#[test]
fn a_token_is_drawn_only_by_what_is_granted() {
    let (first, second) = (request("a", 1), request("b", 2));
    let busy = ClaimRequest {
        claim_id: ClaimId::from_u128(3),
        ..first.clone()
    };
    let mut ledger = ledger(&[(&first, Found::Absent), (&second, Found::Absent)]);
    let mut tokens = tokens(2);
    let answers = [&first, &busy, &second]
        .map(|request| ledger.claim(request.operation.id(), request, &mut tokens));
    let drawn: Vec<_> = answers
        .iter()
        .map(|answer| match answer {
            Some(Admission::Granted(claim)) => Some(claim.token.get()),
            _ => None,
        })
        .collect();
    assert_eq!(drawn, [Some(1), None, Some(2)]);
}

#[test]
fn without_a_token_an_item_and_all_that_follow_for_its_key_are_undecided() {
    let first = request("a", 1);
    let second = ClaimRequest {
        claim_id: ClaimId::from_u128(2),
        ..first.clone()
    };
    let mut ledger = ledger(&[(&first, Found::Absent)]);
    let id = first.operation.id();
    assert!(ledger.claim(id, &first, &mut tokens(0)).is_none());
    assert!(ledger.claim(id, &second, &mut tokens(1)).is_none());
    assert_eq!(ledger.changes().count(), 0);
}

#[test]
fn what_was_written_already_is_not_written_again() {
    let first = request("a", 1);
    let id = first.operation.id();
    let mut ledger = ledger(&[(&first, Found::Absent)]);
    assert!(ledger.claim(id, &first, &mut tokens(1)).is_some());
    ledger.wrote(id, 1);
    assert_eq!(ledger.changes().count(), 0);
    let settled = ledger.settle(
        id,
        &Settlement {
            operation: first.operation.clone(),
            claim_id: first.claim_id,
            step: Step::Fail {
                decisive: false,
                error: "no".into(),
                window: Window::DEFAULT,
            },
        },
    );
    assert!(matches!(settled, Settled::Now(StateKind::Dead)));
    let revisions: Vec<_> = ledger.changes().map(|entry| entry.revision).collect();
    assert_eq!(revisions, [Some(1)]);
}

#[test]
fn a_record_that_came_and_went_within_the_batch_is_no_change() {
    let first = request("a", 1);
    let id = first.operation.id();
    let mut ledger = ledger(&[(&first, Found::Absent)]);
    assert!(ledger.claim(id, &first, &mut tokens(1)).is_some());
    let settled = ledger.settle(id, &give_back(&first));
    assert!(matches!(settled, Settled::Now(StateKind::Released)));
    let forget = Directive {
        operation: first.operation.clone(),
        order: Order::Forget,
        note: None,
    };
    assert!(matches!(ledger.operate(id, &forget), Directed::Now(None)));
    assert_eq!(ledger.changes().count(), 0);
}

#[test]
fn no_life_of_a_key_begins_at_a_revision_of_another_one() {
    let first = request("a", 1);
    let id = first.operation.id();
    let mut ledger = ledger(&[(&first, Found::Absent)]);
    let mut last = 0;
    for life in 1..4 {
        let mut token = std::iter::once(FencingToken::new(life));
        assert!(ledger.claim(id, &first, &mut token).is_some());
        ledger.wrote_all();
        let forget = Directive {
            operation: first.operation.clone(),
            order: Order::Forget,
            note: None,
        };
        let _ = ledger.settle(id, &give_back(&first));
        assert!(matches!(ledger.operate(id, &forget), Directed::Now(None)));
        let revisions: Vec<_> = ledger.changes().map(|entry| entry.revision).collect();
        assert!(
            revisions > vec![Some(last + 1)],
            "{revisions:?} after {last}"
        );
        last = first_revision(FencingToken::new(life));
        assert_eq!(revisions, [Some(last)]);
        ledger.wrote_all();
    }
}

#[test]
fn a_damaged_record_fails_its_items_alone() {
    let (bad, good) = (request("a", 1), request("b", 2));
    let damage = Error::new(ErrorKind::Corrupt, "does not check out");
    let mut ledger = ledger(&[(&bad, Found::Damaged(damage)), (&good, Found::Absent)]);
    let mut tokens = tokens(2);
    let answers =
        [&bad, &good].map(|request| ledger.claim(request.operation.id(), request, &mut tokens));
    assert!(matches!(answers[0], Some(Admission::Failed(_))));
    assert!(matches!(answers[1], Some(Admission::Granted(_))));
}

#[test]
fn entities_are_named_once_and_written_with_their_records() {
    let gate = |version| {
        Some(VersionGate {
            entity: Key::parse("order-7").expect("an entity"),
            version,
        })
    };
    let (mut first, mut second) = (request("a", 1), request("b", 2));
    (first.gate, second.gate) = (gate(1), gate(2));
    let mut ledger = ledger(&[
        (&first, Found::Record(4, claimed(&first))),
        (&second, Found::Record(9, claimed(&second))),
    ]);
    let gating = ledger.gating_entities();
    assert_eq!(gating.len(), 1);
    let holder = Some((first.claim_id, Timestamp::from_millis(31_000)));
    let found = EntityRecord {
        applied: None,
        holder,
    };
    ledger.found_entity(&gating[0].0, &gating[0].1, Some(found));
    let renew = |request: &ClaimRequest| Renewal {
        operation: request.operation.clone(),
        claim_id: request.claim_id,
        lease: Duration::from_secs(60),
    };
    let renewed = ledger.renew(first.operation.id(), &renew(&first));
    assert!(matches!(renewed, Renewed::Until(_)));
    let lost = ledger.renew(second.operation.id(), &renew(&second));
    assert!(matches!(lost, Renewed::Lost { .. }), "VER-2");
    assert_eq!(ledger.entity_changes().count(), 1);
    assert_eq!(ledger.changes().count(), 1);
}

#[test]
fn an_order_with_a_note_leaves_an_entry_and_a_refused_one_does_not() {
    let first = request("a", 1);
    let id = first.operation.id();
    let mut ledger = ledger(&[(&first, Found::Record(1, claimed(&first)))]);
    let note = Note {
        by: "ada".into(),
        reason: "stuck".into(),
    };
    for order in [Order::Hold(true), Order::Requeue] {
        let _ = ledger.operate(
            id,
            &Directive {
                operation: first.operation.clone(),
                order,
                note: Some(note.clone()),
            },
        );
    }
    let entries: Vec<_> = ledger
        .audited()
        .iter()
        .map(|entry| (&*entry.action, &*entry.before, &*entry.after))
        .collect();
    assert_eq!(entries, [("hold", "claimed", "claimed, held")]);
}

#[test]
fn only_what_was_found_absent_and_stays_so_is_absent() {
    let [granted, stays, there, damaged] =
        [("a", 1), ("b", 2), ("c", 3), ("d", 4)].map(|(key, claim)| request(key, claim));
    let record = Found::Record(7, claimed(&there));
    let damage = Error::new(ErrorKind::Corrupt, "does not check out");
    let mut ledger = ledger(&[
        (&granted, Found::Absent),
        (&stays, Found::Absent),
        (&there, record),
        (&damaged, Found::Damaged(damage)),
    ]);
    let id = granted.operation.id();
    assert!(ledger.claim(id, &granted, &mut tokens(1)).is_some());
    let absent: Vec<_> = ledger.absent().collect();
    assert_eq!(absent, [stays.operation.id()]);
    assert!(ledger.is_damaged(damaged.operation.id()));
    assert!(!ledger.is_damaged(there.operation.id()) && !ledger.is_damaged(id));
    assert!(ledger.knows(id) && !ledger.knows(request("e", 5).operation.id()));
}

#[test]
fn no_two_lives_of_a_key_share_a_revision() {
    let [one, next] = [1, 2].map(|token| first_revision(FencingToken::new(token)));
    assert!(one > 0 && next - one >= 1_000_000);
}
