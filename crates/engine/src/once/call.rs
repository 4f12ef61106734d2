//! Runs of a declared operation: every way of calling it, and the parts that they share.

use std::future::Future;
use std::sync::{Arc, Mutex};

use semel_core::{OpId, Operation, Record, Store, StoreExt};
use tokio::sync::oneshot;

use super::batch::Batch;
use super::breaker::guarded;
use super::declared::{Declared, Wanted};
use super::error::Error;
use super::failure::{Dropped, End, Failure};
use super::key::ToKey;
use super::op::Op;
use super::outcome::{Remember, Unreadable};
use super::pending::Pending;
use super::receipt::{Answered, Receipt};
use super::run::{Answer, Boxed, Run, Verdict, Work};
use super::values::{Values, locked};

impl<S: Store + Clone> Declared<S> {
    /// Runs `effect` for `key`, or returns the outcome of the time when it ran.
    ///
    /// The effect runs on a task of its own: once it has begun, it runs on to its outcome even if the
    /// returned future is dropped. Its lease is renewed meanwhile. A panic is caught and counts as
    /// maybe applied, as does an effect that runs out of time.
    ///
    /// # Guarantee   that of the class; the outcome is recorded before it is returned
    /// # Cost        two round trips and two durable writes; a replay is one round trip
    /// # Errors
    ///
    /// see [`Error`]: each says whether the effect happened, and calling again is always safe
    ///
    /// # Cancel safety   dropped before the effect has begun, it is not begun; dropped later, it runs
    /// on to its outcome, which the next call with the same key is given
    ///
    /// # Panics
    ///
    /// outside a tokio runtime
    pub fn once<T, F, Fut>(&self, key: impl ToKey, effect: F) -> Pending<Result<Receipt<T>, Error>>
    where
        T: Remember + Send + 'static,
        F: FnOnce(Op) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let operation = self.operation(key);
        let declared = self.clone();
        Pending::new(async move { declared.once_of(operation?, effect).await })
    }

    async fn once_of<T, F, Fut>(&self, operation: Operation, effect: F) -> Result<Receipt<T>, Error>
    where
        T: Remember + Send + 'static,
        F: FnOnce(Op) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let values = Values::new(1);
        let limit_bytes = self.settings.outcome_limit_bytes;
        let mut effect = Some(effect);
        let begin = values.clone();
        let breaker = self.breaker_of();
        let work = move |index, op| -> Boxed<Verdict> {
            let (effect, values) = (effect.take(), begin.clone());
            let breaker = breaker.clone();
            Box::pin(async move {
                // A call begins its effect once.
                let Some(effect) = effect else {
                    return Err(Failure::new(End::GivenBack, "it was begun before"));
                };
                let value = guarded(breaker.as_ref(), effect, op).await?;
                let outcome = value.to_outcome(limit_bytes);
                values.put(index, value);
                Ok(outcome)
            })
        };
        let work = Work::Each(Box::new(work));
        let requests = vec![self.wanted(operation)];
        let mut receipts = self.call(requests, work, &values).await;
        receipts.pop().unwrap_or(Err(Error::Closed))
    }

    /// Runs `effect` as [`once`](Self::once) does, but in the caller's own task, so that the effect
    /// may borrow.
    ///
    /// # Cancel safety   dropped while the effect runs, the effect stops where it is and counts as
    /// maybe applied: the class decides. Where that is not wanted, take [`once`](Self::once)
    ///
    /// # Panics
    ///
    /// where the effect does, after which it counts as maybe applied; outside a tokio runtime
    ///
    /// # Errors
    ///
    /// as [`once`](Self::once)
    pub async fn once_here<T, F, Fut>(
        &self,
        key: impl ToKey,
        effect: F,
    ) -> Result<Receipt<T>, Error>
    where
        T: Remember,
        F: FnOnce(Op) -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
    {
        let operation = self.operation(key)?;
        let operation_id = operation.id();
        let (begin, first) = oneshot::channel::<(Op, oneshot::Sender<Verdict>)>();
        let mut begin = Some(begin);
        let work = move |_, op| -> Boxed<Verdict> {
            let begin = begin.take();
            Box::pin(async move {
                let never = || Failure::new(End::GivenBack, "the caller went away before it began");
                let (tell, verdict) = oneshot::channel();
                let Some(Ok(())) = begin.map(|begin| begin.send((op, tell))) else {
                    return Err(never());
                };
                verdict
                    .await
                    .unwrap_or(Err(Failure::maybe_applied(Dropped)))
            })
        };
        let shared = &self.shared;
        let store = shared.store()?;
        let requests = vec![self.wanted(operation)];
        let work = Work::Each(Box::new(work));
        let (run, answers) = Run::new(self, store.clone(), requests, work);
        shared.spawn(&store, run.go())?;
        let mut value = None;
        // The effect of a duplicate never begins.
        if let Ok((op, tell)) = first.await {
            let stop = op.clone();
            let breaker = self.breaker_of();
            let verdict = tokio::select! {
                biased;
                () = stop.cancelled() => None,
                verdict = guarded(breaker.as_ref(), effect, op) => Some(verdict),
            };
            let verdict = verdict.map(|verdict| {
                verdict.map(|result| {
                    let outcome = result.to_outcome(self.settings.outcome_limit_bytes);
                    value = Some(result);
                    outcome
                })
            });
            if let Some(verdict) = verdict {
                // Once the effect is out of time or its claim lost, its verdict is ignored.
                let _ = tell.send(verdict);
            }
        }
        let answer = answers.await.ok().and_then(|mut answers| answers.pop());
        receipt(answer.unwrap_or(Err(Error::Closed)), operation_id, value)
    }

    /// Runs `effect` as [`once`](Self::once) does, again and again while it fails and another attempt
    /// is allowed: until it has a value, or the operation is dead or in doubt.
    ///
    /// # Cancel safety   as [`once`](Self::once); no further attempt is begun
    ///
    /// # Errors
    ///
    /// as [`once`](Self::once), but no [`Error::Failed`]
    pub fn once_retrying<T, F, Fut>(
        &self,
        key: impl ToKey,
        effect: F,
    ) -> Pending<Result<Receipt<T>, Error>>
    where
        T: Remember + Send + 'static,
        F: FnMut(Op) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let operation = self.operation(key);
        let declared = self.clone();
        let effect = Arc::new(Mutex::new(effect));
        Pending::new(async move {
            let operation = operation?;
            let mut has_failed = false;
            loop {
                let effect = Arc::clone(&effect);
                let attempt = async move |op| {
                    let running = locked(&effect)(op);
                    running.await
                };
                let retry_after = match declared.once_of(operation.clone(), attempt).await {
                    Err(Error::Failed { retry_after, .. }) => retry_after,
                    // The store alone knows the end of a backoff.
                    Err(Error::Busy { retry_after, .. }) if has_failed => retry_after,
                    settled => return settled,
                };
                has_failed = true;
                tokio::time::sleep(retry_after).await;
            }
        })
    }

    /// Returns a batch of many keys with an item each, claimed in one round trip and settled in
    /// another. A key that comes twice is decided as if asked for twice in a row.
    pub fn batch<K: ToKey, I>(&self, items: impl IntoIterator<Item = (K, I)>) -> Batch<S, I> {
        let items = items.into_iter();
        let items = items.map(|(key, item)| (self.operation(key), item));
        Batch::new(self.clone(), items.collect())
    }

    /// Runs `effect` for each item, many keys in one round trip: the shortest form of
    /// [`batch`](Self::batch). Results come in the order of the items.
    ///
    /// # Guarantee   that of [`once`](Self::once), item by item
    /// # Cost        one round trip to claim all, one to settle those that end together
    /// # Errors
    ///
    /// per item, as [`once`](Self::once)
    ///
    /// # Cancel safety   as [`once`](Self::once), item by item
    ///
    /// # Panics
    ///
    /// outside a tokio runtime
    pub fn once_batch<T, K, I, F, Fut>(
        &self,
        items: impl IntoIterator<Item = (K, I)>,
        effect: F,
    ) -> Pending<Vec<Result<Receipt<T>, Error>>>
    where
        T: Remember + Send + 'static,
        K: ToKey,
        I: Send + 'static,
        F: FnMut(Op, I) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        self.batch(items).each(effect)
    }

    /// Returns the record of `key` as the store has it.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], [`Error::Store`], [`Error::Closed`]
    ///
    /// # Cancel safety   safe
    pub fn record(&self, key: impl ToKey) -> Pending<Result<Option<Record>, Error>> {
        let (store, operation) = (self.shared.store(), self.operation(key));
        Pending::new(async move {
            let operation = operation?;
            let operation_id = operation.id();
            let record = store?.get_one(operation).await;
            record.map_err(|source| Error::Store {
                operation_id,
                source,
            })
        })
    }

    /// Runs a call to its end on a task of its own, and pairs its answers with the values.
    pub(super) async fn call<T: Remember>(
        &self,
        requests: Vec<Wanted>,
        work: Work,
        values: &Values<T>,
    ) -> Vec<Result<Receipt<T>, Error>> {
        if requests.is_empty() {
            return Vec::new();
        }
        let ids: Vec<_> = requests
            .iter()
            .map(|request| request.claim.operation.id())
            .collect();
        let answers = async {
            let store = self.shared.store()?;
            let (run, answers) = Run::new(self, store.clone(), requests, work);
            self.shared.spawn(&store, run.go())?;
            answers.await.map_err(|_| Error::Closed)
        };
        match answers.await {
            Ok(answers) => answers
                .into_iter()
                .zip(ids)
                .enumerate()
                .map(|(index, (answer, id))| receipt(answer, id, values.take(index)))
                .collect(),
            Err(_) => ids.iter().map(|_| Err(Error::Closed)).collect(),
        }
    }
}

/// Returns the receipt of an answer, with the value that the effect left.
fn receipt<T: Remember>(
    answer: Result<Answer, Error>,
    operation_id: OpId,
    value: Option<T>,
) -> Result<Receipt<T>, Error> {
    match answer? {
        Answer::Ran {
            attempt,
            takeover,
            possible_repeat,
            kept,
        } => match value {
            Some(value) => Ok(Receipt {
                value,
                answered: Answered::Ran {
                    attempt,
                    takeover,
                    possible_repeat,
                },
                operation_id,
                kept,
            }),
            None => Err(Error::Unreadable {
                operation_id,
                source: Unreadable::Broken {
                    wanted: "the effect's own value".into(),
                    why: "it is gone".into(),
                },
            }),
        },
        Answer::Replayed { outcome, duplicate } => match T::from_outcome(&outcome) {
            Ok(value) => Ok(Receipt {
                value,
                answered: Answered::Replayed { duplicate },
                operation_id,
                kept: true,
            }),
            Err(source) => Err(Error::Unreadable {
                operation_id,
                source,
            }),
        },
    }
}
