//! The questions of the list before production that a report does not answer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use semel_backends::store;
use semel_config::{PipelineSettings, Settings, StoreUrl};
use semel_core::{AnyStore, Clock, Result};
use semel_operate::check::{Inspection, Observed, Production, Report, Room, Scrape};
use semel_operate::check::{SetAside, Subject};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::means::Means;
use crate::patience::{Patience, STORE};

/// The answers that serve all pipelines.
pub(crate) struct ProductionLook {
    /// The store to count in; nothing if there is nothing to count.
    store: Option<Result<AnyStore>>,
    is_lent: bool,
    scrape: Scrape,
    room: Room,
    patience: Patience,
    /// The places of those that count.
    turns: Semaphore,
}

impl ProductionLook {
    /// Opens the store to look at it, if it is there, and asks the worker for its metrics.
    ///
    /// # Cancel safety   safe
    pub(crate) async fn begin(
        (settings, means): (&Settings, &Means),
        inspected: &Result<Inspection>,
        room: Room,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        // One that no worker can use may still be looked at.
        let is_store = inspected.as_ref().is_ok_and(|it| it.is_there);
        // There is nothing to count of a store that has no pipelines.
        let is_store = is_store && !settings.pipelines.is_empty();
        let patience = means.patience.or(LONGEST);
        let store = if let (true, Some(store)) = (is_store, &means.store) {
            Some(Ok(store.clone()))
        } else if is_store && settings.store != StoreUrl::Memory {
            let opening = store::open_as_is(&settings.store, Arc::clone(clock));
            let opened = patience.within(STORE, opening).await;
            Some(opened.map(|it| it.store))
        } else {
            None
        };
        let scrape = match (settings.admin.listen, &means.scrape) {
            (Some(_), Some(own)) => own.clone(),
            (Some(address), None) if settings.admin.tls.is_some() => Scrape::Silent(
                address,
                "it encrypts, and this check trusts no authority".to_owned(),
            ),
            (Some(address), None) => scrape(address).await,
            (None, _) => Scrape::Off,
        };
        Self {
            store,
            is_lent: means.store.is_some(),
            scrape,
            room,
            patience,
            turns: Semaphore::new(COUNTS),
        }
    }

    /// The answer at the address of the metrics.
    pub(crate) const fn scrape(&self) -> &Scrape {
        &self.scrape
    }

    /// Counts what of a pipeline waits for a person; nothing where there is no store. Few do so at once: the store has other
    /// work to do.
    ///
    /// # Cancel safety   safe
    pub(crate) async fn count(&self, pipeline: &PipelineSettings) -> Option<Result<SetAside>> {
        let store = match self.store.as_ref()? {
            Ok(store) => store,
            Err(error) => return Some(Err(error.clone())),
        };
        // Nobody closes it.
        let _turn = self.turns.acquire().await;
        let selection = pipeline.pipeline.selection();
        let counting = SetAside::of(store, &selection, self.is_lent);
        Some(self.patience.within(STORE, counting).await)
    }

    /// Goes through the list of a pipeline of which so much was counted.
    pub(crate) fn list(
        &self,
        subject: &Subject<'_>,
        report: &Report,
        counted: Option<&Result<SetAside>>,
    ) -> Production {
        let observed = Observed {
            set_aside: counted.map(Result::as_ref),
            scrape: &self.scrape,
            room: self.room,
        };
        Production::of(subject, report, &observed)
    }
}

/// Asks for the metrics, as a scraper on this machine would.
async fn scrape(address: SocketAddr) -> Scrape {
    let asked = timeout(LONGEST, metrics(reached(address)));
    match asked.await {
        Ok(Ok(text)) => Scrape::Answered(address, text),
        Ok(Err(error)) => Scrape::Silent(address, error.kind().to_string()),
        Err(_) => Scrape::Silent(address, "no answer in time".to_owned()),
    }
}

/// The address at which this machine reaches a listener.
const fn reached(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

async fn metrics(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    // The old version closes the connection after its answer, which comes in one piece.
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = Vec::new();
    stream.take(MOST_BYTES).read_to_end(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The longest time for an answer of the worker or the store, which may have much to do, and the longest answer.
const LONGEST: Duration = Duration::from_secs(10);
const MOST_BYTES: u64 = 16 << 20;
/// The pipelines that are counted at once.
const COUNTS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_at_every_address_is_asked_on_this_machine() {
        for (listens, asked) in [
            ("0.0.0.0:9464", "127.0.0.1:9464"),
            ("[::]:9464", "[::1]:9464"),
            ("10.0.0.7:1", "10.0.0.7:1"),
        ] {
            let address = listens.parse().expect("an address");
            assert_eq!(reached(address).to_string(), asked);
        }
    }
}
