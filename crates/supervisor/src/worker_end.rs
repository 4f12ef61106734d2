//! The end of a worker: what it waits for, and in which order.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use semel_admin::Orders;
use semel_backends::webhook::Listeners;
use semel_core::{Error, ErrorKind, Result};
use semel_engine::consumer::{LAST_OF_SOURCE, LAST_REPORTS};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::claims::Claims;
use crate::gateway::Gateway;
use crate::relays::Relays;
use crate::results::{PipelineSummary, Results};

/// Refuses orders of the admin API once a stop is asked for.
pub(crate) async fn stop_orders(orders: Arc<Orders>, mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|is_asked| *is_asked).await;
    orders.stop();
}

/// Waits for `work`, and returns the time that it took since a stop was asked for: none if nobody did.
async fn timed_from_stop<T>(
    work: impl Future<Output = T>,
    mut stop: watch::Receiver<bool>,
) -> (T, Duration) {
    let mut work = pin!(work);
    let stopped_at = tokio::select! {
        biased;
        done = &mut work => return (done, Duration::ZERO),
        Ok(_) = stop.wait_for(|is_asked| *is_asked) => Instant::now(),
    };
    let done = work.await;
    (done, stopped_at.elapsed())
}

/// Waits until every webhook and every claim in hand is answered.
async fn end_listeners(webhooks: &Listeners, claims: Option<Claims>) {
    webhooks.close().await;
    if let Some(claims) = claims {
        claims.ended().await;
    }
}

/// Waits for all pipelines, all relays and then their listeners, and beside them for the gateway: each has its time from the
/// stop on, not from the end of the other. Returns the time that it took since a stop was asked for.
pub(crate) async fn all_ended(
    running: JoinSet<(Box<str>, Result<PipelineSummary>)>,
    relays: Relays,
    stop: &watch::Sender<bool>,
    (webhooks, claims, gateway): (&Listeners, Option<Claims>, Option<Gateway>),
) -> (Result<Results>, Duration) {
    let runs_end = async {
        let ended = ended(running, relays, stop).await;
        end_listeners(webhooks, claims).await;
        ended
    };
    let gateway_ends = async {
        if let Some(gateway) = gateway {
            gateway.ended().await;
        }
    };
    let both_end = async { tokio::join!(runs_end, gateway_ends).0 };
    timed_from_stop(both_end, stop.subscribe()).await
}

/// Returns the time that is left for orders once all else has ended, so long after the stop. Runs break off what is in
/// hand after the same time, and note that nobody knows what came of it.
pub(crate) fn time_for_orders(patience: Duration, since_stop: Duration) -> Duration {
    let within = patience.saturating_add(LAST_REPORTS);
    within.saturating_sub(since_stop).max(LAST_OF_SOURCE)
}

/// Waits for all pipelines and all relays.
async fn ended(
    running: JoinSet<(Box<str>, Result<PipelineSummary>)>,
    relays: Relays,
    stop: &watch::Sender<bool>,
) -> Result<Results> {
    let mut ended = all(running, stop).await;
    match &mut ended {
        Ok(results) => relays.ended(results).await,
        Err(_) => {
            stop.send_replace(true);
        }
    }
    ended
}

/// Waits for all pipelines; one that fails ends the others.
async fn all(
    mut running: JoinSet<(Box<str>, Result<PipelineSummary>)>,
    stop: &watch::Sender<bool>,
) -> Result<Results> {
    let mut results = Results {
        pipelines: Vec::new(),
        relays: Vec::new(),
        failure: None,
    };
    while let Some(joined) = running.join_next().await {
        let (name, result) = match joined {
            Ok(ended) => ended,
            Err(error) => {
                // The others end first, and hand over the spans of what they had in hand.
                running.shutdown().await;
                let error =
                    Error::new(ErrorKind::Internal, "a pipeline panicked").with_source(error);
                return Err(error);
            }
        };
        match result {
            Ok(ended) => results.pipelines.push((name, ended)),
            Err(error) => {
                results.failure.get_or_insert(error);
                stop.send_replace(true);
            }
        }
    }
    Ok(results)
}
