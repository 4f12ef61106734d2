//! Reports on ended effects, and the meaning of the store's answers for the caller.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{
    Certainty, Claim, ErrorKind, Operation, Outcome, Result, Settled, Settlement, StateKind, Step,
    Store, StoreExt,
};
use tokio::time::{sleep, timeout};

use super::error::{Cause, Error, Happened};
use super::failure::{End, Failure};
use super::run::{Answer, Held, Run, Verdict};
use super::settings::Settings;
use super::shared::Shared;
use super::store_calls::no_answer;
use crate::differing::Measured;
use crate::effect::Class;
use crate::event::Event;
use crate::retry::{self, Pauses, hint, is_final};
use crate::step::{Ended, Terms, step_of};

/// The time for which the records of lost claims are asked for.
const COMPARED_WITHIN: Duration = Duration::from_secs(1);
/// The reason of an end that came without one.
const NO_REASON: &str = "no reason was given";

/// The report on an item, and the part that its caller learns.
pub(super) struct Report {
    pub(super) settlement: Settlement,
    pub(super) happened: Happened,
    cause: Option<Cause>,
}

/// The result of a settlement.
pub(super) struct Told {
    settled: Result<Settled>,
    /// The outcome went into the record as it was.
    kept: bool,
    recorder: Recorder,
    /// An earlier attempt may have applied the effect.
    doubted: bool,
}

/// The one who put the end of an effect on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recorder {
    /// The effect itself: nothing was reported.
    Effect,
    /// A report to the store.
    Report {
        /// The store failed for it before.
        had_trouble: bool,
    },
}

impl Told {
    /// Returns the result of a completion that the effect has committed itself.
    pub(super) const fn recorded(report: &Report) -> Self {
        let is_kept = matches!(
            report.settlement.step,
            Step::Complete {
                outcome: Outcome::Kept { .. },
                ..
            }
        );
        Self {
            settled: Ok(Settled::Now(StateKind::Completed)),
            kept: is_kept,
            recorder: Recorder::Effect,
            doubted: false,
        }
    }
}

impl<S: Store + Clone> Run<S> {
    /// Returns the report of a claim whose effect ended with this verdict.
    pub(super) fn report(&self, held: &Held<S>, verdict: Verdict) -> Report {
        let usual = self.settings.backoff.after(held.claim.attempt);
        let usual = self.shared.surroundings.jittered(usual);
        let (backoff, counted) = match verdict.as_ref().err().map(|failure| failure.end) {
            Some(End::GivenBack) => (Duration::ZERO, false),
            Some(End::Away { retry_after }) => {
                (self.shared.surroundings.jittered(retry_after), false)
            }
            Some(End::NotApplied { .. } | End::MaybeApplied | End::Dead { .. }) | None => {
                (usual, true)
            }
        };
        let terms = Terms {
            window: self.settings.window,
            limits: self.settings.limits,
            backoff,
            counted,
        };
        let (ended, happened, cause) = match verdict {
            Ok(outcome) => (Ended::Done(outcome), Happened::Yes, None),
            Err(failure) => (failure.ended(), failure.happened(), Some(failure.cause)),
        };
        Report {
            settlement: Settlement {
                operation: held.claim.operation.clone(),
                claim_id: held.claim.claim_id,
                step: step_of(ended, terms),
            },
            happened,
            cause,
        }
    }

    /// Answers an item whose settlement was answered.
    pub(super) fn conclude(&mut self, held: Held<S>, report: Report, told: Told) {
        self.trace(held.index, |trace, now| {
            if let Recorder::Report { had_trouble } = told.recorder {
                trace.settled(now);
                trace.had_trouble |= had_trouble;
            }
        });
        let operation = &held.claim.operation;
        let operation_id = held.op.operation_id();
        let (coordinates, ran) = ("", true);
        let cause = report.cause;
        let error = cause.as_ref().filter(|_| self.shared.is_observed());
        let error = error.map(ToString::to_string);
        let error = error.as_deref().unwrap_or(NO_REASON);
        let source = || cause.unwrap_or_else(|| NO_REASON.into());
        let observe = |event: &Event<'_>| self.observe(held.index, event);
        let answer = match told.settled {
            Ok(Settled::Now(StateKind::Completed)) => {
                observe(&Event::Completed {
                    operation,
                    takeover: false,
                });
                Ok(Answer::ran(&held.claim, told.kept))
            }
            Ok(Settled::Now(StateKind::Released)) => {
                let wait = match report.settlement.step {
                    Step::Release { after, .. } => after,
                    Step::Start { .. } | Step::Complete { .. } | Step::Fail { .. } => {
                        Duration::ZERO
                    }
                };
                observe(&Event::Released {
                    operation,
                    error,
                    wait,
                });
                let is_doubted = told.doubted || held.claim.possible_repeat;
                Err(Error::Failed {
                    operation_id,
                    attempt: held.claim.attempt,
                    happened: if is_doubted {
                        Happened::Maybe
                    } else {
                        report.happened
                    },
                    retry_after: wait,
                    source: source(),
                })
            }
            Ok(Settled::Now(StateKind::Dead)) => {
                observe(&Event::Dead {
                    operation,
                    coordinates,
                    error,
                });
                Err(Error::Dead {
                    operation_id,
                    ran,
                    source: source(),
                })
            }
            Ok(Settled::Now(StateKind::InDoubt)) => {
                observe(&Event::InDoubt {
                    operation,
                    coordinates,
                    error,
                });
                Err(Error::InDoubt {
                    operation_id,
                    ran,
                    source: source(),
                })
            }
            // No step that is reported here leads to these two states.
            Ok(Settled::Now(found @ (StateKind::Claimed | StateKind::Started))) => {
                return self.fenced(&held, Some(found));
            }
            Ok(Settled::Fenced { found }) => return self.fenced(&held, found),
            Ok(Settled::Failed(source)) | Err(source) => Err(Error::Unrecorded {
                operation_id,
                happened: report.happened,
                source,
            }),
        };
        self.answer(held.index, answer);
        // Only now: a caller that waits for it asks the store, which knows.
        drop(held.presence);
    }
}

impl Answer {
    pub(super) const fn ran(claim: &Claim, kept: bool) -> Self {
        Self::Ran {
            attempt: claim.attempt,
            takeover: claim.takeover,
            possible_repeat: claim.possible_repeat,
            kept,
        }
    }
}

impl Failure {
    fn ended(&self) -> Ended {
        let error = self.line();
        match self.end {
            End::NotApplied { retry_after } => Ended::NotApplied { error, retry_after },
            End::MaybeApplied => {
                let certainty = Certainty::MaybeApplied;
                Ended::Failed { error, certainty }
            }
            End::GivenBack | End::Away { .. } => {
                let certainty = Certainty::NotApplied;
                Ended::Failed { error, certainty }
            }
            End::Dead { decisive } => Ended::Dead { error, decisive },
        }
    }

    pub(super) const fn happened(&self) -> Happened {
        match self.end {
            End::NotApplied { .. } | End::Dead { .. } | End::GivenBack | End::Away { .. } => {
                Happened::No
            }
            End::MaybeApplied => Happened::Maybe,
        }
    }
}

/// Reports all of `settlements`, again and again until each is answered: asking for a claim anew would run
/// its effect anew. Only a store that refuses for good, or the end of the handle, stops it.
pub(super) async fn settle_all<S: Store + Clone>(
    shared: Arc<Shared<S>>,
    store: S,
    name: Arc<str>,
    settings: Settings,
    settlements: Arc<[Settlement]>,
) -> Vec<Told> {
    let asking = Asking {
        since: shared.now(),
        shared,
        store,
        name,
        settings,
    };
    let (batch, had_trouble) = asking.ask_all(&settlements).await;
    let mut answers = match batch {
        Ok(answers) => answers.into_iter().map(Some).collect(),
        Err(error) if settlements.len() > 1 && error.kind() == ErrorKind::InvalidInput => {
            Vec::new()
        }
        Err(error) => vec![Some(Settled::Failed(error)); settlements.len()],
    };
    answers.resize(settlements.len(), None);
    let mut all = Vec::with_capacity(settlements.len());
    for (settlement, answer) in settlements.iter().zip(answers) {
        all.push(asking.finish(settlement, answer, had_trouble).await);
    }
    asking.doubt(&settlements, &mut all).await;
    asking.compare(&settlements, &all);
    all
}

struct Asking<S> {
    shared: Arc<Shared<S>>,
    store: S,
    name: Arc<str>,
    settings: Settings,
    since: Duration,
}

impl<S: Store + Clone> Asking<S> {
    /// Repeats one settlement until it is answered, if it is not yet.
    async fn finish(
        &self,
        settlement: &Settlement,
        answer: Option<Settled>,
        mut had_trouble: bool,
    ) -> Told {
        had_trouble |= matches!(answer, Some(Settled::Failed(_)));
        let mut settled = match answer {
            Some(Settled::Failed(error)) if is_final(&error) => Err(error),
            Some(Settled::Failed(_)) | None => {
                let (settled, has_failed) = self.ask_one(settlement).await;
                had_trouble |= has_failed;
                settled
            }
            Some(settled) => Ok(settled),
        };
        let mut kept = !matches!(
            settlement.step,
            Step::Complete {
                outcome: Outcome::TooLarge { .. },
                ..
            }
        );
        // The effect happened, and that is recorded even if its outcome cannot be.
        for shorten in [replaced, cut] {
            let is_refused =
                matches!(&settled, Err(error) if error.kind() == ErrorKind::InvalidInput);
            let shorter = is_refused.then(|| shorten(settlement, &self.settings));
            if let Some(shorter) = shorter.flatten() {
                settled = self.ask_one(&shorter).await.0;
                kept = false;
            }
        }
        Told {
            settled,
            kept,
            recorder: Recorder::Report { had_trouble },
            doubted: false,
        }
    }

    /// Emits which effects ended with another outcome than the one that is recorded, of those whose claim was lost and
    /// whose operation another attempt completed. Nobody waits for it, and it is worth no more than one short try.
    fn compare(&self, settlements: &[Settlement], told: &[Told]) {
        if !self.shared.is_observed() {
            return;
        }
        let (lost, ended): (Vec<_>, Vec<_>) = settlements
            .iter()
            .zip(told)
            .filter_map(|(settlement, told)| completed_elsewhere(settlement, &told.settled))
            .unzip();
        if lost.is_empty() {
            return;
        }
        let lost: Arc<[_]> = lost.into();
        let (shared, name) = (Arc::clone(&self.shared), Arc::clone(&self.name));
        let store = self.store.clone();
        let comparing = async move {
            let asked = timeout(COMPARED_WITHIN, store.get(Arc::clone(&lost)));
            let records = tokio::select! {
                biased;
                () = shared.closing() => return,
                records = asked => records,
            };
            let Ok(Ok(records)) = records else {
                return;
            };
            for ((operation, ended), record) in lost.iter().zip(ended).zip(records) {
                let recorded = record.and_then(|record| record.outcome);
                if recorded.is_some_and(|recorded| ended.differs(&recorded)) {
                    shared.observe(&name, &Event::OutcomeDiffers { operation });
                }
            }
        };
        // A handle that is being closed begins nothing any more.
        let _ = self.shared.spawn(&self.store, comparing);
    }

    /// Settles all of them in one call. If there is only one, its failure is a failure of the call.
    async fn ask_all(&self, settlements: &Arc<[Settlement]>) -> (Result<Vec<Settled>>, bool) {
        self.ask(|| async {
            let answers = self.store.settle(Arc::clone(settlements)).await?;
            match &*answers {
                [Settled::Failed(error)] if settlements.len() == 1 => Err(error.clone()),
                _ => Ok(answers),
            }
        })
        .await
    }

    /// Settles one item alone, so that its failure is a failure of the call.
    async fn ask_one(&self, settlement: &Settlement) -> (Result<Settled>, bool) {
        self.ask(|| self.store.settle_one(settlement.clone())).await
    }

    /// Makes a call of the store until it answers; returns, too, whether it failed before.
    async fn ask<T, Fut>(&self, call: impl Fn() -> Fut + Send + Sync) -> (Result<T>, bool)
    where
        Fut: Future<Output = Result<T>> + Send,
    {
        let mut has_failed = false;
        let mut pauses = Pauses::new(retry::STORE);
        loop {
            // The wait is given up, not the call: asked again, the store says what it has.
            let answer = timeout(self.settings.patience, call()).await;
            let error = match answer.unwrap_or_else(|_| Err(no_answer())) {
                Ok(answer) => return (Ok(answer), has_failed),
                Err(error) => error,
            };
            has_failed = true;
            let waited = self.shared.now().saturating_sub(self.since);
            let is_last = self.shared.is_closing() && waited >= self.settings.patience;
            if is_final(&error) || is_last || semel_core::planted("O11") {
                return (Err(error), has_failed);
            }
            let pause = pauses.longer().max(hint(&error));
            let pause = self.shared.surroundings.jittered(pause);
            let (error, wait) = (&error, pause);
            self.shared
                .observe(&self.name, &Event::StoreFailed { error, wait });
            sleep(pause).await;
        }
    }

    /// Finds out, in one call, for which of the released items an earlier attempt may have applied an effect that this one
    /// surely did not. Only the record of a keyed effect knows: doubts of other classes end in doubt.
    async fn doubt(&self, settlements: &[Settlement], told: &mut [Told]) {
        if !matches!(self.settings.class, Class::Keyed { .. }) {
            return;
        }
        let all = settlements.iter().zip(told);
        let (operations, released): (Vec<_>, Vec<_>) = all
            .filter(|(_, told)| matches!(told.settled, Ok(Settled::Now(StateKind::Released))))
            .map(|(settlement, told)| (settlement.operation.clone(), told))
            .unzip();
        if operations.is_empty() {
            return;
        }
        let call = self.store.get(operations.into());
        let records = timeout(self.settings.patience, call).await;
        let mut records = records.ok().and_then(Result::ok).into_iter().flatten();
        for told in released {
            // Without an answer, it may have.
            told.doubted = records
                .next()
                .is_none_or(|record| record.is_some_and(|record| record.doubt.is_some()));
        }
    }
}

/// Returns the operation of a completion whose claim was lost to one that completed it, and what its effect ended with.
fn completed_elsewhere(
    settlement: &Settlement,
    settled: &Result<Settled>,
) -> Option<(Operation, Measured)> {
    match (&settlement.step, settled) {
        (
            Step::Complete { outcome, .. },
            Ok(Settled::Fenced {
                found: Some(StateKind::Completed),
            }),
        ) => Some((settlement.operation.clone(), Measured::new(outcome))),
        _ => None,
    }
}

/// Returns a completion with the outcome that its operation has in place of one that the store refuses to keep.
fn replaced(settlement: &Settlement, settings: &Settings) -> Option<Settlement> {
    let mut replaced = settlement.clone();
    if let Step::Complete { outcome, .. } = &mut replaced.step {
        *outcome = settings.replacement.of(outcome)?;
        return Some(replaced);
    }
    None
}

/// Returns a completion without its outcome, which the store refuses to keep, if there is anything to cut.
fn cut(settlement: &Settlement, _: &Settings) -> Option<Settlement> {
    let mut cut = settlement.clone();
    if let Step::Complete { outcome, .. } = &mut cut.step
        && let Outcome::Kept { bytes, .. } = outcome
        && !bytes.is_empty()
    {
        *outcome = Outcome::raw(std::mem::take(bytes), 0);
        return Some(cut);
    }
    None
}
