//! Store calls for claims, reports on them and longer leases.

use std::borrow::Cow;
use std::convert::Infallible;
use std::time::Duration;

use semel_core::{
    Admission, ClaimRequest, Renewal, Renewed, Result, Settled, Settlement, Store, StoreExt,
};

use super::Desk;
use super::asking::Asked;
use super::begun::Begun;
use crate::event::Event;
use crate::layer::outage::all_failed;
use crate::lease::{Lease, renewal_interval};

impl<S: Store + Clone> Desk<S> {
    /// Asks for claims, unless the store is away and the pipeline fails open.
    pub(in crate::consumer) async fn try_claim(
        &self,
        requests: &[ClaimRequest],
    ) -> Result<Asked<Vec<Admission>>> {
        self.try_claim_again(requests, None).await
    }

    /// Does the same for a call that may have been begun already.
    pub(in crate::consumer) async fn try_claim_again(
        &self,
        requests: &[ClaimRequest],
        begun: Option<Begun<Vec<Admission>>>,
    ) -> Result<Asked<Vec<Admission>>> {
        if requests.is_empty() {
            return Ok(Asked::Answered(Vec::new()));
        }
        self.try_ask_again(begun, || self.claim_all(requests)).await
    }

    async fn claim_all(&self, requests: &[ClaimRequest]) -> Result<Vec<Admission>> {
        let mut requests = Cow::Borrowed(requests);
        if semel_core::planted("M34") {
            for request in requests.to_mut() {
                request.claim_id = self.context.surroundings.claim_id();
            }
        }
        all_failed(self.store.claim(&requests).await?)
    }

    /// Reports on claims until each item is answered. An item that failed alone is reported again:
    /// asking for its claim again would run its effect again.
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
                *answer = self.ask(|| self.store.settle_one(settlement)).await?;
            }
        }
        Ok(answers)
    }

    /// Reports on claims. `None` marks an item that is still to be reported because the store is
    /// away and the pipeline fails open.
    pub(in crate::consumer) async fn try_settle(
        &self,
        settlements: &[Settlement],
    ) -> Result<Vec<Option<Settled>>> {
        self.try_settle_again(settlements, None).await
    }

    /// Does the same for a report that may have been begun already.
    pub(in crate::consumer) async fn try_settle_again(
        &self,
        settlements: &[Settlement],
        begun: Option<Begun<Vec<Settled>>>,
    ) -> Result<Vec<Option<Settled>>> {
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let asked = self.try_ask_again(begun, || self.store.settle(settlements));
        let answers = match asked.await? {
            Asked::Answered(answers) => answers,
            Asked::NotNow { .. } => return Ok(settlements.iter().map(|_| None).collect()),
        };
        let mut settled = Vec::with_capacity(answers.len());
        for (settlement, answer) in settlements.iter().zip(answers) {
            settled.push(match answer {
                Settled::Failed(_) => {
                    let asked = self.try_ask(|| self.store.settle_one(settlement));
                    match asked.await? {
                        Asked::Answered(answer) => Some(answer),
                        Asked::NotNow { .. } => None,
                    }
                }
                Settled::Now(_) | Settled::Fenced { .. } => Some(answer),
            });
        }
        Ok(settled)
    }

    /// Extends leases, at first after `first`, for as long as the work beside it takes. A claim lost
    /// meanwhile shows when it is next renewed or settled.
    pub(in crate::consumer) async fn keep(
        &self,
        first: Duration,
        renewals: impl Fn() -> Vec<Renewal>,
    ) -> Infallible {
        let mut wait = first;
        loop {
            tokio::time::sleep(wait).await;
            wait = renewal_interval(self.context.pipeline.lease);
            let renewals = renewals();
            if renewals.is_empty() {
                continue;
            }
            if self.ask(|| self.store.renew(&renewals)).await.is_err() {
                // The work beside this meets the same error, and knows more.
                return std::future::pending().await;
            }
            self.context.observe(&Event::Renewed {
                count: renewals.len(),
            });
        }
    }

    /// Extends the leases of running messages; `None` if nothing was asked, as with
    /// [`try_ask`](Self::try_ask).
    pub(in crate::consumer) async fn try_renew(
        &self,
        renewals: &[Renewal],
    ) -> Result<Option<Vec<Renewed>>> {
        if renewals.is_empty() || semel_core::planted("M16") {
            return Ok(Some(Vec::new()));
        }
        let asked = self.try_ask(|| self.store.renew(renewals)).await?;
        let Asked::Answered(renewed) = asked else {
            return Ok(None);
        };
        self.context.observe(&Event::Renewed {
            count: renewals.len(),
        });
        Ok(Some(renewed))
    }

    /// Returns the lease of a claim that was asked for at `asked_at`.
    pub(in crate::consumer) fn lease(&self, asked_at: Duration) -> Lease {
        let term = self.context.pipeline.lease;
        Lease { asked_at, term }
    }
}
