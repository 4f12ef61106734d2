//! Servers whose settings are against us, and servers that promise less.

use std::sync::{Arc, OnceLock};

use mysql_async::prelude::Queryable;
use semel_conformance::{Subject, TestClock, store_cases};
use semel_core::port::store::Durability;
use semel_core::{Certainty, Code, Store};
use semel_store_mysql::{MysqlStore, Options, inspect};

use crate::database::Database;
use crate::database_pool::PooledDatabase;
use crate::own::Server;

/// Settings as MySQL 8 comes, and every default that could catch a store out.
const HOSTILE: &[&str] = &[
    "--log-bin=binlog",
    "--binlog-format=ROW",
    "--innodb-autoinc-lock-mode=2",
    "--auto-increment-increment=3",
    "--auto-increment-offset=2",
    "--transaction-isolation=SERIALIZABLE",
    "--autocommit=0",
    "--completion-type=CHAIN",
    "--default-time-zone=+09:30",
    "--sysdate-is-now",
    "--sql-mode=ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,NO_AUTO_VALUE_ON_ZERO,PAD_CHAR_TO_FULL_LENGTH",
    "--sql-safe-updates=1",
    "--character-set-server=latin1",
    "--collation-server=latin1_swedish_ci",
    "--default-storage-engine=MyISAM",
    "--lower-case-table-names=1",
    "--innodb-lock-wait-timeout=1000",
    "--innodb-default-row-format=compact",
    "--max-allowed-packet=4M",
];

static URL: OnceLock<String> = OnceLock::new();

struct Hostile {
    _database: PooledDatabase,
    clock: TestClock,
    store: Arc<MysqlStore>,
}

impl Subject for Hostile {
    type Store = MysqlStore;

    async fn open() -> Self {
        let database = PooledDatabase::on(URL.get().expect("a server")).await;
        let clock = TestClock::new();
        let mut options = Options::default();
        options.clock = Some(Arc::new(clock.clone()));
        let store = MysqlStore::connect(&database.database().url(), options)
            .await
            .expect("a store");
        Self {
            _database: database,
            clock,
            store: Arc::new(store),
        }
    }

    fn store(&self) -> &Arc<MysqlStore> {
        &self.store
    }

    fn clock(&self) -> Option<&TestClock> {
        Some(&self.clock)
    }
}

#[test]
fn a_server_whose_defaults_are_all_against_us_keeps_the_laws() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let server = runtime.block_on(Server::with(HOSTILE));
    URL.set(server.url("mysql")).expect("one server");
    let cases = store_cases::<Hostile>();
    assert!(cases.len() > 200, "{} cases", cases.len());
    for case in cases {
        // A failure is a panic that names the law.
        case.run();
    }
}

#[tokio::test]
async fn a_read_only_server_is_refused_whoever_asks() {
    let server = Server::with(&[]).await;
    let database = Database::on(&server.url("mysql")).await;
    let plain = format!("'plain'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'");
    database.run(&format!("CREATE USER {plain}")).await;
    database
        .run("GRANT ALL ON *.* TO 'plain'@'127.0.0.1'")
        .await;
    database
        .run("REVOKE SUPER, READ_ONLY ADMIN ON *.* FROM 'plain'@'127.0.0.1'")
        .await;
    let url = database
        .url()
        .replace("root@", &format!("plain:{PASSWORD}@"));
    let store = MysqlStore::connect(&url, Options::default())
        .await
        .expect("a store");
    let _ = store.stats().await.expect("counts");
    database.run("SET GLOBAL read_only = 1").await;
    let scope = semel_core::Scope::new("", "payments").expect("a scope");
    let key = semel_core::Key::parse("a").expect("a key");
    let request = semel_core::ClaimRequest::new(scope, key, semel_core::ClaimId::from_u128(1));
    let error = store
        .claim([request.clone()].into())
        .await
        .expect_err("read-only");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreReadOnly, Certainty::NotApplied),
        "{error:?}"
    );
    assert_eq!(
        store.stats().await.expect("reading goes on").records,
        [0; 6]
    );
    for url in [&url, &database.url()] {
        let error = MysqlStore::connect(url, Options::default())
            .await
            .expect_err("read-only");
        assert_eq!(error.code(), Code::StoreReadOnly, "{error:?}");
        let inspection = inspect(url, Options::default(), &[])
            .await
            .expect("an inspection");
        assert_eq!(inspection.format, Some(semel_store_mysql::FORMAT));
        let unfit = inspection.unfit.map(|error| error.code());
        assert_eq!(unfit, Some(Code::StoreReadOnly));
    }
    database.run("SET GLOBAL read_only = 0").await;
    let inspection = inspect(&url, Options::default(), &[])
        .await
        .expect("an inspection");
    assert!(inspection.unfit.is_none(), "{:?}", inspection.unfit);
    let answers = store.claim([request].into()).await.expect("answers");
    assert!(
        matches!(answers[..], [semel_core::Admission::Granted(_)]),
        "without a new start"
    );
}

#[tokio::test]
async fn settings_that_weaken_the_promise_are_reported() {
    let server = Server::with(&["--log-bin=binlog", "--sync-binlog=1"]).await;
    let database = Database::on(&server.url("mysql")).await;
    let store = MysqlStore::connect(&database.url(), Options::default())
        .await
        .expect("a store");
    let mut connection = database.connect().await;
    for (setting, expected, words) in [
        ("sync_binlog = 1", Durability::PowerCut, ""),
        ("sync_binlog = 0", Durability::Kill, "sync_binlog"),
        (
            "innodb_flush_log_at_trx_commit = 2",
            Durability::Kill,
            "trx_commit is 2",
        ),
        (
            "innodb_flush_log_at_trx_commit = 0",
            Durability::Process,
            "trx_commit is not 1",
        ),
        (
            "max_allowed_packet = 1048576",
            Durability::PowerCut,
            "max_allowed_packet",
        ),
    ] {
        connection
            .query_drop(format!("SET GLOBAL {setting}"))
            .await
            .expect("a setting");
        // The size of packets is one of the session as well.
        let fresh = MysqlStore::connect(&database.url(), Options::default())
            .await
            .expect("a store");
        let found = fresh.preflight().await.expect("capabilities");
        assert_eq!(found.durability, expected, "{setting}: {found:?}");
        let warned = found.warnings.iter().any(|warning| warning.contains(words));
        assert_eq!(warned, !words.is_empty(), "{setting}: {found:?}");
        for (name, usual) in [
            ("sync_binlog", "1"),
            ("innodb_flush_log_at_trx_commit", "1"),
            ("max_allowed_packet", "16777216"),
        ] {
            connection
                .query_drop(format!("SET GLOBAL {name} = {usual}"))
                .await
                .expect("a setting");
        }
    }
    drop(store);
}

#[tokio::test]
async fn a_binary_log_by_statement_is_refused_in_plain_words() {
    let server = Server::with(&["--log-bin=binlog", "--binlog-format=STATEMENT"]).await;
    let database = Database::on(&server.url("mysql")).await;
    let error = MysqlStore::connect(&database.url(), Options::default())
        .await
        .expect_err("no store");
    assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
    assert!(
        error.to_string().contains("binlog_format = STATEMENT"),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_without_a_connection_left_says_so() {
    let server = Server::with(&["--max-connections=10"]).await;
    let database = Database::on(&server.url("mysql")).await;
    let mut all = Vec::new();
    let opts = mysql_async::OptsBuilder::from_opts(
        mysql_async::Opts::from_url(&database.url()).expect("a url"),
    )
    .prefer_socket(false);
    while let Ok(connection) = mysql_async::Conn::new(opts.clone()).await {
        all.push(connection);
    }
    let error = MysqlStore::connect(&database.url(), Options::default())
        .await
        .expect_err("no room");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreUnavailable, Certainty::NotApplied)
    );
    assert!(error.to_string().contains("max_connections"), "{error}");
    for connection in all {
        connection.disconnect().await.expect("an end");
    }
}

const PASSWORD: &str = "geheim-4711";
