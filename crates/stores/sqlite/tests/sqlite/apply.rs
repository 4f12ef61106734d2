//! Statements of users, and the ways in which they fail.

use rusqlite::Connection;
use semel_core::port::transactional::{Applied, TransactionalStore, Value};
use semel_core::{Admission, Certainty, Code, ErrorKind, StateKind, Store};
use semel_store_sqlite::SqliteStore;

use crate::lab::{Lab, message, number, operation, statements, text};

const INSERT: &str = "INSERT INTO payments (id, amount) VALUES (:id, :amount)";
const PARAMS: &[&str] = &["id", "amount"];

fn lab(tables: &str) -> (Lab, SqliteStore, Connection) {
    let lab = Lab::new();
    let store = lab.store();
    let connection = lab.connection();
    connection.execute_batch(tables).expect("tables");
    (lab, store, connection)
}

fn ids(connection: &Connection, table: &str) -> Vec<String> {
    let mut select = connection
        .prepare(&format!("SELECT id FROM {table} ORDER BY rowid"))
        .expect("a query");
    let rows = select.query_map([], |row| row.get(0)).expect("rows");
    rows.collect::<Result<_, _>>().expect("ids")
}

/// Shows each message as one letter: completed, dead, released or not granted.
fn fates(applied: &[Applied]) -> String {
    let fate = |applied: &Applied| match applied {
        Applied::Completed { .. } => 'c',
        Applied::Failed {
            state: StateKind::Dead,
            ..
        } => 'd',
        Applied::Failed { .. } => 'r',
        Applied::NotGranted(_) => 'n',
    };
    applied.iter().map(fate).collect()
}

#[tokio::test]
async fn a_failing_statement_is_undone_while_its_neighbours_commit() {
    let (lab, store, connection) = lab(
        "CREATE TABLE payments (id TEXT PRIMARY KEY, amount INTEGER CHECK (amount > 0));
         CREATE TABLE journal (id TEXT)",
    );
    let both = statements(&["INSERT INTO journal VALUES (:id)", INSERT], PARAMS);
    let batch = [
        message("a", 1, vec![text("a"), number(1)]),
        message("b", 2, vec![text("b"), number(-1)]),
        message("c", 3, vec![text("a"), number(1)]),
        message("d", 4, vec![text("d"), number(4)]),
    ];
    for expected in ["cddc", "nnnn"] {
        let applied = store
            .apply(&both, batch.clone().into())
            .await
            .expect("answers");
        assert_eq!(fates(&applied), expected);
        assert_eq!(ids(&connection, "payments"), ["a", "d"]);
        assert_eq!(
            ids(&connection, "journal"),
            ["a", "d"],
            "the first statement is undone too"
        );
    }
    let record = store
        .get([operation("b")].into())
        .await
        .expect("answers")
        .remove(0)
        .expect("a record");
    assert_eq!(record.state.kind(), StateKind::Dead);
    assert!(
        record
            .last_error
            .is_some_and(|words| words.contains("CHECK"))
    );
    assert!(lab.is_sound());
}

#[tokio::test]
async fn a_key_repeated_in_a_batch_is_decided_as_if_asked_in_a_row() {
    let (_lab, store, connection) = lab("CREATE TABLE payments (id TEXT, amount INTEGER)");
    let insert = statements(&[INSERT], PARAMS);
    let batch = [
        message("a", 1, vec![text("first"), number(1)]),
        message("a", 2, vec![text("second"), number(1)]),
        message("b", 3, vec![text("third"), number(1)]),
    ];
    let applied = store.apply(&insert, batch.into()).await.expect("answers");
    assert!(matches!(
        &applied[..],
        [
            Applied::Completed { takeover: false },
            Applied::NotGranted(Admission::Replay { .. }),
            Applied::Completed { .. }
        ]
    ));
    assert_eq!(ids(&connection, "payments"), ["first", "third"]);
}

#[tokio::test]
async fn a_statement_that_takes_the_transaction_with_it_fails_alone() {
    let (_lab, store, connection) =
        lab("CREATE TABLE payments (id TEXT PRIMARY KEY ON CONFLICT ROLLBACK, amount INTEGER)");
    let insert = statements(&[INSERT], PARAMS);
    let ids_of = ["a", "a", "b", "b", "c"].iter().enumerate();
    let batch: Vec<_> = ids_of
        .map(|(n, id)| message(&format!("key-{n}"), n as u128, vec![text(id), number(1)]))
        .collect();
    let applied = store.apply(&insert, batch.into()).await.expect("answers");
    assert_eq!(fates(&applied), "cdcdc");
    assert_eq!(ids(&connection, "payments"), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_statement_that_fails_half_way_leaves_nothing() {
    let (_lab, store, connection) = lab("CREATE TABLE payments (id TEXT PRIMARY KEY, amount)");
    let two = statements(
        &[
            "INSERT OR FAIL INTO payments SELECT :id || n, :amount FROM \
           (SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 1)",
        ],
        PARAMS,
    );
    let applied = store
        .apply(&two, [message("a", 1, vec![text("a"), number(1)])].into())
        .await;
    assert_eq!(fates(&applied.expect("answers")), "d");
    assert!(ids(&connection, "payments").is_empty());
}

#[tokio::test]
async fn what_shows_only_at_the_commit_fails_alone() {
    let (_lab, store, connection) = lab(
        "CREATE TABLE accounts (id TEXT PRIMARY KEY); INSERT INTO accounts VALUES ('a'), ('c');
         CREATE TABLE payments (
             id TEXT REFERENCES accounts DEFERRABLE INITIALLY DEFERRED, amount INTEGER)",
    );
    let insert = statements(&[INSERT], PARAMS);
    let batch: Vec<_> = ["a", "b", "c", "d"]
        .iter()
        .enumerate()
        .map(|(n, id)| message(id, n as u128, vec![text(id), number(1)]))
        .collect();
    let applied = store.apply(&insert, batch.into()).await.expect("answers");
    assert_eq!(fates(&applied), "cdcd");
    assert_eq!(ids(&connection, "payments"), ["a", "c"]);
}

#[tokio::test]
async fn a_table_that_has_gone_kills_no_message() {
    let (_lab, store, connection) = lab("CREATE TABLE payments (id TEXT, amount INTEGER)");
    let insert = statements(&[INSERT], PARAMS);
    let first = [message("a", 1, vec![text("a"), number(1)])];
    let second = [message("b", 2, vec![text("b"), number(1)])];
    assert_eq!(
        fates(&store.apply(&insert, first.into()).await.expect("answers")),
        "c"
    );
    connection
        .execute_batch("DROP TABLE payments")
        .expect("no table");
    let error = store
        .apply(&insert, second.into())
        .await
        .expect_err("no table");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::InvalidConfig, Certainty::NotApplied)
    );
    assert!(
        error.to_string().contains("no such table: payments"),
        "{error}"
    );
    assert_eq!(
        store.get([operation("b")].into()).await.expect("answers"),
        [None]
    );
}

#[tokio::test]
async fn a_value_that_breaks_a_function_is_dead_and_a_full_disk_is_not() {
    let (_lab, store, connection) = lab("CREATE TABLE payments (id TEXT, amount INTEGER)");
    let json = statements(
        &["INSERT INTO payments VALUES (:id, json(:amount))"],
        PARAMS,
    );
    let batch = [
        message("a", 1, vec![text("a"), text("{")]),
        message("b", 2, vec![text("b"), Value::Json("{}".into())]),
    ];
    let applied = store.apply(&json, batch.into()).await.expect("answers");
    assert_eq!(fates(&applied), "dc");
    assert_eq!(ids(&connection, "payments"), ["b"]);
}

#[tokio::test]
async fn values_keep_what_they_say() {
    let (_lab, store, connection) = lab("CREATE TABLE seen (kind TEXT, value TEXT)");
    let insert = statements(
        &["INSERT INTO seen SELECT typeof(:v), CAST(:v AS TEXT)"],
        &["v"],
    );
    let values = [
        Value::Null,
        Value::Boolean(true),
        Value::Number("9223372036854775807".into()),
        Value::Number("9223372036854775808".into()),
        Value::Number("0.5".into()),
        Value::Text("0.5".into()),
        Value::Bytes("raw".into()),
        Value::Json("[1]".into()),
    ];
    let batch: Vec<_> = values
        .into_iter()
        .enumerate()
        .map(|(n, value)| message(&format!("k{n}"), n as u128, vec![value]))
        .collect();
    assert_eq!(
        fates(&store.apply(&insert, batch.into()).await.expect("answers")),
        "cccccccc"
    );
    let seen = "SELECT group_concat(kind || ':' || ifnull(value, ''), ' ') FROM seen";
    let seen: String = connection
        .query_row(seen, [], |row| row.get(0))
        .expect("values");
    assert_eq!(
        seen,
        "null: integer:1 integer:9223372036854775807 text:9223372036854775808 real:0.5 text:0.5 \
         blob:raw text:[1]"
    );
}

#[tokio::test]
async fn mistakes_in_statements_are_found_before_work_begins() {
    let (_lab, store, _connection) = lab("CREATE TABLE payments (id TEXT, amount INTEGER)");
    for (sql, params, words) in [
        (
            &["INSERT INTO paymints VALUES (:id)"][..],
            &["id"][..],
            "no such table: paymints",
        ),
        (
            &["INSERT INTO payments VALUES (:id, :amount)"],
            &["id"],
            "params has no amount",
        ),
        (
            &["INSERT INTO payments VALUES (:id, 1)"],
            &["id", "amout"],
            "placeholder :amout",
        ),
        (&["INSERT INTO payments VALUES (?, 1)"], &[], "write :name"),
        (
            &["INSERT INTO payments VALUES (@id, 1)"],
            &["id"],
            "write :name",
        ),
        (
            &["INSERT INTO payments VALUES (:id, 1); DELETE FROM payments"],
            &["id"],
            "`statements = [...]`",
        ),
        (&["SELEC :id"], &["id"], "syntax error"),
        (&["-- nothing"], &[], "empty"),
        (&[], &[], "no statement"),
        (&["/* so */ COMMIT"], &[], "transaction"),
    ] {
        let error = store
            .prepare(&statements(sql, params))
            .await
            .expect_err("a mistake");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{sql:?}");
        assert!(error.to_string().contains(words), "{sql:?}: {error}");
    }
    let good = statements(&["INSERT INTO payments VALUES (:id, 1);"], &["id"]);
    store.prepare(&good).await.expect("a good statement");
}
