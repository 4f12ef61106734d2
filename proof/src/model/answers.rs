//! The reports of a claim to the store, and the answers to those who ask for one.

/// The answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Granted {
        token: u8,
    },
    Replay,
    Busy,
    Conflict,
    Stale,
    /// Dead or in doubt; for a doubt, the time of the answer.
    Parked {
        in_doubt_at: Option<u8>,
    },
    TooOld,
}

/// A report of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Start,
    /// The start of an effect that has begun.
    Begun,
    Complete {
        answer: u8,
    },
    Release {
        maybe: bool,
        counted: bool,
    },
    Fail {
        decisive: bool,
    },
}
