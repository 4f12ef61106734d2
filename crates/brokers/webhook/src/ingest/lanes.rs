//! The progress of each producer: the end of what the journal has of it, of what was handed over, of what is settled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::ingest::UNNUMBERED;
use semel_core::port::ingest::Accepted;
use semel_core::producer::{ProducerName, StreamEntry};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The producers of one path.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    state: Mutex<State>,
    /// Told when there is something to read, and at the end.
    arrived: Notify,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    lanes: BTreeMap<ProducerName, Lane>,
    /// The messages of all lanes that wait.
    waiting: u64,
    /// Those that the journal has in hand, which may be new.
    submitted: u64,
    /// The one that was read last: the next one is behind it.
    last: Option<ProducerName>,
}

/// One producer.
#[derive(Debug, Default)]
struct Lane {
    /// The sequence of the next message that comes.
    next: u64,
    /// The sequence up to which all were handed over.
    handed: u64,
    /// The sequence up to which all are settled.
    settled: u64,
    /// The part of that which is on record.
    recorded: u64,
    /// Those behind it that are settled.
    done: BTreeSet<u64>,
    /// The sequence up to which messages may be handed over, of a frozen producer, and when the journal said so.
    limit: Option<(u64, Instant)>,
    /// Until the journal was read: the number of messages that came since. Others may have put more before them.
    unread: Option<u64>,
    /// The number of this life of the stream in the journal, once it was read.
    begun: Option<u64>,
    /// True if the journal has to be read although nothing is missing: it may have forgotten the producer since, and begun
    /// again.
    is_in_question: bool,
    /// The number of times that something came.
    heard: u64,
}

impl Lanes {
    /// Begins with what the journal has, or takes what it has beyond.
    pub(crate) fn begin(&self, producer: &ProducerName, stream: &StreamEntry) {
        let mut state = self.lock();
        let lane = state.lanes.entry(producer.clone());
        lane.or_insert_with(|| Lane::behind(stream.confirmed));
        state.change(producer, |lane| {
            lane.hear(stream.next);
            // Nothing goes back on record: this is another life of the stream.
            lane.is_in_question |= stream.confirmed < lane.recorded && !semel_core::planted("X41");
        });
        drop(state);
        self.arrived.notify_one();
    }

    /// Notes that the journal has messages up to here, and the number of those that are new. What came before them may
    /// wait as well, whoever took it: only the journal knows where a producer begins that was not heard of.
    pub(crate) fn took(&self, producer: &ProducerName, new: u32, next: u64) {
        let mut state = self.lock();
        let lane = state.lanes.entry(producer.clone());
        lane.or_insert_with(|| match u64::from(new) {
            new if semel_core::planted("X30") => Lane::behind(next - new - 1),
            _ => Lane::unread(),
        });
        state.change(producer, |lane| {
            // As many as it had, and some of them new: they are of another life of the stream, or were overtaken.
            lane.is_in_question |= new > 0 && next <= lane.next && !semel_core::planted("X41");
            lane.hear(next);
            lane.heard += 1;
            if let Some(count) = &mut lane.unread {
                *count += u64::from(new);
            }
        });
        drop(state);
        self.arrived.notify_one();
    }

    /// The messages that are kept and not settled.
    pub(crate) fn waiting(&self) -> u64 {
        self.lock().waiting
    }

    /// Tells whether another request has room among so many messages.
    pub(crate) fn has_room(&self, most: u64) -> bool {
        let state = self.lock();
        state.waiting + state.submitted < most
    }

    /// Takes places for messages that the journal is about to have, unless so many wait without them.
    pub(crate) fn reserve(self: &Arc<Self>, count: u64, most: u64) -> Option<Reservation> {
        let mut state = self.lock();
        if state.waiting + state.submitted >= most {
            return None;
        }
        state.submitted += count;
        drop(state);
        Some(Reservation {
            lanes: Arc::clone(self),
            count,
        })
    }

    /// Tells whether all that may run is settled.
    pub(crate) fn is_done(&self) -> bool {
        self.lock().lanes.values().all(Lane::is_done)
    }

    /// Those of them that a frozen producer keeps.
    pub(crate) fn parked(&self) -> u64 {
        let state = self.lock();
        let lanes = state.lanes.values();
        lanes.map(Lane::parked).sum()
    }

    /// Tells whether messages of a producer have a lane, or may have one beside so many.
    pub(crate) fn has_place(&self, producer: &ProducerName, most: usize) -> bool {
        let state = self.lock();
        let is_numbered = |name: &&ProducerName| name.as_str() != UNNUMBERED;
        state.lanes.contains_key(producer)
            || state.lanes.len() < most
            || state.lanes.keys().filter(is_numbered).count() < most
    }

    /// Forgets a producer that the journal has forgotten, unless something came since.
    pub(crate) fn forget(&self, producer: &ProducerName) {
        let mut state = self.lock();
        if state.lanes.get(producer).is_some_and(Lane::is_idle) {
            state.lanes.remove(producer);
        }
    }

    /// Returns how often something of a producer came.
    pub(crate) fn heard(&self, producer: &ProducerName) -> u64 {
        let state = self.lock();
        state.lanes.get(producer).map_or(0, |lane| lane.heard)
    }

    /// Forgets a producer of whom the journal had nothing, after something came so often; what came since is read from
    /// its beginning.
    pub(crate) fn drop_lane(&self, producer: &ProducerName, heard: u64) {
        let mut state = self.lock();
        let is_later = state.change(producer, |lane| {
            let is_later = lane.heard != heard;
            if is_later {
                let (heard, next) = (lane.heard, lane.next);
                *lane = Lane::unread();
                (lane.heard, lane.next, lane.is_in_question) = (heard, next, true);
            }
            is_later
        });
        if is_later == Some(false)
            && let Some(lane) = state.lanes.remove(producer)
        {
            state.waiting -= lane.waiting();
        }
    }

    /// Returns the producers with nothing to run, and the end of what was heard of each.
    pub(crate) fn idle(&self) -> Vec<(ProducerName, u64)> {
        let state = self.lock();
        let idle = state.lanes.iter().filter(|(_, lane)| lane.is_idle());
        idle.map(|(name, lane)| (name.clone(), lane.next)).collect()
    }

    /// Forgets those of `idle` that a list, made since, has not, and of whom nothing came since.
    pub(crate) fn retain(
        &self,
        idle: &[(ProducerName, u64)],
        is_listed: impl Fn(&ProducerName) -> bool,
    ) {
        let mut state = self.lock();
        for (producer, next) in idle.iter().filter(|(name, _)| !is_listed(name)) {
            let found = state.lanes.get(producer);
            if found.is_some_and(|lane| lane.is_idle() && lane.next == *next) {
                state.lanes.remove(producer);
            }
        }
    }

    /// Returns the producer whose turn it is to be read, and behind which sequence.
    pub(crate) fn turn(&self, now: Instant) -> Option<(ProducerName, u64)> {
        let mut state = self.lock();
        let State { lanes, last, .. } = &mut *state;
        let is_behind = |name: &ProducerName| last.as_ref().is_none_or(|last| name > last);
        let ready = || lanes.iter().filter(|(_, lane)| lane.is_ready(now));
        let found = ready()
            .find(|(name, _)| is_behind(name))
            .or_else(|| ready().next());
        let (name, lane) = found?;
        let turn = (name.clone(), lane.handed);
        *last = Some(name.clone());
        Some(turn)
    }

    /// Takes note of what was read of a producer; returns the sequences that may be handed over: those behind the first,
    /// up to the second. Of another life of the stream there are none: it is read from its beginning then.
    pub(crate) fn read(
        &self,
        producer: &ProducerName,
        read: &Accepted,
        now: Instant,
    ) -> Option<(u64, u64)> {
        self.lock().change(producer, |lane| lane.read(read, now))?
    }

    /// Returns the sequence of the last message of a producer that was heard of.
    pub(crate) fn end(&self, producer: &ProducerName) -> u64 {
        let state = self.lock();
        state.lanes.get(producer).map_or(0, |lane| lane.next - 1)
    }

    /// Notes that messages from here on were not handed over, and are to be read again once the limit allows it.
    pub(crate) fn give_back(&self, producer: &ProducerName, first: u64, limit: u64, now: Instant) {
        if let Some(lane) = self.lock().lanes.get_mut(producer) {
            lane.handed = lane.handed.min(first - 1);
            lane.limit = Some((limit, now));
        }
    }

    /// Notes that messages are settled, each with the life of its stream.
    pub(crate) fn settled<'p>(&self, messages: impl Iterator<Item = (&'p ProducerName, u64, u64)>) {
        let mut state = self.lock();
        for (producer, begun, sequence) in messages {
            state.change(producer, |lane| {
                if lane.begun == Some(begun) {
                    lane.settle(sequence);
                }
            });
        }
    }

    /// Returns what is settled and not on record, by producer and the life of its stream.
    pub(crate) fn unrecorded(&self) -> Vec<(ProducerName, u64, u64)> {
        let state = self.lock();
        let lanes = state.lanes.iter();
        let unrecorded = lanes.filter(|(_, lane)| lane.recorded < lane.settled);
        unrecorded
            .filter_map(|(name, lane)| Some((name.clone(), lane.begun?, lane.settled)))
            .collect()
    }

    /// Notes that it is on record.
    pub(crate) fn recorded(&self, producer: &ProducerName, begun: u64, through: u64) {
        let mut state = self.lock();
        let lane = state.lanes.get_mut(producer);
        if let Some(lane) = lane.filter(|it| it.begun == Some(begun)) {
            lane.recorded = lane.recorded.max(through);
        }
    }

    /// Tells whether a producer is frozen that has more than may be handed over: nobody says when it thaws.
    pub(crate) fn has_frozen(&self) -> bool {
        let state = self.lock();
        state
            .lanes
            .values()
            .any(|it| it.limit.is_some() && it.handed + 1 < it.next)
    }

    /// Waits until there is something to read, or it is closed.
    pub(crate) async fn arrival(&self) {
        self.arrived.notified().await;
    }

    /// Takes no more messages.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// Tells whether it takes no more messages.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Places of messages that the journal has in hand.
#[derive(Debug)]
pub(crate) struct Reservation {
    lanes: Arc<Lanes>,
    count: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.lanes.lock().submitted -= self.count;
    }
}

impl State {
    /// Changes a lane that is there.
    fn change<T>(
        &mut self,
        producer: &ProducerName,
        change: impl FnOnce(&mut Lane) -> T,
    ) -> Option<T> {
        let lane = self.lanes.get_mut(producer)?;
        let before = lane.waiting();
        let changed = change(lane);
        self.waiting = self.waiting - before + lane.waiting();
        Some(changed)
    }
}

impl Lane {
    const fn behind(settled: u64) -> Self {
        Self {
            next: settled + 1,
            handed: settled,
            settled,
            recorded: settled,
            done: BTreeSet::new(),
            limit: None,
            unread: None,
            begun: None,
            is_in_question: false,
            heard: 0,
        }
    }

    /// Begins before all that the journal may have.
    fn unread() -> Self {
        Self {
            unread: Some(0),
            ..Self::behind(0)
        }
    }

    /// Takes note that there are messages up to here. Fewer than before were overtaken by an answer, or belong to another
    /// life of the stream.
    fn hear(&mut self, next: u64) {
        self.is_in_question |= next < self.next && !semel_core::planted("X41");
        self.next = self.next.max(next);
    }

    /// Takes note of a page; returns the sequences that may be handed over.
    fn read(&mut self, read: &Accepted, now: Instant) -> Option<(u64, u64)> {
        // What came since is in the next page. What belonged to another life of the stream is not.
        self.is_in_question = read.next < self.next;
        // A lane that came from a list does not know its life; what is on record of one never gets less.
        let is_other = self.begun.is_some_and(|it| it != read.begun)
            || read.standing.confirmed < self.recorded && !semel_core::planted("X42");
        if is_other {
            *self = Self {
                next: read.next,
                begun: Some(read.begun),
                is_in_question: self.is_in_question,
                heard: self.heard,
                ..Self::behind(read.standing.confirmed)
            };
            return None;
        }
        self.begun = Some(read.begun);
        // Another worker may have settled them.
        let settled = read.standing.confirmed;
        self.recorded = self.recorded.max(settled);
        self.settled = self.settled.max(settled);
        self.handed = self.handed.max(settled);
        self.next = read.next.max(1);
        self.unread = None;
        self.limit = read.standing.limit.map(|limit| (limit, now));
        let limit = match self.limit {
            Some((limit, _)) if !semel_core::planted("X29") => limit,
            Some(_) | None => u64::MAX,
        };
        let last = read
            .batches
            .last()
            .map_or(0, |it| it.first + u64::from(it.count) - 1);
        let from = self.handed;
        self.handed = self.handed.max(last.min(limit));
        Some((from, self.handed))
    }

    const fn waiting(&self) -> u64 {
        match self.unread {
            Some(count) => count,
            None => (self.next - 1).saturating_sub(self.settled),
        }
    }

    /// The messages that a frozen producer keeps: those behind the limit.
    fn parked(&self) -> u64 {
        self.limit.map_or(0, |(limit, _)| {
            (self.next - 1).saturating_sub(limit.max(self.settled))
        })
    }

    /// Tells whether nothing of it is to be run or recorded.
    fn is_idle(&self) -> bool {
        let is_recorded = self.settled == self.recorded && self.settled + 1 == self.next;
        is_recorded && self.unread.is_none() && !self.is_in_question
    }

    /// Tells whether all is settled but for what a frozen producer keeps.
    fn is_done(&self) -> bool {
        let last = self.next - 1;
        let end = self.limit.map_or(last, |(limit, _)| limit.min(last));
        self.unread.is_none() && !self.is_in_question && self.settled >= end
    }

    fn is_ready(&self, now: Instant) -> bool {
        let has_more = self.handed + 1 < self.next || self.is_in_question;
        has_more
            && self
                .limit
                .is_none_or(|(limit, at)| self.handed < limit || now.duration_since(at) >= FROZEN)
    }

    fn settle(&mut self, sequence: u64) {
        if sequence > self.settled {
            self.done.insert(sequence);
        }
        while self.done.remove(&(self.settled + 1)) {
            self.settled += 1;
        }
        // Another worker may have settled what lies between.
        self.done = self.done.split_off(&self.settled);
    }
}

/// The time after which a frozen producer is looked at again.
pub(crate) const FROZEN: Duration = Duration::from_millis(500);
