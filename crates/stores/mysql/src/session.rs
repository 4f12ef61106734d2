//! State that all calls of a store share: its pool, its statements, its clock.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use semel_core::{Clock, Result, Timestamp};

use crate::answer::Set;
use crate::config::{Address, Options, address};
use crate::connect::Connector;
use crate::error::Failure;
use crate::pool::{Pool, PooledConnection};
use crate::script::{Literal, Script, optional};
use crate::sql::{IngestTexts, ProducerTexts, TABLES, Texts};

/// State that all calls share.
pub(crate) struct Session {
    pool: Arc<Pool>,
    pub(crate) texts: Arc<Texts>,
    pub(crate) producers: ProducerTexts,
    pub(crate) ingest: IngestTexts,
    pub(crate) prefix: Box<str>,
    /// Set if a network lies between.
    pub(crate) is_far: bool,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    answer: Duration,
    /// The latest time read from the server, which only spares a round trip.
    last_now: AtomicU64,
    /// Set if the last batch was of duplicates: then reading comes before inserting.
    pub(crate) expects_duplicates: AtomicBool,
    /// Number of batches of users' statements to run with savepoints, because one failed a short while ago.
    pub(crate) careful: AtomicU32,
    /// Blocks of tokens drawn since the old ones were last removed.
    pub(crate) drawn: AtomicU64,
}

impl Session {
    /// Builds the state that calls share, without a connection yet.
    pub(crate) fn new(url: &str, options: &Options) -> Result<Self> {
        let address: Address = address(url)?;
        let connector = Connector::new(
            &address,
            options.patience,
            options.lock_wait,
            options.answer,
        );
        let connections = address.connections.unwrap_or(options.connections);
        Ok(Self {
            pool: Arc::new(Pool::new(connector, connections, options.patience)),
            texts: Texts::with_prefix(&address.prefix).into(),
            producers: ProducerTexts::with_prefix(&address.prefix),
            ingest: IngestTexts::with_prefix(&address.prefix),
            prefix: address.prefix,
            is_far: address.is_far,
            clock: options.clock.clone(),
            answer: options.answer,
            last_now: AtomicU64::new(0),
            expects_duplicates: AtomicBool::new(false),
            careful: AtomicU32::new(0),
            drawn: AtomicU64::new(0),
        })
    }

    /// Returns a connection.
    pub(crate) async fn connection(&self) -> Result<PooledConnection> {
        self.pool.connection(&self.texts, self.answer).await
    }

    /// Returns a connection for work that may take long and changes nothing.
    pub(crate) async fn patient_connection(&self) -> Result<PooledConnection> {
        self.pool.connection(&self.texts, self.answer * 10).await
    }

    /// Returns the value of `now.sql`: the time of a clock that replaces the server's, for tests.
    pub(crate) fn given_now(&self) -> Literal {
        given_now(self.clock.as_ref())
    }

    /// Adds the statement that fixes the time of a step.
    pub(crate) fn add_now(&self, script: &mut Script) {
        script.add(&self.texts.now, &[&self.given_now()]);
    }

    /// Notes a time read from the server.
    pub(crate) fn saw(&self, now: Timestamp) {
        self.last_now.fetch_max(now.as_millis(), Ordering::Relaxed);
    }

    /// Returns the latest time read from the server.
    pub(crate) fn last_now(&self) -> Timestamp {
        Timestamp::from_millis(self.last_now.load(Ordering::Relaxed))
    }

    /// Returns the names of our tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = String> + '_ {
        TABLES.iter().map(|table| format!("{}{table}", self.prefix))
    }

    /// Runs a script that only reads, or whose statements each undo themselves where they fail.
    pub(crate) async fn ask(&self, script: &Script) -> Result<Vec<Set>> {
        let mut connection = self.connection().await?;
        ask(&mut connection, script)
            .await
            .inspect(|_| connection.give_back())
    }

    /// Does what [`Session::ask`] does, for work that may take long.
    pub(crate) async fn ask_patiently(&self, script: &Script) -> Result<Vec<Set>> {
        let mut connection = self.patient_connection().await?;
        ask(&mut connection, script)
            .await
            .inspect(|_| connection.give_back())
    }
}

/// Returns the value of `now.sql`: the time of a clock that replaces the server's, for tests.
pub(crate) fn given_now(clock: Option<&Arc<dyn Clock>>) -> Literal {
    optional(clock, |clock| Literal::number(clock.now().as_millis()))
}

/// Runs a script that only reads.
pub(crate) async fn ask(connection: &mut PooledConnection, script: &Script) -> Result<Vec<Set>> {
    let mut tries = 0;
    loop {
        match connection.run(script).await {
            Ok(sets) => {
                connection.ended();
                return Ok(sets);
            }
            Err(failure) if failure.may_pass(tries) => {
                tries += 1;
                pause(tries).await;
            }
            Err(failure) => return Err(Failure::uncommitted(failure)),
        }
    }
}

/// Waits a little, longer each time, and never as long as other processes do.
pub(crate) async fn pause(tries: u32) {
    let most = (5_u64 << tries.min(6)).min(250);
    let chance = RandomState::new().build_hasher().finish();
    tokio::time::sleep(Duration::from_millis(1 + chance % most)).await;
}
