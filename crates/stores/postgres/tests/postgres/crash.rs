//! A server that is killed under load: its answers are still true once it is up again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use semel_core::port::transactional::{Applied, Statements, TransactionalStore};
use semel_core::{Admission, ErrorKind, FencingToken, Settled, StateKind, Store};
use semel_store_postgres::{Options, PostgresStore};
use tokio::task::JoinSet;

use crate::lab::{completion, connect, message, record, request, statements, take, text};
use crate::server::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_a_killed_server() {
    // So that nothing but the store's own settings makes a commit durable.
    let mut server = Server::start(&["fsync=on", "synchronous_commit=off", "wal_writer_delay=10s"]);
    let user = server.client().await;
    user.batch_execute("CREATE TABLE payments (key text)")
        .await
        .expect("a table");
    let store = Arc::new(connect(&server.url(), Options::default()).await);
    let mut reports = Vec::new();
    let mut highest = FencingToken::new(0);
    for round in 0..ROUNDS {
        let load = Arc::new(Load::new(round));
        let mut workers = JoinSet::new();
        for worker in 0..WORKERS {
            let (store, load) = (Arc::clone(&store), Arc::clone(&load));
            workers.spawn(async move { load.go(&store, worker).await });
        }
        load.until(150).await;
        server.kill();
        load.stop.store(true, Ordering::Relaxed);
        let answers: Vec<Report> = workers.join_all().await.concat();
        assert!(answers.len() >= 60, "{} answers", answers.len());
        server.run();
        // Tokens go on from where they were.
        let after = format!("after-{round}");
        let next = crate::lab::claim(&store, &request(&after, 1)).await.token;
        let seen = answers.iter().filter_map(|it| it.token).max();
        highest = highest.max(seen.expect("a grant"));
        assert!(next > highest, "{next} after {highest}");
        highest = next;
        reports.extend(answers);
    }
    let user = server.client().await;
    for report in &reports {
        let found = record(&store, &report.key).await;
        let found = found.unwrap_or_else(|| panic!("{report:?} is gone"));
        if let Some(token) = report.token {
            assert_eq!(found.token, token, "{report:?}");
        }
        if report.is_complete {
            assert_eq!(found.state.kind(), StateKind::Completed, "{report:?}");
        }
        let select = "SELECT count(*) FROM payments WHERE key = $1";
        let row = user
            .query_one(select, &[&report.key])
            .await
            .expect("a count");
        let expected = i64::from(report.is_effect);
        assert_eq!(row.get::<_, i64>(0), expected, "{report:?}");
    }
    // No effect without its record, although some answers never came.
    let select = "SELECT count(*), count(DISTINCT key) FROM payments";
    let row = user.query_one(select, &[]).await.expect("counts");
    assert_eq!(row.get::<_, i64>(0), row.get::<_, i64>(1), "each once");
    let orphans = "SELECT count(*) FROM payments WHERE NOT EXISTS (SELECT FROM semel.records \
                   WHERE records.key = convert_to(payments.key, 'UTF8') AND state = 3)";
    let row = user.query_one(orphans, &[]).await.expect("a count");
    assert_eq!(row.get::<_, i64>(0), 0, "effects without a record");
}

#[tokio::test]
async fn a_store_goes_on_by_itself_once_its_server_is_up_again() {
    let mut server = Server::start(&[]);
    let store = connect(&server.url(), Options::default()).await;
    take(&store, &request("before", 1)).await;
    server.kill();
    let error = store.claim([request("meanwhile", 1)].into()).await;
    let error = error.expect_err("no server");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    server.run();
    // Connections that are known to be broken are replaced; one that is not is a last error.
    let mut tries = 0;
    while let Err(error) = store.claim([request("after", 1)].into()).await {
        tries += 1;
        assert!(tries < 4, "{error:?}");
    }
}

/// An answer of the server.
#[derive(Clone, Debug)]
struct Report {
    key: String,
    token: Option<FencingToken>,
    is_complete: bool,
    is_effect: bool,
}

struct Load {
    round: usize,
    statements: Statements,
    answers: AtomicU64,
    acknowledged: tokio::sync::Notify,
    stop: AtomicBool,
}

impl Load {
    fn new(round: usize) -> Self {
        Self {
            round,
            statements: statements(&["INSERT INTO payments VALUES (:key)"], &["key"]),
            answers: AtomicU64::new(0),
            acknowledged: tokio::sync::Notify::new(),
            stop: AtomicBool::new(false),
        }
    }

    /// Waits until so many answers have come.
    async fn until(&self, count: u64) {
        while self.answers.load(Ordering::Relaxed) < count {
            self.acknowledged.notified().await;
        }
    }

    /// Claims, completes and applies until `stop` is set or the server is gone.
    async fn go(&self, store: &PostgresStore, worker: usize) -> Vec<Report> {
        let mut reports = Vec::new();
        for number in 0.. {
            if self.stop.load(Ordering::Relaxed)
                || self
                    .one(store, worker, number, &mut reports)
                    .await
                    .is_none()
            {
                break;
            }
        }
        reports
    }

    async fn one(
        &self,
        store: &PostgresStore,
        worker: usize,
        number: usize,
        reports: &mut Vec<Report>,
    ) -> Option<()> {
        let key = format!("{}-{worker}-{number}", self.round);
        let mut answers = store.claim([request(&key, 1)].into()).await.ok()?;
        let Admission::Granted(claim) = answers.remove(0) else {
            panic!("{key} is nobody else's");
        };
        self.answered();
        reports.push(Report {
            key: key.clone(),
            token: Some(claim.token),
            is_complete: false,
            is_effect: false,
        });
        let answers = store
            .settle([completion(&key, 1, b"paid")].into())
            .await
            .ok()?;
        assert!(matches!(answers[..], [Settled::Now(StateKind::Completed)]));
        self.answered();
        reports.last_mut()?.is_complete = true;
        let key = format!("{key}-effect");
        let batch = [message(&key, 1, vec![text(&key)])];
        let answers = store.apply(&self.statements, batch.into()).await.ok()?;
        assert!(matches!(answers[..], [Applied::Completed { .. }]));
        self.answered();
        reports.push(Report {
            key,
            token: None,
            is_complete: true,
            is_effect: true,
        });
        Some(())
    }

    fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.acknowledged.notify_one();
    }
}

const ROUNDS: usize = 5;
const WORKERS: usize = 4;
