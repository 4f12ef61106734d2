//! Store calls that are repeated until the store answers, while deliveries in hand are kept.

use std::future::Future;
use std::time::Duration;

use semel_core::{Error, Result, Store};

use super::StoreCalls;
use super::in_flight::Begun;
use crate::consumer::outstanding::Outstanding;
use crate::consumer::patience::Purpose;
use crate::event::Event;
use crate::layer::outage::{Entry, unanswered};
use crate::retry::{self, Pauses, hint, is_final};

/// The result of a store call.
#[derive(Debug)]
pub(in crate::consumer) enum Asked<T> {
    /// The store's answer.
    Answered(T),
    /// The store is away and the pipeline fails open, or the run has no time left: the caller does not wait for it.
    NotNow {
        /// The call was made and may have been carried out.
        is_maybe: bool,
    },
}

/// The end of asking.
enum Ended<T> {
    Asked(Asked<T>),
    /// The run has no time left for the call, which may have been carried out.
    CutOff(Error),
}

/// The conditions under which a call is made and repeated.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// The longest wait for one answer; none: a call is waited for until it is answered or has failed.
    within: Option<Duration>,
    /// The caller does not wait while the store is away.
    gives_way: bool,
    /// The kind of the call, which says how much time it has once the run ends.
    purpose: Purpose,
}

impl<S: Store + Clone> StoreCalls<S> {
    /// Makes a store call until the store answers, with longer and longer waits, and together with
    /// all other callers while the store is away. The call is repeated with the same claim ids, so
    /// that a lost answer is found again.
    ///
    /// # Errors
    ///
    /// errors that no repetition mends; the last error, or `Timeout`, once the run has no time left for the call, which may
    /// have been carried out
    pub(in crate::consumer) async fn ask<T, Fut>(
        &self,
        outstanding: &Outstanding,
        purpose: Purpose,
        call: impl Fn() -> Fut + Send + Sync,
    ) -> Result<T>
    where
        T: 'static,
        Fut: Future<Output = Result<T>> + Send,
    {
        answer(
            self.asked(outstanding, self.usual(purpose), None, call)
                .await?,
        )
    }

    /// Does the same for a run that has begun nothing yet: returns nothing once a shutdown is requested, without patience.
    pub(in crate::consumer) async fn ask_first<T, Fut>(
        &self,
        outstanding: &Outstanding,
        purpose: Purpose,
        call: impl Fn() -> Fut + Send + Sync,
    ) -> Result<Option<T>>
    where
        T: 'static,
        Fut: Future<Output = Result<T>> + Send,
    {
        tokio::select! {
            biased;
            answered = self.ask(outstanding, purpose, call) => answered.map(Some),
            () = self.context.shutdown_is_requested() => Ok(None),
        }
    }

    /// Does the same, but returns none once the run has no time left for the call, which may have been carried out.
    pub(in crate::consumer) async fn ask_in_time<T, Fut>(
        &self,
        outstanding: &Outstanding,
        purpose: Purpose,
        call: impl Fn() -> Fut + Send + Sync,
    ) -> Result<Option<T>>
    where
        T: 'static,
        Fut: Future<Output = Result<T>> + Send,
    {
        let asked = self.asked(outstanding, self.usual(purpose), None, call);
        Ok(match asked.await? {
            Ended::Asked(Asked::Answered(answer)) => Some(answer),
            Ended::Asked(Asked::NotNow { .. }) | Ended::CutOff(_) => None,
        })
    }

    /// Does the same as [`ask`](Self::ask) for a transaction in which the user's own statements run.
    pub(in crate::consumer) async fn ask_slow<T, Fut>(
        &self,
        outstanding: &Outstanding,
        purpose: Purpose,
        call: impl Fn() -> Fut + Send + Sync,
    ) -> Result<T>
    where
        T: 'static,
        Fut: Future<Output = Result<T>> + Send,
    {
        let terms = Terms {
            within: Some(self.slow_answer_within()),
            ..self.usual(purpose)
        };
        answer(self.asked(outstanding, terms, None, call).await?)
    }

    /// Returns the longest wait for the answer of such a call.
    pub(in crate::consumer) fn slow_answer_within(&self) -> Duration {
        self.outage.answer_within.saturating_mul(10)
    }

    /// Does the same for a call that sets something without comparing it first, and so must not be
    /// carried out late, behind a later call. Each call is waited for until it is answered or has
    /// failed, or the run has no time left.
    pub(in crate::consumer) async fn ask_in_turn<T, Fut>(
        &self,
        outstanding: &Outstanding,
        purpose: Purpose,
        call: impl Fn() -> Fut + Send + Sync,
    ) -> Result<T>
    where
        T: 'static,
        Fut: Future<Output = Result<T>> + Send,
    {
        let terms = Terms {
            within: None,
            ..self.usual(purpose)
        };
        answer(self.asked(outstanding, terms, None, call).await?)
    }

    /// Does the same as [`ask`](Self::ask), but does not wait while the store is away and the pipeline fails open, nor once
    /// the run has no time left.
    pub(in crate::consumer) async fn try_ask<T, Fut>(
        &self,
        outstanding: &Outstanding,
        purpose: Purpose,
        call: impl Fn() -> Fut + Send + Sync,
    ) -> Result<Asked<T>>
    where
        T: 'static,
        Fut: Future<Output = Result<T>> + Send,
    {
        let terms = self.giving_way(self.fails_open(), purpose);
        self.try_ask_again(outstanding, terms, None, call).await
    }

    /// Does the same for a call that may have been begun already.
    pub(super) async fn try_ask_again<T, Fut>(
        &self,
        outstanding: &Outstanding,
        terms: Terms,
        begun: Option<Begun<T>>,
        call: impl Fn() -> Fut + Send + Sync,
    ) -> Result<Asked<T>>
    where
        T: 'static,
        Fut: Future<Output = Result<T>> + Send,
    {
        Ok(match self.asked(outstanding, terms, begun, call).await? {
            Ended::Asked(asked) => asked,
            Ended::CutOff(_) => Asked::NotNow { is_maybe: true },
        })
    }

    /// Returns the terms of a call that waits for the store.
    const fn usual(&self, purpose: Purpose) -> Terms {
        self.giving_way(false, purpose)
    }

    /// Returns the terms of a call that may not wait for a store that is away.
    pub(super) const fn giving_way(&self, gives_way: bool, purpose: Purpose) -> Terms {
        Terms {
            within: Some(self.outage.answer_within),
            gives_way,
            purpose,
        }
    }

    async fn asked<T, Fut>(
        &self,
        outstanding: &Outstanding,
        terms: Terms,
        begun: Option<Begun<T>>,
        call: impl Fn() -> Fut + Send + Sync,
    ) -> Result<Ended<T>>
    where
        T: 'static,
        Fut: Future<Output = Result<T>> + Send,
    {
        let mut failure = None;
        let asked = tokio::select! {
            biased;
            asked = self.repeated(terms, begun, call, &mut failure) => asked?,
            never = outstanding.keep() => match never {},
            () = self.context.time_is_up(terms.purpose) => None,
        };
        Ok(match asked {
            Some(asked) => Ended::Asked(asked),
            None => Ended::CutOff(self.context.cut_off(terms.purpose, failure)),
        })
    }

    /// Repeats a call; returns none if there is no time to begin it once more. The last failure of it is in `failure`
    /// by then.
    async fn repeated<T, Fut>(
        &self,
        terms: Terms,
        mut begun: Option<Begun<T>>,
        call: impl Fn() -> Fut + Send + Sync,
        failure: &mut Option<Error>,
    ) -> Result<Option<Asked<T>>>
    where
        T: 'static,
        Fut: Future<Output = Result<T>> + Send,
    {
        let gives_way = terms.gives_way;
        let breaker = &self.outage.breaker;
        let mut pauses = Pauses::new(retry::STORE);
        let mut is_maybe = false;
        loop {
            if semel_core::planted("U09") && breaker.is_open() {
                begun = None;
            }
            // A call that was begun has been made, whatever the breaker says by now.
            let entry = match begun.take() {
                Some(begun) => Ok((breaker.made(), begun.answer().await)),
                None if !self.context.may_begin(terms.purpose) => return Ok(None),
                None => match breaker.enter() {
                    Entry::Wait { .. } if gives_way => {
                        return Ok(Some(Asked::NotNow { is_maybe }));
                    }
                    Entry::Wait { wait, error } => Err((wait, error)),
                    Entry::Call(permit) => {
                        let result = match terms.within {
                            Some(within) => within_limit(within, call()).await,
                            None => call().await,
                        };
                        Ok((permit, result))
                    }
                },
            };
            let (error, pause) = match entry {
                Err((wait, error)) => (error, Some(wait)),
                Ok((permit, result)) => {
                    if let Some(turn) = permit.tell(&result) {
                        self.context.observe(&turn.event());
                    }
                    match result {
                        Ok(answer) => return Ok(Some(Asked::Answered(answer))),
                        Err(error) => (error, None),
                    }
                }
            };
            if is_final(&error) {
                return Err(error);
            }
            *failure = Some(error.clone());
            if let Some(pause) = pause {
                breaker.turned_within(pause).await;
                continue;
            }
            is_maybe |= error.certainty() == semel_core::Certainty::MaybeApplied;
            if gives_way && breaker.is_open() {
                return Ok(Some(Asked::NotNow { is_maybe }));
            }
            let wait = pauses.longer().max(hint(&error));
            let next = breaker
                .next_try()
                .map(|at| at.saturating_sub(self.context.now()));
            let pause = next.unwrap_or_else(|| self.context.surroundings.jittered(wait));
            self.context.observe(&Event::StoreFailed {
                error: &error,
                wait: pause,
            });
            breaker.turned_within(pause).await;
        }
    }
}

/// Returns the answer of a call that was waited for.
fn answer<T>(ended: Ended<T>) -> Result<T> {
    match ended {
        Ended::Asked(Asked::Answered(answer)) => Ok(answer),
        Ended::Asked(Asked::NotNow { .. }) => {
            unreachable!("only what gives way is not waited for")
        }
        Ended::CutOff(error) => Err(error),
    }
}

/// Waits for a call, at most `within`. After that the wait is given up, not the call.
async fn within_limit<T>(
    within: Duration,
    call: impl Future<Output = Result<T>> + Send,
) -> Result<T> {
    let answered = tokio::time::timeout(within, call).await;
    answered.unwrap_or_else(|_| Err(unanswered(within)))
}
