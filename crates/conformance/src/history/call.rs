//! One call and its answer, in a form that can be made, compared and printed.

use std::fmt::Write as _;

use semel_core::decide::{Directed, Directive};
use semel_core::{
    Admission, AnyStore, Claim, ClaimId, ClaimRequest, FencingToken, Key, Note, Operation, Record,
    Renewal, Renewed, Result, Settled, Settlement, State, Store, Timestamp,
};

/// One call to a store, for one item.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Claim(ClaimRequest),
    Settle(Settlement),
    Renew(Renewal),
    Operate(Directive),
    Get(Operation),
    /// Sweeps until nothing is left to do.
    Sweep,
}

impl Call {
    /// The key of the call; a sweep is about all of them.
    pub(super) fn key(&self) -> Option<&Key> {
        match self {
            Self::Claim(request) => Some(&request.operation.key),
            Self::Settle(settlement) => Some(&settlement.operation.key),
            Self::Renew(renewal) => Some(&renewal.operation.key),
            Self::Operate(directive) => Some(&directive.operation.key),
            Self::Get(operation) => Some(&operation.key),
            Self::Sweep => None,
        }
    }

    /// The directive, if it leaves an entry in the audit trail once it is carried out.
    pub(super) fn noted(&self) -> Option<(&Directive, &Note)> {
        match self {
            Self::Operate(it) => Some((it, it.note.as_ref()?)),
            Self::Claim(_) | Self::Settle(_) | Self::Renew(_) | Self::Get(_) | Self::Sweep => None,
        }
    }

    /// Returns whether it can be in one batch with `other`.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Claim(it) => {
                write!(
                    f,
                    "claim {} by {}: {:?}",
                    it.operation.key,
                    short(it.claim_id),
                    it.start
                )?;
                write!(f, ", lease {:?}", it.lease)?;
                write!(
                    f,
                    ", at most {} and {} tries",
                    it.limits.failed, it.limits.vanished
                )?;
                if let Some(gate) = &it.gate {
                    write!(f, ", {} at {}", gate.entity, gate.version)?;
                }
                if let Some(fingerprint) = it.fingerprint {
                    write!(f, ", fingerprint {fingerprint}")?;
                }
                it.birth.map_or(Ok(()), |birth| write!(f, ", born {birth}"))
            }
            Self::Settle(it) => {
                write!(
                    f,
                    "settle {} by {}: {:?}",
                    it.operation.key,
                    short(it.claim_id),
                    it.step
                )
            }
            Self::Renew(it) => {
                write!(
                    f,
                    "renew {} by {}: {:?}",
                    it.operation.key,
                    short(it.claim_id),
                    it.lease
                )
            }
            Self::Operate(it) => {
                write!(f, "operate {}: {:?}", it.operation.key, it.order)?;
                let note = it.note.as_ref();
                note.map_or(Ok(()), |note| write!(f, ", because {}", note.reason))
            }
            Self::Get(it) => write!(f, "get {}", it.key),
            Self::Sweep => f.write_str("sweep"),
        }
    }
}

/// All of a claim, shorter than its `Debug`.
fn shown(claim: &Claim) -> String {
    let Claim {
        operation,
        claim_id,
        token,
        lease_until,
        attempt,
        ..
    } = claim;
    let mut text = format!("granted {} to {}", operation.key, short(*claim_id));
    let _ = write!(
        text,
        ", token {token}, attempt {attempt}, until {}",
        lease_until.as_millis()
    );
    for (mark, is_set) in [
        ("takeover", claim.takeover),
        ("resumed", claim.resumed),
        ("possible repeat", claim.possible_repeat),
    ] {
        if is_set {
            let _ = write!(text, ", {mark}");
        }
    }
    if let Some(at) = claim.first_started_at {
        let _ = write!(text, ", first started {}", at.as_millis());
    }
    text
}

/// Claimants of histories have small numbers.
fn short(claim_id: ClaimId) -> u128 {
    u128::from_be_bytes(claim_id.to_bytes())
}

/// The answer of a store, as text, without the parts on which two stores need not agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) text: String,
    /// The token of a grant that was not resumed.
    pub(super) granted: Option<FencingToken>,
    /// True if an order was carried out.
    pub(super) is_done: bool,
}

/// The precision with which times are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Times {
    /// To the millisecond: the store uses the test's clock.
    Exact,
    /// Not at all: the store uses a clock of its own.
    Ignored,
}

impl Answer {
    /// The answer to a sweep, which is empty: each store does this work in its own way.
    pub(super) const fn nothing() -> Self {
        Self::of(String::new())
    }

    const fn of(text: String) -> Self {
        Self {
            text,
            granted: None,
            is_done: false,
        }
    }

    pub(super) fn to_claim(mut admission: Admission, times: Times) -> Self {
        let granted = match &mut admission {
            Admission::Granted(claim) => {
                // A store may have removed a forgotten record or not.
                claim.formerly_expired = false;
                times.blur(&mut claim.lease_until);
                if let Some(at) = &mut claim.first_started_at {
                    times.blur(at);
                }
                (!claim.resumed).then_some(claim.token)
            }
            Admission::Busy { until, now } => {
                times.blur(until);
                times.blur(now);
                None
            }
            Admission::Parked { now, .. } => {
                times.blur(now);
                None
            }
            Admission::Replay { .. }
            | Admission::Conflict { .. }
            | Admission::Stale { .. }
            | Admission::TooOld
            | Admission::Failed(_) => None,
        };
        let text = match admission {
            Admission::Granted(claim) => shown(&claim),
            other => format!("{other:?}"),
        };
        Self {
            granted,
            ..Self::of(text)
        }
    }

    pub(super) fn to_settle(settled: &Settled) -> Self {
        Self::of(format!("{settled:?}"))
    }

    pub(super) fn to_renew(mut renewed: Renewed, times: Times) -> Self {
        if let Renewed::Until(until) = &mut renewed {
            times.blur(until);
        }
        Self::of(format!("{renewed:?}"))
    }

    pub(super) fn to_operate(mut directed: Directed, times: Times) -> Self {
        if let Directed::Refused(semel_core::decide::Refusal::NotQuiet { until }) = &mut directed {
            times.blur(until);
        }
        Self {
            is_done: matches!(directed, Directed::Now(_)),
            ..Self::of(format!("{directed:?}"))
        }
    }

    pub(super) fn to_get(record: Option<Record>, times: Times) -> Self {
        let record = record.map(|record| times.blurred(record));
        Self::of(format!("{record:?}"))
    }
}

impl Times {
    pub(super) fn blur(self, at: &mut Timestamp) {
        if self == Self::Ignored {
            *at = Timestamp::EPOCH;
        }
    }

    fn blurred(self, mut record: Record) -> Record {
        match &mut record.state {
            State::Claimed { lease_until: at }
            | State::Started {
                lease_until: at, ..
            }
            | State::Released { not_before: at }
            | State::Completed { at, .. }
            | State::Dead { at, .. }
            | State::InDoubt { since: at } => self.blur(at),
        }
        self.blur(&mut record.created_at);
        self.blur(&mut record.claimed_at);
        for past in &mut record.past {
            self.blur(&mut past.claimed_at);
            self.blur(&mut past.ended_at);
        }
        if let Some(at) = &mut record.first_started_at {
            self.blur(at);
        }
        record
    }
}

/// Sends a batch of like calls.
pub(super) async fn ask(store: &AnyStore, batch: &[Call], times: Times) -> Result<Vec<Answer>> {
    macro_rules! all {
        ($call:ident) => {{
            let items = batch.iter().filter_map(|call| match call {
                Call::$call(item) => Some(item.clone()),
                _ => None,
            });
            items.collect::<Vec<_>>()
        }};
    }
    Ok(match batch.first() {
        None => Vec::new(),
        Some(Call::Claim(_)) => {
            let answers = store.claim(all!(Claim).into()).await?;
            answers
                .into_iter()
                .map(|it| Answer::to_claim(it, times))
                .collect()
        }
        Some(Call::Settle(_)) => store
            .settle(all!(Settle).into())
            .await?
            .iter()
            .map(Answer::to_settle)
            .collect(),
        Some(Call::Renew(_)) => {
            let answers = store.renew(all!(Renew).into()).await?;
            answers
                .into_iter()
                .map(|it| Answer::to_renew(it, times))
                .collect()
        }
        Some(Call::Operate(_)) => {
            let answers = store.operate(all!(Operate).into()).await?;
            answers
                .into_iter()
                .map(|it| Answer::to_operate(it, times))
                .collect()
        }
        Some(Call::Get(_)) => {
            let answers = store.get(all!(Get).into()).await?;
            answers
                .into_iter()
                .map(|it| Answer::to_get(it, times))
                .collect()
        }
        Some(Call::Sweep) => {
            while store.sweep(100).await?.more {}
            batch.iter().map(|_| Answer::nothing()).collect()
        }
    })
}
