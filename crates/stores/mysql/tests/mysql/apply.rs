//! Statements of users, and the ways in which they fail.

use std::sync::Arc;

use mysql_async::prelude::Queryable;
use semel_core::port::transactional::{Applied, TransactionalStore, Value};
use semel_core::{Admission, Certainty, Code, ErrorKind, StateKind, Store};
use semel_store_mysql::MysqlStore;

use crate::lab::{Lab, message, number, record, statements, text};
use crate::proxy::Proxy;

const INSERT: &str = "INSERT INTO payments (id, amount) VALUES (:id, :amount)";
const PARAMS: &[&str] = &["id", "amount"];

async fn lab(tables: &[&str]) -> (Lab, MysqlStore) {
    let lab = Lab::new().await;
    let store = lab.store().await;
    for table in tables {
        lab.database.run(table).await;
    }
    (lab, store)
}

async fn ids(lab: &Lab, table: &str) -> Vec<String> {
    let mut connection = lab.database.connect().await;
    let select = format!("SELECT id FROM {table} ORDER BY id");
    connection.query(select).await.expect("ids")
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

const PAYMENTS: &str = "CREATE TABLE payments (id VARCHAR(40) PRIMARY KEY, \
    amount INT NOT NULL CHECK (amount > 0)) ENGINE=InnoDB";
const JOURNAL: &str = "CREATE TABLE journal (id VARCHAR(40)) ENGINE=InnoDB";

#[tokio::test]
async fn a_failing_statement_is_undone_while_its_neighbours_commit() {
    let (lab, store) = lab(&[PAYMENTS, JOURNAL]).await;
    let both = statements(&["INSERT INTO journal VALUES (:id)", INSERT], PARAMS);
    let batch = [
        message("a", 1, vec![text("a"), number(1)]),
        message("b", 2, vec![text("b"), number(-1)]),
        message("c", 3, vec![text("a"), number(1)]),
        message("d", 4, vec![text("d"), number(4)]),
        message("e", 5, vec![text("e"), text("much")]),
        message("f", 6, vec![text("f"), number(1 << 40)]),
        message("g", 7, vec![text("g"), Value::Null]),
        message("h", 8, vec![text(&"h".repeat(41)), number(1)]),
        message("i", 9, vec![text("i"), number(9)]),
    ];
    for expected in ["cddcddddc", "nnnnnnnnn"] {
        let applied = store
            .apply(&both, batch.clone().into())
            .await
            .expect("answers");
        assert_eq!(fates(&applied), expected, "{applied:?}");
        assert_eq!(ids(&lab, "payments").await, ["a", "d", "i"]);
        assert_eq!(
            ids(&lab, "journal").await,
            ["a", "d", "i"],
            "the first statement is undone too"
        );
    }
    let record = record(&store, "b").await.expect("a record");
    assert_eq!(record.state.kind(), StateKind::Dead);
    assert!(
        record
            .last_error
            .is_some_and(|words| words.contains("CONSTRAINT"))
    );
}

#[tokio::test]
async fn a_key_or_an_entity_repeated_in_a_batch_is_decided_as_if_asked_in_a_row() {
    let (lab, store) = lab(&[PAYMENTS]).await;
    let insert = statements(&[INSERT], PARAMS);
    let gated = |key: &str, version, amount| {
        let mut message = message(key, version, vec![text(key), number(amount)]);
        message.claim.gate = Some(semel_core::VersionGate {
            entity: semel_core::Key::parse("cart").expect("an entity"),
            version: u64::try_from(version).expect("a version"),
        });
        message
    };
    // The first of each fails: the later ones see that, and go on where they may.
    let batch = [
        message("a", 1, vec![text("a"), number(-1)]),
        message("a", 2, vec![text("a"), number(1)]),
        gated("x", 1, -1),
        gated("y", 2, 1),
        gated("z", 2, 1),
    ];
    let applied = store.apply(&insert, batch.into()).await.expect("answers");
    assert_eq!(fates(&applied), "dndcn", "{applied:?}");
    assert!(matches!(
        &applied[1],
        Applied::NotGranted(Admission::Parked { .. })
    ));
    assert!(matches!(
        &applied[4],
        Applied::NotGranted(Admission::Stale { applied: 2 })
    ));
    assert_eq!(ids(&lab, "payments").await, ["y"]);
}

#[tokio::test]
async fn values_become_what_their_columns_hold() {
    let table = "CREATE TABLE seen (id INT PRIMARY KEY, whole BIGINT UNSIGNED, exact DECIMAL(60,20), \
        real_one DOUBLE, name VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci, \
        document JSON, raw BLOB, at DATETIME(3), flag BOOLEAN) ENGINE=InnoDB";
    let (lab, store) = lab(&[table]).await;
    let insert = statements(
        &[
            "INSERT INTO seen VALUES (:id, :whole, :exact, :real, :name, :document, :raw, :at, :flag)",
        ],
        &[
            "id", "whole", "exact", "real", "name", "document", "raw", "at", "flag",
        ],
    );
    let exact = "1234567890123456789012345678901234567890.12345678901234567891";
    let values = vec![
        number(1),
        Value::Number("18446744073709551615".into()),
        Value::Number(exact.into()),
        Value::Number("0.1".into()),
        text("Zoë 💥"),
        Value::Json("{\"a\":[1,\"ü\"]}".into()),
        Value::Bytes((0..=u8::MAX).collect::<Vec<_>>().into()),
        text("2026-11-21 10:00:00.123"),
        Value::Boolean(true),
    ];
    let applied = store
        .apply(&insert, [message("a", 1, values)].into())
        .await
        .expect("answers");
    assert_eq!(fates(&applied), "c", "{applied:?}");
    let mut connection = lab.database.connect().await;
    let select = "SELECT CONCAT_WS('|', whole, exact, real_one, name, JSON_EXTRACT(document, '$.a[1]'), \
        LENGTH(raw), HEX(SUBSTR(raw, 1, 3)), at, flag) FROM seen";
    let seen: Option<String> = connection.query_first(select).await.expect("a row");
    let expected = format!(
        "18446744073709551615|{exact}|0.1|Zoë 💥|\"ü\"|256|000102|2026-11-21 10:00:00.123|1"
    );
    assert_eq!(seen.as_deref(), Some(&*expected));
    // Comparisons follow the column's collation; arithmetic keeps every digit.
    let update = statements(
        &["UPDATE seen SET exact = exact + :by WHERE name = :name"],
        &["by", "name"],
    );
    let by = Value::Number("0.00000000000000000009".into());
    let applied = store
        .apply(&update, [message("b", 1, vec![by, text("zoë 💥")])].into())
        .await;
    assert_eq!(fates(&applied.expect("answers")), "c");
    let exactly: Option<String> = connection
        .query_first("SELECT exact FROM seen")
        .await
        .expect("a row");
    let expected = "1234567890123456789012345678901234567890.12345678901234567900";
    assert_eq!(exactly.as_deref(), Some(expected));
    for (column, value) in [
        ("whole", text("a word")),
        ("whole", Value::Number("1".repeat(70).into())),
        ("document", text("{")),
        ("at", text("not a date")),
        ("name", Value::Bytes(vec![0xff, 0xfe].into())),
    ] {
        let bad = statements(&[&*format!("UPDATE seen SET {column} = :v")], &["v"]);
        let key = format!("{column} {value:?}");
        let applied = store
            .apply(&bad, [message(&key, 1, vec![value])].into())
            .await
            .expect("answers");
        assert_eq!(fates(&applied), "d", "{key}: {applied:?}");
    }
}

#[tokio::test]
async fn a_table_that_has_gone_kills_no_message() {
    let (lab, store) = lab(&[PAYMENTS]).await;
    let insert = statements(&[INSERT], PARAMS);
    let first = [message("a", 1, vec![text("a"), number(1)])];
    let second = [message("b", 2, vec![text("b"), number(1)])];
    assert_eq!(
        fates(&store.apply(&insert, first.into()).await.expect("answers")),
        "c"
    );
    lab.database.run("DROP TABLE payments").await;
    let error = store
        .apply(&insert, second.into())
        .await
        .expect_err("no table");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::InvalidConfig, Certainty::NotApplied)
    );
    assert!(
        error.to_string().contains("payments' doesn't exist"),
        "{error}"
    );
    assert_eq!(record(&store, "b").await, None);
}

#[tokio::test]
async fn a_trigger_that_says_no_is_dead_and_takes_nothing_with_it() {
    let trigger = "CREATE TRIGGER checked BEFORE INSERT ON payments FOR EACH ROW \
        IF NEW.amount = 13 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not 13'; END IF";
    let (lab, store) = lab(&[PAYMENTS, trigger]).await;
    let insert = statements(&[INSERT], PARAMS);
    let batch = [
        message("a", 1, vec![text("a"), number(13)]),
        message("b", 2, vec![text("b"), number(1)]),
    ];
    let applied = store.apply(&insert, batch.into()).await.expect("answers");
    assert_eq!(fates(&applied), "dc");
    assert!(matches!(&applied[0], Applied::Failed { error, .. } if &**error == "not 13"));
    assert_eq!(ids(&lab, "payments").await, ["b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_somebody_else_releases_the_message_that_waits_for_it() {
    let lab = Lab::new().await;
    lab.database.run(PAYMENTS).await;
    lab.database
        .run("INSERT INTO payments VALUES ('held', 1)")
        .await;
    let mut options = lab.options();
    options.lock_wait = std::time::Duration::from_secs(1);
    let store = MysqlStore::connect(&lab.database.url(), options)
        .await
        .expect("a store");
    let mut other = lab.database.connect().await;
    other
        .query_drop("START TRANSACTION")
        .await
        .expect("a transaction");
    other
        .query_drop("UPDATE payments SET amount = 2")
        .await
        .expect("a lock");
    let update = statements(
        &["UPDATE payments SET amount = :amount WHERE id = :id"],
        &["amount", "id"],
    );
    let batch = [
        message("a", 1, vec![number(5), text("held")]),
        message("b", 2, vec![number(5), text("free")]),
        message("c", 3, vec![number(-5), text("free")]),
    ];
    let applied = store.apply(&update, batch.into()).await.expect("answers");
    assert_eq!(fates(&applied), "rcc", "{applied:?}");
    other.query_drop("ROLLBACK").await.expect("the lock back");
    let record = record(&store, "a").await.expect("a record");
    assert_eq!(
        (record.state.kind(), record.attempts),
        (StateKind::Released, 1)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_of_users_rows_has_the_whole_batch_done_again() {
    let lab = Lab::new().await;
    lab.database.run(PAYMENTS).await;
    lab.database
        .run("INSERT INTO payments VALUES ('one', 1), ('two', 1)")
        .await;
    let url = lab.database.url();
    let proxy = Proxy::before(&url, |_| ());
    let store = Arc::new(lab.store_at(&proxy.url(&url)).await);
    let mut other = lab.database.connect().await;
    other
        .query_drop("CREATE TABLE much (a INT) ENGINE=InnoDB")
        .await
        .expect("a table");
    other
        .query_drop("START TRANSACTION")
        .await
        .expect("a transaction");
    let much = format!("INSERT INTO much VALUES {}", ["(1)"; 300].join(","));
    other.query_drop(much).await.expect("rows");
    other
        .query_drop("UPDATE payments SET amount = 2 WHERE id = 'two'")
        .await
        .expect("a lock");
    let update = statements(
        &["UPDATE payments SET amount = amount + :by WHERE id = :id"],
        &["by", "id"],
    );
    let batch = [
        message("a", 1, vec![number(10), text("one")]),
        message("b", 2, vec![number(10), text("two")]),
    ];
    let calling = Arc::clone(&store);
    let call = tokio::spawn(async move { calling.apply(&update, batch.into()).await });
    lab.waiting_session().await;
    other
        .query_drop("UPDATE payments SET amount = 2 WHERE id = 'one'")
        .await
        .expect("no victim");
    tokio::task::block_in_place(|| proxy.wait_for_error(1213));
    other.query_drop("COMMIT").await.expect("a commit");
    let applied = call.await.expect("a task").expect("answers");
    assert_eq!(fates(&applied), "cc");
    let amounts: Vec<u32> = other
        .query("SELECT amount FROM payments")
        .await
        .expect("amounts");
    assert_eq!(amounts, [12, 12], "each exactly once");
}

#[tokio::test]
async fn what_is_larger_than_a_packet_fails_alone() {
    let table = "CREATE TABLE payments (id LONGTEXT, amount INT) ENGINE=InnoDB";
    let (lab, store) = lab(&[table]).await;
    let insert = statements(&[INSERT], PARAMS);
    let batch = [
        message("a", 1, vec![text("a"), number(1)]),
        message("b", 2, vec![text(&"b".repeat(40 << 20)), number(1)]),
        message("c", 3, vec![text(&"c".repeat(1 << 20)), number(1)]),
    ];
    let applied = store.apply(&insert, batch.into()).await.expect("answers");
    assert_eq!(fates(&applied), "cdc");
    assert_eq!(ids(&lab, "payments").await.len(), 2);
}

/// The check covers every database, however its name is written.
#[tokio::test]
async fn tables_of_other_databases_need_transactions_too() {
    let plain = "CREATE TABLE plain (id VARCHAR(40)) ENGINE=MyISAM";
    let safe = "CREATE TABLE safe (id VARCHAR(40), plain INT) ENGINE=InnoDB";
    let (lab, store) = lab(&[PAYMENTS, safe, plain]).await;
    let other = Lab::new().await;
    let tables = [
        "pair (id VARCHAR(40))",
        "charges (id VARCHAR(40), amount INT)",
    ];
    for table in tables {
        let make = format!("CREATE TABLE {table} ENGINE=MyISAM");
        other.database.run(&make).await;
    }
    other.database.run(safe).await;
    other
        .database
        .run("CREATE TABLE plain (id VARCHAR(40)) ENGINE=InnoDB")
        .await;
    lab.database
        .run("CREATE TABLE pair (id VARCHAR(40)) ENGINE=InnoDB")
        .await;
    let (here, there) = (&lab.database.name, &other.database.name);
    for (sql, refused) in [
        (
            format!("INSERT INTO {there}.charges VALUES (:id, 1)"),
            Some("charges"),
        ),
        (
            format!("INSERT INTO `{there}` . `charges` VALUES (:id, 1)"),
            Some("charges"),
        ),
        (
            format!("UPDATE {there}./* so */charges c SET c.amount = 1 WHERE c.id = :id"),
            Some("charges"),
        ),
        (
            format!("DELETE FROM {there}.pair WHERE id = :id"),
            Some("pair"),
        ),
        (
            format!("UPDATE safe s, {there}.charges SET amount = 2 WHERE s.id = :id"),
            Some("charges"),
        ),
        (
            format!("INSERT INTO {here}.plain VALUES (:id)"),
            Some("plain"),
        ),
        (format!("INSERT INTO {there}.safe (id) VALUES (:id)"), None),
        (format!("INSERT INTO {there}.plain VALUES (:id)"), None),
        ("INSERT INTO pair VALUES (:id)".to_owned(), None),
        (format!("INSERT INTO {here}.pair VALUES (:id)"), None),
        (
            "UPDATE safe s SET s.plain = 1 WHERE s.id = :id".to_owned(),
            None,
        ),
    ] {
        let prepared = store.prepare(&statements(&[&sql], &["id"])).await;
        let said = prepared.err().map(|error| {
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{sql}: {error}");
            error.to_string()
        });
        match (refused, said) {
            (None, None) => {}
            (Some(table), Some(said)) => {
                let words = format!(".{table}, whose engine MyISAM has no transactions");
                assert!(said.contains(&words), "{sql}: {said}");
            }
            (_, said) => panic!("{sql}: {said:?}"),
        }
    }
}

#[tokio::test]
async fn mistakes_in_statements_are_found_before_work_begins() {
    let plain = "CREATE TABLE plain (id VARCHAR(40)) ENGINE=MyISAM";
    let (_lab, store) = lab(&[PAYMENTS, plain]).await;
    for (sql, params, words) in [
        (
            &["INSERT INTO paymints VALUES (:id)"][..],
            &["id"][..],
            "paymints' doesn't exist",
        ),
        (
            &["INSERT INTO payments (id, amont) VALUES (:id, 1)"],
            &["id"],
            "Unknown column 'amont'",
        ),
        (
            &["INSERT INTO payments VALUES (:id)"],
            &["id"],
            "Column count doesn't match",
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
            &["INSERT INTO payments VALUES (:id, 1); DELETE FROM payments"],
            &["id"],
            "`statements = [...]`",
        ),
        (&["SELEC :id"], &["id"], "begins with SELEC"),
        (
            &["INSERT INTO payments VALUES (:id, 1))"],
            &["id"],
            "error in your SQL syntax",
        ),
        (&["-- nothing"], &[], "empty"),
        (&[], &[], "no statement"),
        (&["/* so */ COMMIT"], &[], "begins with COMMIT"),
        (
            &["CREATE TABLE made AS SELECT :id"],
            &["id"],
            "begins with CREATE",
        ),
        (&["TRUNCATE payments"], &[], "begins with TRUNCATE"),
        (&["CALL pay(:id)"], &["id"], "begins with CALL"),
        (
            &[INSERT, "INSERT INTO `plain` VALUES (:id)"],
            PARAMS,
            "statement 2 names the table plain, whose engine MyISAM",
        ),
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
    assert_eq!(
        store.stats().await.expect("counts").records,
        [0; 6],
        "nothing is run"
    );
}
