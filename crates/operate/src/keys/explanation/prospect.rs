//! The answer that a message with this key gets, now and once its wait is over.

use std::borrow::Cow;

use semel_core::decide;
use semel_core::{
    Admission, ClaimId, ClaimRequest, FencingToken, Members, Outcome, Record, Start, State,
    StateKind, Timestamp, Window,
};
use serde::{Deserialize, Serialize};

use super::{Beside, Facts};
use crate::keys::Arrival;
use crate::relative_time::when;
use crate::value::Time;

/// The answer that a message gets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Prospect {
    /// `granted`, `replay`, `busy`, `parked` or `stale`.
    pub answer: Cow<'static, str>,
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
        // The leases of clients are all on the disk.
        let beside = facts.beside.filter(|_| !facts.arrival.is_of_clients());
        texts.extend(beside.and_then(|beside| unseen(record, now, beside)));
        texts.extend(exceptions(record, facts));
        Self {
            answer: admission.as_str().into(),
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
                    "It takes over from the {} that vanished and runs the effect as attempt {attempt}.",
                    facts.arrival.kind()
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
                Some(outcome @ Outcome::Kept { .. }) => {
                    let bytes = outcome.result().map_or(0, <[u8]>::len);
                    format!("the outcome on record ({bytes} bytes)")
                }
                Some(Outcome::TooLarge { len_bytes, .. }) => {
                    format!("word that the outcome had {len_bytes} bytes, too many to keep")
                }
                None => "word that it is done".to_owned(),
            };
            let how = facts.arrival.of(" and is acknowledged", "", "");
            format!("It gets {outcome}{how}. The effect does not run: it happened already.")
        }
        Admission::Busy { until, .. } => format!(
            "It is {} {}{}. {}",
            facts.arrival.of(
                "held back until",
                "busy until",
                "made to wait, and then answered `in-progress`, until"
            ),
            when(*until, facts.now),
            facts.arrival.of(" and not acknowledged", "", ""),
            if facts.record.is_some_and(is_released) {
                "That is the wait between two attempts."
            } else {
                "Somebody is at it."
            }
        ),
        Admission::Parked { state, .. } => parked(*state, facts),
        // The request on record is asked about, without version or birth.
        Admission::Conflict { .. } => {
            let how = facts
                .arrival
                .of("quarantined as a", "refused as a", "refused as a");
            format!("It is {how} conflict.")
        }
        Admission::Stale { applied } => {
            let how = facts.arrival.of("acknowledged as stale", "stale", "stale");
            format!("It is {how}: version {applied} was applied.")
        }
        Admission::TooOld => {
            let how = facts
                .arrival
                .of("quarantined as", "refused as", "refused as");
            format!("It is {how} too old.")
        }
        Admission::Failed(error) => format!("It cannot be decided: {error}."),
    }
}

fn parked(state: StateKind, facts: &Facts<'_>) -> String {
    let is_new = facts
        .record
        .is_none_or(|record| record.state.kind() != state);
    let name = state.as_str().replace('_', " ");
    if facts.arrival.is_of_clients() {
        let told = facts
            .arrival
            .of("", "told that the key is", "answered 409: the key is");
        return format!("It is {told} {name}. The effect does not run.");
    }
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
            texts.push(if facts.arrival.is_of_clients() {
                let answered = facts.arrival.of(
                    "",
                    "is answered with a conflict",
                    "is refused: the key is answered `key-reused`",
                );
                format!("One with another fingerprint than {fingerprint} {answered}.")
            } else {
                format!(
                    "One with other contents (another fingerprint than {fingerprint}) is quarantined as a \
                     conflict{named} and acknowledged."
                )
            });
        }
        Some(None) => {
            texts.push("Its contents are not compared: the record has no fingerprint.".to_owned());
        }
        None => {}
    }
    if let Some(gate) = record.and_then(|record| record.gate.as_ref()) {
        texts.push(format!(
            "The key carries version {} of entity {}; {} with an older or equal version of \
             what was applied is stale.",
            gate.version,
            gate.entity,
            facts.arrival.of("a message", "a claim", "a request")
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
            None if facts.arrival == Arrival::Request => {
                "However old it is: a request does not say when it was born.".to_owned()
            }
            None if facts.arrival.is_of_clients() => {
                "One whose `birth` is older than its window is refused as too old instead.".to_owned()
            }
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
