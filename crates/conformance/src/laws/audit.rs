//! The audit trail: one entry per order that has a note and is carried out.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::audit::standing;
use semel_core::decide::{Directed, Directive, Order, Verdict};
use semel_core::port::store::ListQuery;
use semel_core::{
    Audited, ErrorKind, Note, Operation, Parked, Recovery, Scope, StateKind, Store, Timestamp,
};

use crate::lab::{Lab, answered, scope, scope_of};
use crate::steps::{LONG_WINDOW, complete, complete_for, outcome, release_after};

/// Every order that is carried out: author, reason, time, action, and the state before and after.
pub async fn an_order_leaves_one_entry(lab: Lab) {
    for (operation, order) in every_order(&lab).await {
        let shown = format!("{order:?}");
        let (before, began) = (lab.get(&operation).await, lab.now().await);
        let known = lab.audit().await.len();
        let note = note("on call", &shown);
        let directed = lab.order_noted(&operation, order.clone(), &note).await;
        assert!(
            matches!(directed, Directed::Now(_)),
            "{shown}: {directed:?}"
        );
        let after = lab.get(&operation).await;
        let mut trail = lab.audit().await;
        assert_eq!(trail.len(), known + 1, "{shown} leaves one entry");
        let Some(entry) = trail.pop() else { return };
        assert!(entry.at >= began && entry.at <= lab.now().await, "{shown}");
        let expected = Audited {
            at: entry.at,
            note,
            action: order.action().into(),
            scope: Some(operation.scope),
            key: Some(operation.key),
            before: standing(before.as_ref()),
            after: standing(after.as_ref()),
        };
        assert_eq!(entry, expected);
    }
}

/// A probe says what it found without a note, and leaves no entry.
pub async fn an_order_without_a_note_leaves_none(lab: Lab) {
    for (operation, order) in every_order(&lab).await {
        let directed = lab.order(&operation, order).await;
        assert!(matches!(directed, Directed::Now(_)), "{directed:?}");
    }
    assert_eq!(lab.audit().await, []);
}

/// A refused order changed nothing, so it leaves no entry.
pub async fn a_refused_order_leaves_none(lab: Lab) {
    let absent = lab.request("absent", 1).operation;
    let claimed = lab.grant(&lab.request("claimed", 1)).await.operation;
    let doubt = lab.doubt("doubt").await.operation;
    let unquiet = Order::Resolve(Verdict::NotApplied {
        quiet: Duration::from_secs(86_400),
        asked: None,
    });
    for (operation, order) in [
        (&absent, Order::Release),
        (&absent, Order::Hold(true)),
        (&claimed, Order::Requeue),
        (&claimed, Order::Forget),
        (&doubt, Order::Release),
        (&doubt, unquiet),
    ] {
        let directed = lab
            .order_noted(operation, order, &note("on call", "why not"))
            .await;
        assert!(matches!(directed, Directed::Refused(_)), "{directed:?}");
    }
    assert_eq!(lab.audit().await, []);
}

/// A dropped message leaves an entry, with its key if it has one.
pub async fn a_dropped_message_leaves_one_entry(lab: Lab) {
    let letter = Parked {
        key: Some(lab.request("pay 'ä'", 1).operation.key),
        reason: "dead".into(),
        ..message(1)
    };
    let messages = [letter, message(2)];
    answered(lab.store().park(messages.clone().into()).await, "park");
    let ids = messages.each_ref().map(Parked::id);
    let note = note("on call", "handled by hand");
    let dropped = lab.store().drop_parked(ids.into(), Some(&note)).await;
    assert_eq!(answered(dropped, "drop_parked"), [true, true]);
    let trail = lab.audit().await;
    let told = messages.iter().zip(&trail);
    let expected: Vec<_> = told
        .map(|(message, entry)| message.dropped(&note, entry.at))
        .collect();
    assert_eq!(trail, expected);
    assert!(trail[0].at > Timestamp::EPOCH);
}

/// Without a note, or without a message to drop, a drop leaves no entry.
pub async fn a_drop_of_nothing_leaves_none(lab: Lab) {
    assert!(lab.park(&message(1)).await);
    assert!(lab.drop_parked(message(1).id()).await);
    let note = note("on call", "again");
    let ids = [message(1).id(), message(2).id()];
    let dropped = lab.store().drop_parked(ids.into(), Some(&note)).await;
    assert_eq!(answered(dropped, "drop_parked"), [false, false]);
    assert_eq!(lab.audit().await, []);
}

/// The orders of a batch are entered in their order, each against the state that the one before
/// left.
pub async fn orders_of_a_batch_are_entered_in_their_order(lab: Lab) {
    let request = lab.request("completed", 1);
    lab.finish(&request, complete("done")).await;
    let dead = lab.death("dead").await.operation;
    let directive = |operation: &Operation, order, why: Option<&str>| Directive {
        operation: operation.clone(),
        order,
        note: why.map(|why| note("on call", why)),
    };
    let batch = [
        directive(&request.operation, Order::Hold(true), Some("1")),
        directive(&request.operation, Order::Requeue, Some("refused")),
        directive(&request.operation, Order::Hold(true), Some("2")),
        directive(&dead, Order::Requeue, Some("3")),
        directive(&request.operation, Order::Hold(false), None),
        directive(&request.operation, Order::Forget, Some("4")),
    ];
    let _ = answered(lab.store().operate(batch.into()).await, "operate");
    let trail = lab.audit().await;
    let told: Vec<_> = trail
        .iter()
        .map(|it| (&*it.note.reason, &*it.before, &*it.after))
        .collect();
    let expected = [
        ("1", "completed", "completed, held"),
        ("2", "completed, held", "completed, held"),
        ("3", "dead", "released"),
        ("4", "completed", "absent"),
    ];
    assert_eq!(told, expected);
}

/// Entries have no window: they outlive their records.
pub async fn entries_outlive_their_records(lab: Lab) {
    let request = lab.request("pay-1", 1);
    lab.finish(&request, complete_for("done", lab.window()))
        .await;
    let why = note("on call", "audit");
    let _ = lab
        .order_noted(&request.operation, Order::Hold(false), &why)
        .await;
    let before = lab.audit().await;
    lab.outlast_grace().await;
    lab.sweep().await;
    assert_eq!(lab.get(&request.operation).await, None);
    assert_eq!((before.len(), lab.audit().await), (1, before));
}

/// Everything about an entry comes back as it was.
pub async fn an_entry_is_kept_whole(lab: Lab) {
    let texts = [
        "",
        "it's \"50%\" über\\ \u{1f4a5} {}; DROP TABLE --",
        &"long ".repeat(1_000),
    ];
    let mut request = lab.request("json: ä%' \u{1f4a5}", 1);
    request.operation.scope = scope_of("acmé %", "páy 'x'");
    lab.finish(&request, complete("done")).await;
    for text in texts {
        let why = note(text, text);
        let _ = lab
            .order_noted(&request.operation, Order::Hold(true), &why)
            .await;
    }
    let trail = lab.audit().await;
    assert_eq!(trail.len(), 3);
    for (entry, text) in trail.iter().zip(texts) {
        assert_eq!((&*entry.note.by, &*entry.note.reason), (text, text));
        assert_eq!(entry.scope.as_ref(), Some(&request.operation.scope));
        assert_eq!(entry.key.as_ref(), Some(&request.operation.key));
    }
}

/// One of sixteen requeues is carried out, and all of sixteen holds.
pub async fn orders_at_once_are_entered_as_they_are_carried_out(lab: Lab) {
    let dead = lab.death("dead").await.operation;
    let held = lab.death("held").await.operation;
    let lab = Arc::new(lab);
    let carried_out = lab
        .race(16, |lab, number| {
            let (dead, held) = (dead.clone(), held.clone());
            async move {
                let why = note("on call", &number.to_string());
                let requeued = lab.order_noted(&dead, Order::Requeue, &why).await;
                let _ = lab.order_noted(&held, Order::Hold(true), &why).await;
                matches!(requeued, Directed::Now(_))
            }
        })
        .await;
    assert_eq!(carried_out.iter().filter(|it| **it).count(), 1);
    let trail = lab.audit().await;
    let requeued = trail.iter().filter(|it| &*it.action == "requeue").count();
    let holds: BTreeSet<_> = trail
        .iter()
        .filter(|it| &*it.action == "hold")
        .map(|it| it.note.reason.clone())
        .collect();
    assert_eq!((requeued, holds.len(), trail.len()), (1, 16, 17));
}

/// Entries are paged, oldest first.
pub async fn pages_of_entries_are_complete(lab: Lab) {
    let operation = lab.death("dead").await.operation;
    let batch: Vec<_> = (0..40)
        .map(|number| Directive {
            operation: operation.clone(),
            order: Order::Hold(number % 2 == 0),
            note: Some(note("on call", &number.to_string())),
        })
        .collect();
    let _ = answered(lab.store().operate(batch.into()).await, "operate");
    let expected: Vec<_> = (0..40).map(|number| number.to_string()).collect();
    for limit in [1, 7, 40, 1_000] {
        let listed = lab.list_audit(&query(None, limit)).await;
        let reasons: Vec<_> = listed.iter().map(|it| it.note.reason.to_string()).collect();
        assert_eq!(reasons, expected, "pages of {limit}");
    }
    let page = lab.audit_page(&query(None, 0)).await;
    assert_eq!(page.items.len(), 1, "a limit of 0 counts as 1");
}

/// Entries that arrive during paging come at the end.
pub async fn paging_goes_on_while_entries_arrive(lab: Lab) {
    let operation = lab.death("dead").await.operation;
    let order = |number: usize| {
        let why = note("on call", &number.to_string());
        let (lab, operation) = (&lab, &operation);
        async move { lab.order_noted(operation, Order::Hold(true), &why).await }
    };
    for number in 0..10 {
        let _ = order(number).await;
    }
    let (mut query, mut seen) = (query(None, 3), Vec::new());
    loop {
        let page = lab.audit_page(&query).await;
        seen.extend(page.items.into_iter().map(|it| it.note.reason.to_string()));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
        if seen.len() < 10 {
            let _ = order(10 + seen.len()).await;
        }
    }
    let expected: Vec<_> = (0..10).map(|number| number.to_string()).collect();
    assert_eq!(seen[..10], expected);
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len());
}

/// A scope selects its own entries.
pub async fn entries_are_selected_by_scope(lab: Lab) {
    let scopes = [
        scope(),
        scope_of("other", "laws"),
        scope_of("", "laws2"),
        scope_of("", "LAWS"),
    ];
    for (number, scope) in scopes.iter().enumerate() {
        let mut request = lab.request("pay-1", 1);
        request.operation.scope = scope.clone();
        lab.finish(&request, complete("done")).await;
        for _ in 0..=number {
            let why = note("on call", "audit");
            let _ = lab
                .order_noted(&request.operation, Order::Hold(true), &why)
                .await;
        }
    }
    for limit in [1, 100] {
        for (number, scope) in scopes.iter().enumerate() {
            let listed = lab.list_audit(&query(Some(scope), limit)).await;
            assert_eq!(listed.len(), number + 1);
            assert!(listed.iter().all(|it| it.scope.as_ref() == Some(scope)));
        }
        let nobody = query(Some(&scope_of("nobody", "laws")), limit);
        assert_eq!(lab.list_audit(&nobody).await, []);
    }
}

/// A cursor from another source is refused, not misread.
pub async fn a_foreign_cursor_of_the_trail_is_refused(lab: Lab) {
    let operation = lab.death("dead").await.operation;
    let _ = lab
        .order_noted(&operation, Order::Hold(true), &note("on call", "audit"))
        .await;
    let query = ListQuery {
        after: Some(Bytes::from_static(b"\xffno cursor of ours")),
        ..query(None, 9)
    };
    let Err(error) = lab.store().list_audit(&query).await else {
        panic!("the cursor was accepted")
    };
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

pub(crate) fn note(by: &str, reason: &str) -> Note {
    Note {
        by: by.into(),
        reason: reason.into(),
    }
}

/// Every order, each about an operation that it fits.
async fn every_order(lab: &Lab) -> Vec<(Operation, Order)> {
    let applied = Verdict::Applied {
        outcome: outcome("seen at the bank"),
        window: LONG_WINDOW,
    };
    let not_applied = Verdict::NotApplied {
        quiet: Duration::ZERO,
        asked: None,
    };
    let abandon = Verdict::Abandon {
        window: LONG_WINDOW,
    };
    let claimed = lab.grant(&lab.request("claimed", 1)).await;
    let started = lab.grant(&lab.marked("started", 1, Recovery::Rerun)).await;
    let released = lab.grant(&lab.request("released", 1)).await;
    let backoff = release_after(Duration::from_secs(3_600));
    lab.settles(&released, backoff, StateKind::Released).await;
    vec![
        (claimed.operation.clone(), Order::Release),
        (started.operation, Order::Release),
        (released.operation.clone(), Order::Release),
        (claimed.operation, Order::Hold(true)),
        (released.operation, Order::Forget),
        (lab.death("dead").await.operation, Order::Requeue),
        (lab.death("held").await.operation, Order::Hold(true)),
        (lab.request("held", 1).operation, Order::Hold(false)),
        (lab.request("held", 1).operation, Order::Forget),
        (lab.doubt("one").await.operation, Order::Resolve(applied)),
        (
            lab.doubt("two").await.operation,
            Order::Resolve(not_applied),
        ),
        (lab.doubt("three").await.operation, Order::Resolve(abandon)),
    ]
}

fn query(scope: Option<&Scope>, limit: usize) -> ListQuery {
    ListQuery {
        limit,
        ..ListQuery::in_scope_or_all(scope)
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
