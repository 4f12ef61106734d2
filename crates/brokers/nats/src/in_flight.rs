//! Deliveries in the caller's hand: the delivery of each id, and the time until which it is ours.

use std::collections::HashMap;
use std::time::Duration;

use async_nats::Subject;
use semel_core::port::source::DeliveryId;
use tokio::time::Instant;

/// Deliveries that the server counts as ours.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    next_id: u64,
    out: HashMap<DeliveryId, Holding>,
    /// The newest delivery of each message: an older one is no longer valid.
    newest: HashMap<u64, DeliveryId>,
}

/// One delivery.
#[derive(Clone, Debug)]
pub(crate) struct Holding {
    /// Subject at which the server expects reports about it.
    pub(crate) reply: Subject,
    /// Its place in the stream.
    pub(crate) sequence: u64,
    /// Time at which the server takes it back. A later report might hit a delivery to another worker.
    pub(crate) until: Instant,
}

impl InFlight {
    /// Hands out `holding`; an earlier delivery of the same message is forgotten.
    pub(crate) fn hand_out(&mut self, holding: Holding) -> DeliveryId {
        let id = DeliveryId(self.next_id);
        self.next_id += 1;
        if let Some(older) = self.newest.insert(holding.sequence, id) {
            self.out.remove(&older);
        }
        self.out.insert(id, holding);
        id
    }

    /// Returns the number of deliveries in hand that the server counts as ours.
    pub(crate) fn len(&self) -> usize {
        let now = Instant::now();
        self.out.values().filter(|it| now < it.until).count()
    }

    /// Takes those of `ids` that are still valid.
    pub(crate) fn take(&mut self, ids: impl IntoIterator<Item = DeliveryId>) -> Vec<Holding> {
        let now = Instant::now();
        let taken = ids.into_iter().filter_map(|id| self.remove(id));
        taken.filter(|holding| now < holding.until).collect()
    }

    /// Takes everything.
    pub(crate) fn take_all(&mut self) -> Vec<Holding> {
        let ids: Vec<_> = self.out.keys().copied().collect();
        self.take(ids)
    }

    /// Returns the reply subjects of those of `ids` that are still valid.
    pub(crate) fn replies(&self, ids: &[DeliveryId]) -> Vec<(DeliveryId, Subject)> {
        let now = Instant::now();
        let known = ids.iter().filter_map(|id| Some((*id, self.out.get(id)?)));
        known
            .filter(|(_, holding)| now < holding.until)
            .map(|(id, holding)| (id, holding.reply.clone()))
            .collect()
    }

    /// Notes that the server has received, after `asked`, that `id` is still worked on.
    pub(crate) fn extended(&mut self, id: DeliveryId, asked: Instant, lease: Duration) {
        if let Some(holding) = self.out.get_mut(&id) {
            holding.until = holding.until.max(asked + lease);
        }
    }

    fn remove(&mut self, id: DeliveryId) -> Option<Holding> {
        let holding = self.out.remove(&id)?;
        self.newest.remove(&holding.sequence);
        Some(holding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(sequence: u64, until: Instant) -> Holding {
        Holding {
            reply: format!("reply.{sequence}").into(),
            sequence,
            until,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_id_means_nothing_once_the_message_was_delivered_anew() {
        let later = Instant::now() + Duration::from_secs(9);
        let mut in_flight = InFlight::default();
        let old = in_flight.hand_out(holding(7, later));
        let new = in_flight.hand_out(holding(7, later));
        assert!(in_flight.take([old]).is_empty());
        assert_eq!(in_flight.take([new, new]).len(), 1);
        assert!(in_flight.newest.is_empty() && in_flight.out.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_server_took_back_is_not_settled() {
        let lease = Duration::from_secs(3);
        let mut in_flight = InFlight::default();
        let kept = in_flight.hand_out(holding(1, Instant::now() + lease));
        let lost = in_flight.hand_out(holding(2, Instant::now() + lease));
        tokio::time::advance(Duration::from_secs(2)).await;
        in_flight.extended(kept, Instant::now(), lease);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(in_flight.replies(&[kept, lost]).len(), 1);
        let taken = in_flight.take([kept, lost]);
        assert_eq!(taken.iter().map(|it| it.sequence).collect::<Vec<_>>(), [1]);
    }
}
