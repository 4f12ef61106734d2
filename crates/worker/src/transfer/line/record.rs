//! The line of a record.

mod canonical;

use bytes::Bytes;
use semel_core::port::store::Listed;
use semel_core::port::transfer::Item;
use semel_core::{
    AttemptEnd, ClaimId, FencingToken, Operation, Outcome, PastAttempt, Record, State, StateKind,
    Timestamp, VersionGate, Window,
};
use serde::{Deserialize, Serialize};

use super::super::value::{Base64, Course, Hashes, Hex, Print, Span, Text};
use super::{Fault, Scopes, bytes, either, key};

/// A record with its operation and its outcome.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::transfer) struct RecordLine<'a> {
    #[serde(borrow, default, skip_serializing_if = "Text::is_empty")]
    tenant: Text<'a>,
    #[serde(borrow)]
    operation: Text<'a>,
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow)]
    state: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease_until: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recovery: Option<Course>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_before: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    window: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    margin: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
    claim: Hex<16>,
    token: u64,
    claimed_at: u64,
    created_at: u64,
    attempts: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    vanished: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    possible_repeats: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    doubt: Option<Course>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_started_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fingerprint: Option<Print>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    members: Option<Hashes>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    transport: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    transport_base64: Option<Base64<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    error: Option<Text<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    entity: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    held: bool,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    past: Vec<PastLine<'a>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    outcome: Option<OutcomeLine<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PastLine<'a> {
    attempt: u32,
    claim: Hex<16>,
    token: u64,
    claimed_at: u64,
    ended_at: u64,
    #[serde(borrow)]
    end: Text<'a>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    error: Option<Text<'a>>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutcomeLine<'a> {
    #[serde(default, skip_serializing_if = "is_none")]
    codec: u16,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<Base64<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    too_large_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<Hex<32>>,
}

impl<'a> RecordLine<'a> {
    pub(in crate::transfer) fn of(listed: &'a Listed) -> Self {
        let Listed { operation, record } = listed;
        let (transport, transport_base64) = either(record.transport.as_deref());
        let mut line = Self {
            tenant: Text::of(operation.scope.tenant()),
            operation: Text::of(operation.scope.operation()),
            key: Text::of(operation.key.as_str()),
            state: Text::of(record.state.kind().as_str()),
            claim: Hex(record.claim_id.to_bytes()),
            token: record.token.get(),
            claimed_at: record.claimed_at.as_millis(),
            created_at: record.created_at.as_millis(),
            attempts: record.attempts,
            vanished: record.vanished,
            possible_repeats: record.possible_repeats,
            doubt: record.doubt.map(Course),
            first_started_at: record.first_started_at.map(Timestamp::as_millis),
            fingerprint: record.fingerprint.map(Print),
            members: record.members.clone().map(Hashes),
            transport,
            transport_base64,
            error: record.last_error.as_deref().map(Text::of),
            entity: record
                .gate
                .as_ref()
                .map(|gate| Text::of(gate.entity.as_str())),
            version: record.gate.as_ref().map(|gate| gate.version),
            held: record.held,
            past: record.past.iter().map(PastLine::of).collect(),
            outcome: record.outcome.as_ref().map(OutcomeLine::of),
            ..Self::default()
        };
        match record.state {
            State::Claimed { lease_until } => line.lease_until = Some(lease_until.as_millis()),
            State::Started {
                lease_until,
                recovery,
            } => {
                line.lease_until = Some(lease_until.as_millis());
                line.recovery = Some(Course(recovery));
            }
            State::Released { not_before } => line.not_before = Some(not_before.as_millis()),
            State::Completed { at, window } | State::Dead { at, window } => {
                line.at = Some(at.as_millis());
                line.window = Some(Span(window.duration()));
                let usual = Window::new(window.duration()).margin();
                line.margin = Some(window.margin())
                    .filter(|&margin| margin != usual)
                    .map(Span);
            }
            State::InDoubt { since } => line.since = Some(since.as_millis()),
        }
        line
    }

    /// The record that `json` describes.
    pub(in crate::transfer) fn read(json: &'a str) -> serde_json::Result<Self> {
        canonical::read(json).map_or_else(|| serde_json::from_str(json), Ok)
    }

    pub(in crate::transfer) fn item(&self, scopes: &mut Scopes) -> Result<Item, Fault> {
        let gate = match (&self.entity, self.version) {
            (None, None) => None,
            (Some(entity), Some(version)) => Some(VersionGate {
                entity: key(entity)?,
                version,
            }),
            (Some(_), None) | (None, Some(_)) => return Err("`entity` and `version` go together"),
        };
        let past = self.past.iter().map(PastLine::attempt);
        let record = Record {
            state: self.state()?,
            fingerprint: self.fingerprint.map(|print| print.0),
            // Without a fingerprint they could say nothing: FPR-3.
            members: self
                .members
                .as_ref()
                .filter(|_| self.fingerprint.is_some())
                .map(|members| members.0.clone()),
            transport: bytes(self.transport.as_ref(), self.transport_base64.as_ref())?,
            claim_id: ClaimId::from_bytes(self.claim.0),
            token: FencingToken::new(self.token),
            claimed_at: Timestamp::from_millis(self.claimed_at),
            attempts: self.attempts,
            vanished: self.vanished,
            possible_repeats: self.possible_repeats,
            doubt: self.doubt.map(|doubt| doubt.0),
            past: past.collect::<Result<_, _>>()?,
            created_at: Timestamp::from_millis(self.created_at),
            first_started_at: self.first_started_at.map(Timestamp::from_millis),
            last_error: self.error.as_ref().map(Text::boxed),
            gate,
            held: self.held,
            outcome: self
                .outcome
                .as_ref()
                .map(OutcomeLine::outcome)
                .transpose()?,
        };
        let scope = scopes.get(&self.tenant, &self.operation)?;
        let operation = Operation::new(scope, key(&self.key)?);
        Ok(Item::Record(Box::new(Listed { operation, record })))
    }

    fn state(&self) -> Result<State, Fault> {
        let lease_until = self.lease_until.map(Timestamp::from_millis);
        let kind = StateKind::ALL
            .into_iter()
            .find(|kind| *kind.as_str() == *self.state.0);
        let finished = || {
            let at = self.at.map(Timestamp::from_millis)?;
            let window = Window::new(self.window?.0);
            let margin = self.margin.map(|margin| window.with_margin(margin.0));
            Some((at, margin.unwrap_or(window)))
        };
        let state = match kind.ok_or("`state` is none of the six")? {
            StateKind::Claimed => lease_until.map(|lease_until| State::Claimed { lease_until }),
            StateKind::Started => lease_until
                .zip(self.recovery)
                .map(|(lease_until, recovery)| State::Started {
                    lease_until,
                    recovery: recovery.0,
                }),
            StateKind::Released => self.not_before.map(|not_before| State::Released {
                not_before: Timestamp::from_millis(not_before),
            }),
            StateKind::Completed => finished().map(|(at, window)| State::Completed { at, window }),
            StateKind::Dead => finished().map(|(at, window)| State::Dead { at, window }),
            StateKind::InDoubt => self.since.map(|since| State::InDoubt {
                since: Timestamp::from_millis(since),
            }),
        };
        state.ok_or("a member that its state needs is missing")
    }
}

impl<'a> PastLine<'a> {
    fn of(attempt: &'a PastAttempt) -> Self {
        Self {
            attempt: attempt.attempt,
            claim: Hex(attempt.claim_id.to_bytes()),
            token: attempt.token.get(),
            claimed_at: attempt.claimed_at.as_millis(),
            ended_at: attempt.ended_at.as_millis(),
            end: Text::of(attempt.end.as_str()),
            error: attempt.error.as_deref().map(Text::of),
        }
    }

    fn attempt(&self) -> Result<PastAttempt, Fault> {
        let end = AttemptEnd::ALL
            .into_iter()
            .find(|end| *end.as_str() == *self.end.0);
        Ok(PastAttempt {
            attempt: self.attempt,
            claim_id: ClaimId::from_bytes(self.claim.0),
            token: FencingToken::new(self.token),
            claimed_at: Timestamp::from_millis(self.claimed_at),
            ended_at: Timestamp::from_millis(self.ended_at),
            end: end.ok_or("`end` is none of the five")?,
            error: self.error.as_ref().map(Text::boxed),
        })
    }
}

impl<'a> OutcomeLine<'a> {
    fn of(outcome: &'a Outcome) -> Self {
        let mut line = Self::default();
        match outcome {
            Outcome::Kept { codec, bytes } => {
                line.codec = *codec;
                (line.text, line.base64) = either(Some(bytes));
            }
            Outcome::TooLarge { len_bytes, digest } => {
                line.too_large_bytes = Some(*len_bytes);
                line.digest = Some(Hex(*digest));
            }
        }
        line
    }

    fn outcome(&self) -> Result<Outcome, Fault> {
        let kept: Option<Bytes> = bytes(self.text.as_ref(), self.base64.as_ref())?;
        match (kept, self.too_large_bytes, self.digest) {
            (Some(bytes), None, None) => Ok(Outcome::Kept {
                codec: self.codec,
                bytes,
            }),
            (None, Some(len_bytes), Some(digest)) => Ok(Outcome::TooLarge {
                len_bytes,
                digest: digest.0,
            }),
            _ => Err("an outcome is text, base64, or a length and a digest"),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_none(codec: &u16) -> bool {
    *codec == 0
}
