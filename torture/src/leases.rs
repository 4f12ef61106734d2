//! Workers that share one store, stopped beyond their leases and continued, and killed: others take their work over,
//! and their late reports are refused.
//!
//! The effects are calls to the outside, for which the store holds a lease while they are under way, and the oracle
//! is outside of the store: the books of a provider, or the log of a child.

use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;

use crate::moments::now;
use crate::payments::number;
use crate::shop::{apart, notices_wrong};
use crate::storm::Told;
use crate::worker::{RUN_WITH_DECISIONS, Run, Site};
use crate::{Moments, Mysql, Payments, Postgres, Provider, Redis, RedisCluster, scaled, tell};

/// A server that remembers operations, and the configuration with which a worker uses it.
pub trait Server {
    /// Its name for people.
    fn name(&self) -> &'static str;

    /// The table `[store]` of a configuration.
    fn store(&self) -> String;

    /// Kills it, and starts it again on the data it has kept.
    fn kill(&mut self);
}

/// The effect of a payment under a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// A request to a provider that honours keys: the worker that takes it over sends it again, and it counts once.
    Keyed,
    /// A line to a child that knows nothing of keys: the worker that takes it over leaves it in doubt.
    Unkeyed,
}

/// Has three workers carry out payments over one store while two of them at a time stand still beyond their leases,
/// some are killed, and the server is; and checks that each payment had its effect once, or is in doubt where nobody
/// can know, and that work was taken over and late completions were refused.
///
/// # Panics
///
/// If it is not so.
#[expect(clippy::print_stdout, reason = "the figures of a run")]
pub fn held_once(server: &mut dyn Server, under: Under, seed: u64) {
    let mut trial = Trial::of(server, under, seed);
    let name = format!("file, {}, {}", server.name(), under.name());
    trial.befall(server);
    trial.end_in_peace();
    let doubts = trial.judged();
    let Trial {
        told,
        killed,
        stopped,
        restarts,
        payments,
        ..
    } = &trial;
    println!(
        "{name}: {} payments, {killed} workers killed at work, {stopped} stopped beyond their leases, {restarts} restarts \
         of a killed server, {} takeovers, {} fenced completions, {doubts} in doubt, listed",
        payments.distinct.len(),
        told.takeovers,
        told.fenced,
    );
    let is_enough = match under {
        Under::Keyed => under.has_enough(*told),
        // A worker that takes over an effect that must not begin again leaves it in doubt.
        Under::Unkeyed => doubts >= taken_over() as u64,
    };
    assert!(is_enough, "{name}: too little was taken over or fenced");
    let mut figures = vec![
        ("operations", payments.distinct.len() as u64),
        ("workers killed", *killed),
        ("workers stopped", *stopped),
        ("stores killed", *restarts),
    ];
    match under {
        Under::Keyed => figures.extend([
            ("takeovers", told.takeovers as u64),
            ("fenced", told.fenced as u64),
        ]),
        Under::Unkeyed => figures.push(("doubts", doubts)),
    }
    tell(&name, &figures);
}

/// One run of it.
struct Trial {
    under: Under,
    moments: Moments,
    payments: Payments,
    provider: Provider,
    site: Site,
    told: Told,
    killed: u64,
    stopped: u64,
    restarts: u64,
}

impl Trial {
    fn of(server: &dyn Server, under: Under, seed: u64) -> Self {
        let mut moments = Moments::seeded(seed);
        let payments = Payments::generate(scaled(20_000, 200_000), &mut moments);
        let provider = Provider::slow(CALL);
        let site = Site::with(&[
            ("payments.ndjson", &payments.ndjson),
            ("semel.toml", &config(server, under, &provider)),
            ("child.py", &CHILD.replace("A_WHILE", NOTICE)),
        ]);
        Self {
            under,
            moments,
            payments,
            provider,
            site,
            told: Told::default(),
            killed: 0,
            stopped: 0,
            restarts: 0,
        }
    }

    /// Deals all faults, round after round until enough was taken over and fenced, but not for ever.
    fn befall(&mut self, server: &mut dyn Server) {
        let mut workers: Vec<Run> = (0..WORKERS)
            .map(|_| self.site.start(RUN_WITH_DECISIONS))
            .collect();
        for round in 0..LONGEST * rounds() {
            self.told.listen(&self.site);
            if round >= rounds() && self.under.has_enough(self.told) {
                break;
            }
            self.wait_for_work();
            // The third goes on, and finds that their leases have run out.
            let still = round % WORKERS;
            let others = (0..WORKERS).filter(|number| *number != still);
            for number in others.clone() {
                workers[number].signal(Signal::STOP);
                self.stopped += 1;
            }
            if round % 4 == 2 {
                server.kill();
                self.restarts += 1;
            }
            sleep(LEASE + self.moments.between(MS(300), MS(700)));
            for number in others {
                workers[number].signal(Signal::CONT);
            }
            sleep(self.moments.between(MS(100), MS(400)));
            if round % 2 == 1 {
                let number = self.moments.below(WORKERS as u64);
                let number = usize::try_from(number).expect("few");
                let next = self.site.start(RUN_WITH_DECISIONS);
                let run = std::mem::replace(&mut workers[number], next);
                if !run.kill_after(Duration::ZERO) {
                    // All payments are carried out.
                    break;
                }
                self.killed += 1;
            }
        }
        for worker in workers {
            self.killed += u64::from(worker.kill_after(Duration::ZERO));
        }
    }

    /// Waits until something was carried out: a worker that is stopped before that has nothing in hand. Not for ever,
    /// since everything may be carried out.
    fn wait_for_work(&self) {
        let (begun, said) = (now(), self.site.said());
        while begun.elapsed() < MS(10_000) {
            let news = self.site.said_behind(said);
            if news.contains("\"decision\":\"completed\"") {
                return;
            }
            sleep(MS(20));
        }
    }

    /// Ends without pauses the work that was begun, and drops everything that no worker has begun.
    fn end_in_peace(&mut self) {
        let said = self.site.text("stderr.log");
        let keys = said.split("\"key\":\"").skip(1);
        let begun = keys.filter_map(|key| number(key.split('"').next()?));
        self.payments.end_behind(begun.max().unwrap_or_default());
        let input = self.site.path("payments.ndjson");
        std::fs::write(input, &self.payments.ndjson).expect("a file is written");
        self.provider.hurry();
        let child = CHILD.replace("A_WHILE", "0");
        std::fs::write(self.site.path("child.py"), child).expect("a file is written");
        let (status, stdout) = self.site.start(RUN_WITH_DECISIONS).wait();
        assert!(status.success(), "{status}: {}", self.site.last_words());
        let summary = crate::Summary::parse(&stdout);
        summary.check_sum(self.payments.deliveries);
        assert_eq!(summary.count("dead"), 0, "{stdout}");
        self.told.listen(&self.site);
    }

    /// Compares the effects with the payments; returns how many are in doubt.
    fn judged(&self) -> u64 {
        let doubts = in_doubt(&self.site);
        let wrong = match self.under {
            Under::Keyed => {
                let none = apart(&doubts, &[""; 0].into(), "in doubt, and has a key");
                [self.provider.wrong(&self.payments), none].concat()
            }
            Under::Unkeyed => {
                notices_wrong(&self.payments, &self.site.text("notices.log"), &doubts)
            }
        };
        let stories = wrong.iter().take(3);
        let stories = stories.map(|(id, what)| format!("{id}: {what}\n{}", self.site.told_of(id)));
        let stories = stories.collect::<Vec<_>>().join("\n");
        assert!(wrong.is_empty(), "{} are wrong:\n{stories}", wrong.len());
        doubts.len() as u64
    }
}

/// The keys that the store lists in doubt.
fn in_doubt(site: &Site) -> std::collections::BTreeSet<String> {
    let list = ["keys", "list", "--state", "in-doubt", "--output", "jsonl"];
    let (status, listed) = site.start(&list).wait();
    assert!(status.success(), "{status}: {}", site.last_words());
    let key = |line| -> String {
        let record: serde_json::Value = serde_json::from_str(line).expect("a record per line");
        record["key"].as_str().expect("a key").to_owned()
    };
    listed.lines().map(key).collect()
}

fn config(server: &dyn Server, under: Under, provider: &Provider) -> String {
    let effect = match under {
        Under::Keyed => KEYED.replace("URL", &provider.url()),
        Under::Unkeyed => UNKEYED.to_owned(),
    };
    [&server.store(), PIPELINE, &effect].concat()
}

impl Under {
    fn name(self) -> &'static str {
        match self {
            Self::Keyed => "keyed calls",
            Self::Unkeyed => "unkeyed calls",
        }
    }

    /// Returns whether enough was taken over, and enough late reports were refused.
    fn has_enough(self, told: Told) -> bool {
        let fenced = scaled(5, 100);
        self == Self::Unkeyed || (told.takeovers >= taken_over() && told.fenced >= fenced)
    }
}

/// The least number of operations that a killed or stopped worker had in hand and another one took over.
fn taken_over() -> usize {
    scaled(20, 1_000)
}

impl Server for Postgres {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn store(&self) -> String {
        format!("[store]\nurl = \"{}?sslmode=disable\"\n", self.url())
    }

    fn kill(&mut self) {
        self.kill_and_restart();
    }
}

impl Server for Mysql {
    fn name(&self) -> &'static str {
        "MariaDB"
    }

    fn store(&self) -> String {
        let address = self.address();
        format!("[store]\nurl = \"mysql://root@{address}/semel?ssl-mode=disabled\"\n")
    }

    fn kill(&mut self) {
        self.kill_and_restart();
    }
}

impl Server for Redis {
    fn name(&self) -> &'static str {
        "Redis"
    }

    fn store(&self) -> String {
        format!("[store]\nurl = \"redis://{}\"\n{ACCEPT}", self.address())
    }

    fn kill(&mut self) {
        self.kill_and_restart();
    }
}

impl Server for RedisCluster {
    fn name(&self) -> &'static str {
        "Redis cluster"
    }

    fn store(&self) -> String {
        let addresses = self.addresses();
        let addresses = addresses.iter().map(ToString::to_string);
        let addresses = addresses.collect::<Vec<_>>().join(",");
        format!("[store]\nurl = \"redis+cluster://{addresses}\"\n{ACCEPT}")
    }

    fn kill(&mut self) {
        self.kill_and_restart();
    }
}

fn rounds() -> usize {
    scaled(4, 30)
}

const MS: fn(u64) -> Duration = Duration::from_millis;
const WORKERS: usize = 3;
/// The most rounds until enough has happened, as a multiple of the intended number.
const LONGEST: usize = 5;
const LEASE: Duration = Duration::from_millis(500);
/// The time that the provider takes for a request, so that a worker always has work in hand.
const CALL: Duration = Duration::from_millis(300);
/// The time that the child takes for a line, in seconds.
const NOTICE: &str = "0.003";

/// Accepts that Redis may forget, which changes nothing if it does not.
const ACCEPT: &str = "accept = [\"durability\"]\n";

/// All workers read the same, so that each finds keys that another one holds and waits for them, or goes on with
/// those behind them: each has only so much in hand that all hold something.
const PIPELINE: &str = r#"
[pipelines.payments]
source = { kind = "file", path = "payments.ndjson" }
key = "json:/id"
transport = "json:/event"
fingerprint = ["json:/amount"]
lease = "500ms"
batch = 64
concurrency = 256
retry = { attempts = 50, backoff = "5ms..20ms", crashes = 1000 }

[pipelines.payments.effect]
"#;

const KEYED: &str = r#"kind = "http"
url = "URL"
class = "keyed"
provider_window = "24h"
"#;

const UNKEYED: &str = r#"kind = "exec"
protocol = "jsonl"
command = ["python3", "-S", "child.py"]
class = "unkeyed"
on_doubt = "park"
"#;

/// The child appends each key to its log, one write: the effect.
const CHILD: &str = r#"
import json, os, sys, time

log = os.open("notices.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for line in sys.stdin:
    request = json.loads(line)
    os.write(log, (request["key"] + "\n").encode())
    time.sleep(A_WHILE)
    print(json.dumps({"id": request["id"], "status": "done"}), flush=True)
"#;
