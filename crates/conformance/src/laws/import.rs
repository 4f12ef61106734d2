//! Importing: adds items that are missing, replaces nothing, and can be repeated.

use std::sync::Arc;

use semel_core::decide::{Directed, Order};
use semel_core::port::checkpoint::{CheckpointStore, Together};
use semel_core::port::store::ListQuery;
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{
    Audited, ClaimRequest, EntityRecord, FencingToken, Mark, Parked, StateKind, Timestamp,
};

use super::audit::note;
use super::checkpoint::mark;
use super::contents::everything;
use crate::lab::{Lab, answered, gate, scope, text_key};
use crate::steps::{complete, complete_for, outcome};

/// The second import of the same finds everything there, and changes nothing.
pub async fn importing_twice_is_harmless(lab: Lab) {
    everything(&lab).await;
    let items = lab.export(100).await;
    let copy = lab.moved().await;
    let before = copy.export(100).await;
    let again = copy.import(&items).await;
    assert!(again.iter().all(|new| !new), "nothing is new: {again:?}");
    assert_eq!(copy.export(100).await, before);
}

/// An import into its own origin changes nothing either.
pub async fn importing_at_home_changes_nothing(lab: Lab) {
    everything(&lab).await;
    let items = lab.export(100).await;
    let again = lab.import(&items).await;
    assert!(again.iter().all(|new| !new), "nothing is new: {again:?}");
    assert_eq!(lab.export(100).await, items);
}

/// An item that is there stays, in any state; one that is not is added.
pub async fn an_import_replaces_no_record(lab: Lab) {
    for key in ["completed", "claimed", "dead", "new"] {
        lab.finish(&lab.request(key, 1), complete("of the origin"))
            .await;
    }
    let there = lab.beside().await;
    there
        .finish(&there.request("completed", 2), complete("of the copy"))
        .await;
    let claim = there.grant(&there.request("claimed", 2)).await;
    let dead = there.death("dead").await;
    let before = [
        there.record(&claim.operation).await,
        there.record(&dead.operation).await,
    ];
    for item in lab.export(100).await {
        let expected = match &item {
            Item::Record(listed) => listed.operation.key.as_str() == "new",
            _ => continue,
        };
        assert_eq!(there.import(&[item]).await, [expected]);
    }
    there
        .replays(&there.request("completed", 3), &outcome("of the copy"))
        .await;
    there
        .replays(&there.request("new", 3), &outcome("of the origin"))
        .await;
    let after = [
        there.record(&claim.operation).await,
        there.record(&dead.operation).await,
    ];
    assert_eq!(after, before);
}

/// A record that counts as absent is not there, swept or not.
pub async fn an_import_replaces_what_is_forgotten(lab: Lab) {
    let window = lab.window();
    let there = lab.beside().await;
    there
        .finish(&there.request("pay-1", 1), complete_for("old", window))
        .await;
    for lab in [&lab, &there] {
        lab.outlast_grace().await;
    }
    lab.finish(&lab.request("pay-1", 2), complete("new")).await;
    let records: Vec<_> = lab
        .export(10)
        .await
        .into_iter()
        .filter(|item| matches!(item, Item::Record(_)))
        .collect();
    assert_eq!(there.import(&records).await, [true]);
    there
        .replays(&there.request("pay-1", 3), &outcome("new"))
        .await;
}

/// A version that is known stays, also where the imported one is higher.
pub async fn an_import_replaces_no_version(lab: Lab) {
    let versioned = |key: &str, version| ClaimRequest {
        gate: Some(gate("cart", version)),
        ..lab.request(key, u128::from(version))
    };
    lab.finish(&versioned("first", 5), complete("done")).await;
    for (entity, applied, expected) in [("cart", 9, false), ("order", 9, true)] {
        let record = EntityRecord {
            applied: Some(applied),
            holder: None,
        };
        let item = Item::Entity(scope(), text_key(entity), record);
        assert_eq!(lab.import(&[item]).await, [expected], "{entity}");
    }
    lab.finish(&versioned("second", 6), complete("done")).await;
    let order = ClaimRequest {
        gate: Some(gate("order", 9)),
        ..lab.request("third", 1)
    };
    lab.stale(&order, 9).await;
}

/// A message that is there keeps its time, and an entry of the trail is one entry.
pub async fn an_import_replaces_no_message(lab: Lab) {
    let message = message("file:1");
    assert!(lab.park(&message).await);
    let before = since(&lab).await;
    assert!(before.is_some_and(|since| since > Timestamp::EPOCH));
    let items = [
        Item::Parked(Box::new(message)),
        Item::Parked(Box::new(self::message("file:2"))),
    ];
    assert_eq!(lab.import(&items).await, [false, true]);
    assert_eq!(since(&lab).await, before);
    let entry = Item::Audited(Box::new(entry("why")));
    let twice = [
        entry.clone(),
        entry,
        Item::Audited(Box::new(self::entry("why not"))),
    ];
    assert_eq!(lab.import(&twice).await, [true, false, true]);
    assert_eq!(lab.audit().await.len(), 2);
}

/// A mark that is there stays, higher or lower; one that is not is added, and is exported again.
pub async fn an_import_replaces_no_mark(lab: Lab) {
    let item = |name: &str, value| {
        Item::Mark(Mark {
            name: name.into(),
            value,
        })
    };
    let items = [
        item("out", 5),
        item("öut", u64::MAX),
        item("out", 9),
        item("out", 1),
    ];
    assert_eq!(lab.import(&items).await, [true, true, false, false]);
    let mut exported: Vec<_> = lab
        .export(10)
        .await
        .into_iter()
        .filter_map(|item| match item {
            Item::Mark(mark) => Some((mark.name.to_string(), mark.value)),
            _ => None,
        })
        .collect();
    exported.sort();
    let expected = [("out".to_owned(), 5), ("öut".to_owned(), u64::MAX)];
    assert_eq!(exported, expected);
}

/// A token below those that were granted changes nothing; one above is the floor of the next.
pub async fn an_imported_token_only_raises(lab: Lab) {
    let first = lab.grant(&lab.request("pay-1", 1)).await.token;
    let high = FencingToken::new(first.get() + 1_000);
    let items = [0, first.get(), high.get(), 1].map(|token| Item::Token(FencingToken::new(token)));
    let new = lab.import(&items).await;
    assert_eq!((new[0], new[2], new[3]), (false, true, false));
    assert!(lab.grant(&lab.request("pay-2", 1)).await.token > high);
}

/// An entry about the store as a whole is of no tenant, not even of the empty one, and of no operation.
pub async fn an_imported_entry_without_a_scope_is_of_no_tenant(lab: Lab) {
    let items = ["one", "two", "three"].map(|why| Item::Audited(Box::new(entry(why))));
    assert_eq!(lab.import(&items).await, [true; 3]);
    let of_it = lab.request("pay-1", 1);
    lab.finish(&of_it, complete("done")).await;
    let (order, why) = (Order::Hold(true), note("on call", "audit"));
    let held = lab.order_noted(&of_it.operation, order, &why).await;
    assert!(matches!(held, Directed::Now(_)), "{held:?}");
    for limit in [1, 100] {
        for (tenant, operation, count) in [
            (None, None, 4),
            (Some(""), None, 1),
            (None, Some("laws"), 1),
            (Some("acme"), None, 0),
        ] {
            let query = ListQuery {
                tenant: tenant.map(Into::into),
                operation: operation.map(Into::into),
                limit,
                ..ListQuery::default()
            };
            let listed = lab.list_audit(&query).await;
            assert_eq!(listed.len(), count, "{tenant:?} {operation:?}");
        }
    }
}

/// Existing operations are decided as before, beside those that came.
pub async fn an_import_adds_to_what_is_there(lab: Lab) {
    lab.finish(&lab.request("theirs", 1), complete("theirs"))
        .await;
    let there = lab.beside().await;
    there
        .finish(&there.request("ours", 1), complete("ours"))
        .await;
    let claim = there.grant(&there.request("running", 1)).await;
    assert!(there.park(&message("file:1")).await);
    there.import(&lab.export(100).await).await;
    there
        .replays(&there.request("ours", 2), &outcome("ours"))
        .await;
    there
        .replays(&there.request("theirs", 2), &outcome("theirs"))
        .await;
    there
        .settles(&claim, complete("done"), StateKind::Completed)
        .await;
    assert!(!there.park(&message("file:1")).await);
}

/// Items may come in any order.
pub async fn items_may_come_in_any_order(lab: Lab) {
    everything(&lab).await;
    let mut items = lab.export(100).await;
    items.reverse();
    let there = lab.beside().await;
    there.import(&items).await;
    let again = there.import(&items).await;
    assert!(again.iter().all(|new| !new), "nothing is new: {again:?}");
    for item in items {
        if let Item::Record(listed) = item {
            let read = there.record(&listed.operation).await;
            assert_eq!(read, listed.record);
        }
    }
}

/// Eight importers at once: each item is new to one of them.
pub async fn importers_at_once_add_each_item_once(lab: Lab) {
    everything(&lab).await;
    let items: Arc<[Item]> = lab.export(100).await.into();
    let there = Arc::new(lab.beside().await);
    let answers = there
        .race(8, |there, _| {
            let items = Arc::clone(&items);
            async move { there.import(&items).await }
        })
        .await;
    for (at, item) in items.iter().enumerate() {
        let new = answers.iter().filter(|answer| answer[at]).count();
        assert_eq!(new, 1, "{item:?}");
    }
    assert_eq!(there.stats().await.records, lab.stats().await.records);
}

/// Nothing to import is nothing to answer.
pub async fn an_empty_import_is_answered_empty(lab: Lab) {
    let transfer = lab.subject().transfer();
    assert!(answered(transfer.import([].into()).await, "import").is_empty());
}

/// A hold moves, and orders given at the copy since then stand.
pub async fn orders_count_at_the_copy(lab: Lab) {
    let dead = lab.death("dead").await.operation;
    lab.ordered(&dead, Order::Hold(true), Some(StateKind::Dead))
        .await;
    let copy = lab.moved().await;
    assert!(copy.record(&dead).await.held);
    copy.ordered(&dead, Order::Hold(false), Some(StateKind::Dead))
        .await;
    copy.import(&lab.export(100).await).await;
    assert!(!copy.record(&dead).await.held);
}

/// Marks of checkpoints move along, and so do the operations settled with them.
pub async fn a_checkpoint_moves(lab: Lab) {
    set_mark(&lab, "out", u64::MAX).await;
    set_mark(&lab, "öut", 0).await;
    let copy = lab.moved().await;
    assert_eq!(mark(&copy, "out").await, Some(u64::MAX));
    assert_eq!(mark(&copy, "öut").await, Some(0));
    set_mark(&copy, "out", 7).await;
    copy.import(&lab.export(100).await).await;
    assert_eq!(mark(&copy, "out").await, Some(7), "what is there stays");
    assert_eq!(mark(&lab, "out").await, Some(u64::MAX));
}

/// The contents that an import found are still there after reopening.
pub async fn a_second_import_after_reopening_is_harmless(lab: Lab) {
    everything(&lab).await;
    let items = lab.export(100).await;
    let copy = lab.moved().await.reopen().await;
    let again = copy.import(&items).await;
    assert!(again.iter().all(|new| !new), "nothing is new: {again:?}");
}

/// The time at which the first message was set aside.
async fn since(lab: &Lab) -> Option<Timestamp> {
    let items = lab.export(10).await;
    let messages = items.into_iter().filter_map(|item| match item {
        Item::Parked(message) => Some(message),
        _ => None,
    });
    let mut first = messages.filter(|it| &*it.coordinates == "file:1");
    first.next().map(|message| message.since)
}

async fn set_mark(lab: &Lab, name: &str, value: u64) {
    let mark = Mark {
        name: name.into(),
        value,
    };
    let settled = lab
        .subject()
        .checkpoint()
        .settle_with([].into(), &mark)
        .await;
    let settled = answered(settled, "settle_with");
    assert!(matches!(settled, Together::Applied(_)), "{settled:?}");
}

fn entry(why: &str) -> Audited {
    Audited {
        at: Timestamp::from_millis(1_000),
        note: note("on call", why),
        action: "import".into(),
        scope: None,
        key: None,
        before: "".into(),
        after: "10 records".into(),
    }
}

fn message(coordinates: &str) -> Parked {
    Parked {
        scope: scope(),
        key: None,
        reason: "not-json".into(),
        detail: "".into(),
        transport: None,
        coordinates: coordinates.into(),
        headers: Vec::new(),
        payload: "{".into(),
        since: Timestamp::EPOCH,
    }
}
