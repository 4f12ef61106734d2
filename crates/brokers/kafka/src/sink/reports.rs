//! Delivery reports of the brokers, passed on once per batch: a record is a number, and the publishing task is woken
//! when the last of its batch is known.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::ClientContext;
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::producer::{DeliveryResult, ProducerContext};
use semel_core::port::sink::Placement;
use tokio::sync::oneshot;

use crate::connection_error::Watch;

/// The records of a batch that the brokers have not taken, by their places in it, and why.
pub(super) type Failed = Vec<(usize, KafkaError)>;

/// Callbacks of librdkafka.
pub(super) struct Reports {
    watch: Watch,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// Number of the next record.
    number: usize,
    /// Batches by the numbers of their first records.
    batches: BTreeMap<usize, Batch>,
    /// By partition, the offset that librdkafka invents next, where it has begun to.
    invented: BTreeMap<i32, i64>,
}

struct Batch {
    left: usize,
    known: Known,
    whole: oneshot::Sender<Known>,
}

/// The reports on the records of a batch.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) failed: Failed,
    /// The place of each record; none if nobody wants to know.
    pub(super) placed: Vec<Placement>,
}

/// The partition and the offset that a report names.
type Told = (i32, i64);

impl Open {
    /// Returns the place that a report names. A broker that had records already names no offset, and librdkafka counts on
    /// from -1 for those behind the first.
    fn placement(&mut self, (partition, offset): Told) -> Placement {
        let is_invented = offset < 0 || self.invented.get(&partition) == Some(&offset);
        if is_invented {
            self.invented.insert(partition, offset.saturating_add(1));
        } else {
            self.invented.remove(&partition);
        }
        Placement {
            partition: Some(partition),
            offset: u64::try_from(offset).ok().filter(|_| !is_invented),
            is_duplicate: false,
        }
    }
}

impl Reports {
    pub(super) fn new(watch: Watch) -> Self {
        Self {
            watch,
            open: Mutex::default(),
        }
    }

    /// Opens a batch of `len` records, at least one.
    pub(super) fn begin(
        &self,
        len: usize,
        is_placed: bool,
    ) -> (InFlight<'_>, oneshot::Receiver<Known>) {
        let (whole, known) = oneshot::channel();
        let mut open = self.lock();
        // Numbers that are used up begin again; nothing that old is in flight.
        let first = open.number.checked_add(len).map_or(0, |_| open.number);
        open.number = first + len;
        let batch = Batch {
            left: len,
            known: Known {
                failed: Failed::new(),
                placed: vec![Placement::default(); if is_placed { len } else { 0 }],
            },
            whole,
        };
        open.batches.insert(first, batch);
        drop(open);
        let in_flight = InFlight {
            reports: self,
            first,
            end: first + len,
            answers: Vec::with_capacity(len),
        };
        (in_flight, known)
    }

    /// Notes the fate of a record.
    fn note(&self, number: usize, failure: Option<KafkaError>, told: Option<Told>) {
        let mut open = self.lock();
        let placement = told.map(|told| open.placement(told)).unwrap_or_default();
        let Some((&first, batch)) = open.batches.range_mut(..=number).next_back() else {
            return;
        };
        if let Some(place) = batch.known.placed.get_mut(number - first) {
            *place = placement;
        }
        let failure = failure.map(|error| (number - first, error));
        batch.known.failed.extend(failure);
        batch.left = batch.left.saturating_sub(1);
        if batch.left > 0 {
            return;
        }
        let whole = open.batches.remove(&first);
        drop(open);
        if let Some(Batch { known, whole, .. }) = whole {
            // The receiver may be gone.
            let _ = whole.send(known);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Nothing panics while holding the lock.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Reports {
    fn error(&self, error: KafkaError, reason: &str) {
        self.watch.error(error, reason);
    }
}

impl ProducerContext for Reports {
    /// The number of the record.
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let (failure, told) = match result {
            Ok(message) => (None, Some((message.partition(), message.offset()))),
            Err((error, _)) => (Some(error.clone()), None),
        };
        self.note(number, failure, told);
    }
}

/// A batch whose records are handed over, in their order. Records that are not handed over count as known when this is
/// dropped.
pub(super) struct InFlight<'r> {
    reports: &'r Reports,
    first: usize,
    end: usize,
    /// librdkafka's answers so far.
    answers: Vec<Taken>,
}

/// Answer of librdkafka to a record that it was given.
pub(super) type Taken = Result<(), KafkaError>;

impl InFlight<'_> {
    /// Returns the number of records that were handed over, or not taken.
    pub(super) const fn count(&self) -> usize {
        self.answers.len()
    }

    /// Returns the number of the next record.
    pub(super) const fn number(&self) -> usize {
        self.first + self.count()
    }

    /// Notes that the next record was handed over, so that a report on it will come; or was not taken, so that none
    /// will.
    pub(super) fn heard(&mut self, taken: Taken) {
        if taken.is_err() {
            self.reports.note(self.number(), None, None);
        }
        self.answers.push(taken);
    }

    /// Notes the same for all records up to one of this number.
    pub(super) fn heard_up_to(&mut self, number: usize, taken: &Taken) {
        while self.number() < number {
            self.heard(taken.clone());
        }
    }

    /// Returns the answers.
    pub(super) fn answers(mut self) -> Vec<Taken> {
        self.first = self.number();
        std::mem::take(&mut self.answers)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        for number in self.number()..self.end {
            self.reports.note(number, None, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::error::RDKafkaErrorCode;

    use super::*;

    fn refused() -> KafkaError {
        KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut)
    }

    #[test]
    fn a_batch_is_told_of_when_the_last_of_it_is_known_and_not_before() {
        let reports = Reports::new(Watch::default());
        let (mut in_flight, mut known) = reports.begin(4, true);
        let (mut other, mut known_of_other) = reports.begin(1, false);
        let first = in_flight.number();
        in_flight.heard_up_to(first + 3, &Ok(()));
        in_flight.heard(Err(refused()));
        assert_eq!((in_flight.count(), in_flight.number()), (4, first + 4));
        let answers = in_flight.answers();
        assert_eq!(answers, [Ok(()), Ok(()), Ok(()), Err(refused())]);
        let nowhere = Placement::default();
        let there = Placement {
            partition: Some(2),
            offset: Some(17),
            is_duplicate: false,
        };
        reports.note(first + 2, Some(refused()), None);
        reports.note(first, None, Some((2, 17)));
        known.try_recv().expect_err("one is not known");
        reports.note(other.number(), None, Some((2, 18)));
        other.heard(Ok(()));
        let of_other = known_of_other.try_recv().expect("all of it is known");
        assert_eq!(of_other.placed, [], "nobody wants to know");
        reports.note(first + 1, Some(refused()), None);
        let known = known.try_recv().expect("all of it is known");
        assert_eq!(known.placed, [there, nowhere, nowhere, nowhere]);
        let failed: Vec<_> = known.failed.into_iter().map(|(place, _)| place).collect();
        assert_eq!(failed, [2, 1]);
        assert!(reports.lock().batches.is_empty());
    }

    #[test]
    fn offsets_that_no_broker_named_are_none() {
        let reports = Reports::new(Watch::default());
        let (mut in_flight, mut known) = reports.begin(7, true);
        let first = in_flight.number();
        in_flight.heard_up_to(first + 7, &Ok(()));
        // Three records that the broker had already, among those of another partition.
        let told = [(0, 40), (0, -1), (1, 1), (0, 0), (0, 1), (0, 43), (1, 2)];
        for (at, told) in told.into_iter().enumerate() {
            reports.note(first + at, None, Some(told));
        }
        let known = known.try_recv().expect("all of it is known");
        let offsets: Vec<_> = known.placed.iter().map(|it| it.offset).collect();
        let named = |offset| Some(offset);
        let expected = [named(40), None, named(1), None, None, named(43), named(2)];
        assert_eq!(offsets, expected);
        assert_eq!(known.placed[3].partition, Some(0));
    }

    #[test]
    fn a_batch_whose_handing_over_was_broken_off_leaves_nothing_behind() {
        let reports = Reports::new(Watch::default());
        let (mut in_flight, known) = reports.begin(3, false);
        let first = in_flight.number();
        in_flight.heard(Ok(()));
        drop((in_flight, known));
        assert_eq!(reports.lock().batches.len(), 1, "one is under way");
        reports.note(first, None, None);
        assert!(reports.lock().batches.is_empty());
    }

    #[test]
    fn numbers_begin_again_when_all_are_used_up() {
        let reports = Reports::new(Watch::default());
        reports.lock().number = usize::MAX - 1;
        let (in_flight, mut known) = reports.begin(2, false);
        assert_eq!(in_flight.number(), 0);
        drop(in_flight);
        let known = known.try_recv();
        known.expect("nothing of it was handed over");
    }
}
