//! The history of a key, in order.

use semel_core::{
    AttemptEnd, Audited, ClaimId, FencingToken, Note, PastAttempt, Record, State, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::Facts;
use crate::keys::Arrival;
use crate::relative_time::in_words;
use crate::value::Time;

/// One event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// The time.
    pub at: Time,
    /// The event in words.
    pub text: String,
}

/// Returns every event on record, oldest first.
pub(super) fn of(facts: &Facts<'_>) -> Vec<Event> {
    let mut events = Vec::new();
    if let Some(record) = facts.record {
        of_record(record, facts, &mut events);
    }
    for parked in facts.messages {
        let text = match &*parked.reason {
            "dead" => "its message was kept as a dead letter".to_owned(),
            "in-doubt" => "its message was kept, in doubt".to_owned(),
            reason => format!("a message with this key was quarantined: {reason}"),
        };
        events.push(event(parked.since, text));
    }
    let orders = facts.audit.iter();
    events.extend(orders.map(|entry| of_order(entry, facts.arrival)));
    events.sort_by_key(|event| event.at.0);
    events
}

fn of_record(record: &Record, facts: &Facts<'_>, events: &mut Vec<Event>) {
    let first = record
        .past
        .first()
        .map_or(record.claimed_at, |past| past.claimed_at);
    if record.created_at < first {
        let text =
            "the key was claimed for the first time; the earliest attempts are no longer on record";
        events.push(event(record.created_at, text));
    }
    for past in &record.past {
        of_attempt(past, record, facts.arrival, events);
    }
    let is_told = record
        .past
        .last()
        .is_some_and(|past| past.claim_id == record.claim_id);
    let holder = facts.arrival.holder(record.claim_id);
    if !is_told {
        let began = Began {
            attempt: record.attempts,
            claim: record.claim_id,
            token: record.token,
            at: record.claimed_at,
        };
        let text = began.text(record, facts.arrival);
        events.push(event(record.claimed_at, text));
    }
    let with_a_claim = |at: Timestamp| {
        at == record.claimed_at || record.past.iter().any(|past| past.claimed_at == at)
    };
    if let Some(at) = record.first_started_at.filter(|at| !with_a_claim(*at)) {
        let text = "the effect was about to be sent: from here on it may have happened";
        events.push(event(at, text));
    }
    match record.state {
        State::Claimed { .. } | State::Started { .. } | State::Released { .. } => {}
        State::Completed { at, .. } => {
            let text = match (is_told, ordered(facts.audit, at, &["resolve-applied"])) {
                (_, true) => "completed by a person's word".to_owned(),
                (true, false) => {
                    format!("completed after all: a late report of {holder}, or a probe")
                }
                (false, false) => format!(
                    "completed: {holder} reported it after {}",
                    in_words(at.since(record.claimed_at))
                ),
            };
            events.push(event(at, text));
        }
        State::Dead { at, .. } => events.push(event(at, "given up for dead")),
        State::InDoubt { since } => events.push(event(since, "found in doubt")),
    }
}

fn of_attempt(past: &PastAttempt, record: &Record, arrival: Arrival, events: &mut Vec<Event>) {
    let holder = arrival.holder(past.claim_id);
    let began = Began {
        attempt: past.attempt,
        claim: past.claim_id,
        token: past.token,
        at: past.claimed_at,
    };
    events.push(event(past.claimed_at, began.text(record, arrival)));
    let took = in_words(past.ended_at.since(past.claimed_at));
    let end = match past.end {
        AttemptEnd::NotApplied => format!("failed after {took}, surely without effect"),
        AttemptEnd::MaybeApplied => {
            format!("ended after {took}, and nobody knows whether the effect happened")
        }
        AttemptEnd::Failed => format!("failed for good after {took}"),
        AttemptEnd::GivenBack => format!("was given back after {took}"),
        AttemptEnd::Vanished => {
            format!("vanished: its lease ended without a report after {took}")
        }
    };
    let error = past.error.as_deref();
    events.push(event(
        past.ended_at,
        format!(
            "attempt {} of {holder} {end}{}",
            past.attempt,
            error.map_or(String::new(), |error| format!(": {error}"))
        ),
    ));
}

/// The beginning of an attempt.
struct Began {
    attempt: u32,
    claim: ClaimId,
    token: FencingToken,
    at: Timestamp,
}

impl Began {
    fn text(&self, record: &Record, arrival: Arrival) -> String {
        let Self {
            attempt,
            claim,
            token,
            at,
        } = *self;
        // An attempt that is given back does not count.
        let attempt = attempt.max(1);
        let holder = arrival.holder(claim);
        let started = if record.first_started_at == Some(at) {
            "; from here on the effect may have happened"
        } else {
            ""
        };
        format!(
            "attempt {attempt} began: {holder} claimed the key with token {token}, claim {claim}{started}"
        )
    }
}

fn of_order(entry: &Audited, arrival: Arrival) -> Event {
    let Audited {
        note: Note { by, reason },
        action,
        before,
        after,
        ..
    } = entry;
    let did = match &**action {
        "release" => arrival.of(
            "let the next delivery run at once",
            "let the next claim run at once",
            "let the next request run at once",
        ),
        "requeue" => "gave the dead key another chance",
        "retry" => "had the effect called again though it was in doubt",
        "forget" => "had the record forgotten",
        "hold" => "had the record held beyond its window",
        "extend" => "had its window made longer",
        "let-go" => "let go of the record",
        "resolve-applied" => "resolved the doubt: the effect happened",
        "resolve-not-applied" => "resolved the doubt: the effect did not happen",
        "abandon" => "gave the doubt up for dead",
        "drop" => "dropped a message that was kept",
        "import" => "brought it in from another store",
        action => action,
    };
    let reason = match &**reason {
        "" => "no reason given".to_owned(),
        reason => format!("because: {reason}"),
    };
    event(
        entry.at,
        format!("{by} {did} ({before} → {after}), {reason}"),
    )
}

/// Tells whether a person gave one of these orders `at` this moment.
pub(super) fn ordered(audit: &[Audited], at: Timestamp, actions: &[&str]) -> bool {
    audit
        .iter()
        .any(|entry| entry.at == at && actions.contains(&&*entry.action))
}

fn event(at: Timestamp, text: impl Into<String>) -> Event {
    Event {
        at: Time(at),
        text: text.into(),
    }
}
