//! The effects of payments, in a class or two, and the books of their providers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use crate::broker::Broker;
use crate::{Log, Payments, Postgres, Provider, Redis, Site, scaled};

/// Effects of payments, and the store that remembers them.
#[derive(Debug)]
pub struct Shop {
    store: Store,
    provider: Provider,
    /// The time that a notice takes, and a charge, in seconds.
    notice: String,
    charge: String,
}

#[derive(Debug)]
enum Store {
    Postgres(Postgres),
    Redis(Redis),
    Embedded,
}

/// The entries of Semel's lists for an operator, each of them for a reason.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// Payments that the provider refused for good: dead letters.
    pub dead: u64,
    /// Notices that may or may not have been sent.
    pub doubts: u64,
}

impl Shop {
    /// Rows in PostgreSQL, in the transactions of its store, and calls of a provider that honours keys.
    pub fn in_postgres() -> Self {
        let server = Postgres::start();
        // Without a key of its own: the ledger must not hide a duplicate.
        server.query("create table charges (id text, amount bigint)");
        Self::of(Store::Postgres(server))
    }

    /// A Redis server that has everything on its disk before it answers, and effects outside of it.
    pub fn in_redis() -> Self {
        Self::of(Store::Redis(Redis::start(Log::Synced)))
    }

    /// Lines in a file, as of the class *transactional*, and the other effects; for one worker at a time.
    pub fn embedded() -> Self {
        Self::of(Store::Embedded)
    }

    fn of(store: Store) -> Self {
        // Slow enough that something is under way all through a storm: in a campaign three workers share the work.
        let (call, notice, charge) = match store {
            Store::Embedded => scaled((30, 1, 0.3), (250, 1, 0.3)),
            Store::Postgres(_) | Store::Redis(_) => scaled((30, 1, 0.3), (900, 3, 2.0)),
        };
        Self {
            store,
            provider: Provider::choosy(Duration::from_millis(call)),
            notice: format!("{:.4}", f64::from(notice) / 1_000.0),
            charge: format!("{:.4}", charge / 1_000.0),
        }
    }

    /// Kills the server of the store, and starts it again. Returns whether there is one.
    pub fn kill_store(&mut self) -> bool {
        match &mut self.store {
            Store::Postgres(server) => server.kill_and_restart(),
            Store::Redis(server) => server.kill_and_restart(),
            Store::Embedded => return false,
        }
        true
    }

    /// The names of its pipelines, each with a reader of its own.
    pub fn readers(&self) -> &'static [&'static str] {
        match self.store {
            Store::Postgres(_) => &["calls", "charges", "notices"],
            Store::Redis(_) => &["calls", "notices"],
            Store::Embedded => &["calls", "notices", "receipts"],
        }
    }

    /// The folder in which workers handle the messages of `broker`.
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
                "charges" => CHARGES.replace("A_WHILE", &self.charge),
                "notices" => NOTICES.to_owned(),
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
        let child = CHILD.replace("A_WHILE", &self.notice);
        Site::with(&[("semel.toml", &config), ("child.py", &child)])
    }

    /// Checks that each payment had each of its effects once, or is listed as a dead letter or a doubt, and that no
    /// other effect or entry exists.
    ///
    /// # Panics
    ///
    /// If not, with all output of the workers about some of them.
    pub fn assert_once(&self, payments: &Payments, site: &Site) -> Listed {
        let mut wrong = self.provider.wrong(payments);
        match &self.store {
            Store::Postgres(server) => {
                let charges = server.query("select id || ' ' || amount from charges");
                wrong.extend(payments.wrong(&charges));
            }
            Store::Redis(_) => {}
            Store::Embedded => wrong.extend(payments.wrong(&receipts(site))),
        }
        let (dead, late) = listed(site, "dead-letters", "calls");
        let refused = payments.refused();
        wrong.extend(apart(&refused, &dead, "no dead letter, and was refused"));
        wrong.extend(apart(&dead, &refused, "a dead letter, and was not refused"));
        let (doubts, _) = listed(site, "in-doubt", "notices");
        let sent = site.text("notices.log");
        wrong.extend(notices_wrong(payments, &sent, &doubts));
        let sent: BTreeSet<&str> = sent.lines().collect();
        wrong.extend(apart(&late, &sent, "said to have been sent after all"));
        let stories = wrong.iter().take(3);
        let stories = stories.map(|(id, what)| format!("{id}: {what}\n{}", site.told_of(id)));
        let stories = stories.collect::<Vec<_>>().join("\n");
        assert!(wrong.is_empty(), "{} are wrong:\n{stories}", wrong.len());
        Listed {
            dead: dead.len() as u64,
            doubts: doubts.len() as u64,
        }
    }
}

/// The keys of one of Semel's lists, all of which belong to `pipeline`, and each once; except for notices that were
/// kept while they were in doubt, and had been sent after all.
fn listed(site: &Site, list: &str, pipeline: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (status, stdout) = site.start(&[list, "list", "--output", "jsonl"]).wait();
    assert!(status.success(), "{status}: {}", site.last_words());
    let (mut keys, mut late) = (BTreeSet::new(), BTreeSet::new());
    for line in stdout.lines() {
        let item: Value = serde_json::from_str(line).expect("an item per line");
        let key = item["key"].as_str().expect("a key").to_owned();
        if item["pipeline"] == "notices" && item["state"] == "completed" {
            late.insert(key);
            continue;
        }
        assert_eq!(item["pipeline"], pipeline, "{line}");
        assert!(keys.insert(key), "listed twice: {line}");
    }
    (keys, late)
}

/// The items of `these` that are not among the others.
pub(crate) fn apart<T: AsRef<str> + Ord, U: AsRef<str> + Ord>(
    these: &BTreeSet<T>,
    others: &BTreeSet<U>,
    what: &str,
) -> Vec<(String, String)> {
    let others: BTreeSet<&str> = others.iter().map(AsRef::as_ref).collect();
    let these = these.iter().map(AsRef::as_ref);
    let apart = these.filter(|id| !others.contains(id));
    apart.map(|id| (id.to_owned(), what.to_owned())).collect()
}

/// The notices that were sent twice, or unasked, or that neither were sent nor are in doubt. A notice in doubt may
/// have been sent once.
pub(crate) fn notices_wrong(
    payments: &Payments,
    sent: &str,
    doubts: &BTreeSet<String>,
) -> Vec<(String, String)> {
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    let asked: BTreeSet<&str> = payments.distinct.iter().map(|it| &*it.id).collect();
    for id in asked.iter().copied() {
        times.insert(id, 0);
    }
    for id in sent.lines() {
        *times.entry(id).or_default() += 1;
    }
    let wrong = times.into_iter().filter_map(|(id, times)| {
        let is_right = asked.contains(id) && (times == 1 || (times == 0 && doubts.contains(id)));
        (!is_right).then(|| (id.to_owned(), format!("sent {times} times")))
    });
    wrong.collect()
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

/// Accepts that Redis may forget, which changes nothing if it does not.
const ACCEPT: &str = "accept = [\"durability\"]\n";

/// Sources keep messages for a day at most, except Kafka: for a week, and a segment for another.
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
# A payment that is refused is refused whenever its key comes, and was never carried out.
decisive = "422"
"#;

/// The receiver knows nothing of keys: a notice that a worker had begun when it ended is in doubt, and stays so.
const NOTICES: &str = r#"batch = 200
concurrency = 64

[pipelines.notices.effect]
kind = "exec"
protocol = "jsonl"
command = ["python3", "-S", "child.py"]
class = "unkeyed"
on_doubt = "park"
"#;

/// The child appends each key to its log, one write: the effect. It takes its time, so that something is under way.
const CHILD: &str = r#"
import json, os, sys, time

log = os.open("notices.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for line in sys.stdin:
    request = json.loads(line)
    os.write(log, (request["key"] + "\n").encode())
    time.sleep(A_WHILE)
    print(json.dumps({"id": request["id"], "status": "done"}), flush=True)
"#;

/// A statement takes a while, so that workers have something in hand.
const CHARGES: &str = r#"batch = 50

[pipelines.charges.effect]
kind = "sql"
statement = "insert into charges (id, amount) select :id, :amount from pg_sleep(A_WHILE)"
"#;

const RECEIPTS: &str = r#"batch = 50

[pipelines.receipts.effect]
kind = "file"
path = "receipts.ndjson"
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Moments;

    #[test]
    fn what_was_sent_twice_or_neither_sent_nor_doubted_is_wrong() {
        let payments = Payments::generate(4, &mut Moments::seeded(1));
        let ids: Vec<&str> = payments.distinct.iter().map(|it| &*it.id).collect();
        // Once; twice; in doubt, and sent all the same; neither; and one that nobody asked for.
        let sent = [ids[0], ids[1], ids[1], ids[2], "pay-x"].join("\n");
        let doubts = BTreeSet::from([ids[2].to_owned()]);
        let wrong = notices_wrong(&payments, &sent, &doubts);
        let wrong: BTreeSet<&str> = wrong.iter().map(|(id, _)| &**id).collect();
        assert_eq!(wrong, [ids[1], ids[3], "pay-x"].into());
        let sent = ids[..3].join("\n");
        let doubts = BTreeSet::from([ids[3].to_owned()]);
        assert_eq!(notices_wrong(&payments, &sent, &doubts), []);
    }

    #[test]
    fn what_one_list_has_and_the_other_lacks_is_told() {
        let of = |ids: &[&'static str]| -> BTreeSet<&str> { ids.iter().copied().collect() };
        let found = apart(&of(&["a", "b"]), &of(&["b", "c"]), "alone");
        assert_eq!(found, [("a".to_owned(), "alone".to_owned())]);
    }
}
