//! A whole record in words, for `keys show` and `in-doubt show`.

use semel_core::{Outcome, StateKind};
use semel_operate::keys::{Detail, Past, signature};
use semel_operate::relative_time::when;
use semel_operate::value::Time;

use crate::output::{Answer, Block, key_text};

impl Answer for Detail<'_> {
    fn describe(&self, block: &mut Block) {
        let when = |time: Time| when(time.0, self.now);
        block
            .field("key", key_text(self.key))
            .field("pipeline", self.pipeline)
            .some("tenant", self.tenant)
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
        describe_past(&self.past, block);
        if self.record.state.kind() == StateKind::Completed {
            block.heading("Outcome");
            describe_outcome(self.record.outcome.as_ref(), block);
        }
    }
}

/// Describes the attempts that are over.
fn describe_past(past: &[Past<'_>], block: &mut Block) {
    if past.is_empty() {
        return;
    }
    block.heading("Attempts that are over");
    for past in past {
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
            let (content_type, bytes) = match outcome.as_media() {
                Some((content_type, bytes)) => (Some(content_type), bytes),
                None => (None, &bytes[..]),
            };
            block
                .some("content type", content_type)
                .field("length", format_args!("{} bytes", bytes.len()))
                .some("blake3", signature(outcome))
                .bytes("value", bytes)
        }
    };
}
