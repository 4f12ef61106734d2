//! Calls within a caller's own transaction: whoever wants spans gets those of each call. The transaction is played here; the
//! tests of the inboxes have real ones.

use std::sync::Arc;
use std::time::Duration;

use semel_core::{
    Admission, ClaimRequest, Claimant, Error, ErrorKind, Record, Settled, StateKind, Store,
    TraceContext,
};
use semel_engine::effect::{Class, TraceHeaders};
use semel_engine::once::inbox::{Call, Turn, Watch};
use semel_engine::once::{Error as OnceError, Failure, Receipt};
use semel_engine::summary::Fate;
use semel_engine::surroundings::Surroundings;
use semel_engine::trace::{End, ProcessKind, SampleShare};
use tokio::time::sleep;

use super::{declared, process, secs};
use crate::spans::{Attempt, Gathered};
use crate::world::{LEASE, World};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// The same trace, which is not to be recorded.
const UNMARKED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

/// An inbox over the world's store.
struct Inbox {
    store: Arc<semel_core::AnyStore>,
    watch: Watch,
    gathered: Gathered,
    /// The answer to a completion, in place of the store's.
    refusal: Option<Error>,
}

impl Inbox {
    fn new(world: &World, share: SampleShare) -> Self {
        let gathered = Gathered::new(share);
        let watch = Watch::default().within(Surroundings {
            clock: Arc::new(world.clock),
            entropy: world.chance.clone(),
            claimant: Claimant::random(&*world.chance),
            observer: Arc::new(gathered.clone()),
        });
        Self {
            store: Arc::clone(&world.store),
            watch,
            gathered,
            refusal: None,
        }
    }

    fn came_with(&mut self, parent: &str) {
        let trace = TraceHeaders {
            parent: parent.into(),
            state: Some("vendor=1".into()),
        };
        self.watch = self.watch.clone().came_with(Some(trace));
    }

    /// Runs a call as an inbox does; each statement takes a second.
    async fn once(
        &self,
        request: &ClaimRequest,
        effect: impl Future<Output = Result<u64, Failure>>,
    ) -> Result<Receipt<u64>, OnceError> {
        let mut call = Call::of(request).watched(&self.watch);
        let answer = self.step(&mut call, effect).await;
        call.ended(answer)
    }

    async fn step(
        &self,
        call: &mut Call,
        effect: impl Future<Output = Result<u64, Failure>>,
    ) -> Result<Receipt<u64>, OnceError> {
        let asked = call.ask().clone();
        sleep(secs(1)).await;
        let admitted = self.store.claim([asked].into()).await;
        let admitted = admitted.map(|mut it| it.remove(0));
        let claim = match call.turn(admitted)? {
            Turn::Granted(claim) => claim,
            Turn::Replayed(receipt) => return Ok(receipt),
        };
        let (value, outcome, window) = call.run(&claim, effect).await?;
        sleep(secs(1)).await;
        let settled = if let Some(refusal) = &self.refusal {
            Err(refusal.clone())
        } else {
            let completion = claim.completion(outcome.clone(), window);
            let settled = self.store.settle([completion].into()).await;
            settled.map(|mut it| it.remove(0))
        };
        call.receipt(&claim, value, &outcome, settled)
    }
}

fn request(world: &World, key: &str) -> ClaimRequest {
    let (site, _) = process(world);
    declared(&site).claim_request(key).expect("a request")
}

async fn works() -> Result<u64, Failure> {
    sleep(secs(2)).await;
    Ok(7)
}

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

async fn record(world: &World, key: &str) -> Option<Record> {
    let records = world.store.get([world.operation(key)].into()).await;
    records.expect("records").remove(0)
}

#[tokio::test(start_paused = true)]
async fn the_spans_of_a_call_fit_into_each_other_below_that_of_its_request() {
    let world = World::new();
    let mut inbox = Inbox::new(&world, SampleShare::NONE);
    inbox.came_with(PARENT);
    let asked = request(&world, "a");
    let receipt = inbox.once(&asked, works()).await;
    assert!(receipt.is_ok_and(|it| !it.is_replay()));
    let attempt = inbox.gathered.only();
    let parent = TraceContext::parse(PARENT.as_bytes()).expect("a trace");
    assert_eq!(attempt.kind, ProcessKind::Internal);
    assert_eq!(attempt.class, Some(Class::Transactional));
    assert_eq!(attempt.parent, Some(parent));
    assert_eq!(attempt.state.as_deref(), Some("vendor=1"));
    let applied = End::Fate(Fate::Applied);
    let expected = (applied, Some("granted"), Some("applied"), false);
    assert_eq!(ended(&attempt), expected);
    assert_eq!((attempt.number, attempt.asked), (Some(1), 1));
    assert_eq!(attempt.key.as_deref(), Some("a"));
    // The mark of the request decides, whatever the share is.
    assert!(attempt.process.context.flags.is_sampled());
    let children = [attempt.claim, attempt.effect, attempt.settle];
    let children = children.map(|it| it.expect("a span"));
    assert_eq!(children.map(|it| it.took), [secs(1), secs(2), secs(1)]);
    let mut ids = vec![parent.span_id, attempt.process.context.span_id];
    let mut before = attempt.process.began;
    for child in children {
        assert_eq!(child.context.trace_id, parent.trace_id);
        assert!(!ids.contains(&child.context.span_id), "{attempt:?}");
        ids.push(child.context.span_id);
        assert!(child.began >= before, "{attempt:?}");
        before = child.began + child.took;
    }
    assert!(attempt.process.began + attempt.process.took >= before);
    // It is on record, which the transaction alone could still take back.
    let state = record(&world, "a").await.map(|it| it.state.kind());
    assert_eq!(state, Some(StateKind::Completed));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_asked_for_again_has_spans_of_its_own() {
    let world = World::new();
    let inbox = Inbox::new(&world, SampleShare::ALL);
    let asked = request(&world, "a");
    for _ in 0..2 {
        assert!(inbox.once(&asked, works()).await.is_ok());
    }
    let attempts = inbox.gathered.attempts();
    let [first, again] = &attempts[..] else {
        panic!("{attempts:?}")
    };
    let traces = [first, again].map(|it| it.process.context.trace_id.to_string());
    assert_eq!(traces[0], asked.claim_id.to_string());
    assert_eq!(traces[0], traces[1], "the id of the claim");
    assert_ne!(first.process.context.span_id, again.process.context.span_id);
    let replayed = (End::Fate(Fate::Replayed), Some("replay"), None, false);
    assert_eq!(ended(again), replayed);
    assert!(again.effect.is_none() && again.settle.is_none());
    assert!(again.duplicate.is_some() && again.parent.is_none());
}

#[tokio::test(start_paused = true)]
async fn where_a_call_has_no_trace_the_share_marks_it() {
    for (share, count) in [(SampleShare::ALL, 1), (SampleShare::NONE, 0)] {
        let world = World::new();
        let inbox = Inbox::new(&world, share);
        let asked = request(&world, "a");
        assert!(inbox.once(&asked, works()).await.is_ok());
        assert_eq!(inbox.gathered.attempts().len(), count);
    }
    // A mark of a request counts more than the share.
    let world = World::new();
    let mut inbox = Inbox::new(&world, SampleShare::ALL);
    inbox.came_with(UNMARKED);
    assert!(inbox.once(&request(&world, "a"), works()).await.is_ok());
    assert!(inbox.gathered.attempts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn every_hard_case_is_kept_whatever_the_mark_says() {
    let world = World::new();
    let mut inbox = Inbox::new(&world, SampleShare::NONE);
    inbox.came_with(UNMARKED);
    let (site, _) = process(&world);
    let asks = |key: &str, bytes: &[u8]| {
        let declared = declared(&site).request_bytes(bytes);
        declared.claim_request(key).expect("a request")
    };
    assert!(inbox.once(&asks("a", b"{}"), works()).await.is_ok());
    let conflict = inbox.once(&asks("a", b"[1]"), works()).await;
    assert!(matches!(conflict, Err(OnceError::Conflict { .. })));
    let failures = [
        (Failure::not_applied("429"), "not_applied"),
        (Failure::maybe_applied("no\nanswer"), "not_applied"),
        (Failure::dead("declined"), "failed"),
    ];
    let mut expected = vec![(End::Fate(Fate::Conflict), Some("conflict"), None, true)];
    for (at, (failure, verdict)) in failures.into_iter().enumerate() {
        let asked = request(&world, &format!("failing-{at}"));
        let failed = inbox.once(&asked, async { Err(failure) }).await;
        assert!(matches!(failed, Err(OnceError::Failed { .. })));
        expected.push((End::Released, Some("granted"), Some(verdict), true));
    }
    // A claim that ran out is taken over, and one that is taken over is lost.
    let asked = request(&world, "late");
    let late = inbox.once(&asked, async {
        sleep(LEASE * 2).await;
        let newer = world.store.claim([request(&world, "late")].into()).await;
        let newer = newer.expect("an answer").remove(0);
        assert!(matches!(newer, Admission::Granted(_)), "{newer:?}");
        Ok(7)
    });
    assert!(matches!(late.await, Err(OnceError::ClaimLost { .. })));
    expected.push((End::Fenced, Some("granted"), Some("applied"), true));
    sleep(LEASE * 2).await;
    let taken = inbox.once(&request(&world, "late"), works()).await;
    assert!(taken.is_ok());
    expected.push((
        End::Fate(Fate::Applied),
        Some("granted"),
        Some("applied"),
        true,
    ));
    let attempts = inbox.gathered.attempts();
    assert_eq!(attempts.iter().map(ended).collect::<Vec<_>>(), expected);
    assert!(attempts.last().is_some_and(|it| it.takeover));
    assert_eq!(attempts[2].error.as_deref(), Some("no answer"));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_takes_nothing_is_the_end_of_a_call() {
    let world = World::new();
    let mut inbox = Inbox::new(&world, SampleShare::NONE);
    inbox.refusal = Some(Error::new(ErrorKind::Unavailable, "the connection broke"));
    let refused = inbox.once(&request(&world, "a"), works()).await;
    assert!(matches!(refused, Err(OnceError::Failed { .. })));
    // A savepoint that cannot be made, and a claim that is not answered.
    let away = || Error::new(ErrorKind::Unavailable, "no savepoint");
    let call = Call::of(&request(&world, "b")).watched(&inbox.watch);
    let unasked = call.unasked(away());
    assert!(call.ended::<u64>(Err(unasked)).is_err());
    let mut call = Call::of(&request(&world, "c")).watched(&inbox.watch);
    call.ask();
    let unanswered = call.turn::<u64>(Err(away())).expect_err("no answer");
    assert!(call.ended::<u64>(Err(unanswered)).is_err());
    let attempts = inbox.gathered.attempts();
    let expected = [
        (End::StoreFailed, Some("granted"), Some("applied"), true),
        (End::StoreFailed, None, None, true),
        (End::StoreFailed, Some("failed"), None, true),
    ];
    assert_eq!(attempts.iter().map(ended).collect::<Vec<_>>(), expected);
    assert!(attempts[0].settle.is_some() && attempts[1].claim.is_none());
    let reason = attempts[0].error.as_deref();
    assert!(reason.is_some_and(|it| it.contains("the connection broke")));
    assert!(matches!(attempts[2].claim, Some(it) if it.took == Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_is_given_back_and_kept_if_its_effect_ran() {
    let world = World::new();
    let inbox = Inbox::new(&world, SampleShare::NONE);
    let asked = request(&world, "a");
    let call = inbox.once(&asked, std::future::pending());
    assert!(tokio::time::timeout(secs(5), call).await.is_err());
    let attempt = inbox.gathered.only();
    let expected = (End::GivenBack, Some("granted"), Some("not_applied"), true);
    assert_eq!(ended(&attempt), expected);
    assert_eq!(attempt.effect.map(|it| it.took), Some(secs(4)));
    assert!(attempt.settle.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_panics_is_kept_and_panics_on() {
    let world = World::new();
    let inbox = Arc::new(Inbox::new(&world, SampleShare::NONE));
    let (asked, called) = (request(&world, "a"), Arc::clone(&inbox));
    let panics = async move {
        let effect = async { panic!("a bug of the effect") };
        called.once(&asked, effect).await
    };
    let panicked = tokio::spawn(panics).await.expect_err("a panic");
    assert!(panicked.is_panic());
    // Nothing that its observer holds is poisoned.
    let attempt = inbox.gathered.only();
    let expected = (End::GivenBack, Some("granted"), Some("not_applied"), true);
    assert_eq!(ended(&attempt), expected);
}

#[tokio::test(start_paused = true)]
async fn what_a_caller_cannot_read_is_a_duplicate_all_the_same() {
    let world = World::new();
    let inbox = Inbox::new(&world, SampleShare::ALL);
    assert!(inbox.once(&request(&world, "a"), works()).await.is_ok());
    let mut call = Call::of(&request(&world, "a")).watched(&inbox.watch);
    let asked = call.ask().clone();
    let admitted = world.store.claim([asked].into()).await;
    let admitted = admitted.expect("an answer").remove(0);
    let unreadable = call.turn::<String>(Ok(admitted)).expect_err("a number");
    assert!(call.ended::<String>(Err(unreadable)).is_err());
    let attempts = inbox.gathered.attempts();
    assert_eq!(attempts[1].end, End::Fate(Fate::Replayed));
}

/// Nobody is asked for the time, and nothing is drawn.
#[tokio::test(start_paused = true)]
async fn an_inbox_without_an_observer_has_no_trace() {
    let world = World::new();
    let watch = Watch::default().observed_by(Arc::new(semel_engine::event::Unobserved));
    let mut call = Call::of(&request(&world, "a")).watched(&watch);
    let asked = call.ask().clone();
    let admitted = world.store.claim([asked].into()).await;
    let turn = call.turn::<u64>(admitted.map(|mut it| it.remove(0)));
    let Ok(Turn::Granted(claim)) = turn else {
        panic!("{turn:?}")
    };
    let ran = call.run_blocking(&claim, || Ok(7_u64));
    let (value, outcome, _) = ran.expect("a value");
    let receipt = call.receipt(
        &claim,
        value,
        &outcome,
        Ok(Settled::Now(StateKind::Completed)),
    );
    assert!(call.ended(receipt).is_ok());
}
