//! The report of a run: what was foretold, what has come of it, and where the two differ.

use std::borrow::Cow;
use std::collections::BTreeMap;

use semel_core::{Fate, Key};
use semel_http::Problem;
use semel_operate::value::Time;
use serde::Serialize;
use serde_json::Value;

use super::super::execution;
use super::super::plan::{Change, VERSION, sums};
use super::{Came, Run, RunState, StopOrder};
use crate::answer::text;

/// The report of a run.
#[derive(Debug, Serialize)]
pub(crate) struct RunReport<'r> {
    /// The version of the format.
    #[serde(skip_serializing_if = "Option::is_none")]
    semel: Option<u32>,
    id: &'r str,
    action: &'static str,
    by: &'r str,
    reason: &'r str,
    /// The key that a message is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'r str>,
    pipelines: &'r [Box<str>],
    state: &'static str,
    begun: Time,
    ended: Option<Time>,
    /// The number of messages that would have each fate.
    foretold: BTreeMap<Cow<'static, str>, usize>,
    /// The number of changes that have each result.
    came: BTreeMap<&'static str, usize>,
    /// The messages whose fate is another than was foretold.
    differ: usize,
    /// The messages that are done, and the doubts that were released.
    done: usize,
    /// True if all are, and nothing is left to do.
    complete: bool,
    /// The object that the verb prints, of each pipeline that is through.
    results: Vec<Value>,
    /// The order that stopped it, by whom, when and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<StopOrder>,
    /// The problem that it broke off with.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<Followed<'r>>>,
}

/// A change, and what has come of it.
#[derive(Debug, Serialize)]
struct Followed<'r> {
    #[serde(flatten)]
    change: &'r Change,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// True if its fate is another than was foretold.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    differs: bool,
}

impl Run {
    /// Returns the whole report as JSON text.
    ///
    /// # Errors
    ///
    /// 500 `internal`
    pub(crate) fn text(&self) -> Result<Vec<u8>, Problem> {
        text(&self.report(true))
    }

    /// Returns the entry of a list, which says nothing of single messages.
    pub(crate) fn entry(&self) -> RunReport<'_> {
        RunReport {
            semel: None,
            ..self.report(false)
        }
    }

    /// The number of changes that have each result, and the order that stopped it. For its last word, nothing goes on.
    pub(super) fn sums(&self) -> (BTreeMap<&'static str, usize>, Option<StopOrder>) {
        let progress = self.progress();
        let mut came = BTreeMap::new();
        for (change, result) in self.changes.iter().zip(&progress.results) {
            let followed = Followed::of(change, result.as_ref(), RunState::Ended);
            *came.entry(followed.result).or_default() += 1;
        }
        (came, progress.stopped.clone())
    }

    fn report(&self, is_whole: bool) -> RunReport<'_> {
        let progress = self.progress();
        let each = self.changes.iter().zip(&progress.results);
        let followed =
            each.map(|(change, came)| Followed::of(change, came.as_ref(), progress.state));
        let followed: Vec<_> = followed.collect();
        let mut came = BTreeMap::new();
        for it in &followed {
            *came.entry(it.result).or_default() += 1;
        }
        let is_done = |it: &&Option<Came>| it.as_ref().is_some_and(Came::is_done);
        let done = progress.results.iter().filter(is_done).count();
        RunReport {
            semel: Some(VERSION),
            id: &self.id,
            action: self.action.path(),
            by: &self.by,
            reason: &self.reason,
            key: self.key.as_ref().map(Key::as_str),
            pipelines: &self.pipelines,
            state: progress.state.as_str(),
            begun: Time(self.begun),
            ended: progress.ended.map(Time),
            foretold: sums(&self.changes),
            came,
            differ: followed.iter().filter(|it| it.differs).count(),
            done,
            complete: progress.state == RunState::Ended && done == self.changes.len(),
            results: progress.reports.clone(),
            stopped: progress.stopped.clone(),
            problem: progress.problem.clone(),
            changes: is_whole.then_some(followed),
        }
    }
}

impl<'r> Followed<'r> {
    fn of(change: &'r Change, came: Option<&Came>, state: RunState) -> Self {
        let predicted = match change {
            Change::Foretold(it) => &*it.predicted,
            _ => "",
        };
        let (result, why, differs) = match came {
            Some(Came::Message(fate)) => (word(*fate), None, differs(predicted, *fate)),
            Some(Came::Order(fate)) => {
                let (result, why) = fate.parts();
                let differs = !matches!(predicted, "" | "waits");
                (result, why.map(str::to_owned), differs)
            }
            None | Some(Came::Taken) if state == RunState::Running => ("waiting", None, false),
            // Whether its effect was called, and what came of it, nobody was told.
            Some(Came::Taken) if state == RunState::Failed => {
                ("unknown", None, !predicted.is_empty())
            }
            None | Some(Came::Taken) => ("left", None, !matches!(predicted, "" | "waits")),
        };
        Self {
            change,
            result,
            why,
            differs,
        }
    }
}

impl Came {
    const fn is_done(&self) -> bool {
        match self {
            Self::Taken => false,
            Self::Order(fate) => matches!(fate, execution::Fate::Done { why: None }),
            Self::Message(fate) => matches!(fate, Fate::Applied | Fate::Replayed),
        }
    }
}

impl RunState {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// Tells whether a message has another fate than was foretold.
fn differs(predicted: &str, fate: Fate) -> bool {
    let is_expected = match predicted {
        "runs" => fate == Fate::Applied,
        "done" => fate == Fate::Replayed,
        "stays" => matches!(fate, Fate::Conflict | Fate::TooOld | Fate::Quarantined),
        "given_up" => matches!(fate, Fate::Dead | Fate::InDoubt),
        // What comes of it depends on somebody else.
        _ => true,
    };
    !is_expected
}

const fn word(fate: Fate) -> &'static str {
    match fate {
        Fate::Applied => "applied",
        Fate::Replayed => "replayed",
        Fate::Stale => "stale",
        Fate::Conflict => "conflict",
        Fate::TooOld => "too_old",
        Fate::Released => "released",
        Fate::Dead => "dead",
        Fate::InDoubt => "in_doubt",
        Fate::Quarantined => "quarantined",
        Fate::Unprotected => "unprotected",
    }
}
