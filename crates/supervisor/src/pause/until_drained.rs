//! A source that ends when its pipeline is to be drained.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use semel_core::port::source::{Fetched, Source};
use semel_core::{Result, forward_source};
use semel_operate::pipelines::PauseKind;
use tokio::sync::watch;

use super::KnownOrder;

/// A source that hands over nothing more once its pipeline is to be drained: then it ends as a file does.
pub(crate) struct UntilDrained<S> {
    source: S,
    order: watch::Receiver<KnownOrder>,
    /// Set when it ended for that reason.
    is_drained: Arc<AtomicBool>,
}

impl<S> UntilDrained<S> {
    pub(super) const fn new(
        source: S,
        order: watch::Receiver<KnownOrder>,
        is_drained: Arc<AtomicBool>,
    ) -> Self {
        Self {
            source,
            order,
            is_drained,
        }
    }
}

// A method that is not forwarded would be the default one.
#[deny(clippy::missing_trait_methods)]
impl<S: Source> Source for UntilDrained<S> {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        let (source, order) = (&mut self.source, &mut self.order);
        let is_to_drain = async {
            let asked = order.wait_for(|order| order.is(PauseKind::Drain));
            let is_asked = asked.await.is_ok();
            if !is_asked {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = is_to_drain => {
                self.is_drained.store(true, Ordering::Relaxed);
                Ok(Fetched::Ended)
            }
            fetched = source.fetch(max) => fetched,
        }
    }

    forward_source!(self => self.source);
}
