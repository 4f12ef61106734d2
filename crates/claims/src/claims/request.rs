//! A claim as it was asked for, and its answer as the client reads it.

use std::time::Duration;

use bytes::Bytes;
use semel_core::fingerprint::Reading;
use semel_core::json::Node;
use semel_core::units::duration_text;
use semel_core::{
    Admission, Claim, ClaimRequest, Error, Operation, Record, Recovery, Start, State, StateKind,
    Timestamp, VersionGate,
};
use semel_engine::effect::within_provider_window;
use semel_http::member::{Fault, Member, members, required};
use semel_http::{Caller, Problem};

use crate::answer::{Decision, Granted, Instant, internal};
use crate::handle::Handle;
use crate::outcome::Remembered;
use crate::service::{LONGEST_LEASE, LONGEST_WINDOW, scope};
use crate::settings::Settings;
use crate::trace::ItemTrace;

/// The members of a claim.
pub(crate) const MEMBERS: [&str; 15] = [
    "operation",
    "key",
    "tenant",
    "fingerprint",
    "transport",
    "birth",
    "lease",
    "window",
    "class",
    "provider_window",
    "on_doubt",
    "entity",
    "version",
    "wait",
    "claim_id",
];

/// The classes that a claim can declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Keyed,
    Unkeyed,
}

/// The classes by their names.
pub(crate) const CLASSES: [(&str, Class); 2] =
    [("keyed", Class::Keyed), ("unkeyed", Class::Unkeyed)];

/// The treatments of a doubt by their names.
pub(crate) const ON_DOUBT: [(&str, Recovery); 2] =
    [("park", Recovery::Park), ("repeat", Recovery::Rerun)];

/// A claim as it was asked for.
pub(crate) struct Asked {
    pub(crate) request: ClaimRequest,
    /// The members of its fingerprint, to tell those in which it differs.
    pub(crate) reading: Option<Reading>,
    /// The window that it named.
    window: Option<Duration>,
    /// The time to wait, and where it stands.
    pub(super) wait: Option<(Duration, String)>,
    /// Its trace, if anybody wants spans.
    pub(crate) trace: Option<ItemTrace>,
}

impl Asked {
    pub(super) fn read(
        node: Node<'_>,
        base: &str,
        caller: &Caller,
        settings: &Settings,
    ) -> Result<Self, Problem> {
        let [
            operation,
            key,
            tenant,
            fingerprint,
            transport,
            birth,
            lease,
            window,
            class,
            provider_window,
            on_doubt,
            entity,
            version,
            wait,
            claim_id,
        ] = members(node, base, MEMBERS)?;
        let scope = scope(tenant, operation, base, caller)?;
        let operation = Operation::new(scope, required(key, base, "key")?.key()?);
        let reading = fingerprint.map(|it| it.fingerprint()).transpose()?;
        let transport = transport
            .map(|it| it.text_within(TRANSPORT_BYTES))
            .transpose()?;
        let claim_id = claim_id.map(|it| it.claim_id()).transpose()?;
        let lease = lease
            .map(|it| it.duration_within(LONGEST_LEASE))
            .transpose()?;
        let window = window
            .map(|it| it.duration_within(LONGEST_WINDOW))
            .transpose()?;
        let wait = match wait {
            Some(member) => Some((wait_of(&member, settings.longest_wait)?, member.pointer())),
            None => None,
        };
        let request = ClaimRequest {
            claim_id: claim_id.unwrap_or_else(|| settings.surroundings.claim_id()),
            fingerprint: reading.as_ref().map(Reading::fingerprint),
            members: reading.as_ref().and_then(|it| it.members(&operation)),
            operation,
            transport: transport.map(|it| Bytes::copy_from_slice(it.as_bytes())),
            birth: birth.map(|it| it.instant()).transpose()?,
            window: window.map_or(settings.window, |it| settings.window.resized(it)),
            lease: lease.unwrap_or(settings.lease),
            limits: settings.limits,
            start: start(class, provider_window, on_doubt, base)?,
            gate: gate(entity, version, base)?,
            // Outcomes are read apart, with the time of completion.
            wants_outcome: false,
        };
        Ok(Self {
            request,
            reading,
            window,
            wait,
            trace: None,
        })
    }

    pub(super) fn operation_id(&self) -> String {
        self.request.operation.id().to_string()
    }

    /// Reports that the store gave no answer. The same claim id makes it harmless to ask again, so it is told to a
    /// client that made none.
    pub(super) fn unanswered(&self, error: &Error) -> Problem {
        let claim_id = self.request.claim_id.to_string();
        Problem::from(error)
            .with("operation_id", self.operation_id())
            .with("claim_id", claim_id)
    }

    fn granted(&self, claim: &Claim) -> Decision {
        let operation_id = self.operation_id();
        let handle = Handle {
            operation: self.request.operation.clone(),
            claim_id: claim.claim_id,
            start: self.request.start,
            lease: self.request.lease,
            window: self.window,
            token: claim.token,
        };
        Decision::Granted(Box::new(Granted {
            claim: handle.encode(),
            idempotency_key: operation_id.clone(),
            operation_id,
            token: claim.token.get(),
            attempt: claim.attempt,
            lease_until: Instant(claim.lease_until),
            takeover: claim.takeover,
            resumed: claim.resumed,
            possible_repeat: claim.possible_repeat,
        }))
    }

    pub(super) fn answer(
        &self,
        admission: Admission,
        completed: Completed,
    ) -> Result<Decision, Problem> {
        let operation_id = || self.operation_id();
        Ok(match admission {
            Admission::Granted(claim) => self.granted(&claim),
            Admission::Replay { outcome, duplicate } => {
                let Completed { at, outcome: read } = completed;
                let problem = |problem: Problem| problem.with("operation_id", operation_id());
                let missing = || Err(internal("the replay has no outcome"));
                let kept = outcome.map(|outcome| Remembered::of(&outcome));
                Decision::Replay {
                    operation_id: operation_id(),
                    outcome: kept.or(read).unwrap_or_else(missing).map_err(problem)?,
                    completed_at: at.map(Instant),
                    duplicate: duplicate.as_str(),
                }
            }
            Admission::Busy { until, now } => Decision::Busy {
                operation_id: operation_id(),
                until: Instant(until),
                retry_after_ms: u64::try_from(until.since(now).as_millis()).unwrap_or(u64::MAX),
            },
            Admission::Conflict { .. } => Decision::Conflict {
                operation_id: operation_id(),
            },
            Admission::Stale { applied } => Decision::Stale {
                operation_id: operation_id(),
                applied,
            },
            Admission::TooOld => Decision::TooOld {
                operation_id: operation_id(),
            },
            Admission::Parked { state, .. } => Decision::Parked {
                operation_id: operation_id(),
                state: state.as_str(),
                certainty: certainty_of(state),
            },
            Admission::Failed(error) => return Err(self.unanswered(&error)),
        })
    }
}

/// The part of the record of a completed operation that its admission does not have.
#[derive(Debug, Default)]
pub(super) struct Completed {
    /// The time of completion, where it is known.
    pub(super) at: Option<Timestamp>,
    /// The outcome, where the admission came without it.
    pub(super) outcome: Option<Result<Remembered, Problem>>,
}

impl Completed {
    /// Takes both from the record.
    pub(super) fn of(record: &Record) -> Self {
        let at = match record.state {
            State::Completed { at, .. } => Some(at),
            State::Claimed { .. }
            | State::Started { .. }
            | State::Released { .. }
            | State::Dead { .. }
            | State::InDoubt { .. } => None,
        };
        let missing = || Err(internal("the record has no outcome"));
        let outcome = record.outcome.as_ref();
        let outcome = outcome.map_or_else(missing, Remembered::of);
        Self {
            at,
            outcome: Some(outcome),
        }
    }

    /// The outcome is there, but not in this answer.
    pub(super) const fn unread(problem: Problem) -> Self {
        Self {
            at: None,
            outcome: Some(Err(problem)),
        }
    }
}

/// Returns what a parked operation says of its effect: the record of a dead one says that it surely did not happen.
const fn certainty_of(state: StateKind) -> &'static str {
    match state {
        StateKind::Dead => "not_applied",
        StateKind::InDoubt
        | StateKind::Claimed
        | StateKind::Started
        | StateKind::Released
        | StateKind::Completed => "maybe_applied",
    }
}

fn wait_of(member: &Member<'_>, longest: Duration) -> Result<Duration, Fault> {
    let wait = member.duration()?;
    if wait > longest {
        let longest = duration_text(longest);
        return Err(member.fault(format!("this must be at most {longest}")));
    }
    Ok(wait)
}

/// Returns the way in which the effect begins.
fn start(
    class: Option<Member<'_>>,
    provider_window: Option<Member<'_>>,
    on_doubt: Option<Member<'_>>,
    base: &str,
) -> Result<Start, Fault> {
    let class = class.map(|it| it.one_of(&CLASSES)).transpose()?;
    if let Some(provider_window) = provider_window.filter(|_| class != Some(Class::Keyed)) {
        return Err(provider_window.fault("a provider's window belongs to the class `keyed`"));
    }
    if let Some(on_doubt) = on_doubt.filter(|_| class != Some(Class::Unkeyed)) {
        return Err(on_doubt.fault("this belongs to the class `unkeyed`"));
    }
    match class {
        None => Ok(Start::Unmarked),
        Some(Class::Keyed) => {
            let window = required(provider_window, base, "provider_window")?
                .duration_within(LONGEST_WINDOW)?;
            let within = within_provider_window(window);
            Ok(Start::Marked(Recovery::RerunWithin(within)))
        }
        Some(Class::Unkeyed) => {
            let recovery = on_doubt.map(|it| it.one_of(&ON_DOUBT)).transpose()?;
            Ok(Start::Marked(recovery.unwrap_or(Recovery::Park)))
        }
    }
}

fn gate(
    entity: Option<Member<'_>>,
    version: Option<Member<'_>>,
    base: &str,
) -> Result<Option<VersionGate>, Fault> {
    if entity.is_none() && version.is_none() {
        return Ok(None);
    }
    Ok(Some(VersionGate {
        entity: required(entity, base, "entity")?.key()?,
        version: required(version, base, "version")?.whole_number()?,
    }))
}

/// The longest transport id.
const TRANSPORT_BYTES: usize = 1_024;
