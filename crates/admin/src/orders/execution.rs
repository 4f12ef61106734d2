//! Carries out a plan that holds, and says of each change what became of it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use axum::http::StatusCode;
use semel_core::decide::Directed;
use semel_core::{Certainty, Clock, Code, Error, Note, Timestamp};
use semel_http::Problem;
use semel_operate::in_doubt::resolve;
use semel_operate::keys::Planned;
use semel_operate::order::{BATCH, refusal_text};
use serde::Serialize;

use super::plan::{Change, Plan, VERSION, Work};
use crate::settings::Lent;

/// The result of an order: every change of its plan.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    /// The version of the format.
    semel: u32,
    changes: Vec<Carried>,
    /// The changes that were made.
    done: usize,
    /// True if all were made.
    complete: bool,
}

/// A change, and what became of it.
#[derive(Debug, Serialize)]
struct Carried {
    #[serde(flatten)]
    change: Change,
    #[serde(flatten)]
    fate: Fate,
}

/// The fate of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
enum Fate {
    /// It was made, and the audit trail has an entry.
    Done,
    /// It was not made: something else happened meanwhile.
    Refused { why: String },
    /// It was not made, for this failure.
    Failed { why: String },
    /// Nobody knows whether it was made: look at it.
    Unknown { why: String },
    /// It was not tried, after a failure.
    NotTried,
}

/// Carries out a plan.
///
/// # Errors
///
/// That of the store, if it failed before anything was done
pub(super) async fn carry_out(
    lent: &Lent,
    plan: Plan,
    note: &Note,
    clock: &dyn Clock,
) -> Result<Answer, Problem> {
    let Plan { changes, work, .. } = plan;
    let mut fates = Fates::new(changes.len());
    match work {
        Work::Cases(cases) => {
            for batch in cases.chunks(BATCH) {
                let answers = resolve(&lent.store, batch, note).await;
                if fates.add(answers, batch.len(), clock.now()).is_break() {
                    break;
                }
            }
        }
        Work::Orders(orders) => {
            for batch in orders.chunks(BATCH) {
                let answers = Planned::give(&lent.store, batch, note).await;
                if fates.add(answers, batch.len(), clock.now()).is_break() {
                    break;
                }
            }
        }
        Work::Messages(search, ids) => {
            let mut dropped = BTreeMap::new();
            let until = Timestamp::from_millis(u64::MAX);
            let removed = search.remove(&lent.store, until, note, |ids, were_there| {
                dropped.extend(ids.iter().copied().zip(were_there.iter().copied()));
            });
            let failure = removed.await.err();
            fates.of_messages(&ids, &dropped, failure);
        }
        Work::Sweep(forecast) => {
            let Some(trail) = &lent.trail else {
                let detail = "the store takes no entries about itself into its audit trail";
                let status = StatusCode::NOT_IMPLEMENTED;
                return Err(Problem::new(status, Code::Unsupported.as_str(), detail));
            };
            let (note, now) = (note.clone(), clock.now());
            let swept = forecast.sweep(&lent.store, trail, note, now, |_| {});
            let swept = swept.await.map_err(|error| Problem::from(&error))?;
            return Ok(Answer::of(vec![Carried {
                change: Change::Swept(swept),
                fate: Fate::Done,
            }]));
        }
    }
    fates.answer(changes)
}

/// The fates of changes, in their order.
struct Fates {
    all: Vec<Fate>,
    failure: Option<Error>,
}

impl Fates {
    fn new(count: usize) -> Self {
        Self {
            all: Vec::with_capacity(count),
            failure: None,
        }
    }

    /// Adds the answers to a batch of orders; there is no use in another one after a failure.
    fn add(
        &mut self,
        answers: semel_core::Result<Vec<Directed>>,
        count: usize,
        now: Timestamp,
    ) -> ControlFlow<()> {
        match answers {
            Ok(answers) => {
                let fates = answers.into_iter().map(|it| Fate::of(it, now));
                self.all.extend(fates);
                ControlFlow::Continue(())
            }
            Err(error) => {
                let fate = Fate::after(&error);
                self.all.extend(std::iter::repeat_n(fate, count));
                self.failure = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn of_messages(
        &mut self,
        ids: &[semel_core::ParkedId],
        dropped: &BTreeMap<semel_core::ParkedId, bool>,
        failure: Option<Error>,
    ) {
        let fate = failure.as_ref().map(Fate::after);
        let fates = ids.iter().map(|id| match (dropped.get(id), &fate) {
            (Some(true), _) => Fate::Done,
            (None, Some(fate)) => fate.clone(),
            (Some(false) | None, _) => Fate::Refused {
                why: "it is gone meanwhile".to_owned(),
            },
        });
        self.all.extend(fates);
        self.failure = failure;
    }

    fn answer(self, changes: Vec<Change>) -> Result<Answer, Problem> {
        let Self { all, failure } = self;
        let is_nothing_done = all.iter().all(|fate| *fate != Fate::Done);
        if let Some(error) = failure.filter(|_| is_nothing_done) {
            return Err(Problem::from(&error));
        }
        let fates = all.into_iter().chain(std::iter::repeat(Fate::NotTried));
        let carried = changes.into_iter().zip(fates);
        let carried = carried.map(|(change, fate)| Carried { change, fate });
        Ok(Answer::of(carried.collect()))
    }
}

impl Fate {
    fn of(answer: Directed, now: Timestamp) -> Self {
        match answer {
            Directed::Now(_) => Self::Done,
            Directed::Refused(refusal) => Self::Refused {
                why: refusal_text(refusal, now),
            },
            Directed::Failed(error) => Self::after(&error),
        }
    }

    fn after(error: &Error) -> Self {
        let why = format!("{error} [{}]", error.code());
        match error.certainty() {
            Certainty::NotApplied => Self::Failed { why },
            Certainty::MaybeApplied => Self::Unknown { why },
        }
    }
}

impl Answer {
    fn of(changes: Vec<Carried>) -> Self {
        let done = changes.iter().filter(|it| it.fate == Fate::Done).count();
        Self {
            semel: VERSION,
            complete: done == changes.len(),
            done,
            changes,
        }
    }
}
