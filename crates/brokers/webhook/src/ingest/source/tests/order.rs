//! Requests that overtake one another, answers that are lost, and a journal that is away.

use std::sync::atomic::{AtomicBool, Ordering};

use semel_core::ingest::{GateAnswer, Submission};
use semel_core::port::ingest::Forgotten;
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
    /// The messages of `p` are damaged.
    is_damaged: AtomicBool,
    /// Another holds the rows that would be forgotten.
    forgets_nobody: AtomicBool,
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

    async fn settle(&self, producer: &ProducerName, stream: &str, settled: Settled) -> Result<()> {
        self.answered()?;
        if self.is_damaged.load(Ordering::SeqCst) && producer.as_str() == "p" {
            return Err(Error::new(ErrorKind::Corrupt, "damaged"));
        }
        self.journal.settle(producer, stream, settled).await
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        self.journal.page(after, most).await
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        self.journal.order(name, order).await
    }

    async fn forget(&self, silence: &Silence) -> Result<Forgotten> {
        if self.forgets_nobody.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Throttled, "held"));
        }
        self.journal.forget(silence).await
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
async fn what_is_settled_is_recorded_though_the_log_of_another_producer_is_damaged() {
    let (staged, journal) = staged();
    let mut source = source(options(), &journal).await;
    for name in ["p", "q"] {
        let (status, _) = send(&source, numbered(name, 1, 1, &["a"])).await;
        assert_eq!(status, 200);
    }
    let mut deliveries = fetch(&mut source).await;
    while deliveries.len() < 2 {
        deliveries.extend(fetch(&mut source).await);
    }
    staged.is_damaged.store(true, Ordering::SeqCst);
    // Where it takes long, this records already, and is told of the damage.
    let _ = source.acknowledge(&applied(&deliveries)).await;
    let error = source.record().await.expect_err("damaged");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let recorded = journal.list().await.expect("a list");
    let recorded = recorded.iter().map(|it| it.streams[0].confirmed);
    assert_eq!(recorded.collect::<Vec<_>>(), [0, 1]);
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
async fn messages_that_nobody_numbers_take_no_place_of_a_producer() {
    let journal = journal();
    let bounded = IngestOptions {
        max_producers: 1,
        ..options()
    };
    let source = source(bounded, &journal).await;
    assert_eq!(send(&source, request(&[], &["y"])).await.0, 200);
    assert_eq!(send(&source, numbered("a", 1, 1, &["x"])).await.0, 200);
    assert_eq!(send(&source, numbered("b", 1, 1, &["x"])).await.0, 503);
}

#[tokio::test]
async fn requests_whose_bodies_came_at_the_same_time_have_room_one_by_one() {
    let (staged, journal) = staged();
    let bounded = IngestOptions {
        max_waiting: 1,
        ..options()
    };
    let source = source(bounded, &journal).await;
    staged.holds_answer.store(true, Ordering::SeqCst);
    let gate = Arc::clone(&source.gate);
    let early =
        tokio::spawn(async move { said(gate.answer(numbered("p", 1, 1, &["a"])).await).await });
    while staged.holds_answer.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    // The journal has it in hand, and nobody knows yet whether it waits.
    assert_eq!(send(&source, numbered("q", 1, 1, &["b"])).await.0, 503);
    assert!(
        source.gate.lanes().reserve(1, 1).is_none(),
        "behind the body"
    );
    staged.told.notify_one();
    assert_eq!(early.await.expect("an answer").0, 200);
    assert!(source.gate.lanes().reserve(1, 1).is_none());
    assert!(source.gate.lanes().reserve(1, 2).is_some());
}

#[tokio::test]
async fn nothing_is_handed_over_while_the_journal_is_away() {
    let (staged, journal) = staged();
    let mut source = source(options(), &journal).await;
    send(&source, numbered("p", 1, 1, &["a", "b"])).await;
    let deliveries = fetch(&mut source).await;
    source
        .requeue(&[deliveries[0].id])
        .await
        .expect("taken back");
    source
        .requeue(&[deliveries[1].id])
        .await
        .expect("taken back");
    staged.is_away.store(true, Ordering::SeqCst);
    tokio::time::sleep(FROZEN).await;
    let fetched = source.fetch(10).await.expect("an answer");
    assert!(matches!(fetched, Fetched::Away(_)), "{fetched:?}");
    // They are due, and whether their producer was frozen since is not known.
    let more = tokio::time::timeout(FROZEN, source.fetch(10)).await;
    assert!(more.is_err(), "{more:?}");
    staged.is_away.store(false, Ordering::SeqCst);
    let mut texts_found: Vec<String> = Vec::new();
    while texts_found.len() < 2 {
        if let Fetched::Deliveries(some) = source.fetch(10).await.expect("an answer") {
            texts_found.extend(texts(&some).iter().map(|it| (*it).to_owned()));
        }
    }
    assert_eq!(texts_found, ["a", "b"]);
}

/// Another worker has forgotten a producer that this one knows, and takes in its new life.
#[tokio::test(start_paused = true)]
async fn a_producer_that_was_forgotten_elsewhere_runs_in_its_new_life() {
    let journal = journal();
    let shared = IngestOptions {
        is_shared: true,
        forget_producers: Some(Duration::from_secs(3_600)),
        ..options()
    };
    let mut here = source(shared, &journal).await;
    send(&here, numbered("p", 1, 1, &["a", "b", "c"])).await;
    let before = fetch(&mut here).await;
    here.acknowledge(&applied(&before[..2]))
        .await
        .expect("noted");
    here.record().await.expect("recorded");
    let p = ProducerName::of_sender("p").expect("an id");
    let read = journal
        .accepted(&p, "orders", 0, 9)
        .await
        .expect("an answer");
    let settled = Settled {
        begun: read.expect("a stream").begun,
        through: 3,
        at: here.gate.now(),
    };
    journal
        .settle(&p, "orders", settled)
        .await
        .expect("settled");
    let silence = Silence {
        stream: "orders".into(),
        longest: Duration::from_secs(3_600),
        now: here.gate.now().plus(Duration::from_secs(7_200)),
        after: None,
        most: 10,
    };
    let forgotten = journal.forget(&silence).await.expect("an answer");
    assert_eq!(forgotten.producers, std::slice::from_ref(&p));
    let elsewhere = Submission {
        at: silence.now,
        ..semel_conformance::ingest::sent(1, 1, &["x", "y"])
    };
    let elsewhere = Submission {
        numbering: semel_core::ingest::Numbering::Sender {
            producer: p.clone(),
            epoch: 1,
            first: 1,
            is_any_first: false,
        },
        ..elsewhere
    };
    journal.submit(&elsewhere).await.expect("taken");
    // What it had in hand of the earlier life settles nothing of this one.
    here.acknowledge(&applied(&before[2..]))
        .await
        .expect("noted");
    let after = fetch(&mut here).await;
    assert_eq!(texts(&after), ["x", "y"]);
    here.record().await.expect("recorded");
    assert_eq!(confirmed(&journal).await, 0);
    here.acknowledge(&applied(&after)).await.expect("noted");
    here.record().await.expect("recorded");
    assert_eq!(confirmed(&journal).await, 2);
}

/// Another worker, at the same journal, forgets whoever has nothing waiting.
async fn forgotten_elsewhere(journal: &AnyIngestJournal, source: &IngestSource) {
    let silence = Silence {
        stream: "orders".into(),
        longest: Duration::from_secs(3_600),
        now: source.gate.now().plus(Duration::from_secs(7_200)),
        after: None,
        most: 10,
    };
    let forgotten = journal.forget(&silence).await.expect("an answer");
    assert_eq!(forgotten.producers.len(), 1);
}

/// The lane of a producer that was silent since the worker began was never read: it came from a list.
#[tokio::test(start_paused = true)]
async fn all_of_a_new_life_runs_whose_producer_was_listed_and_not_read() {
    let sequences: Vec<_> = (1..=20).map(|it| it.to_string()).collect();
    let lines: Vec<_> = sequences.iter().map(|it| &**it).collect();
    for sent in [1, 10, 20] {
        let journal = journal();
        let mut before = source(options(), &journal).await;
        send(&before, numbered("p", 1, 1, &lines[..10])).await;
        let deliveries = fetch(&mut before).await;
        let done = applied(&deliveries);
        before.acknowledge(&done).await.expect("noted");
        before.close().await.expect("closed");
        let mut listed = source(options(), &journal).await;
        forgotten_elsewhere(&journal, &listed).await;
        let (status, _) = send(&listed, numbered("p", 1, 1, &lines[..sent])).await;
        assert_eq!(status, 200);
        let mut ran = Vec::new();
        while ran.len() < sent {
            let deliveries = fetch(&mut listed).await;
            ran.extend(texts(&deliveries).iter().map(|it| (*it).to_owned()));
            let done = applied(&deliveries);
            listed.acknowledge(&done).await.expect("noted");
        }
        assert_eq!(ran, sequences[..sent]);
        listed.record().await.expect("recorded");
        assert_eq!(confirmed(&journal).await, sent as u64);
    }
}

/// As many messages as it had before: the end of what was heard of is the same.
#[tokio::test(start_paused = true)]
async fn a_new_life_that_is_as_long_as_the_earlier_one_runs() {
    let shared = IngestOptions {
        is_shared: true,
        ..options()
    };
    for is_taken_here in [true, false] {
        let journal = journal();
        let mut here = source(shared.clone(), &journal).await;
        send(&here, numbered("p", 1, 1, &["a"])).await;
        let deliveries = fetch(&mut here).await;
        let done = applied(&deliveries);
        here.acknowledge(&done).await.expect("noted");
        here.record().await.expect("recorded");
        forgotten_elsewhere(&journal, &here).await;
        let elsewhere = source(shared.clone(), &journal).await;
        let by = if is_taken_here { &here } else { &elsewhere };
        assert_eq!(send(by, numbered("p", 1, 1, &["x"])).await.0, 200);
        drop(elsewhere);
        assert_eq!(texts(&fetch(&mut here).await), ["x"]);
        assert_eq!(confirmed(&journal).await, 0);
    }
}

/// Only the other worker has `forget_producers`: what it forgot is no damage here.
#[tokio::test(start_paused = true)]
async fn a_producer_that_another_worker_forgot_is_no_damage() {
    let journal = journal();
    let shared = IngestOptions {
        is_shared: true,
        ..options()
    };
    let mut here = source(shared, &journal).await;
    send(&here, numbered("p", 1, 1, &["a"])).await;
    let billing = ProducerName::of_sender("p").expect("an id");
    let read = journal.accepted(&billing, "orders", 0, 9).await;
    let settled = Settled {
        begun: read.expect("an answer").expect("a stream").begun,
        through: 1,
        at: here.gate.now(),
    };
    let done = journal.settle(&billing, "orders", settled).await;
    done.expect("settled");
    forgotten_elsewhere(&journal, &here).await;
    let idle = tokio::time::timeout(Duration::from_secs(1), here.fetch(1)).await;
    assert!(idle.is_err(), "{idle:?}");
    assert_eq!(send(&here, numbered("p", 1, 1, &["x"])).await.0, 200);
    assert_eq!(texts(&fetch(&mut here).await), ["x"]);
}

/// Something came while the journal was asked for a producer that is gone.
#[test]
fn what_comes_while_a_producer_is_found_gone_is_not_dropped_with_it() {
    let lanes = crate::ingest::lanes::Lanes::default();
    let p = ProducerName::of_sender("p").expect("an id");
    lanes.took(&p, 1, 2);
    let heard = lanes.heard(&p);
    lanes.took(&p, 1, 2);
    lanes.drop_lane(&p, heard);
    let turn = lanes.turn(Instant::now());
    assert_eq!(turn, Some((p.clone(), 0)));
    lanes.drop_lane(&p, lanes.heard(&p));
    assert_eq!((lanes.turn(Instant::now()), lanes.waiting()), (None, 0));
}

#[tokio::test]
async fn messages_run_although_nobody_can_be_forgotten() {
    let (staged, journal) = staged();
    let forgetful = IngestOptions {
        forget_producers: Some(Duration::from_secs(3_600)),
        ..options()
    };
    let mut source = source(forgetful, &journal).await;
    staged.forgets_nobody.store(true, Ordering::SeqCst);
    send(&source, numbered("p", 1, 1, &["a"])).await;
    assert_eq!(texts(&fetch(&mut source).await), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn who_was_silent_for_long_takes_no_place_any_more() {
    let journal = journal();
    let clock = Arc::new(TestClock::new());
    let bounded = IngestOptions {
        max_producers: 1,
        forget_producers: Some(Duration::from_secs(3_600)),
        ..options()
    };
    let opened = IngestSource::open(bounded, journal.clone(), clock.clone()).await;
    let mut source = opened.expect("a source");
    send(&source, numbered("a", 1, 1, &["x"])).await;
    let deliveries = fetch(&mut source).await;
    source
        .acknowledge(&applied(&deliveries))
        .await
        .expect("noted");
    source.record().await.expect("recorded");
    assert_eq!(send(&source, numbered("b", 1, 1, &["x"])).await.0, 503);
    clock.advance(Duration::from_secs(7_200));
    let idle = tokio::time::timeout(Duration::from_secs(3_600), source.fetch(1)).await;
    assert!(idle.is_err(), "{idle:?}");
    assert_eq!(journal.list().await.expect("a list"), []);
    assert_eq!(send(&source, numbered("b", 1, 1, &["x"])).await.0, 200);
    assert_eq!(send(&source, numbered("a", 1, 1, &["x"])).await.0, 503);
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
