//! Handing messages over to librdkafka: bare ones many at a time, the others one by one, in their order.

use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, Producer};
use semel_core::port::sink::{Placement, Publication};
use semel_rdkafka_batch::{Batch, NotTaken, Topic};

use super::reports::{Failed, InFlight, Known};
use super::{KafkaSink, Out, Unpublished};
use crate::record::parts;

impl KafkaSink {
    /// Hands these over to librdkafka, and waits until the brokers have reported on each.
    pub(super) async fn sent(
        &self,
        producer: &Out,
        batch: &[Publication],
        is_placed: bool,
    ) -> Vec<std::result::Result<Placement, Unpublished>> {
        let len = batch.len();
        if len == 0 {
            return Vec::new();
        }
        let (mut in_flight, known) = producer.context().begin(len, is_placed);
        while let Some(rest @ [next, ..]) = batch.get(in_flight.count()..) {
            match self.bare(rest) {
                [] => {
                    let handed_over = self.hand_over(producer, next, in_flight.number()).await;
                    in_flight.heard(handed_over);
                }
                bare => {
                    if !self.hand_over_many(producer, bare, &mut in_flight) {
                        tokio::time::sleep(FULL).await;
                    }
                }
            }
        }
        let answers = in_flight.answers().into_iter();
        let mut answers: Vec<_> = answers
            .map(|answer| match answer {
                Ok(()) => Ok(Placement::default()),
                Err(error) => Err(Unpublished::NotSent(error)),
            })
            .collect();
        let gone = || {
            let places = (0..len).map(|place| (place, KafkaError::Canceled));
            Known {
                failed: places.collect::<Failed>(),
                placed: Vec::new(),
            }
        };
        let Known { failed, placed } = known.await.unwrap_or_else(|_| gone());
        for (answer, placement) in answers.iter_mut().zip(placed) {
            if let Ok(answer) = answer {
                *answer = placement;
            }
        }
        for (place, error) in failed {
            if let Some(answer @ Ok(_)) = answers.get_mut(place) {
                *answer = Err(Unpublished::NotConfirmed(error));
            }
        }
        answers
    }

    /// Hands one over to librdkafka; waits where its queue is full.
    async fn hand_over(
        &self,
        producer: &Out,
        message: &Publication,
        number: usize,
    ) -> std::result::Result<(), KafkaError> {
        let (key, headers) = parts(self.id(message), &message.headers);
        let mut record = BaseRecord::<[u8], [u8], usize>::with_opaque_to(&self.topic, number)
            .payload(&message.payload);
        record.key = key.or(message.order.as_deref());
        record.headers = headers;
        if let Some(partition) = self.partition {
            record = record.partition(partition);
        }
        loop {
            match producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                    record = again;
                    tokio::time::sleep(FULL).await;
                }
                Err((error, _)) => return Err(error),
            }
        }
    }

    /// Returns the first of these that have neither headers nor a partition of their own.
    fn bare<'b>(&self, batch: &'b [Publication]) -> &'b [Publication] {
        let is_bare = |it: &&Publication| {
            self.partition.is_none() && parts(self.id(it), &it.headers).1.is_none()
        };
        let count = batch.iter().take(AT_ONCE).take_while(is_bare).count();
        &batch[..count]
    }

    /// Returns the id of a message that goes out.
    fn id<'m>(&self, message: &'m Publication) -> Option<&'m str> {
        self.has_id_header.then_some(&*message.id)
    }

    /// Hands bare ones over to librdkafka, as far as there is room; returns whether there was for all of them.
    fn hand_over_many(
        &self,
        producer: &Out,
        batch: &[Publication],
        in_flight: &mut InFlight<'_>,
    ) -> bool {
        let end = in_flight.number() + batch.len();
        let topic = match Topic::new(producer.client(), &self.topic) {
            Ok(topic) => topic,
            Err(error) => {
                in_flight.heard_up_to(end, &Err(error));
                return true;
            }
        };
        let mut records = Batch::with_capacity(batch.len());
        for (number, message) in (in_flight.number()..end).zip(batch) {
            let (key, _) = parts(None, &message.headers);
            let key = key.or(message.order.as_deref());
            records.push(key, Some(&message.payload), number);
        }
        loop {
            match topic.send(&mut records) {
                Ok(()) => {
                    in_flight.heard_up_to(end, &Ok(()));
                    return true;
                }
                Err(NotTaken { opaque, error }) => {
                    in_flight.heard_up_to(opaque, &Ok(()));
                    if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull) {
                        return false;
                    }
                    in_flight.heard(Err(error));
                    records.leave_out_first();
                }
            }
        }
    }
}

/// Messages that go to librdkafka with one call.
const AT_ONCE: usize = 1_000;

/// Pause before the next look for room in librdkafka's queue.
const FULL: Duration = Duration::from_millis(5);
