//! State that all calls of a store share, and the running of statements.

use std::collections::HashMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_postgres::tokio_postgres::types::ToSql;
use deadpool_postgres::{Object, Pool};
use semel_core::{Clock, Result, Scope};
use tokio::time::Instant;

use crate::config::Address;
use crate::connection::{Cells, Runs};
use crate::error::{is_passing, no_connection, undone};
use crate::failure::Failure;
use crate::new_key_run::NewKeyRun;
use crate::row::millis;
use crate::sql::{Text, Texts};

/// State that all calls share.
pub(crate) struct Session {
    pub(crate) pool: Pool,
    pub(crate) texts: Texts,
    pub(crate) schema: Box<str>,
    /// Host and port, to show to people.
    hosts: Box<str>,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) patience: Duration,
    /// Number of further batches of effects in which every message has a savepoint.
    pub(crate) careful: AtomicU32,
    pub(crate) new_key_run: NewKeyRun,
    /// The numbers of scopes that are known to be stored.
    scopes: Mutex<HashMap<Scope, i32>>,
}

impl Session {
    pub(crate) fn new(
        pool: Pool,
        address: &Address,
        clock: Option<Arc<dyn Clock>>,
        patience: Duration,
        new_key_run: NewKeyRun,
    ) -> Self {
        Self {
            pool,
            texts: Texts::in_schema(&address.schema),
            schema: address.schema.clone(),
            hosts: address.hosts_and_ports(),
            clock,
            patience,
            careful: AtomicU32::new(0),
            new_key_run,
            scopes: Mutex::default(),
        }
    }

    /// Returns a connection of the pool.
    pub(crate) async fn client(&self) -> Result<Object> {
        let got = self.pool.get().await;
        got.map_err(|error| no_connection(error, &self.hosts, self.patience))
    }

    /// Returns the time to send along where the store was given a clock, for tests.
    pub(crate) fn given_now(&self) -> Option<i64> {
        let clock = self.clock.as_ref()?;
        Some(millis(clock.now()))
    }

    /// Runs a statement that commits by itself; tries again where others were in its way.
    pub(crate) async fn run<C: Runs>(
        &self,
        client: &C,
        text: &Text,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<C::Row>> {
        self.run_where(client, text, parameters, is_passing).await
    }

    /// Does what [`Session::run`] does; `passes` says which failures mean that others were in the
    /// way.
    pub(crate) async fn run_where<C: Runs>(
        &self,
        client: &C,
        text: &Text,
        parameters: &[&(dyn ToSql + Sync)],
        passes: impl Fn(&Failure) -> bool,
    ) -> Result<Vec<C::Row>> {
        let mut tries = Tries::begin();
        loop {
            match client.rows(text, parameters).await {
                Ok(rows) => return Ok(rows),
                Err(error) if passes(&error) && tries.are_left() => tries.pause().await,
                Err(error) => return Err(undone(error)),
            }
        }
    }

    /// Returns the number of a scope, which is stored if it is not yet. Remembered, so `client`
    /// must not be in a transaction that may be undone.
    pub(crate) async fn scope(&self, client: &impl Runs, scope: &Scope) -> Result<i32> {
        let known = |numbers: &HashMap<Scope, i32>| numbers.get(scope).copied();
        if let Some(number) = known(&self.scopes.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(number);
        }
        let number = store_scope(client, &self.texts.scope, scope)
            .await
            .map_err(undone)?;
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        scopes.insert(scope.clone(), number);
        Ok(number)
    }
}

/// Returns the number of a scope, which is stored if it is not yet.
pub(crate) async fn store_scope(
    client: &impl Runs,
    text: &Text,
    scope: &Scope,
) -> Result<i32, Failure> {
    loop {
        let rows = client
            .rows(text, &[&scope.tenant(), &scope.operation()])
            .await?;
        // Without a row, another transaction has just stored it: the next look finds it.
        if let Some(row) = rows.first() {
            return row.try_get(0);
        }
    }
}

/// The tries of a statement that others are in the way of: a few, and none once they have taken long, since each may have
/// waited for a lock until the server's limit.
pub(crate) struct Tries {
    made: u32,
    began: Instant,
}

impl Tries {
    pub(crate) fn begin() -> Self {
        Self {
            made: 0,
            began: Instant::now(),
        }
    }

    /// Tells whether there may be another one.
    pub(crate) fn are_left(&self) -> bool {
        self.made < TRIES && self.began.elapsed() < LONGEST_TRIES
    }

    /// Waits before the next one.
    ///
    /// # Cancel safety   safe
    pub(crate) async fn pause(&mut self) {
        self.made += 1;
        pause(self.made).await;
    }
}

/// Waits a little longer each time, and never as long as other processes do.
pub(crate) async fn pause(tries: u32) {
    let mut random = [0; 2];
    // Without entropy all processes wait alike, which is slower and nothing else.
    let _ = getrandom::fill(&mut random);
    let most = 4_u32.saturating_pow(tries.min(4));
    let millis = u32::from(u16::from_le_bytes(random)) % most.max(1) + 1;
    tokio::time::sleep(Duration::from_millis(millis.into())).await;
}

/// Tries of a statement that others are in the way of.
pub(crate) const TRIES: u32 = 8;
/// The time from the first try after which there is no other.
const LONGEST_TRIES: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_few_tries_are_made_and_none_after_a_long_wait() {
        let mut tries = Tries::begin();
        let mut made = 0;
        while tries.are_left() {
            tries.pause().await;
            made += 1;
        }
        assert_eq!(made, TRIES);
        let began = Instant::now().checked_sub(LONGEST_TRIES);
        let began = began.expect("the machine has run for so long");
        assert!(!Tries { made: 0, began }.are_left());
    }
}
