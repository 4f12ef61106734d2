//! The kinds of effect that scenarios are played with.

use std::time::Duration;

use semel_engine::effect::{Class, OnDoubt};

/// The way in which the effect takes part in the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A: appends to an output file, cut back to its mark.
    Output,
    /// A: rows in the store's own transaction.
    Transaction,
    /// B: a provider that recognises the key.
    Keyed,
    /// C1: an unkeyed call, repeated where in doubt.
    Repeat,
    /// C1 as one stream, batch by batch.
    Stream,
    /// C2: an unkeyed call, parked where in doubt.
    Park,
    /// D: a version gate at both ends.
    Gated,
    /// E: a broker commits the effect with the position of its input.
    Streamed,
    /// The library's entry point with a provider that recognises the key: `once`, called directly.
    Once,
    /// The library's entry point with an unkeyed call, parked where in doubt.
    OnceParked,
    /// The layer of HTTP before a service that recognises the key.
    Http,
    /// The layer of HTTP before a service that does not, parked where in doubt.
    HttpParked,
    /// The claim API for clients that declare no class, and say themselves that an effect has begun.
    Claims,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 13] = [
        Self::Output,
        Self::Transaction,
        Self::Keyed,
        Self::Repeat,
        Self::Stream,
        Self::Park,
        Self::Gated,
        Self::Streamed,
        Self::Once,
        Self::OnceParked,
        Self::Http,
        Self::HttpParked,
        Self::Claims,
    ];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Transaction => "transaction",
            Self::Keyed => "keyed",
            Self::Repeat => "repeat",
            Self::Stream => "stream",
            Self::Park => "park",
            Self::Gated => "gated",
            Self::Streamed => "streamed",
            Self::Once => "once",
            Self::OnceParked => "once parked",
            Self::Http => "http",
            Self::HttpParked => "http parked",
            Self::Claims => "claims",
        }
    }

    /// The hard cases, of [`Told::seen`](super::Told::seen), that some scenario of this kind must have met; else too
    /// little was tried.
    pub fn hard_cases(self) -> Vec<&'static str> {
        if self.is_direct() {
            return self.hard_cases_of_the_door();
        }
        let mut cases = vec![
            "pause beyond the lease",
            "store away",
            "store back",
            "retry",
            "lost answer of a report",
        ];
        if self != Self::Streamed {
            cases.extend([
                "replay of a redelivery",
                "replay of a republish",
                "conflict",
                "too old",
            ]);
        }
        if self != Self::Transaction && self != Self::Streamed {
            cases.extend([
                "fenced report",
                "claim found again",
                "lost answer of a claim",
            ]);
            cases.push("crash between effect and completion");
        }
        match self {
            Self::Output => cases.extend(["takeover", "file cut back"]),
            Self::Transaction
            | Self::Once
            | Self::OnceParked
            | Self::Http
            | Self::HttpParked
            | Self::Claims => {}
            Self::Keyed => cases.extend([
                "takeover",
                "in doubt",
                "doubt resolved",
                "effect of a worker that is gone",
            ]),
            Self::Repeat | Self::Stream => {
                cases.extend([
                    "takeover",
                    "possible repeat",
                    "repeated effect, listed",
                    "in doubt",
                ]);
                cases.retain(|case| *case != "too old");
            }
            Self::Park => cases.extend([
                "in doubt",
                "doubt found by a sweep",
                "doubt resolved",
                "resolved by a probe",
                "probe not believed yet",
                "effect of a worker that is gone",
            ]),
            Self::Gated => {
                cases.extend(["takeover", "stale", "effect of a worker that is gone"]);
                cases.retain(|case| *case != "conflict");
            }
            Self::Streamed => {
                cases.extend(["commit found again", "commit of a delivery that is gone"]);
            }
        }
        cases
    }

    fn hard_cases_of_the_door(self) -> Vec<&'static str> {
        let mut cases = vec![
            "pause beyond the lease",
            "retry",
            "lost answer of a report",
            "lost answer of a claim",
            "fenced report",
            "crash between effect and completion",
            "effect of a worker that is gone",
            "callers at one key together",
            "caller went away",
            "replay",
            "conflict",
            "in doubt",
        ];
        if matches!(self, Self::Once | Self::OnceParked) {
            cases.push("too old");
        }
        if self == Self::Claims {
            cases.extend([
                "asked again over http",
                "stale",
                "begun, and said after the lease",
                "taken over from a client that had said nothing",
            ]);
        }
        if matches!(self, Self::Once | Self::Http | Self::Claims) {
            cases.push("takeover");
        }
        if matches!(self, Self::OnceParked | Self::HttpParked | Self::Claims) {
            cases.push("doubt found by a sweep");
        }
        cases
    }

    /// Returns whether requests come over HTTP, whose refusals are outcomes.
    pub(crate) const fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::HttpParked)
    }

    /// Returns whether callers use the library's entry point, without a consumer.
    pub(crate) const fn is_direct(self) -> bool {
        match self {
            Self::Once | Self::OnceParked | Self::Http | Self::HttpParked | Self::Claims => true,
            Self::Output
            | Self::Transaction
            | Self::Keyed
            | Self::Repeat
            | Self::Stream
            | Self::Park
            | Self::Gated
            | Self::Streamed => false,
        }
    }

    /// The class that the engine gets.
    pub(crate) const fn class(self) -> Class {
        match self {
            Self::Keyed | Self::Once | Self::Http => Class::Keyed {
                provider_window: PROVIDER_WINDOW,
            },
            Self::Repeat | Self::Stream => Class::Unkeyed(OnDoubt::Repeat),
            Self::Park | Self::OnceParked | Self::HttpParked | Self::Claims => {
                Class::Unkeyed(OnDoubt::Park)
            }
            Self::Output | Self::Transaction | Self::Gated => Class::Transactional,
            Self::Streamed => Class::Streamed,
        }
    }

    /// Returns whether the promise holds if the store forgets its answers.
    pub(crate) const fn survives_amnesia(self) -> bool {
        match self {
            Self::Keyed | Self::Gated | Self::Once | Self::Http => true,
            Self::Output
            | Self::Transaction
            | Self::Repeat
            | Self::Stream
            | Self::Park
            | Self::Streamed
            | Self::OnceParked
            | Self::HttpParked
            | Self::Claims => false,
        }
    }

    /// Returns whether the promise holds whatever the store's clock does inside the window: not if a provider's
    /// window is counted on it.
    pub(crate) const fn trusts_no_store_clock(self) -> bool {
        !matches!(self, Self::Keyed | Self::Once | Self::Http)
    }

    /// Returns whether its promise is at most one effect.
    pub(crate) const fn is_at_most_once(self) -> bool {
        match self {
            // Nobody knows of an effect whose client says nothing.
            Self::Repeat | Self::Stream | Self::Claims => false,
            Self::Output
            | Self::Transaction
            | Self::Keyed
            | Self::Park
            | Self::Gated
            | Self::Streamed
            | Self::Once
            | Self::OnceParked
            | Self::Http
            | Self::HttpParked => true,
        }
    }

    /// Returns whether calls of a killed worker can still reach the store: not if the store lives in the worker's
    /// own process, as each store does that keeps marks.
    pub(crate) const fn has_store_apart(self) -> bool {
        !matches!(self, Self::Output)
    }
}

/// Short, so that rare cases are common.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// The time for which a provider recognises a key, as the engine is configured.
pub(crate) const PROVIDER_WINDOW: Duration = Duration::from_secs(60);
/// The longest from the beginning of a call until its effect lands; a call that is older is not sent.
pub(crate) const CALL_LIFE: Duration = Duration::from_secs(30);
