//! The cases. Each has a store of its own.

use bytes::Bytes;
use semel_core::port::producer::ProducerJournal;
use semel_core::producer::{
    Batch, Incarnation, InputMark, MOST_INPUTS, Opened, Opening, ProducerEntry, ProducerMessage,
    ProducerOrder, Standing, StoredBatch, decode, encode,
};
use semel_core::{Certainty, Code, ErrorKind, Result, Timestamp};
use tokio::task::JoinSet;

pub use super::turns::{
    an_order_beside_appends_takes_hold_with_its_answer,
    processes_that_fence_each_other_give_out_each_sequence_once,
};
use super::{ProducerSubject, batch, opening};

/// Each opening has the next epoch, and one that is not the latest changes nothing and reads nothing.
pub async fn an_opening_has_a_higher_epoch_and_fences_the_one_before<S: ProducerSubject>(store: S) {
    let (one, other) = (store.journal().await, store.journal().await);
    let first = open(&one, "billing", "orders").await;
    assert_eq!((first.incarnation.epoch, first.next), (1, 1));
    append(&one, &first.incarnation, 1, &["a", "b"]).await;
    let second = open(&other, "billing", "orders").await;
    assert_eq!((second.incarnation.epoch, second.next), (2, 3));
    assert_eq!(second.incarnation.id, first.incarnation.id, "for ever");
    let late = batch(3, &["late"]);
    let fenced = [
        one.append(&first.incarnation, "orders", &late)
            .await
            .map(drop),
        one.confirm(&first.incarnation, "orders", 2).await.map(drop),
        one.confirm(&first.incarnation, "orders", 0).await.map(drop),
        one.pending(&first.incarnation, "orders", 0, 10)
            .await
            .map(drop),
        one.input(&first.incarnation, "orders", &[0; 32])
            .await
            .map(drop),
    ];
    for answer in fenced {
        let error = answer.expect_err("fenced");
        assert_eq!(error.code(), Code::ProducerFenced);
        assert_eq!(error.certainty(), Certainty::NotApplied);
    }
    let kept = texts(&pending(&other, &second.incarnation, 0).await);
    assert_eq!(kept, ["a", "b"]);
    let third = open(&one, "billing", "orders").await;
    assert_eq!((third.incarnation.epoch, third.next), (3, 3));
    let error = other.confirm(&second.incarnation, "orders", 2).await;
    assert_eq!(
        error.expect_err("fenced in turn").code(),
        Code::ProducerFenced
    );
}

/// Of openings at the same time, none has the epoch of another, and one is the latest.
pub async fn openings_at_once_have_epochs_of_their_own<S: ProducerSubject>(store: S) {
    let mut openings = JoinSet::new();
    for _ in 0..6 {
        let journal = store.journal().await;
        openings.spawn(async move {
            let opened = open(&journal, "billing", "orders").await;
            (journal, opened.incarnation)
        });
    }
    let opened = openings.join_all().await;
    let mut epochs: Vec<_> = opened.iter().map(|(_, it)| it.epoch).collect();
    epochs.sort_unstable();
    assert_eq!(epochs, [1, 2, 3, 4, 5, 6]);
    for (journal, incarnation) in &opened {
        let answer = journal
            .append(incarnation, "orders", &batch(1, &["x"]))
            .await;
        assert_eq!(answer.is_ok(), incarnation.epoch == 6, "{answer:?}");
    }
}

/// Messages come back byte for byte, with the times of their batches, in any process.
pub async fn what_is_appended_is_what_the_next_process_reads<S: ProducerSubject>(store: S) {
    let one = store.journal().await;
    let opened = open(&one, "billing", "orders").await;
    let messages = [
        ProducerMessage {
            id: Some("mine".into()),
            order: Some(Bytes::from_static(b"\0\xff")),
            headers: vec![("kind".into(), "paid".into())],
            payload: vec![7; 300_000].into(),
        },
        ProducerMessage::new(""),
    ];
    let written = Batch {
        body: encode(&messages),
        count: 2,
        at: Timestamp::from_millis(1_795_257_180_123),
        ..batch(1, &[])
    };
    let standing = one.append(&opened.incarnation, "orders", &written).await;
    assert_eq!(standing.expect("appended"), Standing::default());
    let other = store.journal().await;
    let opened = open(&other, "billing", "orders").await;
    assert_eq!(opened.next, 3);
    let read = pending(&other, &opened.incarnation, 0).await;
    let [read] = &*read else { panic!("{read:?}") };
    assert_eq!((read.first, read.count, read.at), (1, 2, written.at));
    assert_eq!(decode(&read.body).expect("messages"), messages);
}

/// A batch whose answer was lost can be appended again; any other that is not the next is refused.
pub async fn an_append_that_is_repeated_changes_nothing_and_one_that_is_not_the_next_is_refused<
    S: ProducerSubject,
>(
    store: S,
) {
    let journal = store.journal().await;
    let opened = open(&journal, "billing", "orders").await.incarnation;
    append(&journal, &opened, 1, &["a", "b"]).await;
    append(&journal, &opened, 1, &["a", "b"]).await;
    append(&journal, &opened, 3, &["c"]).await;
    for wrong in [batch(1, &["a", "b"]), batch(5, &["e"]), batch(3, &[])] {
        let refused = journal.append(&opened, "orders", &wrong).await;
        assert_eq!(
            refused.expect_err("refused").kind(),
            ErrorKind::Conflict,
            "{wrong:?}"
        );
    }
    assert_eq!(texts(&pending(&journal, &opened, 0).await), ["a", "b", "c"]);
}

/// A confirmed message is not given back, and a confirmation goes no further than what was appended, and never back.
pub async fn what_is_confirmed_is_forgotten_and_comes_never_back<S: ProducerSubject>(store: S) {
    let journal = store.journal().await;
    let opened = open(&journal, "billing", "orders").await.incarnation;
    append(&journal, &opened, 1, &["a", "b"]).await;
    append(&journal, &opened, 3, &["c", "d"]).await;
    let confirm = async |through| {
        let standing = journal.confirm(&opened, "orders", through).await;
        standing.expect("confirmed").confirmed
    };
    assert_eq!(confirm(3).await, 3);
    // A batch that is not confirmed whole is there whole.
    assert_eq!(texts(&pending(&journal, &opened, 0).await), ["c", "d"]);
    assert_eq!(confirm(1).await, 3);
    // An append confirms as well.
    let sent = Batch {
        confirmed: 4,
        ..batch(5, &["e"])
    };
    let standing = journal.append(&opened, "orders", &sent).await;
    assert_eq!(standing.expect("appended").confirmed, 4);
    assert_eq!(texts(&pending(&journal, &opened, 0).await), ["e"]);
    assert_eq!(confirm(99).await, 5);
    assert_eq!(pending(&journal, &opened, 0).await, []);
    // Nor does an append take a confirmation back, by one who knows less.
    let standing = journal.append(&opened, "orders", &batch(6, &["f"])).await;
    assert_eq!(standing.expect("appended").confirmed, 5);
    let again = open(&store.journal().await, "billing", "orders").await;
    assert_eq!((again.next, again.standing.confirmed), (7, 5));
}

/// A page has whole batches, one at least, behind the sequence that is asked for.
pub async fn pages_have_whole_batches_in_order<S: ProducerSubject>(store: S) {
    let journal = store.journal().await;
    let opened = open(&journal, "billing", "orders").await.incarnation;
    append(&journal, &opened, 1, &["a", "b", "c"]).await;
    append(&journal, &opened, 4, &["d", "e"]).await;
    append(&journal, &opened, 6, &["f"]).await;
    let page = async |after, most| {
        let page = journal.pending(&opened, "orders", after, most).await;
        texts(&page.expect("a page")).concat()
    };
    assert_eq!(page(0, 1).await, "abc");
    assert_eq!(page(0, 4).await, "abc");
    assert_eq!(page(0, 5).await, "abcde");
    assert_eq!(page(2, 3).await, "abc");
    assert_eq!(page(3, 3).await, "def");
    assert_eq!(page(5, 9).await, "f");
    assert_eq!(page(6, 9).await, "");
    // Nor has a page more bytes than fit into memory, as long as it has one batch.
    let large = Bytes::from(vec![b'x'; 9 << 20]);
    for first in [7, 8] {
        let large = Batch {
            body: encode(&[ProducerMessage::new(large.clone())]),
            ..batch(first, &["large"])
        };
        let appended = append_batch(&journal, &opened, &large).await;
        appended.expect("appended");
    }
    let page = journal.pending(&opened, "orders", 5, u32::MAX).await;
    let firsts: Vec<_> = page.expect("a page").iter().map(|it| it.first).collect();
    assert_eq!(firsts, [6, 7]);
}

/// The progress in an input is that of the batch, and outlives its messages.
pub async fn the_progress_of_an_input_is_kept_with_its_messages<S: ProducerSubject>(store: S) {
    let journal = store.journal().await;
    let opened = open(&journal, "billing", "orders").await.incarnation;
    let input = async |digest| {
        let mark = journal.input(&opened, "orders", &[digest; 32]).await;
        mark.expect("a mark")
    };
    assert_eq!(input(7).await, None);
    let read = Batch {
        input: Some(mark(7, 2, false)),
        ..batch(1, &["a", "b"])
    };
    let refused = Batch {
        input: Some(mark(8, 1, true)),
        ..batch(9, &["x"])
    };
    append_batch(&journal, &opened, &read)
        .await
        .expect("appended");
    let error = append_batch(&journal, &opened, &refused).await;
    assert!(error.is_err());
    assert_eq!(input(7).await, Some(mark(7, 2, false)));
    assert_eq!(input(8).await, None, "nothing of a batch that was refused");
    // The end of an input may have no messages.
    let end = Batch {
        input: Some(mark(7, 3, true)),
        confirmed: 2,
        ..batch(3, &[])
    };
    append_batch(&journal, &opened, &end).await.expect("ended");
    assert_eq!(input(7).await, Some(mark(7, 3, true)));
    assert_eq!(pending(&journal, &opened, 0).await, []);
}

/// A journal remembers so many inputs of a stream and no more: the one that was used longest ago is forgotten first.
pub async fn the_input_used_longest_ago_is_forgotten_first<S: ProducerSubject>(store: S) {
    let journal = store.journal().await;
    let opened = open(&journal, "billing", "orders").await.incarnation;
    let digest = |number: usize| {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&(number as u64).to_be_bytes());
        digest
    };
    let once_more = [0, MOST_INPUTS];
    for number in (0..MOST_INPUTS).chain(once_more) {
        let input = InputMark {
            digest: digest(number),
            ..mark(0, 1, true)
        };
        let end = Batch {
            input: Some(input),
            ..batch(1, &[])
        };
        append_batch(&journal, &opened, &end).await.expect("ended");
    }
    let known = async |number| {
        let mark = journal.input(&opened, "orders", &digest(number)).await;
        mark.expect("an answer").is_some()
    };
    assert!(!known(1).await);
    assert!(known(0).await && known(2).await && known(MOST_INPUTS).await);
}

/// Messages that wait for one place are not sent to another; once none waits, the stream may go elsewhere.
pub async fn messages_that_wait_for_one_place_are_not_published_to_another<S: ProducerSubject>(
    store: S,
) {
    let journal = store.journal().await;
    let opened = open(&journal, "billing", "orders").await.incarnation;
    append(&journal, &opened, 1, &["a"]).await;
    let other = Opening {
        target: "nats elsewhere".into(),
        ..opening("billing", "orders")
    };
    let error = journal.open(&other).await.expect_err("it waits");
    assert_eq!(error.code(), Code::ProducerElsewhere);
    assert!(error.to_string().contains("kafka here"), "{error}");
    // What was refused has fenced nobody.
    journal
        .confirm(&opened, "orders", 1)
        .await
        .expect("confirmed");
    let moved = journal.open(&other).await.expect("nothing waits");
    assert_eq!((moved.next, moved.incarnation.epoch), (2, 2));
    let entries = journal.list().await.expect("a list");
    assert_eq!(&*entries[0].streams[0].target, "nats elsewhere");
}

/// Frozen messages are appended and have a limit, which rises with an order and not with an opening.
pub async fn a_frozen_producer_keeps_its_messages_until_they_are_released<S: ProducerSubject>(
    store: S,
) {
    let (journal, operator) = (store.journal().await, store.journal().await);
    let name = "billing".parse().expect("a name");
    let opened = open(&journal, "billing", "orders").await.incarnation;
    append(&journal, &opened, 1, &["a", "b"]).await;
    journal
        .confirm(&opened, "orders", 1)
        .await
        .expect("confirmed");
    let order = async |order| operator.order(&name, order).await.expect("ordered");
    assert!(order(ProducerOrder::Freeze).await);
    let standing = append(&journal, &opened, 3, &["c"]).await;
    assert_eq!(
        standing,
        Standing {
            confirmed: 1,
            limit: Some(1)
        }
    );
    assert!(order(ProducerOrder::Release).await);
    assert_eq!(
        append(&journal, &opened, 4, &["d"]).await.limit,
        Some(3),
        "what was kept until then"
    );
    let again = open(&store.journal().await, "billing", "orders").await;
    assert_eq!(again.standing.limit, Some(3), "an opening thaws nothing");
    let entries = operator.list().await.expect("a list");
    assert!(entries[0].is_frozen);
    let stream = &entries[0].streams[0];
    assert_eq!((stream.waiting(), stream.released), (3, 3));
    assert!(order(ProducerOrder::Thaw).await);
    let journal = store.journal().await;
    let again = open(&journal, "billing", "orders").await;
    assert_eq!(again.standing.limit, None);
    assert_eq!(
        texts(&pending(&journal, &again.incarnation, 1).await),
        ["a", "b", "c", "d"]
    );
    let nobody = "nobody".parse().expect("a name");
    let ordered = operator.order(&nobody, ProducerOrder::Freeze).await;
    assert!(!ordered.expect("an answer"), "there is no such producer");
}

/// Sequences and messages are those of a stream; epochs are those of a producer.
pub async fn streams_and_producers_are_apart<S: ProducerSubject>(store: S) {
    let journal = store.journal().await;
    let orders = open(&journal, "billing", "orders").await.incarnation;
    append(&journal, &orders, 1, &["a"]).await;
    let other = open(&journal, "shipping=./1", "orders").await;
    assert_eq!((other.incarnation.epoch, other.next), (1, 1));
    assert_ne!(other.incarnation.id, orders.id);
    append(&journal, &other.incarnation, 1, &["x", "y"]).await;
    assert_eq!(texts(&pending(&journal, &orders, 0).await), ["a"]);
    let refunds = open(&journal, "billing", "refunds").await;
    assert_eq!((refunds.incarnation.epoch, refunds.next), (2, 1));
    let entries = journal.list().await.expect("a list");
    let shown: Vec<_> = entries
        .iter()
        .map(|entry| {
            let streams = entry.streams.iter();
            let streams: Vec<_> = streams.map(|it| (&*it.stream, it.waiting())).collect();
            (entry.name.as_str(), entry.epoch, streams)
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("billing", 2, vec![("orders", 1), ("refunds", 0)]),
            ("shipping=./1", 1, vec![("orders", 2)])
        ]
    );
}

/// Pages have the producers by name, in the order of their bytes, as many as asked for, and each with all its streams;
/// who comes in the meantime shifts nobody, and fewer than asked for are the end.
pub async fn producers_are_listed_page_by_page<S: ProducerSubject>(store: S) {
    let (writer, journal) = (store.journal().await, store.journal().await);
    let mut names = [
        "till", "Billing", "stock", "a", "ingest", "ingest!", "~", "!",
    ];
    for name in names {
        open(&writer, name, "orders").await;
    }
    open(&writer, "stock", "refunds").await;
    names.sort_unstable();
    let read = async |after: Option<&str>, most| {
        let after = after.map(|it| it.parse().expect("a name"));
        let page = journal.page(after.as_ref(), most).await.expect("a page");
        let streams = |it: &ProducerEntry| it.streams.len();
        let page = page.iter().map(|it| (it.name.to_string(), streams(it)));
        page.collect::<Vec<_>>()
    };
    let streams = |name: &str| if name == "stock" { 2 } else { 1 };
    let expected: Vec<_> = names.map(|it| (it.to_owned(), streams(it))).into();
    for most in 1..=9 {
        let mut all = Vec::new();
        loop {
            let after = all.last().map(|it: &(String, usize)| it.0.clone());
            let page = read(after.as_deref(), most).await;
            assert!(page.len() <= most as usize, "{most}: {page:?}");
            let is_end = page.len() < most as usize;
            all.extend(page);
            if is_end {
                break;
            }
        }
        assert_eq!(all, expected, "by {most}");
    }
    assert_eq!(read(None, 0).await, expected[..1], "one at least");
    assert_eq!(read(Some("b"), 2).await, expected[3..5], "behind nobody");
    assert_eq!(read(Some("~"), 9).await, []);
    let before = read(None, 3).await;
    open(&writer, "#", "orders").await;
    open(&writer, "zoo", "orders").await;
    let behind = read(Some(&before[2].0), 9).await;
    let mut expected = expected[3..].to_vec();
    expected.insert(4, ("zoo".to_owned(), 1));
    assert_eq!(behind, expected);
    let all = journal.list().await.expect("a list");
    assert_eq!(all.len(), 10);
    assert!(all.is_sorted_by(|one, other| one.name < other.name));
}

/// A store that no producer was opened in lists none, and takes no order.
pub async fn nothing_is_on_record_before_the_first_opening<S: ProducerSubject>(store: S) {
    let journal = store.journal().await;
    assert_eq!(journal.list().await.expect("a list"), []);
    let name = "billing".parse().expect("a name");
    let ordered = journal.order(&name, ProducerOrder::Freeze).await;
    assert!(!ordered.expect("an answer"));
    assert_eq!(journal.list().await.expect("a list"), []);
}

async fn open(journal: &impl ProducerJournal, name: &str, stream: &str) -> Opened {
    journal.open(&opening(name, stream)).await.expect("opened")
}

fn mark(digest: u8, rows: u64, is_whole: bool) -> InputMark {
    InputMark {
        digest: [digest; 32],
        rows,
        bytes: rows * 10,
        is_whole,
    }
}

async fn append(
    journal: &impl ProducerJournal,
    incarnation: &Incarnation,
    first: u64,
    payloads: &[&'static str],
) -> Standing {
    let batch = batch(first, payloads);
    append_batch(journal, incarnation, &batch)
        .await
        .expect("appended")
}

async fn append_batch(
    journal: &impl ProducerJournal,
    incarnation: &Incarnation,
    batch: &Batch,
) -> Result<Standing> {
    journal.append(incarnation, "orders", batch).await
}

async fn pending(
    journal: &impl ProducerJournal,
    incarnation: &Incarnation,
    after: u64,
) -> Vec<StoredBatch> {
    let pending = journal
        .pending(incarnation, "orders", after, u32::MAX)
        .await;
    pending.expect("batches")
}

fn texts(batches: &[StoredBatch]) -> Vec<String> {
    let messages = batches
        .iter()
        .flat_map(|it| decode(&it.body).expect("messages"));
    messages
        .map(|it| String::from_utf8_lossy(&it.payload).into_owned())
        .collect()
}
