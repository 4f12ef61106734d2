//! The cases. Each has a store of its own.

use bytes::Bytes;
use semel_core::ingest::{GateAnswer, Numbering, Position, Submission, UNNUMBERED};
use semel_core::port::ingest::{Accepted, IngestJournal};
use semel_core::producer::{ProducerMessage, ProducerOrder, Standing, StoredBatch, decode};
use tokio::task::JoinSet;

use super::{IngestSubject, arrived, producer, sent, settled};

/// Messages come back byte for byte, with the times of their batches, in any process.
pub async fn what_was_taken_is_what_the_next_process_reads<S: IngestSubject>(store: S) {
    let messages = [
        ProducerMessage {
            id: Some("mine".into()),
            order: None,
            headers: vec![("kind".into(), "paid".into())],
            payload: vec![7; 300_000].into(),
        },
        ProducerMessage::new(Bytes::from_static(b"\0\xff")),
    ];
    let submission = Submission {
        messages: messages.clone().into(),
        ..sent(3, 1, &[])
    };
    let answer = submit(&store.journal().await, &submission).await;
    assert_eq!(answer, taken(0, 2, 3));
    let read = accepted(&store.journal().await, 0, 10).await;
    assert_eq!((read.standing, read.next), (Standing::default(), 3));
    let [batch] = &*read.batches else {
        panic!("{read:?}")
    };
    assert_eq!((batch.first, batch.count, batch.at), (1, 2, submission.at));
    assert_eq!(decode(&batch.body).expect("messages"), messages);
}

/// The known beginning of a batch is dropped, what is known whole changes nothing, and neither does what leaves a gap.
pub async fn each_message_is_taken_once_and_what_is_refused_changes_nothing<S: IngestSubject>(
    store: S,
) {
    let journal = store.journal().await;
    for (first, payloads, expected) in [
        (1, &["a", "b"][..], taken(0, 2, 3)),
        (1, &["a", "b"], taken(2, 0, 3)),
        (2, &["b"], taken(1, 0, 3)),
        (2, &["b", "c", "d"], taken(1, 2, 5)),
        (6, &["f"], GateAnswer::Gap { expected: 5 }),
        (5, &["e"], taken(0, 1, 6)),
        (1, &["a", "b", "c", "d", "e"], taken(5, 0, 6)),
    ] {
        let answer = submit(&journal, &sent(1, first, payloads)).await;
        assert_eq!(answer, expected, "{first}: {payloads:?}");
    }
    let read = accepted(&store.journal().await, 0, 10).await;
    assert_eq!(texts(&read.batches), ["a", "b", "c", "d", "e"]);
    assert_eq!(read.next, 6);
}

/// Once a message of a later epoch was taken, or known, nothing of an older one is; what is refused raises no epoch.
pub async fn an_older_epoch_is_fenced_also_for_what_is_known<S: IngestSubject>(store: S) {
    let (one, other) = (store.journal().await, store.journal().await);
    submit(&one, &sent(2, 1, &["a"])).await;
    // Refused: no epoch of it.
    let gap = submit(&other, &sent(9, 4, &["d"])).await;
    assert_eq!(gap, GateAnswer::Gap { expected: 2 });
    assert_eq!(submit(&one, &sent(2, 2, &["b"])).await, taken(0, 1, 3));
    // Known: its epoch counts.
    assert_eq!(submit(&other, &sent(3, 2, &["b"])).await, taken(1, 0, 3));
    let fenced = GateAnswer::Fenced { epoch: 3 };
    for (first, payload) in [(1, "a"), (3, "c"), (9, "x")] {
        let answer = submit(&one, &sent(2, first, &[payload])).await;
        assert_eq!(answer, fenced, "{first}");
    }
    let again = store.journal().await;
    assert_eq!(
        submit(&again, &sent(2, 3, &["c"])).await,
        fenced,
        "for ever"
    );
    assert_eq!(submit(&again, &sent(3, 3, &["c"])).await, taken(0, 1, 4));
    assert_eq!(texts(&accepted(&one, 0, 9).await.batches), ["a", "b", "c"]);
}

/// A later epoch sends old sequences again, which are known, and goes on behind them.
pub async fn a_later_epoch_goes_on_where_the_one_before_was<S: IngestSubject>(store: S) {
    let journal = store.journal().await;
    submit(&journal, &sent(1, 1, &["a", "b"])).await;
    let answer = submit(&journal, &sent(2, 2, &["b", "c"])).await;
    assert_eq!(answer, taken(1, 1, 4));
    assert_eq!(
        texts(&accepted(&journal, 0, 9).await.batches),
        ["a", "b", "c"]
    );
}

/// A first sequence behind 1 is refused, unless the producer may begin anywhere.
pub async fn a_producer_that_is_not_on_record_begins_with_one_or_where_it_may<S: IngestSubject>(
    store: S,
) {
    let journal = store.journal().await;
    let late = sent(4, 7, &["g"]);
    let unknown = GateAnswer::Unknown { expected: 1 };
    assert_eq!(submit(&journal, &late).await, unknown);
    assert_eq!(journal.list().await.expect("a list"), [], "nothing of it");
    let anywhere = Submission {
        numbering: Numbering::Sender {
            producer: producer("billing-0a"),
            epoch: 4,
            first: 7,
            is_any_first: true,
        },
        ..late
    };
    assert_eq!(submit(&journal, &anywhere).await, taken(0, 1, 8));
    assert_eq!(submit(&journal, &sent(4, 5, &["e"])).await, taken(1, 0, 8));
    let read = accepted(&journal, 0, 9).await;
    assert_eq!((read.standing.confirmed, read.batches[0].first), (6, 7));
}

/// Of the same messages from several processes at the same time, each is taken once.
pub async fn submissions_at_once_are_taken_once<S: IngestSubject>(store: S) {
    let mut submissions = JoinSet::new();
    for _ in 0..6 {
        let journal = store.journal().await;
        submissions.spawn(async move { submit(&journal, &sent(1, 1, &["a", "b"])).await });
    }
    let answers = submissions.join_all().await;
    let new = answers.iter().filter(|it| **it == taken(0, 2, 3)).count();
    let known = answers.iter().filter(|it| **it == taken(2, 0, 3)).count();
    assert_eq!((new, known), (1, 5), "{answers:?}");
    assert_eq!(
        texts(&accepted(&store.journal().await, 0, 9).await.batches),
        ["a", "b"]
    );
}

/// The store answers what [`Submission::decide`] says of what it answered before, whatever is sent in whatever order.
pub async fn histories_agree_with_the_decision<S: IngestSubject>(store: S) {
    let journal = store.journal().await;
    let mut position: Option<Position> = None;
    let mut chance = 7_u64;
    let mut below = |bound: u64| {
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (chance >> 33) % bound
    };
    let letters = ["a", "b", "c", "d"];
    let mut new_ones = 0;
    for step in 0..60 {
        let (epoch, count) = (1 + below(3) + step / 25, 1 + below(4));
        let next = position.and_then(|it| it.next).unwrap_or(1);
        let first = (next + 2).saturating_sub(below(6)).max(1);
        let payloads = &letters[..usize::try_from(count).expect("few")];
        let submission = sent(epoch, first, payloads);
        let expected = submission.decide(position, false);
        let answer = submit(&journal, &submission).await;
        assert_eq!(answer, expected, "step {step}: {submission:?}");
        if let GateAnswer::Taken { new, next, .. } = answer {
            let known = position.unwrap_or_default();
            new_ones += u64::from(new);
            position = Some(Position {
                epoch: known.epoch.max(epoch),
                next: Some(next),
                is_frozen: false,
            });
        }
    }
    let entries = journal.list().await.expect("a list");
    assert_eq!(entries[0].streams[0].next, new_ones + 1);
    assert_eq!(Some(entries[0].epoch), position.map(|it| it.epoch));
}

/// A message that is settled is not given back, and its sequence is known for ever.
pub async fn what_is_settled_is_forgotten_and_its_position_is_not<S: IngestSubject>(store: S) {
    let journal = store.journal().await;
    let billing = producer("billing-0a");
    submit(&journal, &sent(1, 1, &["a", "b"])).await;
    submit(&journal, &sent(1, 3, &["c"])).await;
    let begun = accepted(&journal, 0, 9).await.begun;
    let settle = async |through| {
        let done = journal
            .settle(&billing, "orders", settled(begun, through))
            .await;
        done.expect("settled");
    };
    settle(1).await;
    // A batch that is not settled whole is there whole.
    let read = accepted(&journal, 0, 9).await;
    assert_eq!(read.standing.confirmed, 1);
    assert_eq!(texts(&read.batches), ["a", "b", "c"]);
    settle(2).await;
    settle(1).await;
    assert_eq!(texts(&accepted(&journal, 0, 9).await.batches), ["c"]);
    settle(99).await;
    let again = store.journal().await;
    let read = accepted(&again, 0, 9).await;
    assert_eq!((read.standing.confirmed, read.next), (3, 4));
    assert_eq!(read.batches, []);
    assert_eq!(
        submit(&again, &sent(1, 3, &["c", "d"])).await,
        taken(1, 1, 5)
    );
    assert_eq!(texts(&accepted(&journal, 0, 9).await.batches), ["d"]);
    let pages = async |after, most| {
        let page = accepted(&journal, after, most).await;
        texts(&page.batches).concat()
    };
    submit(&journal, &sent(1, 5, &["e", "f"])).await;
    assert_eq!(pages(0, 1).await, "d");
    assert_eq!(pages(4, 9).await, "ef");
    assert_eq!(pages(6, 9).await, "");
}

/// A frozen producer's messages are taken and not to be run, until they are released or it thaws.
pub async fn a_frozen_producer_is_kept_until_it_is_released<S: IngestSubject>(store: S) {
    let (journal, operator) = (store.journal().await, store.journal().await);
    let billing = producer("billing-0a");
    submit(&journal, &sent(1, 1, &["a", "b"])).await;
    let begun = accepted(&journal, 0, 9).await.begun;
    let done = journal.settle(&billing, "orders", settled(begun, 1)).await;
    done.expect("settled");
    let order = async |order| operator.order(&billing, order).await.expect("ordered");
    let limit = async || accepted(&journal, 0, 9).await.standing.limit;
    assert!(order(ProducerOrder::Freeze).await);
    assert_eq!(limit().await, Some(1));
    let kept = GateAnswer::Taken {
        known: 1,
        new: 1,
        next: 4,
        is_kept: true,
    };
    assert_eq!(submit(&journal, &sent(1, 2, &["b", "c"])).await, kept);
    assert_eq!(submit(&journal, &sent(1, 3, &["c"])).await, taken(1, 0, 4));
    assert!(order(ProducerOrder::Release).await);
    assert_eq!(limit().await, Some(3), "what was kept until then");
    submit(&journal, &sent(2, 4, &["d"])).await;
    assert_eq!(limit().await, Some(3), "a later epoch thaws nothing");
    assert!(operator.list().await.expect("a list")[0].is_frozen);
    assert!(order(ProducerOrder::Thaw).await);
    assert_eq!(limit().await, None);
    assert_eq!(
        texts(&accepted(&journal, 1, 9).await.batches),
        ["a", "b", "c", "d"]
    );
    let nobody = producer("nobody");
    let ordered = operator.order(&nobody, ProducerOrder::Freeze).await;
    assert!(!ordered.expect("an answer"));
}

/// Each stream of each producer has sequences of its own; the epoch is that of the producer.
pub async fn streams_and_producers_are_apart<S: IngestSubject>(store: S) {
    let journal = store.journal().await;
    submit(&journal, &sent(2, 1, &["a", "b"])).await;
    let refunds = Submission {
        stream: "refunds".into(),
        ..sent(2, 1, &["r"])
    };
    assert_eq!(submit(&journal, &refunds).await, taken(0, 1, 2));
    let mut other = sent(1, 1, &["x"]);
    if let Numbering::Sender { producer: id, .. } = &mut other.numbering {
        *id = producer("Billing-0A");
    }
    assert_eq!(submit(&journal, &other).await, taken(0, 1, 2));
    let old = Submission {
        stream: "more".into(),
        ..sent(1, 1, &["r"])
    };
    let fenced = GateAnswer::Fenced { epoch: 2 };
    assert_eq!(submit(&journal, &old).await, fenced);
    let entries = journal.list().await.expect("a list");
    let all: Vec<_> = entries
        .iter()
        .flat_map(|it| {
            it.streams
                .iter()
                .map(|stream| (it.name.as_str(), &*stream.stream))
        })
        .collect();
    let expected = [
        ("Billing-0A", "orders"),
        ("billing-0a", "orders"),
        ("billing-0a", "refunds"),
    ];
    assert_eq!(all, expected);
    let billing = producer("billing-0a");
    let begun = accepted(&journal, 0, 9).await.begun;
    let done = journal.settle(&billing, "orders", settled(begun, 2)).await;
    done.expect("settled");
    let read = journal.accepted(&billing, "refunds", 0, 9).await;
    let read = read.expect("an answer").expect("a stream");
    assert_eq!(texts(&read.batches), ["r"]);
}

/// Messages without a sequence are put behind what came before, and the same digest adds nothing.
pub async fn what_nobody_numbers_is_known_by_its_digest<S: IngestSubject>(store: S) {
    let journal = store.journal().await;
    assert_eq!(
        submit(&journal, &arrived(None, &["a"])).await,
        taken(0, 1, 2)
    );
    assert_eq!(
        submit(&journal, &arrived(None, &["a"])).await,
        taken(0, 1, 3)
    );
    let known = arrived(Some([7; 32]), &["b", "c"]);
    assert_eq!(submit(&journal, &known).await, taken(0, 2, 5));
    let unnumbered = producer(UNNUMBERED);
    let read = journal.accepted(&unnumbered, "orders", 0, 9).await;
    let begun = read.expect("an answer").expect("a stream").begun;
    let done = journal
        .settle(&unnumbered, "orders", settled(begun, 4))
        .await;
    done.expect("settled");
    let again = store.journal().await;
    assert_eq!(submit(&again, &known).await, taken(2, 0, 5));
    let other = arrived(Some([8; 32]), &["d"]);
    assert_eq!(submit(&again, &other).await, taken(0, 1, 6));
    let read = journal.accepted(&unnumbered, "orders", 0, 9).await;
    let read = read.expect("an answer").expect("a stream");
    assert_eq!(texts(&read.batches), ["d"]);
}

/// A name is on record whatever its characters, up to its 97, and is told from one that differs in case alone.
pub async fn the_longest_names_have_a_place<S: IngestSubject>(store: S) {
    let journal = store.journal().await;
    let mut names: Vec<_> = ["A", "a", ".", "~"].map(|it| it.repeat(97)).into();
    for name in &names {
        let mut submission = sent(1, 1, &["a"]);
        if let Numbering::Sender { producer: id, .. } = &mut submission.numbering {
            *id = producer(name);
        }
        assert_eq!(
            submit(&journal, &submission).await,
            taken(0, 1, 2),
            "{name}"
        );
    }
    let entries = store.journal().await.list().await.expect("a list");
    names.sort();
    let listed: Vec<_> = entries.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(listed, names);
}

/// Pages have the producers by name, in the order of their bytes, as many as asked for, and each with all its streams;
/// fewer than asked for are the end.
pub async fn producers_are_listed_page_by_page<S: IngestSubject>(store: S) {
    let journal = store.journal().await;
    let mut names = ["till", "Billing", "stock", "a", "~", "!"];
    for (name, stream) in names
        .map(|it| (it, "orders"))
        .into_iter()
        .chain([("stock", "refunds")])
    {
        let mut submission = sent(1, 1, &["a"]);
        submission.stream = stream.into();
        if let Numbering::Sender { producer: id, .. } = &mut submission.numbering {
            *id = producer(name);
        }
        assert_eq!(submit(&journal, &submission).await, taken(0, 1, 2));
    }
    names.sort_unstable();
    let streams = |name: &str| if name == "stock" { 2 } else { 1 };
    let expected: Vec<_> = names.map(|it| (it.to_owned(), streams(it))).into();
    for most in 0..=7 {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = journal.page(after.as_ref(), most).await.expect("a page");
            let asked = most.max(1) as usize;
            assert!(page.len() <= asked, "{most}: {page:?}");
            all.extend(
                page.iter()
                    .map(|it| (it.name.to_string(), it.streams.len())),
            );
            if page.len() < asked {
                break;
            }
            after = page.last().map(|it| it.name.clone());
        }
        assert_eq!(all, expected, "by {most}");
    }
    let behind = journal.page(Some(&producer("b")), 1).await.expect("a page");
    assert_eq!(behind[0].name.as_str(), "stock", "behind nobody");
}

/// A store that nobody sent anything to has no producers, and makes none by being read.
pub async fn nothing_is_on_record_before_the_first_message<S: IngestSubject>(store: S) {
    let journal = store.journal().await;
    assert_eq!(journal.list().await.expect("a list"), []);
    let billing = producer("billing-0a");
    let read = journal.accepted(&billing, "orders", 0, 9).await;
    assert_eq!(read.expect("an answer"), None);
    journal
        .settle(&billing, "orders", settled(0, 3))
        .await
        .expect("nothing");
    let ordered = journal.order(&billing, ProducerOrder::Freeze).await;
    assert!(!ordered.expect("an answer"));
    assert_eq!(journal.list().await.expect("a list"), []);
}

const fn taken(known: u32, new: u32, next: u64) -> GateAnswer {
    GateAnswer::Taken {
        known,
        new,
        next,
        is_kept: false,
    }
}

async fn submit(journal: &impl IngestJournal, submission: &Submission) -> GateAnswer {
    journal.submit(submission).await.expect("an answer")
}

async fn accepted(journal: &impl IngestJournal, after: u64, most: u32) -> Accepted {
    let billing = producer("billing-0a");
    let read = journal.accepted(&billing, "orders", after, most).await;
    read.expect("an answer").expect("a stream")
}

fn texts(batches: &[StoredBatch]) -> Vec<String> {
    let messages = batches
        .iter()
        .flat_map(|it| decode(&it.body).expect("messages"));
    let text = |it: ProducerMessage| String::from_utf8(it.payload.to_vec()).expect("text");
    messages.map(text).collect()
}
