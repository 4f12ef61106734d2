//! The scenario to be played, and its result.

use std::collections::BTreeMap;

use crate::seeded::dice::Site;
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

/// The result of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Everything that happened, line by line. The same in each run of the same seed.
    pub log: String,
    /// Faults that were dealt: their places and descriptions.
    pub dealt: Vec<(Site, String)>,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Hard cases that were met.
    pub seen: BTreeMap<&'static str, u64>,
    /// Effects beyond the first, where the class allows one.
    pub duplicates: u64,
    /// Operations without an effect and without a trace.
    pub lost: u64,
    /// Operations in doubt around which something went wrong.
    pub doubts_explained: u64,
    /// Operations in doubt although nothing went wrong around them.
    pub doubts_unexplained: u64,
    /// Late reports that were refused.
    pub fenced: u64,
    /// Claims that were taken over.
    pub takeovers: u64,
    /// The promises that were broken, in words.
    pub violations: Vec<String>,
}
