//! Store calls that run while the caller does something else.

use std::sync::Arc;
use std::time::Duration;

use semel_core::{Admission, ClaimRequest, Error, ErrorKind, Result, Settled, Settlement, Store};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::StoreCalls;
use crate::layer::outage::{all_failed, unanswered};

impl<S: Store + Clone> StoreCalls<S> {
    /// Begins to ask for claims, on a task of its own; does nothing if there is nothing to ask for, or the store
    /// is away.
    pub(in crate::consumer) fn begin_claim(
        &self,
        requests: &Arc<[ClaimRequest]>,
    ) -> Option<Begun<Vec<Admission>>> {
        self.begin(requests, |store, requests| async move {
            all_failed(store.claim(requests).await?)
        })
    }

    /// Does the same for reports on claims.
    pub(in crate::consumer) fn begin_settle(
        &self,
        settlements: &Arc<[Settlement]>,
    ) -> Option<Begun<Vec<Settled>>> {
        self.begin(settlements, |store, settlements| async move {
            store.settle(settlements).await
        })
    }

    fn begin<I, T: Send + 'static, Fut>(
        &self,
        batch: &Arc<[I]>,
        call: impl FnOnce(S, Arc<[I]>) -> Fut,
    ) -> Option<Begun<T>>
    where
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        if batch.is_empty() || self.is_left_alone() {
            return None;
        }
        let call = call(self.store.clone(), Arc::clone(batch));
        Some(Begun::new(self.outage.answer_within, call))
    }
}

/// A call on a task of its own; dropping this ends the task. Like every store call it may take too long: then
/// the wait is given up, not the call.
pub(in crate::consumer) struct Begun<T> {
    running: JoinSet<Result<T>>,
    within: Duration,
    late_at: Instant,
    answer: Option<Result<T>>,
}

impl<T: 'static> Begun<T> {
    /// Begins a call whose answer is waited for at most `within`.
    fn new(within: Duration, call: impl Future<Output = Result<T>> + Send + 'static) -> Self
    where
        T: Send,
    {
        let mut running = JoinSet::new();
        running.spawn(call);
        Self {
            running,
            within,
            late_at: Instant::now() + within,
            answer: None,
        }
    }

    /// Waits until the call has ended, whichever way, or has taken too long. Cancel safe.
    pub(in crate::consumer) async fn ended(&mut self) {
        if self.answer.is_none() {
            let joined = timeout_at(self.late_at, self.running.join_next()).await;
            self.answer = Some(match joined {
                Ok(Some(Ok(answer))) => answer,
                Ok(Some(Err(error))) => {
                    let message = "a call of the store panicked";
                    Err(Error::new(ErrorKind::Internal, message).with_source(error))
                }
                Ok(None) | Err(_) => Err(unanswered(self.within)),
            });
        }
    }

    /// Returns the result of the call.
    pub(super) async fn answer(mut self) -> Result<T> {
        self.ended().await;
        self.answer.unwrap_or_else(|| Err(unanswered(self.within)))
    }
}
