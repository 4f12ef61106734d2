//! The task that owns the source: reads ahead, turns deliveries into claims to ask for, passes
//! acknowledgements back.

use std::sync::Arc;

use semel_core::json::Tape;
use semel_core::port::source::{DeliveryId, Fetched, Progress, Source};
use semel_core::{Entropy, Error, ErrorKind, Result, Start};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::pipeline::{Incoming, Pipeline, Rejected};

/// What the source brought, read.
pub(super) enum Chunk {
    /// Deliveries in source order; those without a usable key apart.
    Messages { incoming: Vec<Incoming>, rejected: Vec<Rejected>, progress: Option<Progress> },
    /// Some belong to somebody else now; the source ignores their acknowledgements.
    Revoked,
    /// There will never be more.
    Ended,
    /// The source failed for good.
    Failed(Error),
}

/// The consumer's end of the intake task. Dropping it ends the task.
pub(super) struct Intake {
    chunks: mpsc::Receiver<Chunk>,
    acknowledgements: mpsc::Sender<Vec<DeliveryId>>,
    _task: JoinSet<()>,
}

impl Intake {
    /// Waits for the next chunk. Cancel safe.
    pub(super) async fn next(&mut self) -> Chunk {
        self.chunks.recv().await.unwrap_or(Chunk::Ended)
    }

    /// The next chunk, if one is ready.
    pub(super) fn try_next(&mut self) -> Option<Chunk> {
        self.chunks.try_recv().ok()
    }

    /// Passes acknowledgements on.
    pub(super) async fn acknowledge(&self, batch: Vec<DeliveryId>) -> Result<()> {
        let sent = self.acknowledgements.send(batch).await;
        sent.map_err(|_| Error::new(ErrorKind::Unavailable, "the source has stopped"))
    }

    /// Stops fetching, passes on what is still to be acknowledged, and waits for the source.
    pub(super) async fn close(self) {
        let Self { chunks, acknowledgements, _task: mut task } = self;
        drop((chunks, acknowledgements));
        while task.join_next().await.is_some() {}
    }
}

pub(super) fn open(
    source: impl Source,
    pipeline: Arc<Pipeline>,
    start: Start,
    entropy: Arc<dyn Entropy>,
) -> Intake {
    // Two chunks ahead keep the store busy; more would only hold memory.
    let (chunk_sender, chunks) = mpsc::channel(2);
    let (acknowledgements, acknowledged) = mpsc::channel(64);
    let mut task = JoinSet::new();
    let reader = Reader { source, pipeline, start, entropy, tape: Tape::default(), ended: false };
    task.spawn(reader.run(chunk_sender, acknowledged));
    Intake { chunks, acknowledgements, _task: task }
}

struct Reader<Src> {
    source: Src,
    pipeline: Arc<Pipeline>,
    start: Start,
    entropy: Arc<dyn Entropy>,
    tape: Tape,
    ended: bool,
}

impl<Src: Source> Reader<Src> {
    async fn run(
        mut self,
        chunks: mpsc::Sender<Chunk>,
        mut acknowledged: mpsc::Receiver<Vec<DeliveryId>>,
    ) {
        loop {
            let max = self.pipeline.batch;
            let fetched = tokio::select! {
                biased;
                batch = acknowledged.recv() => match batch {
                    // An acknowledgement that fails is a redelivery later, which is harmless.
                    Some(batch) => {
                        let _ = self.source.acknowledge(&batch).await;
                        continue;
                    }
                    None => return,
                },
                fetched = fetch(&mut self.source, &chunks, max), if !self.ended => fetched,
            };
            let Some((permit, fetched)) = fetched else {
                // The consumer fetches no more; what it acknowledges is still passed on.
                self.ended = true;
                continue;
            };
            permit.send(self.read(fetched));
        }
    }

    fn read(&mut self, fetched: Result<Fetched>) -> Chunk {
        let deliveries = match fetched {
            Ok(Fetched::Deliveries(deliveries)) => deliveries,
            Ok(Fetched::Revoked(_)) => return Chunk::Revoked,
            Ok(Fetched::Ended) => {
                self.ended = true;
                return Chunk::Ended;
            }
            Err(error) => {
                self.ended = true;
                return Chunk::Failed(error);
            }
        };
        let mut incoming = Vec::with_capacity(deliveries.len());
        let mut rejected = Vec::new();
        for delivery in deliveries {
            let read = self.pipeline.read(delivery, self.start, &*self.entropy, &mut self.tape);
            match read {
                Ok(message) => incoming.push(message),
                Err(unusable) => rejected.push(*unusable),
            }
        }
        Chunk::Messages { incoming, rejected, progress: self.source.progress() }
    }
}

/// Waits for room first and for deliveries then, so that nothing is fetched that cannot be held.
async fn fetch<'a>(
    source: &mut impl Source,
    chunks: &'a mpsc::Sender<Chunk>,
    max: usize,
) -> Option<(mpsc::Permit<'a, Chunk>, Result<Fetched>)> {
    let permit = chunks.reserve().await.ok()?;
    Some((permit, source.fetch(max).await))
}
