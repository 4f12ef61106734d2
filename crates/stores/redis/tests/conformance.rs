//! The laws of the store ports, on the server of `SEMEL_TEST_REDIS_URL`, each instance under a prefix of its own.
//!
//! A program of its own, so that it runs beside that of `redis/`: both wait for servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use semel_conformance::producers::ProducerSubject;
use semel_conformance::{DurableSubject, Subject, TestClock, TransferSubject};
use semel_store_redis::{Options, RedisProducers, RedisStore};

/// An instance on a clock of the test.
struct Redis {
    prefix: Prefix,
    clock: TestClock,
    store: Arc<RedisStore>,
}

/// A prefix, which is emptied at the end.
struct Prefix {
    server: String,
    prefix: String,
}

impl Redis {
    async fn over(prefix: Prefix, clock: TestClock) -> Self {
        let mut options = Options::default();
        options.clock = Some(Arc::new(clock.clone()));
        let store = RedisStore::connect(&prefix.url(), options).await;
        Self {
            prefix,
            clock,
            store: Arc::new(store.expect("a store")),
        }
    }
}

impl Subject for Redis {
    type Store = RedisStore;

    async fn open() -> Self {
        Self::over(Prefix::new(), TestClock::new()).await
    }

    fn store(&self) -> &Arc<RedisStore> {
        &self.store
    }

    fn clock(&self) -> Option<&TestClock> {
        Some(&self.clock)
    }
}

impl DurableSubject for Redis {
    async fn reopen(self) -> Self {
        let Self {
            prefix,
            clock,
            store,
        } = self;
        drop(store);
        Self::over(prefix, clock).await
    }
}

impl TransferSubject for Redis {
    type Transfer = RedisStore;

    fn transfer(&self) -> Arc<RedisStore> {
        Arc::clone(&self.store)
    }
}

impl Prefix {
    fn new() -> Self {
        Self::on("SEMEL_TEST_REDIS_URL", "redis")
    }

    fn on(variable: &str, service: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let server = std::env::var(variable).unwrap_or_else(|_| {
            panic!(
                "{variable} is not set: run `cargo xtask services up {service}`, then `source target/services/env`"
            )
        });
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("laws-{}-{number}", std::process::id());
        Self { server, prefix }
    }

    fn url(&self) -> String {
        format!("{}?prefix={}", self.server, self.prefix)
    }
}

impl Drop for Prefix {
    fn drop(&mut self) {
        // Any remaining keys are in nobody's way.
        let _ = semel_conformance::redis::empty(&self.server, &self.prefix);
    }
}

semel_conformance::store_laws!(Redis);
semel_conformance::history_laws!(Redis);
semel_conformance::durable_laws!(Redis);
semel_conformance::transfer_laws!(Redis);
semel_conformance::durable_transfer_laws!(Redis);

impl ProducerSubject for Prefix {
    type Journal = RedisProducers;

    async fn open() -> Self {
        Self::new()
    }

    async fn journal(&self) -> RedisProducers {
        RedisProducers::new(&self.url(), &Options::default()).expect("a journal")
    }
}

semel_conformance::producer_laws!(Prefix);

/// The laws of the journal of producers on the cluster of `SEMEL_TEST_REDIS_CLUSTER_URL`, which is made anew at every
/// start.
mod clustered {
    use super::{Prefix, ProducerSubject, RedisProducers};

    struct Cluster(Prefix);

    impl ProducerSubject for Cluster {
        type Journal = RedisProducers;

        async fn open() -> Self {
            Self(Prefix::on("SEMEL_TEST_REDIS_CLUSTER_URL", "redis-cluster"))
        }

        async fn journal(&self) -> RedisProducers {
            self.0.journal().await
        }
    }

    semel_conformance::producer_laws!(Cluster);
}
