//! The trace of a request while it is answered: the identities of its spans, and the times so far. Not for handing them
//! over.

use std::time::Duration;

use semel_core::claim::Grant;
use semel_core::{
    Admission, Carried, ClaimId, Duplicate, SpanId, StateKind, TraceContext, TraceFlags, TraceId,
};
use semel_engine::summary::Fate;
use semel_engine::trace::{End, SampleShare};

/// The request that claims or steps came in.
#[derive(Clone, Debug)]
pub(crate) struct RequestTrace {
    /// Its path, with the name of a part that differs in braces.
    pub(crate) route: &'static str,
    pub(crate) carried: Option<Carried>,
    pub(crate) share: SampleShare,
    pub(crate) began_at: Duration,
}

/// The trace of one claim or step of a request.
#[derive(Clone, Debug)]
pub(crate) struct ItemTrace {
    pub(crate) request: RequestTrace,
    /// The span of the whole.
    pub(crate) process: TraceContext,
    /// The span of the claim, which is below it.
    pub(crate) claim: TraceContext,
    /// The span of the report, which is below it.
    pub(crate) settle: TraceContext,
}

/// The time that the store took to answer, and how often it was asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreCall {
    pub(crate) count: u32,
    pub(crate) began_at: Option<Duration>,
    pub(crate) ended_at: Option<Duration>,
}

/// The facts about a claim that its spans have, from the store's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimFacts {
    pub(crate) decision: &'static str,
    pub(crate) duplicate: Option<Duplicate>,
    pub(crate) grant: Option<Grant>,
    pub(crate) had_trouble: bool,
    pub(crate) end: End,
}

impl ClaimFacts {
    /// A claim that the store gave no answer to.
    pub(crate) const UNANSWERED: Self = Self {
        decision: "failed",
        duplicate: None,
        grant: None,
        had_trouble: true,
        end: End::StoreFailed,
    };

    pub(crate) fn of(admission: &Admission) -> Self {
        let (mut duplicate, mut grant) = (None, None);
        let end = match admission {
            Admission::Granted(claim) => {
                grant = Some(claim.grant());
                End::Claimed
            }
            Admission::Replay { duplicate: way, .. } => {
                duplicate = Some(*way);
                End::Fate(Fate::Replayed)
            }
            Admission::Busy { .. } => End::Gone,
            Admission::Conflict { duplicate: way, .. } => {
                duplicate = Some(*way);
                End::Fate(Fate::Conflict)
            }
            Admission::Stale { .. } => End::Fate(Fate::Stale),
            Admission::TooOld => End::Fate(Fate::TooOld),
            Admission::Parked {
                state,
                duplicate: way,
                ..
            } => {
                duplicate = Some(*way);
                End::Fate(match state {
                    StateKind::Dead => Fate::Dead,
                    StateKind::InDoubt
                    | StateKind::Claimed
                    | StateKind::Started
                    | StateKind::Released
                    | StateKind::Completed => Fate::InDoubt,
                })
            }
            Admission::Failed(_) => return Self::UNANSWERED,
        };
        Self {
            decision: admission.as_str(),
            duplicate,
            grant,
            had_trouble: false,
            end,
        }
    }
}

impl RequestTrace {
    /// Begins the trace of a claim, or of a step with it.
    pub(crate) fn item(&self, claim_id: ClaimId, random: u64) -> ItemTrace {
        let [process, claim, _, settle] = SpanId::four(random);
        let context = if let Some(carried) = &self.carried {
            carried.context.with_span(process)
        } else {
            let trace_id = TraceId::of_claim(claim_id);
            let mark = if self.share.has(trace_id) {
                TraceFlags::SAMPLED
            } else {
                TraceFlags::default()
            };
            TraceContext {
                trace_id,
                span_id: process,
                flags: TraceFlags::RANDOM.and(mark),
            }
        };
        ItemTrace {
            request: self.clone(),
            process: context,
            claim: context.with_span(claim),
            settle: context.with_span(settle),
        }
    }
}

impl StoreCall {
    /// Notes that the store is asked.
    pub(crate) fn begins(&mut self, now: Option<Duration>) {
        self.count = self.count.saturating_add(1);
        self.began_at = self.began_at.or(now);
    }

    /// Notes that it has answered, or failed.
    pub(crate) const fn ends(&mut self, now: Option<Duration>) {
        self.ended_at = now;
    }
}

/// Returns the end of a step that left the operation in this state.
pub(crate) const fn end_of(state: StateKind) -> End {
    match state {
        StateKind::Claimed | StateKind::Started => End::Claimed,
        StateKind::Completed => End::Fate(Fate::Applied),
        StateKind::Released => End::Released,
        StateKind::Dead => End::Fate(Fate::Dead),
        StateKind::InDoubt => End::Fate(Fate::InDoubt),
    }
}
