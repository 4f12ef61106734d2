//! Leases of running attempts, which are extended at a third of the lease, whatever else is under
//! way.

use std::convert::Infallible;
use std::time::Duration;

use semel_core::{Renewal, Renewed, Result, StateKind, Store};

use super::super::context::Context;
use super::super::run_state::{Parts, RunState};
use super::super::store_calls::RECHECK;
use super::{Attempts, Found};
use crate::lease::{renewal, renewal_interval};

impl Attempts {
    /// Extends the leases of everything under way, at a third of the lease.
    pub(super) async fn renew_if_due<S: Store + Clone>(
        &mut self,
        run: &mut RunState<S>,
    ) -> Result<()> {
        let (now, lease) = (run.now(), run.context.pipeline.lease);
        if self.running.is_empty() {
            self.renew_at = run.context.lease(now).renew_at();
            return Ok(());
        }
        if now < self.renew_at {
            return Ok(());
        }
        self.renew_at = run.context.lease(now).renew_at();
        let Some(renewed) = run
            .store
            .try_renew(&run.outstanding, self.renewals(lease))
            .await?
        else {
            self.renew_at = run.now() + RECHECK.min(renewal_interval(lease));
            return Ok(());
        };
        let protected = self.running.values_mut().filter(|it| it.is_protected);
        for (running, renewed) in protected.zip(renewed) {
            // In doubt, nobody else runs it, and its completion is still accepted: DBT-2.
            if let Renewed::Lost { found } = renewed
                && found != Some(StateKind::InDoubt)
            {
                running.lost = Some(Found(found));
                running.abort.abort();
            }
        }
        Ok(())
    }

    /// Waits for `work` and meanwhile keeps the leases of running attempts, however long that
    /// takes. Attempts that run when a shutdown runs out of patience are broken off, whatever is waited for.
    pub(super) async fn beside<S: Store + Clone, T>(
        &self,
        (context, store, outstanding): Parts<'_, S>,
        work: impl Future<Output = T>,
    ) -> T {
        let first = self.renew_at.saturating_sub(context.now());
        tokio::select! {
            biased;
            done = work => done,
            never = store.keep(outstanding, first, || self.renewals(context.pipeline.lease)) => match never {},
            never = self.broken_off(context) => match never {},
        }
    }

    /// Breaks off running attempts once a shutdown has run out of patience; the end of the run reports them.
    pub(super) async fn broken_off(&self, context: &Context) -> Infallible {
        context.patience_is_over().await;
        for running in self.running.values() {
            running.abort.abort();
        }
        std::future::pending().await
    }

    fn renewals(&self, lease: Duration) -> Vec<Renewal> {
        let protected = self.running.values().filter(|it| it.is_protected);
        protected.map(|it| renewal(&it.claim, lease)).collect()
    }
}
