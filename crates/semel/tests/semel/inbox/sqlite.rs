//! In an SQLite file, through `rusqlite`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel::rusqlite::{Connection, Transaction, TransactionBehavior};
use semel::sqlite::SqliteInbox;
use semel::trace::{End, SampleShare, Spans, TraceHeaders};
use semel::{
    ClaimId, ClaimRequest, Event, Failure, Happened, Key, Observer, OnceError, Receipt, Scope,
    Semel,
};
use tempfile::TempDir;

struct Shop {
    connection: Connection,
    inbox: SqliteInbox,
    folder: TempDir,
}

impl Shop {
    fn open() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let connection = Connection::open(folder.path().join("app.db")).expect("a file");
        let inbox = SqliteInbox::open(&connection).expect("tables");
        let stock = "CREATE TABLE stock (count INTEGER); INSERT INTO stock VALUES (10)";
        connection.execute_batch(stock).expect("a table");
        Self {
            connection,
            inbox,
            folder,
        }
    }

    fn begin(&mut self) -> (Transaction<'_>, &SqliteInbox) {
        let tx = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate);
        (tx.expect("a transaction"), &self.inbox)
    }

    fn count(&self) -> i64 {
        let count = "SELECT count FROM stock";
        let count = self.connection.query_row(count, [], |row| row.get(0));
        count.expect("a count")
    }
}

fn take(tx: &Connection) -> Result<i64, Failure> {
    let sql = "UPDATE stock SET count = count - 1 RETURNING count";
    Ok(tx.query_row(sql, [], |row| row.get(0))?)
}

fn never(_: &Connection) -> Result<i64, Failure> {
    panic!("this effect must not run")
}

fn request(key: &str, claim: u128) -> ClaimRequest {
    let scope = Scope::new("", "take").expect("a scope");
    let key = Key::parse(key).expect("a key");
    ClaimRequest::new(scope, key, ClaimId::from_u128(claim))
}

#[test]
fn a_duplicate_gets_the_value_of_the_first_time() {
    let mut shop = Shop::open();
    for time in 0..3 {
        let (tx, inbox) = shop.begin();
        let receipt = inbox.once(&tx, "take", "order-1", take).expect("a value");
        assert_eq!((*receipt.value(), receipt.is_replay()), (9, time > 0));
        tx.commit().expect("a commit");
    }
    assert_eq!(shop.count(), 9);
}

#[test]
fn it_never_commits_and_a_rollback_takes_back_both() {
    let mut shop = Shop::open();
    for _ in 0..2 {
        let (tx, inbox) = shop.begin();
        let receipt = inbox.once(&tx, "take", "order-1", take).expect("a value");
        assert_eq!(receipt.attempt(), Some(1));
        tx.rollback().expect("a rollback");
        assert_eq!(shop.count(), 10);
    }
}

#[test]
fn a_failure_leaves_nothing_in_a_transaction_that_is_committed_all_the_same() {
    let mut shop = Shop::open();
    let (tx, inbox) = shop.begin();
    let first = inbox.once(&tx, "take", "order-1", take);
    assert!(first.is_ok());
    let failed: Result<Receipt<i64>, _> = inbox.once(&tx, "take", "order-2", |tx| {
        take(tx)?;
        Err(Failure::dead("no such order"))
    });
    let error = failed.expect_err("it failed");
    assert!(
        matches!(&error, OnceError::Failed { attempt: 1, .. }),
        "{error:?}"
    );
    assert_eq!((error.happened(), error.ran()), (Happened::No, true));
    assert_eq!(error.cause().expect("a cause").to_string(), "no such order");
    tx.commit().expect("a commit");
    assert_eq!(shop.count(), 9, "of the other one alone");

    // The operation is neither dead nor claimed: the next call runs it.
    let (tx, inbox) = shop.begin();
    let receipt = inbox.once(&tx, "take", "order-2", take).expect("a value");
    assert_eq!((receipt.attempt(), *receipt.value()), (Some(1), 8));
    tx.commit().expect("a commit");
}

#[test]
fn an_effect_that_ends_the_transaction_has_no_receipt() {
    let mut shop = Shop::open();
    let (tx, inbox) = shop.begin();
    let ended = inbox.once(&tx, "take", "order-1", |tx| {
        tx.execute_batch("ROLLBACK")?;
        Ok(1_i64)
    });
    let error = ended.expect_err("there is no transaction");
    assert!(matches!(&error, OnceError::Failed { .. }), "{error:?}");
    drop(tx);
    assert_eq!(shop.count(), 10);
}

#[test]
fn outside_of_a_transaction_nothing_runs() {
    let shop = Shop::open();
    let refused = shop.inbox.once(&shop.connection, "take", "order-1", never);
    let error = refused.expect_err("no transaction");
    assert_eq!(error.code(), "invalid-input");
    let mut shop = shop;
    let (tx, inbox) = shop.begin();
    assert!(inbox.once(&tx, "take", "order-1", take).is_ok());
}

#[tokio::test]
async fn a_request_says_more_than_a_key() {
    let mut shop = Shop::open();
    let semel = Semel::open("memory:").await.expect("memory");
    let operation = semel.operation("take").window(Duration::from_secs(3_600));
    let asked = |item: &str| {
        let operation = operation.clone().request(item);
        operation.claim_request("order-1").expect("a request")
    };
    let (tx, inbox) = shop.begin();
    assert!(inbox.once_of(&tx, &asked("book"), take).is_ok());
    let conflict = inbox.once_of(&tx, &asked("lamp"), never);
    let error = conflict.expect_err("another request");
    assert_eq!(error.code(), "fingerprint-conflict");
    let replay = inbox.once_of(&tx, &asked("book"), never).expect("a value");
    assert!(replay.is_replay());
    tx.commit().expect("a commit");
}

#[test]
fn what_others_have_is_told_and_not_run() {
    let mut shop = Shop::open();
    let (tx, inbox) = shop.begin();
    let claim = inbox.admit(&tx, &request("held", 1)).expect("an answer");
    assert!(matches!(claim, semel::Admission::Granted(_)));
    let busy = inbox.once(&tx, "take", "held", never);
    let error = busy.expect_err("somebody is at it");
    assert!(matches!(&error, OnceError::Busy { retry_after, .. } if *retry_after > Duration::ZERO));

    let text = inbox.once(&tx, "take", "text", |_| Ok("nine".to_owned()));
    assert!(text.is_ok());
    let error = inbox
        .once(&tx, "take", "text", never)
        .expect_err("a string");
    assert!(matches!(&error, OnceError::Unreadable { .. }), "{error:?}");
    let error = inbox.once(&tx, "", "a", never).expect_err("no name");
    assert!(matches!(&error, OnceError::Invalid { .. }), "{error:?}");
}

/// The store of the same file and its inbox are one.
#[tokio::test]
async fn the_store_sees_what_was_recorded() {
    let mut shop = Shop::open();
    let (tx, inbox) = shop.begin();
    let receipt = inbox.once(&tx, "take", "order-1", take).expect("a value");
    tx.commit().expect("a commit");
    let file = shop.folder.path().join("app.db");
    let semel = Semel::open(&format!("sqlite:{}", file.display())).await;
    let semel = semel.expect("it opens");
    let again = semel.once("take", "order-1", async |_| Ok(0_i64)).await;
    let again = again.expect("a value");
    assert!(again.is_replay());
    assert_eq!(again.value(), receipt.value());
    semel.close().await;
}

/// The name, the parent, the end and the count of spans of a call.
type Gist = (String, Option<String>, End, usize);

/// Keeps the gist of each call.
#[derive(Default)]
struct Gathered(Mutex<Vec<Gist>>);

impl Observer for Gathered {
    fn observe(&self, _: &str, event: &Event<'_>) {
        panic!("what is not committed is no event: {event:?}");
    }

    fn wants_spans(&self) -> Option<SampleShare> {
        Some(SampleShare::NONE)
    }

    fn observe_spans(&self, name: &str, spans: &Spans<'_>) {
        let parent = spans.parent.map(|it| it.to_string());
        let told = (name.to_owned(), parent, spans.end, spans.count());
        self.0.lock().expect("no panic").push(told);
    }
}

#[test]
fn calls_have_spans_for_an_observer_that_wants_them() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut shop = Shop::open();
    let gathered = Arc::new(Gathered::default());
    shop.inbox = shop.inbox.clone().observer(gathered.clone());
    let (tx, inbox) = shop.begin();
    // A request whose trace is not marked, and none of it: the share decides.
    assert!(inbox.once(&tx, "take", "order-0", take).is_ok());
    let came_with = TraceHeaders {
        parent: PARENT.into(),
        state: None,
    };
    let of_request = inbox.trace(came_with);
    for _ in 0..2 {
        let receipt = of_request.once(&tx, "take", "order-1", take);
        assert_eq!(*receipt.expect("a value").value(), 8);
    }
    let failed = inbox.once(&tx, "take", "order-2", |_| {
        Err::<i64, _>(Failure::dead("no such order"))
    });
    assert!(failed.is_err());
    let panicking = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        inbox.once(&tx, "take", "order-3", never)
    }));
    assert!(panicking.is_err());
    tx.rollback().expect("a rollback");
    let refused = shop.inbox.once(&shop.connection, "take", "order-1", never);
    assert!(refused.is_err(), "there is no transaction");
    let attempt = |parent: Option<&str>, end, count| {
        ("take".to_owned(), parent.map(str::to_owned), end, count)
    };
    let (applied, replayed) = (semel::Fate::Applied, semel::Fate::Replayed);
    let expected = [
        attempt(Some(PARENT), End::Fate(applied), 4),
        attempt(Some(PARENT), End::Fate(replayed), 2),
        attempt(None, End::Released, 3),
        attempt(None, End::GivenBack, 3),
        attempt(None, End::StoreFailed, 1),
    ];
    assert_eq!(*gathered.0.lock().expect("no panic"), expected);
}
