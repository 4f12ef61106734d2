//! A producer whose journal is on the server: what the server promises less is told, and what is to be typed has no password.

use rustix::process::Signal;

use super::Schema;
use crate::brokers::Place as _;
use crate::brokers::nats::Stream;
use crate::brokers::producer::{arguments, object, run};
use crate::operator::object as one_object;
use crate::producers::{of_billing, worker};
use crate::servers::PASSWORD;
use crate::site::{Site, wait_for};

/// A publication to NATS with these further arguments.
fn publish(site: &Site, target: &Stream, more: &[&str]) -> crate::site::Ended {
    run(site, &arguments(target, &Stream::address(), more))
}

#[test]
fn a_server_that_promises_less_is_told_before_anything_is_sent() {
    let (schema, target, site) = (Schema::new(), Stream::new(), Site::new());
    schema.let_in();
    let url = schema.guarded(PASSWORD);
    site.write("rows.ndjson", "{\"id\":1,\"customer\":\"a\"}\n");
    let with_store = |more: &[&str]| {
        let store = [&["--store", &url, "rows.ndjson"], more].concat();
        let ended = publish(&site, &target, &store).done();
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!said.contains(PASSWORD), "{said}");
        ended
    };
    let first = with_store(&[]);
    assert!(!first.stderr.contains("warning"), "{first:#?}");
    assert_eq!(object(&first)["warnings"], serde_json::json!([]));
    let name = &schema.name;
    schema.execute(&format!("alter table {name}.producer_batches set unlogged"));
    for more in [&[][..], &["--dry-run"]] {
        let warned = with_store(more).says("warning: postgres://semel_guarded:***@");
        let once = warned
            .stderr
            .matches("producer_batches is unlogged")
            .count();
        assert_eq!(once, 1, "{warned:#?}");
        let warnings = &object(&warned)["warnings"];
        assert_eq!(warnings.as_array().map(Vec::len), Some(1), "{warnings}");
        assert!(warnings[0].as_str().expect("a line").contains("unlogged"));
    }
}

#[test]
fn the_command_that_thaws_names_the_store_as_it_was_named_and_no_password() {
    let (schema, target) = (Schema::new(), Stream::new());
    schema.let_in();
    let url = schema.guarded(PASSWORD);
    let site = super::site(&url, "", "kind = \"stdout\"", "");
    let row = |id: u32| {
        site.write(
            "rows.ndjson",
            format!("{{\"id\":{id},\"customer\":\"a\"}}\n"),
        );
    };
    row(0);
    publish(&site, &target, &["--store", &url, "rows.ndjson"]).done();
    let by_config = ["--config", "semel.toml"];
    let freeze = ["producers", "freeze", "billing", "--yes"];
    site.semel(&[&freeze[..], &by_config].concat()).done();
    row(1);
    let masked = publish(&site, &target, &["--store", &url, "rows.ndjson"]).done();
    let masked = masked
        .says("`semel producers thaw billing --yes --store 'postgres://semel_guarded:***@")
        .says("put what `***` hides in its place");
    assert!(!masked.stderr.contains(PASSWORD), "{masked:#?}");
    row(2);
    let configured = [&by_config[..], &["rows.ndjson"]].concat();
    let named = publish(&site, &target, &configured).done();
    // What is pasted works as it is.
    let command = "producers thaw billing --yes --config semel.toml";
    let named = named.says(&format!("`semel {command}`, and"));
    assert!(!named.stderr.contains("***"), "{named:#?}");
    site.semel(&command.split(' ').collect::<Vec<_>>()).done();
    row(3);
    let all = object(&publish(&site, &target, &configured).done());
    assert_eq!(all["published"], 3, "{all}");
}

/// The tables are another user's, and a worker need not have a right to them: each look would be an error in the server's
/// log.
#[test]
fn a_worker_that_may_not_read_the_producers_says_so_once() {
    let (schema, site) = (Schema::new(), Site::new());
    schema.let_in();
    let url = schema.guarded(PASSWORD);
    site.semel(&["store", "migrate", "--yes", "--store", &url])
        .done();
    let owner = "alter table {}.producer_format owner to current_user";
    schema.execute(&owner.replace("{}", &schema.name));
    let (mut worker, admin) = worker(&site, &url);
    wait_for("its word", || worker.stderr().contains("for producers"));
    wait_for("a worker", || admin.ready().0);
    assert_eq!(of_billing(&admin, "backlog"), None);
    worker.signal(Signal::TERM);
    let ended = worker.wait().done().says("lacks a right");
    assert_eq!(ended.stderr.matches("for producers").count(), 1);
}

#[test]
fn tables_of_producers_that_are_missing_are_told_of_and_made() {
    let (schema, site) = (Schema::new(), Site::new());
    let url = schema.url();
    let migrate =
        |rest: &[&str]| site.semel(&[&["store", "migrate", "--store", &url], rest].concat());
    migrate(&[])
        .code(1)
        .says("tables of producers, if its user may make them");
    let made = one_object(&migrate(&["--yes", "--output", "json"]).done());
    assert_eq!(made["producers"], "made", "{made}");
    let drop = format!(
        "drop table {0}.producer_format, {0}.producers, {0}.producer_streams, \
                        {0}.producer_batches, {0}.producer_inputs",
        schema.name
    );
    schema.execute(&drop);
    migrate(&[]).code(1).says("make 1 set of tables");
    assert_eq!(
        schema.rows(&format!(
            "select to_regclass('{}.producers') is null",
            schema.name
        )),
        ["t"]
    );
    let again = migrate(&["--yes"]).done().stdout;
    assert_eq!(
        again,
        "the store has format 2\nmade tables of producers beside it\n"
    );
    let there = one_object(&migrate(&["--output", "json"]).done());
    assert_eq!(
        (&there["producers"], &there["migrated"]),
        (&"there".into(), &false.into())
    );
    // Others' tables of these names stay.
    schema.execute(&drop);
    schema.execute(&format!(
        "create table {}.producers (id integer)",
        schema.name
    ));
    let missing = migrate(&["--yes"]).done().stdout;
    assert!(
        missing.contains("the tables of producers are missing"),
        "{missing}"
    );
}
