//! The journal of a process: calls that are slow, fail before they are carried out, are carried out when nobody waits
//! any more, or whose answer is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::port::producer::ProducerJournal;
use semel_core::producer::{
    Batch, Incarnation, InputMark, Opened, Opening, ProducerEntry, ProducerName, ProducerOrder,
    Standing, StoredBatch,
};
use semel_core::{Error, ErrorKind, Result};
use semel_store_memory::MemoryProducers;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::scene::{CALL, KEPT, Scene};
use crate::seeded::course::secs;

pub(super) struct SimulatedJournal {
    scene: Arc<Scene>,
    process: u64,
    life: u64,
    calls: AtomicU64,
}

impl SimulatedJournal {
    pub(super) fn new(scene: &Arc<Scene>, process: u64, life: u64) -> Self {
        Self {
            scene: Arc::clone(scene),
            process,
            life,
            calls: AtomicU64::new(0),
        }
    }

    /// Carries out a call at the server, as the seed wants it.
    async fn call<T, F>(&self, work: impl FnOnce(Arc<MemoryProducers>) -> F + Send) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let course = &self.scene.course;
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut dice = course.dice(&[CALL, self.process, self.life, call]);
        let usual = dice.between(Duration::ZERO, Duration::from_millis(40));
        let is_fault = course.is_faulty() && dice.one_in(12);
        let fault = is_fault.then(|| dice.weighted(FAULTS)).flatten();
        let long = dice.between(Duration::ZERO, secs(15));
        if let Some(fault) = fault {
            course.blow(fault);
        }
        sleep(usual).await;
        if fault == Some(REFUSED) {
            return Err(away().not_applied());
        }
        let work = work(Arc::clone(&self.scene.journal));
        let (told, mut answered) = oneshot::channel();
        course.begin(async move {
            if let Some(LATE | ABANDONED) = fault {
                sleep(long).await;
            }
            let done = work.await;
            if let Some(LATE_ANSWER) = fault {
                sleep(long).await;
            }
            // Whoever asked may be dead.
            let _ = told.send(done);
        });
        match fault {
            Some(ABANDONED) => Err(away()),
            Some(LOST) => {
                // It is carried out all the same.
                let _ = (&mut answered).await;
                Err(away())
            }
            _ => answered.await.unwrap_or_else(|_| Err(away())),
        }
    }
}

impl ProducerJournal for SimulatedJournal {
    async fn open(&self, opening: &Opening) -> Result<Opened> {
        let opening = opening.clone();
        self.call(|journal| async move { journal.open(&opening).await })
            .await
    }

    async fn append(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        batch: &Batch,
    ) -> Result<Standing> {
        let (incarnation, stream, batch) = (incarnation.clone(), stream.to_owned(), batch.clone());
        let end = batch.end();
        let standing =
            self.call(|journal| async move { journal.append(&incarnation, &stream, &batch).await });
        let standing = standing.await?;
        if standing.limit.is_some_and(|limit| limit + 1 < end) {
            self.scene.course.saw(KEPT);
        }
        Ok(standing)
    }

    async fn confirm(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        through: u64,
    ) -> Result<Standing> {
        let (incarnation, stream) = (incarnation.clone(), stream.to_owned());
        self.call(
            move |journal| async move { journal.confirm(&incarnation, &stream, through).await },
        )
        .await
    }

    async fn pending(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Vec<StoredBatch>> {
        let (incarnation, stream) = (incarnation.clone(), stream.to_owned());
        self.call(move |journal| async move {
            journal.pending(&incarnation, &stream, after, most).await
        })
        .await
    }

    async fn input(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        digest: &[u8; 32],
    ) -> Result<Option<InputMark>> {
        let (incarnation, stream, digest) = (incarnation.clone(), stream.to_owned(), *digest);
        self.call(move |journal| async move { journal.input(&incarnation, &stream, &digest).await })
            .await
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        let after = after.cloned();
        self.call(move |journal| async move { journal.page(after.as_ref(), most).await })
            .await
    }

    async fn order(&self, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        let name = name.clone();
        self.call(move |journal| async move { journal.order(&name, order).await })
            .await
    }
}

fn away() -> Error {
    Error::new(ErrorKind::Unavailable, "the journal is away")
}

const REFUSED: &str = "call of the journal refused";
const LATE: &str = "call of the journal late";
const ABANDONED: &str = "call of the journal given up, and carried out";
const LOST: &str = "answer of the journal lost";
const LATE_ANSWER: &str = "answer of the journal late";
const FAULTS: &[(u64, &str)] = &[
    (1, REFUSED),
    (1, LATE),
    (1, ABANDONED),
    (1, LOST),
    (1, LATE_ANSWER),
];
