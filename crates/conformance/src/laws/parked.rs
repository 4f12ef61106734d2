//! Parked messages: kept once, whole, until they are dropped.

use std::sync::Arc;

use bytes::Bytes;
use semel_core::port::store::ListQuery;
use semel_core::{Key, Parked, Scope, Store, Timestamp};

use crate::lab::{Lab, answered, scope, scope_of, text_key};

/// A parked message is new once.
pub async fn a_message_is_parked_once(lab: Lab) {
    let message = unusable("file:1", "{");
    assert!(lab.park(&message).await, "the message is new");
    assert!(!lab.park(&message).await, "the message is there already");
    assert_eq!(all(&lab).await.len(), 1);
    assert_eq!(lab.stats().await.parked, 1);
}

/// Everything about a message comes back as it was.
pub async fn a_parked_message_is_kept_whole(lab: Lab) {
    let message = Parked {
        scope: scope_of("acmé %", "páy 'x'"),
        key: Some(key("json:[\"ä\",1]")),
        reason: "fingerprint-conflict".into(),
        detail: "it's \"another\" request \u{1f4a5}\\".into(),
        transport: Some(Bytes::from_static(b"\x00\xff event")),
        coordinates: "orders/3@42".into(),
        headers: vec![("event-id".into(), Bytes::from_static(b"\xff\x00evt"))],
        payload: Bytes::from((0..=255).collect::<Vec<u8>>()),
        since: Timestamp::EPOCH,
    };
    assert!(lab.park(&message).await);
    let found = all(&lab).await;
    assert_eq!(found.len(), 1);
    assert_eq!(
        Parked {
            since: Timestamp::EPOCH,
            ..found[0].clone()
        },
        message
    );
    assert_eq!(found[0].id(), message.id());
}

/// Parts that a message lacks are not made up.
pub async fn a_parked_message_may_lack_key_transport_and_payload(lab: Lab) {
    let message = Parked {
        coordinates: "".into(),
        detail: "".into(),
        ..unusable("", "")
    };
    assert!(lab.park(&message).await);
    let found = all(&lab).await;
    assert_eq!((&found[0].key, &found[0].transport), (&None, &None));
    assert_eq!(found[0].payload, Bytes::new());
}

/// A missing transport id differs from an empty one.
pub async fn an_empty_transport_id_is_kept(lab: Lab) {
    let message = Parked {
        transport: Some(Bytes::new()),
        ..unusable("file:1", "{")
    };
    assert!(lab.park(&message).await);
    assert_eq!(all(&lab).await[0].transport, Some(Bytes::new()));
}

/// One mebibyte of payload comes back byte for byte.
pub async fn a_large_payload_is_kept(lab: Lab) {
    let payload: Vec<u8> = (0..=250).cycle().take(1 << 20).collect();
    let message = Parked {
        payload: payload.into(),
        ..unusable("file:1", "")
    };
    assert!(lab.park(&message).await);
    assert!(all(&lab).await[0].payload == message.payload);
}

/// The store sets the time, and the first time stands.
pub async fn the_store_stamps_a_parked_message_once(lab: Lab) {
    let before = lab.now().await;
    let message = Parked {
        since: Timestamp::from_millis(7),
        ..unusable("file:1", "{")
    };
    assert!(lab.park(&message).await);
    let first = all(&lab).await[0].since;
    assert!(first >= before, "the store's clock, not the caller's");
    lab.outlast_lease().await;
    assert!(!lab.park(&message).await);
    assert_eq!(all(&lab).await[0].since, first);
}

/// A bad message that is delivered again is the same entry.
pub async fn a_redelivered_bad_message_is_one_entry(lab: Lab) {
    let first = unusable("orders/3@42", "{");
    let again = Parked {
        detail: "found again by another worker".into(),
        ..first.clone()
    };
    assert!(lab.park(&first).await);
    assert!(!lab.park(&again).await);
    assert_eq!(
        all(&lab).await[0].detail,
        first.detail,
        "the first one is kept"
    );
}

/// Two bad messages are two entries, though they read the same.
pub async fn two_bad_messages_are_two_entries(lab: Lab) {
    assert!(lab.park(&unusable("orders/3@42", "{")).await);
    assert!(lab.park(&unusable("orders/3@43", "{")).await);
    assert!(lab.park(&unusable("orders/3@42", "[")).await);
    assert_eq!(all(&lab).await.len(), 3);
}

/// A dead operation has one dead letter, whichever delivery led to it.
pub async fn a_dead_operation_has_one_dead_letter(lab: Lab) {
    let letter = |coordinates: &str, key| Parked {
        key: Some(text_key(key)),
        reason: "dead".into(),
        ..unusable(coordinates, "{}")
    };
    assert!(lab.park(&letter("orders/3@42", "pay-1")).await);
    assert!(!lab.park(&letter("orders/3@99", "pay-1")).await);
    assert!(lab.park(&letter("orders/3@42", "pay-2")).await);
    let doubt = Parked {
        reason: "in-doubt".into(),
        ..letter("orders/3@42", "pay-1")
    };
    assert!(lab.park(&doubt).await, "a doubt is another matter");
}

/// Dropping removes one message, and says whether it was there.
pub async fn a_dropped_message_is_gone(lab: Lab) {
    let [one, two] = [unusable("file:1", "{"), unusable("file:2", "{")];
    assert!(lab.park(&one).await && lab.park(&two).await);
    assert!(lab.drop_parked(one.id()).await);
    assert!(!lab.drop_parked(one.id()).await);
    let left = all(&lab).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].id(), two.id());
    assert!(lab.park(&one).await, "after that it is new again");
}

/// A batch of parks and drops is answered item by item.
pub async fn parks_and_drops_are_answered_in_order(lab: Lab) {
    let messages = ["file:1", "file:2", "file:1"].map(|at| unusable(at, "{"));
    let parked = answered(lab.store().park(messages.clone().into()).await, "park");
    assert_eq!(parked, [true, true, false]);
    let ids = [
        messages[1].id(),
        unusable("file:9", "{").id(),
        messages[0].id(),
        messages[0].id(),
    ];
    let dropped = answered(
        lab.store().drop_parked(ids.into(), None).await,
        "drop_parked",
    );
    assert_eq!(dropped, [true, false, true, false]);
}

/// 32 workers park the same message: one of them was first.
pub async fn a_message_parked_32_times_at_once_is_new_once(lab: Lab) {
    let lab = Arc::new(lab);
    let new = lab
        .race(32, |lab, _| async move {
            lab.park(&unusable("file:1", "{")).await
        })
        .await;
    assert_eq!(new.iter().filter(|new| **new).count(), 1);
    assert_eq!(all(&lab).await.len(), 1);
}

/// Parked messages have no window, and no record.
pub async fn a_parked_message_is_never_swept(lab: Lab) {
    assert!(lab.park(&unusable("file:1", "{")).await);
    lab.outlast_grace().await;
    assert_eq!(lab.sweep().await.removed, 0);
    assert_eq!(all(&lab).await.len(), 1);
    assert_eq!(lab.stats().await.records, [0; 6]);
}

/// Reasons and scopes select.
pub async fn parked_messages_are_selected_by_reason_and_scope(lab: Lab) {
    for (at, reason) in ["not-json", "too-old", "too-old", "dead"]
        .iter()
        .enumerate()
    {
        let place = if at % 2 == 0 {
            scope()
        } else {
            scope_of("other", "laws")
        };
        let base = unusable(&format!("file:{at}"), "{");
        assert!(
            lab.park(&Parked {
                reason: (*reason).into(),
                scope: place,
                ..base
            })
            .await
        );
    }
    let count = |scope: Option<Scope>, reasons: &[&str]| {
        let reasons = reasons.iter().map(|&reason| reason.into()).collect();
        ListQuery {
            reasons,
            limit: 10,
            ..ListQuery::in_scope_or_all(scope.as_ref())
        }
    };
    for (query, expected) in [
        (count(None, &[]), 4),
        (count(None, &["too-old"]), 2),
        (count(None, &["too-old", "dead"]), 3),
        (count(None, &["conflict"]), 0),
        (count(Some(scope()), &[]), 2),
        (count(Some(scope()), &["too-old"]), 1),
        (count(Some(scope_of("", "other")), &[]), 0),
    ] {
        assert_eq!(lab.list_parked(&query).await.len(), expected, "{query:?}");
    }
}

async fn all(lab: &Lab) -> Vec<Parked> {
    lab.list_parked(&ListQuery {
        limit: 100,
        ..ListQuery::default()
    })
    .await
}

/// A message without a usable key, read from `coordinates`.
fn unusable(coordinates: &str, payload: &'static str) -> Parked {
    Parked {
        scope: scope(),
        key: None,
        reason: "not-json".into(),
        detail: "the payload ends too early".into(),
        transport: None,
        coordinates: coordinates.into(),
        headers: Vec::new(),
        payload: Bytes::from_static(payload.as_bytes()),
        since: Timestamp::EPOCH,
    }
}

fn key(text: &str) -> Key {
    match Key::parse(text) {
        Ok(key) => key,
        Err(why) => panic!("{text:?} should be a key: {why}"),
    }
}
