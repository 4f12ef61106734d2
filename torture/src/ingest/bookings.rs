//! The store of the workers, and the books that their effects write.

use std::net::SocketAddr;
use std::thread::sleep;

use super::{MS, ORDERED, STREAMS, path};
use crate::moments::now;
use crate::outbox::{Database, Order, Origin, booking, in_order, rows};
use crate::worker::{RUN_WITH_DECISIONS, Site};
use crate::workers::{PATIENCE, Workers};

/// The store of the workers.
pub(super) struct Home {
    pub(super) name: &'static str,
    /// The database, which has the books as well; the embedded store if there is none.
    pub(super) server: Option<Database>,
}

impl Home {
    /// Starts it. Needs a tokio runtime.
    pub(super) fn start(over: Option<Origin>) -> Self {
        Self {
            name: over.map_or("embedded", Origin::name),
            server: over.map(Database::start),
        }
    }

    /// Starts the workers: two if they can share it.
    pub(super) fn workers(&self) -> Workers {
        let count = if self.server.is_some() { 2 } else { 1 };
        Workers::start_with(RUN_WITH_DECISIONS, count, |address| {
            Site::with(&[("semel.toml", &self.config(*address))])
        })
    }

    fn config(&self, address: SocketAddr) -> String {
        let server = self.server.as_ref();
        let url = server.map_or_else(|| EMBEDDED.to_owned(), Database::proxied_url);
        let pipelines = STREAMS.map(|stream| {
            let effect = match server {
                Some(_) => rows("received"),
                None => format!("kind = \"file\"\npath = \"{}\"\n", file(stream)),
            };
            let source = format!(
                "kind = \"ingest\"\nlisten = \"{address}\"\npath = \"{}\"\nhosts = [\"api.example\"]\nrequire = true\n",
                path(stream)
            );
            let pipeline = booking(stream, "header:semel-id", &effect, &source);
            let pipeline = pipeline.replacen("lease = \"2s\"", "lease = \"1s\"", 1);
            if stream == ORDERED {
                in_order(&pipeline)
            } else {
                pipeline
            }
        });
        format!("[store]\nurl = \"{url}\"\n{}", pipelines.concat())
    }

    /// The number of connections to the database that were cut.
    pub(super) fn cuts(&self) -> u64 {
        let cuts = self.server.as_ref().and_then(|it| it.cuts.as_ref());
        cuts.map_or(0, |cuts| cuts.seen().cuts)
    }

    /// Waits until the effects of all that was taken have run, as long as there is less and less of it.
    pub(super) fn has_nothing_left(&self, workers: &Workers) {
        let site = &workers.sites[0];
        let (mut least, mut began) = (u64::MAX, now());
        loop {
            let left = self.left(site);
            if left == 0 {
                return;
            }
            if left < least {
                (least, began) = (left, now());
            }
            let words = || site.last_words();
            assert!(began.elapsed() < PATIENCE, "{left} wait:\n{}", words());
            sleep(MS(100));
        }
    }

    /// The number of messages that were taken, and whose effects are not on record.
    fn left(&self, site: &Site) -> u64 {
        let url = self.server.as_ref();
        let url = url.map_or_else(|| EMBEDDED.to_owned(), Database::url);
        let list = ["producers", "list", "--store", &url, "--output", "jsonl"];
        let (status, listed) = site.start(&list).wait();
        assert!(status.success(), "{status}: {}", site.last_words());
        let waiting = |line| {
            let producer: serde_json::Value =
                serde_json::from_str(line).expect("a producer a line");
            producer["waiting"].as_u64().expect("a number of messages")
        };
        listed.lines().map(waiting).sum()
    }

    /// Everything that is booked, each stream in order.
    pub(super) fn booked(&self, workers: &Workers) -> Vec<Order> {
        let Some(server) = &self.server else {
            let files = STREAMS.map(|stream| workers.sites[0].text(&file(stream)));
            let lines = files.iter().flat_map(|it| it.lines());
            let order = |line| Order::of_message(line).expect("an order a line");
            return lines.map(order).collect();
        };
        let booked = server.rows("select label, account, amount from received order by came");
        booked.iter().map(|row| Order::of_row(row).0).collect()
    }
}

fn file(stream: &str) -> String {
    format!("{stream}.ndjson")
}

/// The store of a worker that is alone, in its folder.
const EMBEDDED: &str = "embedded:data";
