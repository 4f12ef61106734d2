//! A whole record in words, for `keys show` and `in-doubt show`.

use semel_core::StateKind;
use semel_operate::keys::{Detail, Kept, Past};
use semel_operate::parked::Withheld;
use semel_operate::relative_time::when;
use semel_operate::value::Time;

use crate::{Answer, Block, key_text};

impl Answer for Detail<'_> {
    fn describe(&self, block: &mut Block) {
        let when = |time: Time| when(time.0, self.now);
        block
            .field("key", key_text(&self.key))
            .field("pipeline", &self.pipeline)
            .some("tenant", self.tenant.as_ref())
            .field("operation id", &self.operation_id)
            .named_state("state", &self.state)
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
        match (&self.transport, &self.transport_base64) {
            (Some(text), _) => block.field("transport id", text),
            (None, Some(base64)) => block.field("transport id (base64)", base64),
            (None, None) => block,
        };
        block
            .some("entity", self.entity.as_ref())
            .some("version", self.version)
            .some("last error", self.last_error.as_ref());
        describe_past(&self.past, block);
        if self.kind() == Some(StateKind::Completed) {
            block.heading("Outcome");
            describe_outcome(self.outcome.as_ref(), block);
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
            .as_ref()
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

fn describe_outcome(outcome: Option<&Kept<'_>>, block: &mut Block) {
    let Some(outcome) = outcome else {
        block.prose("none was handed over");
        return;
    };
    let Some(codec) = outcome.codec else {
        let length = format_args!("{} bytes, too many to keep", outcome.len_bytes);
        block
            .field("length", length)
            .some("blake3", outcome.blake3.as_ref());
        return;
    };
    if codec != 0 {
        block.field("codec", codec);
    }
    block
        .some("content type", outcome.content_type.as_ref())
        .field("length", format_args!("{} bytes", outcome.len_bytes))
        .some("blake3", outcome.blake3.as_ref());
    describe_bytes("value", outcome.bytes(), outcome.withheld, block);
}

/// Describes bytes, or says why they are not here.
pub fn describe_bytes(
    label: &str,
    bytes: Option<&[u8]>,
    withheld: Option<Withheld>,
    block: &mut Block,
) {
    if let Some(why) = withheld {
        let why = match why {
            Withheld::Role => "not shown: the role of the token does not see payloads",
            Withheld::Members => "some members are not shown",
            Withheld::NoJson => "not shown: members are to be hidden, and it is no JSON",
        };
        block.field(&format!("{label} withheld"), why);
    }
    if bytes.is_some() || withheld.is_none() {
        block.bytes(label, bytes.unwrap_or_default());
    }
}
