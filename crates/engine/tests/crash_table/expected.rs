//! What a cell of the table says, and what was seen.

use std::fmt;

use semel_core::StateKind;
use semel_engine::summary::Fate;

/// What a cell says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// Effects at the sink when everything has settled.
    effects: usize,
    /// State of the record; `None` where there is none.
    state: Option<StateKind>,
    /// Where an operator finds it: reasons of parked messages, and `possible-repeat`.
    listed: &'static [&'static str],
    /// Fates over all runs that came to an end.
    fates: &'static [(Fate, u64)],
    /// Attempts on the record, where the cell is about them.
    attempts: Option<u32>,
}

/// The same, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) effects: usize,
    pub(crate) state: Option<StateKind>,
    pub(crate) listed: Vec<String>,
    pub(crate) fates: Vec<(Fate, u64)>,
    /// Messages that nobody acknowledged.
    pub(crate) unacknowledged: usize,
    pub(crate) attempts: Checked,
}

/// Attempts, equal to any where a cell is not about them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checked(pub(crate) Option<u32>);

impl PartialEq for Checked {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_none() || other.0.is_none() || self.0 == other.0
    }
}

impl Eq for Checked {}

type Fates = &'static [(Fate, u64)];

/// Completed, and nowhere listed.
pub(crate) const fn done(effects: usize, fates: Fates) -> Expected {
    Expected {
        effects,
        state: Some(StateKind::Completed),
        listed: &[],
        fates,
        attempts: None,
    }
}

/// Completed, and listed as a possible repeat.
pub(crate) const fn repeated(effects: usize, fates: Fates) -> Expected {
    Expected {
        listed: &["possible-repeat"],
        ..done(effects, fates)
    }
}

/// In doubt, and listed as such.
pub(crate) const fn doubt(effects: usize, fates: Fates) -> Expected {
    Expected {
        state: Some(StateKind::InDoubt),
        listed: &["in-doubt"],
        ..done(effects, fates)
    }
}

/// Completed, and listed under these reasons.
pub(crate) const fn fates(
    effects: usize,
    listed: &'static [&'static str],
    fates: Fates,
) -> Expected {
    Expected {
        listed,
        ..done(effects, fates)
    }
}

/// Without a record, and listed under these reasons.
pub(crate) const fn given_up(
    effects: usize,
    listed: &'static [&'static str],
    fates: Fates,
) -> Expected {
    Expected {
        state: None,
        listed,
        ..done(effects, fates)
    }
}

impl Expected {
    /// And in so many attempts.
    pub(crate) const fn in_attempts(self, attempts: u32) -> Self {
        Self {
            attempts: Some(attempts),
            ..self
        }
    }

    /// What has to be seen. Whatever happens, everything is acknowledged in the end.
    pub(crate) fn seen(&self) -> Seen {
        Seen {
            effects: self.effects,
            state: self.state,
            listed: self.listed.iter().map(ToString::to_string).collect(),
            fates: self.fates.to_vec(),
            unacknowledged: 0,
            attempts: Checked(self.attempts),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.effects)?;
        match self.state {
            Some(state) => write!(f, ", {state}")?,
            None => f.write_str(", no record")?,
        }
        for listed in self.listed {
            write!(f, ", listed as {listed}")?;
        }
        for (fate, count) in self.fates {
            write!(f, ", {count} {fate:?}")?;
        }
        Ok(())
    }
}
