//! The attempts of one call, the waits between them, and their end.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use semel_core::{Certainty, Entropy};
use semel_engine::effect::within_provider_window;
use semel_engine::once::Happened;
use semel_gateway::{Past, Sender, Statuses, certainty_of_status};
use tokio::time::{Instant, sleep, timeout_at};
use tower::Service;

use crate::advertised;
use crate::answer::{Known, Meaning, least_wait, meaning, operation_id};
use crate::call::{AnswerFrom, Answered, Call, count, later};
use crate::error::{BoxError, Error, Parts, Reason, Stopped};
use crate::fault::Fault;

/// A call that is under way.
pub(crate) struct Run<S> {
    call: Call<S>,
    past: Past,
    attempts: u32,
    began: Instant,
    budget_end: Instant,
    window_end: Option<Instant>,
    operation_id: Option<Box<str>>,
}

/// The next step of a call.
enum Next {
    Return(Result<Answered, Error>),
    Wait(Duration),
}

impl<S> Run<S> {
    pub(crate) fn new(call: Call<S>) -> Self {
        let now = Instant::now();
        Self {
            past: call.prior.past,
            attempts: 0,
            began: now,
            budget_end: later(now, call.shared.settings.budget),
            window_end: call.window_end(now),
            operation_id: None,
            call,
        }
    }

    /// Makes attempts until there is a result, or none is to be had.
    pub(crate) async fn go<B>(mut self) -> Result<Answered, Error>
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Send,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        if self.is_forgotten(self.began) {
            let stopped = Stopped::Window;
            let parts = Parts::of(Reason::InDoubt, Happened::Maybe);
            return Err(self.error(Parts { stopped, ..parts }));
        }
        loop {
            let counters = &self.call.shared.counters;
            if self.attempts == 0 {
                count(&counters.calls);
            }
            count(&counters.requests);
            self.attempts = self.attempts.saturating_add(1);
            let end = self.attempt().await;
            let wait = match self.after(end) {
                Next::Return(result) => return result,
                Next::Wait(wait) => wait,
            };
            sleep(wait).await;
        }
    }

    /// Makes one attempt, and reads all of its answer.
    async fn attempt<B>(&mut self) -> End
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Send,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let settings = &self.call.shared.settings;
        let (fault_of, limit) = (settings.fault, settings.answer_limit_bytes);
        let by = Instant::now().checked_add(settings.attempt_timeout);
        let by = by.map_or(self.budget_end, |by| by.min(self.budget_end));
        // Nothing is sent any more once the server may have forgotten the key.
        let by = match self.window_end {
            Some(end) if self.needs_key() => by.min(end),
            Some(_) | None => by,
        };
        let service = &mut self.call.service;
        match timeout_at(by, poll_fn(|context| service.poll_ready(context))).await {
            Ok(Ok(())) => {}
            // A service that is not ready was not called.
            Ok(Err(error)) => return End::Fault(Fault::Unsent, Some(error.into())),
            Err(_) => return End::Fault(Fault::Unsent, None),
        }
        if self.is_forgotten(Instant::now()) {
            return End::Fault(Fault::Unsent, None);
        }
        let body = Full::new(self.call.body.clone());
        let request = Request::from_parts(self.call.head.clone(), body);
        let called = self.call.service.call(request);
        let answered = async {
            let response = match called.await {
                Ok(response) => response,
                Err(error) => {
                    let error: BoxError = error.into();
                    let fault = fault_of(&*error);
                    return End::Fault(fault, Some(error));
                }
            };
            let (head, body) = response.into_parts();
            match Limited::new(body, limit).collect().await {
                Ok(body) => End::Answer(Response::from_parts(head, body.to_bytes())),
                Err(error) if error.is::<LengthLimitError>() => {
                    End::Long(head.status, head.headers)
                }
                Err(error) => End::Fault(Fault::Sent, Some(error)),
            }
        };
        timeout_at(by, answered).await.unwrap_or(End::Late)
    }

    /// Decides what follows an attempt.
    fn after(&mut self, end: End) -> Next {
        let open = match end {
            End::Answer(answer) => match self.of_answer(answer) {
                Ok(open) => open,
                Err(result) => return Next::Return(*result),
            },
            End::Long(status, headers) => {
                self.heed(&headers);
                let unsure = &self.call.shared.settings.unsure;
                let happened = of_long(status, unsure, self.call.is_keyed());
                return self.end(Reason::NotKept, happened, None);
            }
            End::Fault(Fault::Unsendable, source) => {
                return self.end(Reason::Invalid, Happened::No, source);
            }
            End::Fault(Fault::Unsent, source) => {
                Open::without_answer(Reason::Unreached, Certainty::NotApplied, source)
            }
            End::Fault(Fault::Sent, source) => {
                Open::without_answer(Reason::Broken, Certainty::MaybeApplied, source)
            }
            End::Late => Open::without_answer(Reason::Late, Certainty::MaybeApplied, None),
        };
        if open.certainty == Certainty::MaybeApplied {
            self.past = Past::Doubtful;
        }
        let least = open.retry_after.unwrap_or_else(|| least_wait(open.reason));
        match self.wait(least) {
            Ok(wait) => Next::Wait(wait),
            Err(stopped) => {
                let parts = Parts {
                    stopped,
                    retry_after: open.retry_after,
                    answer: open.answer,
                    source: open.source,
                    ..Parts::of(open.reason, Happened::No)
                };
                Next::Return(Err(self.error(parts)))
            }
        }
    }

    /// Returns what another attempt may be told more about, or the end of the call.
    fn of_answer(&mut self, answer: Response<Bytes>) -> Result<Open, Box<Result<Answered, Error>>> {
        self.heed(answer.headers());
        self.operation_id = operation_id(&answer).or(self.operation_id.take());
        let known = Known {
            is_keyed: self.call.is_keyed(),
            past: self.past,
            decisive: &self.call.shared.settings.decisive,
            unsure: &self.call.shared.settings.unsure,
        };
        let end = match meaning(&answer, known) {
            Meaning::Result {
                is_outcome,
                is_replay,
            } => Ok(self.result(answer, is_outcome, is_replay)),
            Meaning::Final { reason, happened } => {
                let answer = Some(answer);
                let parts = Parts::of(reason, happened);
                Err(self.error(Parts { answer, ..parts }))
            }
            Meaning::Again { reason, certainty } => {
                let clock = &*self.call.shared.clock;
                return Ok(Open {
                    reason,
                    certainty,
                    retry_after: advertised::retry_after(answer.headers(), clock),
                    answer: Some(answer),
                    source: None,
                });
            }
        };
        Err(Box::new(end))
    }

    /// Heeds the window that the server advertises.
    fn heed(&mut self, headers: &HeaderMap) {
        let shared = &self.call.shared;
        let Some(name) = &shared.settings.window_header else {
            return;
        };
        let Some(window) = advertised::time(headers, name, &*shared.clock) else {
            return;
        };
        let end = if is_number(headers, name) {
            if window.is_zero() {
                // A mistake: no server forgets a key at once.
                return;
            }
            // It holds for every request until the server names another.
            let secs = &shared.advertised_secs;
            secs.store(window.as_secs(), Ordering::Relaxed);
            let left = within_provider_window(window).saturating_sub(self.call.prior.age);
            self.began.checked_add(left)
        } else {
            Instant::now().checked_add(within_provider_window(window))
        };
        self.window_end = match (self.window_end, end) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, _) => one,
        };
    }

    /// Returns the wait before the next attempt, or the reason why there is none.
    fn wait(&self, wish: Duration) -> Result<Duration, Stopped> {
        let call = &self.call;
        let settings = &call.shared.settings;
        let is_doubtful = self.past == Past::Doubtful;
        let is_repeatable = call.head.method.is_idempotent() || call.is_keyed();
        if is_doubtful && !is_repeatable {
            return Err(Stopped::Unkeyed);
        }
        let now = Instant::now();
        if self.is_forgotten(now) {
            return Err(Stopped::Window);
        }
        if self.attempts >= settings.attempts.get() {
            return Err(Stopped::Attempts);
        }
        let left = self.budget_end.saturating_duration_since(now);
        if wish >= left {
            return Err(Stopped::Budget);
        }
        let jitter = share(settings.backoff.after(self.attempts), &*call.shared.entropy);
        let wait = wish.saturating_add(jitter);
        let wait = match (wait < left, wish.is_zero()) {
            (true, _) => wait,
            // The server's time without the jitter is still better than no attempt.
            (false, false) => wish,
            (false, true) => return Err(Stopped::Budget),
        };
        if self.is_forgotten(now + wait) {
            return Err(Stopped::Window);
        }
        Ok(wait)
    }

    /// Tells whether the server may have forgotten the key, on which alone a repetition rests.
    fn is_forgotten(&self, at: Instant) -> bool {
        self.needs_key() && self.window_end.is_none_or(|end| at >= end)
    }

    /// Tells whether another attempt is safe only while the server knows the key.
    fn needs_key(&self) -> bool {
        self.past == Past::Doubtful && !self.call.head.method.is_idempotent()
    }

    fn result(&self, mut answer: Response<Bytes>, is_outcome: bool, is_replay: bool) -> Answered {
        let attempts = self.attempts;
        answer.extensions_mut().insert(if is_replay {
            count(&self.call.shared.counters.server_replays);
            AnswerFrom::ServerRecord { attempts }
        } else {
            AnswerFrom::Server { attempts }
        });
        Answered { answer, is_outcome }
    }

    /// Ends the call, since another attempt would be told nothing else.
    fn end(&mut self, reason: Reason, happened: Happened, source: Option<BoxError>) -> Next {
        let parts = Parts {
            source,
            ..Parts::of(reason, happened)
        };
        Next::Return(Err(self.error(parts)))
    }

    /// Returns the error of a call, with what is known of it. That of one attempt is no more than what is known of all.
    fn error(&mut self, parts: Parts) -> Error {
        let happened = match (parts.happened, self.past) {
            // A request that changes nothing has nothing to be applied.
            _ if self.call.head.method.is_safe() => Happened::No,
            (Happened::No, Past::Doubtful) => Happened::Maybe,
            (happened, _) => happened,
        };
        Error::new(Parts {
            happened,
            attempts: self.attempts,
            key: self.call.key.take(),
            operation_id: self.operation_id.take(),
            ..parts
        })
    }
}

/// An attempt after which another one may be told more.
struct Open {
    reason: Reason,
    certainty: Certainty,
    /// The time after which the server wants to hear of the request again.
    retry_after: Option<Duration>,
    answer: Option<Response<Bytes>>,
    source: Option<BoxError>,
}

impl Open {
    const fn without_answer(
        reason: Reason,
        certainty: Certainty,
        source: Option<BoxError>,
    ) -> Self {
        Self {
            reason,
            certainty,
            retry_after: None,
            answer: None,
            source,
        }
    }
}

/// Tells what is known where an answer of this status was too long to be read.
fn of_long(status: StatusCode, unsure: &Statuses, is_keyed: bool) -> Happened {
    // Another request with the key is under way.
    let is_open = is_keyed && status == StatusCode::CONFLICT;
    match certainty_of_status(status, Sender::Server, unsure) {
        _ if status.is_success() => Happened::Yes,
        Some(Certainty::NotApplied) => Happened::No,
        None if status.is_client_error() && !is_open => Happened::No,
        Some(Certainty::MaybeApplied) | None => Happened::Maybe,
    }
}

fn is_number(headers: &HeaderMap, name: &HeaderName) -> bool {
    let value = headers.get(name);
    value.is_some_and(|value| value.as_bytes().trim_ascii().iter().all(u8::is_ascii_digit))
}

/// Returns a random share of a time.
fn share(of: Duration, entropy: &dyn Entropy) -> Duration {
    let mut bytes = [0; 8];
    entropy.fill(&mut bytes);
    let random = u128::from(u64::from_le_bytes(bytes));
    // No time of ours has more nanoseconds than 64 bits hold.
    let nanos = (of.as_nanos().min(u128::from(u64::MAX)) * random) >> 64;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The end of one attempt.
enum End {
    Answer(Response<Bytes>),
    /// The answer is over the limit.
    Long(StatusCode, HeaderMap),
    Fault(Fault, Option<BoxError>),
    /// The answer was not there in time.
    Late,
}
