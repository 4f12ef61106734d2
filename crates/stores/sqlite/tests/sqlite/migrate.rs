//! Files of an earlier format: `golden/v1.db` was written by the code of format 1.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::Connection;
use semel_core::decide::{Directed, Directive, Order};
use semel_core::port::checkpoint::CheckpointStore;
use semel_core::port::store::ListQuery;
use semel_core::{
    Admission, AttemptEnd, ClaimId, ClaimRequest, ErrorKind, Fingerprint, Key, Members, Note,
    Operation, Outcome, Record, Recovery, Scope, Settled, Settlement, State, StateKind, Step,
    Store, Timestamp, VersionGate,
};
use semel_store_sqlite::{InboxSteps, Options, SqliteStore};

use crate::lab::Lab;

#[tokio::test]
async fn a_file_of_format_1_is_brought_forward_with_all_that_it_holds() {
    let lab = of_format_1();
    let store = lab.store();
    let claimed_at = Timestamp::from_millis(1_795_257_180_000);
    for (key, kind, attempts) in [
        ("claimed", StateKind::Claimed, 1),
        ("started", StateKind::Started, 1),
        ("released", StateKind::Released, 1),
        ("completed", StateKind::Completed, 1),
        ("dead", StateKind::Dead, 1),
        ("in doubt", StateKind::InDoubt, 1),
        ("taken over", StateKind::Claimed, 2),
    ] {
        let record = read(&store, key).await;
        assert_eq!((record.state.kind(), record.attempts), (kind, attempts));
        assert_eq!(
            (record.created_at, record.claimed_at),
            (claimed_at, claimed_at)
        );
        assert_eq!(record.past, [], "nothing is known of the attempts before");
        assert_eq!(record.transport.as_deref(), Some(&b"event-1"[..]));
    }
    let started = read(&store, "started").await;
    assert!(matches!(
        started.state,
        State::Started {
            recovery: Recovery::Park,
            ..
        }
    ));
    let dead = read(&store, "dead").await;
    assert_eq!(
        (dead.held, dead.last_error.as_deref()),
        (true, Some("400 from the provider"))
    );
    let completed = read(&store, "completed").await;
    let expected = Outcome::Kept {
        codec: 3,
        bytes: Bytes::from_static(b"\x00\xff done"),
    };
    assert_eq!(completed.outcome, Some(expected));
    assert_eq!(completed.gate.map(|gate| gate.version), Some(5));
    let too_large = read(&store, "too large").await;
    assert!(matches!(
        too_large.outcome,
        Some(Outcome::TooLarge {
            len_bytes: 0x100_0000_0000,
            digest: [9, ..]
        })
    ));
    let parked = store.list_parked(&page()).await.expect("a page").items;
    assert_eq!((parked.len(), &*parked[0].coordinates), (1, "file:5"));
    assert_eq!(parked[0].headers[0].1, Bytes::from_static(b"\xff1"));
    assert_eq!(store.mark("out").await.expect("a mark"), Some(u64::MAX));
    assert!(lab.is_sound());
}

#[tokio::test]
async fn a_file_of_format_1_decides_as_before_and_tells_its_attempts_from_here_on() {
    let lab = of_format_1();
    let store = lab.store();
    let vanished = claim(&store, &request("claimed", 91)).await;
    let Admission::Granted(second) = vanished else {
        panic!("its lease is over: {vanished:?}")
    };
    assert_eq!((second.token.get(), second.takeover), (10, true));
    let record = read(&store, "claimed").await;
    assert_eq!(record.past[0].end, AttemptEnd::Vanished);
    assert_eq!(record.past[0].claim_id, ClaimId::from_u128(1));
    assert_eq!(record.claimed_at, Timestamp::from_millis(1_795_257_240_000));
    for (key, expected) in [("started", StateKind::InDoubt), ("dead", StateKind::Dead)] {
        let answer = claim(&store, &request(key, 91)).await;
        assert!(matches!(answer, Admission::Parked { state, .. } if state == expected));
    }
    let other = ClaimRequest {
        fingerprint: Some(Fingerprint {
            scheme: 1,
            digest: [8; 16],
        }),
        ..request("completed", 91)
    };
    assert!(matches!(
        claim(&store, &other).await,
        Admission::Conflict { .. }
    ));
    let stale = ClaimRequest {
        gate: Some(VersionGate {
            entity: Key::parse("cart").expect("a key"),
            version: 5,
        }),
        ..request("another", 91)
    };
    assert!(matches!(
        claim(&store, &stale).await,
        Admission::Stale { applied: 5 }
    ));
    let late = Settlement {
        operation: operation("in doubt"),
        claim_id: ClaimId::from_u128(6),
        step: Step::Complete {
            outcome: Outcome::empty(),
            window: semel_core::Window::DEFAULT,
        },
    };
    let settled = store.settle([late].into()).await.expect("an answer");
    assert!(matches!(settled[..], [Settled::Now(StateKind::Completed)]));
    let release = Directive {
        operation: operation("released"),
        order: Order::Release,
        note: Some(Note {
            by: "on call".into(),
            reason: "now".into(),
        }),
    };
    let directed = store.operate([release].into()).await.expect("an answer");
    assert!(matches!(
        directed[..],
        [Directed::Now(Some(StateKind::Released))]
    ));
    assert_eq!(
        store.list_audit(&page()).await.expect("a page").items.len(),
        1
    );
    drop(store);
    let store = lab.store();
    assert_eq!(read(&store, "claimed").await, record);
}

#[tokio::test]
async fn a_file_of_format_2_is_brought_forward_and_keeps_members_from_there_on() {
    let lab = of_format_1();
    let connection = lab.connection();
    let to_2 = include_str!("../../schema/migrate_2.sql");
    connection.execute_batch(to_2).expect("format 2");
    assert_eq!(format(&connection), 2);
    let store = lab.store();
    assert_eq!(format(&connection), 3);
    assert_eq!(read(&store, "completed").await.members, None);
    let members = Members::from_bytes(&[1, 2, 3, 4, 5]);
    let with = |claim_id, digest| ClaimRequest {
        fingerprint: Some(Fingerprint {
            scheme: 1,
            digest: [digest; 16],
        }),
        members: members.clone(),
        ..request("new", claim_id)
    };
    assert!(matches!(
        claim(&store, &with(91, 1)).await,
        Admission::Granted(_)
    ));
    assert!(matches!(
        claim(&store, &with(92, 2)).await,
        Admission::Conflict { first, .. } if first == members
    ));
    assert!(lab.is_sound());
}

#[test]
fn a_migrated_file_has_the_tables_of_a_new_one() {
    let (old, new) = (of_format_1(), Lab::new());
    drop((old.store(), new.store()));
    assert_eq!(shape(&old.connection()), shape(&new.connection()));
}

#[test]
fn opening_a_migrated_file_again_changes_nothing() {
    let lab = of_format_1();
    drop(lab.store());
    let migrated = fs::read(lab.path()).expect("the file");
    drop(lab.store());
    assert!(fs::read(lab.path()).expect("the file") == migrated);
}

#[test]
fn opening_an_old_file_from_many_threads_at_once_migrates_it_once() {
    let lab = of_format_1();
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| drop(lab.store()));
        }
    });
    assert_eq!(format(&lab.connection()), 3);
    assert!(lab.is_sound());
}

#[test]
fn an_inbox_brings_the_file_forward_as_well() {
    let lab = of_format_1();
    let connection = lab.connection();
    InboxSteps::open(&connection, lab.clock.clone()).expect("an inbox");
    assert_eq!(format(&connection), 3);
}

#[test]
fn a_look_at_an_old_file_leaves_it_as_it_is() {
    let lab = of_format_1();
    let found = semel_store_sqlite::inspect(&lab.path(), &[]).expect("an inspection");
    assert!(found.is_some_and(|inspection| inspection.is_store));
    assert_eq!(format(&lab.connection()), 1);
}

/// Returns a file of format 1, a minute after it was written.
fn of_format_1() -> Lab {
    let lab = Lab::new();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v1.db");
    fs::copy(golden, lab.path()).expect("a copy of the golden file");
    lab.clock.advance(Duration::from_secs(60));
    lab
}

/// Returns the tables with their columns in any order, and the text of everything else.
fn shape(connection: &Connection) -> (BTreeSet<String>, BTreeSet<String>) {
    let texts = |query: &str| {
        let mut select = connection.prepare(query).expect("a query");
        let rows = select.query_map([], |row| row.get::<_, String>(0));
        rows.expect("rows")
            .collect::<Result<BTreeSet<_>, _>>()
            .expect("rows")
    };
    let columns = "SELECT printf('%s %s %s %d %d', tables.name, columns.name, columns.type, \"notnull\", pk) \
                   FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns \
                   WHERE tables.type = 'table'";
    let others = "SELECT name || ' ' || coalesce(sql, '') FROM sqlite_schema WHERE type <> 'table'";
    (texts(columns), texts(others))
}

fn format(connection: &Connection) -> i64 {
    let select = "SELECT value FROM semel_meta WHERE name = 'format'";
    connection
        .query_row(select, [], |row| row.get(0))
        .expect("a format")
}

async fn read(store: &impl Store, key: &str) -> Record {
    let found = store.get([operation(key)].into()).await.expect("an answer");
    let found = found.into_iter().next().flatten();
    found.unwrap_or_else(|| panic!("{key} should have a record"))
}

async fn claim(store: &impl Store, request: &ClaimRequest) -> Admission {
    let mut answers = store
        .claim([request.clone()].into())
        .await
        .expect("an answer");
    answers.remove(0)
}

fn operation(key: &str) -> Operation {
    Operation::new(
        Scope::new("acme", "payments").expect("a scope"),
        Key::parse(key).expect("a key"),
    )
}

fn request(key: &str, claim_id: u128) -> ClaimRequest {
    ClaimRequest {
        operation: operation(key),
        ..crate::lab::request(key, claim_id)
    }
}

fn page() -> ListQuery {
    ListQuery {
        limit: 9,
        ..ListQuery::default()
    }
}

#[tokio::test]
async fn a_store_that_is_opened_as_it_is_stays_so() {
    let lab = of_format_1();
    let open = || SqliteStore::open_as_is(&lab.path(), lab.clock.clone(), Options::default());
    let before = fs::read(lab.path()).expect("a file");
    let refused = open().expect_err("an older format");
    assert_eq!(refused.kind(), ErrorKind::InvalidConfig);
    assert_eq!(fs::read(lab.path()).expect("a file"), before);
    drop(lab.store());
    let mode = "pragma journal_mode = delete";
    let database = Connection::open(lab.path()).expect("a database");
    database.execute_batch(mode).expect("a rollback journal");
    drop(database);
    let before = fs::read(lab.path()).expect("a file");
    let store = open().expect("a store");
    assert_eq!(
        read(&store, "completed").await.state.kind(),
        StateKind::Completed
    );
    drop(store);
    assert_eq!(fs::read(lab.path()).expect("a file"), before);
}
