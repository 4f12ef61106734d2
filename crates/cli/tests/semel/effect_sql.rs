//! `kind = "sql"`: the effect in one transaction with its record.

use crate::site::{Site, lines};

/// A database with these tables, and a pipeline with this effect.
fn site(tables: &str, effect: &str, input: &str) -> Site {
    let config = format!(
        "[store]\nurl = \"sqlite:shop.db\"\n[pipelines.p]\nsource = {{ kind = \"file\", path = \"in\" }}\n\
         key = \"json:/id\"\nretry = {{ attempts = 2, backoff = \"1ms\" }}\n\
         [pipelines.p.effect]\nkind = \"sql\"\n{effect}\n"
    );
    let site = Site::with(&[("semel.toml", &config), ("in", input)]);
    site.database("shop.db")
        .execute_batch(tables)
        .expect("tables");
    site
}

#[test]
fn placeholders_are_members_of_the_message_unless_params_says_otherwise() {
    let site = site(
        "create table t (id, amount, name, place)",
        "statement = \"insert into t values (:id, :amount, :name, :place)\"\n\
         params = { name = \"json:/customer/name\", place = \"coordinates\" }",
        "{\"id\":\"a\",\"amount\":5,\"customer\":{\"name\":\"Zoë\"}}\n\
         {\"id\":\"a\",\"amount\":5,\"customer\":{\"name\":\"Zoë\"}}\n{\"id\":\"b\",\"amount\":null}\n",
    );
    site.run().is(&[("applied", 2), ("replayed", 1)]);
    assert_eq!(
        site.rows("shop.db", "select * from t order by id"),
        ["a|5|Zoë|in:1", "b|NULL|NULL|in:3"]
    );
    site.run().is(&[("replayed", 3)]);
    assert_eq!(site.rows("shop.db", "select count(*) from t"), ["2"]);
}

#[test]
fn values_keep_their_type() {
    let site = site(
        "create table t (id, v)",
        "statement = \"insert into t values (:id, :v)\"",
        "{\"id\":1,\"v\":9223372036854775807}\n{\"id\":2,\"v\":1.5}\n{\"id\":3,\"v\":true}\n\
         {\"id\":4,\"v\":\"'; drop table t; --\"}\n{\"id\":5,\"v\":{\"a\": [1]}}\n{\"id\":6,\"v\":\"1\"}\n",
    );
    site.run().is(&[("applied", 6)]);
    assert_eq!(
        site.rows("shop.db", "select typeof(v), v from t order by id"),
        [
            "integer|9223372036854775807",
            "real|1.5",
            "integer|1",
            "text|'; drop table t; --",
            "text|{\"a\": [1]}",
            "text|1",
        ]
    );
}

#[test]
fn several_statements_happen_together_or_not_at_all() {
    let site = site(
        "create table charges (id); create table totals (n check (n < 30)); insert into totals values (0)",
        "statements = [\"insert into charges values (:id)\", \"update totals set n = n + :amount\"]",
        "{\"id\":\"a\",\"amount\":10}\n{\"id\":\"b\",\"amount\":100}\n{\"id\":\"c\",\"amount\":5}\n",
    );
    site.run().is(&[("applied", 2), ("dead", 1)]);
    assert_eq!(
        site.rows(
            "shop.db",
            "select group_concat(id), (select n from totals) from charges"
        ),
        ["a,c|15"]
    );
}

#[test]
fn a_row_that_fails_is_dead_while_its_neighbours_commit() {
    let lines: String = lines(0..200, |id| {
        format!("{{\"id\":{id},\"amount\":{}}}", id - 100)
    });
    let site = site(
        "create table t (id, amount check (amount <> 0))",
        "statement = \"insert into t values (:id, :amount)\"",
        &lines,
    );
    let ended = site
        .semel(&["run", "--output", "json"])
        .done()
        .says("dead: in:");
    ended.summary().is(&[("applied", 199), ("dead", 1)]);
    assert_eq!(
        site.rows("shop.db", "select count(*), count(distinct id) from t"),
        ["199|199"]
    );
    assert_eq!(
        site.rows(
            "shop.db",
            "select reason, key, payload, detail from semel_parked"
        ),
        ["dead|json:100|{\"id\":100,\"amount\":0}|CHECK constraint failed: amount <> 0"]
    );
    assert_eq!(
        site.rows(
            "shop.db",
            "select key from semel_operations where state = 'dead'"
        ),
        ["json:100"]
    );
    site.run().is(&[("replayed", 199), ("dead", 1)]);
}

#[test]
fn sql_that_the_database_refuses_is_a_fault_of_the_configuration() {
    for (statement, words) in [
        ("insert into t values (:id", "incomplete input"),
        (
            "inser into t values (:id)",
            "near \\\"inser\\\": syntax error",
        ),
        ("insert into charges values (:id)", "no such table: charges"),
        (
            "insert into t (ident) values (:id)",
            "table t has no column named ident",
        ),
        (
            "insert into t values (:id, 1)",
            "table t has 1 columns but 2 values were supplied",
        ),
    ] {
        let site = site(
            "create table t (id)",
            &format!("statement = \"{statement}\""),
            "{\"id\":1}\n",
        );
        let ended = site.semel(&["run", "--output", "json"]).code(2);
        let words = words.replace('\\', "");
        assert!(
            ended.stderr.contains(&words) && ended.stderr.contains("[invalid-config]"),
            "{ended:#?}"
        );
        assert_eq!(
            site.rows("shop.db", "select count(*) from semel_records"),
            ["0"],
            "nothing began"
        );
    }
}

#[test]
fn a_parameter_that_no_statement_has_is_a_fault() {
    let site = site(
        "create table t (id)",
        "statement = \"insert into t values (:id)\"\nparams = { amount = \"json:/amount\" }",
        "{\"id\":1}\n",
    );
    let check = site.semel(&["config", "check"]).code(1);
    assert!(
        check
            .stdout
            .contains("no statement has a placeholder :amount"),
        "{}",
        check.stdout
    );
}
