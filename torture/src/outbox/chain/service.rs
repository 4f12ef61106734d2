//! The order service, a process of its own: an order and the message about it are in one transaction of PostgreSQL.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_postgres::{Client, Error, NoTls};

use super::super::client::Dialect;
use super::super::orders::{ACCOUNTS, End, Transaction};
use super::super::relay::PATIENCE;
use crate::moments::now;
use crate::worker::{Run, Site};
use crate::{Moments, Postgres, scaled};

/// Writes orders into the database at a URL until it is killed, on several connections at once, which it opens again
/// when they break. `arguments` are the URL, the number of the first writer, which no other service may have, and a
/// seed.
///
/// # Panics
///
/// If an argument is missing, or a statement fails although the connection is there.
pub fn serve_orders(arguments: &[String]) {
    let [url, first, seed] = arguments else {
        panic!("order-service URL FIRST SEED");
    };
    let first: usize = first.parse().expect("a number");
    let seed: u64 = seed.parse().expect("a seed");
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut writers = JoinSet::new();
        for writer in first..first + WRITERS {
            let url = url.clone();
            let moments = Moments::seeded(seed).apart(writer as u64);
            writers.spawn(async move { write(&url, writer, moments).await });
        }
        let ended = writers.join_next().await.expect("a writer");
        ended.expect("a writer that goes on");
    });
}

async fn write(url: &str, writer: usize, mut moments: Moments) {
    let mut number = 0;
    loop {
        if let Ok((client, connection)) = tokio_postgres::connect(url, NoTls).await {
            let writing = pin!(write_over(&client, writer, &mut number, &mut moments));
            select(pin!(connection), writing).await;
        }
        // A server that is gone is not asked all the time.
        sleep(MS(50)).await;
    }
}

/// Writes transactions until the connection has to be opened anew.
async fn write_over(client: &Client, writer: usize, number: &mut u64, moments: &mut Moments) {
    loop {
        let mut transaction = Transaction::next(writer, *number, moments);
        for order in &mut transaction.orders {
            // A consumer that keeps the order of each account has no use for an order without one.
            if order.account.is_empty() {
                order.account = format!("k{}", moments.below(ACCOUNTS));
            }
        }
        // Nobody writes it once more: it may have been committed.
        *number += 1;
        if let Err(failure) = transact(client, &transaction).await {
            let is_ours = failure
                .code()
                .is_some_and(|it| !it.code().starts_with("57"));
            assert!(!is_ours, "{failure:?}");
            return;
        }
        if transaction.end == End::Death {
            return;
        }
        let most = scaled(MS(120), MS(4));
        sleep(moments.between(MS(0), most)).await;
    }
}

/// Carries a transaction out statement by statement, so that a kill falls between any two.
async fn transact(client: &Client, transaction: &Transaction) -> Result<(), Error> {
    client.batch_execute("begin").await?;
    let messages = Dialect::Postgres.messages(transaction);
    client.batch_execute(&messages).await?;
    if transaction.is_late {
        sleep(MS(200)).await;
    }
    let orders = Dialect::orders(transaction);
    client.batch_execute(&orders).await?;
    match transaction.end {
        End::Commit => client.batch_execute("commit").await,
        End::Rollback => client.batch_execute("rollback").await,
        // The connection is closed in the middle of it.
        End::Death => Ok(()),
    }
}

/// An order service in a folder of its own.
pub(super) struct Service {
    pub(super) site: Site,
    program: PathBuf,
    seed: u64,
    /// The number of its first writer, which rises with every start.
    first: usize,
    running: Option<Run>,
}

impl Service {
    /// One that is to be started.
    pub(super) fn of(program: &Path, number: usize, seed: u64) -> Self {
        Self {
            site: Site::with(&[]),
            program: program.to_owned(),
            seed,
            first: number * FAR,
            running: None,
        }
    }

    pub(super) fn start(&mut self, shop: &Postgres) {
        self.first += WRITERS;
        let url = format!("{}?application_name=order-service", shop.url());
        let arguments = [&url, &self.first.to_string(), &self.seed.to_string()];
        let run = self
            .site
            .start_program(&self.program, &arguments.map(|it| &**it));
        self.running = Some(run);
    }

    /// Waits until it has committed an order since its start.
    pub(super) fn wait_until_at_work(&self, shop: &Postgres) {
        let writers = self.first..self.first + WRITERS;
        let labels: Vec<_> = writers.map(|it| format!("label like 'w{it}-%'")).collect();
        let orders = format!(
            "select 1 from public.sales where {} limit 1",
            labels.join(" or ")
        );
        let began = now();
        while shop.query(&orders).is_empty() {
            let words = || self.site.last_words();
            assert!(began.elapsed() < PATIENCE, "no order:\n{}", words());
            std::thread::sleep(MS(20));
        }
    }

    pub(super) fn kill(&mut self, moment: Duration) {
        let run = self.running.take().expect("it runs");
        let still_ran = run.kill_after(moment);
        assert!(still_ran, "it ended by itself:\n{}", self.site.last_words());
    }
}

/// The number of connections of a service.
const WRITERS: usize = 2;
/// The distance between the writers of two services.
const FAR: usize = 1_000_000;
const MS: fn(u64) -> Duration = Duration::from_millis;
