//! The verbs of operators: what is dead is listed, tried again in its place, or dropped, while a relay holds the leases.

use std::collections::BTreeSet;
use std::future::ready;
use std::time::Duration;

use semel_core::Note;
use semel_core::outbox::{OutboxId, OutboxMessage, Outgoing, PartitionLease};
use semel_core::port::outbox::operations::{
    Backlog, Changed, DeadMessage, DeadOrder, OutboxOperations,
};
use semel_core::port::outbox::{OutboxStore, Unsent};
use tokio::time::sleep;

use super::super::readers::{lease_of, leases, pending, read, relay, texts};
use super::super::{Ending, OutboxSubject};
use super::put;

/// Dead messages are listed in bounded pages, each of them once and with its facts, and shown whole.
pub async fn dead_messages_are_listed_page_by_page_and_shown_whole<S: OutboxSubject>(shop: S) {
    let outbox = shop.outbox().await;
    let leases = leases(&outbox, "one").await;
    let header = OutboxMessage::new("orders", "b 1")
        .ordered_by("b")
        .with_header("kind", "paid");
    shop.transact(vec![header], ready(Ending::Commit)).await;
    for (text, key) in [
        ("none 1", None),
        ("a 1", Some("a")),
        ("none 2", None),
        ("a 2", Some("a")),
        ("empty 1", Some("")),
        ("fine 1", Some("fine")),
    ] {
        put(&shop, text, key).await;
    }
    let foreign = OutboxMessage::new("bills", "foreign");
    shop.transact(vec![foreign], ready(Ending::Commit)).await;
    let is_poison = |text: &str| !text.starts_with("fine");
    // What is behind a dead message is not handed out, so the second of an order key dies only with it.
    kill(&outbox, &leases, is_poison).await;
    let mut found = Vec::new();
    loop {
        let after = found.last().map(DeadMessage::position);
        let page = outbox.dead("orders", after.as_ref(), 2).await;
        let page = page.expect("a page");
        assert!(page.len() <= 2);
        if page.is_empty() {
            break;
        }
        found.extend(page);
    }
    let keys: Vec<Option<&str>> = found.iter().map(|it| it.order_key.as_deref()).collect();
    assert_eq!(keys, [None, None, Some(""), Some("a"), Some("b")]);
    assert!(found[0].place < found[1].place, "in the order of places");
    for it in &found {
        assert_eq!((it.attempts, &*it.error), (1, "too large"));
        assert!(it.dead_at >= it.created_at, "{it:?}");
        let whole = outbox.dead_whole("orders", it.id).await.expect("one");
        let whole = whole.expect("it is there");
        assert_eq!(&whole.facts, it);
        assert_eq!(whole.message.payload.len() as u64, it.size_bytes);
        let headers = whole.message.headers.expect("headers");
        let expected = usize::from(it.order_key.as_deref() == Some("b"));
        assert_eq!(headers.len(), expected);
        assert_eq!(outbox.dead_whole("bills", it.id).await.expect("none"), None);
    }
    let none = outbox.dead("bills", None, 10).await.expect("a page");
    assert_eq!(none, []);
    let fine = read(&outbox, "one", &leases).await;
    assert_eq!(texts(&fine), ["fine 1"]);
    let alive = outbox.dead_whole("orders", fine[0].id).await;
    assert_eq!(alive.expect("none"), None, "it is not dead");
}

/// A dead message that is tried again is in its place: what was committed behind it waits for it.
pub async fn a_dead_message_that_is_tried_again_is_in_its_place<S: OutboxSubject>(shop: S) {
    let outbox = shop.outbox().await;
    let operator = shop.outbox().await;
    for (text, key) in [("a 1", "a"), ("a 2", "a"), ("b 1", "b")] {
        put(&shop, text, Some(key)).await;
    }
    let leases = leases(&outbox, "one").await;
    let dead = kill(&outbox, &leases, |text| text == "a 1").await;
    put(&shop, "a 3", Some("a")).await;
    assert_eq!(pending(&outbox, "one", &leases).await, ["b 1"]);
    let alive = read(&outbox, "one", &leases).await[0].id;
    let order = async |stream: &str, ids: &[OutboxId]| {
        let changed = operator.order_dead(stream, ids, DeadOrder::TryAgain, None);
        changed.await.expect("an answer").count
    };
    assert_eq!(order("bills", &dead).await, 0, "another stream");
    assert_eq!(order("orders", &[alive]).await, 0, "it waits as it is");
    assert_eq!(order("orders", &[dead[0], dead[0]]).await, 1);
    assert_eq!(order("orders", &dead).await, 0, "repeated");
    let again = read(&outbox, "one", &leases).await;
    let of_a = again
        .iter()
        .filter(|it| it.order_key.as_deref() == Some("a"))
        .cloned();
    assert_eq!(texts(&of_a.collect::<Vec<_>>()), ["a 1", "a 2", "a 3"]);
    assert!(again.iter().all(|it| it.attempts == 0), "counted anew");
    assert_eq!(outbox.dead("orders", None, 10).await.expect("a page"), []);
    // It may die once more.
    let dead = kill(&outbox, &leases, |text| text == "a 1").await;
    assert_eq!(dead.len(), 1);
    assert_eq!(pending(&outbox, "one", &leases).await, ["b 1"]);
}

/// A dead message that is dropped is gone, and what waited behind it goes out. Nothing else can be dropped.
pub async fn a_dead_message_that_is_dropped_lets_those_behind_it_go<S: OutboxSubject>(shop: S) {
    let outbox = shop.outbox().await;
    for text in ["a 1", "a 2"] {
        put(&shop, text, Some("a")).await;
    }
    put(&shop, "kept", None).await;
    let leases = leases(&outbox, "one").await;
    let kept = read(&outbox, "one", &leases).await;
    let kept = kept.iter().find(|it| &*it.payload == b"kept");
    let kept = kept.expect("it is there").id;
    outbox.sent(&[kept], true).await.expect("published");
    let dead = kill(&outbox, &leases, |text| text == "a 1").await;
    let note = Note {
        by: "ann".into(),
        reason: "sent by hand".into(),
    };
    let drop = async |ids: &[OutboxId]| {
        let changed = outbox.order_dead("orders", ids, DeadOrder::Drop, Some(&note));
        changed.await.expect("an answer").count
    };
    assert_eq!(drop(&[kept, OutboxId::from_u128(7)]).await, 0);
    assert_eq!(drop(&dead).await, 1);
    assert_eq!(drop(&dead).await, 0, "repeated");
    let seen = read(&outbox, "one", &leases).await;
    assert_eq!(texts(&seen), ["a 2"]);
    assert_eq!(drop(&[seen[0].id]).await, 0, "it is not dead");
    assert_eq!(pending(&outbox, "one", &leases).await, ["a 2"]);
    let empty = outbox.order_dead("orders", &[], DeadOrder::Drop, None);
    assert_eq!(empty.await.expect("an answer"), Changed::default());
}

/// Messages that wait and messages that are dead are counted, with the age of the first that waits.
pub async fn what_is_not_published_is_counted<S: OutboxSubject>(shop: S) {
    let outbox = shop.outbox().await;
    let empty = outbox.backlog("orders").await.expect("counts");
    assert_eq!(empty, Backlog::default());
    for text in ["a 1", "a 2", "a 3"] {
        put(&shop, text, Some("a")).await;
    }
    put(&shop, "sent", None).await;
    let foreign = OutboxMessage::new("bills", "foreign");
    shop.transact(vec![foreign], ready(Ending::Commit)).await;
    let leases = leases(&outbox, "one").await;
    let seen = read(&outbox, "one", &leases).await;
    let sent = seen.iter().find(|it| &*it.payload == b"sent");
    let sent = sent.expect("it is there").id;
    outbox.sent(&[sent], true).await.expect("published");
    kill(&outbox, &leases, |text| text == "a 1").await;
    let counts = outbox.backlog("orders").await.expect("counts");
    assert_eq!((counts.waiting, counts.dead), (2, 1));
    let before = counts.oldest.expect("two wait");
    sleep(Duration::from_millis(20)).await;
    let after = outbox.backlog("orders").await.expect("counts").oldest;
    assert!(after.expect("they still do") > before, "it grows older");
}

/// Has the relay give up what it can read and `is_poison` picks; returns the ids.
async fn kill(
    outbox: &impl OutboxStore,
    leases: &[PartitionLease],
    is_poison: impl Fn(&str) -> bool,
) -> Vec<OutboxId> {
    let seen = read(outbox, "one", leases).await;
    let mut keys = BTreeSet::new();
    let first_of_key = |it: &&Outgoing| {
        let is_poison = is_poison(&String::from_utf8_lossy(&it.payload));
        is_poison && it.order_key.clone().is_none_or(|key| keys.insert(key))
    };
    let unsent: Vec<Unsent> = seen
        .iter()
        .filter(first_of_key)
        .map(|it| Unsent {
            id: it.id,
            lease: lease_of(leases, it),
            error: "too large".into(),
            wait: None,
            counted: true,
        })
        .collect();
    let changed = outbox.put_off(&relay("one"), &unsent).await;
    let mut changed = changed.expect("given up");
    let ids: Vec<OutboxId> = unsent.into_iter().map(|it| it.id).collect();
    changed.sort_by_key(|id| ids.iter().position(|it| it == id));
    assert_eq!(changed, ids);
    ids
}
