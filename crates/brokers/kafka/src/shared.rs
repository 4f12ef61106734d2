//! State that the consuming thread and the source share: records that wait to be fetched, and the fate of those that
//! were.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode;
use semel_core::Error;
use semel_core::partition::Prefix;
use semel_core::port::source::{Delivery, DeliveryId};
use tokio::sync::Notify;
use tokio::time::Instant;

/// One assignment of one partition to this member; a later assignment of the same partition has another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AssignmentId(u64);

/// See the module.
#[derive(Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Wakes the fetching task: there is something to fetch.
    arrived: Notify,
    /// Wakes the consuming thread: something was finished, fetched or asked for.
    changed: Condvar,
    /// Wakes the committing thread: the end was asked for, or nothing is in hand any more.
    due: Condvar,
    /// Held by the committing thread, from the look at finished offsets to the answer.
    commits: Mutex<()>,
}

#[derive(Default)]
pub(crate) struct State {
    assignments: BTreeMap<AssignmentId, Assignment>,
    next_assignment: u64,
    ready: VecDeque<(AssignmentId, i64, Delivery)>,
    ready_bytes: usize,
    /// Assignment and offset of each delivery in the caller's hand; their ids rise by one.
    handed: VecDeque<Option<(AssignmentId, i64)>>,
    first_handed: u64,
    revoked: Vec<DeliveryId>,
    /// Partitions that were paused when they left. librdkafka still has them paused when they come back.
    left_paused: BTreeSet<(Box<str>, i32)>,
    /// Set if more may have been committed than is noted.
    pub(crate) is_in_doubt: bool,
    away: Option<Error>,
    told_away: Option<(String, Instant)>,
    /// Set while no broker is reached, as far as librdkafka says.
    unreached: Option<Unreached>,
    /// Set if the next fetch is to report that one is reached again.
    is_back: bool,
    failed: Option<Error>,
    /// The kind of end that was asked for.
    pub(crate) end: Option<End>,
    /// Set once the consuming thread is gone.
    pub(crate) is_over: bool,
}

/// An outage that may be over soon.
struct Unreached {
    error: Error,
    since: Instant,
    looked_at: Instant,
    is_told: bool,
}

/// Ways in which a consumer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Finished records are committed first.
    Orderly,
    /// It ends as if it were killed.
    AtOnce,
}

pub(crate) struct Assignment {
    pub(crate) topic: Box<str>,
    pub(crate) partition: i32,
    pub(crate) prefix: Prefix,
    /// Set if it is about to leave.
    is_leaving: bool,
    pub(crate) is_paused: bool,
    /// Set once its records may be fetched: the partition's image may have to be restored first.
    pub(crate) is_ready: bool,
    /// Records that were read before that.
    pub(crate) early: Vec<(i64, Delivery)>,
}

/// Position of a delivery in the caller's hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) assignment: AssignmentId,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

/// Result of a fetch.
pub(crate) enum Found {
    Deliveries(Vec<Delivery>),
    Revoked(Vec<DeliveryId>),
    Away(Error),
    Back,
    Failed(Error),
    Nothing,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while holding the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the right to commit; taken before the lock of the state.
    pub(crate) fn commits_alone(&self) -> MutexGuard<'_, ()> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for the end; the first caller decides which kind.
    pub(crate) fn end(&self, how: End) {
        self.lock().end.get_or_insert(how);
        self.due.notify_all();
        self.wake();
    }

    /// Waits until a commit is due: `every` is over, or a tenth of it and nothing is in hand any more. Returns `false`
    /// once the end was asked for.
    pub(crate) fn commit_is_due(&self, every: Duration) -> bool {
        let soon = every / 10;
        let state = self.waits_for_commit(self.lock(), soon, |_| true);
        let state = self.waits_for_commit(state, every.saturating_sub(soon), |state| {
            !state.is_caught_up()
        });
        state.end.is_none()
    }

    /// Waits for so long, unless the end is asked for or there is nothing to wait for any more.
    fn waits_for_commit<'s>(
        &self,
        state: MutexGuard<'s, State>,
        time: Duration,
        waits: impl Fn(&State) -> bool,
    ) -> MutexGuard<'s, State> {
        let waited = self
            .due
            .wait_timeout_while(state, time, |state| state.end.is_none() && waits(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Notes that these are finished.
    pub(crate) fn finish(&self, batch: impl IntoIterator<Item = DeliveryId>) {
        let mut state = self.lock();
        state.finish(batch);
        if state.is_caught_up() {
            self.due.notify_all();
        }
        drop(state);
        self.wake();
    }

    /// Waits for something to fetch. Cancel safe.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Wakes the fetching task.
    pub(crate) fn tell(&self) {
        self.arrived.notify_one();
    }

    /// Tells the consuming thread that something has changed.
    pub(crate) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Waits until something has changed, at most for `patience`.
    pub(crate) fn wait<'s>(
        &self,
        state: MutexGuard<'s, State>,
        patience: Duration,
    ) -> MutexGuard<'s, State> {
        let waited = self.changed.wait_timeout(state, patience);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl State {
    pub(crate) fn assign(&mut self, topic: &str, partition: i32, is_ready: bool) -> AssignmentId {
        self.next_assignment += 1;
        let assignment = Assignment {
            topic: topic.into(),
            partition,
            prefix: Prefix::default(),
            is_leaving: false,
            is_paused: self.left_paused.remove(&(topic.into(), partition)),
            is_ready,
            early: Vec::new(),
        };
        let id = AssignmentId(self.next_assignment);
        self.assignments.insert(id, assignment);
        id
    }

    /// Lets the records of an assignment be fetched, if it is still there.
    pub(crate) fn may_be_fetched(&mut self, id: AssignmentId) {
        if let Some(assignment) = self.assignments.get_mut(&id) {
            assignment.is_ready = true;
            for (offset, delivery) in assignment.early.drain(..) {
                self.ready_bytes += delivery.payload.len();
                self.ready.push_back((id, offset, delivery));
            }
        }
    }

    /// Returns whether nothing may be fetched yet, and so much of one partition was read before.
    pub(crate) fn all_are_early(&self, much: usize) -> bool {
        let mut assignments = self.assignments.values();
        assignments.all(|it| !it.is_ready)
            && self.assignments.values().any(|it| it.early.len() >= much)
    }

    /// Returns the positions of these deliveries; `None` for those that are settled or no longer this member's.
    pub(crate) fn places(&self, batch: &[DeliveryId]) -> Vec<Option<Position>> {
        let place = |id: &DeliveryId| {
            let place = usize::try_from(id.0.checked_sub(self.first_handed)?).ok()?;
            let (assignment, offset) = (*self.handed.get(place)?)?;
            let partition = self.assignments.get(&assignment)?.partition;
            Some(Position {
                assignment,
                partition,
                offset,
            })
        };
        batch.iter().map(place).collect()
    }

    /// Returns the offsets up to which everything would be finished if these offsets of an assignment were, sorted.
    pub(crate) fn behind(&self, id: AssignmentId, done: &[i64]) -> Option<(Box<str>, i32, i64)> {
        let assignment = self.assignments.get(&id)?;
        let behind = assignment.prefix.behind(done)?;
        Some((assignment.topic.clone(), assignment.partition, behind))
    }

    /// Notes that these offsets of an assignment are finished, and everything before `behind` is committed.
    pub(crate) fn committed(&mut self, id: AssignmentId, done: &[i64], behind: i64) {
        if let Some(assignment) = self.assignments.get_mut(&id) {
            for offset in done {
                assignment.prefix.finish(*offset);
            }
            assignment.prefix.committed(behind);
        }
    }

    /// Returns the current assignment of a partition.
    fn find(&self, topic: &str, partition: i32) -> Option<AssignmentId> {
        // A member has few partitions, and the newest assignment counts.
        let mut newest_first = self.assignments.iter().rev();
        let found = newest_first
            .find(|(_, it)| it.partition == partition && &*it.topic == topic && !it.is_leaving);
        found.map(|(id, _)| *id)
    }

    /// Takes in a record that was read, unless it was read before or its partition is leaving.
    pub(crate) fn take_in(&mut self, topic: &str, partition: i32, offset: i64, it: Delivery) {
        let Some(id) = self.find(topic, partition) else {
            return;
        };
        let Some(assignment) = self.assignments.get_mut(&id) else {
            return;
        };
        if !assignment.prefix.read(offset) {
            return;
        }
        if assignment.is_ready {
            self.ready_bytes += it.payload.len();
            self.ready.push_back((id, offset, it));
        } else {
            assignment.early.push((offset, it));
        }
    }

    /// Returns the number of records that wait to be fetched, and their bytes.
    pub(crate) fn ready(&self) -> (usize, usize) {
        (self.ready.len(), self.ready_bytes)
    }

    pub(crate) fn fetch(&mut self, max: usize) -> Found {
        if !self.revoked.is_empty() {
            return Found::Revoked(std::mem::take(&mut self.revoked));
        }
        if !self.ready.is_empty() {
            let count = max.max(1).min(self.ready.len());
            let mut deliveries = Vec::with_capacity(count);
            for (assignment, offset, mut delivery) in self.ready.drain(..count) {
                self.ready_bytes -= delivery.payload.len();
                delivery.id = DeliveryId(self.first_handed + self.handed.len() as u64);
                self.handed.push_back(Some((assignment, offset)));
                deliveries.push(delivery);
            }
            return Found::Deliveries(deliveries);
        }
        if let Some(error) = &self.failed {
            return Found::Failed(error.clone());
        }
        if std::mem::take(&mut self.is_back) {
            self.told_away = None;
            return Found::Back;
        }
        if let Some(unreached) = &mut self.unreached
            && !unreached.is_told
            && unreached.since.elapsed() >= GRACE
        {
            unreached.is_told = true;
            self.away = Some(unreached.error.clone());
        }
        if let Some(error) = self.away.take() {
            let text = error.to_string();
            let is_told = self
                .told_away
                .as_ref()
                .is_some_and(|(told, at)| *told == text && at.elapsed() < TELL_EVERY);
            if !is_told {
                self.told_away = Some((text, Instant::now()));
                return Found::Away(error);
            }
        }
        Found::Nothing
    }

    fn finish(&mut self, batch: impl IntoIterator<Item = DeliveryId>) {
        self.settle(batch, Prefix::finish);
    }

    /// Returns whether nothing is in hand or waits for it, while some finished offsets are not committed.
    fn is_caught_up(&self) -> bool {
        let mut assignments = self.assignments.values();
        self.handed.is_empty()
            && self.ready.is_empty()
            && assignments.any(|it| it.prefix.to_commit().is_some())
    }

    pub(crate) fn give_back(&mut self, batch: &[DeliveryId]) {
        self.settle(batch.iter().copied(), Prefix::give_back);
    }

    fn settle(
        &mut self,
        batch: impl IntoIterator<Item = DeliveryId>,
        how: impl Fn(&mut Prefix, i64),
    ) {
        for id in batch {
            let place = id.0.checked_sub(self.first_handed);
            let place = place.and_then(|place| usize::try_from(place).ok());
            let handed = place.and_then(|place| self.handed.get_mut(place));
            // Neither unknown nor settled before.
            let Some((assignment, offset)) = handed.and_then(Option::take) else {
                continue;
            };
            if let Some(assignment) = self.assignments.get_mut(&assignment) {
                how(&mut assignment.prefix, offset);
            }
        }
        while let Some(None) = self.handed.front() {
            self.handed.pop_front();
            self.first_handed += 1;
        }
    }

    /// Begins to let go of partitions: records that were not fetched are forgotten, deliveries are reported as revoked.
    pub(crate) fn leave(&mut self, partitions: &[(Box<str>, i32)]) -> Vec<AssignmentId> {
        let leaving: Vec<_> = partitions
            .iter()
            .filter_map(|(topic, partition)| self.find(topic, *partition))
            .collect();
        for id in &leaving {
            if let Some(assignment) = self.assignments.get_mut(id) {
                assignment.is_leaving = true;
                for (offset, _) in assignment.early.drain(..) {
                    assignment.prefix.give_back(offset);
                }
            }
        }
        let ready = std::mem::take(&mut self.ready);
        let (gone, stays): (VecDeque<_>, _) =
            ready.into_iter().partition(|(id, ..)| leaving.contains(id));
        self.ready = stays;
        for (id, offset, delivery) in gone {
            self.ready_bytes -= delivery.payload.len();
            if let Some(assignment) = self.assignments.get_mut(&id) {
                assignment.prefix.give_back(offset);
            }
        }
        let handed = self.handed.iter().enumerate();
        let revoked = handed.filter_map(|(place, handed)| {
            let (id, _) = handed.as_ref()?;
            let is_leaving = leaving.contains(id);
            is_leaving.then_some(DeliveryId(self.first_handed + place as u64))
        });
        self.revoked.extend(revoked);
        leaving
    }

    /// Returns the number of deliveries of these that are still in the caller's hand.
    pub(crate) fn held(&self, assignments: &[AssignmentId]) -> usize {
        let held = assignments.iter().filter_map(|id| self.assignments.get(id));
        held.map(|assignment| assignment.prefix.held()).sum()
    }

    /// Lets go of them for good; later reports on their deliveries are ignored.
    pub(crate) fn left(&mut self, assignments: &[AssignmentId]) {
        for id in assignments {
            let left = self.assignments.remove(id);
            if let Some(left) = left.filter(|it| it.is_paused) {
                self.left_paused.insert((left.topic, left.partition));
            }
        }
    }

    /// Returns whether there is a partition to read.
    pub(crate) fn is_assigned(&self) -> bool {
        !self.assignments.is_empty()
    }

    /// Returns the assignments, or the named ones.
    pub(crate) fn assignments<'s>(
        &'s mut self,
        only: Option<&'s [AssignmentId]>,
    ) -> impl Iterator<Item = (AssignmentId, &'s mut Assignment)> {
        self.assignments
            .iter_mut()
            .filter(move |(id, _)| only.is_none_or(|only| only.contains(id)))
            .map(|(id, assignment)| (*id, assignment))
    }

    pub(crate) fn away(&mut self, error: Error) {
        self.away = Some(error);
    }

    /// Notes librdkafka's error with this code.
    pub(crate) fn goes_wrong(&mut self, code: RDKafkaErrorCode, error: Error) {
        if is_unreached(code) {
            self.unreached(error);
        } else {
            self.away(error);
        }
    }

    /// Notes that no broker is reached, which is reported unless it is over soon.
    fn unreached(&mut self, error: Error) {
        let now = Instant::now();
        let unreached = self.unreached.get_or_insert_with(|| Unreached {
            error: error.clone(),
            since: now,
            looked_at: now,
            is_told: false,
        });
        unreached.error = error;
    }

    /// Returns whether it is time to check if a broker is reached again.
    pub(crate) fn is_to_look(&self) -> bool {
        let unreached = self.unreached.as_ref();
        unreached.is_some_and(|it| it.looked_at.elapsed() >= LOOK_EVERY)
    }

    /// Notes the result of such a check.
    pub(crate) fn looked(&mut self, is_reached: bool) {
        let Some(mut unreached) = self.unreached.take() else {
            return;
        };
        if is_reached {
            self.is_back |= unreached.is_told;
            return;
        }
        unreached.looked_at = Instant::now();
        self.unreached = Some(unreached);
    }

    pub(crate) fn failed(&mut self, error: Error) {
        self.failed.get_or_insert(error);
    }
}

/// Returns whether the code says that a broker is not reached, and nothing of its answer.
const fn is_unreached(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::AllBrokersDown
            | RDKafkaErrorCode::BrokerTransportFailure
            | RDKafkaErrorCode::OperationTimedOut
            | RDKafkaErrorCode::Resolve
    )
}

/// Time for which an outage of all brokers is not reported.
const GRACE: Duration = Duration::from_millis(1_500);
/// Pause between two checks whether one is reached again.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Pause between two reports of the same outage.
const TELL_EVERY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_went_paused_is_paused_when_it_comes_back() {
        let mut state = State::default();
        let id = state.assign("t", 0, true);
        let other = state.assign("t", 1, true);
        for (_, assignment) in state.assignments(Some(&[id])) {
            assignment.is_paused = true;
        }
        state.left(&[id, other]);
        for (partition, expected) in [(0, true), (1, false)] {
            let again = state.assign("t", partition, true);
            for (_, assignment) in state.assignments(Some(&[again])) {
                assert_eq!(assignment.is_paused, expected, "{partition}");
            }
        }
    }

    fn record(number: i64) -> Delivery {
        Delivery::new(DeliveryId(0), "", format!("kafka:t:0:{number}"))
    }

    #[test]
    fn all_are_early_until_one_may_be_fetched() {
        let mut state = State::default();
        assert!(!state.all_are_early(2), "there is none");
        let (first, second) = (state.assign("t", 0, false), state.assign("t", 1, false));
        state.take_in("t", 0, 0, record(0));
        state.take_in("t", 1, 0, record(0));
        assert!(!state.all_are_early(2), "one of each");
        state.take_in("t", 1, 1, record(1));
        assert!(state.all_are_early(2));
        state.may_be_fetched(first);
        assert!(!state.all_are_early(2), "the first may be fetched from");
        state.left(&[first]);
        assert!(state.all_are_early(2));
        state.may_be_fetched(second);
        assert!(!state.all_are_early(0));
    }

    #[test]
    fn a_commit_is_due_soon_after_the_last_that_is_in_hand() {
        let shared = Shared::default();
        let mut state = shared.lock();
        let id = state.assign("t", 0, true);
        for offset in 0..3 {
            state.take_in("t", 0, offset, record(offset));
        }
        let Found::Deliveries(first) = state.fetch(2) else {
            panic!("two are there");
        };
        drop(state);
        let ids: Vec<_> = first.iter().map(|it| it.id).collect();
        shared.finish(ids);
        assert!(!shared.lock().is_caught_up(), "one waits to be fetched");
        let Found::Deliveries(last) = shared.lock().fetch(2) else {
            panic!("one is there");
        };
        assert!(!shared.lock().is_caught_up(), "one is in hand");
        let every = Duration::from_secs(10);
        std::thread::scope(|scope| {
            let due = scope.spawn(|| {
                let asked = Instant::now();
                (shared.commit_is_due(every), asked.elapsed())
            });
            shared.finish([last[0].id]);
            let (goes_on, after) = due.join().expect("no panic");
            assert!(goes_on && after < every, "{goes_on} {after:?}");
        });
        shared.lock().committed(id, &[], 3);
        assert!(!shared.lock().is_caught_up(), "nothing is left to commit");
        shared.end(End::AtOnce);
        assert!(!shared.commit_is_due(every), "the end was asked for");
    }
}
