//! The requests to a store.

use std::sync::Arc;

use bytes::Bytes;
use semel_core::decide::{Directive, Order, Verdict};
use semel_core::port::store::ListQuery;
use semel_core::port::transfer::Item;
use semel_core::{
    Audited, Certainty, ClaimRequest, Note, Operation, Parked, ParkedId, Renewal, Result,
    Settlement, Start, Step,
};
use serde::{Deserialize, Serialize};

use super::parts::{
    Blob, Caps, Gate, Kept, Named, Remembered, Who, blob, bytes, claim_id, instant, millis, state,
};
use super::{Lines, split};
use crate::control::unlike;
use crate::transfer::value::{Course, Hashes, Hex, Print, Span};

/// A call of [`Store`](semel_core::Store).
#[derive(Clone, Debug)]
pub(in crate::control) enum Request {
    Claim(Arc<[ClaimRequest]>),
    Settle(Arc<[Settlement]>),
    Renew(Arc<[Renewal]>),
    Park(Arc<[Parked]>),
    DropParked(Arc<[ParkedId]>, Option<Note>),
    Get(Arc<[Operation]>),
    List(ListQuery),
    ListParked(ListQuery),
    Operate(Arc<[Directive]>),
    ListAudit(ListQuery),
    Sweep(usize),
    Stats,
    Preflight,
    /// Entries for the audit trail about the store as a whole.
    Note(Vec<Audited>),
    /// A page of everything, from this cursor on: at most so many items.
    Export(Option<Bytes>, usize),
}

impl Request {
    pub(in crate::control) fn to_bytes(&self) -> Result<Vec<u8>> {
        let head = match self {
            Self::Claim(batch) => Head::Claim(batch.iter().map(ClaimLine::of).collect()),
            Self::Settle(batch) => Head::Settle(batch.iter().map(SettleLine::of).collect()),
            Self::Renew(batch) => Head::Renew(batch.iter().map(RenewLine::of).collect()),
            Self::Park(_) => Head::Park,
            Self::DropParked(ids, note) => Head::DropParked {
                ids: ids.iter().map(|id| Hex(id.to_bytes())).collect(),
                note: note.as_ref().map(Who::of),
            },
            Self::Get(batch) => Head::Get(batch.iter().map(Named::of).collect()),
            Self::List(query) => Head::List(Query::of(query)),
            Self::ListParked(query) => Head::ListParked(Query::of(query)),
            Self::Operate(batch) => Head::Operate(batch.iter().map(OrderLine::of).collect()),
            Self::ListAudit(query) => Head::ListAudit(Query::of(query)),
            Self::Sweep(limit) => Head::Sweep(*limit),
            Self::Stats => Head::Stats,
            Self::Preflight => Head::Preflight,
            Self::Note(_) => Head::Note,
            Self::Export(after, limit) => Head::Export {
                after: after.as_deref().map(blob),
                limit: *limit,
            },
        };
        let mut lines = Lines::begin(&head)?;
        if let Self::Park(batch) = self {
            for message in &**batch {
                lines.item(&Item::Parked(Box::new(message.clone())))?;
            }
        }
        if let Self::Note(entries) = self {
            for entry in entries {
                lines.item(&Item::Audited(Box::new(entry.clone())))?;
            }
        }
        Ok(lines.0)
    }

    /// # Errors   `InvalidInput`: it is no request
    pub(in crate::control) fn from_bytes(message: &[u8]) -> Result<Self> {
        let (head, items) = split(message);
        let head: Head = serde_json::from_slice(head).map_err(|_| unlike("no request"))?;
        Ok(match head {
            Head::Claim(batch) => Self::Claim(all(batch, ClaimLine::request)?),
            Head::Settle(batch) => Self::Settle(all(batch, SettleLine::settlement)?),
            Head::Renew(batch) => Self::Renew(all(batch, RenewLine::renewal)?),
            Head::Park => {
                let parked = items.map(|item| match item? {
                    Some(Item::Parked(message)) => Ok(*message),
                    _ => Err(unlike("no message to be kept")),
                });
                Self::Park(parked.collect::<Result<_>>()?)
            }
            Head::DropParked { ids, note } => {
                let ids = ids.into_iter().map(|id| ParkedId::from_bytes(id.0));
                Self::DropParked(ids.collect(), note.map(Who::note))
            }
            Head::Get(batch) => Self::Get(all(batch, Named::operation)?),
            Head::List(query) => Self::List(query.query()?),
            Head::ListParked(query) => Self::ListParked(query.query()?),
            Head::Operate(batch) => Self::Operate(all(batch, OrderLine::directive)?),
            Head::ListAudit(query) => Self::ListAudit(query.query()?),
            Head::Sweep(limit) => Self::Sweep(limit),
            Head::Stats => Self::Stats,
            Head::Preflight => Self::Preflight,
            Head::Note => {
                let entries = items.map(|item| match item? {
                    Some(Item::Audited(entry)) => Ok(*entry),
                    _ => Err(unlike("no entry of the audit trail")),
                });
                Self::Note(entries.collect::<Result<_>>()?)
            }
            Head::Export { after, limit } => Self::Export(after.map(bytes), limit),
        })
    }
}

fn all<T, U>(batch: Vec<T>, read: impl FnMut(T) -> Result<U>) -> Result<Arc<[U]>> {
    batch.into_iter().map(read).collect()
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Head {
    Claim(Vec<ClaimLine>),
    Settle(Vec<SettleLine>),
    Renew(Vec<RenewLine>),
    /// The messages follow.
    Park,
    DropParked {
        ids: Vec<Hex<16>>,
        note: Option<Who>,
    },
    Get(Vec<Named>),
    List(Query),
    ListParked(Query),
    Operate(Vec<OrderLine>),
    ListAudit(Query),
    Sweep(usize),
    Stats,
    Preflight,
    /// The entries follow.
    Note,
    Export {
        after: Option<Blob>,
        limit: usize,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct ClaimLine {
    of: Named,
    claim: Hex<16>,
    fingerprint: Option<Print>,
    #[serde(default)]
    members: Option<Hashes>,
    transport: Option<Blob>,
    birth: Option<u64>,
    window: Kept,
    lease: Span,
    limits: Caps,
    /// None is a claim that is not marked as a start.
    start: Option<Course>,
    gate: Option<Gate>,
    wants_outcome: bool,
}

impl ClaimLine {
    fn of(request: &ClaimRequest) -> Self {
        Self {
            of: Named::of(&request.operation),
            claim: Hex(request.claim_id.to_bytes()),
            fingerprint: request.fingerprint.map(Print),
            members: request.members.clone().map(Hashes),
            transport: request.transport.as_deref().map(blob),
            birth: request.birth.map(millis),
            window: Kept::of(request.window),
            lease: Span(request.lease),
            limits: Caps::of(request.limits),
            start: match request.start {
                Start::Unmarked => None,
                Start::Marked(recovery) => Some(Course(recovery)),
            },
            gate: request.gate.as_ref().map(Gate::of),
            wants_outcome: request.wants_outcome,
        }
    }

    fn request(self) -> Result<ClaimRequest> {
        Ok(ClaimRequest {
            operation: self.of.operation()?,
            claim_id: claim_id(self.claim),
            fingerprint: self.fingerprint.map(|print| print.0),
            members: self.members.map(|members| members.0),
            transport: self.transport.map(bytes),
            birth: self.birth.map(instant),
            window: self.window.window(),
            lease: self.lease.0,
            limits: self.limits.limits(),
            start: self
                .start
                .map_or(Start::Unmarked, |recovery| Start::Marked(recovery.0)),
            gate: self.gate.map(Gate::gate).transpose()?,
            wants_outcome: self.wants_outcome,
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct SettleLine {
    of: Named,
    claim: Hex<16>,
    step: StepLine,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StepLine {
    Start {
        recovery: Course,
        has_begun: bool,
    },
    Complete {
        outcome: Remembered,
        window: Kept,
    },
    Release {
        error: String,
        is_maybe_applied: bool,
        after: Span,
        counted: bool,
        limits: Caps,
        window: Kept,
    },
    Fail {
        error: String,
        decisive: bool,
        window: Kept,
    },
}

impl SettleLine {
    fn of(settlement: &Settlement) -> Self {
        let step = match &settlement.step {
            Step::Start {
                recovery,
                has_begun,
            } => StepLine::Start {
                recovery: Course(*recovery),
                has_begun: *has_begun,
            },
            Step::Complete { outcome, window } => StepLine::Complete {
                outcome: Remembered::of(outcome),
                window: Kept::of(*window),
            },
            Step::Release {
                error,
                certainty,
                after,
                counted,
                limits,
                window,
            } => StepLine::Release {
                error: (**error).to_owned(),
                is_maybe_applied: *certainty == Certainty::MaybeApplied,
                after: Span(*after),
                counted: *counted,
                limits: Caps::of(*limits),
                window: Kept::of(*window),
            },
            Step::Fail {
                error,
                decisive,
                window,
            } => StepLine::Fail {
                decisive: *decisive,
                error: (**error).to_owned(),
                window: Kept::of(*window),
            },
        };
        Self {
            of: Named::of(&settlement.operation),
            claim: Hex(settlement.claim_id.to_bytes()),
            step,
        }
    }

    fn settlement(self) -> Result<Settlement> {
        let step = match self.step {
            StepLine::Start {
                recovery,
                has_begun,
            } => Step::Start {
                recovery: recovery.0,
                has_begun,
            },
            StepLine::Complete { outcome, window } => Step::Complete {
                outcome: outcome.outcome(),
                window: window.window(),
            },
            StepLine::Release {
                error,
                is_maybe_applied,
                after,
                counted,
                limits,
                window,
            } => Step::Release {
                error: error.into(),
                certainty: if is_maybe_applied {
                    Certainty::MaybeApplied
                } else {
                    Certainty::NotApplied
                },
                after: after.0,
                counted,
                limits: limits.limits(),
                window: window.window(),
            },
            StepLine::Fail {
                error,
                decisive,
                window,
            } => Step::Fail {
                decisive,
                error: error.into(),
                window: window.window(),
            },
        };
        Ok(Settlement {
            operation: self.of.operation()?,
            claim_id: claim_id(self.claim),
            step,
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct RenewLine {
    of: Named,
    claim: Hex<16>,
    lease: Span,
}

impl RenewLine {
    fn of(renewal: &Renewal) -> Self {
        Self {
            of: Named::of(&renewal.operation),
            claim: Hex(renewal.claim_id.to_bytes()),
            lease: Span(renewal.lease),
        }
    }

    fn renewal(self) -> Result<Renewal> {
        Ok(Renewal {
            operation: self.of.operation()?,
            claim_id: claim_id(self.claim),
            lease: self.lease.0,
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct OrderLine {
    of: Named,
    order: Ordered,
    note: Option<Who>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ordered {
    Applied { outcome: Remembered, window: Kept },
    NotApplied { quiet: Span, asked: Option<u64> },
    Abandon { window: Kept },
    Release,
    Requeue,
    Retry,
    Hold(bool),
    Forget,
    Extend(Span),
}

impl OrderLine {
    fn of(directive: &Directive) -> Self {
        let order = match &directive.order {
            Order::Resolve(Verdict::Applied { outcome, window }) => Ordered::Applied {
                outcome: Remembered::of(outcome),
                window: Kept::of(*window),
            },
            Order::Resolve(Verdict::NotApplied { quiet, asked }) => Ordered::NotApplied {
                quiet: Span(*quiet),
                asked: asked.map(millis),
            },
            Order::Resolve(Verdict::Abandon { window }) => Ordered::Abandon {
                window: Kept::of(*window),
            },
            Order::Release => Ordered::Release,
            Order::Requeue => Ordered::Requeue,
            Order::Retry => Ordered::Retry,
            Order::Hold(held) => Ordered::Hold(*held),
            Order::Forget => Ordered::Forget,
            Order::Extend(duration) => Ordered::Extend(Span(*duration)),
        };
        Self {
            of: Named::of(&directive.operation),
            order,
            note: directive.note.as_ref().map(Who::of),
        }
    }

    fn directive(self) -> Result<Directive> {
        let order = match self.order {
            Ordered::Applied { outcome, window } => Order::Resolve(Verdict::Applied {
                outcome: outcome.outcome(),
                window: window.window(),
            }),
            Ordered::NotApplied { quiet, asked } => Order::Resolve(Verdict::NotApplied {
                quiet: quiet.0,
                asked: asked.map(instant),
            }),
            Ordered::Abandon { window } => Order::Resolve(Verdict::Abandon {
                window: window.window(),
            }),
            Ordered::Release => Order::Release,
            Ordered::Requeue => Order::Requeue,
            Ordered::Retry => Order::Retry,
            Ordered::Hold(held) => Order::Hold(held),
            Ordered::Forget => Order::Forget,
            Ordered::Extend(Span(duration)) => Order::Extend(duration),
        };
        Ok(Directive {
            operation: self.of.operation()?,
            order,
            note: self.note.map(Who::note),
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Query {
    tenant: Option<String>,
    operation: Option<String>,
    state: Option<String>,
    repeated: bool,
    reasons: Vec<String>,
    after: Option<Blob>,
    limit: usize,
}

impl Query {
    fn of(query: &ListQuery) -> Self {
        Self {
            tenant: query.tenant.as_deref().map(str::to_owned),
            operation: query.operation.as_deref().map(str::to_owned),
            state: query.state.map(|state| state.as_str().to_owned()),
            repeated: query.repeated,
            reasons: query.reasons.iter().map(|it| (**it).to_owned()).collect(),
            after: query.after.as_deref().map(blob),
            limit: query.limit,
        }
    }

    fn query(self) -> Result<ListQuery> {
        Ok(ListQuery {
            tenant: self.tenant.map(Into::into),
            operation: self.operation.map(Into::into),
            state: self.state.as_deref().map(state).transpose()?,
            repeated: self.repeated,
            reasons: self.reasons.into_iter().map(Into::into).collect(),
            after: self.after.map(bytes),
            limit: self.limit,
        })
    }
}
