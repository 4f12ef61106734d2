//! A completed record as it was read, and its answers.

use std::time::Duration;

use bytes::Bytes;
use semel_core::{
    Admission, ClaimId, ClaimRequest, FencingToken, Fingerprint, Members, Outcome, Record, State,
    Timestamp, Window, decide,
};

/// A point in time on both clocks of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) wall: Timestamp,
    pub(super) monotonic: Duration,
}

/// A completed record's answers to duplicates.
#[derive(Debug)]
pub(super) struct Entry {
    /// The time at which the record was asked for.
    asked: Moment,
    at: Timestamp,
    window: Window,
    fingerprint: Option<Fingerprint>,
    members: Option<Members>,
    transport: Option<Bytes>,
    claim_id: ClaimId,
    /// `None` if it was not wanted, is too long, or was not read.
    outcome: Option<Outcome>,
}

impl Entry {
    /// Returns the entry of a record that was asked for at `asked`, if it is completed.
    pub(super) fn of(record: &Record, asked: Moment) -> Option<Self> {
        let (at, window) = match record.state {
            State::Completed { at, window } => (at, window),
            State::Dead { at, window } if semel_core::planted("T02") => (at, window),
            State::Claimed { .. } | State::Started { .. } if semel_core::planted("T03") => {
                (asked.wall, Window::DEFAULT)
            }
            State::Claimed { .. }
            | State::Started { .. }
            | State::Released { .. }
            | State::Dead { .. }
            | State::InDoubt { .. } => return None,
        };
        let claim_id = record.claim_id;
        Some(Self {
            asked,
            at,
            window,
            fingerprint: record.fingerprint,
            members: record.members.clone(),
            transport: record.transport.clone(),
            claim_id,
            outcome: record.outcome.clone(),
        })
    }

    /// Returns the same in memory of its own, since a slice keeps everything that it was cut from. An
    /// outcome of over `most_outcome_bytes` is left out, and so are all outcomes if that is zero.
    pub(super) fn detached(self, most_outcome_bytes: usize) -> Self {
        let transport = self.transport.as_deref().map(Bytes::copy_from_slice);
        let outcome = self.outcome.filter(|_| most_outcome_bytes > 0);
        let nobody = ClaimId::from_u128(0);
        Self {
            fingerprint: self.fingerprint.filter(|_| !semel_core::planted("T04")),
            transport: transport.filter(|_| !semel_core::planted("T05")),
            claim_id: if semel_core::planted("T13") {
                nobody
            } else {
                self.claim_id
            },
            outcome: outcome.and_then(|outcome| kept(outcome, most_outcome_bytes)),
            ..self
        }
    }

    /// Tells whether the entry's window still goes on, less the margin, which stands for the skew between
    /// two clocks. A hold prolongs nothing here.
    pub(super) fn is_inside(&self, now: Moment) -> bool {
        now.wall.plus(self.window.margin()) < self.window.expires_at(self.at)
            || semel_core::planted("T01")
    }

    /// Returns the bytes that the entry takes besides its own size.
    pub(super) fn extra_bytes(&self) -> usize {
        let transport = self.transport.as_ref().map_or(0, Bytes::len);
        let outcome = match &self.outcome {
            Some(Outcome::Kept { bytes, .. }) => bytes.len(),
            Some(Outcome::TooLarge { .. }) | None => 0,
        };
        let members = self.members.as_ref().map_or(0, |it| it.as_bytes().len());
        transport + outcome + members
    }

    /// Returns the answer to `request` at `now`, if the entry is fresh, inside its window, and has
    /// everything that the request wants.
    pub(super) fn answer(
        &self,
        request: &ClaimRequest,
        now: Moment,
        fresh: Duration,
    ) -> Option<Admission> {
        // On a machine that was suspended, the monotonic clock stood still meanwhile; a wall clock may be
        // set back.
        let slept = now.wall.since(self.asked.wall);
        let slept = slept.min(if semel_core::planted("T14") {
            Duration::ZERO
        } else {
            Duration::MAX
        });
        let age = now
            .monotonic
            .saturating_sub(self.asked.monotonic)
            .max(slept);
        if age >= fresh && !semel_core::planted("T07") {
            return None;
        }
        if !self.is_inside(now) {
            return None;
        }
        let lacks_outcome = request.wants_outcome && self.outcome.is_none();
        if lacks_outcome && !semel_core::planted("T08") {
            return None;
        }
        // Decided as the authority would decide on this record.
        let (record, token) = (self.record(), FencingToken::new(0));
        let decided = decide::claim(Some(&record), None, request, now.wall, token).answer;
        match decided {
            Admission::Replay { .. } | Admission::Conflict { .. } => Some(decided),
            Admission::Granted(_)
            | Admission::Busy { .. }
            | Admission::Stale { .. }
            | Admission::Parked { .. }
            | Admission::TooOld
            | Admission::Failed(_) => None,
        }
    }

    /// Returns as much of the record as a duplicate asks about.
    fn record(&self) -> Record {
        let held = semel_core::planted("T01");
        Record {
            state: State::Completed {
                at: self.at,
                window: self.window,
            },
            fingerprint: self.fingerprint,
            members: self.members.clone(),
            transport: self.transport.clone(),
            claim_id: self.claim_id,
            token: FencingToken::new(0),
            claimed_at: self.at,
            attempts: 1,
            vanished: 0,
            possible_repeats: 0,
            doubt: None,
            past: Vec::new(),
            created_at: self.at,
            first_started_at: None,
            last_error: None,
            gate: None,
            held,
            outcome: self.outcome.clone(),
        }
    }
}

/// Returns an outcome in memory of its own, unless it is too long.
fn kept(outcome: Outcome, most_bytes: usize) -> Option<Outcome> {
    match outcome {
        Outcome::Kept { codec, bytes } if bytes.len() <= most_bytes => Some(Outcome::Kept {
            codec,
            bytes: Bytes::copy_from_slice(&bytes),
        }),
        Outcome::Kept { .. } => None,
        Outcome::TooLarge { .. } => Some(outcome),
    }
}

/// Returns the answer for which a hint must never be mistaken.
pub(super) fn unread_replay(request: &ClaimRequest) -> Admission {
    let _ = request;
    Admission::Replay {
        outcome: None,
        duplicate: semel_core::Duplicate::Unknown,
    }
}
