//! Class E: granted messages are committed together with their outputs, and only those are acknowledged.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use semel_core::claim::Duplicate;
use semel_core::partition::Entry;
use semel_core::port::streamed::{
    Claimed, CommitProgress, Committed, Finished, Standing, StreamedStore, Turn,
};
use semel_core::{Admission, Error, ErrorKind, FencingToken, Grant, Outcome, Result, StateKind};
use semel_engine::consumer::LAST_REPORTS;
use semel_engine::effect::{Effect, Verdict};
use semel_engine::summary::Fate;
use semel_engine::trace::SampleShare;

use super::broker_with;
use super::trace::gather;
use crate::world::World;
use crate::world::broker::Broker;
use crate::world::message::Message;
use crate::world::scripted::{Act, Scripted, maybe_applied, not_applied};
use crate::world::sink::EffectSink;
use crate::world::watch::Seen;
use crate::world::worker::Run;

/// No transform, of any type.
const NONE: Option<Arc<Scripted>> = None;

/// A broker's transactions, in memory.
#[derive(Clone, Default)]
struct Transactions(Arc<Mutex<Log>>);

#[derive(Default)]
struct Log {
    committed: BTreeMap<u128, Finished>,
    /// Keys that were asked about, and how often.
    asked: BTreeMap<String, usize>,
    /// Payloads in the order in which they were committed.
    output: Vec<Bytes>,
    /// The answers to the next calls of commit.
    script: VecDeque<Answer>,
    commits: usize,
    /// Keys that another consumer has.
    gone: Vec<String>,
    /// It answers no questions.
    is_silent: bool,
    /// The sink in which committed effects have happened.
    sink: Option<Arc<EffectSink>>,
}

enum Answer {
    /// Nothing was committed, or nobody knows.
    Fail,
    /// The same, once this key was asked about that often.
    FailOnce(&'static str, usize),
    /// Nothing was committed and never will be, it answers once this key was asked about that often.
    FailForGood(&'static str, usize),
    /// It is committed once this key was asked about that often.
    Await(&'static str, usize),
    /// It was committed, and the answer is lost.
    Lose,
    /// These payloads are never taken.
    Refuse(&'static str),
    /// It is committed after this time.
    After(Duration),
    /// It is committed, and answers after this time.
    Late(Duration),
}

impl Transactions {
    /// Transactions over a broker that checks that nothing is acknowledged before it is committed or set aside.
    fn of(world: &World, broker: &Broker) -> Self {
        broker.accept_unprotected();
        let transactions = Self::default();
        transactions.log().sink = Some(Arc::clone(&world.sink));
        transactions
    }

    fn with(self, answers: impl IntoIterator<Item = Answer>) -> Self {
        self.log().script.extend(answers);
        self
    }

    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.0.lock().expect("no panic")
    }

    fn output(&self) -> Vec<Bytes> {
        self.log().output.clone()
    }
}

impl StreamedStore for Transactions {
    async fn admit(&self, batch: &[Claimed<'_>]) -> Result<Vec<Standing>> {
        if self.log().is_silent {
            std::future::pending::<()>().await;
        }
        let mut log = self.log();
        for claimed in batch {
            let key = claimed.request.operation.key.to_string();
            *log.asked.entry(key).or_default() += 1;
        }
        let standing = |claimed: &Claimed<'_>| {
            let key = claimed.request.operation.key.to_string();
            if log.gone.contains(&key) {
                return Standing::Gone;
            }
            if log
                .committed
                .contains_key(&Entry::of(claimed.id, claimed.request).id)
            {
                let replay = Admission::Replay {
                    outcome: Some(Outcome::empty()),
                    duplicate: Duplicate::Republish,
                };
                return Standing::Ours(Box::new(replay));
            }
            Standing::Free(Grant::first(FencingToken::new(1)))
        };
        Ok(batch.iter().map(standing).collect())
    }

    async fn commit(&self, batch: &Arc<Vec<Finished>>, turn: impl Turn) -> Result<Vec<Committed>> {
        turn.come(CommitProgress::Committed).await?;
        let answer = {
            let mut log = self.log();
            log.commits += 1;
            log.script.pop_front()
        };
        if let Some(
            Answer::Await(key, times)
            | Answer::FailOnce(key, times)
            | Answer::FailForGood(key, times),
        ) = answer
        {
            while self.log().asked.get(key).is_none_or(|asked| *asked < times) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        if let Some(Answer::After(wait)) = answer {
            tokio::time::sleep(wait).await;
        }
        let answers = {
            let mut log = self.log();
            let away = || Error::new(ErrorKind::Unavailable, "no coordinator");
            if matches!(answer, Some(Answer::FailForGood(..))) {
                let error = Error::new(ErrorKind::InvalidConfig, "no such topic");
                return Err(error.not_applied());
            }
            if matches!(answer, Some(Answer::Fail | Answer::FailOnce(..))) {
                return Err(away());
            }
            let mut answers = Vec::new();
            for finished in batch.iter() {
                let id = finished.entry.id;
                if let Some(Answer::Refuse(payload)) = &answer
                    && finished.output.iter().any(|it| it.payload == *payload)
                {
                    let error = Error::new(ErrorKind::InvalidInput, "too large").not_applied();
                    answers.push(Committed::Refused(error));
                    continue;
                }
                // It knows the entries that it was asked for again, and nothing else: the engine must commit a key
                // once.
                let before = log.committed.insert(id, finished.clone());
                if before.is_none_or(|before| before.delivery != finished.delivery) {
                    let payloads = finished.output.iter().map(|it| it.payload.clone());
                    log.output.extend(payloads);
                    if let Some(sink) = &log.sink {
                        sink.commit(finished.key.as_str());
                    }
                }
                answers.push(Committed::Done);
            }
            if matches!(answer, Some(Answer::Lose)) {
                return Err(away());
            }
            answers
        };
        if let Some(Answer::Late(wait)) = answer {
            tokio::time::sleep(wait).await;
        }
        turn.pass(CommitProgress::Committed);
        Ok(answers)
    }
}

#[tokio::test(start_paused = true)]
async fn each_key_is_put_out_once_and_its_repeats_are_replays() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b", "a", "c", "b"]);
    let transactions = Transactions::of(&world, &broker);
    let run = world.worker(&broker).streamed(transactions.clone(), NONE);
    let summary = run.await.summary();

    assert_eq!(summary.of(Fate::Applied), 3);
    assert_eq!(summary.of(Fate::Replayed), 2);
    assert_eq!(broker.acknowledged(), 5);
    let expected = ["a", "b", "c"].map(|key| Message::of(key).payload);
    assert_eq!(transactions.output(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_put_out_once_for_each_tenant() {
    let world = World::new();
    let broker = world.broker();
    for tenant in ["acme", "other", "acme"] {
        broker.publish(Message::with("a", &format!("\"tenant\":\"{tenant}\"")));
    }
    let transactions = Transactions::of(&world, &broker);
    let mut worker = world.worker(&broker);
    worker.pipeline.tenant = Some("json:/tenant".parse().expect("a selector"));
    let summary = worker.streamed(transactions.clone(), NONE).await.summary();
    let fates = (summary.of(Fate::Applied), summary.of(Fate::Replayed));
    assert_eq!(fates, (2, 1));
    assert_eq!(transactions.output().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_put_out_belongs_to_the_span_of_the_effect() {
    const PARENT: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for is_transformed in [false, true] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let transactions = Transactions::of(&world, &broker);
        let mut worker = world.worker(&broker);
        worker.feed.headers = vec![
            ("traceparent".into(), Bytes::from_static(PARENT)),
            ("other".into(), Bytes::from_static(b"1")),
        ];
        let gathered = gather(&mut worker, SampleShare::ALL);
        let transform = Scripted::new(&world, &worker.crash, []);
        let transform = is_transformed.then_some(transform);
        let run = worker.streamed(transactions.clone(), transform);
        run.await.summary();

        let attempts = gathered.attempts();
        assert_eq!(attempts.len(), 1, "{attempts:?}");
        let effect = attempts[0].effect.expect("a span").context;
        assert_eq!(attempts[0].settle.is_some(), is_transformed);
        let log = transactions.log();
        let output = log.committed.values().next().expect("a message");
        let headers = &output.output.as_ref().expect("a message").headers;
        let expected = [
            ("other".into(), Bytes::from_static(b"1")),
            ("traceparent".into(), effect.to_string().into()),
        ];
        assert_eq!(headers[..], expected);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_again_is_counted_apart() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b", "a"]);
    let transactions = Transactions::of(&world, &broker);
    let mut worker = world.worker(&broker);
    worker.feed.headers = vec![("Semel-Replay-Id".into(), "2026-11".into())];
    let summary = worker.streamed(transactions, NONE).await.summary();
    let fates = (summary.of(Fate::Applied), summary.of(Fate::Replayed));
    assert_eq!((fates, summary.sent_again), ((2, 1), 3));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_in_a_batch_twice_is_put_out_once() {
    let world = World::new();
    let broker = world.broker();
    for order in ["1", "2"] {
        broker.publish(Message::with("a", &format!("\"order\":\"{order}\"")));
    }
    let transactions = Transactions::of(&world, &broker);
    let mut worker = world.worker(&broker);
    worker.pipeline.order = Some("json:/order".parse().expect("a selector"));
    let summary = worker.streamed(transactions.clone(), NONE).await.summary();
    assert_eq!(summary.of(Fate::Applied), 1);
    assert_eq!(summary.of(Fate::Replayed), 1);
    assert_eq!(transactions.output().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_next_batch_is_decided_while_one_is_committed() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b"]);
    let transactions = Transactions::of(&world, &broker).with([Answer::Await("b", 1)]);
    let mut worker = world.worker(&broker);
    worker.pipeline.batch = 1;
    let run = worker.streamed(transactions.clone(), NONE);
    let summary = tokio::time::timeout(Duration::from_secs(1), run).await;
    let summary = summary.expect("nobody waits for the other").summary();
    assert_eq!(summary.of(Fate::Applied), 2);
    assert_eq!(transactions.log().commits, 2);
}

/// Transforms the message `c` only after `b` is put out.
struct BehindB(Transactions);

impl Effect for BehindB {
    async fn call(&self, call: semel_engine::effect::Call) -> Verdict {
        let (b, c) = (Message::of("b").payload, Message::of("c").payload);
        while call.payload == c && !self.0.output().contains(&b) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Verdict::Done(call.payload)
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_follows_the_one_before_while_the_next_one_is_worked_on() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b", "c"]);
    // Committed once the third one is in hand.
    let transactions = Transactions::of(&world, &broker).with([Answer::Await("c", 1)]);
    let mut worker = world.worker(&broker);
    worker.pipeline.batch = 1;
    let transform = Arc::new(BehindB(transactions.clone()));
    let run = worker.streamed(transactions.clone(), Some(transform));
    let summary = tokio::time::timeout(Duration::from_secs(5), run).await;
    let summary = summary.expect("the second waits for nobody").summary();
    assert_eq!(summary.of(Fate::Applied), 3);
    let expected = ["a", "b", "c"].map(|key| Message::of(key).payload);
    assert_eq!(transactions.output(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_being_committed_is_not_granted_again() {
    let world = World::new();
    let broker = world.broker();
    for order in ["1", "2"] {
        broker.publish(Message::with("a", &format!("\"order\":\"{order}\"")));
    }
    // The second one is asked about while the first one is being committed.
    let transactions = Transactions::of(&world, &broker).with([Answer::Await("a", 2)]);
    let mut worker = world.worker(&broker);
    worker.pipeline.batch = 1;
    worker.pipeline.order = Some("json:/order".parse().expect("a selector"));
    let summary = worker.streamed(transactions.clone(), NONE).await.summary();
    assert_eq!(transactions.output().len(), 1);
    assert_eq!(summary.of(Fate::Applied), 1);
    assert_eq!(summary.of(Fate::Replayed), 1);
    assert_eq!(broker.acknowledged(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_committed_behind_the_one_before_however_often_that_fails() {
    for answers in [
        vec![Answer::FailOnce("b", 1)],
        vec![Answer::FailOnce("b", 1), Answer::Fail, Answer::Fail],
        vec![Answer::FailOnce("b", 1), Answer::Lose],
        vec![Answer::Lose, Answer::Fail, Answer::Fail],
    ] {
        let world = World::new();
        let broker = broker_with(&world, &["a", "b", "c", "d"]);
        let transactions = Transactions::of(&world, &broker).with(answers);
        let mut worker = world.worker(&broker);
        worker.pipeline.batch = 1;
        let run = worker.streamed(transactions.clone(), NONE);
        let summary = run.await.summary();
        assert_eq!(summary.of(Fate::Applied), 4);
        let expected = ["a", "b", "c", "d"].map(|key| Message::of(key).payload);
        assert_eq!(transactions.output(), expected);
        assert_eq!(broker.acknowledged(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_ready_when_a_stop_is_asked_for_is_committed() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b", "c"]);
    let transactions = Transactions::of(&world, &broker).with([Answer::Await("b", 1)]);
    let mut worker = world.worker(&broker);
    worker.pipeline.batch = 1;
    let (stop, log) = (worker.stop.clone(), transactions.clone());
    let stopped = async move {
        while log.log().asked.is_empty() {
            tokio::task::yield_now().await;
        }
        stop.request();
    };
    let (run, ()) = tokio::join!(worker.streamed(transactions.clone(), NONE), stopped);
    let summary = run.summary();
    let output = transactions.output();
    assert_eq!(summary.of(Fate::Applied), output.len() as u64);
    assert_eq!(broker.acknowledged(), output.len());
    assert!(!output.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_committed_names_its_operation() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let transactions = Transactions::of(&world, &broker);
    let run = world.worker(&broker).streamed(transactions.clone(), NONE);
    let _ = run.await.summary();

    let log = transactions.log();
    let finished = log.committed.values().next().expect("one");
    assert_eq!(finished.id, world.operation("a").id());
    assert_eq!(finished.key.as_str(), "a");
}

#[tokio::test(start_paused = true)]
async fn what_a_transform_answers_is_what_is_put_out() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let worker = world.worker(&broker);
    let done = Act::Say(Verdict::Done("made of a".into()));
    let transform = Scripted::always(&world, &worker.crash, done);
    let transactions = Transactions::of(&world, &broker);
    let summary = worker.streamed(transactions.clone(), Some(transform)).await;
    assert_eq!(summary.summary().of(Fate::Applied), 1);
    assert_eq!(transactions.output(), ["made of a"]);
}

#[tokio::test(start_paused = true)]
async fn a_transform_that_fails_is_tried_again_and_given_up_in_the_end() {
    for (verdict, calls) in [
        (not_applied(), 3),
        (maybe_applied(), 3),
        (
            Verdict::Dead {
                decisive: false,
                error: "never".into(),
            },
            1,
        ),
        (
            Verdict::DoneUnkept {
                len_bytes: 9_000_000,
                digest: [0; 32],
            },
            1,
        ),
    ] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let mut worker = world.worker(&broker);
        worker.pipeline.limits.failed = NonZeroU32::new(3).expect("three");
        let transform = Scripted::always(&world, &worker.crash, Act::Say(verdict.clone()));
        let transactions = Transactions::of(&world, &broker);
        let run = worker.streamed(transactions.clone(), Some(transform));
        let summary = run.await.summary();

        assert_eq!(summary.of(Fate::Dead), 1, "{verdict:?}");
        assert_eq!(world.sink.spans().len(), calls, "{verdict:?}");
        assert_eq!(transactions.log().commits, 0, "{verdict:?}");
        let parked = world.parked().await;
        assert_eq!((parked.len(), &*parked[0].reason), (1, "dead"));
        assert_eq!(broker.unacknowledged(), 0);
        assert_eq!(world.watch.times(&Seen::Dead("a".to_owned())), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_has_is_given_back_and_not_acknowledged() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b"]);
    let transactions = Transactions::of(&world, &broker);
    transactions.log().gone.push("a".to_owned());
    let worker = world.worker(&broker);
    let (stop, log) = (worker.stop.clone(), transactions.clone());
    let stopped = async move {
        while log.output().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        stop.request();
    };
    let (run, ()) = tokio::join!(worker.streamed(transactions.clone(), NONE), stopped);
    let summary = run.summary();
    assert_eq!(transactions.output(), [Message::of("b").payload]);
    assert_eq!(broker.acknowledged(), 1);
    assert_eq!(summary.of(Fate::Applied), 1);
    assert!(summary.of(Fate::Released) > 0, "{summary:?}");
    assert!(broker.requeued() > 0);
}

#[tokio::test(start_paused = true)]
async fn behind_a_batch_that_fails_for_good_nothing_is_committed() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b"]);
    let answer = Answer::FailForGood("b", 1);
    let transactions = Transactions::of(&world, &broker).with([answer]);
    let mut worker = world.worker(&broker);
    worker.pipeline.batch = 1;
    let error = worker.streamed(transactions.clone(), NONE).await.error();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert_eq!(transactions.log().commits, 1);
    assert_eq!(broker.acknowledged(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_failed_or_whose_answer_was_lost_is_asked_again() {
    for answers in [
        [Answer::Fail, Answer::Fail],
        [Answer::Lose, Answer::Fail],
        [Answer::Fail, Answer::Lose],
    ] {
        let world = World::new();
        let broker = broker_with(&world, &["a", "b", "c"]);
        let transactions = Transactions::of(&world, &broker).with(answers);
        let run = world.worker(&broker).streamed(transactions.clone(), NONE);
        let summary = run.await.summary();
        assert_eq!(summary.of(Fate::Applied), 3);
        assert_eq!(transactions.output().len(), 3);
        assert!(transactions.log().commits >= 3);
        assert_eq!(broker.acknowledged(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn the_dead_letter_of_a_traced_message_without_headers_has_none() {
    let world = World::new();
    let broker = broker_with(&world, &["b"]);
    let transactions = Transactions::of(&world, &broker).with([Answer::Refuse("{\"key\":\"b\"}")]);
    let mut worker = world.worker(&broker);
    let _gathered = gather(&mut worker, SampleShare::ALL);
    let summary = worker.streamed(transactions, NONE).await.summary();
    assert_eq!(summary.of(Fate::Dead), 1);
    assert_eq!(world.parked().await[0].headers, []);
}

#[tokio::test(start_paused = true)]
async fn an_output_that_the_broker_never_takes_is_a_dead_letter_of_its_own() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b", "c"]);
    let transactions = Transactions::of(&world, &broker).with([Answer::Refuse("{\"key\":\"b\"}")]);
    let mut worker = world.worker(&broker);
    worker.feed.headers = vec![("trace".into(), "7".into())];
    let summary = worker.streamed(transactions.clone(), NONE).await.summary();
    assert_eq!(summary.of(Fate::Applied), 2);
    assert_eq!(summary.of(Fate::Dead), 1);
    let parked = world.parked().await;
    assert_eq!(
        (&*parked[0].reason, &*parked[0].detail),
        ("dead", "too large")
    );
    let headers = [("trace".into(), Bytes::from_static(b"7"))];
    assert_eq!(parked[0].headers, headers);
    for Finished { output, .. } in transactions.log().committed.values() {
        assert_eq!(output.as_ref().expect("a message").headers, headers);
    }
    // Nothing was put out for the key, so there is nothing that its next message could repeat.
    assert_eq!(world.state("b").await, None::<StateKind>);
    assert_eq!(broker.acknowledged(), 3);
}

/// Never ends.
struct Stuck;

impl Effect for Stuck {
    async fn call(&self, _call: semel_engine::effect::Call) -> Verdict {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_runs_out_of_patience_commits_nothing() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let mut worker = world.worker(&broker);
    worker.patience = Duration::from_secs(2);
    let stop = worker.stop.clone();
    let transactions = Transactions::of(&world, &broker);
    let (run, ()) = tokio::join!(
        worker.streamed(transactions.clone(), Some(Arc::new(Stuck))),
        stop.after(Duration::from_secs(1))
    );
    let summary = run.summary();
    assert_eq!(summary.of(Fate::Released), 1);
    assert!(transactions.output().is_empty());
    assert_eq!(broker.acknowledged(), 0);
}

/// Runs a worker that is asked to stop after a second, with ten seconds of patience. Returns how long it took from then on.
async fn stopped(world: &World, broker: &Broker, transactions: &Transactions) -> (Run, Duration) {
    let mut worker = world.worker(broker);
    worker.patience = Duration::from_secs(10);
    worker.pipeline.batch = 2;
    let (stop, asked_at) = (worker.stop.clone(), Duration::from_secs(1));
    let run = worker.streamed(transactions.clone(), NONE);
    let (run, ()) = tokio::join!(run, stop.after(asked_at));
    (run, world.clock.elapsed().saturating_sub(asked_at))
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_a_commit_as_long_as_for_a_report() {
    let ends = Duration::from_secs(11) + LAST_REPORTS;
    let before = Duration::from_millis(100);
    for answer in [Answer::After, Answer::Late] {
        let world = World::new();
        let broker = broker_with(&world, &["a", "b", "c"]);
        let transactions =
            Transactions::of(&world, &broker).with([answer(ends.saturating_sub(before))]);
        let (run, _) = stopped(&world, &broker, &transactions).await;
        let summary = run.summary();
        assert_eq!(summary.of(Fate::Applied), 2, "{summary:?}");
        assert_eq!(summary.of(Fate::Released), 1, "not begun after the end");
        assert_eq!(transactions.log().commits, 1);
        assert_eq!((broker.acknowledged(), broker.requeued()), (2, 1));

        let world = World::new();
        let broker = broker_with(&world, &["a", "b", "c"]);
        let transactions = Transactions::of(&world, &broker).with([answer(ends * 100)]);
        let (run, took) = stopped(&world, &broker, &transactions).await;
        assert_eq!(run.error().kind(), ErrorKind::Timeout);
        let most = Duration::from_millis(10_001) + LAST_REPORTS;
        assert!(took <= most, "{took:?}");
        assert_eq!((broker.acknowledged(), broker.requeued()), (0, 3));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_broker_that_does_not_say_what_is_granted() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b", "c"]);
    let transactions = Transactions::of(&world, &broker);
    transactions.log().is_silent = true;
    let (run, took) = stopped(&world, &broker, &transactions).await;
    assert_eq!(run.error().kind(), ErrorKind::Timeout);
    assert!(took <= Duration::from_millis(10_001), "{took:?}");
    assert_eq!((broker.acknowledged(), broker.requeued()), (0, 3));
}
