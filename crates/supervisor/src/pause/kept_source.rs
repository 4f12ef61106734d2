//! Sources that outlive a run: standard input cannot be opened twice, and a file would be read from its beginning again.
//! Both hand out again what was not acknowledged when they were closed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::Result;
use semel_core::port::source::{Acknowledgement, AnySource, DeliveryId, Fetched, Progress, Source};

/// Keeps a source between two runs of its pipeline.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keeper(Arc<Mutex<Option<AnySource>>>);

/// A source that goes back to its keeper when it is dropped.
#[derive(Debug)]
pub(crate) struct KeptSource {
    /// Taken out only when it is dropped.
    source: Option<AnySource>,
    keeper: Keeper,
}

impl Keeper {
    /// Takes out the source that was kept.
    pub(crate) fn take(&self) -> Option<AnySource> {
        self.slot().take()
    }

    /// Lends a source, which comes back.
    pub(crate) fn lend(&self, source: AnySource) -> KeptSource {
        KeptSource {
            source: Some(source),
            keeper: self.clone(),
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<AnySource>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptSource {
    const fn source(&mut self) -> &mut AnySource {
        match &mut self.source {
            Some(source) => source,
            None => unreachable!(),
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Source for KeptSource {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        self.source().fetch(max).await
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        self.source().acknowledge(batch).await
    }

    async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
        self.source().requeue(batch).await
    }

    async fn extend(&mut self, batch: &[DeliveryId]) -> Result<()> {
        self.source().extend(batch).await
    }

    async fn prefetch_more(&mut self, unsettled: usize) -> Result<()> {
        self.source().prefetch_more(unsettled).await
    }

    /// Gives back what is not acknowledged, for the next run.
    async fn close(&mut self) -> Result<()> {
        self.source().close().await
    }

    fn progress(&self) -> Option<Progress> {
        self.source.as_ref().and_then(Source::progress)
    }

    fn hold(&self) -> Option<Duration> {
        self.source.as_ref().and_then(Source::hold)
    }
}

impl Drop for KeptSource {
    fn drop(&mut self) {
        *self.keeper.slot() = self.source.take();
    }
}
