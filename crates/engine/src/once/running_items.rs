//! Items in flight: granted and waiting, running, finished, being settled.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use super::failure::{Dropped, Failure, Panicked, TimedOut};
use super::run::{Held, Verdict};
use super::settle::Report;
use crate::lease::Lease;

/// Items that were granted together, from then until the last of them is settled.
pub(super) struct Round<S> {
    /// Items that have not begun yet.
    pub(super) waiting: VecDeque<Held<S>>,
    /// The time by which the first of these must have begun.
    late_at: Option<Duration>,
    pub(super) tasks: JoinSet<Vec<(usize, Verdict)>>,
    pub(super) running: BTreeMap<Id, RunningTask<S>>,
    /// The deadline of each task, in the order in which they began.
    pub(super) deadlines: VecDeque<(Duration, Id)>,
    /// Items that have ended and are not settled yet, with the time at which they ended.
    pub(super) finished: Vec<(Held<S>, Verdict, Duration)>,
    /// The time at which finished items are settled, whatever still runs.
    pub(super) ripe_at: Option<Duration>,
    /// Items whose settlement is under way.
    pub(super) settling: Vec<(Held<S>, Report)>,
    pub(super) renew_at: Duration,
    /// The time at which the leases were asked for that are known to hold.
    pub(super) renewed_at: Duration,
    /// Items whose claims were lost before they began: to be asked for again.
    pub(super) again: Vec<usize>,
}

/// A task and the items that it runs.
pub(super) struct RunningTask<S> {
    pub(super) held: Vec<Held<S>>,
    pub(super) abort: AbortHandle,
}

impl<S> Round<S> {
    pub(super) fn new(granted: Vec<Held<S>>, now: Duration, term: Duration) -> Self {
        let asked_at = granted.iter().map(|held| held.asked_at).min();
        let asked_at = asked_at.unwrap_or(now);
        Self {
            late_at: granted.iter().filter_map(|held| held.begin_by).min(),
            waiting: granted.into(),
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            deadlines: VecDeque::new(),
            finished: Vec::new(),
            ripe_at: None,
            settling: Vec::new(),
            renew_at: Lease { asked_at, term }.renew_at(),
            renewed_at: asked_at,
            again: Vec::new(),
        }
    }

    /// Takes out the waiting items that must have begun by now.
    pub(super) fn take_late(&mut self, now: Duration) -> Vec<Held<S>> {
        if self.late_at.is_none_or(|at| now < at) {
            return Vec::new();
        }
        let is_late = |held: &Held<S>| held.begin_by.is_some_and(|by| by <= now);
        let (late, waiting): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(is_late);
        self.waiting = waiting.into();
        self.late_at = self.waiting.iter().filter_map(|held| held.begin_by).min();
        late
    }

    pub(super) fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty() && self.finished.is_empty()
    }

    pub(super) fn has_nothing_else_to_do(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Tells whether finished items are to be settled now: nothing else is coming, or not soon.
    pub(super) fn is_ripe(&self, now: Duration) -> bool {
        self.ripe_at
            .is_some_and(|ripe_at| ripe_at <= now || self.has_nothing_else_to_do())
    }

    /// Returns the time of the next thing to do, including `others`.
    pub(super) fn next_due(&self, others: &[Option<Duration>], is_renewing: bool) -> Duration {
        let deadline = self.deadlines.front().map(|(at, _)| *at);
        let renew_at = Some(self.renew_at).filter(|_| !is_renewing);
        let ripe_at = self.ripe_at.filter(|_| self.settling.is_empty());
        let due = [deadline, renew_at, ripe_at].into_iter();
        let due = due.chain(others.iter().copied()).flatten();
        due.min().unwrap_or(Duration::MAX)
    }

    /// Takes in the result of a task.
    pub(super) fn take(
        &mut self,
        joined: Result<(Id, Vec<(usize, Verdict)>), JoinError>,
        now: Duration,
    ) {
        let (id, verdicts, cause) = match joined {
            Ok((id, verdicts)) => (id, verdicts, None),
            Err(error) => (error.id(), Vec::new(), Some(error.is_panic())),
        };
        let mut verdicts: BTreeMap<usize, Verdict> = verdicts.into_iter().collect();
        // A task that was given up is no longer known.
        let Some(task) = self.running.remove(&id) else {
            return;
        };
        for held in task.held {
            let verdict = verdicts.remove(&held.index).unwrap_or_else(|| {
                Err(match cause {
                    Some(true) if semel_core::planted("O04") => Failure::not_applied(Panicked),
                    // A panic or a dropped call is neither a success nor a proof that nothing was
                    // applied.
                    Some(true) => Failure::maybe_applied(Panicked),
                    Some(false) => Failure::maybe_applied(Dropped),
                    None => Failure::maybe_applied("the effect gave no verdict"),
                })
            });
            self.finish(held, verdict, now);
        }
    }

    pub(super) fn finish(&mut self, held: Held<S>, verdict: Verdict, now: Duration) {
        self.ripe_at.get_or_insert(now + LINGER);
        self.finished.push((held, verdict, now));
    }

    /// Takes in the results of all tasks that have ended. After a stand-still of the process, the end of a task, that of
    /// its time and the loss of its claim are seen together, and what has ended has ended.
    pub(super) fn take_ended(&mut self, now: Duration) {
        while !semel_core::planted("O13")
            && let Some(joined) = self.tasks.try_join_next_with_id()
        {
            self.take(joined, now);
        }
    }

    /// Gives up tasks that are out of time.
    pub(super) fn time_out(&mut self, now: Duration, limit: Option<Duration>) {
        self.take_ended(now);
        while let Some((at, id)) = self.deadlines.front().copied()
            && (at <= now || !self.running.contains_key(&id))
        {
            self.deadlines.pop_front();
            let (Some(task), Some(limit)) = (self.running.remove(&id), limit) else {
                continue;
            };
            task.abort.abort();
            for held in task.held {
                held.stop.send_replace(true);
                let failure = if semel_core::planted("O08") {
                    Failure::not_applied(TimedOut { limit })
                } else {
                    Failure::maybe_applied(TimedOut { limit })
                };
                self.finish(held, Err(failure), now);
            }
        }
    }
}

impl<S> RunningTask<S> {
    pub(super) fn has(&self, index: usize) -> bool {
        self.held.iter().any(|held| held.index == index)
    }
}

/// The time for which a result waits for others of its batch, to be settled with them.
const LINGER: Duration = Duration::from_millis(50);
