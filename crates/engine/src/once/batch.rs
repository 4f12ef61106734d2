//! Many keys in one call.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};

use semel_core::{Operation, Store};
use serde::Serialize;

use super::breaker::guarded;
use super::declared::{Declared, Wanted};
use super::error::Error;
use super::failure::{End, Failure};
use super::op::Op;
use super::outcome::Remember;
use super::pending::Pending;
use super::receipt::Receipt;
use super::run::{Boxed, Verdict, Work};
use super::values::{Values, locked};

/// Many keys with an item each, to be run in one call; made by [`Declared::batch`].
///
/// # Cost
///
/// One round trip to claim all, one to settle those that end within 50 ms of one another, and one
/// more if a key comes twice. All of the batch is claimed at once: a crash in the middle leaves all
/// granted items to their class, even those whose effect had not begun.
#[must_use = "a batch runs when `each` or `whole` is awaited"]
pub struct Batch<S, I> {
    declared: Declared<S>,
    items: Vec<(Result<Operation, Error>, I)>,
    bind: Option<Bind<S, I>>,
}

/// Adds the request of an item to its operation.
type Bind<S, I> = fn(&Declared<S>, &I) -> Declared<S>;

/// One granted item of a batch.
#[derive(Debug)]
#[non_exhaustive]
pub struct Granted<I> {
    /// The attempt.
    pub op: Op,
    /// The item.
    pub item: I,
}

impl<S: Store + Clone, I> Batch<S, I> {
    pub(super) const fn new(
        declared: Declared<S>,
        items: Vec<(Result<Operation, Error>, I)>,
    ) -> Self {
        Self {
            declared,
            items,
            bind: None,
        }
    }

    /// Binds each key to its item, as [`Declared::request`] does.
    pub fn bound(mut self) -> Self
    where
        I: Serialize,
    {
        self.bind = Some(|declared, item| declared.clone().request(item));
        self
    }

    /// Runs `effect` for each item that is granted, several at a time ([`Declared::concurrency`]).
    /// Results come in the order of the items.
    ///
    /// # Guarantee   that of [`Declared::once`], item by item
    /// # Cancel safety   as [`Declared::once`], item by item
    ///
    /// # Panics
    ///
    /// outside a tokio runtime
    pub fn each<T, F, Fut>(self, effect: F) -> Pending<Vec<Result<Receipt<T>, Error>>>
    where
        T: Remember + Send + 'static,
        I: Send + 'static,
        F: FnMut(Op, I) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let (
            declared,
            Asked {
                requests,
                items,
                results,
            },
        ) = self.ask();
        let values = Values::new(requests.len());
        let limit_bytes = declared.settings().outcome_limit_bytes;
        let mut items: Vec<Option<I>> = items.into_iter().map(Some).collect();
        let effect = Arc::new(Mutex::new(effect));
        let begin = values.clone();
        let breaker = declared.breaker_of();
        let work = move |index: usize, op| -> Boxed<Verdict> {
            let (item, values) = (items[index].take(), begin.clone());
            let breaker = breaker.clone();
            let effect = Arc::clone(&effect);
            Box::pin(async move {
                // A call begins the effect of an item once.
                let Some(item) = item else {
                    return Err(Failure::new(End::GivenBack, "it was begun before"));
                };
                let call = |op| locked(&effect)(op, item);
                let value = guarded(breaker.as_ref(), call, op).await?;
                let outcome = value.to_outcome(limit_bytes);
                values.put(index, value);
                Ok(outcome)
            })
        };
        let work = Work::Each(Box::new(work));
        Pending::new(async move { merge(results, declared.call(requests, work, &values).await) })
    }

    /// Runs `effect` for all items that are granted together: a bulk insert, one request for many.
    /// The effect returns one result per granted item, in the same order; an item without one
    /// counts as maybe applied. The effect is called again only for items that other callers ran in
    /// the meantime.
    ///
    /// # Guarantee   that of [`Declared::once`], item by item
    /// # Cancel safety   as [`Declared::once`]
    ///
    /// # Panics
    ///
    /// outside a tokio runtime
    pub fn whole<T, F, Fut>(self, effect: F) -> Pending<Vec<Result<Receipt<T>, Error>>>
    where
        T: Remember + Send + 'static,
        I: Send + 'static,
        F: FnMut(Vec<Granted<I>>) -> Fut + Send + 'static,
        Fut: Future<Output = Vec<Result<T, Failure>>> + Send + 'static,
    {
        let (
            declared,
            Asked {
                requests,
                items,
                results,
            },
        ) = self.ask();
        let values = Values::new(requests.len());
        let limit_bytes = declared.settings().outcome_limit_bytes;
        let mut items: Vec<Option<I>> = items.into_iter().map(Some).collect();
        let effect = Arc::new(Mutex::new(effect));
        let begin = values.clone();
        let breaker = declared.breaker_of();
        let work = move |ops: Vec<(usize, Op)>| -> Boxed<Vec<Verdict>> {
            let indexes: Vec<usize> = ops.iter().map(|(index, _)| *index).collect();
            let granted = ops.into_iter().filter_map(|(index, op)| {
                let item = items[index].take()?;
                Some(Granted { op, item })
            });
            let granted: Vec<_> = granted.collect();
            let (effect, values) = (Arc::clone(&effect), begin.clone());
            let breaker = breaker.clone();
            Box::pin(async move {
                let pass = match breaker.map(|breaker| breaker.enter()).transpose() {
                    Ok(pass) => pass,
                    Err(away) => return indexes.iter().map(|_| Err(away.failure())).collect(),
                };
                let running = locked(&effect)(granted);
                let results = running.await;
                if let Some(pass) = pass {
                    let is_away =
                        |it: &Result<T, Failure>| it.as_ref().is_err_and(Failure::is_away);
                    pass.ends(results.iter().any(is_away));
                }
                let results = results.into_iter().zip(indexes);
                let verdicts = results.map(|(result, index)| {
                    let value = result?;
                    let outcome = value.to_outcome(limit_bytes);
                    values.put(index, value);
                    Ok(outcome)
                });
                verdicts.collect()
            })
        };
        let work = Work::Whole(Box::new(work));
        Pending::new(async move { merge(results, declared.call(requests, work, &values).await) })
    }

    /// Returns the claims to ask for, and their items; items without an acceptable key have their
    /// result.
    fn ask<T>(self) -> (Declared<S>, Asked<I, T>) {
        let mut asked = Asked {
            requests: Vec::with_capacity(self.items.len()),
            items: Vec::with_capacity(self.items.len()),
            results: BTreeMap::new(),
        };
        for (place, (operation, item)) in self.items.into_iter().enumerate() {
            let request = operation.and_then(|operation| match self.bind {
                Some(bind) => bind(&self.declared, &item).wanted_of(operation),
                None => Ok(self.declared.wanted(operation)),
            });
            match request {
                Ok(request) => {
                    asked.requests.push(request);
                    asked.items.push(item);
                }
                Err(error) => {
                    asked.results.insert(place, Err(error));
                }
            }
        }
        (self.declared, asked)
    }
}

struct Asked<I, T> {
    requests: Vec<Wanted>,
    items: Vec<I>,
    /// Results by place in the batch.
    results: BTreeMap<usize, Result<Receipt<T>, Error>>,
}

/// Returns all results in the order of the items.
fn merge<T>(
    mut known: BTreeMap<usize, Result<Receipt<T>, Error>>,
    answered: Vec<Result<Receipt<T>, Error>>,
) -> Vec<Result<Receipt<T>, Error>> {
    let count = known.len() + answered.len();
    let mut answered = answered.into_iter();
    let results = (0..count).map(|place| known.remove(&place).or_else(|| answered.next()));
    results
        .map(|result| result.unwrap_or(Err(Error::Closed)))
        .collect()
}
