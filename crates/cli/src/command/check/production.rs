//! `semel check --production`: asks what the list before production needs beside the report, and prints the list.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use semel_backends::store;
use semel_config::{Settings, StoreUrl};
use semel_core::{AnyStore, Clock, Error, Result, Scope};
use semel_operate::check::{Inspection, Line, Observed, Production, Report, Scrape, SetAside};
use semel_operate::check::{Standing, Subject};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::output::{Answer, Block, TextStyle};

/// The answers that serve all pipelines.
pub(super) struct Look {
    /// The store to count in; nothing if there is nothing to count.
    store: Option<Result<AnyStore>>,
    scrape: Scrape,
}

impl Look {
    /// Opens the store to look at it, if it is there, and asks the worker for its metrics.
    pub(super) async fn begin(
        settings: &Settings,
        inspected: &Result<Inspection>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let is_store = inspected
            .as_ref()
            .is_ok_and(|it| it.is_there && it.unfit.is_none());
        let store = if is_store && settings.store != StoreUrl::Memory {
            let opened = store::open_for_reading(&settings.store, clock).await;
            Some(opened.map(|it| it.store))
        } else {
            None
        };
        let scrape = match settings.admin.listen {
            Some(address) => scrape(address).await,
            None => Scrape::Off,
        };
        Self { store, scrape }
    }

    /// Goes through the list of a pipeline.
    pub(super) async fn list<'a>(
        &self,
        subject: &Subject<'a>,
        report: &Report<'_>,
    ) -> Production<'a> {
        let scope = &subject.pipeline.pipeline.scope;
        let counted = match &self.store {
            Some(Ok(store)) => Some(count(store, scope).await),
            Some(Err(error)) => Some(Err(error.clone())),
            None => None,
        };
        let observed = Observed {
            set_aside: counted.as_ref().map(Result::as_ref),
            scrape: &self.scrape,
        };
        Production::of(subject, report, &observed)
    }
}

async fn count(store: &AnyStore, scope: &Scope) -> Result<SetAside, Error> {
    SetAside::of(store, scope).await
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

impl Answer for Production<'_> {
    fn describe(&self, block: &mut Block) {
        let counts = [
            (self.failed, if self.failed == 1 { "fails" } else { "fail" }),
            (self.unknown, "unknown"),
            (
                self.passed,
                if self.passed == 1 { "passes" } else { "pass" },
            ),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        block.heading(&format!("{}: {}", self.pipeline, counts.join(", ")));
        for Line {
            line,
            verdict,
            why,
            advice,
            ..
        } in &self.lines
        {
            let style = match verdict {
                Standing::Pass => TextStyle::Good,
                Standing::Unknown => TextStyle::Attention,
                Standing::Fail => TextStyle::Bad,
            };
            block.item(style, verdict.as_str(), line, why, advice.as_deref());
        }
    }
}

/// The longest time for an answer of the worker, and the longest answer.
const PATIENCE: Duration = Duration::from_secs(2);
const MOST_BYTES: u64 = 16 << 20;

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
