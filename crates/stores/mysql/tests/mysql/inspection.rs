//! Inspection of a database that is or may become a store.

use mysql_async::prelude::Queryable;
use semel_core::port::store::Durability;
use semel_core::{Admission, ClaimRequest, Code, Fingerprint, Members, Store};
use semel_store_mysql::{FORMAT, MysqlStore, Options, inspect, migrate};

use crate::database::Database;
use crate::lab::{Lab, fresh_database, grant, request, statements};

async fn tables(database: &Database) -> Vec<String> {
    let mut connection = database.connect().await;
    connection.query("SHOW TABLES").await.expect("tables")
}

#[tokio::test]
async fn looking_leaves_no_trace() {
    let database = fresh_database().await;
    let inspection = inspect(&database.url(), Options::default(), &[])
        .await
        .expect("an inspection");
    assert_eq!((inspection.format, inspection.refused.len()), (None, 0));
    assert_eq!(
        (inspection.capabilities.kind, inspection.capabilities.shared),
        ("mysql", true)
    );
    assert_eq!(tables(&database).await, [""; 0]);
    let made = migrate(&database.url(), Options::default())
        .await
        .expect("tables");
    let found = tables(&database).await;
    let of = |name: &str| found.iter().filter(|it| it.starts_with(name)).count();
    let counts = (found.len(), of("semel_outbox"), of("semel_producer"));
    assert_eq!((made, counts), (FORMAT, (23, 6, 5)), "{found:?}");
    let again = migrate(&database.url(), Options::default())
        .await
        .expect("tables");
    assert_eq!(again, FORMAT);
    let inspection = inspect(&database.url(), Options::default(), &[])
        .await
        .expect("an inspection");
    assert_eq!(inspection.format, Some(FORMAT));
}

#[tokio::test]
async fn statements_are_tried_on_a_database_that_is_no_store_yet() {
    let database = fresh_database().await;
    database
        .run("CREATE TABLE payments (id VARCHAR(40)) ENGINE=InnoDB")
        .await;
    let asked = [
        statements(&["INSERT INTO payments VALUES (:id)"], &["id"]),
        statements(&["INSERT INTO paymints VALUES (:id)"], &["id"]),
    ];
    let inspection = inspect(&database.url(), Options::default(), &asked)
        .await
        .expect("an inspection");
    let [None, Some(error)] = &inspection.refused[..] else {
        panic!("{inspection:?}")
    };
    assert_eq!(error.code(), Code::InvalidConfig);
    assert!(
        error.to_string().contains("paymints' doesn't exist"),
        "{error}"
    );
    let mut connection = database.connect().await;
    let rows: Option<u64> = connection
        .query_first("SELECT COUNT(*) FROM payments")
        .await
        .expect("a count");
    assert_eq!(rows, Some(0), "nothing is run");
}

/// Tables as the code of format 1 created them: the same but for the column. A migration may break off behind its
/// column.
#[tokio::test]
async fn tables_of_format_1_are_brought_forward_by_the_verb_alone() {
    let lab = Lab::new().await;
    let with = |key: &str, claim_id, digest| ClaimRequest {
        fingerprint: Some(Fingerprint {
            scheme: 1,
            digest: [digest; 16],
        }),
        members: Members::from_bytes(&[1, 2, 3, 4, 5]),
        ..request(key, claim_id)
    };
    let _ = grant(&lab.store().await, &with("old", 1, 1)).await;
    lab.database
        .run("ALTER TABLE semel_records DROP COLUMN members")
        .await;
    let back = "UPDATE semel_meta SET number = 1 WHERE name = 'format'";
    lab.database.run(back).await;
    let url = lab.database.url();
    let refused = MysqlStore::connect(&url, Options::default()).await;
    let refused = refused.expect_err("an older store").to_string();
    assert!(
        refused.contains("format 1") && refused.contains("store migrate"),
        "{refused}"
    );
    let inspection = inspect(&url, Options::default(), &[])
        .await
        .expect("an inspection");
    assert_eq!(inspection.format, Some(1));
    let migrated = migrate(&url, Options::default()).await.expect("a store");
    assert_eq!(migrated, 2);
    lab.database.run(back).await;
    let migrated = migrate(&url, Options::default()).await.expect("a store");
    assert_eq!(migrated, 2, "gone on with");
    let store = lab.store().await;
    let inspection = inspect(&url, Options::default(), &[])
        .await
        .expect("an inspection");
    assert_eq!(inspection.format, Some(2));
    let old = crate::lab::record(&store, "old").await.expect("a record");
    assert_eq!((old.members, old.attempts), (None, 1));
    let _ = grant(&store, &with("new", 1, 1)).await;
    let answers = store
        .claim([with("new", 2, 2), with("old", 2, 2)].into())
        .await;
    let kept = Members::from_bytes(&[1, 2, 3, 4, 5]);
    assert!(matches!(
        &answers.expect("answers")[..],
        [
            Admission::Conflict { first, .. },
            Admission::Conflict { first: None, .. }
        ] if *first == kept
    ));
}

/// Creates the tables that the code of format 1 leaves when it dies while it creates a store; the format comes last.
async fn half_made_of_format_1() -> Lab {
    let lab = Lab::new().await;
    drop(lab.store().await);
    for statement in [
        "DELETE FROM semel_meta",
        "DROP TABLE semel_marks, semel_audit",
        "ALTER TABLE semel_records DROP COLUMN members",
    ] {
        lab.database.run(statement).await;
    }
    lab
}

async fn assert_takes_claims(lab: &Lab) {
    let store = lab.store().await;
    let _ = grant(&store, &request("a", 1)).await;
    assert_eq!(store.preflight().await.expect("capabilities").kind, "mysql");
    let inspection = inspect(&lab.database.url(), Options::default(), &[]).await;
    assert_eq!(inspection.expect("an inspection").format, Some(FORMAT));
}

#[tokio::test]
async fn a_making_of_format_1_that_broke_off_is_gone_on_with() {
    let lab = half_made_of_format_1().await;
    assert_takes_claims(&lab).await;
    let lab = half_made_of_format_1().await;
    let url = lab.database.url();
    let inspection = inspect(&url, Options::default(), &[])
        .await
        .expect("an inspection");
    assert_eq!(inspection.format, None, "it is no store yet");
    let made = migrate(&url, Options::default()).await.expect("a store");
    assert_eq!(made, FORMAT);
    assert_takes_claims(&lab).await;
}

/// Builds of format 2 continued such a creation without the column, and refused the result.
#[tokio::test]
async fn tables_that_say_format_2_without_its_column_are_brought_forward() {
    let lab = Lab::new().await;
    let _ = grant(&lab.store().await, &request("old", 1)).await;
    lab.database
        .run("ALTER TABLE semel_records DROP COLUMN members")
        .await;
    let url = lab.database.url();
    let refused = MysqlStore::connect(&url, Options::default()).await;
    let refused = refused.expect_err("an older store").to_string();
    assert!(refused.contains("store migrate"), "{refused}");
    let inspection = inspect(&url, Options::default(), &[])
        .await
        .expect("an inspection");
    assert_eq!(inspection.format, Some(1));
    let migrated = migrate(&url, Options::default()).await.expect("a store");
    assert_eq!(migrated, FORMAT);
    assert_takes_claims(&lab).await;
    let old = crate::lab::record(&lab.store().await, "old").await;
    assert_eq!(old.expect("a record").attempts, 1);
}

#[tokio::test]
async fn tables_of_format_1_that_are_damaged_are_not_brought_forward() {
    for (damage, words) in [
        (
            "DROP TABLE semel_marks",
            "semel_marks of the store is missing",
        ),
        (
            "ALTER TABLE semel_records DROP COLUMN past",
            "semel_records.past",
        ),
    ] {
        let lab = Lab::new().await;
        drop(lab.store().await);
        for statement in [
            "ALTER TABLE semel_records DROP COLUMN members",
            "UPDATE semel_meta SET number = 1 WHERE name = 'format'",
            damage,
        ] {
            lab.database.run(statement).await;
        }
        let url = lab.database.url();
        let refused = migrate(&url, Options::default()).await;
        let refused = refused.expect_err("a damaged store").to_string();
        assert!(refused.contains(words), "{refused}");
        let inspection = inspect(&url, Options::default(), &[])
            .await
            .expect("an inspection");
        assert_eq!(inspection.format, Some(1), "nothing was changed");
        let mut connection = lab.database.connect().await;
        let added: Option<String> = connection
            .query_first("SHOW COLUMNS FROM semel_records LIKE 'members'")
            .await
            .expect("columns");
        assert_eq!(added, None);
    }
}

#[tokio::test]
async fn a_newer_store_can_be_looked_at() {
    let lab = Lab::new().await;
    drop(lab.store().await);
    lab.database
        .run("UPDATE semel_meta SET number = 7 WHERE name = 'format'")
        .await;
    let inspection = inspect(&lab.database.url(), Options::default(), &[])
        .await
        .expect("an inspection");
    assert_eq!(inspection.format, Some(7));
}

#[tokio::test]
async fn a_server_as_it_comes_survives_a_power_cut() {
    let lab = Lab::new().await;
    let capabilities = lab.store().await.preflight().await.expect("capabilities");
    assert_eq!(
        capabilities.durability,
        Durability::PowerCut,
        "{capabilities:?}"
    );
}

#[tokio::test]
async fn two_prefixes_are_two_stores() {
    let database = fresh_database().await;
    let store = |prefix: &str| {
        let url = format!("{}?prefix={prefix}", database.url());
        async move {
            MysqlStore::connect(&url, Options::default())
                .await
                .expect("a store")
        }
    };
    let (one, other) = (store("one_").await, store("other_").await);
    let _ = (
        grant(&one, &request("a", 1)).await,
        grant(&other, &request("a", 2)).await,
    );
    assert_eq!(tables(&database).await.len(), 14);
    let counts = (
        one.stats().await.expect("counts"),
        other.stats().await.expect("counts"),
    );
    assert_eq!((counts.0.records[0], counts.1.records[0]), (1, 1));
}
