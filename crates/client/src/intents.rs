//! Intents in a store: keys and answers that outlive the process.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use semel_core::claim::AttemptLimits;
use semel_core::port::store::ListQuery;
use semel_core::{Error as CoreError, ErrorKind, Result, StateKind, Store, Timestamp};
use semel_engine::once::{Declared, Happened, Once, Op};
use semel_gateway::Past;
use tokio::time::{Instant, timeout};
use tower::{Layer, Service};

use crate::call::{Counts, Prior};
use crate::error::{BoxError, Error, Parts, Reason};
use crate::fingerprint::fingerprint;
use crate::intent::Intent;
use crate::layer::{Calling, Retry, RetryLayer, whole};
use crate::outcome::{Kept, error_of, failure_of};
use crate::settings::IntentSettings;

/// Puts the requests of a `tower` service under intents, which a store of Semel keeps. Cheap to clone.
///
/// It retries as a [`RetryLayer`] does, and needs a server that recognises keys.
#[derive(Clone)]
pub struct IntentLayer<S> {
    once: Once<S>,
    retry: RetryLayer,
    settings: Arc<IntentSettings>,
    provider_window: Duration,
}

impl<S: Store + Clone> IntentLayer<S> {
    /// Returns a layer that keeps intents in the store of `once`.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: the settings of `retry` have no window, since a server without one would carry the request of a
    /// process that was killed out twice; or a time of `settings` is not acceptable
    pub fn new(once: &Once<S>, retry: RetryLayer, settings: IntentSettings) -> Result<Self> {
        let Some(provider_window) = retry.settings().usable_window() else {
            let fault =
                "intents need a server that recognises keys: use `Settings::keyed` with its window";
            return Err(CoreError::new(ErrorKind::InvalidInput, fault));
        };
        let layer = Self {
            once: once.clone(),
            retry,
            settings: Arc::new(settings),
            provider_window,
        };
        layer.declared("intent").settings().check()?;
        Ok(layer)
    }

    /// Returns the operation of intents of this name. The retries inside of one call are the layer's own, so a call
    /// that ends without a result gives its intent back at once.
    fn declared(&self, name: &str) -> Declared<S> {
        let limits = AttemptLimits {
            failed: MANY,
            vanished: MANY,
        };
        self.once
            .operation(name)
            .keyed(self.provider_window)
            .window(self.settings.answers_for)
            .lease(self.settings.lease)
            .limits(limits)
            .backoff(Duration::ZERO, Duration::ZERO)
            .timeout(None)
            .wait(self.retry.settings().budget)
            .patience(self.settings.patience)
            .outcome_limit_bytes(usize::MAX)
            .refused_outcome(Kept::refused)
    }

    /// Returns how much was sent so far, through this layer and its clones, and how much was answered from the store.
    pub fn counts(&self) -> Counts {
        self.retry.counts()
    }

    /// Lists intents of this name whose requests have no result yet, at most `limit` of them: those that a process left
    /// behind when it ended, those that failed, and those under way. Sending the same request under such an intent goes
    /// on under the same key.
    ///
    /// # Errors
    ///
    /// Those of the store
    ///
    /// # Cancel safety
    ///
    /// Safe
    pub async fn open(&self, name: &str, limit: usize) -> Result<Vec<OpenIntent>> {
        let store = self.once.store().map_err(|why| {
            CoreError::new(ErrorKind::InvalidInput, why.to_string()).not_applied()
        })?;
        let mut open = Vec::new();
        for state in OPEN {
            let mut query = ListQuery {
                tenant: Some("".into()),
                operation: Some(name.into()),
                state: Some(state),
                limit: limit.clamp(1, PAGE),
                ..ListQuery::default()
            };
            loop {
                let page = store.list(&query).await?;
                for listed in page.items {
                    if open.len() == limit {
                        return Ok(open);
                    }
                    open.push(OpenIntent {
                        first_sent_at: listed.record.first_started_at,
                        calls: listed.record.attempts,
                        is_in_doubt: state == StateKind::InDoubt,
                        intent: Intent::from_operation(listed.operation),
                    });
                }
                match page.next {
                    Some(next) => query.after = Some(next),
                    None => break,
                }
            }
        }
        Ok(open)
    }
}

/// An intent whose requests have no result yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenIntent {
    /// The intent.
    pub intent: Intent,
    /// The time at which its first request was about to be sent, on the store's clock.
    pub first_sent_at: Option<Timestamp>,
    /// The number of calls that were made for it.
    pub calls: u32,
    /// True if the window of the server has passed since: nothing is sent any more before an operator or a program
    /// resolves the doubt.
    pub is_in_doubt: bool,
}

impl<S> fmt::Debug for IntentLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntentLayer")
            .field("retry", &self.retry)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl<S: Clone, C> Layer<C> for IntentLayer<S> {
    type Service = Intents<S, C>;

    fn layer(&self, service: C) -> Intents<S, C> {
        Intents {
            layer: self.clone(),
            retry: self.retry.layer(service),
        }
    }
}

/// A service whose requests are under intents, which a store keeps.
///
/// # Guarantee
///
/// Before the first byte of a request is sent, its intent is in the store, as durably as that store keeps anything. A
/// call for the same intent, in this process or a later one, has the same key; while another call for it is under way,
/// it waits for that one; and once there was a success, it gets that answer without a request. An intent whose server
/// may have forgotten the key of a request that may have been applied is in doubt, and nothing more is sent.
///
/// # Shape
///
/// That of [`Retry`]. Kept, and given again, are successes, redirects where no earlier attempt may have been applied,
/// answers that the server says it had stored, and refusals with a `decisive` code; after any other refusal the next
/// call asks the server again, under the same key. A request
/// without an [`Intent`] and without a key is only retried.
///
/// # Cost
///
/// Two durable writes and one read around the requests of a call; one read for an answer that is given again. A call may
/// take its budget twice: once to wait for another call for its intent, and once for its own attempts
///
/// # Cancel safety
///
/// Dropped before the request was begun, nothing is sent; dropped later, the call runs on, and its answer is what the
/// next call for the intent gets
pub struct Intents<S, C> {
    layer: IntentLayer<S>,
    retry: Retry<C>,
}

impl<S: Clone, C: Clone> Clone for Intents<S, C> {
    fn clone(&self) -> Self {
        Self {
            layer: self.layer.clone(),
            retry: self.retry.clone(),
        }
    }
}

impl<S, C> fmt::Debug for Intents<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Intents").field(&self.layer).finish()
    }
}

impl<S, C, A> Intents<S, C>
where
    S: Store + Clone,
    C: Service<Request<Full<Bytes>>, Response = Response<A>> + Clone + Send + Sync + 'static,
    C::Future: Send,
    C::Error: Into<BoxError>,
    A: Body + Send + 'static,
    A::Data: Send,
    A::Error: Into<BoxError>,
{
    /// Sends `request` under the key of `intent`, or returns the answer that an earlier call had.
    ///
    /// # Errors
    ///
    /// [`Error`]: there is no result
    ///
    /// # Cancel safety
    ///
    /// That of [`Intents`]
    pub async fn send<B>(
        &self,
        intent: &Intent,
        mut request: Request<B>,
    ) -> Result<Response<Full<Bytes>>, Error>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        request.extensions_mut().insert(intent.clone());
        self.under(intent.clone(), whole(request).await?).await
    }

    /// Lists intents without a result; see [`IntentLayer::open`].
    ///
    /// # Errors
    ///
    /// Those of the store
    ///
    /// # Cancel safety
    ///
    /// Safe
    pub async fn open(&self, name: &str, limit: usize) -> Result<Vec<OpenIntent>> {
        self.layer.open(name, limit).await
    }

    async fn under(
        &self,
        intent: Intent,
        request: Request<Bytes>,
    ) -> Result<Response<Full<Bytes>>, Error> {
        let declared = self.layer.declared(intent.name());
        let declared = declared.request_bytes(&fingerprint(&request));
        let kept_headers = self.layer.settings.kept_headers.clone();
        let limit_bytes = self.layer.settings.answer_limit_bytes;
        let (retry, record_of) = (self.retry.clone(), declared.clone());
        let call = declared.once(intent.value(), async move |op: Op| {
            let prior = prior_of(&record_of, &op)
                .await
                .map_err(|error| failure_of(Err(error)))?;
            match retry.answered(request, prior).await {
                Ok(answered) if answered.is_outcome => {
                    Ok(Kept::new(answered.answer, kept_headers, limit_bytes))
                }
                Ok(answered) => Err(failure_of(Ok(answered.answer))),
                Err(error) => Kept::of_error(error).map_err(|error| failure_of(Err(error))),
            }
        });
        let kept = match call.await {
            Ok(receipt) => {
                if receipt.is_replay() {
                    self.layer.retry.count_store_replay();
                }
                receipt.into_value().into_answer()
            }
            Err(error) => error_of(error),
        };
        let named = |error: Error| {
            error.change(|parts| {
                parts
                    .key
                    .get_or_insert_with(|| intent.idempotency_key().into());
            })
        };
        kept.map(|answer| answer.map(Full::new)).map_err(named)
    }
}

/// Finds out whether an earlier request under the key may have been applied, and for how long the server knows the key.
/// Both times are those of the record, so on the store's clock, which may be far from ours.
///
/// # Errors
///
/// [`Reason::Store`]: the record cannot be read, so nothing may be sent
async fn prior_of<S: Store + Clone>(declared: &Declared<S>, op: &Op) -> Result<Prior, Error> {
    let asked_at = Instant::now();
    let record = match timeout(RECORD_WITHIN, declared.record(op.key())).await {
        Ok(Ok(Some(record))) => record,
        Ok(Ok(None)) => return Err(unread("the record is gone")),
        Ok(Err(error)) => return Err(unread(error)),
        Err(late) => return Err(unread(late)),
    };
    // The number of the attempt does not tell: an operator's retry counts anew, and keeps the doubt.
    let is_clean = !op.is_takeover() && !op.is_possible_repeat() && record.doubt.is_none();
    let first = record.first_started_at.unwrap_or(record.claimed_at);
    let at_claim = record.claimed_at.since(first);
    Ok(Prior {
        past: if is_clean {
            Past::Clean
        } else {
            Past::Doubtful
        },
        age: at_claim.saturating_add(asked_at.elapsed()),
    })
}

/// Returns the error of a call that does not know what went before.
fn unread(source: impl Into<BoxError>) -> Error {
    Error::new(Parts {
        source: Some(source.into()),
        ..Parts::of(Reason::Store, Happened::No)
    })
}

impl<S, C, A, B> Service<Request<B>> for Intents<S, C>
where
    S: Store + Clone,
    C: Service<Request<Full<Bytes>>, Response = Response<A>> + Clone + Send + Sync + 'static,
    C::Future: Send,
    C::Error: Into<BoxError>,
    A: Body + Send + 'static,
    A::Data: Send,
    A::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<Full<Bytes>>;
    type Error = Error;
    type Future = Calling;

    /// Is always ready: each attempt waits for the service below.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    /// Sends a request under the intent among its extensions, or the one whose key its header has.
    fn call(&mut self, request: Request<B>) -> Calling {
        let this = self.clone();
        Box::pin(async move {
            let request = whole(request).await?;
            let intent = request.extensions().get::<Intent>().cloned();
            let own = request.headers().get(&this.retry.settings().key_header);
            let intent = match (intent, own) {
                (Some(intent), _) => Some(intent),
                (None, Some(own)) => {
                    let text = own.to_str().map_err(Error::invalid)?;
                    let intent = Intent::of_header(text).map_err(Error::invalid)?;
                    Some(intent)
                }
                (None, None) => None,
            };
            if let Some(intent) = intent {
                return this.under(intent, request).await;
            }
            let answered = this.retry.answered(request, Prior::NONE).await?;
            Ok(answered.answer.map(Full::new))
        })
    }
}

/// The states of intents without a result.
const OPEN: [StateKind; 4] = [
    StateKind::Started,
    StateKind::Claimed,
    StateKind::Released,
    StateKind::InDoubt,
];
const PAGE: usize = 500;
/// The longest wait for a record.
const RECORD_WITHIN: Duration = Duration::from_secs(5);
/// More calls than any program makes for one intent, within what every store can count.
const MANY: NonZeroU32 = match NonZeroU32::new(1_000_000_000) {
    Some(many) => many,
    None => NonZeroU32::MAX,
};
