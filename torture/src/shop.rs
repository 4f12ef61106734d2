//! What is done about payments, in a class or two, and the books of whoever does it.

use std::time::Duration;

use crate::broker::Broker;
use crate::{Log, Payments, Postgres, Provider, Redis, Site};

/// Effects of payments, and the store that remembers them.
#[derive(Debug)]
pub struct Shop {
    store: Store,
    provider: Provider,
}

#[derive(Debug)]
enum Store {
    Postgres(Postgres),
    Redis(Redis),
    Embedded,
}

impl Shop {
    /// Rows in PostgreSQL, in the transactions of its store, and calls of a provider that honours keys.
    pub fn in_postgres() -> Self {
        let server = Postgres::start();
        // Without a key of its own: the ledger must not hide a duplicate.
        server.query("create table charges (id text, amount bigint)");
        Self::of(Store::Postgres(server))
    }

    /// Calls alone, and a Redis server that has everything on its disk before it answers.
    pub fn in_redis() -> Self {
        Self::of(Store::Redis(Redis::start(Log::Synced)))
    }

    /// Lines in a file, as of the class *transactional*, and calls; for one worker at a time.
    pub fn embedded() -> Self {
        Self::of(Store::Embedded)
    }

    fn of(store: Store) -> Self {
        Self {
            store,
            // So that something is always under way.
            provider: Provider::slow(Duration::from_millis(30)),
        }
    }

    /// The names of its pipelines, each with a reader of its own.
    pub fn readers(&self) -> &'static [&'static str] {
        match self.store {
            Store::Postgres(_) => &["calls", "charges"],
            Store::Redis(_) => &["calls"],
            Store::Embedded => &["calls", "receipts"],
        }
    }

    /// Where workers are at work on what `broker` has for them.
    pub fn site(&self, broker: &mut dyn Broker) -> Site {
        let mut config = match &self.store {
            Store::Postgres(server) => {
                format!("[store]\nurl = \"{}?sslmode=disable\"\n", server.url())
            }
            Store::Redis(server) => {
                format!("[store]\nurl = \"redis://{}\"\n{ACCEPT}", server.address())
            }
            Store::Embedded => "[store]\nurl = \"embedded:data\"\n".to_owned(),
        };
        for reader in self.readers() {
            let effect = match *reader {
                "calls" => CALLS.replace("URL", &self.provider.url()),
                "charges" => CHARGES.to_owned(),
                _ => RECEIPTS.to_owned(),
            };
            let source = broker.reader(reader);
            let head = format!("\n[pipelines.{reader}]\n{PIPELINE}");
            config += &[
                head,
                effect,
                format!("\n[pipelines.{reader}.source]\n{source}"),
            ]
            .concat();
        }
        Site::with(&[("semel.toml", &config)])
    }

    /// Sees to it that each payment had each of its effects once, and nothing else had any.
    ///
    /// # Panics
    ///
    /// If it is not so, with all that the workers said of some of them.
    pub fn assert_once(&self, payments: &Payments, site: &Site) {
        let mut wrong = self.provider.wrong(payments);
        match &self.store {
            Store::Postgres(server) => {
                let charges = server.query("select id || ' ' || amount from charges");
                wrong.extend(payments.wrong(&charges));
            }
            Store::Redis(_) => {}
            Store::Embedded => wrong.extend(payments.wrong(&receipts(site))),
        }
        let stories = wrong.iter().take(3);
        let stories = stories.map(|(id, what)| format!("{id}: {what}\n{}", site.told_of(id)));
        let stories = stories.collect::<Vec<_>>().join("\n");
        assert!(wrong.is_empty(), "{} are wrong:\n{stories}", wrong.len());
    }
}

/// The lines of the file as charges.
fn receipts(site: &Site) -> Vec<String> {
    let text = site.text("receipts.ndjson");
    let charge = |line| -> String {
        let payment: serde_json::Value = serde_json::from_str(line).expect("no torn line");
        let id = payment["id"].as_str().expect("an id");
        format!("{id} {}", payment["amount"])
    };
    text.lines().map(charge).collect()
}

/// That Redis may forget is accepted, which changes nothing where it does not.
const ACCEPT: &str = "accept = [\"durability\"]\n";

/// Sources keep messages for a day at most, but for Kafka: for a week, and a segment for another.
const PIPELINE: &str = r#"key = "json:/id"
transport = "json:/event"
fingerprint = ["json:/amount"]
window = "30d"
lease = "2s"
retry = { attempts = 50, backoff = "5ms..20ms", crashes = 1000 }
"#;

/// Many at once, so that many are under way whenever a worker ends.
const CALLS: &str = r#"batch = 200
concurrency = 200

[pipelines.calls.effect]
kind = "http"
url = "URL"
class = "keyed"
provider_window = "60d"
"#;

/// A statement takes a while, so that workers have something in hand.
const CHARGES: &str = r#"batch = 50

[pipelines.charges.effect]
kind = "sql"
statement = "insert into charges (id, amount) select :id, :amount from pg_sleep(0.0003)"
"#;

const RECEIPTS: &str = r#"batch = 50

[pipelines.receipts.effect]
kind = "file"
path = "receipts.ndjson"
"#;
