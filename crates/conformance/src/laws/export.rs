//! Exporting: everything, once, in pages.

use std::collections::BTreeSet;

use bytes::Bytes;
use semel_core::port::store::ListQuery;
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{ErrorKind, Parked};

use super::contents::{every_message, everything};
use crate::lab::{Lab, text_key};
use crate::steps::{complete, complete_for};

/// The token comes first, of an empty store, too, and alone there.
pub async fn an_export_begins_with_the_token(lab: Lab) {
    let empty = lab.export(10).await;
    assert!(matches!(empty[..], [Item::Token(_)]), "{empty:?}");
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    let items = lab.export(10).await;
    let Some(Item::Token(token)) = items.first() else {
        panic!("the token comes first: {items:?}")
    };
    assert!(*token >= claim.token);
    let tokens = items.iter().filter(|it| matches!(it, Item::Token(_)));
    assert_eq!(tokens.count(), 1);
}

/// Everything that reading and listing show is exported as they show it, and nothing else.
pub async fn an_export_holds_everything(lab: Lab) {
    everything(&lab).await;
    let items = lab.export(100).await;
    let query = ListQuery {
        limit: 100,
        ..ListQuery::default()
    };
    let listed = lab.list(&query).await;
    let mut records = 0;
    for item in &items {
        if let Item::Record(listed) = item {
            records += 1;
            let read = lab.get(&listed.operation).await;
            assert_eq!(Some(&listed.record), read.as_ref());
        }
    }
    assert_eq!(records, listed.len());
    let parked = items.iter().filter_map(|item| match item {
        Item::Parked(message) => Some((**message).clone()),
        _ => None,
    });
    let by_id = |mut messages: Vec<Parked>| {
        messages.sort_by_key(Parked::id);
        messages
    };
    let expected = by_id(lab.list_parked(&query).await);
    assert_eq!(by_id(parked.collect()), expected);
    let trail = items.iter().filter_map(|item| match item {
        Item::Audited(entry) => Some((**entry).clone()),
        _ => None,
    });
    assert_eq!(trail.collect::<Vec<_>>(), lab.audit().await);
}

/// Pages of every size hold the same, once each.
pub async fn pages_of_an_export_are_complete(lab: Lab) {
    everything(&lab).await;
    for number in 0..50 {
        lab.finish(&lab.request(&format!("pay-{number}"), 1), complete("done"))
            .await;
    }
    let whole = lab.export(10_000).await;
    let expected = texts(&whole);
    assert_eq!(expected.len(), whole.len(), "nothing is exported twice");
    for limit in [0, 1, 7, 50] {
        let pages = lab.export(limit).await;
        assert_eq!(texts(&pages), expected, "pages of {limit}");
        assert_eq!(pages.len(), whole.len(), "pages of {limit}");
    }
}

/// A page ends where its items hold much, however many it may have.
pub async fn pages_of_an_export_are_bounded_by_what_they_hold(lab: Lab) {
    let [whole, ..] = every_message();
    for number in 0..LARGE_MESSAGES {
        let message = Parked {
            // Without one, the place of a message is what tells it from others.
            transport: None,
            coordinates: format!("orders/3@{number}").into(),
            key: Some(text_key(&format!("pay-{number}"))),
            payload: Bytes::from(vec![b'x'; LARGE_BYTES]),
            ..whole.clone()
        };
        assert!(lab.park(&message).await);
    }
    lab.outlast_lease().await;
    let (mut after, mut found) = (None::<Bytes>, 0);
    for _ in 0..LARGE_MESSAGES * 2 {
        let page = lab.export_page(after.as_deref(), 10_000).await;
        let messages = page.items.iter().filter(|it| matches!(it, Item::Parked(_)));
        let messages = messages.count();
        assert!(
            messages < LARGE_MESSAGES,
            "a page holds {messages} messages of {LARGE_BYTES} bytes"
        );
        found += messages;
        after = page.next;
        if after.is_none() {
            assert_eq!(found, LARGE_MESSAGES);
            return;
        }
    }
    panic!("an export of {LARGE_MESSAGES} messages does not end");
}

/// A cursor from another source is refused, not misread.
pub async fn a_foreign_cursor_of_an_export_is_refused(lab: Lab) {
    everything(&lab).await;
    let transfer = lab.subject().transfer();
    for cursor in [&b"\xffno cursor of ours"[..], b"", b"\xff"] {
        let Err(error) = transfer.export(Some(cursor), 10).await else {
            panic!("the cursor {cursor:?} was accepted")
        };
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

/// A record that counts as absent is left out, swept or not.
pub async fn what_is_forgotten_is_not_exported(lab: Lab) {
    let window = lab.window();
    lab.finish(&lab.request("short", 1), complete_for("done", window))
        .await;
    lab.finish(&lab.request("long", 1), complete("done")).await;
    lab.outlast_grace().await;
    let items = lab.export(10).await;
    let keys: Vec<_> = items
        .iter()
        .filter_map(|item| match item {
            Item::Record(listed) => Some(listed.operation.key.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(keys, ["long"]);
}

/// An export of the copy is the export of the origin.
pub async fn a_copy_exports_what_it_was_given(lab: Lab) {
    everything(&lab).await;
    let copy = lab.moved().await;
    assert_eq!(texts(&copy.export(10).await), texts(&lab.export(10).await));
    assert_eq!(copy.stats().await.records, lab.stats().await.records);
    assert_eq!(copy.stats().await.parked, lab.stats().await.parked);
}

/// Messages of one export, and the bytes of each: together more than a page of any store may hold.
const LARGE_MESSAGES: usize = 12;
const LARGE_BYTES: usize = 1 << 20;

/// Items as texts in an order of their own, so that exports can be compared.
pub(super) fn texts(items: &[Item]) -> BTreeSet<String> {
    items.iter().map(|item| format!("{item:?}")).collect()
}
