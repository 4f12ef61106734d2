//! A source from a list.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::Result;
use semel_core::port::source::{Acknowledgement, Delivery, DeliveryId, Fetched, Progress, Source};

use super::locked;

/// Delivers the messages of a list in order, and ends. A second message with the same payload is
/// the same key, published again.
#[derive(Debug)]
pub struct ListSource {
    waiting: std::vec::IntoIter<(usize, String)>,
    acknowledged: Acknowledged,
}

/// The messages of a [`ListSource`] that were acknowledged, by their place from 0. Clones share one
/// list.
#[derive(Clone, Debug, Default)]
pub struct Acknowledged(Arc<Mutex<BTreeMap<usize, u32>>>);

impl Acknowledged {
    /// The places in order.
    pub fn places(&self) -> Vec<usize> {
        locked(&self.0).keys().copied().collect()
    }

    /// Returns whether no message was acknowledged more than once.
    pub fn is_once_each(&self) -> bool {
        locked(&self.0).values().all(|times| *times == 1)
    }
}

impl ListSource {
    /// A source of these messages.
    pub fn new<M: Into<String>>(messages: impl IntoIterator<Item = M>) -> Self {
        let messages: Vec<_> = messages.into_iter().map(Into::into).enumerate().collect();
        Self {
            waiting: messages.into_iter(),
            acknowledged: Acknowledged::default(),
        }
    }

    /// The acknowledged messages; get them before you give the source away.
    pub fn acknowledged(&self) -> Acknowledged {
        self.acknowledged.clone()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Source for ListSource {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        let chunk: Vec<_> = self.waiting.by_ref().take(max.max(1)).collect();
        if chunk.is_empty() {
            return Ok(Fetched::Ended);
        }
        let deliveries = chunk.into_iter().map(|(place, message)| {
            Delivery::new(DeliveryId(place as u64), message, format!("list:{place}"))
        });
        Ok(Fetched::Deliveries(deliveries.collect()))
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        let mut acknowledged = locked(&self.acknowledged.0);
        for told in batch {
            let place = usize::try_from(told.delivery.0).unwrap_or(usize::MAX);
            *acknowledged.entry(place).or_default() += 1;
        }
        Ok(())
    }

    async fn requeue(&mut self, _: &[DeliveryId]) -> Result<()> {
        Ok(())
    }

    async fn extend(&mut self, _: &[DeliveryId]) -> Result<()> {
        Ok(())
    }

    async fn prefetch_more(&mut self, _unsettled: usize) -> Result<()> {
        Ok(())
    }

    async fn close(&mut self) -> Result<()> {
        Ok(())
    }

    fn progress(&self) -> Option<Progress> {
        None
    }

    fn hold(&self) -> Option<Duration> {
        None
    }
}
