//! A whole record: the model of `semel keys show` and `semel in-doubt show`.

use std::borrow::Cow;

use semel_core::json::Mask;
use semel_core::units::duration_text;
use semel_core::{Operation, Outcome, PastAttempt, Record, Recovery, State, StateKind, Timestamp};
use serde::{Deserialize, Serialize};

use super::summary::{reason, signature, since};
use crate::keys::state_of;
use crate::parked::{Withheld, masked, masked_http};
use crate::value::{Base64, Span, Time, tenant, text_or_base64};

/// All contents of a record; in JSON an object whose members are stable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Detail<'a> {
    /// The key, as it is printed and typed.
    pub key: Cow<'a, str>,
    /// The id of the operation.
    pub operation_id: String,
    /// The pipeline.
    pub pipeline: Cow<'a, str>,
    /// The tenant; none where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Cow<'a, str>>,
    /// The state.
    pub state: Cow<'static, str>,
    /// The reason of the state.
    pub reason: Option<String>,
    /// The time since which it is in the state.
    pub since: Time,
    /// The number of attempts.
    pub attempts: u32,
    /// The number of attempts that may have repeated the effect.
    pub possible_repeats: u32,
    /// True if it is kept beyond its window.
    pub held: bool,
    /// The time until which it is kept; none while it is not finished.
    pub remembered_until: Option<Time>,
    /// The number of attempts whose claimants vanished.
    pub vanished: u32,
    /// The time of the first claim.
    pub created_at: Time,
    /// The time at which the effect first began.
    pub first_started_at: Option<Time>,
    /// The worker of the latest claim.
    pub claimant: String,
    /// The id of the latest claim.
    pub claim_id: String,
    /// The fencing token of the latest claim.
    pub fencing_token: u64,
    /// The time of the latest claim.
    pub claimed_at: Time,
    /// The time until which the latest claim lasts; none if it is over.
    pub lease_until: Option<Time>,
    /// The time before which no further attempt begins.
    pub not_before: Option<Time>,
    /// The recovery by which a takeover treats an effect that may have happened.
    pub recovery: Option<String>,
    /// The window of a finished operation.
    pub window: Option<Span>,
    /// The fingerprint of the request.
    pub fingerprint: Option<String>,
    /// The id that the transport gave the message, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<Cow<'a, str>>,
    /// The same, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport_base64: Option<Base64<'a>>,
    /// The entity whose version the message carried.
    pub entity: Option<Cow<'a, str>>,
    /// That version.
    pub version: Option<u64>,
    /// The error of the latest attempt that failed.
    pub last_error: Option<Cow<'a, str>>,
    /// The attempts that are over.
    pub past: Vec<Past<'a>>,
    /// The remembered outcome.
    pub outcome: Option<Kept<'a>>,
    /// The time at which it was read. A reader of the JSON sets it.
    #[serde(skip, default = "epoch")]
    pub now: Timestamp,
}

/// A past attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Past<'a> {
    /// Its number.
    pub attempt: u32,
    /// Its worker.
    pub claimant: String,
    /// The id of its claim.
    pub claim_id: String,
    /// Its fencing token.
    pub fencing_token: u64,
    /// The time of its claim.
    pub claimed_at: Time,
    /// The time of its end.
    pub ended_at: Time,
    /// The manner of its end.
    pub end: Cow<'static, str>,
    /// Its error.
    pub error: Option<Cow<'a, str>>,
}

/// An outcome: its bytes, or the known facts about one that was too large to keep.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept<'a> {
    /// Its length.
    pub len_bytes: u64,
    /// Its digest.
    pub blake3: Option<String>,
    /// Its codec; none if it was too large to keep.
    pub codec: Option<u16>,
    /// Its content type, if one is kept with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Cow<'a, str>>,
    /// Its bytes, if they are text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Cow<'a, str>>,
    /// The same, if they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<Base64<'a>>,
    /// The reason why the bytes are not here, or not all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
}

impl<'a> Detail<'a> {
    /// Lays out the record of an operation, as it was at the time `now`.
    pub fn of(operation: &'a Operation, record: &'a Record, now: Timestamp) -> Self {
        let transport = record.transport.as_deref().map(text_or_base64);
        let (transport, transport_base64) = transport.unwrap_or_default();
        let (lease_until, not_before, recovery, window) = match record.state {
            State::Claimed { lease_until } => (Some(lease_until), None, record.doubt, None),
            State::Started {
                lease_until,
                recovery,
            } => (Some(lease_until), None, Some(recovery), None),
            State::Released { not_before } => (None, Some(not_before), record.doubt, None),
            State::Completed { window, .. } | State::Dead { window, .. } => {
                (None, None, None, Some(window))
            }
            State::InDoubt { .. } => (None, None, record.doubt, None),
        };
        Self {
            key: operation.key.as_str().into(),
            operation_id: operation.id().to_string(),
            pipeline: operation.scope.operation().into(),
            tenant: tenant(&operation.scope).map(Into::into),
            state: record.state.kind().as_str().into(),
            reason: reason(record),
            since: Time(since(record)),
            attempts: record.attempts,
            possible_repeats: record.possible_repeats,
            held: record.held,
            remembered_until: record.expires_at().map(Time),
            vanished: record.vanished,
            created_at: Time(record.created_at),
            first_started_at: record.first_started_at.map(Time),
            claimant: record.claim_id.claimant().to_string(),
            claim_id: record.claim_id.to_string(),
            fencing_token: record.token.get(),
            claimed_at: Time(record.claimed_at),
            lease_until: lease_until.map(Time),
            not_before: not_before.map(Time),
            recovery: recovery.map(recovery_text),
            window: window.map(|window| Span(window.duration())),
            fingerprint: record
                .fingerprint
                .map(|fingerprint| fingerprint.to_string()),
            transport: transport.map(Into::into),
            transport_base64,
            entity: record.gate.as_ref().map(|gate| gate.entity.as_str().into()),
            version: record.gate.as_ref().map(|gate| gate.version),
            last_error: record.last_error.as_deref().map(Into::into),
            past: record.past.iter().map(Past::of).collect(),
            outcome: record.outcome.as_ref().map(Kept::of),
            now,
        }
    }

    /// Returns the state; nothing if it has none of the names that this version knows.
    pub fn kind(&self) -> Option<StateKind> {
        state_of(&self.state)
    }

    /// Leaves out the bytes of the outcome: its length and its digest stay.
    #[must_use]
    pub fn without_payload(mut self) -> Self {
        if let Some(outcome) = &mut self.outcome {
            (outcome.value, outcome.value_base64) = (None, None);
            outcome.withheld = Some(Withheld::Role);
        }
        self
    }

    /// Hides members of the outcome. Where members cannot be told, its bytes are left out.
    #[must_use]
    pub fn masked(mut self, mask: &Mask) -> Self {
        if let Some(outcome) = self.outcome.as_mut().filter(|_| !mask.is_empty()) {
            let is_kept = outcome.value.is_some() || outcome.value_base64.is_some();
            let len_bytes = if is_kept { outcome.len_bytes } else { 0 };
            let value = outcome.value.take();
            let is_http = outcome
                .content_type
                .as_ref()
                .is_some_and(|it| it.starts_with("message/http"));
            let (shown, withheld) = match &value {
                Some(message) if is_http => {
                    let (shown, withheld) = masked_http(message, mask);
                    (shown.map(Cow::Owned), withheld)
                }
                Some(_) | None => masked(value, len_bytes, mask),
            };
            (outcome.value, outcome.value_base64) = (shown, None);
            outcome.withheld = outcome.withheld.or(withheld);
        }
        self
    }
}

impl<'a> Past<'a> {
    fn of(past: &'a PastAttempt) -> Self {
        Self {
            attempt: past.attempt,
            claimant: past.claim_id.claimant().to_string(),
            claim_id: past.claim_id.to_string(),
            fencing_token: past.token.get(),
            claimed_at: Time(past.claimed_at),
            ended_at: Time(past.ended_at),
            end: past.end.as_str().into(),
            error: past.error.as_deref().map(Into::into),
        }
    }
}

impl<'a> Kept<'a> {
    /// Returns its bytes; nothing if they are not kept, or not here.
    pub fn bytes(&self) -> Option<&[u8]> {
        let text = self.value.as_deref().map(str::as_bytes);
        text.or(self.value_base64.as_ref().map(|it| &*it.0))
    }

    /// Lays out an outcome.
    pub fn of(outcome: &'a Outcome) -> Self {
        match outcome {
            Outcome::Kept { codec, bytes } => {
                let (content_type, bytes) = match outcome.as_media() {
                    Some((content_type, bytes)) => (Some(content_type), bytes),
                    None => (None, &bytes[..]),
                };
                let (value, value_base64) = text_or_base64(bytes);
                Self {
                    len_bytes: bytes.len() as u64,
                    blake3: signature(outcome),
                    codec: Some(*codec),
                    content_type: content_type.map(Into::into),
                    value: value.map(Cow::Borrowed),
                    value_base64,
                    withheld: None,
                }
            }
            Outcome::TooLarge { len_bytes, .. } => Self {
                len_bytes: *len_bytes,
                blake3: signature(outcome),
                codec: None,
                content_type: None,
                value: None,
                value_base64: None,
                withheld: None,
            },
        }
    }
}

const fn epoch() -> Timestamp {
    Timestamp::EPOCH
}

fn recovery_text(recovery: Recovery) -> String {
    match recovery {
        Recovery::Rerun => "rerun".to_owned(),
        Recovery::RerunWithin(window) => format!("rerun within {}", duration_text(window)),
        Recovery::Park => "park".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn shown(outcome: &Outcome) -> serde_json::Value {
        serde_json::to_value(Kept::of(outcome)).expect("JSON")
    }

    #[test]
    fn bytes_with_a_content_type_are_shown_like_bytes_without_one() {
        let bytes = Bytes::from_static(b"done");
        let raw = shown(&Outcome::raw(bytes.clone(), 4));
        let mut media = shown(&Outcome::media("text/plain", bytes, 4).expect("short enough"));
        assert_eq!(media["content_type"], "text/plain");
        assert_eq!((&raw["codec"], &media["codec"]), (&0.into(), &2.into()));
        let members = media.as_object_mut().expect("an object");
        members.remove("content_type");
        members.insert("codec".to_owned(), 0.into());
        assert_eq!(
            media, raw,
            "length, digest and value are those of the bytes"
        );
    }
}
