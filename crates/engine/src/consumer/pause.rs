//! The circuit breaker of a pipeline's target, which decides whether effects may begin.
//!
//! The breaker hears how every attempt ended. Three failures are not the messages' fault: a target that is not
//! reached, a handler that is broken, and one and the same failure many times in a row. Then the pipeline pauses, and
//! one message at a time tries the target until it works. The first success does not end the pause, since a target may
//! take one message and not many: each success lets one more try it at once (slow start). The pause ends once as many
//! have reached it as the pipeline hands over at once, or once it has answered all that tried it for a while. Time and
//! chance are inputs.

mod reason;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use semel_core::Certainty;
use semel_core::port::source::DeliveryId;

use crate::effect::Verdict;
use crate::event::Pause;
use crate::retry::spread;
use reason::reason;

/// The circuit breaker; see the module.
#[derive(Debug)]
pub(super) struct Circuit {
    /// The number of equal failures in a row after which the pipeline pauses; 0 never.
    pause_after: usize,
    /// The most messages that the pipeline hands to its target at once.
    width: usize,
    /// An effect has succeeded already.
    is_proven: bool,
    successes: u64,
    /// The last failure, and how often it came in a row.
    streak: Option<(Box<str>, usize)>,
    paused: Option<Paused>,
    /// Messages that may have broken the handler, and the count of successes by then.
    broke: BTreeMap<DeliveryId, u64>,
    /// Messages that have tried the target in vain.
    tried: BTreeSet<DeliveryId>,
    told: Vec<Told>,
}

#[derive(Debug)]
struct Paused {
    cause: Pause,
    /// The failure, if it is one and the same again and again.
    reason: Box<str>,
    since: Duration,
    next_try: Duration,
    wait: Duration,
    /// The messages that try the target now.
    trying: BTreeSet<DeliveryId>,
    /// The target's return, as long as it is not confirmed.
    back: Option<Back>,
}

/// A return of the target that waits to be confirmed.
#[derive(Clone, Copy, Debug)]
struct Back {
    /// The time of the first success.
    since: Duration,
    /// The count of messages that reached the target.
    passed: usize,
    /// The count of messages that failed and may have done so by their own fault.
    failed: usize,
}

/// A change that is emitted as an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    Paused {
        cause: Pause,
        error: Box<str>,
        wait: Duration,
    },
    Resumed {
        cause: Pause,
        lasted: Duration,
    },
}

/// The consequence for an attempt that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// The verdict stands.
    AsSaid,
    /// The failure is not the message's fault: the message is given back, and the attempt does not count.
    GivenBack,
}

/// The time at which a verdict is heard, and a byte of chance, which keeps workers from coming back all at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Duration,
    pub(super) chance: u8,
}

impl Circuit {
    pub(super) const fn new(pause_after: usize, width: usize) -> Self {
        Self {
            pause_after,
            width,
            is_proven: false,
            successes: 0,
            streak: None,
            paused: None,
            broke: BTreeMap::new(),
            tried: BTreeSet::new(),
            told: Vec::new(),
        }
    }

    /// Returns how many more messages may begin beside those in flight.
    pub(super) fn room(&self, now: Duration, in_flight: usize) -> usize {
        if let Some(paused) = &self.paused {
            if semel_core::planted("P02") && paused.next_try <= now {
                return usize::MAX;
            }
            return paused.room(now);
        }
        if self.is_proven || self.pause_after == 0 {
            return usize::MAX;
        }
        // As many as may be set aside before the pipeline pauses, and no more.
        let in_a_row = self.streak.as_ref().map_or(0, |(_, count)| *count);
        let left = self.pause_after.saturating_sub(in_a_row).max(1);
        left.saturating_sub(in_flight)
    }

    /// Tells whether `count` more may fail for the same reason before the pipeline pauses.
    pub(super) fn may_all_fail(&self, count: usize) -> bool {
        let in_a_row = self.streak.as_ref().map_or(0, |(_, count)| *count);
        !self.is_paused() && (self.pause_after == 0 || in_a_row + count <= self.pause_after)
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Tells whether anything may begin.
    pub(super) fn may_try(&self, now: Duration) -> bool {
        self.paused
            .as_ref()
            .is_none_or(|paused| paused.may_try(now))
    }

    /// Returns the time of the next try of the target, if it lies ahead and no message tries now.
    pub(super) fn next_try(&self, now: Duration) -> Option<Duration> {
        let paused = self.paused.as_ref()?;
        let waits = paused.back.is_none() && paused.trying.is_empty() && paused.next_try > now;
        waits.then_some(paused.next_try)
    }

    /// Returns the time at which the return of the target is confirmed if it does not fail before. While messages try
    /// it, nothing is confirmed but by their answers.
    pub(super) fn confirmed_at(&self) -> Option<Duration> {
        let paused = self.paused.as_ref()?;
        let back = paused.back.filter(|_| paused.trying.is_empty())?;
        Some(back.since.saturating_add(CONFIRM))
    }

    /// Ends a pause whose target is back. Call it at [`Self::confirmed_at`], or when there is nothing more to try.
    pub(super) fn confirm(&mut self) {
        if let Some(back) = self.paused.as_ref().and_then(|paused| paused.back)
            && let Some(paused) = self.paused.take()
        {
            self.told.push(Told::Resumed {
                cause: paused.cause,
                lasted: back.since.saturating_sub(paused.since),
            });
        }
    }

    /// Notes that the effect of a message is about to begin; returns `false` if it must not.
    pub(super) fn begins(&mut self, now: Duration, delivery: DeliveryId) -> bool {
        let Some(paused) = &mut self.paused else {
            return true;
        };
        if semel_core::planted("P02") {
            return true;
        }
        let may_try = paused.may_try(now);
        if may_try {
            paused.trying.insert(delivery);
        }
        may_try
    }

    /// Notes that nobody will hear how the effect of a message ended.
    pub(super) fn lost(&mut self, delivery: DeliveryId) {
        if let Some(paused) = &mut self.paused {
            paused.trying.remove(&delivery);
        }
    }

    /// Forgets everything about a message that met its fate.
    pub(super) fn forget(&mut self, delivery: DeliveryId) {
        if !self.broke.is_empty() {
            self.broke.remove(&delivery);
        }
        if !self.tried.is_empty() {
            self.tried.remove(&delivery);
        }
    }

    /// Tells whether this message has tried the target in vain: another one is better for the next try, since this one
    /// may have failed by its own fault.
    pub(super) fn has_tried(&self, delivery: DeliveryId) -> bool {
        self.tried.contains(&delivery)
    }

    /// Counts the messages in hand that have tried the target in vain.
    pub(super) fn vain_tries(&self) -> usize {
        self.tried.len()
    }

    /// Tells whether the pipeline pauses for a failure that may be the messages' own, and nothing tries the target
    /// now.
    pub(super) fn awaits_a_try(&self) -> bool {
        self.paused
            .as_ref()
            .is_some_and(|paused| paused.cause != Pause::TargetAway && paused.trying.is_empty())
    }

    /// Takes the changes to emit.
    pub(super) fn told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }

    /// Tells whether a verdict of this kind can begin a wait, which is where chance is needed.
    pub(super) const fn needs_chance(&self, verdict: &Verdict) -> bool {
        match verdict {
            Verdict::Done(_) | Verdict::DoneUnkept { .. } => false,
            Verdict::Away { .. } | Verdict::Broken { .. } => true,
            Verdict::NotApplied { .. } | Verdict::MaybeApplied { .. } | Verdict::Dead { .. } => {
                self.pause_after > 0
            }
        }
    }

    /// Hears how the effect of a message ended.
    pub(super) fn heard(
        &mut self,
        moment: Moment,
        delivery: DeliveryId,
        verdict: &Verdict,
    ) -> Judged {
        let is_probe = self
            .paused
            .as_mut()
            .is_some_and(|paused| paused.trying.remove(&delivery));
        match verdict {
            Verdict::Done(_) | Verdict::DoneUnkept { .. } => {
                self.succeeded(moment.now, is_probe);
                Judged::AsSaid
            }
            Verdict::Away { error } => {
                self.pause(moment, Pause::TargetAway, error, is_probe);
                if semel_core::planted("P01") {
                    return Judged::AsSaid;
                }
                Judged::GivenBack
            }
            Verdict::Broken { error, certainty } => {
                let judged = self.broke_by(delivery, *certainty);
                // The handler works again, and not with this message.
                let is_its_own = judged == Judged::AsSaid && self.is_back();
                if !is_its_own {
                    self.pause(moment, Pause::HandlerBroken, error, is_probe);
                    if is_probe {
                        self.tried.insert(delivery);
                    }
                }
                judged
            }
            Verdict::Dead { error, .. } => self.failed(moment, delivery, error, is_probe, true),
            Verdict::NotApplied { error, .. } | Verdict::MaybeApplied { error } => {
                self.failed(moment, delivery, error, is_probe, false)
            }
        }
    }

    fn succeeded(&mut self, now: Duration, is_probe: bool) {
        self.is_proven = true;
        self.successes += 1;
        self.streak = None;
        let cause = self.paused.as_ref().map(|paused| paused.cause);
        // A call that was under way when the target went away says nothing about its return.
        if cause.is_some_and(|cause| is_probe || cause != Pause::TargetAway) {
            self.passed(now);
        }
    }

    /// Notes that a message reached the target, which lets one more try it at once.
    fn passed(&mut self, now: Duration) {
        let Some(paused) = &mut self.paused else {
            return;
        };
        let back = paused.back.get_or_insert(Back {
            since: now,
            passed: 0,
            failed: 0,
        });
        back.passed += 1;
        if back.passed >= self.width || back.since.saturating_add(CONFIRM) <= now {
            self.confirm();
        }
    }

    /// Tells whether the target is back, which is not confirmed yet.
    fn is_back(&self) -> bool {
        self.paused
            .as_ref()
            .is_some_and(|paused| paused.back.is_some())
    }

    fn failed(
        &mut self,
        moment: Moment,
        delivery: DeliveryId,
        error: &str,
        is_probe: bool,
        is_answer_for_good: bool,
    ) -> Judged {
        let reason = reason(error);
        match self
            .paused
            .as_ref()
            .map(|paused| (paused.cause, paused.reason == reason))
        {
            Some((Pause::TargetFailing, is_same))
                if is_probe && (is_same || !is_answer_for_good) =>
            {
                // Others have succeeded since it failed before: this one is to blame, not the target.
                if self.is_back() && self.tried.contains(&delivery) {
                    if self.count(reason) >= self.pause_after {
                        self.relapse(moment);
                    }
                    return Judged::AsSaid;
                }
                // Whatever else goes wrong, the target does not work yet.
                self.tried.insert(delivery);
                self.fell_short(moment);
                return Judged::GivenBack;
            }
            Some((Pause::TargetFailing, true)) => return Judged::GivenBack,
            // The target was reached, its handler ran, or it says something else about another message.
            Some(_) if is_probe => self.passed(moment.now),
            // The attempt was under way before the pause.
            Some(_) => return Judged::AsSaid,
            None => {}
        }
        if self.pause_after == 0 {
            return Judged::AsSaid;
        }
        if self.count(reason) >= self.pause_after {
            self.pause(moment, Pause::TargetFailing, error, is_probe);
        }
        Judged::AsSaid
    }

    /// Counts a failure, and returns how often it has come in a row.
    fn count(&mut self, reason: Box<str>) -> usize {
        match &mut self.streak {
            Some((last, count)) if *last == reason => {
                *count += 1;
                *count
            }
            Some(_) | None => {
                self.streak = Some((reason, 1));
                1
            }
        }
    }

    /// Blames a message if the handler broke with it twice and worked for others in between.
    fn broke_by(&mut self, delivery: DeliveryId, certainty: Certainty) -> Judged {
        if certainty == Certainty::NotApplied {
            return Judged::GivenBack;
        }
        match self.broke.insert(delivery, self.successes) {
            Some(successes) if successes < self.successes => Judged::AsSaid,
            Some(_) | None => Judged::GivenBack,
        }
    }

    fn pause(&mut self, moment: Moment, cause: Pause, error: &str, is_probe: bool) {
        match &mut self.paused {
            Some(paused) if paused.cause == cause => {
                if is_probe {
                    paused.reason = reason(error);
                    self.relapse(moment);
                }
                return;
            }
            // The attempt was under way before the pause.
            Some(_) if !is_probe => return,
            Some(_) | None => {}
        }
        let wait = spread(first_wait(cause), moment.chance);
        let since = self
            .paused
            .as_ref()
            .map_or(moment.now, |paused| paused.since);
        self.streak = None;
        self.paused = Some(Paused {
            cause,
            reason: reason(error),
            since,
            next_try: moment.now.saturating_add(wait),
            wait: first_wait(cause),
            trying: BTreeSet::new(),
            back: None,
        });
        self.told.push(Told::Paused {
            cause,
            error: error.into(),
            wait,
        });
    }

    /// Notes that a message failed which may be to blame itself. While more have succeeded, the target stays back.
    fn fell_short(&mut self, moment: Moment) {
        let back = self.paused.as_mut().and_then(|paused| paused.back.as_mut());
        let rather_works = back.is_some_and(|back| {
            back.failed += 1;
            back.failed <= back.passed
        });
        if !rather_works {
            self.relapse(moment);
        }
    }

    /// Goes back to one message at a time, after a longer wait; after the first one if a handler broke that had worked
    /// again: that may be the fault of one message.
    fn relapse(&mut self, moment: Moment) {
        self.streak = None;
        let Some(paused) = &mut self.paused else {
            return;
        };
        paused.trying.clear();
        let has_worked = paused.back.take().is_some();
        paused.wait = if has_worked && paused.cause == Pause::HandlerBroken {
            first_wait(paused.cause)
        } else {
            (paused.wait * 2).min(longest_wait(paused.cause))
        };
        let wait = spread(paused.wait, moment.chance);
        paused.next_try = moment.now.saturating_add(wait);
    }
}

impl Paused {
    fn may_try(&self, now: Duration) -> bool {
        self.room(now) > 0
    }

    /// Returns how many more messages may try the target.
    fn room(&self, now: Duration) -> usize {
        match self.back {
            Some(back) => (back.passed + 1).saturating_sub(self.trying.len()),
            None => usize::from(self.trying.is_empty() && self.next_try <= now),
        }
    }
}

const fn first_wait(cause: Pause) -> Duration {
    match cause {
        Pause::TargetAway => Duration::from_millis(100),
        Pause::TargetFailing | Pause::HandlerBroken => Duration::from_secs(1),
    }
}

/// The longest waits; chance makes them 0.8 and 30 seconds. When a target is back, the try takes time as well, and
/// both together must take less than one second: messages begin then, and the end of the pause is told by `CONFIRM`.
const fn longest_wait(cause: Pause) -> Duration {
    match cause {
        Pause::TargetAway => Duration::from_millis(640),
        Pause::TargetFailing | Pause::HandlerBroken => Duration::from_secs(24),
    }
}

/// The time after which a target that came back, and has answered all that tried it since, is taken to work, however few
/// messages there are: longer than several tries of a target that fails at once, and short for whoever waits to read
/// that the pipeline goes on.
const CONFIRM: Duration = Duration::from_millis(500);
/// The time after which a message that was given back may be tried again.
pub(super) const GIVEN_BACK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
