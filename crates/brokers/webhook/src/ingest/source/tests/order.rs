//! Requests that overtake one another, answers that are lost, and a journal that is away.

use std::sync::atomic::{AtomicBool, Ordering};

use semel_core::ingest::{GateAnswer, Submission};
use semel_core::producer::StreamEntry;
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

#[tokio::test(start_paused = true)]
async fn what_a_worker_took_that_is_gone_runs_at_another_one() {
    let journal = journal();
    let shared = IngestOptions {
        is_shared: true,
        ..options()
    };
    let one = source(shared.clone(), &journal).await;
    let mut other = source(shared, &journal).await;
    send(&one, numbered("p", 1, 1, &["a", "b"])).await;
    drop(one);
    assert_eq!(texts(&fetch(&mut other).await), ["a", "b"]);
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

#[tokio::test]
async fn so_many_producers_have_a_place_and_no_further_one() {
    let journal = journal();
    let bounded = IngestOptions {
        max_producers: 2,
        ..options()
    };
    let source = source(bounded, &journal).await;
    for (producer, first, status) in [("a", 1, 200), ("b", 1, 200), ("c", 1, 503), ("a", 2, 200)] {
        let sent = numbered(producer, 1, first, &["x"]);
        let (found, answer) = send(&source, sent).await;
        assert_eq!(found, status, "{producer}: {answer}");
    }
    assert_eq!(send(&source, request(&[], &["y"])).await.0, 200);
    assert_eq!(journal.list().await.expect("a list").len(), 3);
}

#[tokio::test]
async fn a_freeze_holds_for_what_was_read_and_not_handed_over() {
    let journal = journal();
    let mut source = source(options(), &journal).await;
    let producer = ProducerName::of_sender("p").expect("an id");
    send(&source, numbered("p", 1, 1, &["a", "b", "c", "d"])).await;
    let Fetched::Deliveries(first) = source.fetch(2).await.expect("two") else {
        panic!("no deliveries")
    };
    assert_eq!(texts(&first), ["a", "b"]);
    source.requeue(&[first[1].id]).await.expect("taken back");
    let freeze = journal.order(&producer, ProducerOrder::Freeze);
    assert!(freeze.await.expect("frozen"));
    send(&source, numbered("other", 1, 1, &["x"])).await;
    tokio::time::sleep(FROZEN).await;
    assert_eq!(texts(&fetch(&mut source).await), ["x"]);
    let more = tokio::time::timeout(2 * FROZEN, source.fetch(10)).await;
    assert!(more.is_err(), "{more:?}");
    let thaw = journal.order(&producer, ProducerOrder::Thaw);
    assert!(thaw.await.expect("thawed"));
    let mut all = Vec::new();
    while all.len() < 3 {
        all.extend(fetch(&mut source).await);
    }
    let mut again = texts(&all);
    again.sort_unstable();
    assert_eq!(again, ["b", "c", "d"]);
    let every: Vec<_> = first[..1].iter().chain(&all).cloned().collect();
    source.acknowledge(&applied(&every)).await.expect("noted");
    source.record().await.expect("recorded");
    let waiting = journal.list().await.expect("a list");
    let stream = waiting.iter().find(|it| it.name == producer);
    assert_eq!(stream.expect("it").streams[0].confirmed, 4);
}

#[tokio::test]
async fn a_journal_that_is_away_is_waited_for_and_it_is_told_that_it_is_back() {
    let (staged, journal) = staged();
    let mut source = source(options(), &journal).await;
    send(&source, numbered("p", 1, 1, &["a"])).await;
    let deliveries = fetch(&mut source).await;
    source
        .acknowledge(&applied(&deliveries))
        .await
        .expect("noted");
    staged.is_away.store(true, Ordering::SeqCst);
    let fetched = source.fetch(10).await.expect("an answer");
    assert!(matches!(fetched, Fetched::Away(_)), "{fetched:?}");
    let now = Instant::now();
    let look_at = source.next_look(now).expect("a time");
    assert_eq!(Some(look_at), source.not_before);
    staged.is_away.store(false, Ordering::SeqCst);
    let fetched = source.fetch(10).await.expect("an answer");
    assert!(matches!(fetched, Fetched::Back), "{fetched:?}");
    assert_eq!(confirmed(&journal).await, 1);
}

#[tokio::test]
async fn what_the_journal_has_in_hand_is_bounded_however_long_it_takes() {
    let (staged, journal) = staged();
    let source = source(options(), &journal).await;
    staged.holds_answer.store(true, Ordering::SeqCst);
    let gate = Arc::clone(&source.gate);
    let early = tokio::spawn(async move { gate.answer(numbered("p", 1, 1, &["a"])).await });
    while staged.holds_answer.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    early.abort();
    assert_eq!(source.gate.held(), 1);
    staged.told.notify_one();
    while source.gate.held() > 0 {
        tokio::task::yield_now().await;
    }
}
