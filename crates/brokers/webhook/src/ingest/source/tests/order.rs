//! Requests that overtake one another, answers that are lost, and a journal that is away.

use std::sync::atomic::{AtomicBool, Ordering};

use semel_core::ingest::{GateAnswer, Submission};
use semel_core::producer::{ProducerEntry, StreamEntry};
use tokio::sync::Notify;

use super::*;

/// A journal that answers as a test wants it to.
#[derive(Debug, Default)]
struct Staged {
    journal: MemoryIngest,
    /// The answer to the next submission is lost, which is carried out.
    loses_answer: AtomicBool,
    /// The answer to the next submission waits for `told`.
    holds_answer: AtomicBool,
    told: Notify,
    /// Nothing is answered.
    is_away: AtomicBool,
}

impl Staged {
    fn answered(&self) -> Result<()> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "away"));
        }
        Ok(())
    }
}

impl IngestJournal for Staged {
    async fn submit(&self, submission: &Submission) -> Result<GateAnswer> {
        self.answered()?;
        let answer = self.journal.submit(submission).await?;
        if self.holds_answer.swap(false, Ordering::SeqCst) {
            self.told.notified().await;
        }
        if self.loses_answer.swap(false, Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Timeout, "no answer"));
        }
        Ok(answer)
    }

    async fn accepted(
        &self,
        producer: &ProducerName,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Option<Accepted>> {
        self.answered()?;
        self.journal.accepted(producer, stream, after, most).await
    }

    async fn settle(&self, producer: &ProducerName, stream: &str, through: u64) -> Result<()> {
        self.answered()?;
        self.journal.settle(producer, stream, through).await
    }

    async fn list(&self) -> Result<Vec<ProducerEntry>> {
        self.journal.list().await
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        self.journal.order(name, order).await
    }
}

fn staged() -> (Arc<Staged>, AnyIngestJournal) {
    let staged = Arc::new(Staged::default());
    let journal = AnyIngestJournal::shared(Arc::clone(&staged));
    (staged, journal)
}

/// The sequence up to which messages of the only producer are settled.
async fn confirmed(journal: &AnyIngestJournal) -> u64 {
    let entries = journal.list().await.expect("a list");
    let [entry] = &entries[..] else {
        panic!("{entries:?}")
    };
    let streams = entry.streams.iter();
    streams.map(|it: &StreamEntry| it.confirmed).sum()
}

#[tokio::test]
async fn requests_that_end_in_another_order_lose_nothing() {
    for identities in [
        [
            numbered("p", 1, 1, &["a", "b", "c"]),
            numbered("p", 1, 4, &["d", "e"]),
        ],
        [request(&[], &["a", "b", "c"]), request(&[], &["d", "e"])],
    ] {
        let (staged, journal) = staged();
        let mut source = source(options(), &journal).await;
        let [early, late] = identities;
        staged.holds_answer.store(true, Ordering::SeqCst);
        let gate = Arc::clone(&source.gate);
        let early = tokio::spawn(async move { said(gate.answer(early).await).await });
        while staged.holds_answer.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        assert_eq!(send(&source, late).await.0, 200);
        let deliveries = fetch(&mut source).await;
        assert_eq!(texts(&deliveries), ["a", "b", "c", "d", "e"]);
        let behind = applied(&deliveries[3..]);
        source.acknowledge(&behind).await.expect("noted");
        source.record().await.expect("recorded");
        assert_eq!(confirmed(&journal).await, 0);
        staged.told.notify_one();
        assert_eq!(early.await.expect("an answer").0, 200);
        assert_eq!(source.gate.lanes().waiting(), 5);
    }
}

#[tokio::test]
async fn what_another_worker_took_is_not_settled_with_what_came_behind_it() {
    let journal = journal();
    let one = source(options(), &journal).await;
    let mut other = source(options(), &journal).await;
    send(&one, numbered("p", 1, 1, &["a", "b", "c"])).await;
    send(&other, numbered("p", 1, 4, &["d"])).await;
    let deliveries = fetch(&mut other).await;
    let last = applied(&deliveries[deliveries.len() - 1..]);
    other.acknowledge(&last).await.expect("noted");
    other.close().await.expect("closed");
    assert_eq!(confirmed(&journal).await, 0);
    drop(one);
    let mut next = source(options(), &journal).await;
    assert_eq!(texts(&fetch(&mut next).await), ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn messages_run_whose_first_answer_was_lost() {
    let (staged, journal) = staged();
    let mut source = source(options(), &journal).await;
    for (first, text) in [(1, "a"), (2, "b")] {
        staged.loses_answer.store(true, Ordering::SeqCst);
        let (status, _) = send(&source, numbered("p", 1, first, &[text])).await;
        assert!(status >= 500, "{status}");
        let (status, answer) = send(&source, numbered("p", 1, first, &[text])).await;
        assert_eq!((status, &answer["duplicates"]), (200, &json!(1)));
        assert_eq!(texts(&fetch(&mut source).await), [text]);
    }
}

#[tokio::test]
async fn messages_of_a_producer_that_was_not_read_yet_count_as_waiting() {
    let journal = journal();
    let bounded = IngestOptions {
        max_waiting: 2,
        ..options()
    };
    let source = source(bounded, &journal).await;
    assert_eq!(send(&source, numbered("p", 1, 1, &["a", "b"])).await.0, 200);
    assert_eq!(send(&source, numbered("p", 1, 3, &["c"])).await.0, 503);
}
