//! The running part of a call: effects on tasks of their own, leases that are renewed beside them, and
//! settlements as soon as there is something to settle.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Outcome, Renewed, StateKind, Store};
use tokio::time::{sleep, timeout};

use super::error::{Error, Happened};
use super::failure::{End, Failure};
use super::run::{Answer, Boxed, Held, Run, Verdict, Work};
use super::running_items::{Round, RunningTask};
use super::settle::{Told, settle_all};
use super::store_calls::no_answer;
use crate::effect::{self, Class};
use crate::event::Event;
use crate::lease::{renewal, renewal_interval, renewed_event};
use crate::retry::{self, hint, is_final};

type Renewing = Boxed<(Duration, Vec<usize>, semel_core::Result<Vec<Renewed>>)>;
type Settling = Boxed<Vec<Told>>;

impl<S: Store + Clone> Run<S> {
    /// Runs the granted items until all of them are settled and answered. Returns the items whose claims were
    /// lost before their effect began.
    pub(super) async fn attend(&mut self, granted: Vec<Held<S>>) -> Vec<usize> {
        let mut round = Round::new(granted, self.shared.now(), self.settings.lease);
        let mut renewing: Option<Renewing> = None;
        let mut settling: Option<Settling> = None;
        let mut settling_since = Duration::ZERO;
        loop {
            let now = self.shared.now();
            self.begin(&mut round, now);
            if settling.is_none() && round.is_ripe(now) {
                settling = self.settle(&mut round);
                settling_since = now;
            }
            if round.is_over() && settling.is_none() {
                return round.again;
            }
            if renewing.is_none() && now >= round.renew_at {
                renewing = Some(self.renew(&mut round, now));
            }
            let settled_by = settling_since + self.settings.patience;
            if settling.is_some() && settled_by <= now && round.has_nothing_else_to_do() {
                self.give_up_settling(&round);
            }
            let settled_by = Some(settled_by).filter(|by| settling.is_some() && *by > now);
            let given_back_at =
                Some(self.hopeless_at(&round)).filter(|_| !round.waiting.is_empty());
            let nap = round
                .next_due(&[settled_by, given_back_at], renewing.is_some())
                .saturating_sub(now);
            tokio::select! {
                biased;
                (asked_at, asked, renewed) = or_never(&mut renewing) => {
                    renewing = None;
                    round.take_ended(self.shared.now());
                    self.renewed(&mut round, asked_at, &asked, renewed);
                }
                told = or_never(&mut settling) => {
                    settling = None;
                    for ((held, report), told) in std::mem::take(&mut round.settling).into_iter().zip(told) {
                        self.conclude(held, report, told);
                    }
                }
                joined = round.tasks.join_next_with_id(), if !round.running.is_empty() => {
                    if let Some(joined) = joined {
                        round.take(joined, self.shared.now());
                    }
                }
                () = sleep(nap) => {}
            }
            if semel_core::planted("O06") && !self.is_wanted() {
                round.tasks.abort_all();
            }
            round.time_out(self.shared.now(), self.settings.timeout);
        }
    }

    /// Returns the time at which items have waited long enough for the renewal of their leases.
    fn hopeless_at(&self, round: &Round<S>) -> Duration {
        round.renewed_at + self.settings.lease + self.settings.patience
    }

    /// Begins as many items as there is room for. Items that no caller waits for any more are given back
    /// instead, and so are those whose provider may have forgotten the key by now.
    fn begin(&mut self, round: &mut Round<S>, now: Duration) {
        if round.waiting.is_empty() {
            return;
        }
        let is_hopeless = now >= self.hopeless_at(round);
        if (!self.is_wanted() && !semel_core::planted("O09")) || is_hopeless {
            for held in std::mem::take(&mut round.waiting) {
                let never_begun = Failure::new(End::GivenBack, "it was never begun");
                round.finish(held, Err(never_begun), now);
            }
            return;
        }
        for held in round.take_late(now) {
            let words = "the provider may have forgotten its key before it began";
            round.finish(held, Err(Failure::new(End::GivenBack, words)), now);
        }
        while self.may_begin(round.renewed_at)
            && round.running.len() < self.settings.concurrency
            && let Some(held) = round.waiting.pop_front()
        {
            let (mut held, abort) = match &mut self.work {
                Work::Each(work) => {
                    let index = held.index;
                    let effect = work(index, held.op.clone());
                    let effect = async move { vec![(index, effect.await)] };
                    (vec![held], round.tasks.spawn(effect))
                }
                Work::Whole(work) => {
                    let mut all = vec![held];
                    all.extend(round.waiting.drain(..));
                    let indexes: Vec<_> = all.iter().map(|held| held.index).collect();
                    let ops = all.iter().map(|held| (held.index, held.op.clone()));
                    let effect = work(ops.collect());
                    let effect = async move { indexes.into_iter().zip(effect.await).collect() };
                    (all, round.tasks.spawn(effect))
                }
            };
            for Held {
                index,
                claim,
                began_at,
                ..
            } in &mut held
            {
                *began_at = Some(now);
                self.trace(*index, |trace, _| trace.effect_begins(now));
                let granted = Event::Granted {
                    operation: &claim.operation,
                    grant: claim.grant(),
                };
                self.observe(*index, &granted);
            }
            let id = abort.id();
            if let Some(limit) = self.settings.timeout {
                round.deadlines.push_back((now.saturating_add(limit), id));
            }
            round.running.insert(id, RunningTask { held, abort });
        }
    }

    /// Extends the leases of everything that is not settled.
    fn renew(&self, round: &mut Round<S>, now: Duration) -> Renewing {
        let lease = self.settings.lease;
        round.renew_at = self.lease(now).renew_at();
        let running = round.running.values().flat_map(|task| &task.held);
        let finished = round.finished.iter().map(|(held, ..)| held);
        let settling = round.settling.iter().map(|(held, _)| held);
        let all = round
            .waiting
            .iter()
            .chain(running)
            .chain(finished)
            .chain(settling);
        let (indexes, renewals): (Vec<_>, Vec<_>) = all
            .map(|held| (held.index, renewal(&held.claim, lease)))
            .unzip();
        let store = self.store.clone();
        Box::pin(async move {
            if semel_core::planted("O03") {
                return (now, Vec::new(), Ok(Vec::new()));
            }
            // A later answer is worth nothing, and the next renewal must not wait for it.
            let renewed = timeout(renewal_interval(lease), store.renew(renewals.into())).await;
            (now, indexes, renewed.unwrap_or_else(|_| Err(no_answer())))
        })
    }

    fn renewed(
        &mut self,
        round: &mut Round<S>,
        asked_at: Duration,
        asked: &[usize],
        renewed: semel_core::Result<Vec<Renewed>>,
    ) {
        let lease = self.settings.lease;
        let renewed = match renewed {
            Ok(renewed) => renewed,
            Err(error) => {
                // The settlement reports a store that refuses for good.
                let soon = if is_final(&error) {
                    renewal_interval(lease)
                } else {
                    (lease / 12).min(retry::STORE.most)
                };
                round.renew_at = self.shared.now() + soon.max(hint(&error));
                self.store_failed(&error, soon);
                return;
            }
        };
        round.renewed_at = asked_at;
        self.shared.observe(&self.name, &renewed_event(&renewed));
        for (&index, renewed) in asked.iter().zip(renewed) {
            match renewed {
                // In doubt, no other claimant runs it, and its completion is still accepted: DBT-2.
                Renewed::Until(_)
                | Renewed::Lost {
                    found: Some(StateKind::InDoubt),
                }
                | Renewed::Failed(_) => {}
                Renewed::Lost { found } => self.lost(round, index, found),
            }
        }
    }

    /// Stops the effect of a claim that was lost, and discards its verdict from here on. An effect that has
    /// ended is left to its settlement.
    fn lost(&mut self, round: &mut Round<S>, index: usize, found: Option<StateKind>) {
        if let Some(at) = round.waiting.iter().position(|held| held.index == index) {
            round.waiting.remove(at);
            self.ask_anew(index);
            round.again.push(index);
            return;
        }
        // By its own transaction, or by another claimant: its settlement tells.
        let is_complete = found == Some(StateKind::Completed);
        if is_complete && self.settings.class == Class::Transactional {
            return;
        }
        let mut tasks = round.running.iter_mut();
        let Some((&id, task)) = tasks.find(|(_, task)| task.has(index)) else {
            return;
        };
        let lost: Vec<_> = task
            .held
            .extract_if(.., |held| held.index == index)
            .collect();
        if task.held.is_empty() {
            task.abort.abort();
            round.running.remove(&id);
        }
        for held in lost {
            held.stop.send_replace(true);
            let broken_off = || effect::Verdict::MaybeApplied {
                error: "the claim was lost".into(),
            };
            self.effect_ended(&held, broken_off, self.shared.now());
            self.fenced(&held, found);
        }
    }

    /// Begins to settle the finished items. Those that a transaction of their own has recorded are concluded at once.
    fn settle(&mut self, round: &mut Round<S>) -> Option<Settling> {
        round.ripe_at = None;
        let records_itself = self.settings.class == Class::Transactional;
        for (held, verdict, ended_at) in std::mem::take(&mut round.finished) {
            self.effect_ended(&held, || of_consumer(&verdict), ended_at);
            let is_recorded = records_itself && verdict.is_ok() && held.op.is_committed();
            let report = self.report(&held, verdict);
            if is_recorded {
                let told = Told::recorded(&report);
                self.conclude(held, report, told);
            } else {
                round.settling.push((held, report));
            }
        }
        if round.settling.is_empty() {
            return None;
        }
        let steps = round.settling.iter();
        let steps = steps.map(|(_, report)| report.settlement.clone()).collect();
        Some(Box::pin(settle_all(
            Arc::clone(&self.shared),
            self.store.clone(),
            Arc::clone(&self.name),
            self.settings.clone(),
            steps,
        )))
    }

    /// Answers the caller that the store does not take the outcomes, and goes on trying.
    fn give_up_settling(&mut self, round: &Round<S>) {
        if !self.is_wanted() {
            return;
        }
        let settling = round
            .settling
            .iter()
            .map(|(held, report)| (held, report.happened));
        let finished = round.finished.iter();
        let finished = finished.map(|(held, verdict, _)| (held, happened(verdict)));
        let answers: Vec<_> = settling
            .chain(finished)
            .map(|(held, happened)| (held.index, held.op.operation_id(), happened))
            .collect();
        for (index, operation_id, happened) in answers {
            let source = no_answer();
            let error = Error::Unrecorded {
                operation_id,
                happened,
                source,
            };
            // The attempt goes on.
            self.answers[index] = Some(Err(error));
        }
        let ids: Vec<_> = self
            .requests
            .iter()
            .map(|request| request.operation.id())
            .collect();
        let mut ids = ids.into_iter();
        self.reply(|| match ids.next() {
            Some(operation_id) => Error::Busy {
                operation_id,
                retry_after: Duration::ZERO,
            },
            None => Error::Closed,
        });
    }

    /// Emits that the effect of an item ended, if it began.
    fn effect_ended(
        &mut self,
        held: &Held<S>,
        verdict: impl FnOnce() -> effect::Verdict,
        now: Duration,
    ) {
        let is_noted = self.shared.is_observed() || self.shared.spans.is_some();
        let Some(began_at) = held.began_at.filter(|_| is_noted) else {
            return;
        };
        let (verdict, took) = (verdict(), now.saturating_sub(began_at));
        self.trace(held.index, |trace, now| {
            trace.effect_ended(|| now, took, verdict.as_str());
            if let Some(exchange) = held.op.exchange() {
                trace.exchanged(exchange);
            }
        });
        let ended = Event::EffectEnded {
            operation: &held.claim.operation,
            verdict: &verdict,
            took,
            with_claim: false,
        };
        self.observe(held.index, &ended);
    }

    /// Answers an item whose claim was lost: the result is discarded.
    pub(super) fn fenced(&mut self, held: &Held<S>, found: Option<StateKind>) {
        let operation = &held.claim.operation;
        let token = held.claim.token;
        let fenced = Event::Fenced {
            operation,
            token,
            found,
        };
        self.observe(held.index, &fenced);
        let operation_id = held.op.operation_id();
        let answer = if semel_core::planted("O05") {
            Ok(Answer::ran(&held.claim, true))
        } else {
            Err(Error::ClaimLost {
                operation_id,
                found,
            })
        };
        self.answer(held.index, answer);
    }
}

/// Returns a verdict as that of a consumer's effect.
fn of_consumer(verdict: &Verdict) -> effect::Verdict {
    match verdict {
        Ok(Outcome::Kept { bytes, .. }) => effect::Verdict::Done(bytes.clone()),
        Ok(Outcome::TooLarge { len_bytes, digest }) => effect::Verdict::DoneUnkept {
            len_bytes: *len_bytes,
            digest: *digest,
        },
        Err(failure) => failure.verdict(),
    }
}

fn happened(verdict: &Verdict) -> Happened {
    match verdict {
        Ok(_) => Happened::Yes,
        Err(failure) => failure.happened(),
    }
}

/// Waits for a future, or for ever if there is none.
async fn or_never<F: Future + Unpin>(future: &mut Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
