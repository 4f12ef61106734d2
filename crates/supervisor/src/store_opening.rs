//! Opens the store of a worker, and asks it what it promises.

use std::sync::Arc;
use std::time::Duration;

use semel_backends::store;
use semel_config::{Accepted, StoreUrl};
use semel_core::port::store::Capabilities;
use semel_core::{Clock, Error, Result};
use semel_worker::run::Stores;

use crate::store_wait::{Start, StoreWait};

/// An opened store that has answered.
pub(crate) struct Opened {
    pub(crate) stores: Stores,
    /// True if it was just created.
    pub(crate) is_new: bool,
    /// The formats between which it was brought forward with this opening.
    pub(crate) brought_forward: Option<(i64, i64)>,
    /// Its promises.
    pub(crate) capabilities: Capabilities,
}

/// Opens the store and asks what it promises. If its server is away, says so once and tries again until it is there; returns nothing if it
/// is called off before that.
///
/// # Errors   those of [`store::open`], with the place: what is wrong, and on this machine what is away
pub(crate) async fn wait(
    url: &StoreUrl,
    accepted: Accepted,
    clock: Arc<dyn Clock>,
    wait: &StoreWait,
    called_off: impl Future<Output = ()> + Send,
) -> Result<Option<Opened>> {
    let mut opening = Opening {
        url,
        accepted,
        clock,
        wait,
        before: store::older_format(url).await,
    };
    wait.until_made(&mut opening, called_off).await
}

/// An opening that is tried.
struct Opening<'w> {
    url: &'w StoreUrl,
    accepted: Accepted,
    clock: Arc<dyn Clock>,
    wait: &'w StoreWait,
    /// The format that it had, if that is older.
    before: Option<i64>,
}

impl Start for Opening<'_> {
    type Made = Opened;
    type Failure = Error;

    async fn attempt(&mut self) -> Result<Opened> {
        let opened = self.wait.asks(self.open()).await?;
        self.wait.answers();
        Ok(opened)
    }

    fn fails(&mut self, error: Error) -> Result<Duration> {
        if self.wait.is_for(&error) {
            return Ok(self.wait.fails(&error));
        }
        Err(store::at_store(self.url, error))
    }
}

impl Opening<'_> {
    /// Looks first, so that it is known whether the store existed before, and asks it last: its server may end between its
    /// opening and its first answer.
    async fn open(&self) -> Result<Opened> {
        let url = self.url;
        let was_there = match store::exists(url).await {
            Ok(was_there) => was_there,
            Err(error) if self.wait.is_for(&error) => return Err(error),
            // Opening it gives a better error.
            Err(_) => true,
        };
        let stores = store::open(url, self.accepted, Arc::clone(&self.clock)).await?;
        Ok(Opened {
            brought_forward: store::brought_forward(url, self.before).await?,
            capabilities: stores.preflight().await?,
            stores,
            is_new: !was_there || *url == StoreUrl::Memory,
        })
    }
}
