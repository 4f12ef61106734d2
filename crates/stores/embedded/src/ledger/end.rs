//! Expiry of finished records.

use std::time::Duration;

use semel_core::{State, Timestamp, Window};

/// Computes the times at which records end. Remembers the last window, since computing with durations takes longer than
/// everything else about a record, and a store mostly sees one window.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// The last window, with the milliseconds until its records expire and until they are forgotten.
    last: Option<(Window, u64, u64)>,
}

impl Ends {
    /// Returns when a record in this state may be removed and when it is forgotten; `None` for a record that is kept in
    /// memory.
    #[inline]
    pub(super) fn of(&mut self, state: State, is_held: bool) -> Option<End> {
        let (at, window) = match state {
            State::Completed { at, window } | State::Dead { at, window } if !is_held => {
                (at, window)
            }
            State::Completed { .. }
            | State::Dead { .. }
            | State::Claimed { .. }
            | State::Started { .. }
            | State::Released { .. }
            | State::InDoubt { .. } => return None,
        };
        let (expires_after, forgotten_after) = match self.last {
            Some((last, expires_after, forgotten_after)) if last == window => {
                (expires_after, forgotten_after)
            }
            Some(_) | None => {
                let start = Timestamp::EPOCH;
                let expires_after = window.expires_at(start).as_millis();
                let forgotten_after = window.forgotten_at(start).as_millis();
                self.last = Some((window, expires_after, forgotten_after));
                (expires_after, forgotten_after)
            }
        };
        let after = |millis: u64| Timestamp::from_millis(at.as_millis().saturating_add(millis));
        Some(End {
            expires_at: after(expires_after),
            forgotten_at: after(forgotten_after),
            window: window.duration(),
        })
    }
}

/// The end times of a finished record.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) expires_at: Timestamp,
    pub(super) forgotten_at: Timestamp,
    pub(super) window: Duration,
}
