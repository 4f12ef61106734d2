//! The metrics of one store, and the layer that takes them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use semel_core::port::checkpoint::{CheckpointStore, Together, Write};
use semel_core::port::store::Swept;
use semel_core::port::transactional::{Application, Applied, Statements, TransactionalStore};
use semel_core::{Admission, ClaimRequest, Clock, Code, Mark, Result, Settlement, Store};

use semel_engine::layer::outage::ANSWER_WITHIN;

use crate::families::{Counters, Families, labels};

/// Times the calls of one store, and counts those that fail. One may serve several layers over the same store.
#[derive(Clone)]
pub struct StoreMetrics(Arc<Series>);

struct Series {
    store: String,
    clock: Arc<dyn Clock>,
    calls: [Histogram; CALLS.len()],
    errors: Counters,
    swept: [Counter; SWEPT.len()],
}

/// The kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Claim,
    Settle,
    Renew,
    Park,
    Read,
    List,
    Operate,
    Sweep,
}

impl StoreMetrics {
    pub(crate) fn new(families: &Families, store: &str, clock: Arc<dyn Clock>) -> Self {
        let call = |call| {
            let labels = labels([("store", store), ("call", call)]);
            families.store_call_seconds.get_or_create_owned(&labels)
        };
        let swept = |what| {
            let labels = labels([("store", store), ("what", what)]);
            families.swept.get_or_create_owned(&labels)
        };
        Self(Arc::new(Series {
            store: store.to_owned(),
            clock,
            calls: CALLS.map(call),
            errors: families.store_errors.clone(),
            swept: SWEPT.map(swept),
        }))
    }

    /// Returns a layer over `inner`, whose calls it times.
    pub fn measure<S>(&self, inner: S) -> Measured<S> {
        Measured {
            inner,
            metrics: self.clone(),
        }
    }

    async fn time<T>(&self, call: Call, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut waiting = Waiting {
            series: &self.0,
            call,
            began_at: self.0.clock.monotonic(),
            is_answered: false,
        };
        let result = work.await;
        waiting.is_answered = true;
        drop(waiting);
        if let Err(error) = &result {
            self.0.failed(call, error.code());
        }
        result
    }

    fn swept(&self, swept: &Swept) {
        let counts = [swept.removed, swept.doubted, swept.abandoned];
        for (counter, count) in self.0.swept.iter().zip(counts) {
            counter.inc_by(count);
        }
    }
}

impl Series {
    fn failed(&self, call: Call, code: Code) {
        let labels = labels([
            ("store", &self.store),
            ("call", CALLS[call as usize]),
            ("kind", code.as_str()),
        ]);
        self.errors.get_or_create(&labels).inc();
    }
}

/// A call whose answer is waited for. Whoever waits gives a call up by dropping it.
struct Waiting<'a> {
    series: &'a Series,
    call: Call,
    began_at: Duration,
    is_answered: bool,
}

/// Observes the time. A call that is given up took this long at least, and failed if that is as long as anybody waits.
impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let now = self.series.clock.monotonic();
        let took = now.saturating_sub(self.began_at);
        self.series.calls[self.call as usize].observe(took.as_secs_f64());
        if !self.is_answered && took >= ANSWER_WITHIN {
            self.series.failed(self.call, Code::Timeout);
        }
    }
}

impl std::fmt::Debug for StoreMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreMetrics")
            .field("store", &self.0.store)
            .finish_non_exhaustive()
    }
}

/// A layer that times the calls of a store and counts those that fail. A call that is dropped before its answer has the
/// time until then, and is a failure with the code `timeout` if that is [`ANSWER_WITHIN`] or longer.
#[derive(Clone, Debug)]
pub struct Measured<S> {
    inner: S,
    metrics: StoreMetrics,
}

macro_rules! measured {
    ($($method:ident($($input:ident: $type:ty),*) -> $answer:ty;)+) => {
        #[deny(clippy::missing_trait_methods)]
        impl<S: Store> Store for Measured<S> {
            $(async fn $method(&self, $($input: $type),*) -> Result<$answer> {
                let work = self.inner.$method($($input),*);
                let answer = self.metrics.time(call!($method), work).await;
                count!($method, self.metrics, answer);
                answer
            })+
        }
    };
}

/// The kind of each method's calls. One that is new has to be given one.
macro_rules! call {
    (claim) => {
        Call::Claim
    };
    (settle) => {
        Call::Settle
    };
    (renew) => {
        Call::Renew
    };
    (park) => {
        Call::Park
    };
    (get) => {
        Call::Read
    };
    (stats) => {
        Call::Read
    };
    (estimate) => {
        Call::Read
    };
    (preflight) => {
        Call::Read
    };
    (list) => {
        Call::List
    };
    (list_parked) => {
        Call::List
    };
    (list_audit) => {
        Call::List
    };
    (operate) => {
        Call::Operate
    };
    (drop_parked) => {
        Call::Operate
    };
    (sweep) => {
        Call::Sweep
    };
}

/// Counts what an answer tells, besides that it came.
macro_rules! count {
    (sweep, $metrics:expr, $answer:ident) => {
        if let Ok(swept) = &$answer {
            $metrics.swept(swept);
        }
    };
    ($other:ident, $metrics:expr, $answer:ident) => {};
}

semel_core::store_methods!(measured);

#[deny(clippy::missing_trait_methods)]
impl<S: CheckpointStore> CheckpointStore for Measured<S> {
    async fn settle_with(&self, batch: Arc<[Settlement]>, mark: &Mark) -> Result<Together> {
        let work = self.inner.settle_with(batch, mark);
        self.metrics.time(Call::Settle, work).await
    }

    async fn admit_with(&self, batch: Vec<ClaimRequest>, write: Write) -> Result<Vec<Admission>> {
        let work = self.inner.admit_with(batch, write);
        self.metrics.time(Call::Settle, work).await
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        let work = self.inner.mark(name);
        self.metrics.time(Call::Read, work).await
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: TransactionalStore> TransactionalStore for Measured<S> {
    async fn prepare(&self, statements: &Statements) -> Result<()> {
        let work = self.inner.prepare(statements);
        self.metrics.time(Call::Read, work).await
    }

    async fn apply(
        &self,
        statements: &Statements,
        batch: Arc<[Application]>,
    ) -> Result<Vec<Applied>> {
        let work = self.inner.apply(statements, batch);
        self.metrics.time(Call::Settle, work).await
    }
}

/// In the order of [`Call`].
const CALLS: [&str; 8] = [
    "claim", "settle", "renew", "park", "read", "list", "operate", "sweep",
];
/// In the order of the members of [`Swept`].
const SWEPT: [&str; 3] = ["removed", "doubted", "abandoned"];
