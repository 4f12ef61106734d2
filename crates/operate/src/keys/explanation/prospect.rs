//! The answer that a message with this key gets, now and once its wait is over.

use semel_core::decide;
use semel_core::{
    Admission, ClaimId, ClaimRequest, FencingToken, Members, Outcome, Record, Start, State,
    StateKind, Timestamp, Window,
};
use serde::Serialize;

use super::{Beside, Facts};
use crate::relative_time::when;
use crate::value::Time;

/// The answer that a message gets.
#[derive(Clone, Debug, Serialize)]
pub struct Prospect {
    /// `granted`, `replay`, `busy`, `parked` or `stale`.
    pub answer: &'static str,
    /// The time until which the message is held back.
    pub until: Option<Time>,
    /// True if the message is acknowledged.
    pub acknowledged: bool,
    /// True if the effect runs.
    pub runs: bool,
    /// The answer in words, and the exceptions.
    pub texts: Vec<String>,
}

impl Prospect {
    /// Asks the decision function of the stores, for the same request as the one on record.
    pub(super) fn of(facts: &Facts<'_>) -> Self {
        let Facts { record, now, .. } = *facts;
        let admission = ask(facts, now);
        let mut texts = vec![in_words(&admission, facts)];
        let until = match &admission {
            Admission::Busy { until, .. } => Some(*until),
            _ => None,
        };
        if let Some(until) = until {
            let then = in_words(&ask(facts, until), facts);
            texts.push(format!(
                "If nothing is reported until then: {}",
                lower(&then)
            ));
        }
        texts.extend(facts.beside.and_then(|beside| unseen(record, now, beside)));
        texts.extend(exceptions(record, facts));
        Self {
            answer: admission.as_str(),
            until: until.map(Time),
            acknowledged: matches!(
                admission,
                Admission::Replay { .. } | Admission::Parked { .. }
            ),
            runs: matches!(admission, Admission::Granted(_)),
            texts,
        }
    }
}

/// Asks for the answer that the same request gets `at` that time.
fn ask(facts: &Facts<'_>, at: Timestamp) -> Admission {
    let Facts {
        operation,
        record,
        pipeline,
        ..
    } = *facts;
    // Any claimant except the one on record.
    let mut bits = record.map_or([0; 16], |record| record.claim_id.to_bytes());
    bits[15] ^= 1;
    let mut request = ClaimRequest {
        operation: operation.clone(),
        fingerprint: record.and_then(|record| record.fingerprint),
        start: match record.map(|record| record.state) {
            Some(State::Started { recovery, .. }) => Start::Marked(recovery),
            Some(
                State::Claimed { .. }
                | State::Released { .. }
                | State::Completed { .. }
                | State::Dead { .. }
                | State::InDoubt { .. },
            )
            | None => Start::Unmarked,
        },
        ..ClaimRequest::new(
            operation.scope.clone(),
            operation.key.clone(),
            ClaimId::from_bytes(bits),
        )
    };
    if let Some(settings) = pipeline {
        request.window = settings.pipeline.window;
        request.lease = settings.pipeline.lease;
        request.limits = settings.pipeline.limits;
        request.start = settings.effect.class().start();
    }
    decide::claim(record, None, &request, at, FencingToken::new(0)).answer
}

fn in_words(admission: &Admission, facts: &Facts<'_>) -> String {
    match admission {
        Admission::Granted(claim) => {
            let attempt = claim.attempt;
            let how = match (facts.record, claim.takeover) {
                (None, _) => "It counts as new and runs the effect.".to_owned(),
                (Some(_), true) => format!(
                    "It takes over from the worker that vanished and runs the effect as attempt {attempt}."
                ),
                (Some(_), false) => format!("It runs the effect as attempt {attempt}."),
            };
            let repeat = if claim.possible_repeat {
                " The effect may then have happened twice, which is counted and listed."
            } else if facts.record.is_some_and(|record| record.doubt.is_some())
                || facts.record.is_some_and(is_started)
            {
                " The target gets the same idempotency key and recognises it."
            } else {
                ""
            };
            how + repeat
        }
        Admission::Replay { outcome, .. } => {
            let outcome = match outcome {
                Some(Outcome::Kept { bytes, .. }) => {
                    format!("the outcome on record ({} bytes)", bytes.len())
                }
                Some(Outcome::TooLarge { len_bytes, .. }) => {
                    format!("word that the outcome had {len_bytes} bytes, too many to keep")
                }
                None => "word that it is done".to_owned(),
            };
            format!(
                "It gets {outcome} and is acknowledged. The effect does not run: it happened already."
            )
        }
        Admission::Busy { until, .. } => format!(
            "It is held back until {} and not acknowledged. {}",
            when(*until, facts.now),
            if facts.record.is_some_and(is_released) {
                "That is the wait between two attempts."
            } else {
                "Somebody is at it."
            }
        ),
        Admission::Parked { state, .. } => parked(*state, facts),
        // The request on record is asked about, without version or birth.
        Admission::Conflict { .. } => "It is quarantined as a conflict.".to_owned(),
        Admission::Stale { applied } => {
            format!("It is acknowledged as stale: version {applied} was applied.")
        }
        Admission::TooOld => "It is quarantined as too old.".to_owned(),
        Admission::Failed(error) => format!("It cannot be decided: {error}."),
    }
}

fn parked(state: StateKind, facts: &Facts<'_>) -> String {
    let is_new = facts
        .record
        .is_none_or(|record| record.state.kind() != state);
    let name = state.as_str().replace('_', " ");
    let found = if is_new {
        format!("It finds the key {name}: the message is kept whole, and acknowledged.")
    } else {
        format!("It is acknowledged, since the record carries the case on: the key is {name}.")
    };
    found + " The effect does not run."
}

/// Describes what the files that were read do not show.
fn unseen(record: Option<&Record>, now: Timestamp, beside: Beside) -> Option<String> {
    match (record.map(|record| record.state), beside.process) {
        (Some(State::Claimed { lease_until } | State::Started { lease_until, .. }), None)
            if lease_until > now =>
        {
            Some("Whoever opens the store next ends that lease at once.".to_owned())
        }
        (
            Some(State::Claimed { lease_until } | State::Started { lease_until, .. }),
            Some(process),
        ) if lease_until <= now => Some(format!(
            "If process {process} renews the lease still, it is held back instead."
        )),
        (None | Some(State::Released { .. }), Some(process)) => Some(format!(
            "Process {process} has the store open and may be at it, where the effect is transactional: \
             such a claim is not written down. Then it is held back."
        )),
        (
            None
            | Some(
                State::Claimed { .. }
                | State::Started { .. }
                | State::Released { .. }
                | State::Completed { .. }
                | State::Dead { .. }
                | State::InDoubt { .. },
            ),
            None | Some(_),
        ) => None,
    }
}

/// Describes the answers that other messages with this key get.
fn exceptions(record: Option<&Record>, facts: &Facts<'_>) -> Vec<String> {
    let mut texts = Vec::new();
    match record.map(|record| record.fingerprint) {
        Some(Some(fingerprint)) => {
            let members = record.and_then(|record| record.members.as_ref());
            let named = match members.and_then(Members::count) {
                Some(_) => ", naming the members that differ,",
                None => "",
            };
            texts.push(format!(
                "One with other contents (another fingerprint than {fingerprint}) is quarantined as a \
                 conflict{named} and acknowledged."
            ));
        }
        Some(None) => {
            texts.push("Its contents are not compared: the record has no fingerprint.".to_owned());
        }
        None => {}
    }
    if let Some(gate) = record.and_then(|record| record.gate.as_ref()) {
        texts.push(format!(
            "The key carries version {} of entity {}; a message with an older or equal version of \
             what was applied is stale.",
            gate.version, gate.entity
        ));
    }
    if record.is_none() {
        let pipeline = facts.pipeline.map(|settings| &settings.pipeline);
        let window = pipeline.map_or(Window::DEFAULT, |pipeline| pipeline.window);
        let window = semel_core::units::duration_text(window.duration());
        texts.push(match pipeline.map(|pipeline| pipeline.birth.is_some()) {
            Some(true) => format!(
                "One that is older than the window ({window}) is quarantined as too old instead."
            ),
            Some(false) => format!(
                "However old it is: the pipeline names no birth, so that the window ({window}) is not \
                 guarded by age."
            ),
            None => "If its pipeline has an age gate, one older than the window is quarantined as too \
                     old instead."
                .to_owned(),
        });
    }
    texts
}

const fn is_started(record: &Record) -> bool {
    matches!(record.state.kind(), StateKind::Started)
}

const fn is_released(record: &Record) -> bool {
    matches!(record.state.kind(), StateKind::Released)
}

fn lower(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_lowercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}
