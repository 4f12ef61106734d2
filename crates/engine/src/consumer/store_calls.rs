//! The calls of the store: claims, reports on them, longer leases and the rest, each repeated until the store answers.
//! Not for what the answers mean.

mod in_flight;
mod retry;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use semel_core::decide::{Directed, Directive};
use semel_core::{
    Admission, ClaimRequest, Operation, Parked, Record, Renewal, Renewed, Result, Settled,
    Settlement, Store, StoreExt,
};

use super::context::Context;
use super::outstanding::Outstanding;
use super::patience::Purpose;
use crate::layer::outage::{Policy, all_failed};
use crate::lease::{renewal_interval, renewed_event};
use crate::pipeline::Fail;
pub(super) use in_flight::Begun;
pub(super) use retry::Asked;
use retry::Terms;

/// The store of a run, and the policy for the time in which it does not answer. While a call is waited for, the
/// outstanding messages are kept at their source.
pub(super) struct StoreCalls<S> {
    context: Arc<Context>,
    store: S,
    outage: Policy,
}

/// The choice whether a pipeline that fails open waits for a store that is away; no wait outlasts the time of a shutdown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Waits,
    GivesWay,
}

/// The store's answer to a report on a claim.
#[derive(Debug, Default)]
pub(super) struct ReportAnswer {
    /// The answer; none while it is still to be reported.
    pub(super) settled: Option<Settled>,
    /// The store failed for it before.
    pub(super) had_trouble: bool,
}

impl From<Settled> for ReportAnswer {
    fn from(settled: Settled) -> Self {
        Self {
            settled: Some(settled),
            had_trouble: false,
        }
    }
}

impl<S: Store + Clone> StoreCalls<S> {
    pub(super) const fn new(context: Arc<Context>, store: S, outage: Policy) -> Self {
        Self {
            context,
            store,
            outage,
        }
    }

    /// Tells whether the pipeline fails open.
    pub(super) fn fails_open(&self) -> bool {
        self.outage.fail == Fail::Open
    }

    /// Waits for the store from now on, whatever the pipeline's policy says.
    pub(super) const fn fail_closed(&mut self) {
        self.outage.fail = Fail::Closed;
    }

    /// Tells whether the store is away and the pipeline fails open.
    pub(super) fn is_away(&self) -> bool {
        self.fails_open() && self.is_left_alone()
    }

    /// Tells whether the store is left alone, whatever the pipeline does meanwhile.
    pub(super) fn is_left_alone(&self) -> bool {
        self.outage.breaker.is_open()
    }

    /// Tells whether the store is to be tried now, although it is away.
    pub(super) fn is_due(&self) -> bool {
        self.outage.breaker.next_try().is_none()
    }

    /// Returns the time at which the store may be asked again; `None` means now.
    pub(super) fn retry_at(&self) -> Option<Duration> {
        let next = self.outage.breaker.next_try()?;
        // Another caller's probe may bring the store back any time.
        Some(next.min(self.context.now() + RECHECK))
    }

    /// Asks for claims, unless the store is away and the pipeline fails open.
    pub(super) async fn try_claim(
        &self,
        outstanding: &Outstanding,
        requests: &Arc<[ClaimRequest]>,
    ) -> Result<Asked<Vec<Admission>>> {
        self.try_claim_again(outstanding, requests, None).await
    }

    /// Does the same for a call that may have been begun already.
    pub(super) async fn try_claim_again(
        &self,
        outstanding: &Outstanding,
        requests: &Arc<[ClaimRequest]>,
        begun: Option<Begun<Vec<Admission>>>,
    ) -> Result<Asked<Vec<Admission>>> {
        if requests.is_empty() {
            return Ok(Asked::Answered(Vec::new()));
        }
        let terms = self.giving_way(self.fails_open(), Purpose::Work);
        self.try_ask_again(outstanding, terms, begun, || self.claim_all(requests))
            .await
    }

    async fn claim_all(&self, requests: &Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        let mut requests = Arc::clone(requests);
        if semel_core::planted("M34") {
            for request in Arc::make_mut(&mut requests) {
                request.claim_id = self.context.surroundings.claim_id();
            }
        }
        all_failed(self.store.claim(requests).await?)
    }

    /// Reports on claims until each item is answered. An item that failed alone is reported again:
    /// asking for its claim again would run its effect again. Items are without an answer, and still to be reported, once
    /// the run has no time left.
    pub(super) async fn settle_all(
        &self,
        outstanding: &Outstanding,
        settlements: &Arc<[Settlement]>,
    ) -> Result<Vec<ReportAnswer>> {
        self.settled(outstanding, settlements, None, Patience::Waits)
            .await
    }

    /// Reports on claims. An item is without an answer, and still to be reported, if the store is away and the pipeline
    /// fails open, or once the run has no time left.
    pub(super) async fn try_settle(
        &self,
        outstanding: &Outstanding,
        settlements: &Arc<[Settlement]>,
    ) -> Result<Vec<ReportAnswer>> {
        self.try_settle_again(outstanding, settlements, None).await
    }

    /// Does the same for a report that may have been begun already.
    pub(super) async fn try_settle_again(
        &self,
        outstanding: &Outstanding,
        settlements: &Arc<[Settlement]>,
        begun: Option<Begun<Vec<Settled>>>,
    ) -> Result<Vec<ReportAnswer>> {
        self.settled(outstanding, settlements, begun, Patience::GivesWay)
            .await
    }

    async fn settled(
        &self,
        outstanding: &Outstanding,
        settlements: &Arc<[Settlement]>,
        begun: Option<Begun<Vec<Settled>>>,
        patience: Patience,
    ) -> Result<Vec<ReportAnswer>> {
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let settle = || self.store.settle(Arc::clone(settlements));
        let terms = self.reporting(patience);
        let asked = self.try_ask_again(outstanding, terms, begun, settle);
        let answers = match asked.await? {
            Asked::Answered(answers) => answers,
            Asked::NotNow { .. } => {
                return Ok(settlements
                    .iter()
                    .map(|_| ReportAnswer::default())
                    .collect());
            }
        };
        self.reported(outstanding, settlements, answers, terms)
            .await
    }

    /// Returns the terms of reports.
    fn reporting(&self, patience: Patience) -> Terms {
        let gives_way = patience == Patience::GivesWay && self.fails_open();
        self.giving_way(gives_way, Purpose::Report)
    }

    /// Returns the answers to reports, of which those that the store failed for alone are asked for again.
    async fn reported(
        &self,
        outstanding: &Outstanding,
        settlements: &[Settlement],
        answers: Vec<Settled>,
        terms: Terms,
    ) -> Result<Vec<ReportAnswer>> {
        let mut reported = Vec::with_capacity(answers.len());
        for (settlement, answer) in settlements.iter().zip(answers) {
            let Settled::Failed(_) = answer else {
                reported.push(answer.into());
                continue;
            };
            let settle = || self.store.settle_one(settlement.clone());
            let asked = self.try_ask_again(outstanding, terms, None, settle);
            let settled = match asked.await? {
                Asked::Answered(answer) => Some(answer),
                Asked::NotNow { .. } => None,
            };
            reported.push(ReportAnswer {
                settled,
                had_trouble: true,
            });
        }
        Ok(reported)
    }

    /// Extends leases, at first after `first`, for as long as the work beside it takes. A claim lost
    /// meanwhile shows when it is next renewed or settled.
    pub(super) async fn keep(
        &self,
        outstanding: &Outstanding,
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
            let renewals: Arc<[_]> = renewals.into();
            let renew = || self.store.renew(Arc::clone(&renewals));
            match self.ask(outstanding, Purpose::Lease, renew).await {
                Ok(renewed) => self.context.observe(&renewed_event(&renewed)),
                // The work beside this meets the same error, and knows more.
                Err(_) => return std::future::pending().await,
            }
        }
    }

    /// Extends the leases of running messages; `None` if nothing was asked, as with
    /// [`try_ask`](Self::try_ask).
    pub(super) async fn try_renew(
        &self,
        outstanding: &Outstanding,
        renewals: Vec<Renewal>,
    ) -> Result<Option<Vec<Renewed>>> {
        if renewals.is_empty() || semel_core::planted("M16") {
            return Ok(Some(Vec::new()));
        }
        let renewals: Arc<[_]> = renewals.into();
        let renew = || self.store.renew(Arc::clone(&renewals));
        let asked = self.try_ask(outstanding, Purpose::Lease, renew).await?;
        let Asked::Answered(renewed) = asked else {
            return Ok(None);
        };
        self.context.observe(&renewed_event(&renewed));
        Ok(Some(renewed))
    }

    /// Returns the record of an operation.
    pub(super) async fn get_one(
        &self,
        outstanding: &Outstanding,
        operation: &Operation,
    ) -> Result<Option<Record>> {
        let get = || self.store.get_one(operation.clone());
        self.ask(outstanding, Purpose::Work, get).await
    }

    /// Returns the records of operations, unless the store is away and the pipeline fails open.
    pub(super) async fn try_get(
        &self,
        outstanding: &Outstanding,
        operations: &Arc<[Operation]>,
    ) -> Result<Asked<Vec<Option<Record>>>> {
        let get = || self.store.get(Arc::clone(operations));
        self.try_ask(outstanding, Purpose::Report, get).await
    }

    /// Parks messages, unless the store is away and the pipeline fails open.
    pub(super) async fn try_park(
        &self,
        outstanding: &Outstanding,
        parked: &Arc<[Parked]>,
    ) -> Result<Asked<()>> {
        let park = || self.store.park(Arc::clone(parked));
        Ok(
            match self.try_ask(outstanding, Purpose::Report, park).await? {
                Asked::Answered(_) => Asked::Answered(()),
                Asked::NotNow { is_maybe } => Asked::NotNow { is_maybe },
            },
        )
    }

    /// Carries out directives.
    pub(super) async fn operate(
        &self,
        outstanding: &Outstanding,
        directives: &Arc<[Directive]>,
    ) -> Result<Vec<Directed>> {
        let operate = || self.store.operate(Arc::clone(directives));
        self.ask_in_turn(outstanding, Purpose::Work, operate).await
    }
}

/// The longest time for which a message is held back before its key is looked at again.
pub(super) const RECHECK: Duration = Duration::from_secs(1);
