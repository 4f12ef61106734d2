//! Every law of the store port on the server's own clock, where leases and windows really pass.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use semel_conformance::{Subject, store_cases};
use semel_store_redis::{Options, RedisStore};

use crate::cluster::run_all;
use crate::server::Server;

static SERVER: OnceLock<String> = OnceLock::new();

/// An instance that has no clock but the server's.
struct Real(Arc<RedisStore>);

impl Subject for Real {
    type Store = RedisStore;
    /// Leases of a second, so that a busy machine is not taken for a slow store.
    const SCALE: u32 = 4;

    async fn open() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let server = SERVER.get().expect("a server");
        let url = format!("{server}?prefix=real-{number}");
        let store = RedisStore::connect(&url, Options::default()).await;
        Self(Arc::new(store.expect("a store")))
    }

    fn store(&self) -> &Arc<RedisStore> {
        &self.0
    }
}

#[test]
fn the_laws_hold_on_the_clock_of_the_server() {
    let server = Server::durable();
    SERVER.set(server.url()).expect("set once");
    // They wait most of the time.
    let broken = run_all(store_cases::<Real>(), 48);
    assert!(broken.is_empty(), "{broken:#?}");
}
