//! Effects that a broker commits together with how far its input was read (class E): decide, transform,
//! commit, batch by batch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use semel_core::port::sink::Publication;
use semel_core::port::source::DeliveryId;
use semel_core::port::streamed::{Claimed, Committed, Finished, Standing, StreamedStore};
use semel_core::{Admission, Claim, OpId, Result, StateKind, Store};
use tokio::task::JoinSet;

use super::desk::Desk;
use super::intake::Intake;
use super::stream::call;
use crate::effect::{Call, Effect, Verdict};
use crate::event::Event;
use crate::pipeline::Incoming;
use crate::publication::foreign;

pub(super) async fn run<S: Store + Clone, T: StreamedStore, E: Effect>(
    desk: &mut Desk<S>,
    mut intake: Intake,
    streamed: T,
    transform: Option<Arc<E>>,
) -> Result<()> {
    let mut failures = Failures::default();
    loop {
        desk.gather(&mut intake).await;
        if desk.is_done() {
            return desk.close(intake).await;
        }
        let taken = desk.lanes.take(desk.pipeline.batch);
        let granted = admit(desk, &streamed, &failures, taken).await?;
        let Some(outputs) = output(desk, transform.as_ref(), &granted).await else {
            // Nothing of it was committed, and all of it is given back.
            let taken = granted.into_iter().map(|granted| granted.incoming);
            desk.lanes.put_back(taken.collect());
            return desk.close(intake).await;
        };
        let mut finished = Vec::with_capacity(granted.len());
        for (granted, verdict) in granted.into_iter().zip(outputs) {
            match verdict {
                Verdict::Done(payload) => finished.push((granted, payload)),
                verdict => failures.count(desk, granted, verdict),
            }
        }
        commit(desk, &streamed, &mut failures, finished).await?;
        desk.flush(&intake).await?;
    }
}

/// A message that may be worked on.
struct Granted {
    incoming: Incoming,
    claim: Claim,
    /// The identity of its operation.
    id: OpId,
}

impl Granted {
    fn claimed(&self) -> Claimed<'_> {
        claimed(&self.incoming, self.id)
    }
}

fn claimed(incoming: &Incoming, id: OpId) -> Claimed<'_> {
    Claimed {
        delivery: incoming.delivery,
        id,
        request: &incoming.request,
    }
}

/// Deals with those that are not granted.
async fn admit<S: Store + Clone>(
    desk: &mut Desk<S>,
    streamed: &impl StreamedStore,
    failures: &Failures,
    taken: Vec<Incoming>,
) -> Result<Vec<Granted>> {
    if taken.is_empty() {
        return Ok(Vec::new());
    }
    let ids = taken.iter().map(|incoming| incoming.request.operation.id());
    let ids: Vec<_> = ids.collect();
    let asked = taken.iter().zip(&ids);
    let asked: Vec<_> = asked.map(|(incoming, id)| claimed(incoming, *id)).collect();
    let standings = desk.ask(|| streamed.admit(&asked)).await?;
    drop(asked);
    // A claim is nothing that is stored, so nobody else sees that a key is in this batch twice.
    let mut seen = BTreeSet::new();
    let has_order = desk.pipeline.order.is_some();
    let mut granted = Vec::with_capacity(taken.len());
    for ((incoming, standing), id) in taken.into_iter().zip(standings).zip(ids) {
        match standing {
            Standing::Gone => desk.gone(&incoming),
            // Messages of one order key are taken one by one, and those of one key where that is the order.
            Standing::Ours(Admission::Granted(_)) if has_order && !seen.insert(id) => {
                let now = desk.surroundings.clock.now();
                desk.refused(incoming, Admission::Busy { until: now, now })?;
            }
            Standing::Ours(Admission::Granted(mut claim)) => {
                claim.attempt = failures.of(incoming.delivery) + 1;
                desk.observe_message(&incoming, &Event::Granted { claim: &claim });
                granted.push(Granted {
                    incoming,
                    claim,
                    id,
                });
            }
            Standing::Ours(admission) => desk.refused(incoming, admission)?,
        }
    }
    Ok(granted)
}

/// What each puts out: the message itself, or what the transform makes of it. `None` once a shutdown has run
/// out of patience.
async fn output<S: Store + Clone, E: Effect>(
    desk: &Desk<S>,
    transform: Option<&Arc<E>>,
    granted: &[Granted],
) -> Option<Vec<Verdict>> {
    let Some(transform) = transform else {
        let payloads = granted.iter().map(|it| it.incoming.payload.clone());
        return Some(payloads.map(Verdict::Done).collect());
    };
    let calls = granted
        .iter()
        .map(|it| call(&it.incoming, it.claim.clone()));
    let most = desk.pipeline.concurrency;
    tokio::select! {
        biased;
        verdicts = transformed(transform, calls.collect(), most) => Some(verdicts),
        () = desk.patience_is_over() => None,
        never = desk.keep_in_hand() => match never {},
    }
}

/// The verdicts of all calls, at most so many of which run at once.
async fn transformed<E: Effect>(
    transform: &Arc<E>,
    calls: VecDeque<Call>,
    most: usize,
) -> Vec<Verdict> {
    let unknown = Verdict::MaybeApplied {
        error: "the transform gave no verdict".into(),
    };
    let mut verdicts = vec![unknown; calls.len()];
    let mut waiting = calls.into_iter().enumerate();
    let mut running = JoinSet::new();
    loop {
        while running.len() < most.max(1)
            && let Some((place, call)) = waiting.next()
        {
            let transform = Arc::clone(transform);
            running.spawn(async move { (place, transform.call(call).await) });
        }
        match running.join_next().await {
            None => return verdicts,
            Some(Ok((place, verdict))) => verdicts[place] = verdict,
            // One that panicked has given no verdict.
            Some(Err(_)) => {}
        }
    }
}

/// Commits all of them at once.
async fn commit<S: Store + Clone>(
    desk: &mut Desk<S>,
    streamed: &impl StreamedStore,
    failures: &mut Failures,
    ended: Vec<(Granted, Bytes)>,
) -> Result<()> {
    if ended.is_empty() {
        return Ok(());
    }
    let finished = ended.iter().map(|(granted, payload)| {
        let output = Publication {
            id: granted.id.to_string().into(),
            order: Some(granted.incoming.request.operation.key.clone().into_bytes()),
            payload: payload.clone(),
            headers: foreign(&granted.incoming.headers),
        };
        Finished {
            claimed: granted.claimed(),
            output: vec![output],
        }
    });
    let finished: Vec<_> = finished.collect();
    let committed = desk.ask_slow(|| streamed.commit(&finished)).await?;
    drop(finished);
    for ((granted, _), committed) in ended.into_iter().zip(committed) {
        match committed {
            Committed::Done => {
                failures.forget(granted.incoming.delivery);
                desk.completed(&granted.incoming, false);
            }
            Committed::Gone => {
                failures.forget(granted.incoming.delivery);
                desk.gone(&granted.incoming);
            }
            Committed::Refused(error) => {
                let error = error.to_string().into();
                failures.count(desk, granted, Verdict::Dead { error });
            }
        }
    }
    Ok(())
}

/// How often the transform failed for messages in hand. Nothing of it outlives the process: a failed
/// transform leaves nothing behind that could be repeated.
#[derive(Default)]
struct Failures(BTreeMap<DeliveryId, u32>);

impl Failures {
    fn of(&self, delivery: DeliveryId) -> u32 {
        self.0.get(&delivery).copied().unwrap_or(0)
    }

    fn forget(&mut self, delivery: DeliveryId) {
        if !self.0.is_empty() {
            self.0.remove(&delivery);
        }
    }

    /// Has it tried again, or gives it up.
    fn count<S: Store + Clone>(&mut self, desk: &mut Desk<S>, granted: Granted, verdict: Verdict) {
        let Granted {
            incoming, claim, ..
        } = granted;
        let (error, after, may_again) = match verdict {
            // Whatever a transform did outside is its own promise: it may be run again.
            Verdict::NotApplied { error, retry_after } => (error, retry_after, true),
            Verdict::MaybeApplied { error } => (error, None, true),
            Verdict::Dead { error } => (error, None, false),
            Verdict::DoneUnkept { len_bytes, .. } => {
                let error = format!("{len_bytes} bytes are more than an output may have");
                (error.into(), None, false)
            }
            Verdict::Done(_) => return,
        };
        let pipeline = &desk.pipeline;
        if may_again && claim.attempt < pipeline.limits.failed.get() {
            let backoff = desk.jittered(pipeline.backoff.after(claim.attempt));
            let wait = after.unwrap_or_default().max(backoff);
            self.0.insert(incoming.delivery, claim.attempt);
            desk.released(incoming, &error, wait);
        } else {
            self.forget(incoming.delivery);
            desk.given_up(&incoming, StateKind::Dead, &error);
        }
    }
}
