//! One process: a consumer with its faults, which ends, fails or is killed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::sink::AnySink;
use semel_core::port::streamed::StreamedStore;
use semel_core::port::transactional::AnyTransactionalStore;
use semel_core::{AnyStore, Result};
use semel_engine::consumer::Consumer;
use semel_engine::effect::{BatchEffect, BulkEffect, Class, Effect, Output};
use semel_engine::event::{FanOut, Observer, Unobserved};
use semel_engine::layer::outage::Policy;
use semel_engine::pipeline::Pipeline;
use semel_engine::summary::{Fate, Summary};
use semel_engine::surroundings::{OnProgress, Shutdown, Surroundings};

use super::backing::Backing;
use super::broker::{Broker, Feed};
use super::crash::Crash;
use super::fault::Plan;
use super::faulty::Faulty;
use super::scripted::{OneByOne, Scripted};
use super::stop::Stop;
use super::time::{AskingClock, PausedClock};

type FaultyConsumer = Consumer<Faulty<AnyStore>, Feed>;

/// A worker that has not begun.
pub struct Worker {
    pub pipeline: Pipeline,
    pub feed: Feed,
    pub plan: Arc<Plan>,
    pub crash: Crash,
    pub stop: Stop,
    /// Ends this run alone.
    pub recall: Stop,
    pub patience: Duration,
    pub on_progress: Option<OnProgress>,
    pub outage: Policy,
    pub dead_letters: Option<AnySink>,
    backing: Backing,
    broker: Broker,
    surroundings: Surroundings,
    clock: PausedClock,
}

/// The end of a worker.
#[derive(Debug)]
pub enum Run {
    /// It was killed.
    Crashed,
    /// It ended by itself.
    Ended(Result<Summary>),
}

impl Run {
    /// The summary of a worker that ended well.
    #[track_caller]
    pub fn summary(self) -> Summary {
        match self {
            Self::Ended(Ok(summary)) => summary,
            Self::Ended(Err(error)) => panic!("the run failed: {error:?}"),
            Self::Crashed => panic!("the worker was killed"),
        }
    }

    /// The error of a worker that gave up.
    #[track_caller]
    pub fn error(self) -> semel_core::Error {
        match self {
            Self::Ended(Err(error)) => error,
            Self::Ended(Ok(summary)) => panic!("the run ended well: {summary:?}"),
            Self::Crashed => panic!("the worker was killed"),
        }
    }
}

/// The way in which an effect is called: message by message, as one stream of batches, or several
/// batches at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    Each,
    Stream,
    Bulk,
}

impl Manner {
    pub const ALL: [Self; 3] = [Self::Each, Self::Stream, Self::Bulk];
}

impl Worker {
    pub fn new(
        pipeline: Pipeline,
        backing: Backing,
        broker: &Broker,
        surroundings: Surroundings,
        clock: PausedClock,
    ) -> Self {
        let crash = Crash::new();
        Self {
            pipeline,
            feed: broker.feed(crash.clone()),
            plan: Arc::new(Plan::new(crash.clone(), clock)),
            crash,
            stop: Stop::new(),
            recall: Stop::new(),
            patience: Duration::from_secs(30),
            on_progress: None,
            outage: Policy {
                // Standing still is played by calls that take this long.
                answer_within: Duration::from_secs(86_400),
                ..Policy::closed(&surroundings)
            },
            dead_letters: None,
            backing,
            broker: broker.clone(),
            surroundings,
            clock,
        }
    }

    /// Has `observer` watch the worker, too.
    pub fn add_observer(&mut self, observer: Arc<dyn Observer>) {
        let both = [Arc::clone(&self.surroundings.observer), observer];
        self.surroundings.observer = Arc::new(FanOut::new(both));
    }

    /// Has the worker meet `request` at one of its looks at the clock, by number.
    pub fn meets(&mut self, request: Stop, at_look: u64) -> Arc<AskingClock> {
        let clock = Arc::new(AskingClock::new(self.clock, request, at_look));
        self.surroundings.clock = clock.clone();
        clock
    }

    /// Has nobody watch the worker.
    pub fn unobserved(&mut self) {
        self.surroundings.observer = Arc::new(Unobserved);
    }

    pub async fn each(self, effect: Arc<Scripted>, class: Class) -> Run {
        let (consumer, life) = self.begin();
        life.live(Box::pin(consumer.run_each(effect, class))).await
    }

    /// Runs an effect of a test's own, call by call.
    pub async fn effect(self, effect: Arc<impl Effect>, class: Class) -> Run {
        let (consumer, life) = self.begin();
        life.live(Box::pin(consumer.run_each(effect, class))).await
    }

    pub async fn stream(self, effect: Arc<Scripted>, class: Class) -> Run {
        self.batches(OneByOne(effect), class).await
    }

    /// Runs the same effect in one manner or another.
    pub async fn by(self, manner: Manner, effect: Arc<Scripted>, class: Class) -> Run {
        match manner {
            Manner::Each => self.each(effect, class).await,
            Manner::Stream => self.stream(effect, class).await,
            Manner::Bulk => self.bulk(OneByOne(effect), class).await,
        }
    }

    pub async fn batches(self, effect: impl BatchEffect, class: Class) -> Run {
        let (consumer, life) = self.begin();
        life.live(Box::pin(consumer.run_stream(effect, class)))
            .await
    }

    pub async fn bulk(self, effect: impl BulkEffect, class: Class) -> Run {
        let (consumer, life) = self.begin();
        life.live(Box::pin(consumer.run_bulk(Arc::new(effect), class)))
            .await
    }

    pub async fn output(self, output: impl Output) -> Run {
        let checkpoints =
            AnyCheckpointStore::new(Faulty::new(self.backing.checkpoints.clone(), &self.plan));
        let (consumer, life) = self.begin();
        life.live(Box::pin(consumer.run_output(output, checkpoints)))
            .await
    }

    pub async fn transaction(self) -> Run {
        let database = self.backing.database.clone();
        let database = database.expect("a world has a database, or its double");
        let tables = AnyTransactionalStore::new(Faulty::new(database.store, &self.plan));
        let (consumer, life) = self.begin();
        let run = consumer.run_transaction(tables, database.statements);
        life.live(Box::pin(run)).await
    }

    pub async fn streamed(
        self,
        streamed: impl StreamedStore,
        transform: Option<Arc<impl Effect>>,
    ) -> Run {
        let (consumer, life) = self.begin();
        life.live(Box::pin(consumer.run_streamed(streamed, transform)))
            .await
    }

    fn begin(self) -> (FaultyConsumer, Life) {
        let Self {
            pipeline,
            feed,
            plan,
            crash,
            stop,
            recall,
            patience,
            backing,
            broker,
            ..
        } = self;
        let (handed, told) = (Arc::clone(&feed.handed), Arc::clone(&feed.told));
        let consumer = Consumer {
            pipeline: Arc::new(pipeline),
            store: Faulty::new(backing.store, &plan),
            source: feed,
            surroundings: self.surroundings,
            shutdown: Shutdown {
                recalled: Some(recall.subscribe()),
                ..stop.shutdown(patience)
            },
            on_progress: self.on_progress,
            outage: self.outage,
            dead_letters: self.dead_letters,
        };
        (
            consumer,
            Life {
                crash,
                broker,
                handed,
                told,
                _stop: stop,
                _recall: recall,
            },
        )
    }
}

/// The tasks around a consumer while it lives.
struct Life {
    crash: Crash,
    broker: Broker,
    handed: Arc<Mutex<u64>>,
    told: Arc<Mutex<Summary>>,
    _stop: Stop,
    _recall: Stop,
}

impl Life {
    async fn live(self, consumer: impl Future<Output = Result<Summary>>) -> Run {
        // To kill it, dropping the consumer's future is enough.
        let run = tokio::select! {
            biased;
            () = self.crash.strikes() => Run::Crashed,
            ended = consumer => Run::Ended(ended),
        };
        self.broker.check();
        if let Run::Ended(Ok(summary)) = &run {
            let handed = *self.handed.lock().expect("counts never panic");
            let fates: u64 = FATES.iter().map(|fate| summary.of(*fate)).sum();
            assert_eq!(
                summary.deliveries(),
                fates,
                "deliveries are the sum of the fates"
            );
            assert_eq!(
                summary.deliveries(),
                handed,
                "every delivery has a fate: {summary:?}"
            );
            let told = self.told.lock().expect("counts never panic");
            for fate in FATES.into_iter().filter(|fate| *fate != Fate::Released) {
                assert_eq!(
                    told.of(fate),
                    summary.of(fate),
                    "the source was told of each that is {fate:?}"
                );
            }
            assert_eq!(told.of(Fate::Released), 0, "what is released is requeued");
        }
        run
    }
}

/// Every fate.
pub const FATES: [Fate; 10] = [
    Fate::Applied,
    Fate::Replayed,
    Fate::Stale,
    Fate::Conflict,
    Fate::TooOld,
    Fate::Released,
    Fate::Dead,
    Fate::InDoubt,
    Fate::Quarantined,
    Fate::Unprotected,
];
