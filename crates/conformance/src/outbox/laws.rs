//! The cases. Each has tables of its own.

mod operations;
mod processes;

pub use operations::{
    a_dead_message_that_is_dropped_lets_those_behind_it_go,
    a_dead_message_that_is_tried_again_is_in_its_place,
    dead_messages_are_listed_page_by_page_and_shown_whole, what_is_not_published_is_counted,
};
pub use processes::{
    a_process_that_renews_its_leases_is_there_for_the_others,
    a_stream_has_one_relay_and_that_one_sink,
    two_processes_share_the_partitions_and_one_that_is_fenced_changes_nothing,
};

use std::collections::BTreeMap;
use std::future::ready;
use std::time::Duration;

use bytes::Bytes;
use semel_core::ByteString;
use semel_core::outbox::{OutboxId, OutboxMessage, Outgoing};
use semel_core::port::outbox::{OutboxStore, Unsent};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::readers::{lease_of, leases, message, pending, read, relay, texts};
use super::{Change, Ending, OutboxSubject};

/// A message is seen once its transaction commits, and never if it is undone.
pub async fn a_message_is_seen_if_its_transaction_commits<S: OutboxSubject>(shop: S) {
    let outbox = shop.outbox().await;
    let leases = leases(&outbox, "one").await;
    shop.transact(vec![message("lost", Some("k"))], ready(Ending::Rollback))
        .await;
    assert_eq!(pending(&outbox, "one", &leases).await, [""; 0]);
    let (end, ended) = oneshot::channel();
    let open = shop.transact(vec![message("kept", Some("k"))], async {
        ended.await.expect("an end")
    });
    let open = tokio::spawn(open);
    sleep(LONG_ENOUGH).await;
    assert_eq!(pending(&outbox, "one", &leases).await, [""; 0]);
    end.send(Ending::Commit).expect("it is open");
    let ids = open.await.expect("committed");
    let seen = read(&outbox, "one", &leases).await;
    let [seen] = &*seen else { panic!("{seen:?}") };
    assert_eq!((seen.id, &*seen.payload), (ids[0], &b"kept"[..]));
    assert_eq!(outbox.sent(&ids, false).await.expect("recorded"), 1);
    assert_eq!(outbox.sent(&ids, false).await.expect("repeated"), 0);
    assert_eq!(pending(&outbox, "one", &leases).await, [""; 0]);
}

/// Headers, payloads and ids are those that were written.
pub async fn what_is_written_is_what_is_read<S: OutboxSubject>(shop: S) {
    let outbox = shop.outbox().await;
    let leases = leases(&outbox, "one").await;
    let id = OutboxId::from_u128(0x0190_a6f1_2b3c_7d4e_8f50_1122_3344_5566);
    let all: Bytes = (0..=255).collect::<Vec<u8>>().into();
    let written = vec![
        OutboxMessage::new("orders", all)
            .ordered_by("clé \"1\" \\ ключ")
            .with_header("kind", "\"paid\"")
            .with_header("a", "é")
            .with_id(id),
        OutboxMessage::new("orders", ""),
        OutboxMessage::new("orders", "x".repeat(200_000)).ordered_by("k".repeat(1_024)),
    ];
    let ids = shop.transact(written.clone(), ready(Ending::Commit)).await;
    assert_eq!(ids[0], id, "the caller's own");
    for made in &ids[1..] {
        assert_eq!(made.to_string().as_bytes()[14], b'7', "a UUIDv7: {made}");
    }
    let seen = read(&outbox, "one", &leases).await;
    assert_eq!(seen.len(), written.len());
    for (written, id) in written.iter().zip(&ids) {
        let mut seen = seen.iter();
        let seen = seen.find(|it| it.id == *id).expect("it is there");
        assert_eq!(seen.payload, written.payload);
        assert_eq!(seen.order_key.as_deref(), written.order_key.as_deref());
        assert_eq!(seen.attempts, 0);
        let headers = seen.headers.as_ref().expect("headers");
        assert_eq!(headers.len(), written.headers.len());
        for (name, value) in &written.headers {
            let is_there =
                |(it, its): &(ByteString, Bytes)| **it == **name && *its == value.as_bytes();
            assert!(headers.iter().any(is_there), "{name} in {headers:?}");
        }
    }
}

/// A transaction that commits after others is seen, though it wrote its message before them.
pub async fn a_transaction_that_commits_late_is_not_missed<S: OutboxSubject>(shop: S) {
    let outbox = shop.outbox().await;
    let leases = leases(&outbox, "one").await;
    let (end, ended) = oneshot::channel();
    let late = shop.transact(vec![message("late", None)], async {
        ended.await.expect("an end")
    });
    let late = tokio::spawn(late);
    sleep(LONG_ENOUGH).await;
    let early = shop.transact(vec![message("early", None)], ready(Ending::Commit));
    let mut early = tokio::spawn(early);
    let is_early = timeout(PATIENCE, &mut early).await.is_ok();
    assert_eq!(is_early, S::WRITES_TOGETHER, "nobody else is kept waiting");
    if is_early {
        let seen = read(&outbox, "one", &leases).await;
        assert_eq!(texts(&seen), ["early"]);
        let ids: Vec<OutboxId> = seen.iter().map(|it| it.id).collect();
        outbox.sent(&ids, false).await.expect("recorded");
    }
    end.send(Ending::Commit).expect("it is open");
    late.await.expect("committed");
    if !is_early {
        early.await.expect("committed");
    }
    let expected = ["late", "early"];
    let expected = &expected[..if is_early { 1 } else { 2 }];
    assert_eq!(pending(&outbox, "one", &leases).await, expected);
}

/// Messages of an order key go out in order of insertion within a transaction and of commit between transactions, also
/// where the transaction that wrote first commits last.
pub async fn messages_of_an_order_key_are_in_order_of_insertion_and_then_of_commit<
    S: OutboxSubject,
>(
    shop: S,
) {
    let outbox = shop.outbox().await;
    let leases = leases(&outbox, "one").await;
    let (end, ended) = oneshot::channel();
    let late = vec![message("late 1", Some("k")), message("late 2", Some("k"))];
    let late = shop.transact(late, async { ended.await.expect("an end") });
    let late = tokio::spawn(late);
    sleep(LONG_ENOUGH).await;
    let early = shop.transact(vec![message("early", Some("k"))], ready(Ending::Commit));
    let mut early = tokio::spawn(early);
    // A database may keep the second writer of a key waiting for the first.
    let is_early = timeout(PATIENCE, &mut early).await.is_ok();
    end.send(Ending::Commit).expect("it is open");
    late.await.expect("committed");
    if !is_early {
        early.await.expect("committed");
    }
    put(&shop, "last", Some("k")).await;
    let expected = if is_early {
        ["early", "late 1", "late 2", "last"]
    } else {
        ["late 1", "late 2", "early", "last"]
    };
    assert_eq!(pending(&outbox, "one", &leases).await, expected);
}

/// Transactions that write two keys, each in an order of its own, get through, and nothing of them is missing.
pub async fn writers_of_two_order_keys_in_two_orders_get_through<S: OutboxSubject>(shop: S) {
    let shop = std::sync::Arc::new(shop);
    let outbox = shop.outbox().await;
    let leases = leases(&outbox, "one").await;
    let mut running = JoinSet::new();
    for writer in 0..4 {
        let shop = std::sync::Arc::clone(&shop);
        running.spawn(async move {
            let keys = if writer % 2 == 0 {
                ["a", "b"]
            } else {
                ["b", "a"]
            };
            for number in 10..35 {
                let text = format!("{writer} {number}");
                let messages = keys.map(|key| message(&text, Some(key))).into();
                shop.transact(messages, ready(Ending::Commit)).await;
            }
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("every transaction committed");
    }
    let seen = read(&outbox, "one", &leases).await;
    assert_eq!(seen.len(), 200);
    let mut last = BTreeMap::new();
    for it in &seen {
        let text = String::from_utf8_lossy(&it.payload).into_owned();
        let (writer, number) = text.split_once(' ').expect("a writer and a number");
        let line = (it.order_key.clone(), writer.to_owned());
        let before = last.insert(line, number.to_owned());
        assert!(
            before.is_none_or(|before| *before < *number),
            "in the order of each writer's commits"
        );
    }
}

/// A message that was put off or is dead holds up its order key and no other; a person may have it tried again, in its
/// place.
pub async fn what_was_put_off_or_is_dead_holds_up_its_order_key_and_no_other<S: OutboxSubject>(
    shop: S,
) {
    let outbox = shop.outbox().await;
    for (text, key) in [("a 1", "a"), ("a 2", "a"), ("b 1", "b")] {
        put(&shop, text, Some(key)).await;
    }
    let leases = leases(&outbox, "one").await;
    let seen = read(&outbox, "one", &leases).await;
    let put_off = |wait, counted| Unsent {
        id: seen[0].id,
        lease: lease_of(&leases, &seen[0]),
        error: "too\0large".into(),
        wait,
        counted,
    };
    let hour = Some(Duration::from_secs(3_600));
    for unsent in [
        put_off(hour, false),
        put_off(hour, true),
        put_off(None, true),
    ] {
        let id = unsent.id;
        let changed = outbox.put_off(&relay("one"), &[unsent]).await;
        assert_eq!(changed.expect("put off"), [id]);
        assert_eq!(pending(&outbox, "one", &leases).await, ["b 1"]);
    }
    put(&shop, "a 3", Some("a")).await;
    assert_eq!(pending(&outbox, "one", &leases).await, ["b 1"]);
    let contents = S::contents(&outbox, "orders").await;
    assert_eq!((contents.waiting, contents.dead), (3, 1));
    let dead = shop.dead().await;
    let [(attempts, error)] = &*dead else {
        panic!("{dead:?}")
    };
    assert_eq!(*attempts, 2, "the tries that count");
    assert!(error.contains("too") && error.contains("large"), "{error}");
    shop.alter(Change::TryAgain).await;
    let again = read(&outbox, "one", &leases).await;
    assert_eq!(texts_of(&again, "a"), ["a 1", "a 2", "a 3"]);
    assert_eq!(texts_of(&again, "b"), ["b 1"]);
    assert!(again.iter().all(|it| it.attempts == 0));
}

/// A message whose wait is over comes before those behind it, with its count.
pub async fn a_message_that_is_put_off_comes_back_in_its_place<S: OutboxSubject>(shop: S) {
    let outbox = shop.outbox().await;
    for text in ["a 1", "a 2"] {
        put(&shop, text, Some("a")).await;
    }
    let leases = leases(&outbox, "one").await;
    let seen = read(&outbox, "one", &leases).await;
    let soon = Unsent {
        id: seen[0].id,
        lease: lease_of(&leases, &seen[0]),
        error: "busy".into(),
        wait: Some(Duration::from_secs(1)),
        counted: true,
    };
    let id = soon.id;
    let changed = outbox.put_off(&relay("one"), &[soon]).await;
    assert_eq!(changed.expect("put off"), [id]);
    let back = loop {
        let seen = read(&outbox, "one", &leases).await;
        if !seen.is_empty() {
            break seen;
        }
        sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(texts(&back), ["a 1", "a 2"]);
    assert_eq!((back[0].attempts, back[1].attempts), (1, 0));
}

/// A batch is as large as it may be, and has one message at least.
pub async fn a_batch_ends_with_the_message_that_fills_its_bytes<S: OutboxSubject>(shop: S) {
    let outbox = shop.outbox().await;
    let leases = leases(&outbox, "one").await;
    let large = "x".repeat(6 << 20);
    for _ in 0..4 {
        put(&shop, &large, None).await;
    }
    let seen = read(&outbox, "one", &leases).await;
    assert_eq!(seen.len(), 3);
    let ids: Vec<OutboxId> = seen.iter().map(|it| it.id).collect();
    assert_eq!(outbox.sent(&ids, false).await.expect("recorded"), 3);
    assert_eq!(read(&outbox, "one", &leases).await.len(), 1);
    let few = outbox.pending(&relay("one"), &leases, 0).await;
    assert_eq!(few.expect("none"), []);
}

/// A relay sees its own stream alone; the others are told.
pub async fn streams_are_apart<S: OutboxSubject>(shop: S) {
    let outbox = shop.outbox().await;
    put(&shop, "mine", Some("a")).await;
    for stream in ["bills", "Orders"] {
        let foreign = OutboxMessage::new(stream, "foreign").ordered_by("a");
        shop.transact(vec![foreign], ready(Ending::Commit)).await;
    }
    let leases = leases(&outbox, "one").await;
    assert_eq!(pending(&outbox, "one", &leases).await, ["mine"]);
    let mut contents = S::contents(&outbox, "orders").await;
    assert_eq!((contents.waiting, contents.dead), (1, 0));
    contents.others.sort();
    let expected = [("Orders".to_owned(), None), ("bills".to_owned(), None)];
    assert_eq!(contents.others, expected);
}

/// Published messages that are kept are removed when their time is over, and not seen meanwhile.
pub async fn published_messages_are_kept_for_a_while_if_that_is_wanted<S: OutboxSubject>(shop: S) {
    let outbox = shop.outbox().await;
    for text in ["a", "b", "c"] {
        put(&shop, text, None).await;
    }
    let leases = leases(&outbox, "one").await;
    let seen = read(&outbox, "one", &leases).await;
    let ids: Vec<OutboxId> = seen.iter().map(|it| it.id).collect();
    assert_eq!(outbox.sent(&ids, true).await.expect("kept"), 3);
    assert_eq!(outbox.sent(&ids, true).await.expect("repeated"), 0);
    assert_eq!(pending(&outbox, "one", &leases).await, [""; 0]);
    let day = Duration::from_secs(86_400);
    assert_eq!(outbox.forget("orders", day, 10).await.expect("none"), 0);
    shop.alter(Change::PublishedEarlier(2 * day)).await;
    assert_eq!(outbox.forget("bills", day, 10).await.expect("none"), 0);
    assert_eq!(outbox.forget("orders", day, 2).await.expect("two"), 2);
    assert_eq!(outbox.forget("orders", day, 2).await.expect("one"), 1);
}

/// A process that waits is woken by a commit, or looks so often that it comes to the same.
pub async fn a_commit_is_noticed<S: OutboxSubject>(shop: S) {
    let outbox = shop.outbox().await;
    let leases = leases(&outbox, "one").await;
    let noticing = async {
        while pending(&outbox, "one", &leases).await.is_empty() {
            outbox.committed().await.expect("an answer");
        }
    };
    let committing = async {
        sleep(LONG_ENOUGH).await;
        put(&shop, "a", None).await;
    };
    let both = async { tokio::join!(noticing, committing) };
    timeout(MOST, both).await.expect("it was noticed");
}

async fn put<S: OutboxSubject>(shop: &S, text: &str, key: Option<&str>) {
    let messages = vec![message(text, key)];
    shop.transact(messages, ready(Ending::Commit)).await;
}

/// Returns the texts of the messages of one order key: messages of two are in no order.
fn texts_of(messages: &[Outgoing], key: &str) -> Vec<String> {
    let of_key = messages
        .iter()
        .filter(|it| it.order_key.as_deref() == Some(key));
    texts(&of_key.cloned().collect::<Vec<_>>())
}

/// The time after which a transaction that was begun has written.
const LONG_ENOUGH: Duration = Duration::from_millis(300);
/// The time after which a transaction that waits for another one is taken for waiting.
const PATIENCE: Duration = Duration::from_secs(2);
const MOST: Duration = Duration::from_secs(60);
