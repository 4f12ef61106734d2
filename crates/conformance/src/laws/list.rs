//! Lists: complete, paged without a repeat, and counts that agree with them.

use std::collections::BTreeSet;

use bytes::Bytes;
use semel_core::decide::{Directed, Order};
use semel_core::port::store::ListQuery;
use semel_core::{
    Admission, ErrorKind, Note, Operation, Parked, Record, Recovery, Settlement, StateKind, Store,
    Timestamp,
};

use crate::lab::{Lab, answered, scope, scope_of};
use crate::steps::{complete, complete_for, release, release_unsure};

/// One record a page.
pub async fn pages_of_one_are_complete(lab: Lab) {
    pages_are_complete(&lab, 1, 23).await;
}

/// Pages that do not divide the whole.
pub async fn pages_of_seven_are_complete(lab: Lab) {
    pages_are_complete(&lab, 7, 50).await;
}

/// Pages that divide the whole.
pub async fn pages_that_divide_the_whole_are_complete(lab: Lab) {
    pages_are_complete(&lab, 10, 50).await;
}

/// Everything on one page.
pub async fn a_page_of_1000_is_complete(lab: Lab) {
    pages_are_complete(&lab, 1_000, 300).await;
}

/// Nothing to list is one empty page.
pub async fn an_empty_store_lists_nothing(lab: Lab) {
    let query = query(10);
    let page = lab.page(&query).await;
    assert!(page.items.is_empty() && page.next.is_none());
    let page = lab.parked_page(&query).await;
    assert!(page.items.is_empty() && page.next.is_none());
}

/// Each state selects its records, over pages of one as over one page.
pub async fn records_are_selected_by_state(lab: Lab) {
    let expected = one_of_each(&lab).await;
    for limit in [1, 100] {
        for (operation, state) in &expected {
            let listed = lab
                .list(&ListQuery {
                    state: Some(*state),
                    ..query(limit)
                })
                .await;
            assert_eq!(listed.len(), 1, "{state}");
            assert_eq!(listed[0].operation, *operation);
            assert_eq!(listed[0].record.state.kind(), *state);
        }
        assert_eq!(lab.list(&query(limit)).await.len(), expected.len());
    }
}

/// A scope selects its own records.
pub async fn records_are_selected_by_scope(lab: Lab) {
    let scopes = [
        scope(),
        scope_of("other", "laws"),
        scope_of("", "laws2"),
        scope_of("", "LAWS"),
    ];
    for (number, scope) in scopes.iter().enumerate() {
        for key in 0..=number {
            let mut request = lab.request(&format!("pay-{key}"), 1);
            request.operation.scope = scope.clone();
            lab.finish(&request, complete("done")).await;
        }
    }
    for limit in [1, 100] {
        for (number, scope) in scopes.iter().enumerate() {
            let query = ListQuery {
                limit,
                ..ListQuery::in_scope(scope)
            };
            let listed = lab.list(&query).await;
            assert_eq!(listed.len(), number + 1);
            assert!(listed.iter().all(|listed| listed.operation.scope == *scope));
        }
    }
}

/// Possible repeats can be listed alone.
pub async fn records_are_selected_by_possible_repeats(lab: Lab) {
    for number in 0..10 {
        lab.finish(&lab.request(&format!("once-{number}"), 1), complete("done"))
            .await;
    }
    let first = lab.grant(&lab.marked("twice", 1, Recovery::Rerun)).await;
    lab.settles(&first, release_unsure(), StateKind::Released)
        .await;
    lab.finish(&lab.marked("twice", 2, Recovery::Rerun), complete("done"))
        .await;
    for limit in [1, 100] {
        let listed = lab
            .list(&ListQuery {
                repeated: true,
                ..query(limit)
            })
            .await;
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].operation, first.operation);
    }
}

/// A list shows what reading shows, but for the outcome.
pub async fn a_list_shows_records_without_outcomes(lab: Lab) {
    one_of_each(&lab).await;
    for listed in lab.list(&query(100)).await {
        let read = lab.record(&listed.operation).await;
        assert_eq!(
            listed.record,
            Record {
                outcome: None,
                ..read
            }
        );
    }
}

/// A record that counts as absent is not listed and not counted.
pub async fn forgotten_records_are_not_listed(lab: Lab) {
    lab.finish(&lab.request("short", 1), complete_for("done", lab.window()))
        .await;
    lab.finish(&lab.request("long", 1), complete("done")).await;
    lab.outlast_grace().await;
    assert_eq!(lab.list(&query(100)).await.len(), 1);
    assert_eq!(lab.stats().await.records.iter().sum::<u64>(), 1);
}

/// A cursor from another source is refused, not misread.
pub async fn a_foreign_cursor_is_refused(lab: Lab) {
    lab.finish(&lab.request("pay-1", 1), complete("done")).await;
    let query = ListQuery {
        after: Some(Bytes::from_static(b"\xffno cursor of ours")),
        ..query(9)
    };
    let Err(error) = lab.store().list(&query).await else {
        panic!("the cursor was accepted")
    };
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let Err(error) = lab.store().list_parked(&query).await else {
        panic!("the cursor was accepted");
    };
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

/// Records that arrive during paging do not make the rest repeat or vanish.
pub async fn paging_goes_on_while_records_arrive(lab: Lab) {
    for number in 0..30 {
        lab.finish(&lab.request(&format!("old-{number}"), 1), complete("done"))
            .await;
    }
    let (mut query, mut seen, mut arrived) = (query(4), Vec::new(), 0);
    loop {
        let page = lab.page(&query).await;
        seen.extend(
            page.items
                .into_iter()
                .map(|listed| listed.operation.key.to_string()),
        );
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
        lab.finish(&lab.request(&format!("new-{arrived}"), 1), complete("done"))
            .await;
        arrived += 1;
        assert!(arrived < 1_000, "the list does not end");
    }
    let old = seen.iter().filter(|key| key.starts_with("old-"));
    assert_eq!(
        old.clone().count(),
        30,
        "every record that was there is listed once"
    );
    assert_eq!(old.collect::<BTreeSet<_>>().len(), 30);
}

/// Parked messages are paged as well.
pub async fn pages_of_parked_messages_are_complete(lab: Lab) {
    let messages: Vec<_> = (0..40).map(message).collect();
    let new = answered(lab.store().park(messages.clone().into()).await, "park");
    assert!(new.iter().all(|new| *new));
    let expected: BTreeSet<_> = messages.iter().map(Parked::id).collect();
    for limit in [1, 7, 40, 1_000] {
        let listed = lab.list_parked(&query(limit)).await;
        let ids: BTreeSet<_> = listed.iter().map(Parked::id).collect();
        assert_eq!(
            (listed.len(), ids == expected),
            (40, true),
            "pages of {limit}"
        );
    }
}

/// The counts by state agree with the lists.
pub async fn counts_agree_with_the_lists(lab: Lab) {
    one_of_each(&lab).await;
    for number in 0..3 {
        lab.finish(&lab.request(&format!("more-{number}"), 1), complete("done"))
            .await;
        assert!(lab.park(&message(number)).await);
    }
    let stats = lab.stats().await;
    for (state, counted) in StateKind::ALL.into_iter().zip(stats.records) {
        let listed = lab
            .list(&ListQuery {
                state: Some(state),
                ..query(100)
            })
            .await;
        assert_eq!(counted, listed.len() as u64, "{state}");
    }
    assert_eq!(stats.parked, 3);
}

/// Claims that were refused leave nothing to count.
pub async fn refused_claims_are_not_counted(lab: Lab) {
    let now = lab.now().await;
    let old = semel_core::ClaimRequest {
        birth: Some(Timestamp::EPOCH),
        ..lab.request("old", 1)
    };
    assert!(now > Timestamp::EPOCH.plus(old.window.duration()));
    assert!(matches!(lab.claim(&old).await, Admission::TooOld));
    assert_eq!(lab.stats().await.records, [0; 6]);
}

/// Records that have passed their window are counted apart until a sweep removes them, and so is each entry of the audit
/// trail.
pub async fn the_expired_and_the_audit_trail_are_counted_apart(lab: Lab) {
    let counted = async || {
        let stats = lab.stats().await;
        let live: u64 = stats.records.iter().sum();
        (live, stats.remembered, stats.audited)
    };
    let window = lab.window();
    let is_told = lab.stats().await.remembered.is_some();
    let remembered = |count| is_told.then_some(count);
    for key in ["short-1", "short-2", "held"] {
        lab.finish(&lab.request(key, 1), complete_for("done", window))
            .await;
    }
    lab.finish(&lab.request("long", 1), complete("done")).await;
    assert_eq!(counted().await, (4, remembered(0), 0));
    let why = Note {
        by: "on call".into(),
        reason: "a dispute".into(),
    };
    let held = lab.request("held", 1).operation;
    let directed = lab.order_noted(&held, Order::Hold(true), &why).await;
    assert!(matches!(directed, Directed::Now(_)), "{directed:?}");
    assert_eq!(counted().await, (4, remembered(0), 1));
    lab.outlast_grace().await;
    assert_eq!(counted().await, (2, remembered(2), 1));
    // A store may remove records together, and later.
    let removed = lab.sweep().await.removed;
    assert_eq!(counted().await, (2, remembered(2 - removed), 1));
}

/// An estimate of few records is their count; one of many, by a tenth of them, is near it, also when nothing has come for
/// long, and when they have passed their window.
pub async fn an_estimate_is_near_the_count(lab: Lab) {
    let window = lab.window();
    one_of_each(&lab).await;
    assert!(lab.park(&message(0)).await);
    let mut estimate = answered(lab.store().estimate(1_000).await, "estimate");
    let mut counted = lab.stats().await;
    // What is on disk may grow between the two.
    (estimate.disk_bytes, counted.disk_bytes) = (None, None);
    assert_eq!(estimate, counted, "of few");
    for batch in 0..20 {
        let request = |number| lab.request(&format!("many-{batch}-{number}"), 1);
        let requests: Vec<_> = (0..100).map(request).collect();
        let claims = answered(lab.store().claim(requests.clone().into()).await, "claim");
        let settlements: Vec<_> = requests
            .into_iter()
            .zip(claims)
            .map(|(request, claim)| Settlement {
                operation: request.operation,
                claim_id: match claim {
                    Admission::Granted(grant) => grant.claim_id,
                    other => panic!("{other:?}"),
                },
                step: complete_for("done", window),
            })
            .collect();
        answered(lab.store().settle(settlements.into()).await, "settle");
    }
    let near = 1_200..2_800;
    let of_many = async || answered(lab.store().estimate(200).await, "estimate");
    let estimate = of_many().await;
    // Six times the deviation of a random tenth: hundreds of runs a day would leave four times of it now and then.
    let completed = StateKind::ALL
        .iter()
        .position(|it| *it == StateKind::Completed);
    let completed = completed.expect("a state");
    let found = estimate.records[completed];
    assert!(near.contains(&found), "of 2001: {estimate:?}");
    assert_eq!((estimate.parked, estimate.entities), (1, 0), "{estimate:?}");
    lab.outlast_grace().await;
    let estimate = of_many().await;
    if let Some(remembered) = estimate.remembered {
        assert!(near.contains(&remembered), "of 2000: {estimate:?}");
    }
    assert!(estimate.records[completed] < 100, "of 1: {estimate:?}");
}

async fn pages_are_complete(lab: &Lab, limit: usize, count: usize) {
    let requests: Vec<_> = (0..count)
        .map(|number| lab.request(&format!("pay-{number}"), 1))
        .collect();
    let claims = answered(lab.store().claim(requests.clone().into()).await, "claim");
    assert!(
        claims
            .iter()
            .all(|claim| matches!(claim, Admission::Granted(_)))
    );
    let listed = lab.list(&query(limit)).await;
    assert_eq!(listed.len(), count, "a list of {count} in pages of {limit}");
    let keys: BTreeSet<_> = listed
        .into_iter()
        .map(|listed| listed.operation.key)
        .collect();
    let expected: BTreeSet<_> = requests.into_iter().map(|it| it.operation.key).collect();
    assert!(keys == expected, "each record is listed once");
}

/// One record in each state.
async fn one_of_each(lab: &Lab) -> Vec<(Operation, StateKind)> {
    let claimed = lab.grant(&lab.request("claimed", 1)).await;
    let started = lab.grant(&lab.marked("started", 1, Recovery::Rerun)).await;
    let released = lab.grant(&lab.request("released", 1)).await;
    lab.settles(&released, release(), StateKind::Released).await;
    let completed = lab.grant(&lab.request("completed", 1)).await;
    lab.settles(&completed, complete("done"), StateKind::Completed)
        .await;
    let dead = lab.death("dead").await;
    let in_doubt = lab.doubt("in doubt").await;
    let claims = [claimed, started, released, completed, dead, in_doubt];
    claims
        .into_iter()
        .map(|claim| claim.operation)
        .zip(StateKind::ALL)
        .collect()
}

fn query(limit: usize) -> ListQuery {
    ListQuery {
        limit,
        ..ListQuery::default()
    }
}

fn message(number: u32) -> Parked {
    Parked {
        scope: scope(),
        key: None,
        reason: "not-json".into(),
        detail: "".into(),
        transport: None,
        coordinates: format!("file:{number}").into(),
        headers: Vec::new(),
        payload: Bytes::from_static(b"{"),
        since: Timestamp::EPOCH,
    }
}
