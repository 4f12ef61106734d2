//! Handlers of HTTP that commit their answers with their own work, on every driver, and killed at the worst times.

mod doors;
mod savepoints;

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use semel::Semel;
use semel::http::RequestInbox;
use tower::ServiceExt;

use self::doors::{
    Door, MysqlDriver, PostgresDriver, Rusqlite, SqlxMysql, SqlxPostgres, SqlxSqlite,
};

/// The place at which a handler stops and says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    Nowhere,
    /// Its work is done and not committed.
    Before,
    /// Its work and its answer are committed; nobody has the answer.
    After,
    /// Its work fails after a part of it, and the transaction is dropped.
    Fails,
    /// Its transaction is rolled back after a part of its work.
    RollsBack,
    /// It panics after a part of its work.
    Panics,
    /// A savepoint within its transaction is rolled back; all else is committed.
    UndoesSavepoint,
    /// It commits a savepoint in place of its transaction, and then the transaction.
    CommitsSavepoint,
}

struct Shop {
    semel: Semel,
    app: Router,
    calls: Arc<AtomicUsize>,
}

impl Shop {
    async fn open<D: Door>(door: &D, hold: Hold) -> Self {
        let semel = Semel::open(&door.store_url()).await.expect("a store");
        let keys = semel.http_with_inbox(door.inbox(), |route| {
            route.require_key = true;
            route.lease = Duration::from_millis(500);
            route.wait = Duration::from_secs(300);
        });
        let calls = Arc::new(AtomicUsize::new(0));
        let (count, door) = (Arc::clone(&calls), door.clone());
        let charge = move |Extension(inbox): Extension<RequestInbox<D::Inbox>>| {
            count.fetch_add(1, Ordering::SeqCst);
            let door = door.clone();
            async move {
                let charged = door.charge(&inbox, hold).await;
                if hold == Hold::After && charged.is_ok() {
                    stop_here();
                    std::future::pending::<()>().await;
                }
                charged.map_err(|why| (StatusCode::INTERNAL_SERVER_ERROR, why))
            }
        };
        let keys = keys.expect("settings that hold");
        let app = Router::new().route("/charges", post(charge)).layer(keys);
        Self { semel, app, calls }
    }

    /// Sends the usual request; returns the status, the body, and whether it is a replay.
    async fn charge(&self) -> (u16, String, bool) {
        let request = Request::post("/charges").header("idempotency-key", "pay-1");
        let request = request.body(Body::empty()).expect("a request");
        let answered: Response = self.app.clone().oneshot(request).await.expect("an answer");
        let is_replay = answered.headers().contains_key("idempotency-replayed");
        let (status, body) = (answered.status().as_u16(), answered.into_body());
        let body = to_bytes(body, 1 << 20).await.expect("a body");
        (
            status,
            String::from_utf8_lossy(&body).into_owned(),
            is_replay,
        )
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// Tells the process that is to kill this one that it is time.
fn stop_here() {
    let mut out = std::io::stdout();
    writeln!(out, "{HERE}")
        .and_then(|()| out.flush())
        .expect("somebody reads");
}

/// One answer, one unit of work, and nothing of work that failed.
async fn commits<D: Door>() {
    let place = D::place();
    let door = D::open(&D::url(place.as_ref())).await;
    door.create().await;
    for (hold, statuses) in [
        (Hold::Fails, &[500][..]),
        (Hold::RollsBack, &[500]),
        // A panic of a thread that blocks is an error for who waits for it.
        (Hold::Panics, &[500, 502]),
    ] {
        let failing = Shop::open(&door, hold).await;
        let (status, why, _) = failing.charge().await;
        assert!(statuses.contains(&status), "{hold:?}: {status}: {why}");
        assert_eq!(door.charges().await, 0, "{hold:?}");
        failing.semel.close().await;
    }
    let shop = Shop::open(&door, Hold::Nowhere).await;
    for is_replay in [false, true] {
        let answer = (201, "charged".to_owned(), is_replay);
        assert_eq!(shop.charge().await, answer);
        assert_eq!((shop.calls(), door.charges().await), (1, 1));
    }
    shop.semel.close().await;
}

/// A savepoint belongs to its transaction: what is undone of it stays undone, and it is no end of the whole.
async fn has_a_savepoint<D: Door>(hold: Hold) {
    let place = D::place();
    let door = D::open(&D::url(place.as_ref())).await;
    door.create().await;
    let shop = Shop::open(&door, hold).await;
    for is_replay in [false, true] {
        let answer = (201, "charged".to_owned(), is_replay);
        assert_eq!(shop.charge().await, answer);
        assert_eq!((shop.calls(), door.charges().await), (1, 1), "{hold:?}");
    }
    shop.semel.close().await;
}

/// Kills a process within its handler, and sends the request again.
async fn is_killed<D: Door>(hold: Hold) {
    let place = D::place();
    let url = D::url(place.as_ref());
    let door = D::open(&url).await;
    door.create().await;
    // Makes the tables of the store.
    Shop::open(&door, Hold::Nowhere).await.semel.close().await;
    let mut child = child::<D>(&url, hold);
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut lines = lines.map_while(Result::ok);
    let came = lines.any(|line| line.ends_with(HERE));
    // SIGKILL: nothing of it runs any more.
    child.kill().expect("it is killed");
    child.wait().expect("it is dead");
    assert!(came, "the handler came to {hold:?}");

    let shop = Shop::open(&door, Hold::Nowhere).await;
    let is_committed = hold == Hold::After;
    let answer = (201, "charged".to_owned(), is_committed);
    assert_eq!(shop.charge().await, answer, "{hold:?}");
    assert_eq!(shop.calls(), usize::from(!is_committed), "{hold:?}");
    assert_eq!(door.charges().await, 1, "{hold:?}");
    shop.semel.close().await;
}

fn child<D: Door>(url: &str, hold: Hold) -> Child {
    Command::new(env::current_exe().expect("this program"))
        .args(["--exact", "http_inbox::handler", "--nocapture"])
        .env(DRIVER, D::NAME)
        .env(URL, url)
        .env(
            HOLD,
            if hold == Hold::After {
                "after"
            } else {
                "before"
            },
        )
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts")
}

async fn serve<D: Door>(url: &str, hold: Hold) {
    let shop = Shop::open(&D::open(url).await, hold).await;
    panic!("there was an answer: {:?}", shop.charge().await);
}

/// Runs in the process that is killed; anywhere else it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handler() {
    let (Ok(driver), Ok(url)) = (env::var(DRIVER), env::var(URL)) else {
        return;
    };
    let hold = match env::var(HOLD).as_deref() {
        Ok("after") => Hold::After,
        _ => Hold::Before,
    };
    match driver.as_str() {
        PostgresDriver::NAME => serve::<PostgresDriver>(&url, hold).await,
        SqlxPostgres::NAME => serve::<SqlxPostgres>(&url, hold).await,
        SqlxSqlite::NAME => serve::<SqlxSqlite>(&url, hold).await,
        Rusqlite::NAME => serve::<Rusqlite>(&url, hold).await,
        other => panic!("no driver {other}"),
    }
}

macro_rules! on {
    ($($name:ident: $door:ident)*) => {$(
        mod $name {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn work_and_answer_commit_together_once() {
                commits::<$door>().await;
            }
        }
    )*};
}

on! {
    mysql: MysqlDriver
    postgres: PostgresDriver
    rusqlite: Rusqlite
    sqlx_mysql: SqlxMysql
    sqlx_postgres: SqlxPostgres
    sqlx_sqlite: SqlxSqlite
}

macro_rules! nested {
    ($($name:ident: $door:ident)*) => {$(
        mod $name {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_savepoint_that_is_rolled_back_stays_undone() {
                has_a_savepoint::<$door>(Hold::UndoesSavepoint).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_savepoint_is_not_committed_in_place_of_its_transaction() {
                has_a_savepoint::<$door>(Hold::CommitsSavepoint).await;
            }
        }
    )*};
}

nested! {
    nested_mysql: SqlxMysql
    nested_postgres: SqlxPostgres
    nested_sqlite: SqlxSqlite
}

macro_rules! killed {
    ($($name:ident: $door:ident)*) => {$(
        mod $name {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_crash_between_commit_and_answer_is_answered_from_the_record() {
                is_killed::<$door>(Hold::After).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_crash_before_the_commit_leaves_nothing() {
                is_killed::<$door>(Hold::Before).await;
            }
        }
    )*};
}

killed! {
    killed_postgres: PostgresDriver
    killed_rusqlite: Rusqlite
    killed_sqlx_postgres: SqlxPostgres
    killed_sqlx_sqlite: SqlxSqlite
}

const HERE: &str = "the handler stops here";
const DRIVER: &str = "SEMEL_TEST_DRIVER";
const URL: &str = "SEMEL_TEST_URL";
const HOLD: &str = "SEMEL_TEST_HOLD";
