//! The Redis store on one connection, beside the solutions that people use today on the same server: a GET and a
//! SETEX per message, through the client that the store uses, and through one that blocks, which has less to do
//! between two calls. Each way of keeping the log has a server of its own.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::Connection;
use redis::aio::MultiplexedConnection;
use semel_core::{
    Admission, ClaimId, ClaimRequest, Key, Outcome, Scope, Settled, Settlement, StateKind, Step,
    Store, Window,
};
use semel_store_redis::{Options, RedisStore};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::figures::{Figures, timed};

type Failure = Box<dyn std::error::Error>;

/// Claims, and claims with their completions, in batches of a hundred and of a thousand.
pub(crate) fn rate() -> crate::Outcome {
    let runtime = Runtime::new()?;
    for (appendfsync, by_hand) in [("everysec", 20_000), ("always", 2_000)] {
        let mut site = runtime.block_on(Site::new(appendfsync))?;
        let mut rates = [const { Vec::new() }; SIDES.len()];
        for _ in 0..ROUNDS {
            for (rates, (_, side)) in rates.iter_mut().zip(SIDES) {
                rates.push(site.run(&runtime, side, by_hand)?);
            }
        }
        println!(
            "Redis, one connection, random keys, appendonly yes, appendfsync {appendfsync}, {ROUNDS} rounds, load {}",
            load()
        );
        println!("| side | messages/s | over GET and SETEX, round by round |");
        println!("|---|---|---|");
        let theirs = rates[0].clone();
        for ((name, side), rates) in SIDES.into_iter().zip(rates) {
            let ratio = match side {
                Side::ByHand => String::new(),
                Side::Blocking | Side::Claims(_) | Side::Completions(_) => {
                    Figures::ratios(&rates, &theirs).to_string()
                }
            };
            println!("| {name} | {} | {ratio} |", Figures::of(rates));
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Side {
    ByHand,
    /// The same through a client that blocks.
    Blocking,
    /// This many claims a call.
    Claims(u64),
    /// The same, each batch completed by a second call.
    Completions(u64),
}

struct Site {
    store: RedisStore,
    client: MultiplexedConnection,
    blocking: Connection,
    next: u64,
    _server: Server,
}

impl Site {
    async fn new(appendfsync: &str) -> Result<Self, Failure> {
        let server = Server::start(appendfsync)?;
        let blocking = server.client().await?;
        let client = redis::Client::open(server.url())?;
        let client = client.get_multiplexed_async_connection().await?;
        let url = format!("{}?connections=1", server.url());
        let store = RedisStore::connect(&url, Options::default()).await?;
        let mut site = Self {
            store,
            client,
            blocking,
            next: 0,
            _server: server,
        };
        site.batches(PRELOADED, 1_000, true).await?;
        Ok(site)
    }

    /// Messages per second.
    fn run(&mut self, runtime: &Runtime, side: Side, by_hand: u64) -> Result<f64, Failure> {
        let (count, (taken, done)) = match side {
            Side::ByHand => (by_hand, timed(|| runtime.block_on(self.by_hand(by_hand)))),
            Side::Blocking => (by_hand, timed(|| self.blocking(by_hand))),
            Side::Claims(batch) => (
                MESSAGES,
                timed(|| runtime.block_on(self.batches(MESSAGES, batch, false))),
            ),
            Side::Completions(batch) => (
                MESSAGES,
                timed(|| runtime.block_on(self.batches(MESSAGES, batch, true))),
            ),
        };
        done?;
        #[expect(clippy::cast_precision_loss, reason = "a rate needs no 53 bits")]
        Ok(count as f64 / taken.as_secs_f64())
    }

    async fn by_hand(&mut self, count: u64) -> Result<(), Failure> {
        for _ in 0..count {
            let key = self.key();
            let mut get = redis::cmd("GET");
            let found: Option<String> = get.arg(&key).query_async(&mut self.client).await?;
            if found.is_none() {
                let mut set = redis::cmd("SETEX");
                set.arg(&key).arg(WINDOW.as_secs()).arg("done");
                set.exec_async(&mut self.client).await?;
            }
        }
        Ok(())
    }

    fn blocking(&mut self, count: u64) -> Result<(), Failure> {
        for _ in 0..count {
            let key = self.key();
            let found: Option<String> = redis::cmd("GET").arg(&key).query(&mut self.blocking)?;
            if found.is_none() {
                let mut set = redis::cmd("SETEX");
                set.arg(&key).arg(WINDOW.as_secs()).arg("done");
                set.exec(&mut self.blocking)?;
            }
        }
        Ok(())
    }

    async fn batches(&mut self, count: u64, batch: u64, completes: bool) -> Result<(), Failure> {
        for _ in 0..count / batch {
            let requests = self.requests(batch)?;
            let granted = self.store.claim(requests.as_slice().into()).await?;
            if !granted.iter().all(|it| matches!(it, Admission::Granted(_))) {
                return Err("a fresh key was not granted".into());
            }
            if !completes {
                continue;
            }
            let completion = |request: ClaimRequest| Settlement {
                operation: request.operation,
                claim_id: request.claim_id,
                step: Step::Complete {
                    outcome: Outcome::empty(),
                    window: Window::new(WINDOW),
                },
            };
            let completions = requests.into_iter().map(completion);
            let settled = self.store.settle(completions.collect()).await?;
            let is_done = |it: &Settled| matches!(it, Settled::Now(StateKind::Completed));
            if !settled.iter().all(is_done) {
                return Err("a claim was not completed".into());
            }
        }
        Ok(())
    }

    fn requests(&mut self, count: u64) -> Result<Vec<ClaimRequest>, Failure> {
        let scope = Scope::new("", "payments")?;
        (0..count)
            .map(|_| {
                let key = Key::new(&self.key())?;
                let claim = ClaimId::from_u128(u128::from(self.next) | 1 << 100);
                Ok(ClaimRequest::new(scope.clone(), key, claim))
            })
            .collect()
    }

    /// A new key, in random order.
    fn key(&mut self) -> String {
        self.next += 1;
        let mut mixed = self.next.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        format!("pay-{:016x}", mixed ^ (mixed >> 31))
    }
}

/// A server of this benchmark alone; killed when it is dropped.
pub(crate) struct Server {
    port: u16,
    process: Child,
    _folder: TempDir,
}

impl Server {
    /// Starts a server that keeps its log in the current folder, and does not rewrite it meanwhile.
    pub(crate) fn start(appendfsync: &str) -> Result<Self, Failure> {
        let folder = tempfile::tempdir_in(Path::new("."))?;
        let port = free_port::take()?;
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--appendonly", "yes", "--appendfsync", appendfsync])
            .args(["--auto-aof-rewrite-percentage", "0", "--save", "", "--dir"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("redis-server: {error}"))?;
        Ok(Self {
            port,
            process,
            _folder: folder,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A client with nothing between it and the socket, once the server is up.
    async fn client(&self) -> Result<Connection, Failure> {
        let client = redis::Client::open(self.url())?;
        for _ in 0..500 {
            if let Ok(connection) = client.get_connection() {
                return Ok(connection);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(client.get_connection()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The other load of the machine, in processes of the last minute.
fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}

const SIDES: [(&str, Side); 6] = [
    ("GET and SETEX per message", Side::ByHand),
    ("the same through a blocking client", Side::Blocking),
    ("claims, 100 a call", Side::Claims(100)),
    ("claims, 1,000 a call", Side::Claims(1_000)),
    ("claims and completions, 100 a call", Side::Completions(100)),
    (
        "claims and completions, 1,000 a call",
        Side::Completions(1_000),
    ),
];
/// The time for which both sides remember a message.
const WINDOW: Duration = Duration::from_secs(600);
/// Messages of a slice in batches.
const MESSAGES: u64 = 50_000;
/// Records that exist before the first measurement.
const PRELOADED: u64 = 200_000;
const ROUNDS: usize = 5;
