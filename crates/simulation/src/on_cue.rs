//! A small world: a broker, a store that fails on cue, effects without deduplication, and a clock
//! that moves when nothing else does. A restart is a new [`Worker`] over what is left of it.

pub mod backing;
pub mod broker;
pub mod crash;
pub mod fault;
pub mod faulty;
pub mod file;
pub mod message;
pub mod scripted;
pub mod sink;
pub mod stage;
pub mod stop;
pub mod tables;
pub mod time;
pub mod watch;
pub mod worker;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use semel_core::fingerprint::FingerprintSelector;
use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::store::ListQuery;
use semel_core::{
    AnyStore, AttemptLimits, Backoff, Claimant, Key, Operation, Parked, Record, Scope, StateKind,
    Store, StoreExt, Window,
};
use semel_engine::effect::{Class, OnDoubt};
use semel_engine::pipeline::Pipeline;
use semel_engine::surroundings::Surroundings;

use backing::{Backing, Database};
use broker::Broker;
use sink::{EffectSink, Recognises};
use tables::Tables;
use time::{Chance, PausedClock};
use watch::Watch;
use worker::Worker;

/// Everything that outlives a worker.
pub struct World {
    pub clock: PausedClock,
    pub chance: Arc<Chance>,
    /// Shared only with the code that a test hands it to.
    pub store: Arc<AnyStore>,
    pub tables: Arc<Tables>,
    pub database: Database,
    pub sink: Arc<EffectSink>,
    pub watch: Arc<Watch>,
    checkpoints: AnyCheckpointStore,
    scope: Scope,
}

impl World {
    /// A world whose sink applies everything that arrives.
    pub fn new() -> Self {
        Self::with_sink(Recognises::Nothing)
    }

    pub fn with_sink(recognises: Recognises) -> Self {
        let clock = PausedClock::new();
        Self::over(recognises, clock, Backing::memory(clock))
    }

    /// A world whose records are kept in `backing`, which uses `clock`.
    pub fn over(recognises: Recognises, clock: PausedClock, backing: Backing) -> Self {
        let sink = Arc::new(EffectSink::new(recognises, clock));
        let tables = Arc::new(Tables::new(backing.store.clone(), Arc::clone(&sink)));
        let double = || Database::double(&tables, &sink);
        Self {
            clock,
            chance: Arc::new(Chance::default()),
            database: backing.database.unwrap_or_else(double),
            tables,
            store: Arc::new(backing.store),
            checkpoints: backing.checkpoints,
            sink,
            watch: Arc::new(Watch::default()),
            scope: Scope::new("", "test").expect("the scope is well formed"),
        }
    }

    /// A broker that checks its acknowledgements against this world's store.
    pub fn broker(&self) -> Broker {
        Broker::new(
            AnyStore::clone(&self.store),
            Arc::clone(&self.sink),
            self.scope.clone(),
        )
    }

    pub fn pipeline(&self) -> Pipeline {
        Pipeline {
            name: "test".into(),
            scope: self.scope.clone(),
            tenant: None,
            key: "json:/key".parse().expect("the selector is well formed"),
            fingerprint: FingerprintSelector::Payload,
            transport: None,
            birth: None,
            order: None,
            gate: None,
            window: WINDOW,
            lease: LEASE,
            limits: AttemptLimits {
                failed: FIVE,
                ..AttemptLimits::default()
            },
            backoff: Backoff {
                first: Duration::from_millis(200),
                most: Duration::from_secs(30),
            },
            outcome_limit_bytes: 1024,
            batch: 16,
            concurrency: 8,
            max_message_bytes: 4096,
            pause_after: 0,
            bind: None,
            live_only: false,
        }
    }

    /// A worker at `broker`, without any fault yet.
    pub fn worker(&self, broker: &Broker) -> Worker {
        let surroundings = Surroundings {
            clock: Arc::new(self.clock),
            claimant: Claimant::random(&*self.chance),
            entropy: self.chance.clone(),
            observer: self.watch.clone(),
        };
        Worker::new(
            self.pipeline(),
            Backing {
                store: AnyStore::clone(&self.store),
                checkpoints: self.checkpoints.clone(),
                database: Some(self.database.clone()),
            },
            broker,
            surroundings,
            self.clock,
        )
    }

    pub fn operation(&self, key: &str) -> Operation {
        Operation::new(
            self.scope.clone(),
            Key::new(key).expect("the key is well formed"),
        )
    }

    pub async fn record(&self, key: &str) -> Option<Record> {
        let record = self.store.get_one(self.operation(key)).await;
        record.expect("the memory store answers")
    }

    pub async fn state(&self, key: &str) -> Option<StateKind> {
        self.record(key).await.map(|record| record.state.kind())
    }

    /// The keys of the records that may have repeated their effect.
    pub async fn repeated(&self) -> Vec<String> {
        self.keys(&ListQuery {
            repeated: true,
            limit: ALL,
            ..ListQuery::default()
        })
        .await
    }

    /// The keys of the records in a state.
    pub async fn in_state(&self, state: StateKind) -> Vec<String> {
        self.keys(&ListQuery {
            state: Some(state),
            limit: ALL,
            ..ListQuery::default()
        })
        .await
    }

    /// The messages that were set aside, in the order of their coordinates.
    pub async fn parked(&self) -> Vec<Parked> {
        let query = ListQuery {
            limit: ALL,
            ..ListQuery::default()
        };
        let page = self
            .store
            .list_parked(&query)
            .await
            .expect("the memory store answers");
        let mut parked = page.items;
        parked.sort_by(|one, other| one.coordinates.cmp(&other.coordinates));
        parked
    }

    async fn keys(&self, query: &ListQuery) -> Vec<String> {
        let page = self
            .store
            .list(query)
            .await
            .expect("the memory store answers");
        page.items
            .iter()
            .map(|listed| listed.operation.key.to_string())
            .collect()
    }
}

pub const LEASE: Duration = Duration::from_secs(30);
pub const WINDOW: Window = Window::new(Duration::from_secs(3_600));
pub const PROVIDER_WINDOW: Duration = Duration::from_secs(600);
pub const KEYED: Class = Class::Keyed {
    provider_window: PROVIDER_WINDOW,
};
pub const REPEAT: Class = Class::Unkeyed(OnDoubt::Repeat);
pub const PARK: Class = Class::Unkeyed(OnDoubt::Park);
const FIVE: NonZeroU32 = NonZeroU32::MIN.saturating_add(4);
const ALL: usize = 10_000;
