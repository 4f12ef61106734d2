//! A batch that is being committed while the next one is decided.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::streamed::{Committed, Finished, StreamedStore};
use semel_core::{Error, ErrorKind, OpId, Result, Store};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::Granted;
use crate::consumer::desk::Desk;
use crate::layer::outage::unanswered;

/// Commits all of a batch at once, on a task of its own; it ends with this.
///
/// Like every call of a store it is asked for again when it takes too long, and given up is the wait alone.
pub(super) struct Commit<T> {
    streamed: Arc<T>,
    granted: Vec<Granted>,
    finished: Arc<[Finished]>,
    /// The operations of it.
    ids: BTreeSet<OpId>,
    attempt: Mutex<Attempt>,
    /// When the first attempt has taken too long, and how long that is.
    late: (Instant, Duration),
    answers: Option<Result<Vec<Committed>>>,
}

#[derive(Default)]
struct Attempt {
    running: JoinSet<Result<Vec<Committed>>>,
    /// What the first one came to.
    first: Option<Result<Vec<Committed>>>,
    is_asked_again: bool,
}

impl<T: StreamedStore> Commit<T> {
    /// Begins to commit a batch.
    pub(super) fn begin<S: Store + Clone>(
        desk: &Desk<S>,
        streamed: &Arc<T>,
        batch: Vec<(Granted, Finished)>,
    ) -> Self {
        // Where the key is the order, nobody asks for it.
        let with_ids = desk.pipeline.order.is_some();
        let within = desk.slow_answer_within();
        let (granted, finished): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let ids = granted.iter().filter(|_| with_ids).map(|it| it.id);
        let mut begun = Self {
            streamed: Arc::clone(streamed),
            ids: ids.collect(),
            granted,
            finished: finished.into(),
            attempt: Mutex::default(),
            late: (Instant::now() + within, within),
            answers: None,
        };
        let commit = begun.commit();
        begun.attempt.get_mut().running.spawn(commit);
        begun
    }

    fn commit(&self) -> impl Future<Output = Result<Vec<Committed>>> + Send + 'static {
        let (streamed, finished) = (Arc::clone(&self.streamed), Arc::clone(&self.finished));
        async move { streamed.commit(&finished).await }
    }

    /// Whether an operation is in it.
    pub(super) fn has(&self, id: OpId) -> bool {
        self.ids.contains(&id)
    }

    /// Waits until the first attempt has ended, whichever way, or has taken too long. Cancel safe.
    pub(super) async fn ended(&self) {
        if self.answers.is_some() {
            return;
        }
        let mut attempt = self.attempt.lock().await;
        if attempt.first.is_none() && !attempt.is_asked_again {
            let (at, within) = self.late;
            let ended = timeout_at(at, joined(&mut attempt.running)).await;
            attempt.first = Some(ended.unwrap_or_else(|_| Err(unanswered(within))));
        }
    }

    /// What the first attempt comes to, or another one.
    async fn attempt(&self) -> Result<Vec<Committed>> {
        self.ended().await;
        let mut attempt = self.attempt.lock().await;
        attempt.is_asked_again = true;
        if let Some(ended) = attempt.first.take() {
            return ended;
        }
        attempt.running.spawn(self.commit());
        joined(&mut attempt.running).await
    }

    /// Asks until it is committed; what cannot be mended is an answer, too. Cancel safe.
    pub(super) async fn answered<S: Store + Clone>(&mut self, desk: &Desk<S>) {
        self.ended().await;
        if self.answers.is_none() {
            let answers = desk.ask_slow(|| self.attempt()).await;
            self.answers = Some(answers);
        }
    }

    /// Each of the batch and what became of it. What was refused has its headers again.
    pub(super) async fn conclude<S: Store + Clone>(
        mut self,
        desk: &Desk<S>,
    ) -> Result<impl Iterator<Item = (Granted, Committed)> + use<S, T>> {
        self.answered(desk).await;
        let answers = self.answers.take().unwrap_or_else(|| Ok(Vec::new()))?;
        let batch = self.granted.iter_mut().zip(&*self.finished).zip(&answers);
        for ((granted, finished), answer) in batch {
            if let (Committed::Refused(_), Some(output)) = (answer, finished.output.first())
                && granted.incoming.headers.is_empty()
            {
                granted.incoming.headers.clone_from(&output.headers);
            }
        }
        Ok(self.granted.into_iter().zip(answers))
    }
}

/// The answer of the one that runs.
async fn joined(running: &mut JoinSet<Result<Vec<Committed>>>) -> Result<Vec<Committed>> {
    match running.join_next().await {
        Some(Ok(answered)) => answered,
        Some(Err(error)) => {
            let message = "the commit of a batch panicked";
            Err(Error::new(ErrorKind::Internal, message).with_source(error))
        }
        None => Err(Error::new(ErrorKind::Internal, "no commit is under way")),
    }
}
