//! Asking the store again until it answers, and keeping leases while it does.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use semel_core::{
    Admission, Advice, ClaimRequest, Error, ErrorKind, Renewal, Result, Settled, Settlement, Store,
};

use super::Desk;
use crate::event::Event;

impl<S: Store + Clone> Desk<S> {
    /// Makes a store call until it is answered, waiting longer each time. The call is repeated with
    /// the same claim ids, so that a lost answer is found again.
    ///
    /// # Errors
    ///
    /// what no repetition mends, and anything once shutdown ran out of patience
    pub(in crate::consumer) async fn ask<T, Fut>(
        &self,
        call: impl Fn() -> Fut + Send + Sync,
    ) -> Result<T>
    where
        Fut: Future<Output = Result<T>> + Send,
    {
        let mut wait = Duration::from_millis(20);
        let mut stopping_since = None;
        loop {
            let error = match call().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if self.is_stopping() {
                let since = *stopping_since.get_or_insert_with(|| self.now());
                if self.now().saturating_sub(since) >= self.shutdown.patience {
                    return Err(error);
                }
            }
            if is_final(&error) {
                return Err(error);
            }
            let hint = match error.advice() {
                Advice::Retry { after } => after,
                Advice::Fix | Advice::LookUpFirst | Advice::Stop | Advice::Alarm => Duration::ZERO,
            };
            let pause = self.jittered(wait.max(hint));
            self.observe(&Event::StoreFailed {
                error: &error,
                wait: pause,
            });
            tokio::time::sleep(pause).await;
            wait = (wait * 2).min(Duration::from_secs(5));
        }
    }

    /// `wait` and up to a quarter more, so that workers do not come back all at once.
    pub(in crate::consumer) fn jittered(&self, wait: Duration) -> Duration {
        let mut byte = [0];
        self.surroundings.entropy.fill(&mut byte);
        wait.saturating_add(wait / 1024 * u32::from(byte[0]))
    }

    /// Asks for claims.
    pub(in crate::consumer) async fn claim(
        &self,
        requests: &[ClaimRequest],
    ) -> Result<Vec<Admission>> {
        self.ask(|| self.store.claim(requests)).await
    }

    /// Reports on claims until each item is answered. One that failed alone is reported again: to
    /// ask for its claim again would run its effect again.
    pub(in crate::consumer) async fn settle_all(
        &self,
        settlements: &[Settlement],
    ) -> Result<Vec<Settled>> {
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let mut answers = self.ask(|| self.store.settle(settlements)).await?;
        for (settlement, answer) in settlements.iter().zip(&mut answers) {
            if let Settled::Failed(_) = answer {
                *answer = self.ask(|| self.settle_one(settlement)).await?;
            }
        }
        Ok(answers)
    }

    async fn settle_one(&self, settlement: &Settlement) -> Result<Settled> {
        match self
            .store
            .settle(std::slice::from_ref(settlement))
            .await?
            .pop()
        {
            Some(Settled::Failed(error)) => Err(error),
            Some(answer) => Ok(answer),
            None => Err(Error::new(
                ErrorKind::Internal,
                "the store answered an item with nothing",
            )),
        }
    }

    /// Extends leases, at first after `first`, for as long as whatever runs beside it takes. A claim
    /// that was lost meanwhile is found out when it is next renewed or settled.
    pub(in crate::consumer) async fn keep(
        &self,
        first: Duration,
        renewals: impl Fn() -> Vec<Renewal>,
    ) -> Infallible {
        let mut wait = first;
        loop {
            tokio::time::sleep(wait).await;
            wait = self.pipeline.lease / 3;
            let renewals = renewals();
            if renewals.is_empty() {
                continue;
            }
            if self.ask(|| self.store.renew(&renewals)).await.is_err() {
                // What runs beside this meets the same error, and knows more.
                return std::future::pending().await;
            }
            self.observe(&Event::Renewed {
                count: renewals.len(),
            });
        }
    }

    /// Whether a claim that was asked for at `asked_at` is still fresh enough to begin its effect:
    /// a worker that was stopped for two thirds of its lease fences itself.
    pub(in crate::consumer) fn may_begin(&self, asked_at: Duration) -> bool {
        self.now().saturating_sub(asked_at) < self.pipeline.lease * 2 / 3
    }
}

/// Whether no repetition can mend this.
pub(super) fn is_final(error: &Error) -> bool {
    match error.advice() {
        Advice::Fix | Advice::Stop | Advice::Alarm => true,
        Advice::Retry { .. } | Advice::LookUpFirst => false,
    }
}
