//! Delivery reports of the brokers, passed on once per batch: a record is a number, and the publishing task is woken
//! when the last of its batch is known.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::ClientContext;
use rdkafka::error::KafkaError;
use rdkafka::producer::{DeliveryResult, ProducerContext};
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
}

struct Batch {
    left: usize,
    failed: Failed,
    whole: oneshot::Sender<Failed>,
}

impl Reports {
    pub(super) fn new(watch: Watch) -> Self {
        Self {
            watch,
            open: Mutex::default(),
        }
    }

    /// Opens a batch of `len` records, at least one.
    pub(super) fn begin(&self, len: usize) -> (InFlight<'_>, oneshot::Receiver<Failed>) {
        let (whole, known) = oneshot::channel();
        let mut open = self.lock();
        // Numbers that are used up begin again; nothing that old is in flight.
        let first = open.number.checked_add(len).map_or(0, |_| open.number);
        open.number = first + len;
        let batch = Batch {
            left: len,
            failed: Failed::new(),
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
    fn note(&self, number: usize, failure: Option<KafkaError>) {
        let mut open = self.lock();
        let Some((&first, batch)) = open.batches.range_mut(..=number).next_back() else {
            return;
        };
        batch
            .failed
            .extend(failure.map(|error| (number - first, error)));
        batch.left = batch.left.saturating_sub(1);
        if batch.left > 0 {
            return;
        }
        let whole = open.batches.remove(&first);
        drop(open);
        if let Some(Batch { failed, whole, .. }) = whole {
            // The receiver may be gone.
            let _ = whole.send(failed);
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
        let failure = result.as_ref().err().map(|(error, _)| error.clone());
        self.note(number, failure);
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
            self.reports.note(self.number(), None);
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
            self.reports.note(number, None);
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
        let (mut in_flight, mut known) = reports.begin(4);
        let (mut other, mut known_of_other) = reports.begin(1);
        let first = in_flight.number();
        in_flight.heard_up_to(first + 3, &Ok(()));
        in_flight.heard(Err(refused()));
        assert_eq!((in_flight.count(), in_flight.number()), (4, first + 4));
        let answers = in_flight.answers();
        assert_eq!(answers, [Ok(()), Ok(()), Ok(()), Err(refused())]);
        reports.note(first + 2, Some(refused()));
        reports.note(first, None);
        known.try_recv().expect_err("one is not known");
        reports.note(other.number(), None);
        other.heard(Ok(()));
        known_of_other.try_recv().expect("all of it is known");
        reports.note(first + 1, Some(refused()));
        let failed = known.try_recv().expect("all of it is known");
        let failed: Vec<_> = failed.into_iter().map(|(place, _)| place).collect();
        assert_eq!(failed, [2, 1]);
        assert!(reports.lock().batches.is_empty());
    }

    #[test]
    fn a_batch_whose_handing_over_was_broken_off_leaves_nothing_behind() {
        let reports = Reports::new(Watch::default());
        let (mut in_flight, known) = reports.begin(3);
        let first = in_flight.number();
        in_flight.heard(Ok(()));
        drop((in_flight, known));
        assert_eq!(reports.lock().batches.len(), 1, "one is under way");
        reports.note(first, None);
        assert!(reports.lock().batches.is_empty());
    }

    #[test]
    fn numbers_begin_again_when_all_are_used_up() {
        let reports = Reports::new(Watch::default());
        reports.lock().number = usize::MAX - 1;
        let (in_flight, mut known) = reports.begin(2);
        assert_eq!(in_flight.number(), 0);
        drop(in_flight);
        known.try_recv().expect("nothing of it was handed over");
    }
}
