//! The source before the gate, which is told what is durable apart from the fetch: that one may be cancelled.

use std::time::Duration;

use semel_core::port::source::{Acknowledgement, AnySource, DeliveryId, Fetched, Progress, Source};
use semel_core::{Fate, Result};
use tokio::task::JoinHandle;

use super::gone;

/// The source whose messages pass the gate.
pub(super) struct Upstream {
    /// Not there while it is told something.
    source: Option<AnySource>,
    telling: Option<JoinHandle<AnySource>>,
    /// Its last word.
    pub(super) progress: Option<Progress>,
    pub(super) hold: Option<Duration>,
}

impl Upstream {
    pub(super) fn new(source: AnySource) -> Self {
        Self {
            progress: source.progress(),
            hold: source.hold(),
            source: Some(source),
            telling: None,
        }
    }

    pub(super) const fn is_being_told(&self) -> bool {
        self.telling.is_some()
    }

    /// Has the source told that these are durable, those are given back, and others are still worked on; where so many are not
    /// settled, and none of them can be, that more is to come. Not for while it is told something.
    pub(super) fn tell(
        &mut self,
        durable: Vec<Acknowledgement>,
        given_back: Vec<DeliveryId>,
        worked_on: Vec<DeliveryId>,
        stuck: Option<usize>,
    ) {
        self.telling = self.source.take().map(|mut source| {
            tokio::spawn(async move {
                // What is not heard is delivered again, and known.
                let _ = source.acknowledge(&durable).await;
                if !given_back.is_empty() {
                    let _ = source.requeue(&given_back).await;
                }
                if !worked_on.is_empty() {
                    let _ = source.extend(&worked_on).await;
                }
                if let Some(unsettled) = stuck {
                    let _ = source.prefetch_more(unsettled).await;
                }
                source
            })
        });
    }

    /// Waits until it is told what it is told now, which is nothing to hand on, or else fetches if `wants_more`; waits for
    /// ever where neither is to be done.
    ///
    /// # Errors   those of the source
    /// # Cancel safety   as that of the source
    pub(super) async fn fetch(&mut self, max: usize, wants_more: bool) -> Result<Option<Fetched>> {
        if self.telling.is_some() {
            self.source().await?;
            return Ok(None);
        }
        match &mut self.source {
            Some(source) if wants_more => {
                let fetched = source.fetch(max).await?;
                (self.progress, self.hold) = (source.progress(), source.hold());
                Ok(Some(fetched))
            }
            _ => std::future::pending().await,
        }
    }

    /// Returns the source, once it is told what it is told now.
    ///
    /// # Cancel safety   safe
    pub(super) async fn source(&mut self) -> Result<&mut AnySource> {
        if let Some(telling) = &mut self.telling {
            let told = telling.await;
            self.telling = None;
            self.source = Some(told.map_err(|_| gone())?);
        }
        self.source.as_mut().ok_or_else(gone)
    }
}

/// Takes what is durable in the journal, to be acknowledged.
pub(super) fn acknowledgements(durable: &mut Vec<DeliveryId>) -> Vec<Acknowledgement> {
    let durable = std::mem::take(durable).into_iter();
    durable
        .map(|id| Acknowledgement::new(id, Fate::Applied))
        .collect()
}
