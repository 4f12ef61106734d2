//! Conversion of the values of messages to values of columns, and the fate of values that do not fit.

use super::{Schema, site};
use crate::site::lines;

#[test]
fn every_value_takes_the_type_of_its_column() {
    let columns = [
        ("small", "smallint", "7", "7"),
        ("big", "bigint", "9007199254740993", "9007199254740993"),
        (
            "exact",
            "numeric",
            "98765432109876543210.125",
            "98765432109876543210.125",
        ),
        ("float", "double precision", "1.5", "1.5"),
        ("said", "text", "\"it's\"", "it's"),
        ("number_text", "text", "12", "12"),
        ("yes", "boolean", "true", "t"),
        (
            "at",
            "timestamptz",
            "\"2026-03-02T06:00:12Z\"",
            "2026-03-02 06:00:12+00",
        ),
        ("day", "date", "\"2026-03-02\"", "2026-03-02"),
        (
            "id_",
            "uuid",
            "\"6ba7b810-9dad-11d1-80b4-00c04fd430c8\"",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        ),
        ("doc", "jsonb", "{\"a\":[1,null]}", "{\"a\": [1, null]}"),
        ("list", "jsonb", "[1,2]", "[1, 2]"),
        ("word", "jsonb", "\"w\"", "\"w\""),
        ("raw", "bytea", "\"\\u0001z\"", "\\x017a"),
        ("ints", "integer[]", "[1,null,3]", "{1,NULL,3}"),
        (
            "texts",
            "text[]",
            "[\"a,b\",\"c\\\"\"]",
            "{\"a,b\",\"c\\\"\"}",
        ),
        ("mood", "feeling", "\"fine\"", "fine"),
        ("missing", "text", "", "NULL"),
        ("nothing", "integer", "null", "NULL"),
    ];
    let join = |part: &dyn Fn(&Row) -> Option<String>, between: &str| {
        let parts: Vec<_> = columns.iter().filter_map(part).collect();
        parts.join(between)
    };
    let types = join(&|it| Some(format!("{} {}", it.0, it.1)), ", ");
    let names = join(&|it| Some(it.0.to_owned()), ", ");
    let placeholders = join(&|it| Some(format!(":{}", it.0)), ", ");
    let members = join(
        &|it| (!it.2.is_empty()).then(|| format!("\"{}\":{}", it.0, it.2)),
        ",",
    );
    let schema = Schema::with(&format!(
        "create type feeling as enum ('fine', 'bad'); create table t (id text, {types})"
    ));
    let name = &schema.name;
    let statement = format!("insert into {name}.t (id, {names}) values (:id, {placeholders})");
    let site = site(
        &schema.url(),
        "retry = { attempts = 1 }",
        &format!("kind = \"sql\"\nstatement = \"\"\"{statement}\"\"\""),
        &format!("{{\"id\":\"a\",{members}}}\n"),
    );
    let ended = site.semel(&["run", "--output", "json"]).done();
    assert_eq!(ended.summary().count("applied"), 1, "{ended:#?}");
    schema.execute("set timezone = 'UTC'");
    for (column, kind, _, stored) in columns {
        let rows = schema.rows(&format!("select {column}::text from {name}.t"));
        let boolean = rows[0].replace("true", "t");
        let found = if kind == "boolean" {
            &boolean
        } else {
            &rows[0]
        };
        assert_eq!(found, stored, "{column} {kind}");
    }
}

#[test]
fn a_value_that_does_not_fit_is_the_failure_of_its_message_alone() {
    let schema = Schema::with("create table t (id text, n integer check (n <> 13))");
    let input = lines(0..40, |id| match id {
        7 => "{\"id\":\"7\",\"n\":\"seven\"}".to_owned(),
        8 => "{\"id\":\"8\",\"n\":99999999999}".to_owned(),
        9 => "{\"id\":\"9\",\"n\":1.5}".to_owned(),
        _ => format!("{{\"id\":\"{id}\",\"n\":{id}}}"),
    });
    let name = &schema.name;
    let site = site(
        &schema.url(),
        "retry = { attempts = 2, backoff = \"1ms\" }",
        &format!("kind = \"sql\"\nstatement = \"insert into {name}.t values (:id, :n)\""),
        &input,
    );
    site.run().is(&[("applied", 36), ("dead", 4)]);
    assert_eq!(schema.count("t"), 36);
    let dead = site
        .semel(&["dead-letters", "list", "--output", "jsonl"])
        .done();
    for why in ["seven", "out of range", "violates check constraint"] {
        assert!(dead.stdout.contains(why), "{why}: {}", dead.stdout);
    }
    site.run().is(&[("replayed", 36), ("dead", 4)]);
}

#[test]
fn several_statements_commit_together_or_not_at_all() {
    let schema = Schema::with(
        "create table t (id text); create table sum (n integer check (n < 20)); insert into sum values (0)",
    );
    let name = &schema.name;
    let effect = format!(
        "kind = \"sql\"\nstatements = [\"insert into {name}.t values (:id)\", \
         \"update {name}.sum set n = n + :n::int\"]"
    );
    let input = "{\"id\":\"a\",\"n\":10}\n{\"id\":\"b\",\"n\":100}\n{\"id\":\"c\",\"n\":5}\n";
    let site = site(&schema.url(), "retry = { attempts = 1 }", &effect, input);
    site.run().is(&[("applied", 2), ("dead", 1)]);
    let rows = schema.rows(&format!(
        "select string_agg(id, ',' order by id), (select n from {name}.sum) from {name}.t"
    ));
    assert_eq!(rows, ["a,c|15"]);
}

#[test]
fn what_the_database_refuses_of_a_statement_is_found_before_anything_runs() {
    for (statement, words) in [
        (
            "insert into NAME.t values (:id",
            "syntax error at end of input",
        ),
        (
            "inser into NAME.t values (:id)",
            "syntax error at or near \"inser\"",
        ),
        (
            "insert into NAME.charges values (:id)",
            "\"NAME.charges\" does not exist",
        ),
        (
            "insert into NAME.t (ident) values (:id)",
            "column \"ident\"",
        ),
        (
            "insert into NAME.t values (:id, 1)",
            "more expressions than target columns",
        ),
        ("insert into NAME.t values (:id); select 1", "holds several"),
        ("commit", "begins with COMMIT"),
        ("insert into NAME.t values ($1)", "write :name"),
    ] {
        let schema = Schema::with("create table t (id text)");
        let fill = |text: &str| text.replace("NAME", &schema.name);
        let effect = format!("kind = \"sql\"\nstatement = '''{}'''", fill(statement));
        let site = site(&schema.url(), "", &effect, "{\"id\":\"1\"}\n");
        site.semel(&["config", "check"]).done();
        let check = site.semel(&["check"]).code(1);
        assert!(
            check.stdout.contains("statement-refused") && check.stdout.contains(&fill(words)),
            "{statement}: {check:#?}"
        );
        let tables = schema.rows(&format!(
            "select count(*) from pg_tables where schemaname = '{}'",
            schema.name
        ));
        assert_eq!(tables, ["1"], "a check makes nothing");
        let run = site.semel(&["run"]).code(2).says("[invalid-config]");
        assert!(run.stderr.contains(&fill(words)), "{run:#?}");
        assert_eq!(schema.count("records"), 0, "nothing began");
    }
}

/// Four texts of a row of the table above.
type Row<'t> = (&'t str, &'t str, &'t str, &'t str);
