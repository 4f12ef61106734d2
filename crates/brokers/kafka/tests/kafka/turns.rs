//! Class E, batches one behind the other: written ahead, committed in their turn.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use semel_core::port::source::Source;
use semel_core::port::streamed::{
    AtOnce, CommitProgress, Committed, Finished, StreamedStore, Turn,
};
use semel_core::{Error, ErrorKind, Result};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::cluster::Topic;
use crate::streamed::{Flow, Member, finished, once, request};

/// A turn behind a batch whose progress the test sets.
#[derive(Clone)]
struct OnWord {
    before: watch::Receiver<CommitProgress>,
    own: watch::Sender<CommitProgress>,
    /// Progress of this batch, and the output at that time.
    passed: Arc<Mutex<Vec<(CommitProgress, i64)>>>,
    output: Arc<End>,
}

impl OnWord {
    fn behind(before: &watch::Sender<CommitProgress>, flow: &Flow) -> Self {
        Self {
            before: before.subscribe(),
            own: watch::Sender::default(),
            passed: Arc::default(),
            output: Arc::new(End::of(&flow.output)),
        }
    }

    fn progress(&self) -> CommitProgress {
        *self.own.borrow()
    }

    async fn is(&self, progress: CommitProgress) {
        let mut own = self.own.subscribe();
        let is = timeout(PATIENCE, own.wait_for(|own| *own == progress)).await;
        is.unwrap_or_else(|_| panic!("never {progress:?}, but {:?}", self.progress()))
            .expect("this has a sender");
    }
}

impl Turn for OnWord {
    async fn come(&self, progress: CommitProgress) -> Result<()> {
        let mut before = self.before.clone();
        let come = before
            .wait_for(|before| *before >= progress)
            .await
            .map(drop);
        come.map_err(|_| Error::new(ErrorKind::Unavailable, "no word is given any more"))
    }

    async fn falls_back(&self) {
        let mut before = self.before.clone();
        let fell = before.wait_for(|before| *before == CommitProgress::Unwritten);
        if fell.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn pass(&self, progress: CommitProgress) {
        let end = self.output.now();
        self.own.send_if_modified(|own| {
            let is_new = *own != progress && *own != CommitProgress::Committed;
            if is_new {
                self.passed.lock().expect("no panic").push((progress, end));
                *own = progress;
            }
            is_new
        });
    }
}

/// End of the first partition of a topic, whether or not it is committed. A mark of a transaction's end counts, too.
struct End {
    reader: BaseConsumer,
    topic: String,
}

impl End {
    fn of(topic: &Topic) -> Self {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &topic.brokers);
        config.set("isolation.level", "read_uncommitted");
        Self {
            reader: config.create().expect("a reader"),
            topic: topic.name.clone(),
        }
    }

    fn now(&self) -> i64 {
        let ends = self.reader.fetch_watermarks(&self.topic, 0, PATIENCE);
        ends.expect("ends").1
    }

    async fn is(&self, end: i64) {
        let begun = Instant::now();
        while self.now() != end {
            assert!(begun.elapsed() < PATIENCE, "{}, not {end}", self.now());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Returns deliveries of the keys from 1 on, each granted, and a batch of its own.
async fn granted(flow: &Flow, member: &mut Member, keys: u32) -> Vec<Arc<Vec<Finished>>> {
    for key in 1..=keys {
        flow.put(key).await;
    }
    let mut batches = Vec::new();
    while batches.len() < keys as usize {
        for delivery in member.fetch().await {
            assert!(matches!(member.admit(&delivery).await, Some(Ok(()))));
            let finished = finished(&delivery, &request(&delivery), delivery.payload.clone());
            batches.push(Arc::new(vec![finished]));
        }
    }
    batches
}

fn is_done(answers: Result<Vec<Committed>>) -> bool {
    matches!(answers.expect("answers")[..], [Committed::Done])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_committed_in_its_turn_while_somebody_waits_for_it() {
    let flow = Flow::with(1).await;
    let mut member = flow.member("a");
    let batches = granted(&flow, &mut member, 2).await;
    let before = watch::Sender::new(CommitProgress::Written);
    let turn = OnWord::behind(&before, &flow);
    let waiting = member.stream.commit(&batches[0], turn.clone());
    let waited = timeout(Duration::from_secs(1), waiting).await;
    assert!(waited.is_err(), "its turn had not come: {waited:?}");
    assert_eq!(turn.progress(), CommitProgress::Written);
    before.send_replace(CommitProgress::Committed);
    turn.is(CommitProgress::Unwritten).await;

    let turn = OnWord::behind(&before, &flow);
    let committed = member.stream.commit(&batches[1], turn.clone()).await;
    assert!(is_done(committed));
    assert_eq!(turn.progress(), CommitProgress::Committed);
    assert_eq!(flow.output(1), once(2..3));
    member.source.close().await.expect("an end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_written_behind_the_one_before_and_again_when_that_falls_back() {
    let flow = Flow::with(1).await;
    let mut options = flow.options("a");
    // No transaction is taken back for its age.
    options.transaction_timeout = 4 * PATIENCE;
    let mut member = flow.member_with(options);
    let batches = granted(&flow, &mut member, 2).await;
    let (before, output) = (watch::Sender::default(), End::of(&flow.output));
    let (stream, turn) = (member.stream.clone(), OnWord::behind(&before, &flow));
    let (batch, own) = (Arc::clone(&batches[0]), turn.clone());
    let behind = tokio::spawn(async move { stream.commit(&batch, own).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(output.now(), 0, "the one before was not written");

    before.send_replace(CommitProgress::Written);
    output.is(1).await;
    turn.is(CommitProgress::Written).await;
    assert_eq!(
        flow.output(0),
        once(0..0),
        "the one before is not committed"
    );

    before.send_replace(CommitProgress::Unwritten);
    turn.is(CommitProgress::Unwritten).await;
    // The mark of the aborted transaction.
    output.is(2).await;
    before.send_replace(CommitProgress::Written);
    output.is(3).await;
    // The producer that the one before would have commits meanwhile.
    assert!(is_done(member.stream.commit(&batches[1], AtOnce).await));
    before.send_replace(CommitProgress::Committed);
    assert!(is_done(behind.await.expect("no panic")));
    assert_eq!(turn.progress(), CommitProgress::Committed);
    assert_eq!(flow.output(2), once(1..3));
    member.source.close().await.expect("an end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_asked_for_again_meanwhile_is_committed_once() {
    let flow = Flow::with(1).await;
    let mut member = flow.member("a");
    for batch in granted(&flow, &mut member, 5).await {
        let both = tokio::join!(
            member.stream.commit(&batch, AtOnce),
            member.stream.commit(&batch, AtOnce),
        );
        assert!(is_done(both.0) && is_done(both.1));
    }
    assert_eq!(flow.output(5), once(1..6));
    member.source.close().await.expect("an end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_record_may_have_a_key_of_its_own_the_next_batch_is_written_once_this_one_is_there()
{
    let flow = Flow::with(1).await;
    let mut options = flow.options("a");
    // A batch that does not wait until this one is there finds nothing.
    options.properties = vec![("linger.ms".into(), "5000".into())];
    let mut member = flow.member_with(options);
    let batches = granted(&flow, &mut member, 1).await;
    let before = watch::Sender::new(CommitProgress::Written);
    let turn = OnWord::behind(&before, &flow);
    assert_eq!(turn.output.now(), 0, "the reader has a connection");
    let waiting = async {
        turn.is(CommitProgress::Written).await;
        before.send_replace(CommitProgress::Committed);
    };
    let (committed, ()) = tokio::join!(member.stream.commit(&batches[0], turn.clone()), waiting);
    assert!(is_done(committed));
    let passed = turn.passed.lock().expect("no panic").clone();
    assert_eq!(passed[0], (CommitProgress::Written, 1), "{passed:?}");
    member.source.close().await.expect("an end");
}

const PATIENCE: Duration = Duration::from_secs(20);
