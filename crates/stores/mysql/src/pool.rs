//! Connections that calls share: at most so many, opened on demand, thrown away when they broke.
//!
//! The driver's own pool sends statements of its own when a connection comes back, and hides when it does; here nothing
//! is sent that a call did not ask for, except a ping on a connection that was idle for long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mysql_async::DriverError;
use mysql_async::prelude::Queryable;
use semel_core::Result;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::answer::Set;
use crate::connect::{Connector, Ready};
use crate::error::{Failure, Why, exhausted, gone, too_large};
use crate::run::run;
use crate::script::Script;
use crate::sql::Texts;

/// The connections of a store.
pub(crate) struct Pool {
    connector: Connector,
    permits: Arc<Semaphore>,
    patience: Duration,
    idle: Mutex<Vec<Idle>>,
    /// Number that rises when a connection breaks: those that are idle are likely broken as well.
    generation: AtomicU64,
}

struct Idle {
    ready: Ready,
    since: Instant,
    generation: u64,
}

/// A connection on loan. Dropped without being given back, it is closed.
pub(crate) struct PooledConnection {
    pool: Arc<Pool>,
    ready: Option<Ready>,
    answer: Duration,
    /// Set if a transaction may be open.
    is_open: bool,
    generation: u64,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(crate) fn new(connector: Connector, connections: usize, patience: Duration) -> Self {
        Self {
            connector,
            permits: Arc::new(Semaphore::new(connections.max(1))),
            patience,
            idle: Mutex::default(),
            generation: AtomicU64::new(0),
        }
    }

    /// Returns a connection, idle or new.
    pub(crate) async fn connection(
        self: &Arc<Self>,
        texts: &Texts,
        answer: Duration,
    ) -> Result<PooledConnection> {
        let waited = timeout(self.patience, Arc::clone(&self.permits).acquire_owned()).await;
        let permit = match waited {
            Ok(Ok(permit)) => permit,
            // Nobody closes the semaphore.
            Ok(Err(_)) => return Err(gone()),
            Err(_) => return Err(exhausted(self.patience)),
        };
        let generation = self.generation.load(Ordering::Relaxed);
        let ready = match self.idle().await {
            Some(ready) => ready,
            None => self.connector.connect(texts).await?,
        };
        Ok(PooledConnection {
            pool: Arc::clone(self),
            ready: Some(ready),
            answer,
            is_open: false,
            generation,
            _permit: permit,
        })
    }

    async fn idle(&self) -> Option<Ready> {
        loop {
            let mut found = self.list().pop()?;
            if found.generation != self.generation.load(Ordering::Relaxed) {
                continue;
            }
            if found.since.elapsed() < TRUSTED {
                return Some(found.ready);
            }
            if let Ok(Ok(())) = timeout(self.patience, found.ready.conn.ping()).await {
                return Some(found.ready);
            }
        }
    }

    fn list(&self) -> std::sync::MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PooledConnection {
    /// Runs a script. A connection that broke, or that gave no answer, is not used again.
    pub(crate) async fn run(&mut self, script: &Script) -> Result<Vec<Set>, Failure> {
        let Some(ready) = &mut self.ready else {
            return Err(Failure {
                at: 0,
                why: Why::Broken(DriverError::ConnectionClosed.into()),
            });
        };
        let bytes = script.text.len() + PACKET_BYTES;
        if bytes > ready.most_bytes {
            return Err(Failure {
                at: 0,
                why: Why::Unsent(too_large(bytes, ready.most_bytes)),
            });
        }
        self.is_open = true;
        let ran = timeout(self.answer, run(&mut ready.conn, script)).await;
        let ran = ran.unwrap_or(Err(Failure {
            at: 0,
            why: Why::Silent(self.answer),
        }));
        if let Err(Failure { why, .. }) = &ran {
            match why {
                Why::Refused(error) if !ENDED.contains(&error.code) => {}
                Why::Unsent(_) => {}
                Why::Refused(_) | Why::Broken(_) | Why::Silent(_) => {
                    self.ready = None;
                    self.pool.generation.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        ran
    }

    /// Returns the bytes that a script may hold at most.
    pub(crate) fn most_bytes(&self) -> usize {
        let most = self.ready.as_ref().map_or(0, |ready| ready.most_bytes);
        most.saturating_sub(PACKET_BYTES)
    }

    /// Returns whether a transaction may be open on it.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open && self.ready.is_some()
    }

    /// Notes that nothing is open on it any more.
    pub(crate) fn ended(&mut self) {
        self.is_open = false;
    }

    /// Closes it, so that the server lets go of what is held on it.
    pub(crate) fn close(&mut self) {
        self.ready = None;
    }

    /// Gives it back for others, if nothing is wrong with it.
    pub(crate) fn give_back(mut self) {
        if let (Some(ready), false) = (self.ready.take(), self.is_open) {
            self.pool.list().push(Idle {
                ready,
                since: Instant::now(),
                generation: self.generation,
            });
        }
    }
}

/// Age up to which an idle connection is used without a ping: a firewall or the server's `wait_timeout` takes longer to
/// forget it.
const TRUSTED: Duration = Duration::from_secs(20);
/// Bytes that the protocol adds to the text of a query.
const PACKET_BYTES: usize = 16;
/// Answers after which the server closes the connection.
const ENDED: [u16; 5] = [1053, 1153, 1927, 3169, 4031];
