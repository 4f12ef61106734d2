//! The cases of producers that are forgotten since they were silent for long.

use std::collections::BTreeSet;
use std::time::Duration;

use semel_core::Timestamp;
use semel_core::ingest::{GateAnswer, Numbering, Submission, UNNUMBERED};
use semel_core::port::ingest::{Accepted, Forgotten, IngestJournal, Settled, Silence};
use semel_core::producer::{ProducerName, ProducerOrder};

use super::{IngestSubject, arrived, producer, sent, settled};

/// A producer that is silent for longer than it is remembered is one that nobody has heard of, and what is settled of its
/// earlier life settles nothing of the next one.
pub async fn a_producer_that_was_silent_for_long_is_forgotten<S: IngestSubject>(store: S) {
    let journal = store.journal().await;
    assert_eq!(
        forget(&journal, Duration::ZERO, None).await,
        Forgotten::default()
    );
    let billing = producer("billing-0a");
    submit(&journal, sent(7, 1, &["a", "b"])).await;
    let before = accepted(&journal).await;
    settle(&journal, &billing, before.begun, 2).await;
    let long = forget(&journal, Duration::from_secs(1_800), None).await;
    assert_eq!(long.producers, [], "settled a moment ago");
    until_forgotten(&journal, &billing).await;
    let again = store.journal().await;
    assert_eq!(again.list().await.expect("a list"), []);
    let read = again.accepted(&billing, "orders", 0, 9).await;
    assert_eq!(read.expect("an answer"), None);
    let unknown = GateAnswer::Unknown { expected: 1 };
    assert_eq!(submit(&again, later(sent(7, 3, &["c"]))).await, unknown);
    // Another process did not see it go; its epoch is forgotten as well.
    submit(&journal, later(sent(1, 1, &["x", "y"]))).await;
    let after = accepted(&again).await;
    assert_ne!(after.begun, before.begun);
    assert_eq!((after.next, after.standing.confirmed), (3, 0));
    settle(&journal, &billing, before.begun, 2).await;
    assert_eq!(accepted(&again).await, after, "another life");
    settle(&again, &billing, after.begun, 1).await;
    assert_eq!(accepted(&journal).await.standing.confirmed, 1);
}

/// Nothing is forgotten of what waits, what is frozen, what nobody numbers, and of other streams; pages come to an end.
pub async fn what_may_be_of_use_is_not_forgotten<S: IngestSubject>(store: S) {
    let journal = store.journal().await;
    let of = |name: &str, epoch| {
        let mut submission = sent(epoch, 1, &["a"]);
        if let Numbering::Sender { producer: id, .. } = &mut submission.numbering {
            *id = producer(name);
        }
        submission
    };
    submit(&journal, of("a-waits", 1)).await;
    submit(&journal, arrived(Some([7; 32]), &["a"])).await;
    for name in ["b-frozen", "c-both", "z"] {
        submit(&journal, of(name, 2)).await;
    }
    for name in ["c-both", "d-other"] {
        let other = Submission {
            stream: "refunds".into(),
            ..of(name, 2)
        };
        submit(&journal, other).await;
    }
    for (name, stream) in [
        (UNNUMBERED, "orders"),
        ("b-frozen", "orders"),
        ("c-both", "orders"),
        ("c-both", "refunds"),
        ("d-other", "refunds"),
        ("z", "orders"),
    ] {
        let name = producer(name);
        let read = journal.accepted(&name, stream, 0, 9).await;
        let read = read.expect("an answer").expect("a stream");
        let done = journal.settle(&name, stream, settled(read.begun, 1)).await;
        done.expect("settled");
    }
    let frozen = journal
        .order(&producer("b-frozen"), ProducerOrder::Freeze)
        .await;
    assert!(frozen.expect("frozen"));
    // The last that was heard of.
    let forgotten = until_forgotten(&journal, &producer("z")).await;
    assert_eq!(forgotten, ["c-both", "z"].map(producer).into());
    let entries = store.journal().await.list().await.expect("a list");
    let left: Vec<_> = entries
        .iter()
        .flat_map(|it| it.streams.iter().map(|of| (it.name.as_str(), &*of.stream)))
        .collect();
    let expected = [
        ("a-waits", "orders"),
        ("b-frozen", "orders"),
        ("c-both", "refunds"),
        ("d-other", "refunds"),
        (UNNUMBERED, "orders"),
    ];
    assert_eq!(left, expected);
    // The epoch is that of the producer, who is remembered for the other stream.
    let fenced = GateAnswer::Fenced { epoch: 2 };
    assert_eq!(submit(&journal, later(of("c-both", 1))).await, fenced);
    let known = GateAnswer::Taken {
        known: 1,
        new: 0,
        next: 2,
        is_kept: false,
    };
    assert_eq!(
        submit(&journal, arrived(Some([7; 32]), &["a"])).await,
        known
    );
}

/// Returns all that are forgotten until this one is.
async fn until_forgotten(
    journal: &impl IngestJournal,
    last: &ProducerName,
) -> BTreeSet<ProducerName> {
    let mut all = BTreeSet::new();
    // A store with a clock of its own forgets nothing within a tick of it.
    while !all.contains(last) {
        let mut after = None;
        for pages in 0.. {
            assert!(pages < 50, "pages without an end");
            let page = forget(journal, Duration::ZERO, after).await;
            all.extend(page.producers);
            after = page.last;
            if after.is_none() {
                break;
            }
        }
    }
    all
}

async fn forget(
    journal: &impl IngestJournal,
    longest: Duration,
    after: Option<ProducerName>,
) -> Forgotten {
    let silence = Silence {
        stream: "orders".into(),
        longest,
        now: at_last().plus(Duration::from_secs(1)),
        after,
        most: 2,
    };
    journal.forget(&silence).await.expect("an answer")
}

/// The same messages when others are forgotten.
fn later(submission: Submission) -> Submission {
    Submission {
        at: at_last(),
        ..submission
    }
}

fn at_last() -> Timestamp {
    sent(1, 1, &[]).at.plus(Duration::from_secs(3_600))
}

async fn submit(journal: &impl IngestJournal, submission: Submission) -> GateAnswer {
    journal.submit(&submission).await.expect("an answer")
}

async fn settle(journal: &impl IngestJournal, name: &ProducerName, begun: u64, through: u64) {
    let settled = Settled {
        at: at_last(),
        ..settled(begun, through)
    };
    let done = journal.settle(name, "orders", settled).await;
    done.expect("settled");
}

async fn accepted(journal: &impl IngestJournal) -> Accepted {
    let read = journal
        .accepted(&producer("billing-0a"), "orders", 0, 9)
        .await;
    read.expect("an answer").expect("a stream")
}
