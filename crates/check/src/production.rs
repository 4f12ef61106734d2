//! The questions of the list before production that a report does not answer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use semel_backends::store;
use semel_config::{Settings, StoreUrl};
use semel_core::units::duration_text;
use semel_core::{AnyStore, Clock, Code, Error, ErrorKind, Result};
use semel_operate::check::{Inspection, Observed, Production, Report, Room, Scrape};
use semel_operate::check::{SetAside, Subject};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The answers that serve all pipelines.
pub struct ProductionLook {
    /// The store to count in; nothing if there is nothing to count.
    store: Option<Result<AnyStore>>,
    scrape: Scrape,
    room: Room,
}

impl ProductionLook {
    /// Opens the store to look at it, if it is there, and asks the worker for its metrics.
    ///
    /// # Cancel safety   safe
    pub async fn begin(
        settings: &Settings,
        inspected: &Result<Inspection>,
        room: Room,
        clock: Arc<dyn Clock>,
    ) -> Self {
        // One that no worker can use may still be looked at.
        let is_store = inspected.as_ref().is_ok_and(|it| it.is_there);
        let store = if is_store && settings.store != StoreUrl::Memory {
            let opening = store::open_for_reading(&settings.store, clock);
            let opened = within(PATIENCE, opening).await;
            Some(opened.map(|it| it.store))
        } else {
            None
        };
        let scrape = match settings.admin.listen {
            Some(address) if settings.admin.tls.is_some() => Scrape::Silent(
                address,
                "it encrypts, and this check trusts no authority".to_owned(),
            ),
            Some(address) => scrape(address).await,
            None => Scrape::Off,
        };
        Self {
            store,
            scrape,
            room,
        }
    }

    /// The answer at the address of the metrics.
    pub const fn scrape(&self) -> &Scrape {
        &self.scrape
    }

    /// Goes through the list of a pipeline.
    ///
    /// # Cancel safety   safe
    pub async fn list<'a>(&self, subject: &Subject<'a>, report: &Report<'_>) -> Production<'a> {
        let selection = subject.pipeline.pipeline.selection();
        let counted = match &self.store {
            Some(Ok(store)) => Some(within(PATIENCE, SetAside::of(store, &selection)).await),
            Some(Err(error)) => Some(Err(error.clone())),
            None => None,
        };
        let observed = Observed {
            set_aside: counted.as_ref().map(Result::as_ref),
            scrape: &self.scrape,
            room: self.room,
        };
        Production::of(subject, report, &observed)
    }
}

/// Waits so long for a store.
///
/// # Errors
///
/// Those of `answer`; `store-unavailable` if there is none in time
async fn within<T>(patience: Duration, answer: impl Future<Output = Result<T>>) -> Result<T> {
    let late = || {
        let why = format!(
            "the store gave no answer within {}",
            duration_text(patience)
        );
        Error::new(ErrorKind::Unavailable, why).with_code(Code::StoreUnavailable)
    };
    let answered = timeout(patience, answer).await;
    answered.unwrap_or_else(|_| Err(late()))
}

/// Asks for the metrics, as a scraper on this machine would.
async fn scrape(address: SocketAddr) -> Scrape {
    let asked = timeout(PATIENCE, metrics(reached(address)));
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
const PATIENCE: Duration = Duration::from_secs(10);
const MOST_BYTES: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_store_that_does_not_answer_is_not_waited_for() {
        let answered = within(PATIENCE, async { Ok(7) }).await;
        assert_eq!(answered.expect("an answer"), 7);
        let patience = Duration::from_millis(1);
        let late = within(patience, std::future::pending::<Result<()>>()).await;
        let error = late.expect_err("no answer");
        assert_eq!(error.code(), Code::StoreUnavailable);
        assert!(error.to_string().contains("within 1ms"), "{error}");
    }

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
