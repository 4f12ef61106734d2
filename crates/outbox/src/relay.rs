//! The relay: leases, reads, publishes and records, until it is asked to stop.

use std::sync::Arc;
use std::time::Duration;

use semel_core::outbox::{OutboxId, Outgoing, PARTITIONS};
use semel_core::port::outbox::{OutboxStore, RelayName, Unsent};
use semel_core::port::sink::{Publication, Sink};
use semel_core::{Clock, Error, ErrorKind, Result};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::MOST_UNRECORDED;
use crate::absence::{Absence, is_passing};
use crate::event::{Event, Observer};
use crate::message::publication;
use crate::outcomes::{Fates, Settled};
use crate::settings::{Settings, Summary};
use crate::slow::Slow;
use crate::tenure::Tenure;
use crate::tries::{Spans, Tries};
use crate::verdict::{Verdict, one_line};
use crate::waves::Waves;

/// A process that publishes its share of a stream.
pub struct Relay<O, S> {
    /// The process, and what it relays.
    pub name: RelayName,
    /// The rules.
    pub settings: Settings,
    /// The outbox.
    pub outbox: O,
    /// The sink.
    pub sink: S,
    /// The clock that leases are measured by.
    pub clock: Arc<dyn Clock>,
    /// Receives the events.
    pub observer: Arc<dyn Observer>,
    /// Turned `true` to stop.
    pub stop: watch::Receiver<bool>,
    /// Ends the run without a limit of time.
    pub recall: watch::Receiver<Recall>,
}

impl<O: OutboxStore, S: Sink> Relay<O, S> {
    /// Publishes until a stop is asked for, or the run is recalled. An outbox or a sink that is away is waited for.
    ///
    /// # Guarantee   in order of each order key; at most [`MOST_UNRECORDED`] messages are published again, under the
    /// same ids, when the process dies
    /// # Errors   `InvalidConfig`: no outbox, a newer one, another relay at the stream; those that no repetition mends
    ///
    /// # Cancel safety   as a kill: what is under way is published again, once its lease has run out
    pub async fn run(self) -> Result<Summary> {
        let began = self.clock.monotonic();
        let mut run = Run {
            tenure: Tenure::of_none(self.settings.lease),
            summary: Summary::default(),
            outbox_away: Absence::default(),
            sink_away: Absence::default(),
            sink_due: Duration::ZERO,
            cleaning_due: Duration::ZERO,
            slow: Slow::default(),
            drains_since: None,
            relay: self,
        };
        let ended = run.turns().await;
        // Leases that cannot be given back run out.
        let leaving = run.relay.outbox.leave(&run.relay.name);
        let _ = timeout(LAST_WORDS, leaving).await;
        ended?;
        Ok(Summary {
            elapsed: run.relay.clock.monotonic().saturating_sub(began),
            ..run.summary
        })
    }
}

/// The end of a run that goes on for as long as what it has in hand takes: it is not given up as it is after a stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recall {
    /// It goes on.
    #[default]
    Not,
    /// It publishes what is there, and ends once nothing is due: under its own leases if those are all that there are, and
    /// after a whole lease if not. Within that, those of a process that has died have come to somebody who runs.
    WhenIdle,
    /// It publishes nothing more.
    Now,
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// There may be more to do at once.
    Busy,
    /// Nothing is due.
    Idle,
    /// The sink is away, and tried again after a while.
    Away,
}

/// A relay that runs.
struct Run<O, S> {
    relay: Relay<O, S>,
    tenure: Tenure,
    summary: Summary,
    outbox_away: Absence,
    sink_away: Absence,
    /// The time before which the sink is left alone.
    sink_due: Duration,
    /// The time at which what was kept is looked at again.
    cleaning_due: Duration,
    /// The messages that were put off without a count.
    slow: Slow,
    /// The time of the first look that found nothing due while the run is to end so.
    drains_since: Option<Duration>,
}

impl<O: OutboxStore, S: Sink> Run<O, S> {
    async fn turns(&mut self) -> Result<()> {
        while !self.ends() {
            match self.turn().await {
                Ok(Turn::Busy) => self.outbox_is_back(),
                Ok(Turn::Idle) => {
                    self.outbox_is_back();
                    if self.is_drained() {
                        break;
                    }
                    self.rest().await;
                }
                Ok(Turn::Away) => {
                    self.outbox_is_back();
                    self.rest().await;
                }
                Err(error) if is_passing(&error) => self.wait_for_outbox(&error).await,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells, behind a look that found nothing due, whether a run that is to end so has done its part.
    fn is_drained(&mut self) -> bool {
        if *self.relay.recall.borrow() != Recall::WhenIdle {
            self.drains_since = None;
            return false;
        }
        let now = self.relay.clock.monotonic();
        let since = *self.drains_since.get_or_insert(now);
        let has_all = self.tenure.leases.len() >= usize::from(PARTITIONS);
        let lease = self.relay.settings.lease;
        has_all || self.tenure.is_balanced_since(since + lease)
    }

    /// Divides the partitions and removes what was kept, if that is due, and publishes a batch.
    async fn turn(&mut self) -> Result<Turn> {
        let now = self.relay.clock.monotonic();
        if self.tenure.balance_in(now).is_zero() {
            let held = self.tenure.leases.len();
            self.balance().await?;
            let partitions = self.tenure.leases.len();
            if partitions != held {
                self.tell(&Event::Leased { partitions });
            }
        }
        let is_cleaning = self.forget(now).await?;
        // What a sink that is away did not take is put off for about as long as the sink is left alone.
        let idle = match (is_cleaning, self.sink_away.is_away()) {
            (true, _) => Turn::Busy,
            (false, true) => Turn::Away,
            (false, false) => Turn::Idle,
        };
        if self.tenure.leases.is_empty() || now < self.sink_due {
            return Ok(idle);
        }
        let Relay { outbox, name, .. } = &self.relay;
        let leases = &self.tenure.leases;
        let pending = outbox.pending(name, leases, MOST_UNRECORDED).await?;
        if pending.is_empty() {
            return Ok(idle);
        }
        let (fates, mut tries, is_answered) = self.publish(pending).await;
        tries.answered(self.relay.clock.monotonic());
        let mut settled = fates.settled(&self.relay.settings, &mut self.slow);
        let recorded = self.record(&settled).await;
        // What a process that was fenced says of a message holds no longer: another one tries it.
        let changed = recorded.as_deref().unwrap_or_default();
        settled.unsent.retain(|it| changed.contains(&it.id));
        let Relay {
            observer, clock, ..
        } = &self.relay;
        let spans = tries.hand_over(&self.relay.name.name, &**observer, &**clock, &settled);
        self.tell_unsent(&settled, &spans);
        recorded?;
        match settled.away {
            Some(error) => self.leave_sink_alone(&error),
            None if is_answered => self.sink_is_back(),
            // It was asked nothing, or had not answered when patience ended.
            None => {}
        }
        Ok(Turn::Busy)
    }

    /// Removes some of what was kept for long enough, if that is due; returns whether there may be more. Goes on where
    /// nothing is kept any more, until what was kept before is gone.
    async fn forget(&mut self, now: Duration) -> Result<bool> {
        if now < self.cleaning_due {
            return Ok(false);
        }
        let Relay {
            outbox,
            name,
            settings,
            ..
        } = &self.relay;
        let keep = settings.keep.unwrap_or_default();
        let gone = outbox.forget(&name.stream, keep, MOST_FORGOTTEN).await?;
        let is_more = gone >= u64::from(MOST_FORGOTTEN);
        if !is_more {
            self.cleaning_due = now + CLEANING;
        }
        Ok(is_more)
    }

    async fn balance(&mut self) -> Result<()> {
        let asked_at = self.relay.clock.monotonic();
        let Relay {
            outbox,
            name,
            settings,
            ..
        } = &self.relay;
        let leases = outbox.lease(name, settings.lease, true).await?;
        let partitions = self.tenure.balanced(asked_at, leases);
        if partitions > 0 {
            self.tell(&Event::Fenced { partitions });
        }
        Ok(())
    }

    /// Publishes a batch wave by wave, as long as the leases last and the sink takes messages. Returns with the fates
    /// whether the sink has answered.
    async fn publish(&mut self, pending: Vec<Outgoing>) -> (Fates, Tries, bool) {
        let mut fates = Fates::of(&pending);
        let mut tries = Tries::default();
        let mut waves = Waves::of(pending, &self.slow);
        let mut is_answered = false;
        while let Some(wave) = waves.next_wave() {
            let mut messages = Vec::with_capacity(wave.len());
            let mut publications = Vec::with_capacity(wave.len());
            for message in wave {
                let now = self.relay.clock.monotonic();
                let Some(lease) = self.tenure.lease_of(message.partition, now) else {
                    waves.hold_up(&message);
                    continue;
                };
                let span = tries.begin(&*self.relay.observer, &message, now);
                match publication(&message, span) {
                    Ok(publication) => {
                        publications.push(publication);
                        messages.push((message, lease));
                    }
                    Err(error) => {
                        waves.hold_up(&message);
                        tries.fails(message.id, &error);
                        fates.give_up(&message, lease, error);
                    }
                }
            }
            if publications.is_empty() {
                continue;
            }
            let Some(answers) = self.handed_over(&publications).await else {
                break;
            };
            is_answered = true;
            tries.answered(self.relay.clock.monotonic());
            let mut answers = answers.into_iter();
            for (message, lease) in messages {
                let unanswered = || Err(Error::new(ErrorKind::Internal, "no answer of the sink"));
                let answer = answers.next().unwrap_or_else(unanswered);
                match Verdict::of(answer) {
                    Verdict::Sent => {
                        fates.sent.push(message.id);
                        continue;
                    }
                    Verdict::Away(error) => {
                        tries.fails(message.id, &one_line(&error));
                        fates.fail(&message, lease, error, true);
                    }
                    Verdict::Failed(error) => {
                        tries.fails(message.id, &one_line(&error));
                        fates.fail(&message, lease, error, false);
                    }
                    Verdict::Poison(error) => {
                        tries.fails(message.id, &error);
                        fates.give_up(&message, lease, error);
                    }
                }
                waves.hold_up(&message);
            }
            // A batch of many waves does not keep other processes from their share.
            let now = self.relay.clock.monotonic();
            let is_interrupted = self.ends() || self.tenure.balance_in(now).is_zero();
            if fates.has_outage() || is_interrupted {
                break;
            }
        }
        (fates, tries, is_answered)
    }

    /// Hands a wave to the sink, and renews the leases meanwhile. Returns nothing if a stop was asked for and patience
    /// has ended.
    async fn handed_over(&mut self, publications: &[Publication]) -> Option<Vec<Result<()>>> {
        let Self {
            relay,
            tenure,
            outbox_away,
            ..
        } = self;
        let Relay {
            sink,
            outbox,
            name,
            settings,
            clock,
            observer,
            stop,
            recall: _,
        } = relay;
        let publishing = sink.publish(publications);
        tokio::pin!(publishing);
        let impatience = async {
            stopped(stop).await;
            if !semel_core::planted("X11") {
                sleep(settings.patience).await;
            }
        };
        tokio::pin!(impatience);
        let mut rest = SHORTEST_REST;
        loop {
            let renewal_in = tenure.renewal_in(clock.monotonic());
            tokio::select! {
                biased;
                answers = &mut publishing => return Some(answers),
                () = &mut impatience => return None,
                () = sleep(renewal_in.max(rest)) => {}
            }
            if semel_core::planted("X09") {
                continue;
            }
            let asked_at = clock.monotonic();
            let renewing = outbox.lease(name, settings.lease, false);
            tokio::select! {
                biased;
                answers = &mut publishing => return Some(answers),
                () = &mut impatience => return None,
                leases = renewing => match leases {
                    Ok(leases) => {
                        rest = SHORTEST_REST;
                        let partitions = tenure.renewed(asked_at, leases);
                        if partitions > 0 {
                            observer.observe(&name.name, &Event::Fenced { partitions });
                        }
                    }
                    // Leases that are not renewed run out, here as in the database.
                    Err(error) => {
                        let (is_new, wait) = outbox_away.again(asked_at, &error);
                        if is_new {
                            observer.observe(&name.name, &Event::OutboxAway { error: &error });
                        }
                        rest = wait.min(settings.lease / 12).max(SHORTEST_REST);
                    }
                },
            }
        }
    }

    /// Records the fates of a batch. What is published is recorded before anything else is, and again until the outbox
    /// has taken it. Returns those that were put off or given up, under leases that were still good.
    async fn record(&mut self, fates: &Settled) -> Result<Vec<OutboxId>> {
        if !fates.sent.is_empty() {
            let count = u64::try_from(fates.sent.len()).unwrap_or(u64::MAX);
            let keep = self.relay.settings.keep.is_some();
            let mut is_last = false;
            loop {
                match self.relay.outbox.sent(&fates.sent, keep).await {
                    Ok(_) => break,
                    Err(error) if is_passing(&error) && semel_core::planted("X10") => break,
                    Err(error) if is_passing(&error) && !is_last => {
                        is_last = self.is_stopped();
                        self.wait_for_outbox(&error).await;
                    }
                    Err(error) => {
                        self.summary.unrecorded += count;
                        self.tell(&Event::Unrecorded {
                            count,
                            error: &error,
                        });
                        return Err(error);
                    }
                }
            }
            self.summary.published += count;
            self.outbox_is_back();
            self.sink_is_back();
            self.tell(&Event::Published { count });
        }
        if fates.unsent.is_empty() {
            return Ok(Vec::new());
        }
        let Relay { outbox, name, .. } = &self.relay;
        outbox.put_off(name, &fates.unsent).await
    }

    /// Counts and tells what was put off or given up.
    fn tell_unsent(&mut self, fates: &Settled, spans: &Spans) {
        let mut is_told = fates.away.is_some();
        for Unsent {
            id,
            error,
            wait,
            counted,
            ..
        } in &fates.unsent
        {
            let span = spans.get(id).copied();
            let Some(wait) = *wait else {
                self.summary.dead += 1;
                self.tell(&Event::Dead {
                    id: *id,
                    error,
                    span,
                });
                continue;
            };
            self.summary.put_off += u64::from(*counted);
            // What is put off without a count is often many of a batch: the first stands for them.
            if *counted || !is_told {
                is_told |= !counted;
                self.tell(&Event::PutOff {
                    id: *id,
                    error,
                    wait,
                    span,
                });
            }
        }
    }

    /// Sends nothing for a while; the leases are looked after meanwhile.
    fn leave_sink_alone(&mut self, error: &Error) {
        let now = self.relay.clock.monotonic();
        let (is_new, wait) = self.sink_away.again(now, error);
        if is_new {
            self.tell(&Event::SinkAway { error });
        }
        self.sink_due = now + wait;
    }

    fn sink_is_back(&mut self) {
        let now = self.relay.clock.monotonic();
        if let Some(lasted) = self.sink_away.ended(now) {
            self.tell(&Event::SinkBack { lasted });
        }
    }

    async fn wait_for_outbox(&mut self, error: &Error) {
        let now = self.relay.clock.monotonic();
        let (is_new, wait) = self.outbox_away.again(now, error);
        if is_new {
            self.tell(&Event::OutboxAway { error });
        }
        self.pause(wait).await;
    }

    fn outbox_is_back(&mut self) {
        let now = self.relay.clock.monotonic();
        if let Some(lasted) = self.outbox_away.ended(now) {
            self.tell(&Event::OutboxBack { lasted });
        }
    }

    /// Waits until something may have been committed, or the leases are due.
    async fn rest(&mut self) {
        let now = self.relay.clock.monotonic();
        let mut longest = self.tenure.balance_in(now).min(POLL);
        if now < self.sink_due {
            longest = longest.min(self.sink_due.saturating_sub(now));
        }
        let longest = longest.max(SHORTEST_REST);
        let Relay {
            outbox,
            stop,
            recall,
            ..
        } = &mut self.relay;
        tokio::select! {
            biased;
            () = stopped(stop) => {}
            // One that nobody can recall any more goes on.
            Ok(()) = recall.changed() => {}
            // An outbox that cannot say is asked now and then.
            Ok(()) = outbox.committed() => {}
            () = sleep(longest) => {}
        }
    }

    async fn pause(&mut self, wait: Duration) {
        let Relay { stop, recall, .. } = &mut self.relay;
        tokio::select! {
            biased;
            () = stopped(stop) => {}
            Ok(()) = recall.changed() => {}
            () = sleep(wait) => {}
        }
    }

    fn is_stopped(&self) -> bool {
        *self.relay.stop.borrow()
    }

    /// Tells whether nothing more is to be published.
    fn ends(&self) -> bool {
        self.is_stopped() || *self.relay.recall.borrow() == Recall::Now
    }

    fn tell(&self, event: &Event<'_>) {
        self.relay.observer.observe(&self.relay.name.name, event);
    }
}

/// Waits for the request to stop; for ever if no one is left to make it.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The longest time without a look, for what the outbox did not announce: what is due again, and what was committed while
/// the connection of announcements was broken.
const POLL: Duration = Duration::from_millis(500);
const SHORTEST_REST: Duration = Duration::from_millis(10);
/// The time for giving back the leases.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// The time between two looks at what was kept for long enough.
const CLEANING: Duration = Duration::from_secs(1);
/// The number of published messages that are removed at once.
const MOST_FORGOTTEN: u32 = 10_000;
