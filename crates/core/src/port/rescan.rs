//! A source that is read a second time, to its end.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll};

use super::source::{Acknowledgement, Delivery, DeliveryId, Fetched, Progress, Source};
use crate::error::Result;

/// A source over batches that are read ahead elsewhere. Nothing of it is acknowledged or comes again: a caller that
/// reads it a second time finds on record what was done.
pub struct RescanSource {
    next: Box<Next>,
    waiting: VecDeque<Delivery>,
    next_id: u64,
}

type Next = dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<Fetched>>> + Send;

impl RescanSource {
    /// The batches of `next`, as a channel's receiver polls them, up to `None`. Their delivery ids are not looked
    /// at.
    pub fn new(
        next: impl FnMut(&mut Context<'_>) -> Poll<Option<Result<Fetched>>> + Send + 'static,
    ) -> Self {
        Self {
            next: Box::new(next),
            waiting: VecDeque::new(),
            next_id: 0,
        }
    }
}

impl Source for RescanSource {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        while self.waiting.is_empty() {
            match poll_fn(&mut self.next).await {
                None => return Ok(Fetched::Ended),
                Some(Ok(Fetched::Deliveries(batch))) => self.waiting.extend(batch),
                Some(other) => return other,
            }
        }
        let count = max.max(1).min(self.waiting.len());
        let mut deliveries: Vec<_> = self.waiting.drain(..count).collect();
        for delivery in &mut deliveries {
            delivery.id = DeliveryId(self.next_id);
            self.next_id += 1;
        }
        Ok(Fetched::Deliveries(deliveries))
    }

    async fn acknowledge(&mut self, _batch: &[Acknowledgement]) -> Result<()> {
        Ok(())
    }

    async fn requeue(&mut self, _batch: &[DeliveryId]) -> Result<()> {
        Ok(())
    }

    async fn extend(&mut self, _batch: &[DeliveryId]) -> Result<()> {
        Ok(())
    }

    fn progress(&self) -> Option<Progress> {
        None
    }
}

impl fmt::Debug for RescanSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RescanSource")
            .field("waiting", &self.waiting.len())
            .field("next_id", &self.next_id)
            .finish_non_exhaustive()
    }
}
