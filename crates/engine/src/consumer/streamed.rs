//! Effects that a broker commits together with the position up to which its input was read (class E): decide,
//! transform, commit, batch by batch.

mod commit;
mod failures;
mod output;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::partition::Entry;
use semel_core::port::streamed::{Claimed, Committed, Finished, Outgoing, Standing, StreamedStore};
use semel_core::{Admission, Grant, OpId, Result, Store};

use super::outstanding::Outstanding;
use super::patience::Purpose;
use super::pause::Judged;
use super::reader::ReaderHandle;
use super::run_state::RunState;
use super::store_calls::StoreCalls;
use crate::consumer::in_hand::InHand;
use crate::effect::{Effect, Verdict};
use crate::pipeline::Incoming;
use crate::publication::{foreign, in_span, into_foreign};
use commit::{Commit, Commits, Ready};
use failures::Failures;
use output::output;

/// Runs the pipeline: while batches are committed, one behind the other, the next one is gathered, decided and
/// transformed. Whatever happens to a batch, the later ones stay behind it.
pub(super) async fn run<S: Store + Clone, T: StreamedStore, E: Effect>(
    run: &mut RunState<S>,
    reader: &mut ReaderHandle,
    streamed: T,
    transform: Option<Arc<E>>,
) -> Result<()> {
    // One being committed, one being written, one waiting for that, and one being gathered.
    run.outstanding.limit(4);
    let mut failures = Failures::default();
    let within = run.store.slow_answer_within();
    let mut under_way = Commits::new(streamed);
    let mut next = Ready::default();
    loop {
        if !gather(run, reader, under_way.first(), next.len()).await
            && let Some(ended) = under_way.take_first()
        {
            let committed = ended.conclude(&run.store, &run.outstanding).await?;
            // The broker goes on with the next batch while this one is dealt with.
            under_way.begin(&run.context, within, &mut next);
            conclude(run, &mut failures, committed);
        }
        let is_done = run.outstanding.is_done();
        if !is_done {
            let room = run.context.pipeline.batch.saturating_sub(next.len());
            let room = match &transform {
                Some(_) => room.min(run.room(0)),
                None => room,
            };
            let taken = run.take_ready(room);
            let transforms = transform.is_some();
            let granted = admit(run, &failures, taken, (&under_way, &next, transforms)).await?;
            let outputs = tokio::select! {
                biased;
                outputs = output(&run.context, &run.outstanding, transform.as_ref(), &granted) => outputs,
                never = answered(&run.store, &run.outstanding, under_way.first_mut()) => match never {},
            };
            if let Some(outputs) = outputs {
                let has_transform = transform.is_some();
                finish(
                    run,
                    &mut failures,
                    granted,
                    outputs,
                    (&mut next, has_transform),
                );
            } else {
                // Nothing of it was committed, and all of it is given back.
                let taken = granted.into_iter().map(|granted| granted.incoming);
                run.outstanding.put_back(taken.collect());
            }
        }
        under_way.begin(&run.context, within, &mut next);
        run.flush(reader).await?;
        if is_done && under_way.first().is_none() {
            // A shutdown left no time to commit it.
            let left = next.granted.into_iter().map(|granted| granted.incoming);
            run.outstanding.put_back(left.collect());
            return Ok(());
        }
    }
}

/// Takes in hand every message that is there, until there is something to do. Returns `false` if the first batch
/// under way has ended, `true` for any other reason.
async fn gather<S: Store + Clone, T: StreamedStore>(
    run: &mut RunState<S>,
    reader: &mut ReaderHandle,
    first: Option<&Commit<T>>,
    ready: usize,
) -> bool {
    let Some(first) = first else {
        run.gather(reader).await;
        return true;
    };
    if ready >= run.context.pipeline.batch || run.outstanding.is_done() {
        tokio::select! {
            biased;
            () = first.ended() => return false,
            never = run.outstanding.keep() => match never {},
        }
    }
    tokio::select! {
        biased;
        () = first.ended() => false,
        () = run.gather(reader) => true,
    }
}

/// Looks after the first batch under way for as long as the work beside it takes.
async fn answered<S: Store + Clone, T: StreamedStore>(
    store: &StoreCalls<S>,
    outstanding: &Outstanding,
    first: Option<&mut Commit<T>>,
) -> Infallible {
    if let Some(first) = first {
        first.answered(store, outstanding).await;
    }
    std::future::pending().await
}

/// A message that may be worked on.
struct Granted {
    incoming: InHand,
    /// The identity of its operation.
    id: OpId,
    grant: Grant,
}

fn claimed(incoming: &Incoming, id: OpId) -> Claimed<'_> {
    Claimed {
        delivery: incoming.delivery,
        id,
        request: &incoming.request,
    }
}

/// Deals with messages that are not granted, and returns the others.
async fn admit<S: Store + Clone>(
    run: &mut RunState<S>,
    failures: &Failures,
    taken: Vec<InHand>,
    (under_way, next, has_transform): (&Commits<impl StreamedStore>, &Ready, bool),
) -> Result<Vec<Granted>> {
    if taken.is_empty() {
        return Ok(Vec::new());
    }
    let ids = taken.iter().map(|incoming| incoming.request.operation.id());
    let ids: Vec<_> = ids.collect();
    let asked = taken.iter().zip(&ids);
    let asked: Vec<_> = asked.map(|(incoming, id)| claimed(incoming, *id)).collect();
    let admit = || under_way.streamed.admit(&asked);
    let standings = run
        .store
        .ask_in_time(&run.outstanding, Purpose::Work, admit)
        .await?;
    drop(asked);
    let Some(standings) = standings else {
        run.outstanding.put_back(taken);
        return Ok(Vec::new());
    };
    let answered_at = run.now();
    // A claim is not stored, so nothing else sees that a key is in this batch twice, or in one that is being
    // committed. Messages of one order key are taken one by one, and so are those of one key if the key is the
    // order.
    let has_order = run.context.pipeline.order.is_some();
    let ready = next.granted.iter().filter(|_| has_order);
    let mut seen: BTreeSet<_> = ready.map(|granted| granted.id).collect();
    let is_pending = |id| under_way.have(id) && !semel_core::planted("K04");
    let is_stopping = run.outstanding.is_stopping();
    let mut granted = Vec::with_capacity(taken.len());
    for ((mut incoming, standing), id) in taken.into_iter().zip(standings).zip(ids) {
        match standing {
            Standing::Gone => run.gone(&incoming),
            Standing::Free(_) if has_order && (is_pending(id) || !seen.insert(id)) => {
                let now = run.context.surroundings.clock.now();
                run.refused(incoming, Admission::Busy { until: now, now }, answered_at)?;
            }
            Standing::Free(_)
                if is_stopping || (has_transform && !run.begins(incoming.delivery)) =>
            {
                run.outstanding.put_back(vec![incoming]);
            }
            Standing::Free(mut grant) => {
                grant.attempt = failures.of(incoming.delivery) + 1;
                run.granted(&mut incoming, grant, answered_at);
                granted.push(Granted {
                    incoming,
                    id,
                    grant,
                });
            }
            Standing::Ours(admission) => run.refused(incoming, *admission, answered_at)?,
        }
    }
    Ok(granted)
}

/// Moves finished messages of the transform into the next batch, and deals with the rest.
fn finish<S: Store + Clone>(
    run: &mut RunState<S>,
    failures: &mut Failures,
    granted: Vec<Granted>,
    outputs: Vec<(Verdict, Duration)>,
    (next, has_transform): (&mut Ready, bool),
) {
    let now = run.now();
    next.granted.reserve(granted.len());
    next.finished.reserve(granted.len());
    for (mut granted, (verdict, took)) in granted.into_iter().zip(outputs) {
        let judged = if has_transform {
            run.effect_ended(&mut granted.incoming, &verdict, took);
            run.hear(granted.incoming.delivery, &verdict)
        } else {
            Judged::AsSaid
        };
        match verdict {
            Verdict::Done(payload) => {
                if !has_transform && let Some(trace) = granted.incoming.trace_mut() {
                    trace.effect_begins(now);
                }
                next.finished.push(finished(&mut granted, payload));
                next.granted.push(granted);
            }
            verdict => failures.count(run, granted, verdict, judged),
        }
    }
}

/// Returns the entry to commit. The headers go along, and [`Commit::conclude`] brings them back if they are
/// needed.
fn finished(granted: &mut Granted, payload: Bytes) -> Finished {
    let Granted { incoming, id, .. } = granted;
    let headers = if let Some(trace) = incoming.trace() {
        in_span(foreign(&incoming.headers), trace.effect())
    } else {
        into_foreign(&mut incoming.headers)
    };
    let output = Outgoing { payload, headers };
    Finished {
        delivery: incoming.delivery,
        key: incoming.request.operation.key.clone(),
        id: *id,
        entry: Entry::of(*id, &incoming.request),
        output: Some(output),
    }
}

/// Deals with the results of a batch.
fn conclude<S: Store + Clone>(
    run: &mut RunState<S>,
    failures: &mut Failures,
    batch: impl Iterator<Item = (Granted, Committed)>,
) {
    let answered_at = run.now();
    for (mut granted, committed) in batch {
        let is_done = matches!(committed, Committed::Done);
        granted.incoming.trace_commit(answered_at, is_done);
        match committed {
            Committed::Done => {
                failures.forget(granted.incoming.delivery);
                run.completed(&granted.incoming, false);
            }
            Committed::Gone => {
                failures.forget(granted.incoming.delivery);
                run.gone(&granted.incoming);
            }
            Committed::Refused(error) => {
                let error = error.to_string().into();
                failures.count(
                    run,
                    granted,
                    Verdict::Dead {
                        error,
                        decisive: false,
                    },
                    Judged::AsSaid,
                );
            }
        }
    }
}
