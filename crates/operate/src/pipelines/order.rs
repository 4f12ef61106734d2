//! Plans to pause, drain or resume a pipeline, and carries them out.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use semel_core::decide::{Directed, Directive, Order};
use semel_core::port::store::{Store, StoreExt};
use semel_core::{
    Admission, AnyStore, ClaimId, ClaimRequest, Error, ErrorKind, Note, Operation, Result, Settled,
    Settlement, Step, Timestamp, Window,
};
use serde::{Deserialize, Serialize};

use super::pause_record::{OrderedPause, PauseKind, outcome};
use crate::relative_time::when;

/// An order about a pipeline or a relay as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineOrder {
    /// It begins no more effects: those that run are finished, and everything else in hand is given back.
    Pause,
    /// It takes in no more messages: everything in hand is finished.
    Drain,
    /// It runs again.
    Resume,
}

/// An order that would change something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedPipeline {
    /// The pipeline, or the relay.
    pub pipeline: Box<str>,
    /// True for a relay.
    pub is_relay: bool,
    /// The order.
    pub order: PipelineOrder,
    /// The order that stands until then.
    pub before: Option<OrderedPause>,
}

/// The result for one pipeline or relay: the documented object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineChange {
    /// The pipeline, or the relay.
    pub pipeline: Box<str>,
    /// True for a relay.
    #[serde(default, rename = "relay", skip_serializing_if = "std::ops::Not::not")]
    pub is_relay: bool,
    /// The order, by its name in the audit trail.
    pub action: Cow<'static, str>,
    /// The order that stood until then: `run`, `pause` or `drain`.
    pub before: Cow<'static, str>,
    /// The order that stands now.
    pub after: Cow<'static, str>,
}

impl PipelineOrder {
    /// The name of the order.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Drain => "drain",
            Self::Resume => "resume",
        }
    }

    /// Plans the order for a pipeline about which another one may stand.
    ///
    /// # Errors
    ///
    /// A sentence that says why nothing would change
    pub fn plan(
        self,
        pipeline: &str,
        before: Option<OrderedPause>,
        now: Timestamp,
    ) -> std::result::Result<PlannedPipeline, String> {
        match (self, &before) {
            (
                Self::Pause,
                None
                | Some(OrderedPause {
                    kind: PauseKind::Drain,
                    ..
                }),
            )
            | (Self::Drain, None)
            | (Self::Resume, Some(_)) => Ok(PlannedPipeline {
                pipeline: pipeline.into(),
                is_relay: false,
                order: self,
                before,
            }),
            (Self::Pause | Self::Drain, Some(standing)) => {
                let done = match standing.kind {
                    PauseKind::Pause => "paused",
                    PauseKind::Drain => "drained",
                };
                Err(format!(
                    "it is {done} since {} already",
                    when(standing.since, now)
                ))
            }
            (Self::Resume, None) => Err("it is not paused".to_owned()),
        }
    }
}

impl PlannedPipeline {
    /// The same order about a relay, whose store is the one beside its outbox.
    #[must_use]
    pub fn of_relay(self) -> Self {
        Self {
            is_relay: true,
            ..self
        }
    }

    /// The object that tells of the change.
    pub fn change(&self) -> PipelineChange {
        PipelineChange {
            pipeline: self.pipeline.clone(),
            is_relay: self.is_relay,
            action: self.order.as_str().into(),
            before: self
                .before
                .as_ref()
                .map_or("run", |it| it.kind.as_str())
                .into(),
            after: Cow::Borrowed(match self.order {
                PipelineOrder::Pause => "pause",
                PipelineOrder::Drain => "drain",
                PipelineOrder::Resume => "run",
            }),
        }
    }

    /// Carries the order out at `now`; `claim_id` is fresh. A pipeline that goes from being drained to being paused is
    /// not resumed in between.
    ///
    /// # Errors
    ///
    /// Those of the store; `Conflict`: somebody else gives an order about this pipeline
    ///
    /// # Cancel safety
    ///
    /// Safe: an order that was given stands, and can be given again
    pub async fn give(
        &self,
        store: &AnyStore,
        note: &Note,
        claim_id: ClaimId,
        now: Timestamp,
    ) -> Result<()> {
        match self.order {
            PipelineOrder::Pause => {
                hold(
                    store,
                    self.operation(PauseKind::Pause)?,
                    note,
                    claim_id,
                    now,
                )
                .await?;
                if self.before.is_some() {
                    let former = self.operation(PauseKind::Drain)?;
                    // The pause stands, whatever becomes of the order before it, and its entry is in the audit trail.
                    let _ = forget(store, [former].into(), None).await;
                }
                Ok(())
            }
            PipelineOrder::Drain => {
                hold(
                    store,
                    self.operation(PauseKind::Drain)?,
                    note,
                    claim_id,
                    now,
                )
                .await
            }
            PipelineOrder::Resume => {
                let all = PauseKind::ALL.map(|kind| self.operation(kind));
                let all = all.into_iter().collect::<Result<Vec<_>>>()?;
                let known = store.get(all.clone().into()).await;
                let known = known.map_err(Error::not_applied)?;
                let standing = all.into_iter().zip(known);
                let standing = standing.filter_map(|(it, record)| record.map(|_| it));
                forget(store, standing.collect(), Some(note)).await
            }
        }
    }

    fn operation(&self, kind: PauseKind) -> Result<Operation> {
        kind.operation(&self.pipeline)
    }
}

/// Makes the record of an order, and holds it: from then on the order stands.
///
/// The record that is not held yet has a short window: whoever dies before holding it leaves nothing that has to be
/// removed, which could remove an order that is held meanwhile.
async fn hold(
    store: &AnyStore,
    operation: Operation,
    note: &Note,
    claim_id: ClaimId,
    now: Timestamp,
) -> Result<()> {
    let request = ClaimRequest {
        lease: LEASE,
        ..ClaimRequest::new(operation.scope.clone(), operation.key.clone(), claim_id)
    };
    let claim = match store.claim_one(request).await? {
        Admission::Granted(claim) => claim,
        // Somebody else has given the order meanwhile, or is about to.
        Admission::Replay { .. }
        | Admission::Busy { .. }
        | Admission::Conflict { .. }
        | Admission::Stale { .. }
        | Admission::Parked { .. }
        | Admission::TooOld
        | Admission::Failed(_) => return Err(conflict()),
    };
    let settlement = Settlement {
        operation: operation.clone(),
        claim_id: claim.claim_id,
        step: Step::Complete {
            outcome: outcome(note, now),
            window: Window::new(LEASE),
        },
    };
    if let Settled::Fenced { .. } = store.settle_one(settlement).await? {
        return Err(conflict());
    }
    let order = Directive {
        operation,
        order: Order::Hold(true),
        note: Some(note.clone()),
    };
    match store.operate_one(order).await? {
        Directed::Refused(_) => Err(conflict()),
        Directed::Now(_) | Directed::Failed(_) => Ok(()),
    }
}

/// Takes orders back: their records go.
async fn forget(store: &AnyStore, operations: Vec<Operation>, note: Option<&Note>) -> Result<()> {
    let orders: Arc<[_]> = operations
        .into_iter()
        .map(|operation| Directive {
            operation,
            order: Order::Forget,
            note: note.cloned(),
        })
        .collect();
    for answer in store.operate(orders).await? {
        match answer {
            // One that is gone was taken back by somebody else.
            Directed::Now(_) | Directed::Refused(_) => {}
            Directed::Failed(error) => return Err(error),
        }
    }
    Ok(())
}

fn conflict() -> Error {
    let message = "somebody else gives an order about this pipeline; look, and order again";
    Error::new(ErrorKind::Conflict, message)
}

/// The time within which a record is made, and within which it is held then. Whoever dies meanwhile leaves no order, and
/// holds up the next one for about so long.
const LEASE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
