//! How a worker is: whether it is ready, what it still does before, and its counts.

mod metrics;
mod owner;
mod server;

pub(crate) use server::serve;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_core::Error;
use semel_core::port::streamed::Restored;
use semel_engine::consumer::OnProgress;
use semel_engine::event::{Event, Observer, Origin};
use semel_engine::summary::Summary;
use serde::Serialize;
use tokio::sync::watch;

/// A pipeline of class streamed, as it is seen from outside.
pub(crate) trait Streamed: Send + Sync {
    /// How far each of its partitions is restored.
    fn restored(&self) -> Vec<Restored>;

    /// Why one transaction is written after the other, if that is so.
    fn hindrance(&self) -> Option<Error>;
}

/// See the module.
pub(crate) struct Status {
    has_begun: AtomicBool,
    is_stopped: watch::Receiver<bool>,
    pipelines: Mutex<BTreeMap<Box<str>, Pipeline>>,
}

#[derive(Clone, Default)]
struct Pipeline {
    streamed: Option<Arc<dyn Streamed>>,
    /// As the run tells it now and then.
    summary: Summary,
    /// Deliveries, counted one by one.
    settled: Summary,
}

/// Counts what becomes of deliveries, and hands everything on.
pub(crate) struct Counting {
    pub(crate) status: Arc<Status>,
    pub(crate) beside: Arc<dyn Observer>,
}

impl Observer for Counting {
    fn observe(&self, pipeline: &str, event: &Event<'_>) {
        if let Event::Settled { fate, .. } = event {
            self.status.change(pipeline, |it| it.settled.count(*fate));
        }
        self.beside.observe(pipeline, event);
    }

    fn observe_message(&self, pipeline: &str, event: &Event<'_>, origin: Origin<'_>) {
        self.beside.observe_message(pipeline, event, origin);
    }
}

/// What a worker does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Doing {
    /// It has no store yet, or looks at its brokers.
    Starting,
    /// It reads what was done before; what has to wait for that, waits.
    Restoring,
    /// It works.
    Running,
    /// It was asked to stop.
    Stopping,
}

/// What is answered at `/readyz`.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Readiness {
    state: Doing,
    pipelines: BTreeMap<Box<str>, PipelineReadiness>,
}

#[derive(Debug, PartialEq, Serialize)]
struct PipelineReadiness {
    state: Doing,
    #[serde(skip_serializing_if = "Option::is_none")]
    restored: Option<Reach>,
}

/// How far a pipeline is restored, over the partitions that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Reach {
    /// Records of the changelog that were read.
    pub(crate) read: u64,
    /// How many there are; none while that is not known of all partitions.
    pub(crate) records: Option<u64>,
    /// Operations that were found in them.
    pub(crate) operations: u64,
    pub(crate) partitions: Vec<PartitionReach>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PartitionReach {
    pub(crate) partition: i32,
    pub(crate) state: Doing,
    read: u64,
    records: Option<u64>,
    operations: u64,
}

impl Status {
    /// Of a worker that has yet to begin; stopping once that was asked for.
    pub(crate) fn new(is_stopped: watch::Receiver<bool>) -> Self {
        Self {
            has_begun: AtomicBool::new(false),
            is_stopped,
            pipelines: Mutex::default(),
        }
    }

    /// Its pipelines run.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// A pipeline restores what was done before it works on a partition.
    pub(crate) fn restores(&self, pipeline: &str, streamed: Arc<dyn Streamed>) {
        self.change(pipeline, |it| it.streamed = Some(streamed));
    }

    /// Takes note of a pipeline's counts, beside `progress`.
    pub(crate) fn counting(self: &Arc<Self>, pipeline: &str, progress: OnProgress) -> OnProgress {
        let status = Arc::clone(self);
        let pipeline: Box<str> = pipeline.into();
        self.change(&pipeline, |_| {});
        Arc::new(move |read, summary| {
            status.change(&pipeline, |it| it.summary = *summary);
            progress(read, summary);
        })
    }

    pub(crate) fn readiness(&self) -> Readiness {
        let pipelines = self.lock().clone();
        let pipelines = pipelines.into_iter().map(|(name, pipeline)| {
            let restored = pipeline.streamed.map(|it| Reach::of(&it.restored()));
            let is_open = restored.as_ref().is_some_and(|it| !it.is_done());
            let state = if is_open {
                Doing::Restoring
            } else {
                Doing::Running
            };
            (name, PipelineReadiness { state, restored })
        });
        let pipelines: BTreeMap<_, _> = pipelines.collect();
        let state = if *self.is_stopped.borrow() {
            Doing::Stopping
        } else if !self.has_begun.load(Ordering::Relaxed) {
            Doing::Starting
        } else if pipelines.values().any(|it| it.state == Doing::Restoring) {
            Doing::Restoring
        } else {
            Doing::Running
        };
        Readiness { state, pipelines }
    }

    fn change(&self, pipeline: &str, change: impl FnOnce(&mut Pipeline)) {
        let mut all = self.lock();
        if let Some(known) = all.get_mut(pipeline) {
            change(known);
            return;
        }
        change(all.entry(pipeline.into()).or_default());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Pipeline>> {
        self.pipelines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Readiness {
    pub(crate) fn is_ready(&self) -> bool {
        self.state == Doing::Running
    }
}

impl Reach {
    pub(crate) fn of(partitions: &[Restored]) -> Self {
        let records = partitions.iter().map(|it| it.records).sum::<Option<u64>>();
        let partitions: Vec<_> = partitions.iter().map(PartitionReach::of).collect();
        Self {
            read: partitions.iter().map(|it| it.read).sum(),
            records,
            operations: partitions.iter().map(|it| it.operations).sum(),
            partitions,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        let mut all = self.partitions.iter();
        all.all(|it| it.state != Doing::Restoring)
    }
}

impl PartitionReach {
    fn of(restored: &Restored) -> Self {
        Self {
            partition: restored.partition,
            state: if restored.is_done {
                Doing::Running
            } else {
                Doing::Restoring
            },
            read: restored.read,
            records: restored.records,
            operations: restored.operations,
        }
    }
}

#[cfg(test)]
mod tests;
