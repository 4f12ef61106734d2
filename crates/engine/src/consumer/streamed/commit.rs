//! Batches that are being committed, one behind the other, while the next one is decided.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::port::streamed::{CommitProgress, Committed, Finished, StreamedStore, Turn};
use semel_core::{Error, ErrorKind, OpId, Result, Store};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::Granted;
use crate::consumer::context::Context;
use crate::consumer::outstanding::Outstanding;
use crate::consumer::patience::{Purpose, out_of_time};
use crate::consumer::store_calls::StoreCalls;
use crate::layer::outage::unanswered;

/// Entries that are ready to be committed, and the message of each.
#[derive(Default)]
pub(super) struct Ready {
    pub(super) granted: Vec<Granted>,
    pub(super) finished: Vec<Finished>,
}

impl Ready {
    pub(super) const fn len(&self) -> usize {
        self.granted.len()
    }

    const fn is_empty(&self) -> bool {
        self.granted.is_empty()
    }
}

/// The batches under way, the oldest first. A batch waits for the end of the one before it directly, and for
/// nothing else: the task that decides may be busy at that moment.
pub(super) struct Commits<T> {
    pub(super) streamed: Arc<T>,
    under_way: VecDeque<Commit<T>>,
}

impl<T: StreamedStore> Commits<T> {
    /// Returns a list without batches.
    pub(super) fn new(streamed: T) -> Self {
        Self {
            streamed: Arc::new(streamed),
            under_way: VecDeque::new(),
        }
    }

    pub(super) fn first(&self) -> Option<&Commit<T>> {
        self.under_way.front()
    }

    pub(super) fn first_mut(&mut self) -> Option<&mut Commit<T>> {
        self.under_way.front_mut()
    }

    /// Takes out the first batch; from now on the next one may take too long.
    pub(super) fn take_first(&mut self) -> Option<Commit<T>> {
        let first = self.under_way.pop_front();
        if let Some(next) = self.under_way.front_mut() {
            next.is_first();
        }
        first
    }

    /// Tells whether an operation is in one of the batches.
    pub(super) fn have(&self, id: OpId) -> bool {
        self.under_way.iter().any(|it| it.ids.contains(&id))
    }

    /// Begins to commit the batch that is ready: at once if nothing is under way; otherwise once it is a whole
    /// batch, and behind the last one under way.
    pub(super) fn begin(&mut self, context: &Arc<Context>, within: Duration, next: &mut Ready) {
        let batch = context.pipeline.batch;
        let last = self.under_way.back();
        let has_room =
            last.is_none() || (self.under_way.len() < MOST_UNDER_WAY && next.len() >= batch);
        if next.is_empty() || !has_room || !context.may_begin(Purpose::Both) {
            return;
        }
        let before = last.map(|last| last.turn.own.subscribe());
        let batch = std::mem::take(next);
        let begun = Commit::begin(context, within, &self.streamed, batch, before);
        self.under_way.push_back(begun);
    }
}

/// Commits all of a batch at once, on a task of its own, which ends when this is dropped.
///
/// Like every store call it is repeated when it takes too long, and the wait alone is given up.
pub(super) struct Commit<T> {
    context: Arc<Context>,
    streamed: Arc<T>,
    granted: Vec<Granted>,
    finished: Arc<Vec<Finished>>,
    /// The batch's operations.
    ids: BTreeSet<OpId>,
    attempt: Mutex<Attempt>,
    turn: Behind,
    /// The longest time for an attempt.
    within: Duration,
    /// The time by which the first attempt has taken too long, once no batch is before this one.
    late_at: Option<Instant>,
    answers: Option<Result<Vec<Committed>>>,
}

#[derive(Default)]
struct Attempt {
    running: JoinSet<Result<Vec<Committed>>>,
    /// The result of the first attempt.
    first: Option<Result<Vec<Committed>>>,
    is_asked_again: bool,
}

impl<T: StreamedStore> Commit<T> {
    /// Begins to commit a batch, once the one before is committed.
    fn begin(
        context: &Arc<Context>,
        within: Duration,
        streamed: &Arc<T>,
        batch: Ready,
        before: Option<watch::Receiver<Reach>>,
    ) -> Self {
        // If the key is the order, nothing asks for the ids.
        let with_ids = context.pipeline.order.is_some();
        let Ready { granted, finished } = batch;
        let ids = granted.iter().filter(|_| with_ids).map(|it| it.id);
        let is_first = before.is_none();
        let mut begun = Self {
            context: Arc::clone(context),
            streamed: Arc::clone(streamed),
            ids: ids.collect(),
            granted,
            finished: Arc::new(finished),
            attempt: Mutex::default(),
            turn: Behind::new(before),
            within,
            late_at: None,
            answers: None,
        };
        if is_first {
            begun.is_first();
        }
        let commit = begun.commit();
        begun.attempt.get_mut().running.spawn(commit);
        begun
    }

    /// Starts the clock of the first attempt: no batch is before this one any more.
    fn is_first(&mut self) {
        self.late_at = Some(Instant::now() + self.within);
    }

    fn commit(&self) -> impl Future<Output = Result<Vec<Committed>>> + Send + 'static {
        let (streamed, finished) = (Arc::clone(&self.streamed), Arc::clone(&self.finished));
        let turn = self.turn.again();
        async move { streamed.commit(&finished, turn).await }
    }

    /// Waits until the first attempt has ended, whichever way, or has taken too long, also for a run that ends. Cancel
    /// safe. Call it on the first batch under way.
    pub(super) async fn ended(&self) {
        if self.answers.is_some() {
            return;
        }
        let mut attempt = self.attempt.lock().await;
        if attempt.first.is_none() && !attempt.is_asked_again {
            let ended = async {
                match self.late_at {
                    Some(at) => timeout_at(at, joined(&mut attempt.running)).await,
                    None => Ok(joined(&mut attempt.running).await),
                }
            };
            let ended = tokio::select! {
                biased;
                ended = ended => ended.unwrap_or_else(|_| Err(unanswered(self.within))),
                () = self.context.time_is_up(Purpose::Report) => Err(out_of_time()),
            };
            attempt.first = Some(ended);
        }
    }

    /// Returns the result of the first attempt, or of another one.
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

    /// Asks until the batch is committed; an error that cannot be mended is an answer, too. Cancel safe.
    pub(super) async fn answered<S: Store + Clone>(
        &mut self,
        store: &StoreCalls<S>,
        outstanding: &Outstanding,
    ) {
        self.ended().await;
        if self.answers.is_none() {
            // What was begun in time may be begun again while reports are made.
            let answers = store.ask_slow(outstanding, Purpose::Report, || self.attempt());
            let answers = answers.await;
            self.answers = Some(answers);
        }
    }

    /// Returns the messages of the batch with their results. A refused message has its headers again.
    pub(super) async fn conclude<S: Store + Clone>(
        mut self,
        store: &StoreCalls<S>,
        outstanding: &Outstanding,
    ) -> Result<impl Iterator<Item = (Granted, Committed)> + use<S, T>> {
        self.answered(store, outstanding).await;
        let answers = self.answers.take().unwrap_or_else(|| Ok(Vec::new()))?;
        let batch = self.granted.iter_mut().zip(self.finished.iter());
        let batch = batch.zip(&answers);
        for ((granted, finished), answer) in batch {
            if let (Committed::Refused(_), Some(output)) = (answer, &finished.output)
                // With a trace, the output has headers of its own.
                && granted.incoming.trace().is_none()
                && granted.incoming.headers.is_empty()
            {
                granted.incoming.headers.clone_from(&output.headers);
            }
        }
        Ok(self.granted.into_iter().zip(answers))
    }
}

/// The turn of a batch. The committing call itself waits for it and passes it on: a task in between would keep the
/// broker waiting while all threads are busy.
struct Behind {
    before: Option<watch::Receiver<Reach>>,
    own: watch::Sender<Reach>,
    /// The count of falls of the batch before, when it was last waited for.
    seen: AtomicU64,
}

/// The progress of a batch.
#[derive(Clone, Copy, Default)]
struct Reach {
    progress: CommitProgress,
    /// The number of times that the batch has fallen back.
    falls: u64,
}

impl Behind {
    fn new(before: Option<watch::Receiver<Reach>>) -> Self {
        Self {
            before,
            own: watch::Sender::default(),
            seen: AtomicU64::default(),
        }
    }

    /// Returns the turn for another attempt.
    fn again(&self) -> Self {
        Self {
            before: self.before.clone(),
            own: self.own.clone(),
            seen: AtomicU64::default(),
        }
    }
}

impl Turn for Behind {
    async fn come(&self, progress: CommitProgress) -> Result<()> {
        let Some(mut before) = self.before.clone() else {
            return Ok(());
        };
        if semel_core::planted("K06") {
            return Ok(());
        }
        let come = before.wait_for(|it| it.progress >= progress).await;
        let reach = come.map_err(|_| {
            let message = "the batch before was not committed";
            Error::new(ErrorKind::Unavailable, message).not_applied()
        })?;
        self.seen.store(reach.falls, Ordering::Relaxed);
        Ok(())
    }

    async fn falls_back(&self) {
        let seen = self.seen.load(Ordering::Relaxed);
        if let Some(mut before) = self.before.clone()
            && before.wait_for(|it| it.falls > seen).await.is_ok()
        {
            return;
        }
        // There is no batch before, or it was given up, which `come` reports.
        std::future::pending::<()>().await;
    }

    fn pass(&self, progress: CommitProgress) {
        self.own.send_if_modified(|own| {
            if own.progress == progress || own.progress == CommitProgress::Committed {
                return false;
            }
            own.falls += u64::from(progress < own.progress);
            own.progress = progress;
            true
        });
    }
}

/// Returns the answer of the running attempt.
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

/// Enough to keep the broker busy: one batch that it commits, one that is written meanwhile, and one that waits.
const MOST_UNDER_WAY: usize = 3;

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    async fn is_ready(what: impl Future<Output = ()>) -> bool {
        tokio::select! {
            biased;
            () = what => true,
            () = ready(()) => false,
        }
    }

    async fn has_come(turn: &Behind, progress: CommitProgress) -> bool {
        is_ready(async { turn.come(progress).await.expect("nobody gave up") }).await
    }

    fn two() -> (Behind, Behind) {
        let first = Behind::new(None);
        let second = Behind::new(Some(first.own.subscribe()));
        (first, second)
    }

    #[tokio::test]
    async fn a_batch_behind_no_other_may_do_all_at_once() {
        let (first, _) = two();
        assert!(has_come(&first, CommitProgress::Committed).await);
        assert!(!is_ready(first.falls_back()).await);
    }

    #[tokio::test]
    async fn a_batch_comes_as_far_as_the_one_before_and_falls_back_with_it() {
        let (first, second) = two();
        assert!(!has_come(&second, CommitProgress::Written).await);
        first.pass(CommitProgress::Written);
        assert!(has_come(&second, CommitProgress::Written).await);
        assert!(!has_come(&second, CommitProgress::Committed).await);
        assert!(!is_ready(second.falls_back()).await);

        first.pass(CommitProgress::Unwritten);
        assert!(!has_come(&second, CommitProgress::Written).await);
        // The fall counts, however soon the batch is written again, and even committed.
        first.pass(CommitProgress::Written);
        first.pass(CommitProgress::Committed);
        assert!(is_ready(second.falls_back()).await);
        assert!(has_come(&second, CommitProgress::Written).await);
        assert!(!is_ready(second.falls_back()).await);
    }

    #[tokio::test]
    async fn what_is_committed_stays_so_whoever_was_asked_for_it_too() {
        let (first, second) = two();
        let again = first.again();
        first.pass(CommitProgress::Written);
        again.pass(CommitProgress::Written);
        first.pass(CommitProgress::Committed);
        again.pass(CommitProgress::Unwritten);
        assert!(has_come(&second, CommitProgress::Committed).await);
        assert!(!is_ready(second.falls_back()).await);
    }

    #[tokio::test]
    async fn behind_a_batch_that_was_given_up_nothing_is_waited_for() {
        let (first, second) = two();
        first.pass(CommitProgress::Written);
        assert!(has_come(&second, CommitProgress::Written).await);
        drop(first);
        let error = second
            .come(CommitProgress::Committed)
            .await
            .expect_err("given up");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(!is_ready(second.falls_back()).await);
    }
}
