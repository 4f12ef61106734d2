//! The MySQL store on one connection, beside the solutions that people use today on the same server: a
//! SELECT and an INSERT per message, and a transaction per message with its effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::port::transactional::{
    Application, Applied, Statements, TransactionalStore, Value,
};
use semel_core::{Admission, Backoff, ClaimId, ClaimRequest, Key, Scope, Store, Window};
use semel_store_mysql::mysql_async::prelude::Queryable;
use semel_store_mysql::mysql_async::{Conn, Opts, OptsBuilder};
use semel_store_mysql::{MysqlStore, Options};
use tokio::runtime::Runtime;

use crate::figures::{Figures, timed};

type Failure = Box<dyn std::error::Error>;

/// Claims, and claims with effects.
pub(crate) fn rate() -> crate::Outcome {
    let server = std::env::var("SEMEL_TEST_MYSQL_URL")
        .map_err(|_| "SEMEL_TEST_MYSQL_URL names no server; `cargo xtask services up mariadb`")?;
    let runtime = Runtime::new()?;
    let mut site = runtime.block_on(Site::new(&server))?;
    let sides = [Side::Claims, Side::Naive, Side::Applied, Side::Transactions];
    let mut rates = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        for (at, side) in sides.into_iter().enumerate() {
            rates[at].push(site.run(&runtime, side)?);
        }
    }
    let [claims, naive, applied, transactions] = &rates;
    println!("MariaDB, one connection, random keys, {BATCH} a call, {ROUNDS} rounds");
    println!("| side | messages/s | ratio, round by round |");
    println!("|---|---|---|");
    let row = |name: &str, figures: &[f64], ratio: String| {
        println!("| {name} | {} | {ratio} |", Figures::of(figures.to_vec()));
    };
    row("claims", claims, String::new());
    row("SELECT, then INSERT, per message", naive, {
        format!("claims over it: {}", Figures::ratios(claims, naive))
    });
    row("claim and effect in one transaction", applied, {
        format!("of claims: {}", Figures::ratios(applied, claims))
    });
    row(
        "a transaction per message: INSERT IGNORE, effect",
        transactions,
        {
            let ratios = Figures::ratios(applied, transactions);
            format!("one transaction over it: {ratios}")
        },
    );
    runtime.block_on(site.drop())
}

#[derive(Clone, Copy)]
enum Side {
    Claims,
    Naive,
    Applied,
    Transactions,
}

struct Site {
    store: Arc<MysqlStore>,
    connection: Conn,
    next: AtomicU64,
}

impl Site {
    async fn new(server: &str) -> Result<Self, Failure> {
        let (place, _) = server.rsplit_once('/').ok_or("a url with a database")?;
        let opts = |database: Option<&str>| {
            let opts = Opts::from_url(server)?;
            let opts = OptsBuilder::from_opts(opts).prefer_socket(false);
            Ok::<_, Failure>(opts.db_name(database))
        };
        let anywhere = opts(None)?;
        let inside = opts(Some("semel_bench"))?;
        let mut connection = Conn::new(anywhere).await?;
        connection.query_drop(DROP).await?;
        connection.query_drop("CREATE DATABASE semel_bench").await?;
        connection.disconnect().await?;
        let url = format!("{place}/semel_bench?connections=1&ssl-mode=disabled");
        let store = Arc::new(MysqlStore::connect(&url, Options::default()).await?);
        let mut connection = Conn::new(inside).await?;
        for (table, columns) in [
            (
                "naive",
                "id VARCHAR(64) PRIMARY KEY, at DATETIME(3) NOT NULL",
            ),
            (
                "claims",
                "id VARCHAR(64) PRIMARY KEY, at DATETIME(3) NOT NULL",
            ),
            (
                "effects",
                "account VARCHAR(64) NOT NULL, amount BIGINT NOT NULL",
            ),
            (
                "theirs",
                "account VARCHAR(64) NOT NULL, amount BIGINT NOT NULL",
            ),
        ] {
            let make = format!("CREATE TABLE {table} ({columns}) ENGINE=InnoDB");
            connection.query_drop(make).await?;
        }
        let site = Self {
            store,
            connection,
            next: AtomicU64::new(0),
        };
        // The table has a realistic size before the first measurement.
        site.claims(PRELOADED).await?;
        Ok(site)
    }

    /// Messages per second.
    fn run(&mut self, runtime: &Runtime, side: Side) -> Result<f64, Failure> {
        let count = match side {
            Side::Naive | Side::Transactions => FEW,
            Side::Claims | Side::Applied => MESSAGES,
        };
        let (taken, done) = timed(|| runtime.block_on(self.work(side, count)));
        done?;
        #[expect(clippy::cast_precision_loss, reason = "a rate needs no 53 bits")]
        Ok(count as f64 / taken.as_secs_f64())
    }

    async fn work(&mut self, side: Side, count: u64) -> Result<(), Failure> {
        match side {
            Side::Claims => self.claims(count).await,
            Side::Naive => self.naive(count).await,
            Side::Applied => self.applied(count).await,
            Side::Transactions => self.transactions(count).await,
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

    async fn naive(&mut self, count: u64) -> Result<(), Failure> {
        let look = "SELECT 1 FROM naive WHERE id = ?";
        let look = self.connection.prep(look).await?;
        let add = "INSERT INTO naive (id, at) VALUES (?, NOW(3))";
        let add = self.connection.prep(add).await?;
        for _ in 0..count {
            let key = self.key();
            let found: Option<u8> = self.connection.exec_first(&look, (&key,)).await?;
            if found.is_none() {
                self.connection.exec_drop(&add, (&key,)).await?;
            }
        }
        Ok(())
    }

    async fn applied(&self, count: u64) -> Result<(), Failure> {
        let statements = Statements {
            sql: ["INSERT INTO effects (account, amount) VALUES (:account, :amount)".into()].into(),
            params: ["account".into(), "amount".into()].into(),
        };
        for _ in 0..count / BATCH {
            let application = |claim: ClaimRequest| Application {
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
            };
            let batch = self.requests()?.into_iter().map(application);
            let applied = self.store.apply(&statements, batch.collect()).await?;
            let is_done = |it: &Applied| matches!(it, Applied::Completed { .. });
            if !applied.iter().all(is_done) {
                return Err("a fresh key was not applied".into());
            }
        }
        Ok(())
    }

    async fn transactions(&mut self, count: u64) -> Result<(), Failure> {
        let claim = "INSERT IGNORE INTO claims (id, at) VALUES (?, NOW(3))";
        let claim = self.connection.prep(claim).await?;
        let effect = "INSERT INTO theirs (account, amount) VALUES (?, ?)";
        let effect = self.connection.prep(effect).await?;
        for _ in 0..count {
            let key = self.key();
            self.connection.query_drop("START TRANSACTION").await?;
            self.connection.exec_drop(&claim, (&key,)).await?;
            if self.connection.affected_rows() == 1 {
                let values = (&key, 4_200_i64);
                self.connection.exec_drop(&effect, values).await?;
            }
            self.connection.query_drop("COMMIT").await?;
        }
        Ok(())
    }

    fn requests(&self) -> Result<Vec<ClaimRequest>, Failure> {
        let scope = Scope::new("", "payments")?;
        let request = |_| {
            let key = self.key();
            let number = self.next.load(Ordering::Relaxed);
            let claim = ClaimId::from_u128(u128::from(number) | 1 << 100);
            Ok(ClaimRequest::new(scope.clone(), Key::new(&key)?, claim))
        };
        (0..BATCH).map(request).collect()
    }

    /// A new key, in random order.
    fn key(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        format!("pay-{:016x}", mixed ^ (mixed >> 31))
    }

    async fn drop(mut self) -> crate::Outcome {
        self.connection.query_drop(DROP).await?;
        self.connection.disconnect().await?;
        Ok(())
    }
}

const DROP: &str = "DROP DATABASE IF EXISTS semel_bench";
/// Messages a call.
const BATCH: u64 = 1_000;
/// Messages of a slice.
const MESSAGES: u64 = 40_000;
/// Messages of a slice that handles them one by one.
const FEW: u64 = 3_000;
/// Records that exist before the first measurement.
const PRELOADED: u64 = 200_000;
const ROUNDS: usize = 5;
