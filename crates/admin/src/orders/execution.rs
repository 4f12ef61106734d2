//! Carries out a plan that holds, and says of each change what became of it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use semel_core::decide::Directed;
use semel_core::port::store::Store;
use semel_core::{
    AnyStore, Certainty, Claimant, Clock, Code, Entropy, Error, Note, Record, Result, Timestamp,
};
use semel_http::Problem;
use semel_operate::in_doubt::{Case, MessageFate, resolve};
use semel_operate::keys::Planned;
use semel_operate::order::{BATCH, refusal_text};
use semel_operate::pipelines::PlannedPipeline;
use semel_operate::producers::{PlannedProducer, Producers};
use semel_operate::store::{SweepResult, sweep};
use serde::Serialize;

use super::letter::batches;
use super::plan::{Change, Discard, Plan, VERSION, Work, snapshot};
use crate::settings::Lent;

/// The result of an order: every change of its plan.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    /// The version of the format.
    semel: u32,
    changes: Vec<Carried>,
    /// The changes that were made.
    done: usize,
    /// True if all were made, and nothing is left to do.
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
pub(super) enum Fate {
    /// It was made, and the audit trail has an entry; a reason says what is left to do.
    Done {
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// It was made, and there is no audit trail beside it that could have an entry.
    #[serde(rename = "done")]
    Unaudited { audited: bool },
    /// It was not made: something else happened meanwhile.
    Refused { why: String },
    /// It was not made, for this failure.
    Failed { why: String },
    /// Nobody knows whether it was made: look at it.
    Unknown { why: String },
    /// It was not tried, after a failure.
    NotTried,
}

/// Gives the orders of plans.
pub(super) struct Execution<'a> {
    pub(super) lent: &'a Lent,
    pub(super) note: &'a Note,
    pub(super) clock: &'a dyn Clock,
    pub(super) entropy: &'a dyn Entropy,
    /// The name under which records of orders are made.
    pub(super) claimant: Claimant,
    /// True once the worker is to end: then no further batch begins.
    pub(super) is_stopping: &'a AtomicBool,
}

impl Execution<'_> {
    /// Carries out a plan.
    ///
    /// # Errors
    ///
    /// That of the store, if it failed before it answered anything
    pub(super) async fn carry_out(self, plan: Plan) -> Result<Answer, Problem> {
        let Plan { changes, work, .. } = plan;
        let mut fates = Fates::new(changes.len());
        match work {
            Work::Cases(cases) => {
                for batch in cases.chunks(BATCH) {
                    if self.stops() || fates.add(self.resolve(batch).await, batch.len()).is_break()
                    {
                        break;
                    }
                }
            }
            Work::Orders(orders) => {
                for batch in orders.chunks(BATCH) {
                    if self.stops() || fates.add(self.change(batch).await, batch.len()).is_break() {
                        break;
                    }
                }
            }
            Work::Messages(messages) => {
                for batch in messages.chunks(BATCH) {
                    if self.stops() || fates.add(self.remove(batch).await, batch.len()).is_break() {
                        break;
                    }
                }
            }
            Work::Letters(order, letters) => {
                for batch in batches(&letters) {
                    let given = self.order_letters(order, batch);
                    if self.stops() || fates.add(given.await, batch.len()).is_break() {
                        break;
                    }
                }
            }
            Work::Sweep(before) => return self.sweep(before).await,
            // That is done by a run, not by an order.
            Work::Rerun(_) | Work::Extension(_) => {}
            // An order that the audit trail could not tell of is not given.
            Work::Producers(..) if self.lent.trail.is_none() => return Err(no_trail()),
            Work::Producers(producers, all) => {
                for planned in &all {
                    if self.stops()
                        || fates
                            .add(self.produce(&producers, planned).await, 1)
                            .is_break()
                    {
                        break;
                    }
                }
            }
            Work::Pipelines(pipelines) => {
                for planned in &pipelines {
                    if self.stops() || fates.add(self.order(planned).await, 1).is_break() {
                        break;
                    }
                }
            }
        }
        fates.answer(changes)
    }

    fn stops(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Resolves those doubts of a batch that stand as they were planned.
    async fn resolve(&self, batch: &[Case]) -> Result<Batch> {
        let store = &self.lent.store;
        let operations = batch.iter().map(|it| it.doubt().operation.clone());
        let records = store.get(operations.collect()).await;
        let records = records.map_err(Error::not_applied)?;
        let as_planned = batch.iter().zip(records);
        let as_planned = as_planned.map(|(it, now)| is_as(now, &snapshot(&it.doubt().record)));
        let as_planned: Vec<bool> = as_planned.collect();
        let same = batch
            .iter()
            .zip(&as_planned)
            .filter(|(_, is_same)| **is_same);
        let same: Vec<Case> = same.map(|(case, _)| case.clone()).collect();
        let resolution = resolve(store, &same, self.note).await?;
        let (now, failure) = (self.clock.now(), resolution.failure);
        let answers = same.iter().zip(resolution.answers);
        let fates =
            answers.map(|(case, it)| Fate::of(it, now).with_message(case, failure.as_ref()));
        Ok(Batch {
            fates: spread(&as_planned, fates),
            next: if failure.is_some() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            },
        })
    }

    /// Changes those records of a batch that stand as they were planned.
    pub(super) async fn change(&self, batch: &[(Planned, String)]) -> Result<Batch> {
        let store = &self.lent.store;
        let operations = batch.iter().map(|(it, _)| it.operation.clone());
        let records = store.get(operations.collect()).await;
        let records = records.map_err(Error::not_applied)?;
        let as_planned = batch.iter().zip(records);
        let as_planned = as_planned.map(|((_, planned), now)| is_as(now, planned));
        let as_planned: Vec<bool> = as_planned.collect();
        let same = batch
            .iter()
            .zip(&as_planned)
            .filter(|(_, is_same)| **is_same);
        let same: Vec<Planned> = same.map(|((it, _), _)| it.clone()).collect();
        let answers = if same.is_empty() {
            Vec::new()
        } else {
            Planned::give(store, &same, self.note).await?
        };
        let now = self.clock.now();
        let fates = answers.into_iter().map(|it| Fate::of(it, now));
        Ok(Batch::whole(spread(&as_planned, fates)))
    }

    /// Drops those messages of a batch whose records are in the state that was planned.
    async fn remove(&self, batch: &[Discard]) -> Result<Batch> {
        let store = &self.lent.store;
        let operations = batch.iter().filter_map(|it| it.operation.as_ref());
        let operations: Arc<[_]> = operations.map(|(it, _)| it.clone()).collect();
        let records = if operations.is_empty() {
            Vec::new()
        } else {
            let records = store.get(operations).await;
            records.map_err(Error::not_applied)?
        };
        let mut records = records.into_iter();
        let as_planned = batch.iter().map(|it| {
            it.operation.as_ref().is_none_or(|(_, planned)| {
                let record = records.next().flatten();
                record.map(|it| it.state.kind()) == *planned
            })
        });
        let as_planned: Vec<bool> = as_planned.collect();
        let same = batch
            .iter()
            .zip(&as_planned)
            .filter(|(_, is_same)| **is_same);
        let same: Arc<[_]> = same.map(|(it, _)| it.id).collect();
        let were_there = if same.is_empty() {
            Vec::new()
        } else {
            store.drop_parked(same, Some(self.note)).await?
        };
        let fates = were_there.into_iter().map(|was_there| {
            if was_there {
                Fate::Done { why: None }
            } else {
                Fate::Refused {
                    why: "it is gone meanwhile".to_owned(),
                }
            }
        });
        Ok(Batch::whole(spread(&as_planned, fates)))
    }

    /// Pauses, drains or resumes a pipeline or a relay.
    async fn order(&self, (planned, store): &(PlannedPipeline, AnyStore)) -> Result<Batch> {
        let id = self.claimant.claim(self.entropy);
        let given = planned.give(store, self.note, id, self.clock.now());
        given.await?;
        Ok(Batch::whole(vec![Fate::Done { why: None }]))
    }

    /// Freezes, thaws or releases a producer.
    async fn produce(&self, producers: &Producers, planned: &PlannedProducer) -> Result<Batch> {
        let trail = self.lent.trail.as_ref();
        let given = planned.give(producers, trail, self.note, self.clock.now());
        let fate = if given.await? {
            Fate::Done { why: None }
        } else {
            let why = "there is no such producer any more".to_owned();
            Fate::Refused { why }
        };
        Ok(Batch::whole(vec![fate]))
    }

    async fn sweep(&self, before: Option<u64>) -> Result<Answer, Problem> {
        let Some(trail) = &self.lent.trail else {
            return Err(no_trail());
        };
        let end = self.clock.monotonic() + LONGEST_SWEEP;
        let visit = |_: &SweepResult| {
            if self.stops() || self.clock.monotonic() >= end {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let (note, at) = (self.note.clone(), (before, self.clock.now()));
        let swept = sweep(&self.lent.store, trail, note, at, visit).await;
        let done = swept.done;
        let fate = match swept.failure {
            Some(error) if done == SweepResult::default() => return Err(Problem::from(&error)),
            Some(error) => Fate::Unknown {
                why: format!(
                    "this much is done, perhaps more, and then: {error} [{}]",
                    error.code()
                ),
            },
            None => Fate::Done {
                why: swept.is_stopped.then(|| {
                    let why = if self.stops() {
                        "the worker ends"
                    } else {
                        "other orders wait"
                    };
                    format!("{why}; sweep again for the rest")
                }),
            },
        };
        Ok(Answer::of(vec![Carried {
            change: Change::Swept(done),
            fate,
        }]))
    }
}

/// The longest time that a sweep keeps other orders waiting, its last step apart.
const LONGEST_SWEEP: Duration = Duration::from_secs(30);

/// The problem of an order of which the audit trail could not tell.
pub(crate) fn no_trail() -> Problem {
    let detail = "the store takes no entries about itself into its audit trail";
    let status = StatusCode::NOT_IMPLEMENTED;
    Problem::new(status, Code::Unsupported.as_str(), detail)
}

fn is_as(record: Option<Record>, planned: &str) -> bool {
    record.is_some_and(|it| snapshot(&it) == planned)
}

/// Puts the fates of those that were as planned among the others, which are refused.
fn spread(as_planned: &[bool], mut fates: impl Iterator<Item = Fate>) -> Vec<Fate> {
    let all = as_planned.iter().map(|is_same| {
        if !is_same {
            return Fate::changed();
        }
        fates.next().unwrap_or_else(|| Fate::Unknown {
            why: "the store gave no answer".to_owned(),
        })
    });
    all.collect()
}

/// The fates of a batch.
pub(super) struct Batch {
    pub(super) fates: Vec<Fate>,
    /// A break if another batch is of no use.
    next: ControlFlow<()>,
}

impl Batch {
    pub(super) const fn whole(fates: Vec<Fate>) -> Self {
        Self {
            fates,
            next: ControlFlow::Continue(()),
        }
    }
}

/// The fates of changes, in their order.
struct Fates {
    all: Vec<Fate>,
    /// The failure of the first batch.
    failure: Option<Error>,
}

impl Fates {
    fn new(count: usize) -> Self {
        Self {
            all: Vec::with_capacity(count),
            failure: None,
        }
    }

    /// Adds a batch of so many changes; there is no use in another one after a failure.
    fn add(&mut self, batch: Result<Batch>, count: usize) -> ControlFlow<()> {
        match batch {
            Ok(Batch { fates, next }) => {
                self.all.extend(fates);
                next
            }
            Err(error) => {
                let is_first = self.all.is_empty();
                let fate = Fate::after(&error);
                self.all.extend(std::iter::repeat_n(fate, count));
                self.failure = Some(error).filter(|_| is_first);
                ControlFlow::Break(())
            }
        }
    }

    fn answer(self, changes: Vec<Change>) -> Result<Answer, Problem> {
        let Self { all, failure } = self;
        if let Some(error) = failure {
            return Err(Problem::from(&error));
        }
        let fates = all.into_iter().chain(std::iter::repeat(Fate::NotTried));
        let carried = changes.into_iter().zip(fates);
        let carried = carried.map(|(change, fate)| Carried { change, fate });
        Ok(Answer::of(carried.collect()))
    }
}

impl Fate {
    /// That of a change that is about something else by now.
    pub(super) fn changed() -> Self {
        let why = "it has changed since the plan".to_owned();
        Self::Refused { why }
    }

    fn of(answer: Directed, now: Timestamp) -> Self {
        match answer {
            Directed::Now(_) => Self::Done { why: None },
            Directed::Refused(refusal) => Self::Refused {
                why: refusal_text(refusal, now),
            },
            Directed::Failed(error) => Self::after(&error),
        }
    }

    /// The same of a doubt, whose message may have stayed after this failure.
    fn with_message(self, case: &Case, failure: Option<&Error>) -> Self {
        let is_moved = matches!(
            case.message(),
            MessageFate::Dropped | MessageFate::DeadLetter
        );
        match (self, failure) {
            (Self::Done { .. }, Some(error)) if is_moved => {
                let why = format!("its message may still be kept: {error} [{}]", error.code());
                if case.is_left_over() {
                    // There was nothing else to do.
                    Self::Unknown { why }
                } else {
                    Self::Done { why: Some(why) }
                }
            }
            (fate, _) => fate,
        }
    }

    /// The word for it, and the reason if there is one.
    pub(super) fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Done { why } => ("done", why.as_deref()),
            Self::Unaudited { .. } => ("done", None),
            Self::Refused { why } => ("refused", Some(why)),
            Self::Failed { why } => ("failed", Some(why)),
            Self::Unknown { why } => ("unknown", Some(why)),
            Self::NotTried => ("not_tried", None),
        }
    }

    pub(super) fn after(error: &Error) -> Self {
        let why = format!("{error} [{}]", error.code());
        match error.certainty() {
            Certainty::NotApplied => Self::Failed { why },
            Certainty::MaybeApplied => Self::Unknown { why },
        }
    }
}

impl Answer {
    fn of(changes: Vec<Carried>) -> Self {
        let is_done = |it: &&Carried| matches!(it.fate, Fate::Done { .. } | Fate::Unaudited { .. });
        let is_whole =
            |it: &Carried| matches!(it.fate, Fate::Done { why: None } | Fate::Unaudited { .. });
        Self {
            semel: VERSION,
            complete: changes.iter().all(is_whole),
            done: changes.iter().filter(is_done).count(),
            changes,
        }
    }
}
