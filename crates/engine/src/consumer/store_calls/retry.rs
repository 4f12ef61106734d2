//! Store calls that are repeated until the store answers, while deliveries in hand are kept.

use std::future::Future;
use std::time::Duration;

use semel_core::{Result, Store};

use super::StoreCalls;
use super::in_flight::Begun;
use crate::consumer::outstanding::Outstanding;
use crate::event::Event;
use crate::layer::outage::{Entry, unanswered};
use crate::retry::{self, Pauses, hint, is_final};

/// The result of a store call.
#[derive(Debug)]
pub(in crate::consumer) enum Asked<T> {
    /// The store's answer.
    Answered(T),
    /// The store is away and the pipeline fails open: the caller does not wait for it.
    NotNow {
        /// The call was made and may have been carried out.
        is_maybe: bool,
    },
}

impl<S: Store + Clone> StoreCalls<S> {
    /// Makes a store call until the store answers, with longer and longer waits, and together with
    /// all other callers while the store is away. The call is repeated with the same claim ids, so
    /// that a lost answer is found again.
    ///
    /// # Errors
    ///
    /// errors that no repetition mends, and any error once the shutdown ran out of patience
    pub(in crate::consumer) async fn ask<T, Fut>(
        &self,
        outstanding: &Outstanding,
        call: impl Fn() -> Fut + Send + Sync,
    ) -> Result<T>
    where
        T: 'static,
        Fut: Future<Output = Result<T>> + Send,
    {
        let within = Some(self.outage.answer_within);
        answer(self.asked(outstanding, (within, false), None, call).await)
    }

    /// Does the same for a run that has begun nothing yet: returns nothing once a shutdown is requested, without patience.
    pub(in crate::consumer) async fn ask_first<T, Fut>(
        &self,
        outstanding: &Outstanding,
        call: impl Fn() -> Fut + Send + Sync,
    ) -> Result<Option<T>>
    where
        T: 'static,
        Fut: Future<Output = Result<T>> + Send,
    {
        tokio::select! {
            biased;
            answered = self.ask(outstanding, call) => answered.map(Some),
            () = self.context.shutdown_is_requested() => Ok(None),
        }
    }

    /// Does the same for a transaction in which the user's own statements run.
    pub(in crate::consumer) async fn ask_slow<T, Fut>(
        &self,
        outstanding: &Outstanding,
        call: impl Fn() -> Fut + Send + Sync,
    ) -> Result<T>
    where
        T: 'static,
        Fut: Future<Output = Result<T>> + Send,
    {
        let within = Some(self.slow_answer_within());
        answer(self.asked(outstanding, (within, false), None, call).await)
    }

    /// Returns the longest wait for the answer of such a call.
    pub(in crate::consumer) fn slow_answer_within(&self) -> Duration {
        self.outage.answer_within.saturating_mul(10)
    }

    /// Does the same for a call that sets something without comparing it first, and so must not be
    /// carried out late, behind a later call. Each call is waited for until it is answered or has
    /// failed.
    pub(in crate::consumer) async fn ask_in_turn<T, Fut>(
        &self,
        outstanding: &Outstanding,
        call: impl Fn() -> Fut + Send + Sync,
    ) -> Result<T>
    where
        T: 'static,
        Fut: Future<Output = Result<T>> + Send,
    {
        answer(self.asked(outstanding, (None, false), None, call).await)
    }

    /// Does the same, but does not wait while the store is away and the pipeline fails open.
    pub(in crate::consumer) async fn try_ask<T, Fut>(
        &self,
        outstanding: &Outstanding,
        call: impl Fn() -> Fut + Send + Sync,
    ) -> Result<Asked<T>>
    where
        T: 'static,
        Fut: Future<Output = Result<T>> + Send,
    {
        self.try_ask_again(outstanding, None, call).await
    }

    /// Does the same for a call that may have been begun already.
    pub(super) async fn try_ask_again<T, Fut>(
        &self,
        outstanding: &Outstanding,
        begun: Option<Begun<T>>,
        call: impl Fn() -> Fut + Send + Sync,
    ) -> Result<Asked<T>>
    where
        T: 'static,
        Fut: Future<Output = Result<T>> + Send,
    {
        let gives_way = self.fails_open();
        let within = Some(self.outage.answer_within);
        self.asked(outstanding, (within, gives_way), begun, call)
            .await
    }

    async fn asked<T, Fut>(
        &self,
        outstanding: &Outstanding,
        (within, gives_way): (Option<Duration>, bool),
        begun: Option<Begun<T>>,
        call: impl Fn() -> Fut + Send + Sync,
    ) -> Result<Asked<T>>
    where
        T: 'static,
        Fut: Future<Output = Result<T>> + Send,
    {
        tokio::select! {
            biased;
            asked = self.repeated(outstanding, (within, gives_way), begun, call) => asked,
            never = outstanding.keep() => match never {},
        }
    }

    async fn repeated<T, Fut>(
        &self,
        outstanding: &Outstanding,
        (within, gives_way): (Option<Duration>, bool),
        mut begun: Option<Begun<T>>,
        call: impl Fn() -> Fut + Send + Sync,
    ) -> Result<Asked<T>>
    where
        T: 'static,
        Fut: Future<Output = Result<T>> + Send,
    {
        let breaker = &self.outage.breaker;
        let mut pauses = Pauses::new(retry::STORE);
        let mut stopping_since = None;
        let mut is_maybe = false;
        loop {
            if semel_core::planted("U09") && breaker.is_open() {
                begun = None;
            }
            // A call that was begun has been made, whatever the breaker says by now.
            let entry = match begun.take() {
                Some(begun) => Ok((breaker.made(), begun.answer().await)),
                None => match breaker.enter() {
                    Entry::Wait { .. } if gives_way => return Ok(Asked::NotNow { is_maybe }),
                    Entry::Wait { wait, error } => Err((wait, error)),
                    Entry::Call(permit) => {
                        let result = match within {
                            Some(within) => within_limit(within, call()).await,
                            None => self.within_patience(call()).await,
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
                        Ok(answer) => return Ok(Asked::Answered(answer)),
                        Err(error) => (error, None),
                    }
                }
            };
            if outstanding.is_pressed() {
                let since = *stopping_since.get_or_insert_with(|| self.context.now());
                if self.context.now().saturating_sub(since) >= self.context.shutdown.patience {
                    return Err(error);
                }
            }
            if is_final(&error) {
                return Err(error);
            }
            if let Some(pause) = pause {
                breaker.turned_within(pause).await;
                continue;
            }
            is_maybe |= error.certainty() == semel_core::Certainty::MaybeApplied;
            if gives_way && breaker.is_open() {
                return Ok(Asked::NotNow { is_maybe });
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

    /// Waits for a call as long as the run has patience.
    async fn within_patience<T>(&self, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        tokio::select! {
            biased;
            answered = call => answered,
            () = self.context.patience_is_over() => Err(unanswered(self.context.shutdown.patience)),
        }
    }
}

/// Returns the answer of a call that was waited for.
fn answer<T>(asked: Result<Asked<T>>) -> Result<T> {
    match asked? {
        Asked::Answered(answer) => Ok(answer),
        Asked::NotNow { .. } => unreachable!("only what gives way is not waited for"),
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
