#![doc = include_str!("../README.md")]
//!
//! [`SqliteInbox`]: sqlite::SqliteInbox
//! [`.keyed(window)`]: Declared::keyed
//! [`op.idempotency_key()`]: Op::idempotency_key
//! [`.unkeyed(OnDoubt::Park)`]: Declared::unkeyed
//! [`.unkeyed(OnDoubt::Repeat)`]: Declared::unkeyed
//! [`once`]: Declared::once
//! [`once_retrying`]: Declared::once_retrying
//! [`wait`]: Declared::wait
//! [`once_here`]: Declared::once_here
//! [`op.cancelled()`]: Op::cancelled
//! [`op.fencing_token()`]: Op::fencing_token
//! [`close`]: Semel::close
//! [`once_batch`]: Semel::once_batch
//! [`consumer`]: Semel::consumer
// Re-exports of the crates below and one handle over them; the work is done in `semel-engine`.

#[cfg(feature = "client")]
pub mod client;
mod handle;
#[cfg(feature = "http")]
pub mod http;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod inbox;
pub mod producer;
#[cfg(any(
    feature = "sqlx-mysql",
    feature = "sqlx-postgres",
    feature = "sqlx-sqlite"
))]
pub mod sqlx;
#[cfg(feature = "testing")]
pub mod testing;
mod url;

pub use handle::{Batch, Builder, ConsumerBuilder, Declared, Semel};

/// Operations: the inputs of a call and its results.
#[doc(inline)]
pub use semel_engine::once::{
    Answered, Cause, Dropped, EffectBreaker, Error as OnceError, Failure, Granted, Happened, Op,
    Panicked, Pending, Receipt, Remember, Settings, TYPED_JSON, TargetAway, TimedOut, ToKey, Typed,
    Unreadable,
};

/// Consumers: handlers and effects over a source.
#[doc(inline)]
pub use semel_engine::{
    consumer::Consumer,
    effect::{BatchEffect, BulkEffect, Call, Class, Effect, OnDoubt, Output, Probe, Verdict},
    handler::{IntoOutcome, Message},
    pipeline::Pipeline,
    summary::{Fate, Summary},
    surroundings::{OnProgress, Shutdown, Surroundings},
};

/// Observers, and the inputs that a caller provides.
#[doc(inline)]
pub use semel_engine::{
    event::{Event, Observer, Origin, Pause, Unobserved},
    system::{SystemClock, SystemEntropy},
};

/// Traces: the spans of attempts, for an [`Observer`] that [wants them](Observer::wants_spans), and what goes on from one
/// service to the next.
///
/// A call gets the trace of its caller's request by [`Declared::trace`], an effect hands on what [`Op::trace`] or
/// [`Message::trace`] says. An observer that wants spans is handed those of each attempt once it has ended, to be sent to
/// a collector; `examples/trace.rs` prints them.
pub mod trace {
    #[doc(inline)]
    pub use semel_core::{SpanId, TraceContext, TraceFlags, TraceId};
    #[doc(inline)]
    pub use semel_engine::{
        effect::TraceHeaders,
        trace::{End, HttpExchange, ProcessKind, SampleShare, ServedRequest, Span, Spans},
    };
}

/// The vocabulary.
#[doc(inline)]
pub use semel_core::{
    Admission, Advice, AttemptEnd, AttemptLimits, Audited, Backoff, Certainty, Claim, ClaimId,
    ClaimRequest, Claimant, Clock, Code, Differing, Duplicate, Entropy, Error, ErrorKind,
    FencingToken, Fingerprint, Grant, Key, Members, Note, OpId, Operation, Outcome, Parked,
    ParkedId, PastAttempt, Record, Recovery, Renewal, Renewed, Result, Scope, Settled, Settlement,
    Start, State, StateKind, Step, Timestamp, Unusable, VersionGate, Window,
};

/// Messages that leave if, and only if, the transaction that wrote them commits.
#[doc(inline)]
pub use semel_core::outbox::{NotUuid, OutboxId, OutboxMessage};

/// The ports: the traits that a store or a source of your own implements, [`StoreExt`] for callers of a
/// store, and [`forward_store!`] for a layer over one.
#[doc(inline)]
pub use semel_core::{
    AnyStore, Store, StoreExt, forward_store,
    port::source::{Acknowledgement, Delivery, DeliveryId, Fetched, Progress, Source},
};

/// Orders of operators, and the pure decisions behind every store.
#[doc(inline)]
pub use semel_core::{decide, port};

/// Layers over a store, to be passed to [`Semel::with_store`]: [`Tiered`](layer::tiered::Tiered) answers
/// duplicates of finished keys from memory, and [`Guarded`](layer::outage::Guarded) stops calling a store
/// that does not answer.
///
/// ```
/// use std::sync::Arc;
/// use semel::layer::{outage, tiered};
/// use semel::{Semel, SystemClock, SystemEntropy, Unobserved};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), semel::OnceError> {
/// let clock = Arc::new(SystemClock::new());
/// let store = Arc::new(semel::memory::MemoryStore::new(clock.clone()));
/// let breaker = outage::Breaker::new(outage::Settings::default(), clock.clone(), Arc::new(SystemEntropy));
/// let store = outage::Guarded::new(store, Arc::new(breaker), Arc::new(Unobserved));
/// let store = tiered::Tiered::new(store, tiered::Settings::default(), clock);
/// let semel = Semel::with_store(store);
/// let receipt = semel.once("charge", "pay-1", async |_| Ok(42)).await?;
/// assert_eq!(*receipt.value(), 42);
/// # Ok(())
/// # }
/// ```
pub mod layer {
    /// A local cache of completed records.
    pub mod tiered {
        #[doc(inline)]
        pub use semel_engine::layer::tiered::{Settings, Statistics, Tiered};
    }

    /// A breaker between callers and a store that does not answer.
    pub mod outage {
        #[doc(inline)]
        pub use semel_engine::layer::outage::{
            Breaker, Entry, Guarded, Permit, Settings, Status, Turn,
        };
    }
}

/// The drivers in whose transactions the inboxes work, in their versions.
#[cfg(feature = "mysql")]
pub use semel_store_mysql::mysql_async;
#[cfg(feature = "postgres")]
pub use semel_store_postgres::tokio_postgres;
#[cfg(feature = "sqlite")]
pub use semel_store_sqlite::rusqlite;

/// The reference store: exact, in memory, forgets at exit.
pub mod memory {
    #[doc(inline)]
    pub use semel_store_memory::{MemoryProducers, MemoryStore};
}

/// The default store: one folder, one process, durable.
#[cfg(feature = "embedded")]
pub mod embedded {
    #[doc(inline)]
    pub use semel_store_embedded::{EmbeddedProducers, EmbeddedStore, Options};
}

/// Records in an SQLite file, and in the transactions of programs that use that file.
#[cfg(feature = "sqlite")]
pub mod sqlite {
    #[doc(inline)]
    pub use crate::inbox::sqlite::SqliteInbox;
    #[doc(inline)]
    pub use semel_store_sqlite::{Options, SqliteOutbox, SqliteProducers, SqliteStore};
}

/// Records in a PostgreSQL database, for any number of processes, and in the transactions of programs that
/// use that database.
#[cfg(feature = "postgres")]
pub mod postgres {
    #[doc(inline)]
    pub use crate::inbox::postgres::PostgresInbox;
    #[doc(inline)]
    pub use semel_store_postgres::{Options, PostgresOutbox, PostgresProducers, PostgresStore};
}

/// Records in a MySQL or MariaDB database, for any number of processes, and in the transactions of programs
/// that use that database.
#[cfg(feature = "mysql")]
pub mod mysql {
    #[doc(inline)]
    pub use crate::inbox::mysql::MysqlInbox;
    #[doc(inline)]
    pub use semel_store_mysql::{MysqlOutbox, MysqlProducers, MysqlStore, Options};
}

/// Records in Redis or Valkey, for any number of processes and short windows.
#[cfg(feature = "redis")]
pub mod redis {
    #[doc(inline)]
    pub use semel_store_redis::{Options, RedisProducers, RedisStore};
}

/// A Kafka topic as a source, shared by a consumer group.
#[cfg(feature = "kafka")]
pub mod kafka {
    #[doc(inline)]
    pub use semel_broker_kafka::{KafkaSink, KafkaSource, Options, SinkOptions};
}

/// A NATS JetStream stream as a source, shared by a durable consumer.
#[cfg(feature = "nats")]
pub mod nats {
    #[doc(inline)]
    pub use semel_broker_nats::{NatsSink, NatsSource, Options, SinkOptions, Tls};
}

/// A RabbitMQ queue as a source.
#[cfg(feature = "amqp")]
pub mod amqp {
    #[doc(inline)]
    pub use semel_broker_amqp::{AmqpSink, AmqpSource, Options, SinkOptions, Tls};
}

/// Requests of a provider as a source, each answered once it is on record.
#[cfg(feature = "webhook")]
pub mod webhook {
    #[doc(inline)]
    pub use semel_broker_webhook::{
        Answers, Encoding, Identity, InvalidSecret, Listeners, Options, Refusal, Scheme,
        Verification, WebhookSource,
    };
}

/// A file or standard input as a source, line by line.
#[cfg(feature = "file")]
pub mod file {
    #[doc(inline)]
    pub use semel_broker_file::{FileSource, Format, Options, StdinSource};
}
