//! The source: the requests of one path.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use semel_core::port::source::{Acknowledgement, DeliveryId, Fetched, Progress, Source};
use semel_core::{Clock, Result};

use super::listeners::Listeners;
use super::options::Options;
use super::route::Route;

/// The requests of one path, each answered when it is acknowledged.
pub struct WebhookSource {
    route: Arc<Route>,
    /// The listener, if no other source shares it.
    own: Option<Listeners>,
}

impl WebhookSource {
    /// Begins to take the requests of one path of `listeners`, which other sources share.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: the path was not named when they were bound, or another source has it.
    pub fn on(listeners: &Listeners, options: Options) -> Result<Self> {
        let route = listeners.open(options)?;
        Ok(Self { route, own: None })
    }

    /// Listens in plain HTTP at an address that no other source shares; see [`Listeners`] for several, and for TLS.
    ///
    /// # Errors
    ///
    /// `Unavailable`: the address cannot be listened at.
    ///
    /// # Cancel safety
    ///
    /// Safe
    pub async fn open(options: Options, clock: Arc<dyn Clock>) -> Result<Self> {
        let place = (options.listen, options.path.clone());
        let listeners = Listeners::bind([place], &BTreeMap::new(), clock, None).await?;
        let mut source = Self::on(&listeners, options)?;
        source.own = Some(listeners);
        Ok(source)
    }

    /// The address, with the port that the system chose if none was asked for; nothing if others share the listener, which
    /// knows it.
    pub fn address(&self) -> Option<SocketAddr> {
        self.own.as_ref()?.address(self.route.options().listen)
    }
}

impl Source for WebhookSource {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        let deliveries = self.route.inbox().next(max).await;
        Ok(deliveries.map_or(Fetched::Ended, Fetched::Deliveries))
    }

    /// Answers the requests of these deliveries. The answer to one that took too long was given before: its provider
    /// sends the message again, and finds the record.
    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        self.route.inbox().settle(batch);
        Ok(())
    }

    async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
        self.route.inbox().take_back(batch);
        Ok(())
    }

    /// Does nothing: a provider waits for its own time, whatever it is told.
    async fn extend(&mut self, _batch: &[DeliveryId]) -> Result<()> {
        Ok(())
    }

    /// Tells every request in hand to come again, and waits for those answers to be written if nobody shares the listener.
    async fn close(&mut self) -> Result<()> {
        self.route.inbox().close();
        if let Some(listeners) = &self.own {
            listeners.close().await;
        }
        Ok(())
    }

    fn progress(&self) -> Option<Progress> {
        None
    }
}

/// Nobody would answer the requests in hand any more: they are told to come again.
impl Drop for WebhookSource {
    fn drop(&mut self) {
        self.route.inbox().close();
    }
}

impl fmt::Debug for WebhookSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookSource")
            .field("options", self.route.options())
            .finish_non_exhaustive()
    }
}
