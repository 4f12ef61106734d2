//! A stop while the store is silent: it is there, and gives no answers. The run ends in time all the same, and until then
//! breaks off nothing that would have been written.

use std::collections::VecDeque;
use std::time::Duration;

use semel_core::port::sink::{AnySink, Publication, Sink};
use semel_core::{ErrorKind, Result, StateKind};
use semel_engine::consumer::{LAST_OF_SOURCE, LAST_REPORTS};
use semel_engine::effect::{Probe, Verdict};
use semel_engine::pipeline::Fail;
use semel_engine::summary::Fate;

use super::{broker_with, broker_with_many, many};
use crate::world::broker::{Broker, OnAcknowledge, OnFetch};
use crate::world::fault::{Fault, Method};
use crate::world::file::{Disk, MemoryFile};
use crate::world::message::Message;
use crate::world::scripted::{Act, Scripted, maybe_applied};
use crate::world::worker::{Manner, Run, Worker};
use crate::world::{KEYED, LEASE, PARK, World};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
/// A clock moves by whole milliseconds.
const TICK: Duration = Duration::from_millis(1);

/// The patience of a stop in these tests, one of which has none.
const PATIENCES: [Duration; 3] = [Duration::from_secs(12), SECOND, Duration::ZERO];

/// Runs a worker that is asked to stop at `asked_at`, and returns how long it took from then on.
async fn stopped(
    world: &World,
    worker: Worker,
    asked_at: Duration,
    run: impl AsyncFnOnce(Worker) -> Run,
) -> (Run, Duration) {
    let stop = worker.stop.clone();
    let (run, ()) = tokio::join!(run(worker), stop.after(asked_at));
    (run, world.clock.elapsed().saturating_sub(asked_at))
}

/// A worker whose source has five messages, and whose shutdown has that patience.
fn with_five(patience: Duration) -> (World, Broker, Worker) {
    let world = World::new();
    let broker = broker_with_many(&world, 5);
    let mut worker = world.worker(&broker);
    worker.patience = patience;
    (world, broker, worker)
}

/// Lets another worker do the rest, once every lease has ended; returns the count of messages in doubt.
async fn end(world: &World, broker: &Broker) -> u64 {
    tokio::time::sleep(LEASE * 2).await;
    let worker = world.worker(broker);
    let effect = Scripted::new(world, &worker.crash, []);
    let summary = worker.each(effect, PARK).await.summary();
    assert_eq!(broker.unacknowledged(), 0, "{summary:?}");
    summary.of(Fate::InDoubt)
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_an_answer_is_cut_off_with_the_patience_or_a_little_later() {
    for manner in Manner::ALL {
        for fault in [Fault::Hang, Fault::HangAfter] {
            for patience in PATIENCES {
                let why = format!("{manner:?}, {fault:?}, {patience:?}");
                let (world, broker, worker) = with_five(patience);
                worker.plan.outage(Method::Claim, HOUR, fault);
                let plan = worker.plan.clone();
                let effect = Scripted::new(&world, &worker.crash, []);
                let run = async |worker: Worker| worker.by(manner, effect, PARK).await;
                let (run, took) = stopped(&world, worker, SECOND * 10, run).await;

                let end = patience.max(LAST_REPORTS);
                assert!(took >= end && took <= end + TICK, "{why}: {took:?}");
                assert_eq!(run.error().kind(), ErrorKind::Timeout, "{why}");
                assert_eq!(world.sink.all().len(), 0, "{why}: nothing has begun");
                assert_eq!(plan.calls(Method::Claim), 1, "{why}");
                assert_eq!(broker.acknowledged(), 0, "{why}");
                assert_eq!(broker.requeued(), 5, "{why}: given back");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_without_an_answer_is_cut_off_soon_after_the_patience() {
    for manner in Manner::ALL {
        for (fault, in_doubt) in [(Fault::Hang, 5), (Fault::HangAfter, 0)] {
            for patience in PATIENCES {
                let why = format!("{manner:?}, {fault:?}, {patience:?}");
                let (world, broker, worker) = with_five(patience);
                worker.plan.outage(Method::Settle, HOUR, fault);
                let plan = worker.plan.clone();
                let effect = Scripted::new(&world, &worker.crash, []);
                let run = async |worker: Worker| worker.by(manner, effect, PARK).await;
                let (run, took) = stopped(&world, worker, SECOND * 10, run).await;

                assert!(took <= patience + LAST_REPORTS + TICK, "{why}: {took:?}");
                assert_eq!(run.error().kind(), ErrorKind::Timeout, "{why}");
                assert_eq!(broker.acknowledged(), 0, "{why}");
                assert_eq!(broker.requeued(), 5, "{why}: given back");
                assert_eq!(plan.calls(Method::Settle), 1, "{why}: not begun again");
                assert_eq!(end(&world, &broker).await, in_doubt, "{why}");
                for key in many(5) {
                    assert_eq!(world.sink.applied(&key), 1, "{why}: {key}");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_parked_in_time_is_given_back() {
    for manner in Manner::ALL {
        for patience in PATIENCES {
            let why = format!("{manner:?}, {patience:?}");
            let world = World::new();
            let broker = broker_with(&world, &["a"]);
            broker.publish(Message::raw("no key"));
            let mut worker = world.worker(&broker);
            worker.patience = patience;
            worker.feed.stays_open = true;
            worker.plan.outage(Method::Park, HOUR, Fault::Hang);
            let effect = Scripted::new(&world, &worker.crash, []);
            let run = async |worker: Worker| worker.by(manner, effect, PARK).await;
            let (run, took) = stopped(&world, worker, SECOND * 10, run).await;

            assert!(took <= patience + LAST_REPORTS + TICK, "{why}: {took:?}");
            assert_eq!(run.error().kind(), ErrorKind::Timeout, "{why}");
            assert_eq!(world.parked().await.len(), 0, "{why}");
            // What has its outcome on record is acknowledged, whatever else was cut off.
            let state = world.state("a").await;
            let applied = usize::from(state == Some(StateKind::Completed));
            assert_eq!(broker.acknowledged(), applied, "{why}");
            assert_eq!(broker.requeued(), 2 - applied, "{why}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn leases_that_nobody_answers_for_do_not_keep_the_last_reports_from_being_made() {
    for manner in Manner::ALL {
        for patience in PATIENCES {
            let why = format!("{manner:?}, {patience:?}");
            let world = World::new();
            let broker = broker_with(&world, &["a"]);
            let mut worker = world.worker(&broker);
            worker.patience = patience;
            worker.plan.outage(Method::Renew, HOUR, Fault::Hang);
            let effect = Scripted::always(&world, &worker.crash, Act::Slow(HOUR, SECOND));
            let asked_at = LEASE / 2;
            let run = async |worker: Worker| worker.by(manner, effect, PARK).await;
            let (run, took) = stopped(&world, worker, asked_at, run).await;

            assert!(took >= patience, "{why}: {took:?}");
            assert!(took <= patience + SECOND, "{why}: {took:?}");
            assert_eq!(run.summary().of(Fate::InDoubt), 1, "{why}");
            assert_eq!(world.state("a").await, Some(StateKind::InDoubt), "{why}");
        }
    }
}

/// A sink that confirms everything after this time.
#[derive(Clone)]
struct Slow(Duration);

impl Sink for Slow {
    async fn publish(&self, batch: &[Publication]) -> Vec<Result<()>> {
        tokio::time::sleep(self.0).await;
        batch.iter().map(|_| Ok(())).collect()
    }
}

/// A verdict that makes a dead letter.
fn dead() -> Verdict {
    Verdict::Dead {
        decisive: false,
        error: "no such account".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_nobody_confirms_is_not_waited_for_any_longer() {
    for (is_sink, manner) in [true, false].into_iter().zip(Manner::ALL) {
        for patience in PATIENCES {
            let why = format!("sink {is_sink}, {manner:?}, {patience:?}");
            let world = World::new();
            let broker = broker_with(&world, &["a"]);
            let mut worker = world.worker(&broker);
            worker.patience = patience;
            worker.dead_letters = Some(AnySink::new(Slow(HOUR)));
            if !is_sink {
                worker.plan.outage(Method::Get, HOUR, Fault::Hang);
            }
            let effect = Scripted::always(&world, &worker.crash, Act::Say(dead()));
            let run = async |worker: Worker| worker.by(manner, effect, PARK).await;
            let (_, took) = stopped(&world, worker, SECOND * 10, run).await;

            assert!(took <= patience + LAST_REPORTS + TICK, "{why}: {took:?}");
            assert_eq!(broker.acknowledged(), 0, "{why}");
            assert_eq!(broker.requeued(), 1, "{why}");
            assert_eq!(world.state("a").await, Some(StateKind::Dead), "{why}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_is_confirmed_in_time_is_acknowledged() {
    for manner in Manner::ALL {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let mut worker = world.worker(&broker);
        worker.patience = PATIENCE;
        let at = reports_end().saturating_sub(BEFORE);
        worker.dead_letters = Some(AnySink::new(Slow(at)));
        let effect = Scripted::always(&world, &worker.crash, Act::Say(dead()));
        let run = async |worker: Worker| worker.by(manner, effect, PARK).await;
        let (run, _) = stopped(&world, worker, ASKED_AT, run).await;
        assert_eq!(run.summary().of(Fate::Dead), 1, "{manner:?}");
        assert_eq!(broker.acknowledged(), 1, "{manner:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_without_an_answer_is_cut_off_and_its_outcome_unknown() {
    for fault in [Fault::Hang, Fault::HangAfter] {
        for patience in PATIENCES {
            let why = format!("{fault:?}, {patience:?}");
            let (world, broker, worker) = with_five(patience);
            worker.plan.outage(Method::Apply, HOUR, fault);
            let plan = worker.plan.clone();
            let run = async |worker: Worker| worker.transaction().await;
            let (run, took) = stopped(&world, worker, SECOND * 10, run).await;

            assert!(took <= patience + LAST_REPORTS + TICK, "{why}: {took:?}");
            assert_eq!(run.error().kind(), ErrorKind::Timeout, "{why}");
            assert_eq!(plan.calls(Method::Apply), 1, "{why}: not begun again");
            assert_eq!(broker.acknowledged(), 0, "{why}");
            assert_eq!(broker.requeued(), 5, "{why}: given back");
            world.worker(&broker).transaction().await.summary();
            assert_eq!(broker.unacknowledged(), 0, "{why}");
            for key in many(5) {
                assert_eq!(world.sink.applied(&key), 1, "{why}: {key}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_output_that_is_not_recorded_in_time_is_written_anew() {
    for fault in [Fault::Hang, Fault::HangAfter] {
        let world = World::new();
        let broker = broker_with_many(&world, 5);
        let disk = Disk::default();
        let file = |worker: &Worker| MemoryFile {
            name: "out",
            disk: disk.clone(),
            crash: worker.crash.clone(),
            acts: VecDeque::new(),
        };
        let mut worker = world.worker(&broker);
        worker.patience = SECOND;
        worker.plan.outage(Method::SettleWith, HOUR, fault);
        let output = file(&worker);
        let run = async |worker: Worker| worker.output(output).await;
        let (run, took) = stopped(&world, worker, SECOND * 10, run).await;

        assert!(took <= SECOND + LAST_REPORTS + TICK, "{fault:?}: {took:?}");
        assert_eq!(run.error().kind(), ErrorKind::Timeout, "{fault:?}");
        assert_eq!(broker.acknowledged(), 0, "{fault:?}");
        let worker = world.worker(&broker);
        let output = file(&worker);
        worker.output(output).await.summary();
        let (lines, rest) = disk.lines();
        assert_eq!((lines.len(), &*rest), (5, ""), "{fault:?}");
        assert_eq!(broker.unacknowledged(), 0, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_output_that_is_recorded_in_time_is_acknowledged() {
    let (world, broker, worker) = with_five(PATIENCE);
    let disk = Disk::default();
    let late = Fault::DelayAfter(reports_end().saturating_sub(BEFORE));
    worker.plan.nth(Method::SettleWith, 1, late);
    let output = MemoryFile {
        name: "out",
        disk: disk.clone(),
        crash: worker.crash.clone(),
        acts: VecDeque::new(),
    };
    let run = async |worker: Worker| worker.output(output).await;
    let (run, took) = stopped(&world, worker, ASKED_AT, run).await;
    assert_eq!(run.summary().of(Fate::Applied), 5);
    assert!(took > PATIENCE, "it was waited for: {took:?}");
    assert_eq!(broker.acknowledged(), 5);
    assert_eq!(disk.lines().0.len(), 5);
}

/// A stop without patience, while the length of an output is recorded.
#[tokio::test(start_paused = true)]
async fn an_output_that_is_written_is_recorded_without_patience_too() {
    let (world, broker, worker) = with_five(Duration::ZERO);
    let late = Fault::DelayAfter(ASKED_AT + BEFORE);
    worker.plan.nth(Method::SettleWith, 1, late);
    let output = MemoryFile {
        name: "out",
        disk: Disk::default(),
        crash: worker.crash.clone(),
        acts: VecDeque::new(),
    };
    let run = async |worker: Worker| worker.output(output).await;
    let (run, took) = stopped(&world, worker, ASKED_AT, run).await;
    assert_eq!(run.summary().of(Fate::Applied), 5);
    assert!(took >= BEFORE, "it was waited for: {took:?}");
    assert_eq!(broker.acknowledged(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_does_not_answer_is_left_soon_after_the_last_reports() {
    for manner in Manner::ALL {
        for (is_acknowledging, stays_open) in [(true, true), (false, true), (false, false)] {
            for patience in PATIENCES {
                let why = format!("{manner:?}, {is_acknowledging}, {stays_open}, {patience:?}");
                let (world, broker, mut worker) = with_five(patience);
                worker.feed.stays_open = stays_open;
                if is_acknowledging {
                    worker.feed.on_acknowledge = Some(OnAcknowledge::Hang);
                } else {
                    worker.feed.close_takes = HOUR;
                }
                let effect = Scripted::new(&world, &worker.crash, []);
                let run = async |worker: Worker| worker.by(manner, effect, PARK).await;
                let (run, took) = stopped(&world, worker, SECOND * 10, run).await;

                let most = patience + LAST_REPORTS + LAST_OF_SOURCE;
                assert!(took >= most && took <= most + TICK, "{why}: {took:?}");
                let error = run.error();
                assert_eq!(error.kind(), ErrorKind::Timeout, "{why}");
                assert!(error.to_string().contains("source"), "{why}: {error}");
                let acknowledged = if is_acknowledging { 0 } else { 5 };
                assert_eq!(broker.acknowledged(), acknowledged, "{why}");
                assert_eq!(end(&world, &broker).await, 0, "{why}");
            }
        }
    }
}

/// More acknowledgements than the way to the source holds.
#[tokio::test(start_paused = true)]
async fn a_source_that_takes_nothing_any_more_does_not_hold_up_the_end() {
    let world = World::new();
    let broker = broker_with_many(&world, 100);
    let mut worker = world.worker(&broker);
    worker.patience = SECOND;
    (worker.pipeline.batch, worker.pipeline.concurrency) = (100, 1);
    worker.feed.on_acknowledge = Some(OnAcknowledge::Hang);
    let effect = Scripted::new(&world, &worker.crash, []);
    let run = async |worker: Worker| worker.each(effect, PARK).await;
    let (run, took) = stopped(&world, worker, SECOND * 10, run).await;

    let end = SECOND + LAST_REPORTS + LAST_OF_SOURCE;
    assert!(took >= end && took <= end + TICK, "{took:?}");
    assert_eq!(run.error().kind(), ErrorKind::Timeout);
    assert!(world.sink.spans().len() > 64, "the way was full");
    assert!(world.sink.spans().len() < 100, "the way was full");
    assert_eq!(broker.acknowledged(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_answers_in_time_is_waited_for() {
    let last = (reports_end() + LAST_OF_SOURCE).saturating_sub(BEFORE);
    for manner in Manner::ALL {
        for is_acknowledging in [true, false] {
            let why = format!("{manner:?}, {is_acknowledging}");
            let (world, broker, mut worker) = with_five(PATIENCE);
            if is_acknowledging {
                worker.feed.on_acknowledge = Some(OnAcknowledge::Delay(last));
            } else {
                worker.feed.close_takes = last;
            }
            let effect = Scripted::new(&world, &worker.crash, []);
            let run = async |worker: Worker| worker.by(manner, effect, PARK).await;
            let (run, _) = stopped(&world, worker, ASKED_AT, run).await;
            assert_eq!(run.summary().of(Fate::Applied), 5, "{why}");
            assert_eq!(broker.acknowledged(), 5, "{why}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_recalled_waits_for_its_store_without_a_limit() {
    for manner in Manner::ALL {
        for method in [Method::Claim, Method::Settle] {
            let why = format!("{manner:?}, {method:?}");
            let (world, broker, mut worker) = with_five(SECOND);
            worker.plan.nth(method, 1, Fault::DelayAfter(SECOND * 20));
            worker.feed.close_takes = SECOND * 20;
            let recall = worker.recall.clone();
            let effect = Scripted::new(&world, &worker.crash, []);
            let run = worker.by(manner, effect, PARK);
            let (run, ()) = tokio::join!(run, recall.after(SECOND));

            let fate = if method == Method::Claim {
                Fate::Released
            } else {
                Fate::Applied
            };
            assert_eq!(run.summary().of(fate), 5, "{why}");
            assert_eq!(end(&world, &broker).await, 0, "{why}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_claimed_does_not_run_unprotected_at_the_end() {
    for manner in Manner::ALL {
        let world = World::new();
        let broker = broker_with_many(&world, 5);
        broker.accept_unprotected();
        let mut worker = world.worker(&broker);
        worker.outage.fail = Fail::Open;
        worker.patience = PATIENCE;
        worker.plan.outage(Method::Claim, HOUR, Fault::HangAfter);
        let effect = Scripted::new(&world, &worker.crash, []);
        let run = async |worker: Worker| worker.by(manner, effect, KEYED).await;
        let (run, took) = stopped(&world, worker, ASKED_AT, run).await;

        assert!(took >= PATIENCE, "{manner:?}: {took:?}");
        assert!(took <= PATIENCE + TICK, "{manner:?}: {took:?}");
        assert_eq!(run.error().kind(), ErrorKind::Timeout, "{manner:?}");
        assert_eq!(world.sink.spans().len(), 0, "{manner:?}: nothing has begun");
        assert_eq!(broker.requeued(), 5, "{manner:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_fails_gives_the_run_the_same_time() {
    for manner in Manner::ALL {
        let (world, broker, mut worker) = with_five(SECOND * 10);
        worker.feed.on_fetch = Some(OnFetch::FailLater);
        worker.plan.outage(Method::Settle, HOUR, Fault::Hang);
        let effect = Scripted::new(&world, &worker.crash, []);
        let run = worker.by(manner, effect, PARK).await;

        let took = world.clock.elapsed();
        let most = SECOND * 10 + LAST_REPORTS + SECOND;
        assert!(took <= most, "{manner:?}: {took:?}");
        let error = run.error();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{manner:?}");
        assert!(error.to_string().contains("the broker is gone"), "{error}");
        assert_eq!(broker.acknowledged(), 0, "{manner:?}");

        let (world, broker, mut worker) = with_five(SECOND * 10);
        worker.feed.on_fetch = Some(OnFetch::FailLater);
        // It hands over the messages after a second, and fails after another.
        worker.feed.pause = SECOND;
        let late = Fault::DelayAfter((SECOND * 11 + LAST_REPORTS).saturating_sub(BEFORE));
        worker.plan.nth(Method::Settle, 1, late);
        let effect = Scripted::new(&world, &worker.crash, []);
        let error = worker.by(manner, effect, PARK).await.error();
        assert!(error.to_string().contains("the broker is gone"), "{error}");
        assert_eq!(broker.acknowledged(), 5, "{manner:?}: it was waited for");
    }
}

/// The time at which a stop is requested, its patience, and the moments around the end of each limit.
const ASKED_AT: Duration = SECOND;
const PATIENCE: Duration = Duration::from_secs(10);
const WORK_ENDS: Duration = Duration::from_secs(11);
const BEFORE: Duration = Duration::from_millis(100);

fn reports_end() -> Duration {
    WORK_ENDS + LAST_REPORTS
}

#[tokio::test(start_paused = true)]
async fn a_report_that_is_answered_in_time_is_written_and_acknowledged() {
    for manner in Manner::ALL {
        for at in [
            WORK_ENDS.saturating_sub(BEFORE),
            WORK_ENDS + BEFORE,
            reports_end().saturating_sub(BEFORE),
        ] {
            for fault in [Fault::DelayBefore(at), Fault::DelayAfter(at)] {
                let why = format!("{manner:?}, {fault:?}");
                let (world, broker, worker) = with_five(PATIENCE);
                worker.plan.nth(Method::Settle, 1, fault);
                let effect = Scripted::new(&world, &worker.crash, []);
                let run = async |worker: Worker| worker.by(manner, effect, PARK).await;
                let (run, _) = stopped(&world, worker, ASKED_AT, run).await;

                assert_eq!(run.summary().of(Fate::Applied), 5, "{why}");
                assert_eq!(broker.acknowledged(), 5, "{why}");
            }
        }
        let (world, broker, worker) = with_five(PATIENCE);
        let late = Fault::DelayAfter(reports_end() + BEFORE);
        worker.plan.nth(Method::Settle, 1, late);
        let effect = Scripted::new(&world, &worker.crash, []);
        let run = async |worker: Worker| worker.by(manner, effect, PARK).await;
        let (run, _) = stopped(&world, worker, ASKED_AT, run).await;
        assert_eq!(run.error().kind(), ErrorKind::Timeout, "{manner:?}");
        assert_eq!(broker.acknowledged(), 0, "{manner:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_answered_in_time_is_acknowledged() {
    for at in [WORK_ENDS + BEFORE, reports_end().saturating_sub(BEFORE)] {
        for fault in [Fault::DelayBefore(at), Fault::DelayAfter(at)] {
            let (world, broker, worker) = with_five(PATIENCE);
            worker.plan.nth(Method::Apply, 1, fault);
            let run = async |worker: Worker| worker.transaction().await;
            let (run, _) = stopped(&world, worker, ASKED_AT, run).await;
            assert_eq!(run.summary().of(Fate::Applied), 5, "{fault:?}");
            assert_eq!(broker.acknowledged(), 5, "{fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_parked_in_time_is_acknowledged() {
    for manner in Manner::ALL {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        broker.publish(Message::raw("no key"));
        let mut worker = world.worker(&broker);
        worker.patience = PATIENCE;
        let at = reports_end().saturating_sub(BEFORE);
        worker.plan.nth(Method::Park, 1, Fault::DelayAfter(at));
        let effect = Scripted::new(&world, &worker.crash, []);
        let run = async |worker: Worker| worker.by(manner, effect, PARK).await;
        let (run, _) = stopped(&world, worker, ASKED_AT, run).await;
        assert_eq!(run.summary().of(Fate::Quarantined), 1, "{manner:?}");
        assert!(broker.acknowledged() >= 1, "{manner:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_granted_after_the_stop_is_given_back_unbegun() {
    for manner in Manner::ALL {
        for (patience, at) in [
            (PATIENCE, ASKED_AT + BEFORE),
            (PATIENCE, WORK_ENDS.saturating_sub(BEFORE)),
            (Duration::ZERO, ASKED_AT + BEFORE),
            (
                Duration::ZERO,
                (ASKED_AT + LAST_REPORTS).saturating_sub(BEFORE),
            ),
        ] {
            let why = format!("{manner:?}, {patience:?}, {at:?}");
            let (world, broker, worker) = with_five(patience);
            worker.plan.nth(Method::Claim, 1, Fault::DelayAfter(at));
            let effect = Scripted::new(&world, &worker.crash, []);
            let run = async |worker: Worker| worker.by(manner, effect, PARK).await;
            let (run, _) = stopped(&world, worker, ASKED_AT, run).await;

            assert_eq!(run.summary().of(Fate::Released), 5, "{why}");
            assert_eq!(world.sink.spans().len(), 0, "{why}: nothing has begun");
            for key in many(5) {
                let record = world.record(&key).await.expect("a record");
                assert_eq!(record.state.kind(), StateKind::Released, "{why}");
                assert_eq!(record.attempts, 0, "{why}: no attempt");
            }
            assert_eq!(end(&world, &broker).await, 0, "{why}");
        }
    }
}

/// One message has ended and its report has no answer; another one still runs.
#[tokio::test(start_paused = true)]
async fn what_runs_is_broken_off_with_the_patience_while_a_report_is_waited_for() {
    for (manner, method) in [
        (Manner::Each, Method::Settle),
        (Manner::Each, Method::Park),
        // No batch begins beside a message that is being parked.
        (Manner::Bulk, Method::Settle),
    ] {
        for is_answered in [true, false] {
            let why = format!("{manner:?}, {method:?}, {is_answered}");
            let world = World::new();
            let (broker, fate) = if method == Method::Settle {
                (broker_with(&world, &["a", "b"]), Fate::Applied)
            } else {
                (broker_with(&world, &["b"]), Fate::Quarantined)
            };
            let slow = Act::Slow(HOUR, SECOND);
            let acts = if method == Method::Settle {
                vec![Act::Do, slow]
            } else {
                broker.publish(Message::raw("no key"));
                vec![slow]
            };
            let mut worker = world.worker(&broker);
            worker.patience = PATIENCE;
            (worker.pipeline.batch, worker.pipeline.concurrency) = (1, 2);
            let fault = if is_answered {
                Fault::DelayAfter(SECOND * 12)
            } else {
                Fault::Hang
            };
            // The report of what is broken off then is answered.
            worker.plan.outage(method, WORK_ENDS, fault);
            let calls = acts.len();
            let effect = Scripted::new(&world, &worker.crash, acts);
            let run = async |worker: Worker| worker.by(manner, effect, KEYED).await;
            let (run, took) = stopped(&world, worker, ASKED_AT, run).await;

            assert!(took <= PATIENCE + LAST_REPORTS + TICK, "{why}: {took:?}");
            let spans = world.sink.spans();
            let last = spans.iter().filter_map(|span| span.ended).max();
            let last = last.expect("both have ended");
            assert_eq!(spans.len(), calls, "{why}");
            assert!(
                last >= WORK_ENDS.saturating_sub(TICK),
                "{why}: it ran until {last:?}"
            );
            assert!(last <= WORK_ENDS + TICK, "{why}: it ran until {last:?}");
            if is_answered {
                let summary = run.summary();
                assert_eq!(summary.of(fate), 1, "{why}: {summary:?}");
                assert_eq!(summary.of(Fate::Released), 1, "{why}: {summary:?}");
                let state = world.state("b").await;
                assert_eq!(state, Some(StateKind::Released), "{why}");
            } else {
                assert_eq!(run.error().kind(), ErrorKind::Timeout, "{why}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_beside_a_claim_that_will_not_begin_keeps_its_call() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b"]);
    let mut worker = world.worker(&broker);
    worker.patience = SECOND * 3;
    (worker.pipeline.batch, worker.pipeline.concurrency) = (1, 1);
    let slow = Fault::DelayAfter(SECOND * 7);
    worker.plan.outage(Method::Settle, SECOND * 7, slow);
    let plan = worker.plan.clone();
    // Its report is made beside the claim of the other message, and the stop comes then.
    let acts = [Act::Slow(SECOND, Duration::ZERO)];
    let effect = Scripted::new(&world, &worker.crash, acts);
    let run = async |worker: Worker| worker.each(effect, PARK).await;
    let (run, _) = stopped(&world, worker, SECOND + BEFORE, run).await;

    let summary = run.summary();
    assert_eq!(summary.of(Fate::Applied), 1, "{summary:?}");
    assert_eq!(summary.of(Fate::Released), 1, "{summary:?}");
    assert_eq!(plan.calls(Method::Settle), 2, "one for each");
    assert_eq!(world.state("b").await, Some(StateKind::Released));
}

#[tokio::test(start_paused = true)]
async fn a_probe_without_an_answer_is_left_to_the_next_worker() {
    for (method, is_answered) in [
        (Method::Get, false),
        (Method::Operate, false),
        (Method::Operate, true),
    ] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let worker = world.worker(&broker);
        let doubt = Act::Say(maybe_applied());
        let effect = Scripted::new(&world, &worker.crash, [doubt]);
        worker.each(effect, PARK).await.summary();
        tokio::time::sleep(HOUR).await;

        let began_at = world.clock.elapsed();
        let broker = broker.copy();
        let mut worker = world.worker(&broker);
        worker.patience = PATIENCE;
        let end = began_at + HOUR;
        let (fault, state) = if is_answered {
            let late = Fault::DelayBefore(WORK_ENDS.saturating_sub(BEFORE));
            (late, StateKind::Released)
        } else {
            (Fault::Hang, StateKind::InDoubt)
        };
        worker.plan.outage(method, end, fault);
        let plan = worker.plan.clone();
        let effect = Scripted::probed(&world, &worker.crash, [], Probe::NotApplied, SECOND);
        let run = async |worker: Worker| worker.each(effect, PARK).await;
        let (run, _) = stopped(&world, worker, ASKED_AT, run).await;

        let took = world.clock.elapsed().saturating_sub(began_at);
        let first = if is_answered {
            WORK_ENDS.saturating_sub(BEFORE)
        } else {
            WORK_ENDS
        };
        assert!(took >= first, "{method:?}: {took:?}");
        assert!(took <= WORK_ENDS + TICK, "{method:?}: {took:?}");
        assert_eq!(run.summary().of(Fate::Released), 1, "{method:?}");
        assert_eq!(plan.calls(method), 1, "{method:?}: it has begun");
        assert_eq!(world.state("a").await, Some(state), "{method:?}");
        assert_eq!(broker.acknowledged(), 0, "{method:?}");
        assert_eq!(broker.requeued(), 1, "{method:?}");
    }
}
