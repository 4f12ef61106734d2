//! The binary with its store on a real MySQL or MariaDB server, which `SEMEL_TEST_MYSQL_URL` names.

mod relays;

use std::sync::atomic::{AtomicU32, Ordering};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use rustix::process::Signal;
use tokio::runtime::Runtime;

use crate::operator::object;
use crate::servers::{
    GUARDED, PASSWORD, Told, every_verb_works, no_failure_prints_the_password,
    no_verb_prints_the_password, nobody_who_looks_makes_a_store,
};
use crate::site::{Running, Site, wait_for};
use crate::starts::Fresh;
use crate::transfer::goes_round;

/// A database that no other test uses, dropped at the end.
pub(crate) struct Database {
    name: String,
    runtime: Runtime,
}

impl Database {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let database = Self {
            name: format!("semel_cli_{}_{number}", std::process::id()),
            runtime: runtime.expect("a runtime"),
        };
        database.execute(&format!("create database {}", database.name));
        database
    }

    pub(crate) fn url(&self) -> String {
        let server = server();
        let (place, _) = server.rsplit_once('/').expect("a url with a database");
        format!("{place}/{}", self.name)
    }

    /// The url for a user with a password, whom this creates.
    fn guarded(&self, password: &str) -> String {
        self.execute(&format!(
            "create user if not exists '{GUARDED}'@'%' identified by '{PASSWORD}'"
        ));
        self.execute(&format!("grant all on {}.* to '{GUARDED}'@'%'", self.name));
        let url = self.url();
        let (_, place) = url.rsplit_once('@').expect("a user");
        format!("mysql://{GUARDED}:{password}@{place}")
    }

    fn execute(&self, sql: &str) {
        self.runtime.block_on(async {
            let mut server = connect(None).await;
            server.query_drop(sql).await.expect(sql);
            server.disconnect().await.expect("an end");
        });
    }

    fn count(&self, what: &str) -> u64 {
        self.runtime.block_on(async {
            let mut server = connect(Some(&self.name)).await;
            let count: Option<u64> = server
                .query_first(format!("select {what}"))
                .await
                .expect(what);
            server.disconnect().await.expect("an end");
            count.expect("a number")
        })
    }
}

impl Fresh for Database {
    fn fresh() -> Self {
        let database = Self::new();
        let name = &database.name;
        database.execute(&format!("create table {name}.charges (id varchar(20))"));
        database
    }

    fn store_url(&self) -> String {
        self.url()
    }

    fn statement(&self) -> Option<String> {
        Some("insert into charges values (:id)".to_owned())
    }

    fn charges(&self) -> u64 {
        self.count("count(*) from charges")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.execute(&format!("drop database if exists {}", self.name));
    }
}

async fn connect(database: Option<&str>) -> Conn {
    let opts = Opts::from_url(&server()).expect("SEMEL_TEST_MYSQL_URL is a url");
    let opts = OptsBuilder::from_opts(opts)
        .prefer_socket(false)
        .db_name(database);
    Conn::new(opts).await.expect("the server of the tests")
}

fn server() -> String {
    std::env::var("SEMEL_TEST_MYSQL_URL").expect(
        "SEMEL_TEST_MYSQL_URL names no server: run `cargo xtask services up mariadb` and `source \
         target/services/env`",
    )
}

/// The payments of the README, charged as rows of a table beside the records.
fn payments(database: &Database) -> Site {
    let config = format!(
        "[store]\nurl = \"{}\"\n[pipelines.payments]\n\
         source = {{ kind = \"file\", path = \"payments.ndjson\" }}\n\
         key = \"json:/payment_intent\"\ntransport = \"json:/event_id\"\n\
         fingerprint = [\"json:/amount\", \"json:/currency\"]\nbatch = 5\n\
         [pipelines.payments.effect]\nkind = \"sql\"\n\
         statement = \"insert into charges values (:payment_intent, :amount, :currency)\"\n",
        database.url()
    );
    Site::with(&[("semel.toml", &config), ("payments.ndjson", PAYMENTS)])
}

#[test]
fn each_payment_is_charged_once_however_often_the_run_is_killed() {
    let database = Database::new();
    database.execute(&format!("create table {}.charges {CHARGES}", database.name));
    let site = payments(&database);
    for kill in 1..=2 {
        let running = site.start(&["run"]);
        let charged = || database.count("count(*) from charges");
        wait_for("some charges", || charged() >= kill * 300);
        running.signal(Signal::KILL);
        running.wait();
    }
    site.run();
    assert_eq!(database.count("count(*) from charges"), 2_000);
    assert_eq!(
        database.count("count(distinct payment_intent) from charges"),
        2_000
    );
    site.run()
        .is(&[("replayed", 2_546), ("conflicts", 1), ("quarantined", 7)]);
}

#[test]
fn what_the_database_refuses_of_a_statement_is_found_before_anything_runs() {
    let database = Database::new();
    let site = payments(&database);
    let check = site.semel(&["check"]).code(1);
    assert!(
        check.stdout.contains("statement-refused") && check.stdout.contains("charges"),
        "{check:#?}"
    );
    site.semel(&["run"]).code(2).says("[invalid-config]");
}

#[test]
fn first_lines_are_printed_once_and_appended_once() {
    let database = Database::new();
    let url = database.url();
    let site = Site::with(&[("in", "b\na\nb\n\na\nlast")]);
    let dedup = |rest: &[&str]| {
        let arguments = [&["dedup", "--store", &url], rest].concat();
        site.semel(&arguments).done().stdout
    };
    assert_eq!(dedup(&["in"]), "b\na\n\nlast");
    assert_eq!(dedup(&["in"]), "");
    for _ in 0..2 {
        dedup(&["--pipeline", "other", "--to", "out", "in"]);
        assert_eq!(site.text("out"), "b\na\n\nlast\n");
    }
}

#[test]
fn every_operating_verb_works() {
    let database = Database::new();
    every_verb_works(&database.url());
}

#[test]
fn every_kind_of_item_goes_to_the_server_and_back_and_is_decided_as_before() {
    let database = Database::new();
    goes_round("embedded:data", &database.url(), "embedded:back");
}

#[test]
fn whoever_looks_makes_no_store() {
    let database = Database::new();
    nobody_who_looks_makes_a_store(&database.url());
}

#[test]
fn what_init_writes_runs_on_the_server() {
    for effect in ["sql", "file", "exec"] {
        let database = Database::new();
        let site = Site::new();
        site.semel(&["init", "shop", "--store", "mysql", "--effect", effect])
            .done();
        if effect == "sql" {
            let setup = site.text("shop/setup.sql");
            database.execute(
                &setup.replace("table charges", &format!("table {}.charges", database.name)),
            );
        }
        let mut command = site.command();
        command
            .current_dir(site.path("shop"))
            .args(["run", "--output", "json"])
            .env("SEMEL__STORE__URL", database.url());
        Running::start(&mut command).wait().done().summary().is(&[
            ("applied", 5),
            ("replayed", 3),
            ("conflicts", 1),
            ("quarantined", 1),
        ]);
    }
}

#[test]
fn a_store_that_is_away_is_waited_for() {
    let database = Database::new();
    let url = database.url();
    crate::servers::a_store_that_is_away_is_waited_for(&url, &crate::servers::place_of(&url));
}

#[test]
fn an_idle_worker_says_that_its_store_is_gone_and_that_it_is_back() {
    let database = Database::new();
    let url = database.url();
    let place = crate::servers::place_of(&url);
    crate::servers::an_idle_worker_says_that_its_store_is_gone_and_that_it_is_back(&url, &place);
}

#[test]
fn a_wait_for_the_store_ends_when_asked_to() {
    let database = Database::new();
    let url = database.url();
    crate::servers::a_wait_for_the_store_ends_when_asked_to(&url, &crate::servers::place_of(&url));
}

#[test]
fn a_server_that_cannot_be_used_is_told() {
    let database = Database::new();
    let url = database.url();
    let (place, _) = url.rsplit_once('/').expect("a database");
    for (url, code, words) in [
        (
            "mysql://me:c4n4ry@127.0.0.1:1/shop".to_owned(),
            3,
            "cannot be reached",
        ),
        (database.guarded("wrong"), 2, "MySQL"),
        (format!("{place}/no_such_database"), 2, "no_such_database"),
        (format!("{url}?prefx=a"), 2, "`prefx` that is not known"),
    ] {
        let config = format!(
            "[store]\nurl = \"{url}\"\n[pipelines.p]\nsource = {{ kind = \"stdin\" }}\nkey = \"line\"\n\
             effect = {{ kind = \"stdout\", on_doubt = \"repeat\" }}\n"
        );
        let site = Site::with(&[("semel.toml", &config)]);
        for verb in [&["run"][..], &["keys", "list"], &["store", "stats"]] {
            // A run waits for a server that is away.
            if code == 3 && verb == ["run"] {
                continue;
            }
            let ended = site.semel(verb).code(code).says(words);
            assert!(!ended.stderr.contains(PASSWORD), "{ended:?}");
        }
    }
    let config = "[pipelines.p]\nsource = { kind = \"stdin\" }\nkey = \"line\"\n\
                  effect = { kind = \"stdout\", on_doubt = \"repeat\" }\n";
    let site = Site::with(&[("semel.toml", config)]);
    let report = site
        .semel(&["check", "--output", "json", "--store", &url])
        .done();
    assert_eq!(object(&report)["store"]["survives"], "power-cut");
}

#[test]
fn no_verb_prints_the_password_of_its_store() {
    for how in Told::ALL {
        let database = Database::new();
        no_verb_prints_the_password(&database.guarded(PASSWORD), how);
    }
}

#[test]
fn no_failure_prints_the_password_of_its_store() {
    let database = Database::new();
    let wrong = database.guarded(&format!("{PASSWORD}-wrong"));
    for url in [
        &*wrong,
        &format!("{wrong}?ssl-mode=required"),
        &format!("{wrong}?password={PASSWORD}"),
        &format!("mysql://me:{PASSWORD}@127.0.0.1:1/db?x={PASSWORD}"),
        &format!("mysql://me:{PASSWORD}/{PASSWORD}@127.0.0.1:1/db"),
        &format!("mysql://me:{PASSWORD}@127.0.0.1:port/db"),
        &format!("mysql://{PASSWORD}:{PASSWORD}"),
        &format!("mariadb://me:%zz{PASSWORD}@127.0.0.1:1/db"),
    ] {
        no_failure_prints_the_password(url);
    }
}

const CHARGES: &str =
    "(payment_intent varchar(64) not null, amount bigint not null, currency char(3))";
const PAYMENTS: &str = include_str!("../../../../examples/payments/payments.ndjson");
