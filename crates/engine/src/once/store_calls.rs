//! Store calls before anything has run: they are repeated until the store answers, or until the
//! caller has waited long enough.

use std::future::Future;
use std::sync::Arc;

use semel_core::{Admission, Certainty, Claim, ClaimRequest, ErrorKind, Renewed, Store, StoreExt};
use tokio::time::{sleep, timeout};

use super::run::{Run, unanswered};
use crate::lease::renewal;
use crate::retry::{self, Pauses, hint, is_final};

impl<S: Store + Clone> Run<S> {
    pub(super) async fn claim_alone(
        &mut self,
        request: &ClaimRequest,
    ) -> semel_core::Result<Admission> {
        self.ask(|store| {
            let request = request.clone();
            async move { store.claim_one(request).await }
        })
        .await
    }

    pub(super) async fn claim(
        &mut self,
        requests: &Arc<[ClaimRequest]>,
    ) -> semel_core::Result<Vec<Admission>> {
        self.ask(|store| {
            let requests = Arc::clone(requests);
            async move { store.claim(requests).await }
        })
        .await
    }

    pub(super) async fn renew_alone(&mut self, claim: &Claim) -> semel_core::Result<Renewed> {
        let renewal = renewal(claim, self.settings.lease);
        self.ask(move |store| {
            let renewal = renewal.clone();
            async move { store.renew_one(renewal).await }
        })
        .await
    }

    /// Makes a store call before anything has run, until the store answers or the caller has waited
    /// too long. If the call may have granted something, it goes on a while longer, so that a claim
    /// under which nothing will run is given back instead of left to its lease.
    async fn ask<T, Fut>(&mut self, call: impl Fn(S) -> Fut + Send) -> semel_core::Result<T>
    where
        Fut: Future<Output = semel_core::Result<T>> + Send,
    {
        let patience = self.settings.patience;
        let since = self.shared.now();
        let mut pauses = Pauses::new(retry::STORE);
        let mut is_maybe = false;
        loop {
            let left = patience.saturating_sub(self.shared.now().saturating_sub(since));
            // With no caller left to answer, there is time.
            let limit = if self.is_wanted() {
                left.max(retry::STORE.first)
            } else {
                patience
            };
            let error = match timeout(limit, call(self.store.clone())).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                // The wait is given up, not the call: asked again, the store says what became of it.
                Err(_) => no_answer(),
            };
            self.trace_trouble();
            is_maybe |= error.certainty() == Certainty::MaybeApplied;
            let waited = self.shared.now().saturating_sub(since);
            if is_final(&error) || self.shared.is_closing() {
                return Err(error);
            }
            if waited >= patience {
                self.give_up(&error);
            }
            if !self.is_wanted() && (!is_maybe || waited >= patience + self.settings.lease) {
                return Err(error);
            }
            let pause = pauses.longer().max(hint(&error));
            let mut pause = self.shared.surroundings.jittered(pause);
            if self.is_wanted() {
                pause = pause.min(patience.saturating_sub(waited));
            }
            self.store_failed(&error, pause);
            sleep(pause).await;
        }
    }

    /// Answers the caller that the store could not be asked.
    fn give_up(&mut self, error: &semel_core::Error) {
        let errors: Vec<_> = (0..self.requests.len())
            .map(|index| self.not_asked(index, error.clone()))
            .collect();
        let mut errors = errors.into_iter();
        self.reply(move || errors.next().unwrap_or_else(unanswered));
    }
}

pub(super) fn no_answer() -> semel_core::Error {
    semel_core::Error::new(ErrorKind::Timeout, "the store does not answer")
}
