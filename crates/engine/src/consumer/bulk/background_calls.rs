//! Store calls that run in the background.

use std::collections::VecDeque;
use std::sync::Arc;

use semel_core::{Admission, ClaimRequest, Result, Settled, Store};

use crate::consumer::outstanding::Outstanding;
use crate::consumer::pending_settlements::PendingSettlements;
use crate::consumer::steps::Taken;
use crate::consumer::store_calls::{Asked, Begun, ReportAnswer, StoreCalls};

/// The turns that the store works on, the oldest first. Dropping this ends all of them.
#[derive(Default)]
pub(super) struct BackgroundCalls {
    under_way: VecDeque<BackgroundCall>,
}

/// One turn: a report of what has ended and a request for claims, side by side, so that one durable write can
/// carry both.
pub(super) struct BackgroundCall {
    settling: PendingSettlements,
    settled: Option<Begun<Vec<Settled>>>,
    taken: Taken,
    requests: Arc<[ClaimRequest]>,
    admitted: Option<Begun<Vec<Admission>>>,
}

/// The store's answers to one turn.
pub(super) struct Answered {
    pub(super) settling: PendingSettlements,
    pub(super) settled: Vec<ReportAnswer>,
    pub(super) taken: Taken,
    pub(super) admitted: Asked<Vec<Admission>>,
}

impl BackgroundCalls {
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Counts the turns that ask for claims.
    pub(super) fn claiming(&self) -> usize {
        let claiming = self.under_way.iter().filter(|call| call.is_claiming());
        claiming.count()
    }

    /// Counts the messages for which these turns ask for claims.
    pub(super) fn messages(&self) -> usize {
        self.under_way.iter().map(BackgroundCall::messages).sum()
    }

    /// Tells whether another turn may begin. A store that is away gets one turn at a time, and the consumer
    /// waits for its answer.
    pub(super) fn have_room(&self, is_store_left_alone: bool) -> bool {
        self.is_empty() || (self.under_way.len() < MOST_UNDER_WAY && !is_store_left_alone)
    }

    /// Begins another turn.
    pub(super) fn begin<S: Store + Clone>(
        &mut self,
        store: &StoreCalls<S>,
        mut settling: PendingSettlements,
        taken: Taken,
    ) {
        let requests = taken.messages.iter();
        let requests: Arc<[_]> = requests.map(|incoming| incoming.request.clone()).collect();
        self.under_way.push_back(BackgroundCall {
            settled: store.begin_settle(&settling.report()),
            settling,
            admitted: store.begin_claim(&requests),
            requests,
            taken,
        });
    }

    /// Waits until the first turn has ended or has taken too long; for ever if there is none. Cancel safe.
    pub(super) async fn ended(&mut self) {
        match self.under_way.front_mut() {
            Some(first) => first.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Takes out the first turn if it has ended by now.
    pub(super) async fn take_ended(&mut self) -> Option<BackgroundCall> {
        tokio::select! {
            biased;
            () = self.ended() => self.take_first(),
            () = std::future::ready(()) => None,
        }
    }

    /// Takes out the first turn.
    pub(super) fn take_first(&mut self) -> Option<BackgroundCall> {
        self.under_way.pop_front()
    }

    /// Takes out the first turn if it was made while the store was left alone: it has not been asked.
    pub(super) fn take_unbegun(&mut self) -> Option<BackgroundCall> {
        let first = self.under_way.front()?;
        let is_unbegun = !first.is_begun();
        is_unbegun.then(|| self.take_first()).flatten()
    }
}

impl BackgroundCall {
    /// Tells whether this turn asks for claims.
    pub(super) fn is_claiming(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Counts the messages for which this turn asks for claims.
    pub(super) fn messages(&self) -> usize {
        self.requests.len()
    }

    const fn is_begun(&self) -> bool {
        self.settled.is_some() || self.admitted.is_some()
    }

    async fn ended(&mut self) {
        if let Some(settled) = &mut self.settled {
            settled.ended().await;
        }
        if let Some(admitted) = &mut self.admitted {
            admitted.ended().await;
        }
    }

    /// Repeats the calls until the store answers, or is away and the pipeline fails open.
    pub(super) async fn answered<S: Store + Clone>(
        self,
        store: &StoreCalls<S>,
        outstanding: &Outstanding,
    ) -> Result<Answered> {
        let is_begun = self.is_begun();
        let Self {
            mut settling,
            settled,
            taken,
            requests,
            admitted,
        } = self;
        let settlements = settling.report();
        let settling_it = store.try_settle_again(outstanding, &settlements, settled);
        let claiming = store.try_claim_again(outstanding, &requests, admitted);
        let (settled, admitted) = if store.is_away() && !is_begun {
            // One probe, not two.
            (settling_it.await?, claiming.await?)
        } else {
            tokio::try_join!(settling_it, claiming)?
        };
        Ok(Answered {
            settling,
            settled,
            taken,
            admitted,
        })
    }
}

/// Enough turns to keep the store busy: one that it works on, and one that comes next.
const MOST_UNDER_WAY: usize = 2;
