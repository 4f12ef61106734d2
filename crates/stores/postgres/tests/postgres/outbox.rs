//! The outbox: what is committed is seen, in its order, whenever it commits; and who may publish it.

use std::time::Duration;

use semel_core::outbox::{OutboxId, OutboxMessage, Outgoing, PARTITIONS, PartitionLease};
use semel_core::port::outbox::{OutboxStore, RelayName, Unsent};
use semel_core::{Code, ErrorKind};
use semel_store_postgres::{OUTBOX_FORMAT, Options, Outbox, PostgresOutbox, migrate};
use tokio_postgres::Client;

use crate::lab::Lab;

#[tokio::test]
async fn a_message_is_seen_if_its_transaction_commits() {
    let lab = Lab::new();
    let outbox = outbox(&lab).await;
    let mut client = lab.client().await;
    let lost = client.transaction().await.expect("a transaction");
    let mut lost = lost;
    publish(&mut lost, "lost", Some("k")).await;
    lost.rollback().await.expect("undone");
    let mut kept = client.transaction().await.expect("a transaction");
    let message = OutboxMessage::new("orders", "kept")
        .ordered_by("k")
        .with_header("kind", "\"paid\"");
    let id = Outbox::publish(&mut kept, &message).await.expect("an id");
    let leases = leases(&outbox, "one").await;
    assert_eq!(pending(&outbox, "one", &leases).await, [""; 0]);
    kept.commit().await.expect("committed");
    let seen = outbox
        .pending(&relay("one"), &leases, 10)
        .await
        .expect("rows");
    let [seen] = &*seen else { panic!("{seen:?}") };
    assert_eq!((seen.id, &*seen.payload), (id, &b"kept"[..]));
    assert_eq!(seen.order_key.as_deref(), Some("k"));
    let headers = seen.headers.as_ref().expect("headers");
    assert_eq!((&*headers[0].0, &*headers[0].1), ("kind", &b"\"paid\""[..]));
    assert_eq!(outbox.sent(&[id], false).await.expect("recorded"), 1);
    assert_eq!(outbox.sent(&[id], false).await.expect("repeated"), 0);
    assert_eq!(pending(&outbox, "one", &leases).await, [""; 0]);
}

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

#[tokio::test]
async fn messages_of_an_order_key_are_in_order_of_insertion_and_then_of_commit() {
    let lab = Lab::new();
    let outbox = outbox(&lab).await;
    let leases = leases(&outbox, "one").await;
    let (mut first, mut second) = (lab.client().await, lab.client().await);
    let mut late = first.transaction().await.expect("a transaction");
    publish(&mut late, "late 1", Some("k")).await;
    publish(&mut late, "late 2", Some("k")).await;
    insert(&mut second, "early", Some("k")).await;
    late.commit().await.expect("committed");
    insert(&mut second, "last", Some("k")).await;
    let mut strict = second
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::Serializable)
        .start()
        .await
        .expect("a transaction");
    publish(&mut strict, "strict", Some("k")).await;
    insert(&mut first, "between", Some("k")).await;
    strict.commit().await.expect("committed");
    let expected = ["early", "late 1", "late 2", "last", "between", "strict"];
    assert_eq!(pending(&outbox, "one", &leases).await, expected);
}

#[tokio::test]
async fn transactions_with_two_order_keys_in_two_orders_do_not_meet_in_a_deadlock() {
    let lab = Lab::new();
    let outbox = outbox(&lab).await;
    let leases = leases(&outbox, "one").await;
    let mut running = tokio::task::JoinSet::new();
    for number in 0..4 {
        let mut client = lab.client().await;
        running.spawn(async move {
            let keys = if number % 2 == 0 {
                ["a", "b"]
            } else {
                ["b", "a"]
            };
            for _ in 0..25 {
                let mut tx = client.transaction().await.expect("a transaction");
                for key in keys {
                    publish(&mut tx, key, Some(key)).await;
                }
                tx.commit().await.expect("no deadlock");
            }
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("every transaction committed");
    }
    assert_eq!(pending(&outbox, "one", &leases).await.len(), 200);
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
async fn what_was_put_off_or_is_dead_holds_up_its_order_key_and_no_other() {
    let lab = Lab::new();
    let outbox = outbox(&lab).await;
    let mut client = lab.client().await;
    for (text, key) in [("a 1", "a"), ("a 2", "a"), ("b 1", "b")] {
        insert(&mut client, text, Some(key)).await;
    }
    let leases = leases(&outbox, "one").await;
    let seen = outbox
        .pending(&relay("one"), &leases, 10)
        .await
        .expect("rows");
    let put_off = |wait| Unsent {
        id: seen[0].id,
        lease: lease_of(&leases, &seen[0]),
        error: "too\0large".into(),
        wait,
        counted: true,
    };
    let hour = Some(Duration::from_secs(3_600));
    let uncounted = Unsent {
        counted: false,
        ..put_off(hour)
    };
    let changed = outbox.put_off(&relay("one"), &[uncounted]).await;
    assert_eq!(changed.expect("put off"), 1);
    assert_eq!(pending(&outbox, "one", &leases).await, ["b 1"]);
    let changed = outbox.put_off(&relay("one"), &[put_off(hour)]).await;
    assert_eq!(changed.expect("put off"), 1);
    assert_eq!(pending(&outbox, "one", &leases).await, ["b 1"]);
    let changed = outbox.put_off(&relay("one"), &[put_off(None)]).await;
    assert_eq!(changed.expect("given up"), 1);
    insert(&mut client, "a 3", Some("a")).await;
    assert_eq!(pending(&outbox, "one", &leases).await, ["b 1"]);
    let contents = outbox.inspect("orders").await.expect("contents");
    assert_eq!((contents.waiting, contents.dead), (3, 1));
    let counted = "SELECT attempts FROM semel_outbox WHERE dead_at IS NOT NULL";
    let row = client.query_one(counted, &[]).await.expect("one dead");
    assert_eq!(row.get::<_, i32>(0), 2, "the tries that count");
    // A person decides to try it again: it is in its place.
    let again = "UPDATE semel_outbox SET due_at = NULL, dead_at = NULL, attempts = 0 WHERE dead_at IS NOT NULL \
                 RETURNING error";
    let row = client.query_one(again, &[]).await.expect("one dead");
    assert_eq!(row.get::<_, &str>(0), "toolarge");
    let expected = ["a 1", "a 2", "b 1", "a 3"];
    assert_eq!(pending(&outbox, "one", &leases).await, expected);
    let attempts = outbox.pending(&relay("one"), &leases, 1).await;
    assert_eq!(attempts.expect("rows")[0].attempts, 0);
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
    let later = PostgresOutbox::new(&url, &Options::default()).expect("an outbox");
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
async fn two_processes_share_the_partitions_and_one_that_is_fenced_changes_nothing() {
    let lab = Lab::new();
    let outbox = outbox(&lab).await;
    let mut client = lab.client().await;
    insert(&mut client, "a", Some("a")).await;
    let all = leases(&outbox, "one").await;
    assert_eq!(all.len(), usize::from(PARTITIONS));
    assert_eq!(leases(&outbox, "two").await, []);
    let half = leases(&outbox, "one").await;
    assert_eq!(half.len(), usize::from(PARTITIONS) / 2);
    let other = leases(&outbox, "two").await;
    assert_eq!(other.len(), usize::from(PARTITIONS) / 2);
    assert!(
        half.iter().all(|mine| all.contains(mine)),
        "kept with their tokens"
    );
    for theirs in &other {
        assert!(half.iter().all(|mine| mine.partition != theirs.partition));
    }
    // The first dies; its leases run out, and its successor has higher tokens.
    let dead = "UPDATE semel_outbox_leases SET until = '-infinity' WHERE holder = 'one'";
    client.execute(dead, &[]).await.expect("run out");
    let gone = "UPDATE semel_outbox_processes SET until = '-infinity' WHERE process = 'one'";
    client.execute(gone, &[]).await.expect("gone");
    let taken = leases(&outbox, "two").await;
    assert_eq!(taken.len(), usize::from(PARTITIONS));
    let seen = outbox
        .pending(&relay("two"), &taken, 10)
        .await
        .expect("rows");
    assert_eq!(texts(&seen), ["a"]);
    assert_eq!(pending(&outbox, "one", &all).await, [""; 0]);
    let stale = Unsent {
        id: seen[0].id,
        lease: lease_of(&all, &seen[0]),
        error: "stale".into(),
        wait: None,
        counted: true,
    };
    let changed = outbox.put_off(&relay("one"), &[stale]).await;
    assert_eq!(changed.expect("answered"), 0);
    outbox.leave(&relay("two")).await.expect("left");
    assert_eq!(leases(&outbox, "one").await.len(), usize::from(PARTITIONS));
}

#[tokio::test]
async fn a_process_that_renews_its_leases_is_there_for_the_others() {
    let lab = Lab::new();
    let outbox = outbox(&lab).await;
    let client = lab.client().await;
    leases(&outbox, "one").await;
    let soon =
        "UPDATE semel_outbox_processes SET until = clock_timestamp() + interval '100 seconds'";
    client.execute(soon, &[]).await.expect("it ends soon");
    let one = relay("one");
    let renewed = outbox.lease(&one, Duration::from_secs(300), false);
    let renewed = renewed.await.expect("leases");
    assert_eq!(renewed.len(), usize::from(PARTITIONS));
    let is_there =
        "SELECT until > clock_timestamp() + interval '200 seconds' FROM semel_outbox_processes";
    let row = client.query_one(is_there, &[]).await.expect("a process");
    assert!(
        row.get::<_, bool>(0),
        "the process lives as long as its leases"
    );
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
async fn a_stream_has_one_relay_and_that_one_sink() {
    let lab = Lab::new();
    let outbox = outbox(&lab).await;
    leases(&outbox, "one").await;
    let lease = Duration::from_secs(30);
    let elsewhere = RelayName {
        sink: "file /elsewhere".into(),
        ..relay("two")
    };
    let named = RelayName {
        name: "other".into(),
        ..relay("two")
    };
    for (name, why) in [
        (&elsewhere, "give both the same sink"),
        (&named, "stop that one first"),
    ] {
        let error = outbox.lease(name, lease, true).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains(why), "{error}");
    }
    outbox.leave(&relay("one")).await.expect("left");
    let moved = outbox
        .lease(&elsewhere, lease, true)
        .await
        .expect("adopted");
    assert_eq!(moved.len(), usize::from(PARTITIONS));
}

#[tokio::test]
async fn published_messages_are_kept_for_a_while_if_that_is_wanted() {
    let lab = Lab::new();
    let outbox = outbox(&lab).await;
    let mut client = lab.client().await;
    for text in ["a", "b", "c"] {
        insert(&mut client, text, None).await;
    }
    let leases = leases(&outbox, "one").await;
    let seen = outbox
        .pending(&relay("one"), &leases, 10)
        .await
        .expect("rows");
    let ids: Vec<OutboxId> = seen.iter().map(|it| it.id).collect();
    assert_eq!(outbox.sent(&ids, true).await.expect("kept"), 3);
    assert_eq!(pending(&outbox, "one", &leases).await, [""; 0]);
    let day = Duration::from_secs(86_400);
    assert_eq!(outbox.forget("orders", day, 10).await.expect("none"), 0);
    let old = "UPDATE semel_outbox SET sent_at = sent_at - interval '2 days'";
    client.execute(old, &[]).await.expect("older");
    assert_eq!(outbox.forget("orders", day, 2).await.expect("two"), 2);
    assert_eq!(outbox.forget("orders", day, 2).await.expect("one"), 1);
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
    let absent = PostgresOutbox::new(&lab.site.url(), &Options::default()).expect("a url");
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

async fn outbox(lab: &Lab) -> PostgresOutbox {
    let url = lab.site.url();
    migrate(&url, Options::default()).await.expect("a store");
    PostgresOutbox::new(&url, &Options::default()).expect("an outbox")
}

fn relay(process: &str) -> RelayName {
    RelayName {
        name: "out".into(),
        stream: "orders".into(),
        sink: "file orders.ndjson".into(),
        process: process.into(),
    }
}

async fn leases(outbox: &PostgresOutbox, process: &str) -> Vec<PartitionLease> {
    let relay = relay(process);
    let leases = outbox.lease(&relay, Duration::from_secs(300), true);
    let mut leases = leases.await.expect("leases");
    leases.sort_by_key(|it| it.partition);
    leases
}

fn lease_of(leases: &[PartitionLease], message: &Outgoing) -> PartitionLease {
    let mut leases = leases.iter().copied();
    let lease = leases.find(|it| it.partition == message.partition);
    lease.expect("the lease of its partition")
}

async fn pending(outbox: &PostgresOutbox, process: &str, leases: &[PartitionLease]) -> Vec<String> {
    let seen = outbox.pending(&relay(process), leases, 400).await;
    texts(&seen.expect("rows"))
}

fn texts(messages: &[Outgoing]) -> Vec<String> {
    let texts = messages
        .iter()
        .map(|it| String::from_utf8_lossy(&it.payload).into_owned());
    texts.collect()
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
    Outbox::publish(tx, &message).await.expect("an id");
}
