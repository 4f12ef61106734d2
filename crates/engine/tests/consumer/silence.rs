//! A stop while the store is silent: it is there, and gives no answers. The run ends in time all the same, and until then
//! breaks off nothing that would have been written.

use std::collections::VecDeque;
use std::time::Duration;

use semel_core::port::sink::{AnySink, Publication, Sink};
use semel_core::{ErrorKind, Result, StateKind};
use semel_engine::consumer::LAST_REPORTS;
use semel_engine::effect::{Probe, Verdict};
use semel_engine::summary::Fate;

use super::{broker_with, broker_with_many, many};
use crate::world::broker::{Broker, OnFetch};
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
async fn a_claim_without_an_answer_is_cut_off_with_the_patience() {
    for manner in Manner::ALL {
        for fault in [Fault::Hang, Fault::HangAfter] {
            for patience in PATIENCES {
                let why = format!("{manner:?}, {fault:?}, {patience:?}");
                let world = World::new();
                let broker = broker_with_many(&world, 5);
                let mut worker = world.worker(&broker);
                worker.patience = patience;
                worker.plan.outage(Method::Claim, HOUR, fault);
                let plan = worker.plan.clone();
                let effect = Scripted::new(&world, &worker.crash, []);
                let run = async |worker: Worker| worker.by(manner, effect, PARK).await;
                let (run, took) = stopped(&world, worker, SECOND * 10, run).await;

                assert!(took <= patience + TICK, "{why}: {took:?}");
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
                let world = World::new();
                let broker = broker_with_many(&world, 5);
                let mut worker = world.worker(&broker);
                worker.patience = patience;
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

            assert!(took <= patience + SECOND, "{why}: {took:?}");
            assert_eq!(run.summary().of(Fate::InDoubt), 1, "{why}");
            assert_eq!(world.state("a").await, Some(StateKind::InDoubt), "{why}");
        }
    }
}

/// A sink that says nothing.
#[derive(Clone)]
struct Silent;

impl Sink for Silent {
    async fn publish(&self, _batch: &[Publication]) -> Vec<Result<()>> {
        std::future::pending().await
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
            worker.dead_letters = Some(AnySink::new(Silent));
            if !is_sink {
                worker.plan.outage(Method::Get, HOUR, Fault::Hang);
            }
            let dead = Verdict::Dead {
                decisive: false,
                error: "no such account".into(),
            };
            let effect = Scripted::always(&world, &worker.crash, Act::Say(dead));
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
async fn a_transaction_without_an_answer_is_cut_off_and_its_outcome_unknown() {
    for fault in [Fault::Hang, Fault::HangAfter] {
        for patience in PATIENCES {
            let why = format!("{fault:?}, {patience:?}");
            let world = World::new();
            let broker = broker_with_many(&world, 5);
            let mut worker = world.worker(&broker);
            worker.patience = patience;
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
async fn a_source_that_fails_gives_the_run_the_same_time() {
    for manner in Manner::ALL {
        let world = World::new();
        let broker = broker_with_many(&world, 5);
        let mut worker = world.worker(&broker);
        worker.patience = SECOND * 10;
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
            WORK_ENDS - BEFORE,
            WORK_ENDS + BEFORE,
            reports_end() - BEFORE,
        ] {
            for fault in [Fault::DelayBefore(at), Fault::DelayAfter(at)] {
                let why = format!("{manner:?}, {fault:?}");
                let world = World::new();
                let broker = broker_with_many(&world, 5);
                let mut worker = world.worker(&broker);
                worker.patience = PATIENCE;
                worker.plan.nth(Method::Settle, 1, fault);
                let effect = Scripted::new(&world, &worker.crash, []);
                let run = async |worker: Worker| worker.by(manner, effect, PARK).await;
                let (run, _) = stopped(&world, worker, ASKED_AT, run).await;

                assert_eq!(run.summary().of(Fate::Applied), 5, "{why}");
                assert_eq!(broker.acknowledged(), 5, "{why}");
            }
        }
        let world = World::new();
        let broker = broker_with_many(&world, 5);
        let mut worker = world.worker(&broker);
        worker.patience = PATIENCE;
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
    for at in [WORK_ENDS + BEFORE, reports_end() - BEFORE] {
        for fault in [Fault::DelayBefore(at), Fault::DelayAfter(at)] {
            let world = World::new();
            let broker = broker_with_many(&world, 5);
            let mut worker = world.worker(&broker);
            worker.patience = PATIENCE;
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
        let at = reports_end() - BEFORE;
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
        for at in [ASKED_AT + BEFORE, WORK_ENDS - BEFORE] {
            let why = format!("{manner:?}, {at:?}");
            let world = World::new();
            let broker = broker_with_many(&world, 5);
            let mut worker = world.worker(&broker);
            worker.patience = PATIENCE;
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
    for manner in [Manner::Each, Manner::Bulk] {
        for is_answered in [true, false] {
            let why = format!("{manner:?}, {is_answered}");
            let world = World::new();
            let broker = broker_with(&world, &["a", "b"]);
            let mut worker = world.worker(&broker);
            worker.patience = PATIENCE;
            (worker.pipeline.batch, worker.pipeline.concurrency) = (1, 2);
            // A granted claim does not wait long for a report, which is then made once more: in five seconds.
            let wait = if manner == Manner::Each { 8 } else { 12 };
            let fault = if is_answered {
                Fault::DelayAfter(SECOND * wait)
            } else {
                Fault::Hang
            };
            worker
                .plan
                .outage(Method::Settle, WORK_ENDS + SECOND, fault);
            let acts = [Act::Do, Act::Slow(HOUR, SECOND)];
            let effect = Scripted::new(&world, &worker.crash, acts);
            let run = async |worker: Worker| worker.by(manner, effect, KEYED).await;
            let (run, took) = stopped(&world, worker, ASKED_AT, run).await;

            assert!(took <= PATIENCE + LAST_REPORTS + TICK, "{why}: {took:?}");
            let spans = world.sink.spans();
            let last = spans.iter().filter_map(|span| span.ended).max();
            let last = last.expect("both have ended");
            assert_eq!(spans.len(), 2, "{why}");
            assert!(last <= WORK_ENDS + TICK, "{why}: it ran until {last:?}");
            if is_answered {
                let summary = run.summary();
                assert_eq!(summary.of(Fate::Applied), 1, "{why}: {summary:?}");
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
async fn a_probe_without_an_answer_is_left_to_the_next_worker() {
    for method in [Method::Get, Method::Operate] {
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
        worker.plan.outage(method, end, Fault::Hang);
        let effect = Scripted::probed(&world, &worker.crash, [], Probe::NotApplied, SECOND);
        let run = async |worker: Worker| worker.each(effect, PARK).await;
        let (run, _) = stopped(&world, worker, ASKED_AT, run).await;

        let took = world.clock.elapsed().saturating_sub(began_at);
        assert!(took <= WORK_ENDS + TICK, "{method:?}: {took:?}");
        let _ = run;
        assert_eq!(broker.acknowledged(), 0, "{method:?}");
        assert_eq!(broker.requeued(), 1, "{method:?}");
    }
}
