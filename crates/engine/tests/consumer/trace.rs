//! Traces: they go on to every effect, and whoever wants spans gets those of each attempt.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use semel_core::{Duplicate, TraceContext};
use semel_engine::effect::{BatchEffect, BulkEffect, Call, Effect, Probe, TraceHeaders, Verdict};
use semel_engine::pipeline::Fail;
use semel_engine::summary::Fate;
use semel_engine::trace::{End, ProcessKind, SampleShare, Span};

use super::broker_with;
use crate::spans::Gathered;
use crate::world::fault::{Fault, Method};
use crate::world::file::{Disk, MemoryFile};
use crate::world::message::Message;
use crate::world::scripted::{Act, Scripted, maybe_applied, not_applied};
use crate::world::tables::Statement;
use crate::world::worker::{Manner, Run, Worker};
use crate::world::{KEYED, LEASE, PARK, REPEAT, World};

const SECOND: Duration = Duration::from_secs(1);
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Remembers the trace that each call hands on.
#[derive(Clone, Default)]
struct Hears(Arc<Mutex<Vec<Option<TraceHeaders>>>>);

impl Hears {
    async fn hear(&self, batch: &[Call]) -> Vec<Verdict> {
        tokio::time::sleep(SECOND).await;
        let traces = batch.iter().map(Call::trace);
        self.0.lock().expect("no panic").extend(traces);
        vec![Verdict::Done(Bytes::new()); batch.len()]
    }

    fn traces(&self) -> Vec<Option<TraceHeaders>> {
        self.0.lock().expect("no panic").clone()
    }
}

impl Effect for Hears {
    async fn call(&self, call: Call) -> Verdict {
        self.hear(&[call]).await.remove(0)
    }
}

impl BatchEffect for Hears {
    async fn call(&mut self, batch: &[Call]) -> Vec<Verdict> {
        self.hear(batch).await
    }
}

impl BulkEffect for Hears {
    async fn call(&self, batch: &[Call]) -> Vec<Verdict> {
        self.hear(batch).await
    }
}

async fn by(worker: Worker, manner: Manner, hears: &Hears) -> Run {
    match manner {
        Manner::Each => worker.effect(Arc::new(hears.clone()), PARK).await,
        Manner::Stream => worker.batches(hears.clone(), PARK).await,
        Manner::Bulk => worker.bulk(hears.clone(), PARK).await,
    }
}

/// A worker whose messages all come with this trace.
fn traced(world: &World, keys: &[&str], parent: &'static str) -> Worker {
    let broker = broker_with(world, keys);
    broker.accept_unprotected();
    let mut worker = world.worker(&broker);
    worker.feed.headers = vec![
        ("TraceParent".into(), Bytes::from_static(parent.as_bytes())),
        ("tracestate".into(), Bytes::from_static(b"vendor=1")),
    ];
    worker
}

/// Gathers the spans of a worker, of which `share` is sampled.
pub(super) fn gather(worker: &mut Worker, share: SampleShare) -> Gathered {
    let gathered = Gathered::new(share);
    worker.add_observer(Arc::new(gathered.clone()));
    gathered
}

fn ends(span: Span) -> Duration {
    span.began + span.took
}

#[tokio::test(start_paused = true)]
async fn a_trace_goes_on_to_the_effect_and_its_spans_fit_into_each_other() {
    for manner in Manner::ALL {
        let world = World::new();
        let mut worker = traced(&world, &["a", "b"], PARENT);
        let gathered = gather(&mut worker, SampleShare::NONE);
        let hears = Hears::default();
        by(worker, manner, &hears).await.summary();

        let attempts = gathered.attempts();
        assert_eq!(attempts.len(), 2, "{attempts:?}");
        let parent = TraceContext::parse(PARENT.as_bytes()).expect("a trace");
        let mut told = Vec::new();
        for attempt in &attempts {
            assert_eq!(attempt.parent, Some(parent));
            let kind = (attempt.kind, attempt.class);
            assert_eq!(kind, (ProcessKind::Consumer, Some(PARK)));
            assert_eq!(attempt.state.as_deref(), Some("vendor=1"));
            let process = attempt.process;
            let (claim, effect, settle) = (attempt.claim, attempt.effect, attempt.settle);
            let children = [claim, effect, settle].map(|it| it.expect("a span"));
            let mut ids = vec![parent.span_id, process.context.span_id];
            let mut before = process.began;
            for child in children {
                assert_eq!(child.context.trace_id, parent.trace_id);
                assert!(!ids.contains(&child.context.span_id), "{manner:?}");
                ids.push(child.context.span_id);
                assert!(child.began >= before, "{manner:?}: {attempt:?}");
                before = ends(child);
            }
            assert!(ends(process) >= before, "{manner:?}: {attempt:?}");
            assert!(children[1].took >= SECOND, "{manner:?}: {attempt:?}");
            assert!(children[0].took < SECOND && children[2].took < SECOND);
            // The mark of the producer decides, whatever the share is.
            assert!(process.context.flags.is_sampled());
            assert_eq!(attempt.decision, Some("granted"));
            assert_eq!(
                (attempt.number, attempt.verdict),
                (Some(1), Some("applied"))
            );
            assert_eq!((attempt.end, attempt.asked), (End::Fate(Fate::Applied), 1));
            assert!(!attempt.is_always_kept && !attempt.takeover);
            told.push(TraceHeaders {
                parent: children[1].context.to_string().into(),
                state: Some("vendor=1".into()),
            });
        }
        let continued: Vec<_> = hears.traces().into_iter().flatten().collect();
        assert_eq!(continued.len(), 2);
        assert!(told.iter().all(|it| continued.contains(it)), "{manner:?}");
        let named = gathered.named();
        let processes = attempts.iter().map(|it| it.process.context);
        let processes: Vec<_> = processes.collect();
        assert!(!named.is_empty() && named.iter().all(|it| processes.contains(it)));
    }
}

#[tokio::test(start_paused = true)]
async fn while_nobody_wants_spans_a_trace_goes_on_as_it_came() {
    for manner in Manner::ALL {
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more";
        for (parent, is_one) in [(PARENT, true), (later, true), ("00-ab-cd-01", false)] {
            let world = World::new();
            let worker = traced(&world, &["a"], parent);
            let hears = Hears::default();
            by(worker, manner, &hears).await.summary();
            let carried = TraceHeaders {
                parent: parent.into(),
                state: Some("vendor=1".into()),
            };
            assert_eq!(hears.traces(), [is_one.then_some(carried)], "{manner:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn where_a_message_has_no_trace_one_begins_and_the_share_marks_it() {
    for (share, is_sampled) in [(SampleShare::ALL, true), (SampleShare::NONE, false)] {
        let world = World::new();
        let broker = broker_with(&world, &["a", "b"]);
        let mut worker = world.worker(&broker);
        let gathered = gather(&mut worker, share);
        let hears = Hears::default();
        by(worker, Manner::Each, &hears).await.summary();
        let told = hears.traces().into_iter().flatten();
        let traces: Vec<_> = told
            .filter_map(|it| TraceContext::parse(it.parent.as_bytes()))
            .collect();
        let [a, b] = &traces[..] else {
            panic!("{traces:?}")
        };
        gathered.are_begun_here([*a, *b], is_sampled);
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_a_span_of_its_own_without_the_wait_between() {
    let world = World::new();
    let mut worker = traced(&world, &["a"], PARENT);
    let gathered = gather(&mut worker, SampleShare::NONE);
    let failed = Verdict::NotApplied {
        error: "429".into(),
        retry_after: Some(SECOND * 90),
    };
    let effect = Scripted::new(&world, &worker.crash, [Act::Say(failed)]);
    worker.each(effect, PARK).await.summary();
    let attempts = gathered.attempts();
    let [first, second] = &attempts[..] else {
        panic!("{attempts:?}")
    };
    assert_eq!(
        (first.end, second.end),
        (End::Released, End::Fate(Fate::Applied))
    );
    assert_eq!((first.number, second.number), (Some(1), Some(2)));
    assert_eq!(first.verdict, Some("not_applied"));
    assert_eq!(first.error.as_deref(), Some("429"));
    assert!(first.is_always_kept && !second.is_always_kept);
    assert_eq!(first.parent, second.parent);
    assert_eq!(
        first.process.context.trace_id,
        second.process.context.trace_id
    );
    assert_ne!(
        first.process.context.span_id,
        second.process.context.span_id
    );
    assert!(second.process.began >= ends(first.process) + SECOND * 90);
    assert!(second.process.took < SECOND);
}

#[tokio::test(start_paused = true)]
async fn duplicates_and_whatever_is_set_aside_have_spans_without_an_effect() {
    let world = World::new();
    let broker = world.broker();
    broker
        .publish(Message::of("a"))
        .publish(Message::of("a"))
        .publish(Message::with("a", "\"other\":1"))
        .publish(Message::raw("no key"));
    let mut worker = world.worker(&broker);
    worker.pipeline.pause_after = 0;
    let gathered = gather(&mut worker, SampleShare::ALL);
    let effect = Scripted::new(&world, &worker.crash, []);
    worker.each(effect, PARK).await.summary();
    let attempts = gathered.attempts();
    let find = |fate| {
        let mut found = attempts.iter().filter(|it| it.end == End::Fate(fate));
        found.next().expect("an attempt").clone()
    };
    assert_eq!(attempts.len(), 4, "{attempts:?}");
    let replay = find(Fate::Replayed);
    assert_eq!(replay.decision, Some("replay"));
    assert_eq!(replay.duplicate, Some(Duplicate::Republish));
    assert!(replay.claim.is_some() && replay.effect.is_none() && replay.settle.is_none());
    assert!(!replay.is_always_kept);
    let conflict = find(Fate::Conflict);
    assert_eq!(conflict.decision, Some("conflict"));
    assert!(conflict.is_always_kept && conflict.effect.is_none());
    let unusable = find(Fate::Quarantined);
    assert_eq!((unusable.key.clone(), unusable.claim), (None, None));
    assert!(unusable.is_always_kept && unusable.error.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_lost_claim_and_its_takeover_are_always_kept() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let copy = broker.copy();
    let (mut zombie, mut second) = (world.worker(&broker), world.worker(&copy));
    let lost = gather(&mut zombie, SampleShare::NONE);
    let taken = gather(&mut second, SampleShare::NONE);
    zombie
        .plan
        .nth(Method::Renew, 1, Fault::DelayBefore(LEASE * 2));
    let never = Act::Slow(LEASE * 100, Duration::ZERO);
    let never = Scripted::always(&world, &zombie.crash, never);
    let effect = Scripted::new(&world, &second.crash, []);
    let (zombie, second) = tokio::join!(zombie.each(never, KEYED), async {
        tokio::time::sleep(LEASE + SECOND).await;
        second.each(effect, KEYED).await
    });
    assert_eq!(
        (zombie.summary().fenced, second.summary().takeovers),
        (1, 1)
    );
    let takeover = taken.only();
    assert!(takeover.takeover && takeover.is_always_kept);
    assert_eq!(takeover.number, Some(2));
    assert_eq!(takeover.end, End::Fate(Fate::Applied));
    let lost = lost.attempts();
    assert_eq!(lost.len(), 2, "{lost:?}");
    assert!(lost[0].end == End::Fenced && lost[0].is_always_kept);
    assert_eq!(lost[1].end, End::Fate(Fate::Replayed));
    assert!(lost[1].is_always_kept, "it may tell of another outcome");
}

#[tokio::test(start_paused = true)]
async fn a_doubt_and_a_dead_end_are_always_kept() {
    for (verdict, fate, name) in [
        (maybe_applied(), Fate::InDoubt, "maybe_applied"),
        (
            Verdict::Dead {
                error: "declined".into(),
                decisive: true,
            },
            Fate::Dead,
            "failed",
        ),
    ] {
        let world = World::new();
        let mut worker = traced(&world, &["a"], PARENT);
        let gathered = gather(&mut worker, SampleShare::NONE);
        let effect = Scripted::new(&world, &worker.crash, [Act::Say(verdict)]);
        worker.each(effect, PARK).await.summary();
        let attempt = gathered.only();
        assert_eq!(attempt.end, End::Fate(fate));
        assert_eq!(attempt.verdict, Some(name));
        assert!(attempt.is_always_kept && attempt.error.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_the_store_is_in_the_claim_or_in_the_report() {
    for (method, is_claim) in [(Method::Claim, true), (Method::Settle, false)] {
        for manner in Manner::ALL {
            let world = World::new();
            let mut worker = traced(&world, &["a"], PARENT);
            worker.plan.nth(method, 1, Fault::DelayBefore(SECOND * 3));
            let gathered = gather(&mut worker, SampleShare::ALL);
            let effect = Scripted::new(&world, &worker.crash, []);
            worker.by(manner, effect, PARK).await.summary();
            let attempt = gathered.only();
            let (claim, settle) = (attempt.claim, attempt.settle);
            let [claim, settle] = [claim, settle].map(|it| it.expect("a span").took);
            let (slow, quick) = if is_claim {
                (claim, settle)
            } else {
                (settle, claim)
            };
            assert!(slow >= SECOND * 3 && quick < SECOND, "{attempt:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_busy_is_one_attempt() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let copy = broker.copy();
    let (first, mut second) = (world.worker(&broker), world.worker(&copy));
    let gathered = gather(&mut second, SampleShare::ALL);
    let long = Scripted::always(&world, &first.crash, Act::Slow(SECOND * 5, SECOND));
    let effect = Scripted::new(&world, &second.crash, []);
    let _ = tokio::join!(first.each(long, PARK), async {
        tokio::time::sleep(SECOND).await;
        second.each(effect, PARK).await
    });
    let attempt = gathered.only();
    assert!(attempt.asked > 2, "{attempt:?}");
    assert_eq!(attempt.decision, Some("replay"));
    assert!(attempt.claim.expect("a span").took < SECOND, "the last one");
}

#[tokio::test(start_paused = true)]
async fn without_a_claim_an_effect_has_its_span_too() {
    for manner in Manner::ALL {
        let world = World::new();
        let mut worker = traced(&world, &["a"], PARENT);
        worker.outage.fail = Fail::Open;
        worker.plan.away(Duration::ZERO, SECOND * 60, Fault::Full);
        let gathered = gather(&mut worker, SampleShare::NONE);
        let effect = Scripted::new(&world, &worker.crash, []);
        worker.by(manner, effect, REPEAT).await.summary();
        let attempt = gathered.only();
        assert_eq!(attempt.decision, Some("unprotected"), "{manner:?}");
        assert_eq!(attempt.end, End::Fate(Fate::Unprotected));
        assert!(attempt.is_always_kept && attempt.settle.is_none());
        assert!(attempt.effect.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_and_a_transaction_have_spans() {
    let world = World::new();
    let mut worker = traced(&world, &["a"], PARENT);
    let gathered = gather(&mut worker, SampleShare::ALL);
    let output = MemoryFile {
        name: "out",
        disk: Disk::default(),
        crash: worker.crash.clone(),
        acts: [].into(),
    };
    worker.output(output).await.summary();
    let attempt = gathered.only();
    assert!(attempt.claim.is_some() && attempt.effect.is_some() && attempt.settle.is_some());
    assert_eq!(attempt.end, End::Fate(Fate::Applied));

    let world = World::new();
    let mut worker = traced(&world, &["a", "a"], PARENT);
    let gathered = gather(&mut worker, SampleShare::ALL);
    worker.transaction().await.summary();
    let attempts = gathered.attempts();
    let [applied, replayed] = &attempts[..] else {
        panic!("{attempts:?}")
    };
    // Claim, effect and record are one commit.
    assert!(applied.claim.is_none() && applied.effect.is_some() && applied.settle.is_none());
    assert_eq!(applied.verdict, Some("applied"));
    assert!(replayed.claim.is_some() && replayed.effect.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_takeover_in_a_transaction_is_always_kept() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let copy = broker.copy();
    let (zombie, mut second) = (world.worker(&broker), world.worker(&copy));
    let taken = gather(&mut second, SampleShare::NONE);
    zombie
        .plan
        .nth(Method::Renew, 1, Fault::DelayBefore(LEASE * 2));
    let never = Act::Slow(LEASE * 100, Duration::ZERO);
    let never = Scripted::always(&world, &zombie.crash, never);
    let (_, second) = tokio::join!(zombie.each(never, KEYED), async {
        tokio::time::sleep(LEASE + SECOND).await;
        second.transaction().await
    });
    assert_eq!(second.summary().takeovers, 1);
    let takeover = taken.only();
    assert!(takeover.takeover && takeover.is_always_kept);
    assert_eq!(takeover.decision, Some("granted"));
    assert_eq!(takeover.end, End::Fate(Fate::Applied));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_the_store_failed_for_is_kept() {
    for manner in Manner::ALL {
        let world = World::new();
        let mut worker = traced(&world, &["a"], PARENT);
        let throttled = Fault::ThrottledItems(SECOND * 5);
        worker.plan.nth(Method::Claim, 1, throttled);
        let gathered = gather(&mut worker, SampleShare::NONE);
        let effect = Scripted::new(&world, &worker.crash, []);
        worker.by(manner, effect, PARK).await.summary();
        let attempt = gathered.only();
        assert_eq!((attempt.end, attempt.asked), (End::Fate(Fate::Applied), 2));
        assert!(attempt.is_always_kept, "{manner:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_that_the_store_failed_for_is_kept() {
    for manner in Manner::ALL {
        for fault in [Fault::Items, Fault::ThrottledItems(SECOND * 5)] {
            let world = World::new();
            let mut worker = traced(&world, &["a"], PARENT);
            worker.plan.nth(Method::Settle, 1, fault);
            // It is reported alone then, which fails too.
            worker.plan.nth(Method::Settle, 2, Fault::Throttled(SECOND));
            let gathered = gather(&mut worker, SampleShare::NONE);
            let effect = Scripted::new(&world, &worker.crash, []);
            worker.by(manner, effect, PARK).await.summary();
            assert_eq!(world.sink.applied("a"), 1, "{manner:?} {fault:?}");
            let attempt = gathered.only();
            assert_eq!((attempt.end, attempt.asked), (End::Fate(Fate::Applied), 1));
            assert_eq!(attempt.verdict, Some("applied"));
            let settle = attempt.settle.expect("a span");
            assert!(settle.took >= SECOND, "{manner:?} {fault:?}: {attempt:?}");
            assert!(attempt.is_always_kept, "{manner:?} {fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_tried_once_more_has_a_span_for_each_pass() {
    let world = World::new();
    let keys = [
        "1", "2", "3", "4", "5", "6", "7", "8", "b", "10", "11", "12",
    ];
    let mut worker = traced(&world, &keys, PARENT);
    (worker.pipeline.batch, worker.pipeline.concurrency) = (3, 1);
    // Once the database has proven itself, more messages are tried than may fail before the pipeline pauses: the first
    // pass gives back those that fail.
    worker.pipeline.pause_after = 2;
    world.tables.script([Statement::Work; 8]);
    world.tables.script([Statement::Refuse; 2]);
    let gathered = gather(&mut worker, SampleShare::NONE);
    let summary = worker.transaction().await.summary();
    assert_eq!((summary.of(Fate::Applied), summary.of(Fate::Dead)), (11, 1));
    let mut attempts = gathered.attempts();
    attempts.retain(|it| it.key.as_deref() == Some("b"));
    let [first, second] = &attempts[..] else {
        panic!("{attempts:?}")
    };
    assert_eq!(
        (first.end, second.end),
        (End::Released, End::Fate(Fate::Dead))
    );
    let parent = TraceContext::parse(PARENT.as_bytes());
    for attempt in [first, second] {
        assert_eq!(attempt.decision, Some("granted"));
        assert_eq!(attempt.verdict, Some("not_applied"));
        let reason = attempt.error.as_deref();
        assert_eq!(reason, Some("a row violates a constraint"));
        assert!(attempt.effect.is_some() && attempt.is_always_kept);
        assert_eq!(attempt.parent, parent);
    }
    assert_ne!(first.process.context, second.process.context);
    assert!(second.process.began >= ends(first.process));
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_told_the_span_of_its_attempt_which_is_kept() {
    for (probe, fate) in [
        (Probe::Applied(Bytes::from_static(b"found")), Fate::Replayed),
        (Probe::Unknown, Fate::InDoubt),
    ] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let dies = world.worker(&broker);
        let effect = Scripted::new(&world, &dies.crash, [Act::DieApplied]);
        dies.each(effect, PARK).await;
        tokio::time::sleep(LEASE + SECOND).await;
        let mut worker = world.worker(&broker);
        let gathered = gather(&mut worker, SampleShare::NONE);
        let probed = Arc::new(Probed {
            probe,
            told: Mutex::default(),
        });
        worker.effect(Arc::clone(&probed), PARK).await.summary();
        let attempt = gathered.only();
        assert_eq!(attempt.end, End::Fate(fate), "{attempt:?}");
        // The probe is no call of the effect.
        assert!(attempt.effect.is_none() && attempt.claim.is_some());
        assert!(attempt.is_always_kept, "it told of a doubt");
        let told = probed.told.lock().expect("no panic").take();
        let told = told.expect("a trace").parent;
        assert_eq!(told, attempt.process.context.to_string());
        let asked = if fate == Fate::Replayed { 2 } else { 1 };
        assert_eq!(attempt.asked, asked);
    }
}

/// Answers a probe, and remembers the trace that it is told.
struct Probed {
    probe: Probe,
    told: Mutex<Option<TraceHeaders>>,
}

impl Effect for Probed {
    async fn call(&self, _call: Call) -> Verdict {
        unreachable!("nobody calls what is in doubt")
    }

    async fn probe(&self, call: &Call) -> Probe {
        *self.told.lock().expect("no panic") = call.trace();
        self.probe.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_store_that_is_away_at_the_end_of_a_run_is_given_back() {
    for manner in Manner::ALL {
        let world = World::new();
        let mut worker = traced(&world, &["a", "b", "c", "d"], PARENT);
        worker.outage.fail = Fail::Open;
        // They may have been claimed, so that they wait for the store.
        let away = Fault::LoseAnswer;
        worker.plan.away(Duration::ZERO, SECOND * 3_600, away);
        let gathered = gather(&mut worker, SampleShare::ALL);
        let stop = worker.stop.clone();
        let effect = Scripted::new(&world, &worker.crash, []);
        let (run, ()) = tokio::join!(worker.by(manner, effect, REPEAT), stop.after(SECOND * 30));
        assert_eq!(run.summary().of(Fate::Released), 4, "{manner:?}");
        let attempts = gathered.attempts();
        assert_eq!(attempts.len(), 4, "{manner:?}: {attempts:?}");
        for attempt in attempts {
            assert_eq!(attempt.end, End::GivenBack, "{manner:?}");
            assert!(attempt.effect.is_none() && attempt.verdict.is_none());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_seed_plays_the_same_trace_again() {
    let mut played = Vec::new();
    for _ in 0..2 {
        let world = World::new();
        let broker = broker_with(&world, &["a", "b", "a"]);
        let mut worker = world.worker(&broker);
        let gathered = gather(&mut worker, SampleShare::ALL);
        let effect = Scripted::new(&world, &worker.crash, [Act::Say(not_applied())]);
        worker.each(effect, PARK).await.summary();
        played.push(format!("{:?}", gathered.attempts()));
    }
    assert_eq!(played[0], played[1]);
}

#[tokio::test(start_paused = true)]
async fn what_is_in_hand_when_a_run_ends_with_an_error_has_its_spans() {
    for method in [Method::Claim, Method::Settle] {
        for manner in Manner::ALL {
            let world = World::new();
            let mut worker = traced(&world, &["a", "b"], PARENT);
            worker.plan.nth(method, 1, Fault::Poisoned);
            let gathered = gather(&mut worker, SampleShare::NONE);
            let effect = Scripted::new(&world, &worker.crash, []);
            worker.by(manner, effect, PARK).await.error();
            let attempts = gathered.attempts();
            let ended: Vec<_> = attempts.iter().map(|it| (it.end, it.verdict)).collect();
            let verdict = (method == Method::Settle).then_some("applied");
            // One that was not begun may have had no attempt.
            assert!(!ended.is_empty(), "{method:?} {manner:?}");
            let given_back = ended.iter().filter(|it| **it == (End::GivenBack, verdict));
            assert!(
                given_back.count() > 0,
                "{method:?} {manner:?}: {attempts:?}"
            );
            for attempt in &attempts {
                assert_eq!(attempt.is_always_kept, attempt.verdict.is_some());
                assert_eq!(attempt.effect.is_some(), attempt.verdict.is_some());
            }
            let mut ids: Vec<_> = attempts.iter().map(|it| it.process.context).collect();
            ids.sort_by_key(|it| format!("{it:?}"));
            ids.dedup();
            assert_eq!(ids.len(), attempts.len(), "each once: {attempts:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_runs_when_a_run_ends_with_an_error_is_kept() {
    let world = World::new();
    let mut worker = traced(
        &world,
        &["a", "b"],
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
    );
    worker.plan.nth(Method::Settle, 1, Fault::Poisoned);
    let gathered = gather(&mut worker, SampleShare::NONE);
    let slow = Act::Slow(SECOND * 20, SECOND);
    let effect = Scripted::new(&world, &worker.crash, [slow]);
    worker.each(effect, PARK).await.error();
    let mut verdicts: Vec<_> = gathered.attempts().iter().map(|it| it.verdict).collect();
    verdicts.sort_unstable();
    assert_eq!(verdicts, [Some("applied"), Some("maybe_applied")]);
    for attempt in gathered.attempts() {
        assert_eq!(attempt.end, End::GivenBack);
        assert!(attempt.is_always_kept && !attempt.process.context.flags.is_sampled());
    }
}
