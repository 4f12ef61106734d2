//! The PostgreSQL store on one connection, beside the solutions that people use today on the same
//! server: a SELECT and an INSERT per message, a transaction per message with its effect, and COPY
//! into the same table.

use std::sync::Arc;
use std::time::Duration;

use semel_core::port::transactional::{Application, Statements, TransactionalStore, Value};
use semel_core::{
    Admission, Backoff, ClaimId, ClaimRequest, Clock as _, Key, Outcome, Scope, Settlement, Step,
    Store, Window,
};
use semel_engine::system::SystemClock;
use semel_store_postgres::{Options, PostgresStore};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

use crate::figures::{Figures, timed};

type Failure = Box<dyn std::error::Error>;

/// Claims, claims with effects, and claims while others expire.
pub(crate) fn rate() -> crate::Outcome {
    let server = std::env::var("SEMEL_TEST_POSTGRES_URL").map_err(
        |_| "SEMEL_TEST_POSTGRES_URL names no server; `cargo xtask services up postgres`",
    )?;
    let runtime = Runtime::new()?;
    let site = runtime.block_on(Site::new(&server))?;
    let sides = [
        Side::Claims,
        Side::Naive,
        Side::Copy,
        Side::Applied,
        Side::Transactions,
        Side::Expiring,
    ];
    let mut rates = [const { Vec::new() }; 6];
    for _ in 0..ROUNDS {
        for (at, side) in sides.into_iter().enumerate() {
            rates[at].push(runtime.block_on(site.run(side))?);
        }
    }
    let [claims, naive, copy, applied, transactions, expiring] = &rates;
    println!("PostgreSQL, one connection, random keys, {BATCH} a call, {ROUNDS} rounds");
    println!("| side | messages/s | ratio, round by round |");
    println!("|---|---|---|");
    let row = |name: &str, figures: &[f64], ratio: String| {
        println!("| {name} | {} | {ratio} |", Figures::of(figures.to_vec()));
    };
    row("claims", claims, String::new());
    let over =
        |ours: &[f64], theirs: &[f64]| format!("claims over it: {}", Figures::ratios(ours, theirs));
    row(
        "SELECT, then INSERT, per message",
        naive,
        over(claims, naive),
    );
    row(
        "COPY into the same table, equal commits",
        copy,
        over(claims, copy),
    );
    row("claim and effect in one transaction", applied, {
        format!("of claims: {}", Figures::ratios(applied, claims))
    });
    row(
        "a transaction per message: INSERT ON CONFLICT, effect",
        transactions,
        {
            format!(
                "one transaction over it: {}",
                Figures::ratios(applied, transactions)
            )
        },
    );
    row("claims while as many records expire", expiring, {
        format!("of claims: {}", Figures::ratios(expiring, claims))
    });
    runtime.block_on(site.drop())
}

#[derive(Clone, Copy)]
enum Side {
    Claims,
    Naive,
    Copy,
    Applied,
    Transactions,
    Expiring,
}

struct Site {
    store: Arc<PostgresStore>,
    /// A store with expired records, which a sweep of its own removes.
    sweeper: Arc<PostgresStore>,
    client: Client,
    next: std::sync::atomic::AtomicU64,
}

impl Site {
    async fn new(server: &str) -> Result<Self, Failure> {
        let (client, connection) = tokio_postgres::connect(server, NoTls).await?;
        tokio::spawn(connection);
        client
            .batch_execute(
                "DROP SCHEMA IF EXISTS semel_bench CASCADE; \
                 DROP TABLE IF EXISTS bench_naive, bench_effects, bench_claims, bench_theirs",
            )
            .await?;
        let url = format!("{server}?schema=semel_bench&connections=1&sslmode=disable");
        let store = Arc::new(PostgresStore::connect(&url, Options::default()).await?);
        let sweeper = Arc::new(PostgresStore::connect(&url, Options::default()).await?);
        client
            .batch_execute(
                "CREATE TABLE bench_naive (key text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now()); \
                 CREATE TABLE bench_claims (key text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now()); \
                 CREATE TABLE bench_effects (account text NOT NULL, amount bigint NOT NULL); \
                 CREATE TABLE bench_theirs (account text NOT NULL, amount bigint NOT NULL)",
            )
            .await?;
        let site = Self {
            store,
            sweeper,
            client,
            next: std::sync::atomic::AtomicU64::new(0),
        };
        // The tables have a realistic size before the first measurement.
        for _ in 0..PRELOADED / MESSAGES {
            site.claims(MESSAGES).await?;
            site.copy(MESSAGES).await?;
        }
        Ok(site)
    }

    /// Messages per second.
    async fn run(&self, side: Side) -> Result<f64, Failure> {
        let count = match side {
            Side::Naive | Side::Transactions => FEW,
            Side::Claims | Side::Copy | Side::Applied | Side::Expiring => MESSAGES,
        };
        self.client.batch_execute("CHECKPOINT").await?;
        if matches!(side, Side::Expiring) {
            self.age().await?;
        }
        let (taken, done) = tokio::task::block_in_place(|| {
            timed(|| tokio::runtime::Handle::current().block_on(self.work(side, count)))
        });
        done?;
        #[expect(clippy::cast_precision_loss, reason = "a rate needs no 53 bits")]
        Ok(count as f64 / taken.as_secs_f64())
    }

    async fn work(&self, side: Side, count: u64) -> Result<(), Failure> {
        match side {
            Side::Claims => self.claims(count).await,
            Side::Naive => self.naive(count).await,
            Side::Copy => self.copy(count).await,
            Side::Applied => self.applied(count).await,
            Side::Transactions => self.transactions(count).await,
            Side::Expiring => {
                let sweeper = Arc::clone(&self.sweeper);
                let sweeping = tokio::spawn(async move {
                    while sweeper.sweep(SWEPT).await?.more {}
                    Ok::<_, semel_core::Error>(())
                });
                self.claims(count).await?;
                sweeping.abort();
                Ok(())
            }
        }
    }

    async fn claims(&self, count: u64) -> Result<(), Failure> {
        for _ in 0..count / BATCH {
            let batch = self.requests()?;
            let granted = self.store.claim(batch.into()).await?;
            if !granted.iter().all(|it| matches!(it, Admission::Granted(_))) {
                return Err("a fresh key was not granted".into());
            }
        }
        Ok(())
    }

    async fn naive(&self, count: u64) -> Result<(), Failure> {
        let look = self
            .client
            .prepare("SELECT 1 FROM bench_naive WHERE key = $1")
            .await?;
        let add = self
            .client
            .prepare("INSERT INTO bench_naive (key) VALUES ($1)")
            .await?;
        for _ in 0..count {
            let key = self.key();
            if self.client.query(&look, &[&key]).await?.is_empty() {
                self.client.execute(&add, &[&key]).await?;
            }
        }
        Ok(())
    }

    async fn copy(&self, count: u64) -> Result<(), Failure> {
        use futures_util::SinkExt as _;
        // The claims' own table, so that its indexes are equally large and worn for both.
        let text = "COPY semel_bench.records (at, token, created_at, scope, attempts, state, id, claim, key, revision) FROM STDIN";
        let clock = SystemClock::new();
        for batch in 0..count / BATCH {
            let now = clock.now().as_millis();
            let mut rows = String::with_capacity(200 * 1_000);
            for request in self.requests()? {
                use std::fmt::Write as _;
                let (id, claim) = (request.operation.id(), request.claim_id);
                let key = request.operation.key.as_str();
                writeln!(
                    rows,
                    "{now}\t{batch}\t{now}\t1\t1\t0\t\\\\x{id}\t\\\\x{claim}\t{key}\t{}",
                    batch << 20
                )?;
            }
            let sink = self.client.copy_in(text).await?;
            let mut sink = std::pin::pin!(sink);
            sink.send(bytes::Bytes::from(rows)).await?;
            sink.finish().await?;
        }
        Ok(())
    }

    async fn applied(&self, count: u64) -> Result<(), Failure> {
        let statements = Statements {
            sql: ["INSERT INTO bench_effects (account, amount) VALUES (:account, :amount)".into()]
                .into(),
            params: ["account".into(), "amount".into()].into(),
        };
        for _ in 0..count / BATCH {
            let batch = self
                .requests()?
                .into_iter()
                .map(|claim| Application {
                    values: [
                        Value::Text(claim.operation.key.as_str().into()),
                        Value::Number("4200".into()),
                    ]
                    .into(),
                    claim,
                    window: Window::DEFAULT,
                    backoff: Backoff {
                        first: Duration::ZERO,
                        most: Duration::ZERO,
                    },
                    gives_back: false,
                })
                .collect();
            let _ = self.store.apply(&statements, batch).await?;
        }
        Ok(())
    }

    async fn transactions(&self, count: u64) -> Result<(), Failure> {
        let claim = "INSERT INTO bench_claims (key) VALUES ($1) ON CONFLICT DO NOTHING";
        let claim = self.client.prepare(claim).await?;
        let effect = "INSERT INTO bench_theirs (account, amount) VALUES ($1, $2)";
        let effect = self.client.prepare(effect).await?;
        for _ in 0..count {
            let key = self.key();
            self.client.batch_execute("BEGIN").await?;
            if self.client.execute(&claim, &[&key]).await? == 1 {
                self.client.execute(&effect, &[&key, &4_200_i64]).await?;
            }
            self.client.batch_execute("COMMIT").await?;
        }
        Ok(())
    }

    /// As many finished records as there are messages to come, all past their window.
    async fn age(&self) -> Result<(), Failure> {
        for _ in 0..MESSAGES / BATCH {
            let batch = self.requests()?;
            let _ = self.store.claim(batch.as_slice().into()).await?;
            let done = batch
                .into_iter()
                .map(|request| Settlement {
                    operation: request.operation,
                    claim_id: request.claim_id,
                    step: Step::Complete {
                        outcome: Outcome::empty(),
                        window: Window::new(Duration::from_millis(1)),
                    },
                })
                .collect();
            let _ = self.store.settle(done).await?;
        }
        Ok(())
    }

    fn requests(&self) -> Result<Vec<ClaimRequest>, Failure> {
        let scope = Scope::new("", "payments")?;
        (0..BATCH)
            .map(|_| {
                let key = self.key();
                let number = self.next.load(std::sync::atomic::Ordering::Relaxed);
                let claim = ClaimId::from_u128(u128::from(number) | 1 << 100);
                Ok(ClaimRequest::new(scope.clone(), Key::new(&key)?, claim))
            })
            .collect()
    }

    /// A new key, in random order.
    fn key(&self) -> String {
        let number = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        format!("pay-{:016x}", mixed ^ (mixed >> 31))
    }

    async fn drop(&self) -> crate::Outcome {
        self.client
            .batch_execute(
                "DROP SCHEMA semel_bench CASCADE; \
                 DROP TABLE bench_naive, bench_effects, bench_claims, bench_theirs",
            )
            .await?;
        Ok(())
    }
}

/// Messages a call.
const BATCH: u64 = 1_000;
/// Messages of a slice.
const MESSAGES: u64 = 100_000;
/// Messages of a slice that handles them one by one.
const FEW: u64 = 5_000;
/// Records that exist before the first measurement.
const PRELOADED: u64 = 1_000_000;
/// Records of a sweep's call.
const SWEPT: usize = 5_000;
const ROUNDS: usize = 5;
