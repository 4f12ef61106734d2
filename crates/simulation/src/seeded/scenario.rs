//! The scenario to be played.

use crate::seeded::kind::Kind;

/// The parameters of a scenario; its seed fixes the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scenario {
    /// The kind of effect.
    pub kind: Kind,
    /// The errors of its clocks.
    pub clocks: Clocks,
    /// Its seed.
    pub seed: u64,
}

/// The errors of the clocks of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clocks {
    /// Workers are some minutes off, and the store's clock may jump by some minutes once.
    Usual,
    /// Workers are up to a day off; the store's clock jumps both ways again and again, up to a day, and stands
    /// still; it may be January 2038.
    Wild,
}

impl Scenario {
    /// A scenario with the usual clocks.
    pub const fn new(kind: Kind, seed: u64) -> Self {
        Self {
            kind,
            clocks: Clocks::Usual,
            seed,
        }
    }

    /// The same with wild clocks.
    #[must_use]
    pub const fn with_wild_clocks(self) -> Self {
        Self {
            clocks: Clocks::Wild,
            ..self
        }
    }

    /// The hard cases, of [`Told::seen`](super::Told::seen), that some scenario like this must have met; else too
    /// little was tried.
    pub fn hard_cases(self) -> Vec<&'static str> {
        let mut cases = match self.clocks {
            Clocks::Usual => return self.kind.hard_cases(),
            Clocks::Wild => vec!["worker's clock hours off", "past January 2038"],
        };
        if self.kind.trusts_no_store_clock() {
            cases.extend([
                "store's clock forward",
                "store's clock back",
                "store's clock stands still",
            ]);
        }
        cases
    }
}
