//! The message of each decision.

/// The message of a decision, in words that never change.
pub(super) fn message(name: &str) -> &'static str {
    match name {
        "granted" => "attempt begins",
        "completed" => "done",
        "replayed" => "duplicate of something done: skipped",
        "busy" => "somebody else is at it, or a retry is due later: held back",
        "stale" => "its entity has this version or a later one: skipped",
        "released" => "attempt failed, another follows",
        "conflict" => "the key was used with another request: quarantined",
        "live_only" => "a replay id, and an effect for live messages alone: quarantined",
        "too_old" => "no record, and older than the window: quarantined",
        "quarantined" => "no usable key: quarantined",
        "dead" => "failed for good or out of attempts: kept as a dead letter",
        "in_doubt" => "nobody knows whether it happened: on record",
        "parked" => "its operation is dead or in doubt: kept",
        "fenced" => "claim lost while its effect ran: result discarded",
        "outcome_differs" => "a lost claim ended with another outcome than the recorded one",
        "store_failed" => "store failed: tried again",
        "breaker_opened" => "store away: tried by one call at a time",
        "breaker_closed" => "store answers again",
        "source_away" => "the broker is away: tried again",
        "source_back" => "the broker is back",
        "target_back" => "the target is back",
        "target_away" => "the target is away: tried again",
        "paused" => "paused: one message at a time is tried",
        "resumed" => "goes on after a pause",
        "elsewhere" => "nothing to fetch: other workers have messages in hand",
        "dead_letter_refused" => "the broker takes no such dead letter: kept in the store alone",
        "revoked" => "deliveries go to another worker: what had not begun was given back",
        "unprotected" => "attempt without a claim, since the store is away",
        _ => "",
    }
}

/// The same of what came in no message: nothing is kept of it but the record.
pub(super) fn message_of_claim(name: &str) -> &'static str {
    match name {
        "conflict" => "the key was used with another request: refused",
        "too_old" => "no record, and older than the window: refused",
        "dead" => "failed for good or out of attempts: on record",
        "parked" => "its operation is dead or in doubt: refused",
        _ => message(name),
    }
}
