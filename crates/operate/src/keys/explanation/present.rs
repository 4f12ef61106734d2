//! The state of a key, what happens automatically, and what a person can do.

use semel_core::decide::{self, Directed, Order};
use semel_core::units::duration_text;
use semel_core::{Record, Recovery, State, StateKind, Timestamp, Window};

use super::Facts;
use super::history::ordered;
use crate::action::ActionKind;
use crate::in_doubt::quiet_of;
use crate::keys::Arrival;
use crate::keys::summary::signature;
use crate::relative_time::{in_words, when};

/// The present state of a key.
pub(super) struct Present {
    /// Its name, or `absent`.
    pub(super) state: &'static str,
    /// The state in words.
    pub(super) text: String,
    /// The next event if nobody acts.
    pub(super) next: String,
    /// The choices of a person.
    pub(super) can: Vec<Offer>,
}

impl Present {
    pub(super) fn of(facts: &Facts<'_>) -> Self {
        let Some(record) = facts.record else {
            return absent(facts);
        };
        let (text, next, mut can) = match record.state {
            State::Claimed { lease_until } => claimed(record, lease_until, facts),
            State::Started {
                lease_until,
                recovery,
            } => started(record, lease_until, recovery, facts),
            State::Released { not_before } => released(record, not_before, facts),
            State::Completed { window, .. } => completed(record, window, facts),
            State::Dead { at, .. } => dead(record, at, facts),
            State::InDoubt { since } => in_doubt(record, since, facts),
        };
        let has_conflict = facts
            .messages
            .iter()
            .any(|parked| !matches!(&*parked.reason, "dead" | "in-doubt"));
        if has_conflict {
            can.push(offer(
                "see the messages in quarantine",
                ActionKind::ListQuarantine,
            ));
        }
        if record.held {
            can.push(offer("let its window count again", ActionKind::LetGo));
        }
        can.push(offer("see all that is on record", ActionKind::Show));
        Self {
            state: record.state.kind().as_str(),
            text: text.join(" "),
            next,
            can,
        }
    }
}

/// A sentence, and the action that it offers.
pub(super) type Offer = (&'static str, ActionKind);

const fn offer(text: &'static str, action: ActionKind) -> Offer {
    (text, action)
}

/// The sentences about the state, the next event, and the choices.
type Told = (Vec<String>, String, Vec<Offer>);

fn absent(facts: &Facts<'_>) -> Present {
    let is_forgotten = facts.audit.iter().any(|entry| &*entry.action == "forget");
    let why = if is_forgotten {
        "Somebody had its record forgotten, as the audit trail says."
    } else if facts
        .messages
        .iter()
        .any(|parked| &*parked.reason == "too-old")
    {
        "A message of this key was older than the window and could not be told from one that was \
         forgotten, so that it was set aside and not run."
    } else {
        "It was never claimed, or it finished and was forgotten after its window."
    };
    let can = if facts.message_count > 0 {
        vec![offer(
            "see the messages in quarantine",
            ActionKind::ListQuarantine,
        )]
    } else {
        Vec::new()
    };
    Present {
        state: "absent",
        text: format!("There is no record of this key. {why}"),
        next: "Nothing.".to_owned(),
        can,
    }
}

fn claimed(record: &Record, lease_until: Timestamp, facts: &Facts<'_>) -> Told {
    let Some(lease) = lease(lease_until, facts) else {
        let text = format!(
            "{} It left nothing behind: {}.",
            vanished(record, lease_until, facts),
            unmarked(facts),
        );
        return (vec![text], waits(facts, "takes over"), Vec::new());
    };
    let text = format!(
        "{} is at it, attempt {}. Nothing has been sent: {}. {lease}",
        facts.arrival.holder_first(record.claim_id),
        record.attempts,
        unmarked(facts),
    );
    let next = facts.arrival.of(
        "The worker reports how it ended. If it vanishes, the lease ends, and the next delivery of the message \
         takes over; the source delivers again what was not acknowledged.",
        "The client reports how it ended. If it vanishes, the lease ends, and the next claim of the key takes over.",
        "The gateway reports how it ended. If it vanishes, the lease ends, and the next request under the key takes over.",
    );
    (vec![text], next.to_owned(), vec![end_of_lease(facts)])
}

/// The reason why a claim without a mark of its effect has sent nothing. Of an operation that no pipeline names, such as
/// a claim over HTTP, nobody here knows the class.
const fn unmarked(facts: &Facts<'_>) -> &'static str {
    if facts.arrival.is_of_clients() {
        facts.arrival.of(
            "",
            "its client has not said that the effect began",
            "its gateway has not said that the effect began",
        )
    } else if facts.pipeline.is_some() {
        "the effect commits together with the record, or neither does"
    } else {
        "the effect is not marked as begun, so it commits together with the record, or its caller has not sent it"
    }
}

fn started(record: &Record, lease_until: Timestamp, recovery: Recovery, facts: &Facts<'_>) -> Told {
    let next = facts.arrival.next();
    let then = match recovery {
        Recovery::Park => {
            "the key is found in doubt, at the latest by the next sweep: it is not run \
                           again on its own"
                .to_owned()
        }
        Recovery::Rerun => {
            format!("{next} runs the effect again, which may then have happened twice")
        }
        Recovery::RerunWithin(window) => {
            let first = record.first_started_at.unwrap_or(record.claimed_at);
            format!(
                "{next} runs the effect again with the same idempotency key until {}, as \
                 long as the target remembers it; after that the key is in doubt",
                when(first.plus(window), facts.now)
            )
        }
    };
    let Some(lease) = lease(lease_until, facts) else {
        let text = format!(
            "{} The effect may have happened.",
            vanished(record, lease_until, facts)
        );
        let kind = facts.arrival.kind();
        let next = format!("A late report of the {kind} still counts. Without one, {then}.");
        return (vec![text], next, Vec::new());
    };
    let text = format!(
        "{} is at it, attempt {}; the effect may have been sent. {lease}",
        facts.arrival.holder_first(record.claim_id),
        record.attempts,
    );
    let kind = facts.arrival.kind();
    let next = format!("The {kind} reports how it ended. If it vanishes, {then}.");
    (vec![text], next, vec![end_of_lease(facts)])
}

/// Describes a lease that runs, or may run.
fn lease(until: Timestamp, facts: &Facts<'_>) -> Option<String> {
    let until_when = when(until, facts.now);
    // The lease of a client is that of another process: it is on the disk, and outlives whoever has the store open.
    let beside = facts.beside.filter(|_| !facts.arrival.is_of_clients());
    let process = beside.map(|beside| beside.process);
    match (until > facts.now, process) {
        (true, Some(None)) => Some(format!(
            "Its lease was written to end {until_when}, but nobody is seen to have the store open: the \
             worker most likely vanished, and whoever opens it next ends the lease."
        )),
        (true, None | Some(Some(_))) => Some(format!(
            "Its lease runs until {until_when} and is renewed while it works."
        )),
        (false, Some(Some(process))) => Some(format!(
            "Its lease was last written to end {until_when}, but process {process} has the store open \
             and renews leases in memory."
        )),
        (false, None | Some(None)) => None,
    }
}

fn vanished(record: &Record, lease_until: Timestamp, facts: &Facts<'_>) -> String {
    format!(
        "{} began attempt {} and has not reported; its lease ended {} ago, so that it most \
         likely vanished.",
        facts.arrival.holder_first(record.claim_id),
        record.attempts,
        in_words(facts.now.since(lease_until))
    )
}

fn released(record: &Record, not_before: Timestamp, facts: &Facts<'_>) -> Told {
    let mut text = vec!["Nobody is at it.".to_owned()];
    text.push(if record.attempts == 0 {
        "Its attempts count anew.".to_owned()
    } else {
        let next = facts.arrival.of(
            "The next delivery of the message makes another attempt.",
            "The next claim of the key makes another attempt.",
            "The next request under the key makes another attempt.",
        );
        next.to_owned()
    });
    text.extend(last_error(record));
    let mut can = Vec::new();
    if not_before > facts.now {
        text.push(format!("It waits until {}.", when(not_before, facts.now)));
        can.push(offer("end the wait now", ActionKind::Release));
    }
    let kept = facts.messages.iter();
    let mut kept = kept.filter(|parked| matches!(&*parked.reason, "dead" | "in-doubt"));
    let next = if kept.next().is_some() {
        can.push(offer(
            "run the message that is kept for it: its source does not deliver it again",
            ActionKind::Replay,
        ));
        "Nothing: its message was acknowledged when it was set aside, so that no delivery comes unless \
         it is published again."
            .to_owned()
    } else {
        waits(facts, "makes the attempt")
    };
    can.push(offer(
        "forget it, so that its attempts start over",
        ActionKind::Forget,
    ));
    (text, next, can)
}

fn completed(record: &Record, window: Window, facts: &Facts<'_>) -> Told {
    let mut text = vec![match &record.outcome {
        Some(outcome) => format!(
            "The effect happened, and its outcome is on record{}.",
            signature(outcome).map_or(String::new(), |it| format!(", BLAKE3 {it}"))
        ),
        None => "The effect happened; it has no outcome.".to_owned(),
    }];
    if record.possible_repeats > 0 {
        text.push(format!(
            "It may have happened more than once: {} of its attempts ran although an earlier one may \
             have succeeded. Look at the target.",
            record.possible_repeats
        ));
    }
    let mut can = vec![offer("print its outcome", ActionKind::ShowOutcome)];
    if !record.held {
        can.push(offer("keep it beyond its window", ActionKind::Hold));
    }
    can.push(offer(
        facts.arrival.of(
            "if the effect must happen again: forget it, and have the message sent again",
            "if the effect must happen again: forget it, and have its client claim it again",
            "if the effect must happen again: forget it, and have its caller send the request again",
        ),
        ActionKind::Forget,
    ));
    (text, forgotten(record, window, facts), can)
}

fn dead(record: &Record, at: Timestamp, facts: &Facts<'_>) -> Told {
    let is_abandoned = ordered(facts.audit, at, &["abandon"]);
    let what = if is_abandoned {
        "It was in doubt, and a person gave it up: the effect may or may not have happened."
    } else {
        "It was given up: the effect surely did not happen."
    };
    let mut text = vec![what.to_owned()];
    text.extend(last_error(record));
    let State::Dead { window, .. } = record.state else {
        return (text, String::new(), Vec::new());
    };
    let is_kept = facts
        .messages
        .iter()
        .any(|parked| &*parked.reason == "dead");
    let mut next = forgotten(record, window, facts);
    let mut can = Vec::new();
    if is_kept {
        next.push_str(" Its dead letter stays until somebody replays or drops it.");
        can.push(offer("look at the message", ActionKind::ShowDeadLetter));
        can.push(offer(
            "after the cause is fixed: run it again",
            ActionKind::Replay,
        ));
        can.push(offer(
            "leave it undone: drop the message",
            ActionKind::DropDeadLetter,
        ));
    }
    can.push(offer(
        facts.arrival.of(
            "let a message that is sent again run",
            "let the next claim of the key run the effect",
            "let the next request under the key run the effect",
        ),
        ActionKind::Release,
    ));
    (text, next, can)
}

fn in_doubt(record: &Record, since: Timestamp, facts: &Facts<'_>) -> Told {
    let quiet_at = since.plus(quiet_of(facts.pipeline));
    let mut text = vec![
        "Nobody knows whether the effect happened: an attempt began, and its result is unknown. It is \
         not run again on its own."
            .to_owned(),
    ];
    text.extend(last_error(record));
    let look = facts.arrival.of(
        "Look for the operation id at the target: it went out as the idempotency key.",
        "Look for the operation id at the target: it is the idempotency key that its client was given.",
        "Look for the operation id at the API: it went out as `Semel-Operation-Id`, and the caller's own key as it came.",
    );
    text.push(look.to_owned());
    if quiet_at > facts.now {
        text.push(format!(
            "The call can still land, so that \"not applied\" is not accepted before {}.",
            when(quiet_at, facts.now)
        ));
    }
    let next = "Nothing, ever. Only a late report of the same attempt, a probe of the effect or a \
                person ends a doubt.";
    let look = facts.arrival.of(
        "look at the message",
        "look at the doubt alone",
        "look at the doubt alone",
    );
    let mut can = vec![offer(look, ActionKind::ShowDoubt)];
    let retried = decide::operate(Some(record), None, &Order::Retry, facts.now).answer;
    if let (Directed::Now(_), Some(Recovery::RerunWithin(_))) = (&retried, record.doubt) {
        can.push(offer(
            facts.arrival.of(
                "call again: the target still recognises the key, so that it is no second effect",
                "let the next claim call again: the target still recognises the key, so that it is no second effect",
                "let the next request call again: the API still recognises the key, so that it is no second effect",
            ),
            ActionKind::Retry,
        ));
    } else if let Directed::Now(_) = retried {
        can.push(offer(
            facts.arrival.of(
                "call again: it may be a second effect, which its pipeline accepts",
                "let the next claim call again: it may be a second effect, which the class of its claim accepts",
                "let the next request call again: it may be a second effect, which the class of its route accepts",
            ),
            ActionKind::Retry,
        ));
    }
    can.extend([
        offer("if the target has the effect", ActionKind::ResolveApplied),
        offer(
            facts.arrival.of(
                "if the target surely does not have it: run it again afterwards",
                "if the target surely does not have it: let the next claim run it again",
                "if the API surely does not have it: let the next request run it again",
            ),
            ActionKind::ResolveNotApplied,
        ),
        offer("if nobody can find out: give it up", ActionKind::Abandon),
    ]);
    (text, next.to_owned(), can)
}

fn last_error(record: &Record) -> Option<String> {
    let error = record.last_error.as_ref()?;
    Some(format!("The last error was: {error}."))
}

fn waits(facts: &Facts<'_>, what: &str) -> String {
    if facts.arrival.is_of_clients() {
        let again = facts.arrival.of(
            "",
            "a client claims the key again",
            "its caller sends the request again",
        );
        return format!("Nothing until {again}: whoever gets it {what}.");
    }
    format!(
        "Nothing until the message is delivered again: whoever gets it {what}. Sources deliver again \
         what was not acknowledged; a file is read again by the next run."
    )
}

/// Describes when a finished record is forgotten, and what guards the key then.
fn forgotten(record: &Record, window: Window, facts: &Facts<'_>) -> String {
    let Some(expires_at) = record.expires_at() else {
        return "Nothing: it is held, and stays until somebody lets go of it.".to_owned();
    };
    let guard = match facts
        .pipeline
        .map(|settings| settings.pipeline.birth.is_some())
    {
        Some(true) => {
            "a message with this key that is older than the window is then set aside as too old"
        }
        Some(false) => "a message with this key counts as new from then on",
        None if facts.arrival == Arrival::Request => {
            "a request under this key counts as new from then on"
        }
        None if facts.arrival.is_of_clients() => {
            "a claim of this key counts as new from then on, unless it says by `birth` that it is older than its window"
        }
        None => {
            "a message with this key counts as new from then on, unless its pipeline has an age gate"
        }
    };
    let kind = match record.state.kind() {
        StateKind::Completed => "completed",
        StateKind::Dead
        | StateKind::Claimed
        | StateKind::Started
        | StateKind::Released
        | StateKind::InDoubt => "given up",
    };
    format!(
        "It is remembered until {}, {} after it was {kind}; {guard}.",
        when(expires_at, facts.now),
        duration_text(window.duration()),
    )
}

const fn end_of_lease(facts: &Facts<'_>) -> Offer {
    let text = facts.arrival.of(
        "if you know that the worker is gone: end its lease now",
        "if you know that the client is gone: end its lease now",
        "if you know that the gateway is gone: end its lease now",
    );
    offer(text, ActionKind::Release)
}
