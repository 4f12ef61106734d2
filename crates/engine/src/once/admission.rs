//! The first part of a call: it asks for claims, and answers items that are decided by that alone.

use std::sync::Arc;
use std::time::Duration;

use semel_core::{
    Admission, Claim, ClaimRequest, Differing, ErrorKind, FencingToken, Record, Renewed, StateKind,
    Store, Timestamp,
};
use tokio::sync::watch;
use tokio::time::timeout;

use super::error::{Cause, Error};
use super::op::Op;
use super::run::{Answer, Busy, Held, Run, unanswered};
use crate::effect::Class;
use crate::event::Event;
use crate::lease::Lease;
use crate::retry::is_final;

impl<S: Store + Clone> Run<S> {
    /// Asks for claims and answers items that are decided by that alone.
    pub(super) async fn admit(
        &mut self,
        pending: &[usize],
        is_first: bool,
    ) -> (Vec<Held<S>>, Vec<Busy>) {
        let requests: Arc<[_]> = pending
            .iter()
            .map(|&index| self.requests[index].clone())
            .collect();
        let asked_at = self.shared.now();
        self.begin_traces(pending);
        let admissions = match self.claim(&requests).await {
            Ok(admissions) => admissions,
            Err(error) => {
                for &index in pending {
                    self.not_claimed(index, error.clone());
                }
                return (Vec::new(), Vec::new());
            }
        };
        let (mut granted, mut busy, mut parked) = (Vec::new(), Vec::new(), Vec::new());
        for ((&index, request), admission) in pending.iter().zip(&*requests).zip(admissions) {
            let admission = match admission {
                Admission::Failed(error) if is_final(&error) => Err(error),
                Admission::Failed(_) => {
                    self.trace(index, |trace, _| trace.had_trouble = true);
                    self.claim_alone(request).await
                }
                admission => Ok(admission),
            };
            if let Ok(admission) = &admission {
                self.trace(index, |trace, now| trace.admitted(now, admission));
            }
            match admission {
                Ok(Admission::Granted(claim)) => {
                    self.seen_busy[index] = None;
                    granted.push((index, claim));
                }
                Ok(Admission::Busy { until, now }) => {
                    if semel_core::planted("O01") {
                        granted.push((index, forged(request, until)));
                        continue;
                    }
                    let wait = until.since(now);
                    self.seen_busy[index] = Some(wait);
                    if is_first {
                        let operation = &request.operation;
                        self.observe(index, &Event::Busy { operation, wait });
                    }
                    busy.push(Busy { index, wait });
                }
                Ok(Admission::Parked { state, .. }) => parked.push((index, state)),
                Ok(admission) => self.decided(index, admission),
                Err(error) => self.not_claimed(index, error),
            }
        }
        self.explain(parked).await;
        let granted = self.freshen(granted, asked_at).await;
        (granted, busy)
    }

    /// Answers an item that does not run.
    fn decided(&mut self, index: usize, admission: Admission) {
        let operation = self.requests[index].operation.clone();
        let operation_id = || operation.id();
        let observe = |event: &Event<'_>| self.observe(index, event);
        let operation = &operation;
        let coordinates = "";
        let answer = match admission {
            Admission::Replay {
                outcome: Some(outcome),
                duplicate,
            } => {
                observe(&Event::Replayed {
                    operation,
                    duplicate,
                });
                Ok(Answer::Replayed { outcome, duplicate })
            }
            Admission::Conflict { duplicate, first } => {
                let differing = match &self.readings[index] {
                    Some(reading) => reading.differing(operation, first.as_ref()),
                    None => Differing::NoMembers,
                };
                observe(&Event::Conflicted {
                    operation,
                    coordinates,
                    duplicate,
                    differing: &differing,
                });
                Err(Error::Conflict {
                    operation_id: operation_id(),
                    differing,
                })
            }
            Admission::Stale { applied } => {
                observe(&Event::Stale { operation, applied });
                Err(Error::Stale {
                    operation_id: operation_id(),
                    applied,
                })
            }
            Admission::TooOld => {
                observe(&Event::TooOld {
                    operation,
                    coordinates,
                });
                let operation_id = operation_id();
                Err(Error::TooOld { operation_id })
            }
            Admission::Failed(error) => Err(self.not_asked(index, error)),
            Admission::Replay { outcome: None, .. } => {
                let message = "the store answered a replay without the outcome";
                let error = semel_core::Error::new(ErrorKind::Internal, message);
                Err(self.not_asked(index, error))
            }
            // The caller deals with these.
            Admission::Granted(_) | Admission::Busy { .. } | Admission::Parked { .. } => {
                Err(unanswered())
            }
        };
        self.answer(index, answer);
    }

    /// Answers items that are dead or in doubt, with the reason on record.
    async fn explain(&mut self, parked: Vec<(usize, StateKind)>) {
        if parked.is_empty() {
            return;
        }
        let operations: Arc<[_]> = parked
            .iter()
            .map(|&(index, _)| self.requests[index].operation.clone())
            .collect();
        let store = self.store.clone();
        // Only text for people depends on this.
        let records = timeout(EXPLAIN_WITHIN, store.get(Arc::clone(&operations))).await;
        let mut records = records
            .ok()
            .and_then(Result::ok)
            .unwrap_or_default()
            .into_iter();
        for ((index, state), operation) in parked.into_iter().zip(&*operations) {
            let coordinates = "";
            self.observe(
                index,
                &Event::Parked {
                    operation,
                    coordinates,
                    state,
                },
            );
            let source = on_record(records.next().flatten());
            let error = Error::given_up_before(state, operation.id(), source);
            self.answer(index, Err(error));
        }
    }

    /// Takes granted claims in hand. Claims that may have run out while their answer was on its way are renewed first:
    /// an effect never begins under a lease that another claimant may have taken.
    async fn freshen(&mut self, granted: Vec<(usize, Claim)>, asked_at: Duration) -> Vec<Held<S>> {
        let mut held = Vec::with_capacity(granted.len());
        for (index, mut claim) in granted {
            let (mut claimed_at, mut asked_at) = (asked_at, asked_at);
            let mut is_fresh = !claim.resumed;
            while !(is_fresh && self.may_begin(asked_at)) {
                (asked_at, is_fresh) = (self.shared.now(), true);
                match self.renew_alone(&claim).await {
                    Ok(Renewed::Until(until)) => claim.lease_until = until,
                    // Nothing was begun under the claim, so the item asks again like a new claimant.
                    Ok(Renewed::Lost { .. }) => {
                        self.ask_anew(index);
                        let request = self.requests[index].clone();
                        self.begin_traces(&[index]);
                        let admission = self.claim_alone(&request).await;
                        if let Ok(admission) = &admission {
                            self.trace(index, |trace, now| trace.admitted(now, admission));
                        }
                        match admission {
                            Ok(Admission::Granted(newer)) => {
                                (claim, claimed_at) = (newer, asked_at);
                            }
                            Ok(Admission::Busy { until, now }) => {
                                self.answer(index, Err(self.busy(index, until.since(now))));
                                break;
                            }
                            Ok(Admission::Parked { state, .. }) => {
                                self.explain(vec![(index, state)]).await;
                                break;
                            }
                            Ok(admission) => {
                                self.decided(index, admission);
                                break;
                            }
                            Err(error) => {
                                self.not_claimed(index, error);
                                break;
                            }
                        }
                    }
                    Ok(Renewed::Failed(error)) | Err(error) => {
                        self.answer(index, Err(self.not_asked(index, error)));
                        break;
                    }
                }
            }
            if self.answers[index].is_none() {
                let begin_by = self.begin_by(&claim, claimed_at, asked_at);
                held.push(self.hold(index, claim, asked_at, begin_by));
            }
        }
        held
    }

    /// Answers an item whose claim could not be asked for.
    fn not_claimed(&mut self, index: usize, error: semel_core::Error) {
        self.trace(index, |trace, now| trace.answered(now, "failed", None));
        self.answer(index, Err(self.not_asked(index, error)));
    }

    fn hold(
        &self,
        index: usize,
        claim: Claim,
        asked_at: Duration,
        begin_by: Option<Duration>,
    ) -> Held<S> {
        let (stop, stopped) = watch::channel(false);
        Held {
            index,
            op: Op::new(
                claim.clone(),
                stopped,
                self.carried.clone(),
                self.effect_span(index),
            ),
            presence: self.shared.enter(&claim.operation),
            claim,
            stop,
            asked_at,
            began_at: None,
            begin_by,
        }
    }

    /// Returns the time by which a keyed effect must have begun that was claimed at `claimed_at` and whose lease was
    /// last asked for at `asked_at`. It is the later of two times: the end of its provider's window, and one lease
    /// after its claim, since the store last said at the claim that it may begin. A lease that is renewed before the
    /// effect begins does not make the window longer: DBT-3.
    fn begin_by(
        &self,
        claim: &Claim,
        claimed_at: Duration,
        asked_at: Duration,
    ) -> Option<Duration> {
        let Class::Keyed { provider_window } = self.settings.class else {
            return None;
        };
        if semel_core::planted("O12") {
            return None;
        }
        let lease = self.settings.lease;
        let then = claim.lease_until.minus(lease);
        let first = claim.first_started_at.unwrap_or(then);
        let left = first.plus(provider_window).since(then);
        Some((claimed_at + lease).max(asked_at + left))
    }

    pub(super) fn lease(&self, asked_at: Duration) -> Lease {
        let term = self.settings.lease;
        Lease { asked_at, term }
    }

    /// Tells whether a lease that was asked for at `asked_at` has enough left to begin under it.
    pub(super) fn may_begin(&self, asked_at: Duration) -> bool {
        self.lease(asked_at).may_begin(self.shared.now()) || semel_core::planted("O10")
    }
}

fn on_record(record: Option<Record>) -> Cause {
    match record.and_then(|record| record.last_error) {
        Some(error) => String::from(error).into(),
        None => "no reason is on record".into(),
    }
}

/// Returns the claim of a caller who does not wait for a grant.
fn forged(request: &ClaimRequest, lease_until: Timestamp) -> Claim {
    Claim {
        operation: request.operation.clone(),
        claim_id: request.claim_id,
        token: FencingToken::new(0),
        lease_until,
        attempt: 1,
        takeover: false,
        resumed: false,
        formerly_expired: false,
        possible_repeat: false,
        first_started_at: None,
    }
}

/// The longest time for looking up the reason of a refusal.
const EXPLAIN_WITHIN: Duration = Duration::from_secs(1);
