//! A small world: a broker, a store that fails on cue, effects that nobody deduplicates, a clock
//! that moves when nothing else does. A restart is a new [`Worker`] over what is left of it.

pub(crate) mod broker;
pub(crate) mod crash;
pub(crate) mod faulty;
pub(crate) mod file;
pub(crate) mod message;
pub(crate) mod scripted;
pub(crate) mod sink;
pub(crate) mod stage;
pub(crate) mod tables;
pub(crate) mod time;
pub(crate) mod watch;
pub(crate) mod worker;

use std::sync::Arc;
use std::time::Duration;

use semel_core::fingerprint::FingerprintSelector;
use semel_core::port::store::ListQuery;
use semel_core::port::transactional::Backoff;
use semel_core::{
    AttemptLimits, Claimant, Key, Operation, Parked, Record, Scope, StateKind, Store, Window,
};
use semel_engine::consumer::Surroundings;
use semel_engine::effect::{Class, OnDoubt};
use semel_engine::pipeline::Pipeline;
use semel_store_memory::MemoryStore;

use broker::Broker;
use sink::{Recognises, Sink};
use tables::Tables;
use time::{Chance, PausedClock};
use watch::Watch;
use worker::Worker;

/// Everything that outlives a worker.
pub(crate) struct World {
    pub(crate) clock: PausedClock,
    pub(crate) chance: Arc<Chance>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) sink: Arc<Sink>,
    pub(crate) watch: Arc<Watch>,
    scope: Scope,
}

impl World {
    /// A world whose sink takes whatever arrives.
    pub(crate) fn new() -> Self {
        Self::with_sink(Recognises::Nothing)
    }

    pub(crate) fn with_sink(recognises: Recognises) -> Self {
        let clock = PausedClock::new();
        let store = Arc::new(MemoryStore::new(Arc::new(clock)));
        let sink = Arc::new(Sink::new(recognises, clock));
        Self {
            clock,
            chance: Arc::new(Chance::default()),
            tables: Arc::new(Tables::new(Arc::clone(&store), Arc::clone(&sink))),
            store,
            sink,
            watch: Arc::new(Watch::default()),
            scope: Scope::new("", "test").expect("the scope is well formed"),
        }
    }

    /// A broker whose acknowledgements are held against this world's store.
    pub(crate) fn broker(&self) -> Broker {
        Broker::new(
            Arc::clone(&self.store),
            Arc::clone(&self.sink),
            self.scope.clone(),
        )
    }

    pub(crate) fn pipeline(&self) -> Pipeline {
        Pipeline {
            name: "test".into(),
            scope: self.scope.clone(),
            key: "json:/key".parse().expect("the selector is well formed"),
            fingerprint: FingerprintSelector::Payload,
            transport: None,
            birth: None,
            order: None,
            gate: None,
            window: WINDOW,
            lease: LEASE,
            limits: AttemptLimits::default(),
            backoff: Backoff {
                first: Duration::from_millis(200),
                most: Duration::from_secs(30),
            },
            outcome_limit_bytes: 1024,
            batch: 16,
            concurrency: 8,
            max_message_bytes: 4096,
            bind: None,
        }
    }

    /// A worker at `broker` that nothing befalls yet.
    pub(crate) fn worker(&self, broker: &Broker) -> Worker {
        let surroundings = Surroundings {
            clock: Arc::new(self.clock),
            claimant: Claimant::random(&*self.chance),
            entropy: self.chance.clone(),
            observer: self.watch.clone(),
        };
        Worker::new(
            self.pipeline(),
            &self.store,
            &self.tables,
            broker,
            surroundings,
            self.clock,
        )
    }

    pub(crate) fn operation(&self, key: &str) -> Operation {
        Operation::new(
            self.scope.clone(),
            Key::new(key).expect("the key is well formed"),
        )
    }

    pub(crate) async fn record(&self, key: &str) -> Option<Record> {
        let records = self.store.get(&[self.operation(key)]).await;
        records.expect("the memory store answers").remove(0)
    }

    pub(crate) async fn state(&self, key: &str) -> Option<StateKind> {
        self.record(key).await.map(|record| record.state.kind())
    }

    /// The keys of the records that may have repeated their effect.
    pub(crate) async fn repeated(&self) -> Vec<String> {
        self.keys(&ListQuery {
            repeated: true,
            limit: ALL,
            ..ListQuery::default()
        })
        .await
    }

    /// The keys of the records in a state.
    pub(crate) async fn in_state(&self, state: StateKind) -> Vec<String> {
        self.keys(&ListQuery {
            state: Some(state),
            limit: ALL,
            ..ListQuery::default()
        })
        .await
    }

    /// What was set aside, in the order of their coordinates.
    pub(crate) async fn parked(&self) -> Vec<Parked> {
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

pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const WINDOW: Window = Window::new(Duration::from_secs(3_600));
pub(crate) const PROVIDER_WINDOW: Duration = Duration::from_secs(600);
pub(crate) const KEYED: Class = Class::Keyed {
    provider_window: PROVIDER_WINDOW,
};
pub(crate) const REPEAT: Class = Class::Unkeyed(OnDoubt::Repeat);
pub(crate) const PARK: Class = Class::Unkeyed(OnDoubt::Park);
const ALL: usize = 10_000;
