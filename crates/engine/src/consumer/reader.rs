//! The task that owns the source: it reads ahead, turns deliveries into requests for claims, and
//! passes back what became of them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::source::{Acknowledgement, DeliveryId, Fetched, Judgement, Progress, Source};
use semel_core::{Error, ErrorKind, Result};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::in_hand::{InHand, Laning};
use crate::effect::Class;
use crate::pipeline::{Pipeline, Rejected, Scratch};
use crate::surroundings::Surroundings;

/// A parsed answer of the source.
pub(super) enum Chunk {
    /// Deliveries in source order; those without a usable key are apart, and so are those that a gate knows.
    Messages {
        incoming: Vec<InHand>,
        rejected: Vec<Rejected>,
        known: Vec<DeliveryId>,
        progress: Option<Progress>,
        /// The time for which the broker leaves the deliveries here without an extension.
        hold: Option<Duration>,
    },
    /// Other consumers have this many deliveries in hand, for this long at the most.
    Elsewhere(u64, Duration),
    /// These deliveries are about to belong to another consumer.
    Revoked(Vec<DeliveryId>),
    /// The source is away, and is asked again.
    Away(Error),
    /// The source is there again.
    Back,
    /// No more deliveries will ever come.
    Ended,
    /// The source failed for good.
    Failed(Error),
}

impl Chunk {
    fn deliveries(&self) -> Vec<DeliveryId> {
        match self {
            Self::Messages {
                incoming,
                rejected,
                known,
                ..
            } => {
                let readable = incoming.iter().map(|it| it.delivery);
                readable
                    .chain(rejected.iter().map(|it| it.delivery))
                    .chain(known.iter().copied())
                    .collect()
            }
            Self::Elsewhere(..)
            | Self::Back
            | Self::Revoked(_)
            | Self::Away(_)
            | Self::Ended
            | Self::Failed(_) => Vec::new(),
        }
    }
}

/// A message to the source about deliveries. If it cannot be passed on, a later redelivery follows, which is
/// harmless.
pub(super) enum Disposition {
    /// They are settled, each with its fate.
    Acknowledge(Vec<Acknowledgement>),
    /// They are still worked on.
    Extend(Vec<DeliveryId>),
    /// They are given back.
    Requeue(Vec<DeliveryId>),
}

/// See [`ReaderHandle::disposition_sender`].
pub(super) type DispositionSender = mpsc::WeakSender<Disposition>;

/// The consumer's end of the reader's task. Dropping it ends the task.
pub(super) struct ReaderHandle {
    chunks: mpsc::Receiver<Chunk>,
    dispositions: mpsc::Sender<Disposition>,
    _task: JoinSet<()>,
}

impl ReaderHandle {
    /// Waits for the next chunk. Cancel safe.
    pub(super) async fn next(&mut self) -> Chunk {
        // A source says when it ends; a task that is simply gone has panicked.
        let gone = || Chunk::Failed(Error::new(ErrorKind::Internal, "the source panicked"));
        self.chunks.recv().await.unwrap_or_else(gone)
    }

    /// Returns the next chunk, if one is ready.
    pub(super) fn try_next(&mut self) -> Option<Chunk> {
        self.chunks.try_recv().ok()
    }

    /// Tells the source what became of deliveries.
    pub(super) async fn send(&self, disposition: Disposition) -> Result<()> {
        let sent = self.dispositions.send(disposition).await;
        sent.map_err(|_| Error::new(ErrorKind::Unavailable, "the source has stopped"))
    }

    /// Returns a sender to the source that does not keep it open.
    pub(super) fn disposition_sender(&self) -> DispositionSender {
        self.dispositions.downgrade()
    }

    /// Stops fetching, passes on the messages to the source that are left, and waits for the
    /// source. Returns the count of deliveries that were read ahead and never taken in hand.
    pub(super) async fn close(self) -> usize {
        let Self {
            mut chunks,
            dispositions,
            _task: mut task,
        } = self;
        chunks.close();
        drop(dispositions);
        while task.join_next().await.is_some() {}
        let mut read_ahead = 0;
        while let Ok(chunk) = chunks.try_recv() {
            if let Chunk::Messages {
                incoming,
                rejected,
                known,
                ..
            } = chunk
            {
                read_ahead += incoming.len() + rejected.len() + known.len();
            }
        }
        read_ahead
    }
}

pub(super) fn open(
    source: impl Source,
    pipeline: Arc<Pipeline>,
    class: Class,
    laning: Laning,
    surroundings: Surroundings,
) -> ReaderHandle {
    // Two chunks ahead keep the store busy; more would only hold memory.
    let (chunk_sender, chunks) = mpsc::channel(2);
    let (dispositions, receiver) = mpsc::channel(64);
    let mut task = JoinSet::new();
    let mut scratch = Scratch::new(&pipeline, class.start());
    if class == Class::Streamed {
        scratch = scratch.without_members();
    }
    let reader = Reader {
        source,
        scratch,
        class,
        pipeline,
        laning,
        surroundings,
        ended: false,
        sent: VecDeque::new(),
    };
    task.spawn(reader.run(chunk_sender, receiver));
    ReaderHandle {
        chunks,
        dispositions,
        _task: task,
    }
}

struct Reader<Src> {
    source: Src,
    pipeline: Arc<Pipeline>,
    scratch: Scratch,
    class: Class,
    laning: Laning,
    surroundings: Surroundings,
    ended: bool,
    /// The deliveries of the last chunks, some of which the consumer may not have received yet.
    sent: VecDeque<Vec<DeliveryId>>,
}

impl<Src: Source> Reader<Src> {
    async fn run(
        mut self,
        chunks: mpsc::Sender<Chunk>,
        mut dispositions: mpsc::Receiver<Disposition>,
    ) {
        loop {
            let max = self.pipeline.batch;
            let fetched = tokio::select! {
                biased;
                disposition = dispositions.recv() => {
                    let Some(disposition) = disposition else {
                        // Deliveries that are not confirmed are delivered again, which is harmless.
                        let _ = self.source.close().await;
                        return;
                    };
                    self.apply(disposition, chunks.max_capacity() - chunks.capacity()).await;
                    continue;
                }
                fetched = fetch(&mut self.source, &chunks, max), if !self.ended => fetched,
            };
            let Some((permit, fetched)) = fetched else {
                // The consumer fetches no more; its messages to the source are still passed on.
                self.ended = true;
                continue;
            };
            let chunk = self.read(fetched);
            self.sent.push_back(chunk.deliveries());
            if self.sent.len() > chunks.max_capacity() {
                self.sent.pop_front();
            }
            permit.send(chunk);
        }
    }

    /// Passes on a message of the consumer; it has not received the last `waiting` chunks yet.
    async fn apply(&mut self, disposition: Disposition, waiting: usize) {
        let _ = match disposition {
            Disposition::Acknowledge(batch) => self.source.acknowledge(&batch).await,
            Disposition::Extend(mut batch) => {
                // These deliveries are worked on soon, and the broker must know.
                batch.extend(self.sent.iter().rev().take(waiting).flatten());
                self.source.extend(&batch).await
            }
            Disposition::Requeue(batch) => self.source.requeue(&batch).await,
        };
    }

    fn read(&mut self, fetched: Result<Fetched>) -> Chunk {
        let deliveries = match fetched {
            Ok(Fetched::Deliveries(deliveries)) => deliveries,
            Ok(Fetched::Revoked(deliveries)) => return Chunk::Revoked(deliveries),
            Ok(Fetched::Away(error)) => return Chunk::Away(error),
            Ok(Fetched::Back) => return Chunk::Back,
            Ok(Fetched::Elsewhere { deliveries, within }) => {
                return Chunk::Elsewhere(deliveries, within);
            }
            Ok(Fetched::Ended) => {
                self.ended = true;
                return Chunk::Ended;
            }
            Err(error) => {
                self.ended = true;
                return Chunk::Failed(error);
            }
        };
        self.scratch.begin_chunk();
        let mut incoming = Vec::with_capacity(deliveries.len());
        let (mut rejected, mut known) = (Vec::new(), Vec::new());
        let claim_id = || self.surroundings.claim_id();
        let for_all = (!self.class.stores_claims()).then(claim_id);
        let fetched_at = self.surroundings.clock.monotonic();
        for delivery in deliveries {
            if delivery.judgement == Some(Judgement::Known) {
                known.push(delivery.id);
                continue;
            }
            let claim_id = for_all.unwrap_or_else(claim_id);
            let read = self.pipeline.read(delivery, claim_id, &mut self.scratch);
            match read {
                Ok(message) => incoming.push(InHand::new(message, self.laning, fetched_at)),
                Err(unusable) => rejected.push(*unusable),
            }
        }
        Chunk::Messages {
            incoming,
            rejected,
            known,
            progress: self.source.progress(),
            hold: self.source.hold(),
        }
    }
}

/// Waits first for room and then for deliveries, so that nothing is fetched that cannot be held.
async fn fetch<'a>(
    source: &mut impl Source,
    chunks: &'a mpsc::Sender<Chunk>,
    max: usize,
) -> Option<(mpsc::Permit<'a, Chunk>, Result<Fetched>)> {
    let permit = chunks.reserve().await.ok()?;
    Some((permit, source.fetch(max).await))
}
