//! The outcome of a scene, in the words of the page.

use semel_core::StateKind;
use semel_engine::summary::Fate;

/// The outcome when everything has settled.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Effects in the world outside.
    pub(crate) effects: usize,
    /// State of the record; `None` if there is none.
    pub(crate) state: Option<StateKind>,
    /// Attempts on the record.
    pub(crate) attempts: Option<u32>,
    /// The lists in which an operator finds it: reasons of parked messages, and `possible-repeat`.
    pub(crate) listed: Vec<String>,
    /// Fates over all runs that came to an end.
    pub(crate) fates: Vec<(Fate, u64)>,
}

/// The columns of the page that describe an outcome.
pub(crate) const COLUMNS: usize = 5;

impl Outcome {
    /// The words that the page must have, column by column.
    pub(crate) fn words(&self) -> [String; COLUMNS] {
        let or_none = |words: Vec<String>| {
            if words.is_empty() {
                "–".to_owned()
            } else {
                words.join(", ")
            }
        };
        let fates = self.fates.iter().filter(|(_, count)| *count > 0);
        [
            self.effects.to_string(),
            self.state
                .map_or("none", StateKind::as_str)
                .replace('_', " "),
            self.attempts
                .map_or("–".to_owned(), |count| count.to_string()),
            or_none(self.listed.clone()),
            or_none(
                fates
                    .map(|(fate, count)| format!("{count} {}", name(*fate)))
                    .collect(),
            ),
        ]
    }

    pub(crate) fn is(&self, reason: &str) -> bool {
        self.listed.iter().any(|listed| listed == reason)
    }
}

fn name(fate: Fate) -> &'static str {
    match fate {
        Fate::Applied => "applied",
        Fate::Replayed => "replayed",
        Fate::Stale => "stale",
        Fate::Conflict => "conflict",
        Fate::TooOld => "too old",
        Fate::Released => "released",
        Fate::Dead => "dead",
        Fate::InDoubt => "in doubt",
        Fate::Quarantined => "quarantined",
        Fate::Unprotected => "unprotected",
    }
}
