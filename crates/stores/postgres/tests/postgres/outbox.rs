//! The outbox: its laws, and what is PostgreSQL's own.

use std::time::Duration;

use semel_conformance::outbox::readers::{leases, pending, relay, texts};
use semel_conformance::outbox::{Change, Ending, OutboxSubject};
use semel_core::outbox::{OutboxId, OutboxMessage, PARTITIONS};
use semel_core::port::outbox::{OutboxContents, OutboxStore};
use semel_core::{Code, ErrorKind};
use semel_store_postgres::{OUTBOX_FORMAT, Options, PostgresOutbox, PostgresOutboxStore, migrate};
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use crate::lab::Lab;
use crate::site::Site;

#[tokio::test]
async fn a_transaction_that_commits_late_is_not_missed() {
    let lab = Lab::new();
    let outbox = outbox(&lab).await;
    let leases = leases(&outbox, "one").await;
    let (mut late, mut early) = (lab.client().await, lab.client().await);
    let mut late = late.transaction().await.expect("a transaction");
    publish(&mut late, "late", None).await;
    for number in 0..3 {
        insert(&mut early, &format!("early {number}"), None).await;
    }
    let seen = outbox
        .pending(&relay("one"), &leases, 10)
        .await
        .expect("rows");
    assert_eq!(texts(&seen), ["early 0", "early 1", "early 2"]);
    let ids: Vec<OutboxId> = seen.iter().map(|it| it.id).collect();
    outbox.sent(&ids, false).await.expect("recorded");
    late.commit().await.expect("committed");
    assert_eq!(pending(&outbox, "one", &leases).await, ["late"]);
}

/// The server would end the transaction after 30 s otherwise.
#[tokio::test]
async fn a_relay_that_stands_still_while_it_divides_the_partitions_holds_up_others_for_a_lease() {
    let lab = Lab::new();
    let second = outbox(&lab).await;
    let mut first = lab.client().await;
    let tx = first.transaction().await.expect("a transaction");
    let (one, two) = (relay("one"), relay("two"));
    let of = [&*one.stream, &*one.name, &*one.sink, "1500"];
    let of = of.each_ref().map(|it| it as &(dyn ToSql + Sync));
    let first_statement = include_str!("../../schema/outbox_relay.sql");
    tx.query_one(first_statement, &of)
        .await
        .expect("the row of the stream");
    let waits = second.lease(&two, Duration::from_millis(1_500), true);
    let waited = tokio::time::timeout(Duration::from_secs(20), waits).await;
    waited.expect("in time").expect("leases");
}

/// A kill of the server takes the statistics with it, and a new stream has none.
#[tokio::test]
async fn a_batch_is_read_by_looking_each_order_key_up_whatever_the_statistics_say() {
    let lab = Lab::new();
    let outbox = outbox(&lab).await;
    let leases = leases(&outbox, "one").await;
    let client = lab.client().await;
    let put_off = "alter table semel_outbox set (autovacuum_enabled = false);
        insert into semel_outbox (stream, order_key, payload) select 'bills', 'k', 'x' from generate_series(1, 2000);
        analyze semel_outbox;
        insert into semel_outbox (stream, order_key, payload)
            select 'orders', 'k' || (i % 40), 'x' from generate_series(1, 40000) as i;
        update semel_outbox set due_at = clock_timestamp() - interval '1 minute' where stream = 'orders'";
    client.batch_execute(put_off).await.expect("messages");
    let relay = relay("one");
    let read = outbox.pending(&relay, &leases, 400).await;
    assert_eq!(read.expect("rows").len(), 400);
    let partitions: Vec<i16> = leases
        .iter()
        .map(|it| i16::try_from(it.partition).expect("a small number"))
        .collect();
    let tokens: Vec<i64> = leases.iter().map(|it| it.token).collect();
    let plan = client
        .query(
            &format!(
                "EXPLAIN {}",
                include_str!("../../schema/outbox_pending.sql")
            ),
            &[
                &&*relay.stream,
                &&*relay.process,
                &partitions,
                &tokens,
                &400_i64,
                &i64::MIN,
                &1_000_000_i64,
            ],
        )
        .await
        .expect("a plan");
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    let plan = plan.join("\n");
    // Otherwise each message is compared with all that were put off, which takes half a minute.
    let looks_up = |line: &str| line.contains("Index Cond") && line.contains("order_key = ");
    assert!(plan.lines().any(looks_up), "{plan}");
    assert!(!plan.contains("Anti Join"), "{plan}");
}

#[tokio::test]
async fn a_stricter_isolation_keeps_the_order_of_commits() {
    let lab = Lab::new();
    let outbox = outbox(&lab).await;
    let leases = leases(&outbox, "one").await;
    let (mut first, mut second) = (lab.client().await, lab.client().await);
    let mut strict = second
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::Serializable)
        .start()
        .await
        .expect("a transaction");
    publish(&mut strict, "strict", Some("k")).await;
    insert(&mut first, "between", Some("k")).await;
    strict.commit().await.expect("committed");
    let expected = ["between", "strict"];
    assert_eq!(pending(&outbox, "one", &leases).await, expected);
}

#[tokio::test]
async fn a_transaction_with_thousands_of_order_keys_takes_a_bounded_number_of_locks() {
    let lab = Lab::new();
    let outbox = outbox(&lab).await;
    let mut client = lab.client().await;
    let tx = client.transaction().await.expect("a transaction");
    tx.batch_execute(
        "INSERT INTO semel_outbox (stream, order_key, payload) \
         SELECT 'orders', 'k' || i, 'x' FROM generate_series(1, 3000) AS i; SET CONSTRAINTS ALL IMMEDIATE",
    )
    .await
    .expect("arranged");
    let locks =
        "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'";
    let row = tx.query_one(locks, &[]).await.expect("a count");
    let count: i64 = row.get(0);
    assert!((1..=1_024).contains(&count), "{count}");
    tx.commit().await.expect("committed");
    let leases = leases(&outbox, "one").await;
    assert_eq!(pending(&outbox, "one", &leases).await.len(), 400);
}

#[tokio::test]
async fn what_runs_with_the_rights_of_its_owner_calls_no_function_that_others_made() {
    let lab = Lab::new();
    let outbox = outbox(&lab).await;
    let mut client = lab.client().await;
    let planted = "CREATE FUNCTION hashtext(text) RETURNS integer LANGUAGE plpgsql AS \
                   $$ BEGIN RAISE EXCEPTION 'with the rights of another'; END $$";
    client.batch_execute(planted).await.expect("a function");
    insert(&mut client, "a", Some("a")).await;
    let leases = leases(&outbox, "one").await;
    assert_eq!(pending(&outbox, "one", &leases).await, ["a"]);
}

#[tokio::test]
async fn a_message_that_comes_due_while_it_is_looked_for_is_not_overtaken() {
    let lab = Lab::new();
    let outbox = outbox(&lab).await;
    let mut client = lab.client().await;
    for text in ["a 1", "a 2"] {
        insert(&mut client, text, Some("a")).await;
    }
    let leases = leases(&outbox, "one").await;
    // A clock that is an hour later whenever it is looked at.
    let clock = "UPDATE semel_outbox_leases SET until = 'infinity'; CREATE SEQUENCE hours; \
                 CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS \
                 'SELECT pg_catalog.clock_timestamp() + nextval(''hours'') * interval ''1 hour'''";
    client.batch_execute(clock).await.expect("a clock");
    let url = format!("{}%2Cpg_catalog", lab.site.url());
    let later = PostgresOutboxStore::new(&url, &Options::default()).expect("an outbox");
    for hours in 0..48 {
        let due = format!(
            "UPDATE semel_outbox SET due_at = pg_catalog.clock_timestamp() + interval '{hours}.5 hours' \
             WHERE payload = 'a 1'; SELECT setval('hours', 1)"
        );
        client.batch_execute(&due).await.expect("put off");
        assert_eq!(pending(&later, "one", &leases).await, [""; 0], "{hours}");
    }
}

#[tokio::test]
async fn a_batch_ends_with_the_message_that_fills_its_bytes() {
    let lab = Lab::new();
    let outbox = outbox(&lab).await;
    let client = lab.client().await;
    let leases = leases(&outbox, "one").await;
    let large = "INSERT INTO semel_outbox (stream, payload) \
                 SELECT 'orders', convert_to(repeat('x', 6 << 20), 'UTF8') FROM generate_series(1, 4)";
    client.execute(large, &[]).await.expect("inserted");
    assert_eq!(pending(&outbox, "one", &leases).await.len(), 3);
    let larger = "UPDATE semel_outbox SET payload = convert_to(repeat('x', 17 << 20), 'UTF8')";
    client.execute(larger, &[]).await.expect("changed");
    assert_eq!(pending(&outbox, "one", &leases).await.len(), 1);
}

#[tokio::test]
async fn a_lease_that_is_renewed_while_another_process_reaches_for_it_stays() {
    let lab = Lab::new();
    let outbox = outbox(&lab).await;
    let (mut client, watcher) = (lab.client().await, lab.client().await);
    leases(&outbox, "one").await;
    let dead =
        "UPDATE semel_outbox_leases SET until = '-infinity'; DELETE FROM semel_outbox_processes";
    client.batch_execute(dead).await.expect("run out");
    let renewing = client.transaction().await.expect("a transaction");
    let renew = "UPDATE semel_outbox_leases SET until = 'infinity' WHERE part = 7";
    renewing.execute(renew, &[]).await.expect("renewed");
    let taking = tokio::spawn(async move { leases(&outbox, "two").await });
    let waits = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%semel_outbox_leases%' \
         AND pg_blocking_pids(pid) <> '{{}}' AND {} = ANY (pg_blocking_pids(pid))",
        renewing
            .query_one("SELECT pg_backend_pid()", &[])
            .await
            .expect("a process")
            .get::<_, i32>(0)
    );
    let waiting = async {
        while watcher
            .query_one(&waits, &[])
            .await
            .expect("a count")
            .get::<_, i64>(0)
            == 0
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waiting = tokio::time::timeout(Duration::from_secs(120), waiting).await;
    waiting.expect("it waits for the row");
    renewing.commit().await.expect("committed");
    let taken = taking.await.expect("leases");
    assert_eq!(taken.len(), usize::from(PARTITIONS) - 1);
    assert!(taken.iter().all(|it| it.partition != 7), "{taken:?}");
}

#[tokio::test]
async fn the_right_to_insert_is_enough_and_wakes_the_relay() {
    let lab = Lab::new();
    let outbox = outbox(&lab).await;
    let mut client = lab.client().await;
    let role = format!("{}_writer", lab.schema());
    let grants = format!(
        "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT INSERT ON semel_outbox TO {role};",
        schema = lab.schema()
    );
    client.batch_execute(&grants).await.expect("a role");
    // What was committed before it listened.
    outbox.committed().await.expect("it listens");
    let plain = format!(
        "SET ROLE {role}; INSERT INTO semel_outbox (stream, order_key, headers, payload) \
         VALUES ('orders', 'k', '{{\"a\": \"b\"}}', '{{\"paid\": true}}'); RESET ROLE"
    );
    client.batch_execute(&plain).await.expect("inserted");
    tokio::time::timeout(Duration::from_secs(120), outbox.committed())
        .await
        .expect("it was heard")
        .expect("an answer");
    let leases = leases(&outbox, "one").await;
    assert_eq!(pending(&outbox, "one", &leases).await, ["{\"paid\": true}"]);
    let row = client
        .query_one("SELECT id::text FROM semel_outbox", &[])
        .await
        .expect("a row");
    let id: &str = row.get(0);
    assert_eq!(id.as_bytes()[14], b'7', "a UUIDv7: {id}");
    // The same of the statement that returns an id.
    let set = format!("SET ROLE {role}");
    client.batch_execute(&set).await.expect("the role");
    insert(&mut client, "published", Some("k")).await;
    let reset = "RESET ROLE";
    client.batch_execute(reset).await.expect("the owner");
    let expected = ["{\"paid\": true}", "published"];
    assert_eq!(pending(&outbox, "one", &leases).await, expected);
    let drop = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    client.batch_execute(&drop).await.expect("dropped");
}

#[tokio::test]
async fn an_outbox_that_is_missing_or_newer_is_refused() {
    let lab = Lab::new();
    lab.store().await;
    let absent = PostgresOutboxStore::new(&lab.site.url(), &Options::default()).expect("a url");
    let one = relay("one");
    let refused = absent.lease(&one, Duration::from_secs(30), true);
    let error = refused.await.expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("semel store migrate"), "{error}");
    assert_eq!(absent.format().await.expect("an answer"), None);

    let newer = outbox(&lab).await;
    assert_eq!(
        newer.format().await.expect("an answer"),
        Some(OUTBOX_FORMAT)
    );
    let client = lab.client().await;
    let change = "UPDATE semel_outbox_format SET format = format + 1";
    client.execute(change, &[]).await.expect("changed");
    let refused = newer.lease(&one, Duration::from_secs(30), true);
    let error = refused.await.expect_err("it is newer");
    assert_eq!(error.code(), Code::StoreNewer);
    // A second migration leaves it as it is.
    migrate(&lab.site.url(), Options::default())
        .await
        .expect("nothing to do");
}

/// A schema with an outbox, for the laws.
struct Shop(Site);

impl OutboxSubject for Shop {
    type Outbox = PostgresOutboxStore;

    async fn open() -> Self {
        let site = Site::new();
        let made = migrate(&site.url(), Options::default()).await;
        made.expect("a store");
        Self(site)
    }

    async fn outbox(&self) -> PostgresOutboxStore {
        PostgresOutboxStore::new(&self.0.url(), &Options::default()).expect("an outbox")
    }

    fn transact(
        &self,
        messages: Vec<OutboxMessage>,
        ending: impl Future<Output = Ending> + Send + 'static,
    ) -> impl Future<Output = Vec<OutboxId>> + Send + 'static {
        let connecting = self.0.connecting();
        async move {
            let mut client = connecting.await;
            let mut tx = client.transaction().await.expect("a transaction");
            let mut ids = Vec::with_capacity(messages.len());
            for it in &messages {
                ids.push(PostgresOutbox::publish(&mut tx, it).await.expect("an id"));
            }
            match ending.await {
                Ending::Commit => tx.commit().await.expect("committed, and no deadlock"),
                Ending::Rollback => tx.rollback().await.expect("undone"),
            }
            ids
        }
    }

    async fn alter(&self, change: Change) {
        let sql = match change {
            Change::RunOut { process } => format!(
                "UPDATE semel_outbox_leases SET until = '-infinity' WHERE holder = '{process}';
                 UPDATE semel_outbox_processes SET until = '-infinity' WHERE process = '{process}'"
            ),
            Change::PublishedEarlier(by) => format!(
                "UPDATE semel_outbox SET sent_at = sent_at - interval '{} seconds'",
                by.as_secs()
            ),
            Change::TryAgain => "UPDATE semel_outbox SET due_at = NULL, dead_at = NULL, \
                                 attempts = 0 WHERE dead_at IS NOT NULL"
                .to_owned(),
        };
        let changed = self.0.client().await.batch_execute(&sql).await;
        changed.expect("changed");
    }

    async fn dead(&self) -> Vec<(i64, String)> {
        let dead = "SELECT attempts::bigint, error FROM semel_outbox WHERE dead_at IS NOT NULL";
        let rows = self.0.client().await.query(dead, &[]).await.expect("rows");
        let rows = rows.iter().map(|row| (row.get(0), row.get(1)));
        rows.collect()
    }

    async fn contents(outbox: &PostgresOutboxStore, stream: &str) -> OutboxContents {
        outbox.inspect(stream).await.expect("contents")
    }
}

semel_conformance::outbox_laws!(Shop);

async fn outbox(lab: &Lab) -> PostgresOutboxStore {
    let url = lab.site.url();
    migrate(&url, Options::default()).await.expect("a store");
    PostgresOutboxStore::new(&url, &Options::default()).expect("an outbox")
}

async fn insert(client: &mut Client, text: &str, key: Option<&str>) {
    let mut tx = client.transaction().await.expect("a transaction");
    publish(&mut tx, text, key).await;
    tx.commit().await.expect("committed");
}

async fn publish(tx: &mut tokio_postgres::Transaction<'_>, text: &str, key: Option<&str>) {
    let message = OutboxMessage::new("orders", text.to_owned());
    let message = match key {
        Some(key) => message.ordered_by(key),
        None => message,
    };
    PostgresOutbox::publish(tx, &message).await.expect("an id");
}
