//! Traces: whoever wants spans gets those of each attempt of a call, and its effect is told its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::decide::{Directive, Order};
use semel_core::{Clock, Entropy, Store, Timestamp, TraceContext};
use semel_engine::effect::{Class, OnDoubt, TraceHeaders};
use semel_engine::event::{Observer, Unobserved};
use semel_engine::once::{Failure, Happened, Once, Op, Settings};
use semel_engine::summary::Fate;
use semel_engine::surroundings::Surroundings;
use semel_engine::trace::{End, ProcessKind, SampleShare, Span};
use tokio::time::{sleep, timeout};

use super::{Site, declared, process, process_watched, secs};
use crate::spans::{Attempt, Gathered};
use crate::world::fault::{Fault, Method, Plan};
use crate::world::time::{Chance, PausedClock};
use crate::world::{LEASE, World};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn came_with(parent: &str) -> TraceHeaders {
    TraceHeaders {
        parent: parent.into(),
        state: Some("vendor=1".into()),
    }
}

fn parent() -> TraceContext {
    TraceContext::parse(PARENT.as_bytes()).expect("a trace")
}

/// A process whose spans are gathered, of which `share` is sampled.
fn traced(world: &World, share: SampleShare) -> (Site, Arc<Plan>, Gathered) {
    let gathered = Gathered::new(share);
    let (site, plan) = process_watched(world, None, Arc::new(gathered.clone()));
    (site, plan, gathered)
}

fn ends(span: Span) -> Duration {
    span.began + span.took
}

/// Checks that claim, effect and report follow on one another within their attempt, each with an id of its own.
#[track_caller]
fn children(attempt: &Attempt) -> [Span; 3] {
    let children = [attempt.claim, attempt.effect, attempt.settle];
    let children = children.map(|it| it.expect("a span"));
    let process = attempt.process;
    let mut ids = vec![process.context.span_id];
    let mut before = process.began;
    for child in children {
        assert_eq!(child.context.trace_id, process.context.trace_id);
        assert!(!ids.contains(&child.context.span_id), "{attempt:?}");
        ids.push(child.context.span_id);
        assert!(child.began >= before, "{attempt:?}");
        before = ends(child);
    }
    assert!(ends(process) >= before, "{attempt:?}");
    children
}

#[tokio::test(start_paused = true)]
async fn the_spans_of_a_call_fit_into_each_other_and_its_effect_is_told_its_own() {
    for is_here in [false, true] {
        let world = World::new();
        let (site, _, gathered) = traced(&world, SampleShare::NONE);
        let call = declared(&site)
            .unkeyed(OnDoubt::Repeat)
            .trace(came_with(PARENT));
        let told = Arc::new(Mutex::new(None));
        let hears = Arc::clone(&told);
        let effect = async move |op: Op| {
            *hears.lock().expect("no panic") = op.trace();
            sleep(secs(1)).await;
            Ok::<_, Failure>(7_u64)
        };
        let receipt = if is_here {
            call.once_here("a", effect).await
        } else {
            call.once("a", effect).await
        };
        assert!(receipt.is_ok());

        let attempt = gathered.only();
        assert_eq!(attempt.kind, ProcessKind::Internal);
        assert_eq!(attempt.class, Some(Class::Unkeyed(OnDoubt::Repeat)));
        assert_eq!(attempt.parent, Some(parent()));
        assert_eq!(attempt.state.as_deref(), Some("vendor=1"));
        assert_eq!(attempt.process.context.trace_id, parent().trace_id);
        assert_ne!(attempt.process.context.span_id, parent().span_id);
        // The mark of the caller decides, whatever the share is.
        assert!(attempt.process.context.flags.is_sampled());
        let [claim, effect, settle] = children(&attempt);
        assert!(effect.took >= secs(1), "{attempt:?}");
        assert!(claim.took < secs(1) && settle.took < secs(1));
        assert_eq!(attempt.key.as_deref(), Some("a"));
        assert_eq!(attempt.decision, Some("granted"));
        assert_eq!((attempt.number, attempt.asked), (Some(1), 1));
        assert_eq!(attempt.verdict, Some("applied"));
        assert_eq!(attempt.end, End::Fate(Fate::Applied));
        assert!(!attempt.is_always_kept && !attempt.takeover);
        assert_eq!(attempt.error, None);
        let span = came_with(&effect.context.to_string());
        assert_eq!(told.lock().expect("no panic").take(), Some(span));
        let process = attempt.process.context;
        assert!(!gathered.named().is_empty());
        assert!(gathered.named().iter().all(|it| *it == process));
    }
}

#[tokio::test(start_paused = true)]
async fn while_nobody_wants_spans_a_trace_goes_on_as_it_came() {
    let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more";
    for (parent, is_one) in [(PARENT, true), (later, true), ("00-ab-cd-01", false)] {
        let world = World::new();
        let (site, _) = process(&world);
        let call = declared(&site).trace(came_with(parent));
        let expected = is_one.then(|| came_with(parent));
        let called = call.once("a", async move |op| {
            assert_eq!(op.trace(), expected);
            Ok(())
        });
        assert!(called.await.is_ok());
    }
    let world = World::new();
    let (site, _) = process(&world);
    let called = declared(&site).once("a", async |op| {
        assert_eq!(op.trace(), None);
        Ok(())
    });
    assert!(called.await.is_ok());
    // A handler's trace, which it may not have, is taken as it is.
    let none: Option<TraceHeaders> = None;
    let call = declared(&site).trace(came_with(PARENT)).trace(none);
    let called = call.once("b", async |op| {
        assert_eq!(op.trace(), None);
        Ok(())
    });
    assert!(called.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn where_a_call_has_no_trace_one_begins_and_the_share_marks_it() {
    for (share, is_sampled) in [(SampleShare::ALL, true), (SampleShare::NONE, false)] {
        let world = World::new();
        let (site, _, gathered) = traced(&world, share);
        let mut traces = Vec::new();
        for key in ["a", "b"] {
            let called = declared(&site).once(key, async |op| {
                let told = op.trace().expect("one begins").parent;
                Ok(told.to_string())
            });
            let told = called.await.expect("done").into_value();
            traces.extend(TraceContext::parse(told.as_bytes()));
        }
        let [a, b]: [TraceContext; 2] = traces.try_into().expect("one for each");
        gathered.are_begun_here([a, b], is_sampled);
    }
}

#[tokio::test(start_paused = true)]
async fn each_item_of_a_batch_has_spans_of_its_own_in_the_trace_of_the_call() {
    for is_whole in [false, true] {
        let world = World::new();
        let (site, _, gathered) = traced(&world, SampleShare::ALL);
        let call = declared(&site).trace(came_with(PARENT));
        let told = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&told);
        let hear = move |op: &Op| hears.lock().expect("no panic").push(op.trace());
        let items = [("a", 1_u64), ("b", 2), ("c", 3), ("a", 4)];
        let results = if is_whole {
            let whole = call.batch(items).whole(move |granted| {
                for it in &granted {
                    hear(&it.op);
                }
                async move { granted.into_iter().map(|it| Ok(it.item)).collect() }
            });
            whole.await
        } else {
            let each = call.once_batch(items, move |op, item| {
                hear(&op);
                async move { Ok(item) }
            });
            each.await
        };
        assert!(results.iter().all(Result::is_ok), "{results:?}");

        let attempts = gathered.attempts();
        let (ran, again): (Vec<_>, Vec<_>) = attempts.iter().partition(|it| it.effect.is_some());
        assert_eq!((ran.len(), again.len()), (3, 1), "{attempts:?}");
        let spans = ran.iter().map(|attempt| {
            let [_, effect, _] = children(attempt);
            assert_eq!(attempt.end, End::Fate(Fate::Applied));
            Some(came_with(&effect.context.to_string()))
        });
        let spans: Vec<_> = spans.collect();
        let told = told.lock().expect("no panic").clone();
        assert_eq!(told.len(), 3);
        assert!(told.iter().all(|it| spans.contains(it)), "{told:?}");
        let mut ids: Vec<_> = attempts.iter().map(|it| it.process.context).collect();
        ids.sort_by_key(|it| it.span_id);
        ids.dedup();
        assert_eq!(ids.len(), 4);
        assert!(ids.iter().all(|it| it.trace_id == parent().trace_id));
        // While its key ran, the second one was busy.
        let again = again[0];
        assert_eq!((again.asked, again.decision), (2, Some("replay")));
        assert_eq!(again.end, End::Fate(Fate::Replayed));
        assert!(again.settle.is_none() && !again.is_always_kept);
    }
}

/// The end of each attempt, with its decision and its verdict, and whether it is kept whatever the sampling says.
type Ended = (End, Option<&'static str>, Option<&'static str>, bool);

fn ended(attempt: &Attempt) -> Ended {
    let Attempt {
        end,
        decision,
        verdict,
        is_always_kept,
        ..
    } = attempt;
    (*end, *decision, *verdict, *is_always_kept)
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_fails_is_kept_with_its_reason() {
    let released = End::Released;
    let failures = [
        (Failure::not_applied("429"), released, "not_applied", "429"),
        (
            Failure::away("no route"),
            released,
            "not_applied",
            "no route",
        ),
        (
            Failure::dead("declined"),
            End::Fate(Fate::Dead),
            "failed",
            "declined",
        ),
        (
            Failure::maybe_applied("no\nanswer"),
            End::Fate(Fate::InDoubt),
            "maybe_applied",
            "no answer",
        ),
    ];
    for (failure, end, verdict, reason) in failures {
        let world = World::new();
        let (site, _, gathered) = traced(&world, SampleShare::NONE);
        let call = declared(&site).once("a", async move |_| Err::<(), _>(failure));
        assert!(call.await.is_err());
        let attempt = gathered.only();
        assert_eq!(ended(&attempt), (end, Some("granted"), Some(verdict), true));
        assert_eq!(attempt.error.as_deref(), Some(reason));
        children(&attempt);
    }
    // Out of time, and out of its senses.
    for key in ["late", "panics"] {
        let world = World::new();
        let (site, _, gathered) = traced(&world, SampleShare::NONE);
        let call = declared(&site).timeout(secs(2));
        let call = call.once(key, async move |_| {
            assert_ne!(key, "panics");
            sleep(secs(60)).await;
            Ok(())
        });
        assert!(call.await.is_err());
        let attempt = gathered.only();
        let doubt = End::Fate(Fate::InDoubt);
        let expected = (doubt, Some("granted"), Some("maybe_applied"), true);
        assert_eq!(ended(&attempt), expected);
        assert!(children(&attempt)[1].took <= secs(2));
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_of_a_call_that_is_retried_has_a_span_of_its_own_without_the_wait_between() {
    let world = World::new();
    let (site, _, gathered) = traced(&world, SampleShare::NONE);
    let call = declared(&site).trace(came_with(PARENT));
    let called = call.once_retrying("a", async |op| match op.attempt() {
        1 => Err(Failure::not_applied("429").retry_after(secs(90))),
        _ => Ok(()),
    });
    assert!(called.await.is_ok());
    let attempts = gathered.attempts();
    let (first, last) = (&attempts[0], &attempts[attempts.len() - 1]);
    assert_eq!(first.end, End::Released);
    assert_eq!(last.end, End::Fate(Fate::Applied));
    assert_eq!((first.number, last.number), (Some(1), Some(2)));
    assert!(first.is_always_kept && !last.is_always_kept);
    assert_eq!(
        (first.parent, last.parent),
        (Some(parent()), Some(parent()))
    );
    assert_ne!(first.process.context, last.process.context);
    assert!(last.process.began >= ends(first.process) + secs(90));
}

#[tokio::test(start_paused = true)]
async fn whatever_does_not_run_has_spans_without_an_effect() {
    let world = World::new();
    let (site, _, gathered) = traced(&world, SampleShare::ALL);
    let call = || declared(&site).request_bytes(b"{\"cents\":1}");
    let works = async |_: Op| Ok(());
    assert!(call().version("entity", 7).once("a", works).await.is_ok());
    assert!(call().once("a", works).await.is_ok());
    let other = call().request_bytes(b"{\"cents\":2}");
    assert!(other.once("a", works).await.is_err());
    let stale = call().version("entity", 6);
    assert!(stale.once("b", works).await.is_err());
    let old = call().birth(Timestamp::EPOCH);
    assert!(old.once("c", works).await.is_err());
    let refused = async |_: Op| Err::<(), _>(Failure::dead("declined"));
    assert!(call().once("d", refused).await.is_err());
    assert!(call().once("d", works).await.is_err());

    let attempts = gathered.attempts();
    let fates: Vec<_> = attempts.iter().map(ended).collect();
    let fate = |fate, decision, is_kept| (End::Fate(fate), Some(decision), None, is_kept);
    let expected = [
        (
            End::Fate(Fate::Applied),
            Some("granted"),
            Some("applied"),
            false,
        ),
        fate(Fate::Replayed, "replay", false),
        fate(Fate::Conflict, "conflict", true),
        fate(Fate::Stale, "stale", false),
        fate(Fate::TooOld, "too_old", true),
        (End::Fate(Fate::Dead), Some("granted"), Some("failed"), true),
        fate(Fate::Dead, "parked", true),
    ];
    assert_eq!(fates, expected);
    for attempt in attempts.iter().filter(|it| it.verdict.is_none()) {
        assert!(attempt.claim.is_some() && attempt.effect.is_none());
        assert!(attempt.settle.is_none());
    }
    assert!(attempts[1].duplicate.is_some() && attempts[2].duplicate.is_some());
    assert_eq!(attempts[6].error.as_deref(), Some("declined"));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_another_is_one_attempt() {
    let world = World::new();
    let (site, _) = process(&world);
    let (other, _, gathered) = traced(&world, SampleShare::ALL);
    let slow = declared(&site).once("a", async |_| {
        sleep(secs(10)).await;
        Ok(())
    });
    let waiting = async {
        sleep(secs(1)).await;
        let busy = declared(&other).once("a", async |_| Ok(())).await;
        assert!(busy.is_err(), "it waited for five seconds");
        let patient = declared(&other).wait(secs(60));
        patient.once("a", async |_| Ok(())).await
    };
    let (slow, replay) = tokio::join!(slow, waiting);
    assert!(slow.is_ok() && replay.is_ok_and(|it| it.is_replay()));
    let attempts = gathered.attempts();
    let [busy, replay] = &attempts[..] else {
        panic!("{attempts:?}")
    };
    assert_eq!(ended(busy), (End::Gone, Some("busy"), None, false));
    assert_eq!(replay.end, End::Fate(Fate::Replayed));
    for attempt in [busy, replay] {
        assert!(attempt.asked > 2, "{attempt:?}");
        assert!(attempt.claim.expect("a span").took < secs(1), "the last");
    }
    assert!(busy.process.took >= secs(5));
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_never_begun_is_given_back() {
    let world = World::new();
    let (site, plan, gathered) = traced(&world, SampleShare::ALL);
    plan.nth(Method::Claim, 1, Fault::DelayBefore(secs(2)));
    let call = declared(&site).once("a", async |_| Ok(()));
    assert!(timeout(secs(1), call).await.is_err(), "the caller goes");
    site.close().await;
    let attempt = gathered.only();
    assert_eq!(
        ended(&attempt),
        (End::GivenBack, Some("granted"), None, false)
    );
    assert!(attempt.settle.is_some() && attempt.effect.is_none());

    // A caller who goes away while another one runs the key leaves an attempt, too.
    let world = World::new();
    let (other, _) = process(&world);
    let (site, _, gathered) = traced(&world, SampleShare::ALL);
    let slow = declared(&other).once("a", async |_| {
        sleep(secs(10)).await;
        Ok(())
    });
    let leaving = async {
        sleep(secs(1)).await;
        let call = declared(&site).wait(secs(60));
        let call = call.once("a", async |_| Ok(()));
        assert!(timeout(secs(2), call).await.is_err());
        sleep(secs(1)).await;
    };
    let (slow, ()) = tokio::join!(slow, leaving);
    assert!(slow.is_ok());
    let attempt = gathered.only();
    assert_eq!(ended(&attempt), (End::GivenBack, Some("busy"), None, false));
}

async fn release(world: &World, key: &str) {
    let directive = Directive {
        operation: world.operation(key),
        order: Order::Release,
        note: None,
    };
    let released = world.store.operate([directive].into()).await;
    assert!(released.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lost_claim_and_its_takeover_are_always_kept() {
    // The effect is broken off, or ends before the loss is noticed.
    for takes in [LEASE * 10, secs(5)] {
        let world = World::new();
        let (site, _, lost) = traced(&world, SampleShare::NONE);
        let (other, _, taken) = traced(&world, SampleShare::NONE);
        let call = |site| declared(site).unkeyed(OnDoubt::Repeat).timeout(None);
        let zombie = call(&site);
        let zombie = zombie.once("a", async move |_| {
            sleep(takes).await;
            Ok(1_u64)
        });
        let taking = async {
            sleep(secs(1)).await;
            release(&world, "a").await;
            call(&other).once("a", async |_| Ok(2_u64)).await
        };
        let (zombie, second) = tokio::join!(zombie, taking);
        assert!(zombie.is_err() && second.is_ok());
        let lost = lost.only();
        assert_eq!(lost.end, End::Fenced);
        assert!(lost.is_always_kept && lost.effect.is_some());
        let taken = taken.only();
        assert!(taken.takeover && taken.is_always_kept);
        assert_eq!(taken.number, Some(2));
        assert_eq!(taken.end, End::Fate(Fate::Applied));
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_lost_before_its_effect_began_is_an_attempt_of_its_own() {
    let world = World::new();
    let (site, plan, gathered) = traced(&world, SampleShare::NONE);
    let (other, _) = process(&world);
    plan.nth(Method::Claim, 1, Fault::DelayAfter(LEASE + secs(20)));
    let call = |site| {
        let call = declared(site).unkeyed(OnDoubt::Repeat);
        call.patience(LEASE * 10)
    };
    let taking = async {
        sleep(LEASE + secs(1)).await;
        call(&other).once("a", async |_| Ok(())).await
    };
    let (one, two) = tokio::join!(call(&site).once("a", async |_| Ok(())), taking);
    assert!(two.is_ok() && one.is_ok_and(|it| it.is_replay()));
    let attempts = gathered.attempts();
    let [fenced, replay] = &attempts[..] else {
        panic!("{attempts:?}")
    };
    assert_eq!(ended(fenced), (End::Fenced, Some("granted"), None, true));
    let replayed = (End::Fate(Fate::Replayed), Some("replay"), None, true);
    assert_eq!(ended(replay), replayed);
    assert!(replay.follows_fence && !fenced.follows_fence);
    assert!(replay.process.began >= ends(fenced.process));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_for_which_the_store_failed_is_kept() {
    for method in [Method::Claim, Method::Settle] {
        let world = World::new();
        let (site, plan, gathered) = traced(&world, SampleShare::ALL);
        plan.nth(method, 1, Fault::SomeItems);
        let items = [("a", ()), ("b", ())];
        let results = declared(&site).once_batch(items, async |_, ()| Ok(()));
        assert!(results.await.iter().all(Result::is_ok), "{method:?}");
        let attempts = gathered.attempts();
        assert_eq!(attempts.len(), 2);
        let kept = attempts.iter().filter(|it| it.is_always_kept);
        assert_eq!(kept.count(), 1, "{method:?}: {attempts:?}");
        let applied = End::Fate(Fate::Applied);
        assert!(attempts.iter().all(|it| it.end == applied));

        let world = World::new();
        let (site, plan, gathered) = traced(&world, SampleShare::NONE);
        plan.nth(method, 1, Fault::Items);
        assert!(declared(&site).once("a", async |_| Ok(())).await.is_ok());
        let attempt = gathered.only();
        assert_eq!(attempt.end, applied);
        assert!(attempt.is_always_kept, "{method:?}, alone");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_the_end_of_an_attempt() {
    let world = World::new();
    let (site, plan, gathered) = traced(&world, SampleShare::NONE);
    plan.nth(Method::Claim, 1, Fault::Poisoned)
        .nth(Method::Settle, 1, Fault::Poisoned);
    assert!(declared(&site).once("a", async |_| Ok(())).await.is_err());
    assert!(declared(&site).once("b", async |_| Ok(())).await.is_err());
    let attempts = gathered.attempts();
    let [unasked, unrecorded] = &attempts[..] else {
        panic!("{attempts:?}")
    };
    let expected = (End::StoreFailed, Some("failed"), None, true);
    assert_eq!(ended(unasked), expected);
    assert!(unasked.claim.is_some() && unasked.settle.is_none());
    let expected = (End::StoreFailed, Some("granted"), Some("applied"), true);
    assert_eq!(ended(unrecorded), expected);
    for attempt in [unasked, unrecorded] {
        let reason = attempt.error.as_deref();
        assert!(reason.is_some_and(|it| it.contains("a flush failed")));
    }

    // A caller who has waited for long enough is answered, and the attempt goes on to the answer of the store.
    let world = World::new();
    let (site, plan, gathered) = traced(&world, SampleShare::NONE);
    plan.outage(Method::Settle, secs(60), Fault::Cut);
    let unrecorded = declared(&site).once("a", async |_| Ok(())).await;
    assert!(unrecorded.is_err_and(|it| it.happened() == Happened::Yes));
    assert!(gathered.attempts().is_empty());
    sleep(secs(60)).await;
    let attempt = gathered.only();
    let expected = (
        End::Fate(Fate::Applied),
        Some("granted"),
        Some("applied"),
        true,
    );
    assert_eq!(ended(&attempt), expected);
    assert!(children(&attempt)[2].took >= secs(55), "{attempt:?}");

    // A claim that comes after the caller was answered is given back.
    let world = World::new();
    let (site, plan, gathered) = traced(&world, SampleShare::NONE);
    plan.outage(Method::Claim, secs(60), Fault::Cut);
    assert!(declared(&site).once("a", async |_| Ok(())).await.is_err());
    sleep(secs(600)).await;
    assert!(ended(&gathered.only()).3, "it is kept");
}

/// Counts how often the clock was read, and how many bytes of chance were drawn.
struct Counting {
    clock: PausedClock,
    chance: Arc<Chance>,
    counts: Arc<[AtomicUsize; 2]>,
}

impl Clock for Counting {
    fn now(&self) -> Timestamp {
        self.counts[0].fetch_add(1, Ordering::SeqCst);
        self.clock.now()
    }

    fn monotonic(&self) -> Duration {
        self.counts[0].fetch_add(1, Ordering::SeqCst);
        self.clock.monotonic()
    }
}

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        self.counts[1].fetch_add(bytes.len(), Ordering::SeqCst);
        self.chance.fill(bytes);
    }
}

/// Runs a batch with an item that is done, one that fails and a duplicate; returns how often the clock was read, and
/// how many bytes of chance were drawn.
async fn cost(observer: Arc<dyn Observer>) -> [usize; 2] {
    let world = World::new();
    let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let counting = || Counting {
        clock: world.clock,
        chance: Arc::clone(&world.chance),
        counts: Arc::clone(&counts),
    };
    let surroundings = Surroundings {
        clock: Arc::new(counting()),
        claimant: semel_core::Claimant::random(&*world.chance),
        entropy: Arc::new(counting()),
        observer,
    };
    let store = Arc::clone(&world.store);
    let site = Once::with(store, surroundings, Settings::default(), None);
    let items = [("a", true), ("b", false), ("a", true)];
    let call = site.operation("test").trace(came_with(PARENT));
    let results = call.once_batch(items, async |_, is_done| {
        is_done.then_some(()).ok_or_else(|| Failure::dead("no"))
    });
    assert_eq!(results.await.len(), 3);
    [0, 1].map(|it| counts[it].load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn spans_that_nobody_wants_cost_no_look_at_the_clock_and_no_chance() {
    let [looks, drawn] = cost(Arc::new(Unobserved)).await;
    assert_eq!([looks, drawn], UNTRACED);
    let [traced_looks, traced_drawn] = cost(Arc::new(Gathered::new(SampleShare::ALL))).await;
    assert!(traced_looks > looks);
    assert_eq!(traced_drawn, drawn, "the ids of spans follow from claims");
}

/// Fewer looks than before calls had spans.
const UNTRACED: [usize; 2] = [24, 32];
