//! Databases that one case after the other uses, since creating the tables takes longer than most cases.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::database::Database;

/// A database that is as a fresh one, and goes back when it is dropped.
pub(crate) struct PooledDatabase(Option<Database>);

impl PooledDatabase {
    /// Returns one that nobody uses on this server, or a new one.
    pub(crate) async fn on(server: &str) -> Self {
        let kept = {
            let mut kept = kept();
            let place = kept.iter().position(|it| it.server == server);
            place.map(|place| kept.swap_remove(place))
        };
        if let Some(database) = kept {
            clear(&database).await;
            return Self(Some(database));
        }
        let database = Database::on(server).await;
        remove_what_the_dead_left(&mut database.connect().await).await;
        Self(Some(database))
    }

    pub(crate) fn database(&self) -> &Database {
        self.0.as_ref().expect("not dropped yet")
    }
}

impl Drop for PooledDatabase {
    fn drop(&mut self) {
        kept().extend(self.0.take());
    }
}

/// Ends the sessions that are still at work there, and empties the tables. Tokens begin anew; numbers of rows go on.
async fn clear(database: &Database) {
    let mut connection = database.connect().await;
    let sessions = format!(
        "SELECT id FROM information_schema.processlist \
         WHERE db = '{}' AND id <> CONNECTION_ID()",
        database.name
    );
    loop {
        let left: Vec<u64> = connection.query(&*sessions).await.expect("sessions");
        if left.is_empty() {
            break;
        }
        for session in left {
            // It may have ended by itself.
            let _ = connection.query_drop(format!("KILL {session}")).await;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    connection.query_drop(CLEAR).await.expect("empty tables");
    connection.disconnect().await.expect("an end");
}

/// Drops databases of ended test programs: nothing runs at the end of a program, so lent ones stay until the next one.
async fn remove_what_the_dead_left(connection: &mut Conn) {
    let select = r"SHOW DATABASES LIKE 'semel\_test\_%'";
    let names: Vec<String> = connection.query(select).await.expect("databases");
    let is_dead = |name: &String| {
        let process = name.split('_').nth(2);
        process.is_some_and(|process| !Path::new("/proc").join(process).exists())
    };
    let left: BTreeSet<String> = names.into_iter().filter(is_dead).collect();
    for name in left {
        let drop = format!("DROP DATABASE IF EXISTS {name}");
        connection.query_drop(drop).await.expect("no database");
    }
}

fn kept() -> MutexGuard<'static, Vec<Database>> {
    static KEPT: Mutex<Vec<Database>> = Mutex::new(Vec::new());
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

const CLEAR: &str = "\
    DROP TABLE IF EXISTS semel_laws_ledger; TRUNCATE TABLE semel_tokens; \
    SET SESSION sql_safe_updates = 0, completion_type = 0; \
    START TRANSACTION; \
    DELETE FROM semel_records; DELETE FROM semel_entities; DELETE FROM semel_parked; \
    DELETE FROM semel_audit; DELETE FROM semel_marks; \
    UPDATE semel_meta SET number = 0 WHERE name IN ('floor', 'import', 'admit'); \
    INSERT INTO semel_tokens (block, used) VALUES (1, 0); COMMIT";
