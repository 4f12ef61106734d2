//! JSON values in columns of every type, and statements that fail: alone, in the server's words.

mod shop;

use std::fmt::Write as _;

use semel_core::port::transactional::{Applied, TransactionalStore, Value};
use semel_core::{Admission, Code, Error, StateKind};
use semel_store_postgres::Options;

use self::shop::Shop;
use crate::lab::{Lab, connect, count, message, number, record, state, statements, text};

#[tokio::test]
async fn values_are_read_back_as_they_were_sent() {
    let lab = Shop::new("").await;
    let long = "-1234567890123456789012345678901234567.890";
    for (column, value, expected) in [
        ("integer", number("-2147483648"), "-2147483648"),
        (
            "bigint",
            number("9223372036854775807"),
            "9223372036854775807",
        ),
        ("smallint", number("-32768"), "-32768"),
        ("numeric", number(long), long),
        ("numeric(5,2)", number("1.005"), "1.01"),
        ("real", number("0.1"), "0.1"),
        ("double precision", number("1e-300"), "1e-300"),
        ("boolean", Value::Boolean(true), "true"),
        ("boolean", text("no"), "false"),
        (
            "text",
            text("größe \u{1f600} ' \\ \" $1 :x"),
            "größe \u{1f600} ' \\ \" $1 :x",
        ),
        ("text", number("10.50"), "10.50"),
        ("text", Value::Boolean(false), "false"),
        ("text", json(r#"{"a":[1,"\\"]}"#), r#"{"a":[1,"\\"]}"#),
        ("varchar(4)", text("ab  "), "ab  "),
        (
            "timestamptz",
            text("2026-11-21T10:00:00.123456+02:00"),
            "2026-11-21 08:00:00.123456+00",
        ),
        ("date", text("2024-02-29"), "2024-02-29"),
        ("interval", text("P1DT2H"), "1 day 02:00:00"),
        (
            "uuid",
            text("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"),
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
        ("inet", text("10.0.0.1/8"), "10.0.0.1/8"),
        (
            "jsonb",
            json(r#"{"b":1.10,"a":[true,null,"x\ny"]}"#),
            r#"{"a": [true, null, "x\ny"], "b": 1.10}"#,
        ),
        ("json", json(r#"{"b" : 1.10}"#), r#"{"b" : 1.10}"#),
        ("jsonb", text("a \"text\" \\ \n"), r#""a \"text\" \\ \n""#),
        ("jsonb", number("1e2"), "100"),
        ("jsonb", Value::Boolean(true), "true"),
        ("jsonb", json("[1,[2]]"), "[1, [2]]"),
        (
            "bytea",
            Value::Bytes(vec![0, 255, b'\\'].into()),
            "\\x00ff5c",
        ),
        ("bytea", text("\\x41 ä"), "\\x5c78343120c3a4"),
        (
            "bytea",
            json(r#"{"a":"x\ny\\"}"#),
            &hex(br#"{"a":"x\ny\\"}"#),
        ),
        ("int4range", text("[1,5)"), "[1,5)"),
        ("integer", Value::Null, "∅"),
        ("text[]", Value::Null, "∅"),
    ] {
        lab.keeps(column, value, expected).await;
    }
}

#[tokio::test]
async fn arrays_and_types_of_the_users_own_are_read_back_as_they_were_sent() {
    let lab = Shop::new(
        "CREATE TYPE mood AS ENUM ('sad', 'happy ''day'''); \
         CREATE DOMAIN cents AS integer CHECK (value >= 0); \
         CREATE DOMAIN tags AS text[]",
    )
    .await;
    for (column, value, expected) in [
        ("integer[]", json("[1,null,-3]"), "{1,NULL,-3}"),
        ("integer[]", json("[[1,2],[3,4]]"), "{{1,2},{3,4}}"),
        ("integer[]", json("[]"), "{}"),
        (
            "text[]",
            json(r#"["a,b","{}","NULL","\"\\",""]"#),
            r#"{"a,b","{}","NULL","\"\\",""}"#,
        ),
        (
            "text[]",
            json(r#"[{"a":1},true,1.50]"#),
            r#"{"{\"a\":1}",true,1.50}"#,
        ),
        ("text[]", text("{a,b}"), "{a,b}"),
        (
            "jsonb[]",
            json(r#"[{"a":[1]},[2],"x",null]"#),
            r#"{"{\"a\": [1]}",[2],"\"x\"",NULL}"#,
        ),
        (
            "bytea[]",
            json(r#"["a\\",{"b":"\n"}]"#),
            &format!(r#"{{"\\x615c","\{}"}}"#, hex(br#"{"b":"\n"}"#)),
        ),
        (
            "timestamptz[]",
            json(r#"["2026-11-21 10:00+00"]"#),
            r#"{"2026-11-21 10:00:00+00"}"#,
        ),
        ("mood", text("happy 'day'"), "happy 'day'"),
        ("mood[]", json(r#"["sad"]"#), "{sad}"),
        ("cents", number("12"), "12"),
        ("cents[]", json("[1,2]"), "{1,2}"),
        ("tags", json(r#"["a b"]"#), "{\"a b\"}"),
    ] {
        lab.keeps(column, value, expected).await;
    }
}

#[tokio::test]
async fn the_tables_of_a_user_who_is_called_as_the_schema_are_found_before_ours() {
    let lab = Lab::new();
    let _made = lab.store().await;
    let role = lab.schema();
    let user = lab.client().await;
    // A table of ours has this name, too.
    let made = format!(
        "CREATE ROLE {role} LOGIN SUPERUSER; CREATE TABLE public.orders (order_id text); \
         CREATE TABLE {role}.charges (id text)"
    );
    user.batch_execute(&made).await.expect("a role and tables");
    let url = lab.site.url().replace("semel@", &format!("{role}@"));
    let (url, _) = url.split_once("&options").expect("no search path");
    let store = connect(url, Options::default()).await;
    for (key, table) in [("a", "orders"), ("b", "charges")] {
        let insert = format!("INSERT INTO {table} VALUES (:key)");
        let insert = statements(&[&insert], &["key"]);
        store.prepare(&insert).await.expect("a statement");
        let batch = [message(key, 1, vec![text(key)])];
        let applied = store.apply(&insert, batch.into()).await.expect("answers");
        assert!(
            matches!(applied[..], [Applied::Completed { .. }]),
            "{applied:?}"
        );
    }
    assert_eq!(count(&user, "public.orders").await, 1);
    drop(store);
    let gone = format!("DROP TABLE public.orders; DROP OWNED BY {role}; DROP ROLE {role}");
    user.batch_execute(&gone).await.expect("an end");
}

#[tokio::test]
async fn a_value_that_does_not_fit_fails_its_message_alone() {
    let lab = Shop::new(
        "CREATE TYPE mood AS ENUM ('sad'); \
         CREATE DOMAIN cents AS integer CHECK (value >= 0)",
    )
    .await;
    for (column, value, words) in [
        ("integer", number("2147483648"), "out of range"),
        (
            "integer",
            number("1.5"),
            "invalid input syntax for type integer",
        ),
        ("integer", text("one"), "invalid input syntax"),
        ("integer", Value::Boolean(true), "invalid input syntax"),
        ("integer", json("{}"), "invalid input syntax"),
        ("bigint", number("1e30"), "invalid input syntax"),
        ("numeric(3,1)", number("100"), "numeric field overflow"),
        ("real", number("1e400"), "out of range"),
        (
            "boolean",
            number("2"),
            "invalid input syntax for type boolean",
        ),
        ("varchar(2)", text("abc"), "value too long"),
        ("text", text("a\0b"), "invalid byte sequence"),
        (
            "text",
            Value::Bytes(vec![0xff].into()),
            "invalid byte sequence",
        ),
        ("jsonb", text("\0"), "unsupported Unicode escape sequence"),
        ("timestamptz", text("yesterday-ish"), "invalid input syntax"),
        ("date", text("2025-02-29"), "out of range"),
        ("uuid", text("1-2"), "invalid input syntax for type uuid"),
        ("integer[]", json("[1,[2]]"), "malformed array literal"),
        (
            "integer[]",
            json(r#"["x"]"#),
            "invalid input syntax for type integer",
        ),
        ("integer[]", json("{}"), "malformed array literal"),
        ("mood", text("angry"), "invalid input value for enum mood"),
        ("cents", number("-1"), "violates check constraint"),
        (
            "integer CHECK (v > 9 OR key <> 'it')",
            number("8"),
            "violates check constraint",
        ),
        (
            "integer UNIQUE DEFAULT 7",
            number("7"),
            "duplicate key value",
        ),
        (
            "integer REFERENCES shops",
            number("8"),
            "violates foreign key constraint",
        ),
        // A value that an index cannot hold.
        ("text UNIQUE", incompressible(), "index row"),
    ] {
        let failed = lab.refused(column, value.clone()).await;
        let (found, error) = failed.expect(column);
        assert_eq!(found, StateKind::Dead, "{value:?} into {column}");
        assert!(error.contains(words), "{value:?} into {column}: {error}");
        assert!(!error.contains('\n'), "{error:?}");
    }
}

#[tokio::test]
async fn what_a_trigger_or_a_function_raises_fails_its_message_alone() {
    let lab = Shop::new(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           IF new.v = '8' THEN RAISE EXCEPTION 'no % here', new.v; END IF; \
           IF new.v = '9' THEN CASE new.v WHEN 'x' THEN NULL; END CASE; END IF; \
           RETURN new; END $$",
    )
    .await;
    lab.table("text").await;
    lab.execute(
        "CREATE TRIGGER refusing BEFORE INSERT ON wares FOR EACH ROW EXECUTE FUNCTION refuse()",
    )
    .await;
    for (value, words) in [("8", "no 8 here"), ("9", "case not found")] {
        let (state, error) = lab.insert(text(value)).await.expect("it is refused");
        assert_eq!(state, StateKind::Dead);
        assert!(error.contains(words), "{error}");
    }
}

#[tokio::test]
async fn what_shows_at_the_commit_fails_its_message_alone() {
    let lab = Shop::new("").await;
    // A deferred constraint, and a trigger that is deferred and raises what it likes.
    lab.table("integer REFERENCES shops DEFERRABLE INITIALLY DEFERRED")
        .await;
    let (state, error) = lab.insert(number("8")).await.expect("it is refused");
    assert_eq!(state, StateKind::Dead);
    assert!(error.contains("violates foreign key constraint"), "{error}");

    lab.table("integer").await;
    lab.execute(
        "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           IF new.v = 8 THEN RAISE EXCEPTION 'too late for %', new.v; END IF; RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER late AFTER INSERT ON wares DEFERRABLE INITIALLY DEFERRED \
           FOR EACH ROW EXECUTE FUNCTION late()",
    )
    .await;
    let (state, error) = lab.insert(number("8")).await.expect("it is refused");
    assert_eq!(state, StateKind::Dead);
    assert!(error.contains("too late for 8"), "{error}");
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_tried_again_later() {
    let lab = Lab::new();
    let user = lab.client().await;
    let mut options = Options::default();
    options.statement_timeout = std::time::Duration::from_millis(300);
    let store = connect(&lab.site.url(), options).await;
    user.batch_execute("CREATE TABLE wares (v text)")
        .await
        .expect("a table");
    let sleeps = statements(
        &["INSERT INTO wares SELECT :v FROM pg_sleep(:secs)"],
        &["v", "secs"],
    );
    let batch = [
        message("quick", 1, vec![text("a"), number("0")]),
        message("slow", 1, vec![text("b"), number("5")]),
        message("last", 1, vec![text("c"), number("0")]),
    ];
    let answers = store.apply(&sleeps, batch.into()).await.expect("answers");
    assert!(
        matches!(answers[0], Applied::Completed { .. }),
        "{answers:?}"
    );
    assert!(
        matches!(answers[2], Applied::Completed { .. }),
        "{answers:?}"
    );
    let Applied::Failed {
        state,
        not_before,
        now,
        error,
    } = &answers[1]
    else {
        panic!("{answers:?}");
    };
    assert_eq!(*state, StateKind::Released);
    assert!(not_before > now);
    assert!(error.contains("statement timeout"), "{error}");
    assert_eq!(count(&user, "wares").await, 2);
}

#[tokio::test]
async fn a_table_that_goes_away_is_no_messages_fault() {
    let lab = Shop::new("").await;
    lab.table("text").await;
    assert!(lab.insert(text("a")).await.is_none());
    lab.execute("DROP TABLE wares").await;
    let batch = [message("gone", 1, vec![text("gone"), text("b")])];
    let error = lab.store.apply(&lab.insert, batch.clone().into()).await;
    let error: Error = error.expect_err("no table");
    assert_eq!(error.code(), Code::InvalidConfig, "{error:?}");
    assert!(error.to_string().contains("wares"), "{error}");
    assert_eq!(state(&lab.store, "gone").await, None);
    // Made again with another type, it is taken as it is.
    lab.execute("CREATE TABLE wares (key text, v bytea)").await;
    let answers = lab
        .store
        .apply(&lab.insert, batch.into())
        .await
        .expect("answers");
    assert!(
        matches!(answers[..], [Applied::Completed { .. }]),
        "{answers:?}"
    );
}

#[tokio::test]
async fn a_column_that_is_widened_takes_wider_values_at_once() {
    let lab = Shop::new("").await;
    lab.table("integer").await;
    assert!(lab.insert(number("7")).await.is_none());
    let wide = || number("3000000000");
    let refused = lab.insert(wide()).await.expect("too much for an integer");
    assert!(refused.1.contains("out of range"), "{refused:?}");
    lab.execute("ALTER TABLE wares ALTER COLUMN v TYPE bigint")
        .await;
    assert_eq!(lab.insert(wide()).await, None, "every connection knows");
}

#[tokio::test]
async fn a_failed_statement_leaves_nothing_of_those_before_it() {
    let lab = Shop::new("").await;
    lab.table("integer CHECK (v < 8)").await;
    let both = statements(
        &[
            "UPDATE shops SET visits = visits + 1",
            "INSERT INTO wares VALUES (:key, :v)",
        ],
        &["key", "v"],
    );
    let batch = [
        message("a", 1, vec![text("a"), number("1")]),
        message("b", 1, vec![text("b"), number("8")]),
        // The same key again is a replay of the one before it.
        message("a", 2, vec![text("a"), number("2")]),
        message("b", 2, vec![text("b"), number("2")]),
        message("c", 1, vec![text("c"), number("3")]),
    ];
    let answers = lab.store.apply(&both, batch.into()).await.expect("answers");
    assert!(
        matches!(answers[0], Applied::Completed { .. }),
        "{answers:?}"
    );
    assert!(matches!(answers[1], Applied::Failed { .. }), "{answers:?}");
    assert!(
        matches!(answers[2], Applied::NotGranted(Admission::Replay { .. })),
        "{answers:?}"
    );
    assert!(
        matches!(answers[3], Applied::NotGranted(Admission::Parked { .. })),
        "{answers:?}"
    );
    assert!(
        matches!(answers[4], Applied::Completed { .. }),
        "{answers:?}"
    );
    let row = lab.user.query_one("SELECT visits FROM shops", &[]).await;
    assert_eq!(row.expect("a shop").get::<_, i32>(0), 2);
    assert_eq!(count(&lab.user, "wares").await, 2);
    let dead = record(&lab.store, "b").await.expect("a record");
    assert!(
        dead.last_error
            .is_some_and(|it| it.contains("check constraint"))
    );
}

fn json(value: &str) -> Value {
    Value::Json(value.into())
}

/// Returns bytes as PostgreSQL shows them.
fn hex(bytes: &[u8]) -> String {
    let mut digits = "\\x".to_owned();
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// Returns a text that is too long for an index, however it is compressed.
fn incompressible() -> Value {
    let digits = (0..20_000_u32).map(|at| at.wrapping_mul(0x9e37_79b9).to_string());
    Value::Text(digits.collect::<String>().into())
}
