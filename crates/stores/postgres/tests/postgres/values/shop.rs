//! A user's tables beside a store, and effects in them.

use std::sync::atomic::{AtomicU64, Ordering};

use semel_core::StateKind;
use semel_core::port::transactional::{Applied, Statements, TransactionalStore, Value};
use semel_store_postgres::PostgresStore;
use tokio_postgres::Client;

use crate::lab::{Lab, count, message, state, statements, text};

/// A store beside tables of a user.
pub(crate) struct Shop {
    pub(crate) store: PostgresStore,
    pub(crate) user: Client,
    pub(crate) insert: Statements,
    inserted: AtomicU64,
    _lab: Lab,
}

impl Shop {
    pub(crate) async fn new(sql: &str) -> Self {
        let lab = Lab::new();
        let store = lab.store().await;
        let user = lab.client().await;
        let shop = Self {
            store,
            user,
            insert: statements(&["INSERT INTO wares VALUES (:key, :v)"], &["key", "v"]),
            inserted: AtomicU64::new(0),
            _lab: lab,
        };
        shop.execute(
            "CREATE TABLE shops (id integer PRIMARY KEY, visits integer NOT NULL); \
                      INSERT INTO shops VALUES (7, 0); SET timezone TO 'UTC'",
        )
        .await;
        shop.execute(sql).await;
        shop
    }

    pub(crate) async fn execute(&self, sql: &str) {
        self.user.batch_execute(sql).await.expect(sql);
    }

    pub(crate) async fn table(&self, column: &str) {
        self.execute(&format!(
            "DROP TABLE IF EXISTS wares; CREATE TABLE wares (key text, v {column})"
        ))
        .await;
    }

    /// Checks the stored form of a value in such a column.
    pub(crate) async fn keeps(&self, column: &str, value: Value, expected: &str) {
        let said = format!("{value:?} into {column}");
        assert_eq!(self.roundtrip(column, value).await, expected, "{said}");
    }

    async fn roundtrip(&self, column: &str, value: Value) -> String {
        self.table(column).await;
        let key = format!("{column} {value:?}");
        let batch = [message(&key, 1, vec![text(&key), value])];
        let answers = self
            .store
            .apply(&self.insert, batch.into())
            .await
            .expect("answers");
        assert!(
            matches!(answers[..], [Applied::Completed { .. }]),
            "{key}: {answers:?}"
        );
        let select = "SELECT coalesce(v::text, '∅') FROM wares";
        self.user
            .query_one(select, &[])
            .await
            .expect("a row")
            .get(0)
    }

    /// Returns the refusal of a value by such a column.
    pub(crate) async fn refused(
        &self,
        column: &str,
        value: Value,
    ) -> Option<(StateKind, Box<str>)> {
        self.table(column).await;
        if column.contains("DEFAULT") {
            self.execute("INSERT INTO wares VALUES ('there')").await;
        }
        self.insert(value).await
    }

    /// Inserts a value between two that fit; returns the refusal, if it was refused. The two are
    /// there.
    pub(crate) async fn insert(&self, value: Value) -> Option<(StateKind, Box<str>)> {
        self.execute("DELETE FROM wares WHERE key <> 'there'").await;
        let number = self.inserted.fetch_add(1, Ordering::Relaxed);
        let [before, key, after] = ["before", "it", "after"].map(|it| format!("{it} {number}"));
        let batch = [
            message(&before, 1, vec![text("before"), Value::Null]),
            message(&key, 1, vec![text("it"), value]),
            message(&after, 1, vec![text("after"), Value::Null]),
        ];
        let answers = self
            .store
            .apply(&self.insert, batch.into())
            .await
            .expect("answers");
        assert!(
            matches!(answers[0], Applied::Completed { .. }),
            "{key}: {answers:?}"
        );
        assert!(
            matches!(answers[2], Applied::Completed { .. }),
            "{key}: {answers:?}"
        );
        let kept = count(&self.user, "wares WHERE key IN ('before', 'after')").await;
        assert_eq!(kept, 2, "{key}");
        let found = state(&self.store, &after).await;
        assert_eq!(found, Some(StateKind::Completed), "{key}");
        match &answers[1] {
            Applied::Failed { state, error, .. } => {
                assert_eq!(
                    count(&self.user, "wares WHERE key = 'it'").await,
                    0,
                    "{key}"
                );
                Some((*state, error.clone()))
            }
            Applied::Completed { .. } => None,
            Applied::NotGranted(other) => panic!("{key}: {other:?}"),
        }
    }
}
