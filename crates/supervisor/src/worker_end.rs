//! The end of a worker: what it waits for, and in which order.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use semel_admin::Orders;
use semel_backends::webhook::Listeners;
use semel_core::{Error, ErrorKind, Result};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::claims::Claims;
use crate::relays::Relays;
use crate::results::{PipelineSummary, Results};

/// Refuses orders of the admin API once a stop is asked for.
pub(crate) async fn stop_orders(orders: Arc<Orders>, mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|is_asked| *is_asked).await;
    orders.stop();
}

/// Waits for `work`, and returns the time that it took since a stop was asked for: none if nobody did.
pub(crate) async fn timed_from_stop<T>(
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
pub(crate) async fn end_listeners(webhooks: &Listeners, claims: Option<Claims>) {
    webhooks.close().await;
    if let Some(claims) = claims {
        claims.ended().await;
    }
}

/// Waits for all pipelines and all relays.
pub(crate) async fn ended(
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
