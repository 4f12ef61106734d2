//! A whole record, for `keys show` and `in-doubt show`.

use semel_core::units::duration_text;
use semel_core::{Operation, Outcome, PastAttempt, Record, Recovery, State, StateKind, Timestamp};
use semel_operate::keys::{reason, signature, since};
use semel_operate::relative_time::when;
use semel_operate::value::{Base64, Span, Time, text_or_base64};
use serde::Serialize;

use crate::output::{Answer, Block, key_text};

/// All contents of a record.
#[derive(Debug, Serialize)]
pub(crate) struct Detail<'a> {
    key: &'a str,
    operation_id: String,
    pipeline: &'a str,
    state: &'static str,
    reason: Option<String>,
    since: Time,
    attempts: u32,
    possible_repeats: u32,
    held: bool,
    remembered_until: Option<Time>,
    vanished: u32,
    created_at: Time,
    first_started_at: Option<Time>,
    claimant: String,
    claim_id: String,
    fencing_token: u64,
    claimed_at: Time,
    lease_until: Option<Time>,
    not_before: Option<Time>,
    recovery: Option<String>,
    window: Option<Span>,
    fingerprint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport_base64: Option<Base64<'a>>,
    entity: Option<&'a str>,
    version: Option<u64>,
    last_error: Option<&'a str>,
    past: Vec<Past<'a>>,
    outcome: Option<Kept<'a>>,
    #[serde(skip)]
    record: &'a Record,
    #[serde(skip)]
    now: Timestamp,
}

/// A past attempt.
#[derive(Debug, Serialize)]
struct Past<'a> {
    attempt: u32,
    claimant: String,
    claim_id: String,
    fencing_token: u64,
    claimed_at: Time,
    ended_at: Time,
    end: &'static str,
    error: Option<&'a str>,
}

/// An outcome: its bytes, or the known facts about one that was too large to keep.
#[derive(Debug, Serialize)]
pub(crate) struct Kept<'a> {
    len_bytes: u64,
    blake3: Option<String>,
    codec: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<Base64<'a>>,
}

impl<'a> Detail<'a> {
    pub(crate) fn of(operation: &'a Operation, record: &'a Record, now: Timestamp) -> Self {
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
            key: operation.key.as_str(),
            operation_id: operation.id().to_string(),
            pipeline: operation.scope.operation(),
            state: record.state.kind().as_str(),
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
            transport,
            transport_base64,
            entity: record.gate.as_ref().map(|gate| gate.entity.as_str()),
            version: record.gate.as_ref().map(|gate| gate.version),
            last_error: record.last_error.as_deref(),
            past: record.past.iter().map(Past::of).collect(),
            outcome: record.outcome.as_ref().map(Kept::of),
            record,
            now,
        }
    }

    fn describe_past(&self, block: &mut Block) {
        if self.past.is_empty() {
            return;
        }
        block.heading("Attempts that are over");
        for past in &self.past {
            let error = past
                .error
                .map_or(String::new(), |error| format!(": {error}"));
            block.prose(&format!(
                "{} to {}: attempt {} of worker {}, token {}, {}{error}",
                past.claimed_at.0,
                past.ended_at.0,
                past.attempt,
                past.claimant,
                past.fencing_token,
                past.end.replace('_', " "),
            ));
        }
    }
}

impl Answer for Detail<'_> {
    fn describe(&self, block: &mut Block) {
        let when = |time: Time| when(time.0, self.now);
        block
            .field("key", key_text(self.key))
            .field("pipeline", self.pipeline)
            .field("operation id", &self.operation_id)
            .state("state", self.record.state.kind())
            .field("since", when(self.since))
            .some("reason", self.reason.as_ref())
            .some("lease until", self.lease_until.map(when))
            .some("not before", self.not_before.map(when))
            .some("remembered until", self.remembered_until.map(when));
        if self.held {
            block.field("held", "yes, beyond its window");
        }
        let vanished = match self.vanished {
            0 => String::new(),
            count => format!(", {count} of them vanished"),
        };
        block.field("attempts", format_args!("{}{vanished}", self.attempts));
        if self.possible_repeats > 0 {
            block.field("possible repeats", self.possible_repeats);
        }
        let is_under_way = self.lease_until.is_some();
        block
            .some(
                "if it vanishes",
                self.recovery.as_ref().filter(|_| is_under_way),
            )
            .field("first claimed", when(self.created_at))
            .some("first started", self.first_started_at.map(when))
            .field("latest claim", when(self.claimed_at))
            .field("worker", &self.claimant)
            .field("claim id", &self.claim_id)
            .field("fencing token", self.fencing_token)
            .some("fingerprint", self.fingerprint.as_ref());
        match (self.transport, self.transport_base64) {
            (Some(text), _) => block.field("transport id", text),
            (None, Some(base64)) => block.field("transport id (base64)", base64),
            (None, None) => block,
        };
        block
            .some("entity", self.entity)
            .some("version", self.version)
            .some("last error", self.last_error);
        self.describe_past(block);
        if self.record.state.kind() == StateKind::Completed {
            block.heading("Outcome");
            describe_outcome(self.record.outcome.as_ref(), block);
        }
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
            end: past.end.as_str(),
            error: past.error.as_deref(),
        }
    }
}

impl<'a> Kept<'a> {
    pub(crate) fn of(outcome: &'a Outcome) -> Self {
        match outcome {
            Outcome::Kept { codec, bytes } => {
                let (value, value_base64) = text_or_base64(bytes);
                Self {
                    len_bytes: bytes.len() as u64,
                    blake3: signature(outcome),
                    codec: Some(*codec),
                    value,
                    value_base64,
                }
            }
            Outcome::TooLarge { len_bytes, .. } => Self {
                len_bytes: *len_bytes,
                blake3: signature(outcome),
                codec: None,
                value: None,
                value_base64: None,
            },
        }
    }
}

fn describe_outcome(outcome: Option<&Outcome>, block: &mut Block) {
    match outcome {
        None => block.prose("none was handed over"),
        Some(outcome @ Outcome::TooLarge { len_bytes, .. }) => block
            .field(
                "length",
                format_args!("{len_bytes} bytes, too many to keep"),
            )
            .some("blake3", signature(outcome)),
        Some(outcome @ Outcome::Kept { codec, bytes }) => {
            if *codec != 0 {
                block.field("codec", codec);
            }
            block
                .field("length", format_args!("{} bytes", bytes.len()))
                .some("blake3", signature(outcome))
                .bytes("value", bytes)
        }
    };
}

fn recovery_text(recovery: Recovery) -> String {
    match recovery {
        Recovery::Rerun => "rerun".to_owned(),
        Recovery::RerunWithin(window) => format!("rerun within {}", duration_text(window)),
        Recovery::Park => "park".to_owned(),
    }
}
