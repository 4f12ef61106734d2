//! Facts about a record, one line each.

use semel_core::{AttemptEnd, Outcome, Record, State, StateKind, Timestamp};

/// Returns the state of this name.
pub fn state_of(name: &str) -> Option<StateKind> {
    StateKind::ALL.into_iter().find(|it| it.as_str() == name)
}

/// Returns the time since which a record is in its state, as far as the record tells.
pub fn since(record: &Record) -> Timestamp {
    match record.state {
        State::Completed { at, .. } | State::Dead { at, .. } => at,
        State::InDoubt { since } => since,
        State::Claimed { .. } | State::Started { .. } => record.claimed_at,
        // An operator who lets a key go restarts the count of its attempts.
        State::Released { not_before } if record.attempts == 0 => not_before,
        State::Released { not_before } => record
            .past
            .last()
            .map_or(not_before, |past| past.ended_at.min(not_before)),
    }
}

/// Returns why a record is in its state, if there is more to say than the state does.
pub fn reason(record: &Record) -> Option<String> {
    match record.state.kind() {
        StateKind::Claimed | StateKind::Started | StateKind::Completed => return None,
        StateKind::Released | StateKind::Dead | StateKind::InDoubt => {}
    }
    match record.past.last().map(|past| past.end) {
        Some(AttemptEnd::Vanished) => Some("its worker vanished".to_owned()),
        Some(
            AttemptEnd::NotApplied
            | AttemptEnd::MaybeApplied
            | AttemptEnd::Failed
            | AttemptEnd::GivenBack,
        )
        | None => record.last_error.as_deref().map(str::to_owned),
    }
}

/// Returns the BLAKE3 digest of an outcome, by which other systems can recognise it; an empty outcome has none.
pub fn signature(outcome: &Outcome) -> Option<String> {
    use std::fmt::Write;
    let digest = match outcome {
        Outcome::Kept { bytes, .. } => {
            // A content type that is kept with the bytes is none of them.
            let len = outcome.result().map_or(0, <[u8]>::len);
            match Outcome::raw(bytes.slice(bytes.len() - len..), 0) {
                Outcome::TooLarge { digest, .. } => digest,
                Outcome::Kept { .. } => return None,
            }
        }
        Outcome::TooLarge { digest, .. } => *digest,
    };
    let mut hex = String::with_capacity(64);
    for byte in digest {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Some(hex)
}
