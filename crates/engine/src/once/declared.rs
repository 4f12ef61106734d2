//! An operation by name: the way in which its effects run, and the calls that run them.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use semel_core::claim::AttemptLimits;
use semel_core::fingerprint::{FingerprintSelector, Reading};
use semel_core::select::{Message, View};
use semel_core::{
    Backoff, Carried, ClaimRequest, Error as CoreError, ErrorKind, Operation, Outcome, Scope,
    Start, Timestamp, VersionGate,
};
use serde::Serialize;

use super::breaker::EffectBreaker;
use super::error::Error;
use super::key::ToKey;
use super::settings::{Replacement, Settings};
use super::shared::Shared;
use crate::effect::{Class, OnDoubt, TraceHeaders};

/// An operation by name, and the way in which its effects run. Cheap to clone; make it once and keep it.
///
/// Settings of the operation ([`keyed`](Self::keyed), [`window`](Self::window), …) and of one request
/// ([`request`](Self::request), [`birth`](Self::birth), …) are set in the same way; to set those of a request, clone
/// first.
///
/// # Guarantee
///
/// One key, one effect, or a record that says why not. The class decides which of the two a crash in the middle
/// leaves: [`keyed`](Self::keyed) runs the effect again with the same key, [`unkeyed`](Self::unkeyed) with
/// [`OnDoubt::Park`], the default, never does.
pub struct Declared<S> {
    pub(super) shared: Arc<Shared<S>>,
    name: Arc<str>,
    tenant: Arc<str>,
    scope: Option<Scope>,
    pub(super) settings: Settings,
    /// The reading of the request that the key is bound to.
    reading: Option<Arc<Reading>>,
    transport: Option<Bytes>,
    birth: Option<Timestamp>,
    gate: Option<VersionGate>,
    pub(super) trace: Option<Carried>,
    breaker: Option<EffectBreaker>,
    fault: Option<CoreError>,
}

impl<S> Declared<S> {
    pub(super) fn new(shared: Arc<Shared<S>>, name: &str) -> Self {
        let settings = shared.defaults.clone();
        let mut declared = Self {
            shared,
            name: name.into(),
            tenant: "".into(),
            scope: None,
            settings,
            reading: None,
            transport: None,
            birth: None,
            gate: None,
            trace: None,
            breaker: None,
            fault: None,
        };
        declared.rescope();
        declared
    }

    /// Declares that the effect is a call with [`Op::idempotency_key`](super::Op::idempotency_key) that its provider
    /// recognises for `provider_window`: exactly once inside that window, then in doubt. Subtract a margin for clocks
    /// and queues from the time that the provider declares.
    #[must_use]
    pub fn keyed(self, provider_window: Duration) -> Self {
        self.change(|settings| settings.class = Class::Keyed { provider_window })
    }

    /// Declares that the effect is a call that no provider recognises: `on_doubt` is the reaction to a crash in the
    /// middle. [`OnDoubt::Park`] is the default.
    #[must_use]
    pub fn unkeyed(self, on_doubt: OnDoubt) -> Self {
        self.change(|settings| settings.class = Class::Unkeyed(on_doubt))
    }

    /// Declares that the effect records itself: it has an inbox settle [`Op::completion`](super::Op::completion) in the
    /// transaction of its own work, commits, and says so with [`Op::committed`](super::Op::committed). Exactly once: no
    /// attempt leaves a mark, and one whose claim was lost cannot commit.
    ///
    /// The inbox and this handle have one store. An effect whose commit was not answered fails as maybe applied: the
    /// release is refused if the commit was applied after all, and the next call is answered from the record. Where the
    /// store does not answer the release either, the caller is told that nobody knows.
    #[must_use]
    pub fn transactional(self) -> Self {
        self.change(|settings| settings.class = Class::Transactional)
    }

    /// Sets the time for which a finished operation is remembered. It must be longer than the longest time after
    /// which a duplicate can come.
    #[must_use]
    pub fn window(self, window: Duration) -> Self {
        self.change(|settings| settings.window = settings.window.resized(window))
    }

    /// Sets the time for which a claim outlives a vanished process. The claim is renewed while the effect runs.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        self.change(|settings| settings.lease = lease)
    }

    /// Sets how often the effect may fail, over all calls and processes, before the operation is dead, or in doubt if
    /// it may have happened. At least one.
    #[must_use]
    pub fn attempts(self, attempts: u32) -> Self {
        let attempts = NonZeroU32::new(attempts).unwrap_or(NonZeroU32::MIN);
        self.change(|settings| settings.limits.failed = attempts)
    }

    /// Caps attempts that fail and those that vanish with their process.
    #[must_use]
    pub fn limits(self, limits: AttemptLimits) -> Self {
        self.change(|settings| settings.limits = limits)
    }

    /// Sets the wait between attempts: `first`, then doubled up to `most`.
    #[must_use]
    pub fn backoff(self, first: Duration, most: Duration) -> Self {
        self.change(|settings| settings.backoff = Backoff { first, most })
    }

    /// Sets how long the effect may run; `None` waits for ever. An effect that is out of time is dropped and may have
    /// happened.
    #[must_use]
    pub fn timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        let timeout = timeout.into();
        self.change(|settings| settings.timeout = timeout)
    }

    /// Sets how long a call waits for another caller that runs the key; zero answers [`Error::Busy`] at once.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        self.change(|settings| settings.wait = wait)
    }

    /// Sets how long a call waits for a store that does not answer.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        self.change(|settings| settings.patience = patience)
    }

    /// Sets the longest outcome that is kept, in bytes. A longer one reaches the first caller whole, and duplicates
    /// learn that it was not kept.
    #[must_use]
    pub fn outcome_limit_bytes(self, limit_bytes: usize) -> Self {
        self.change(|settings| settings.outcome_limit_bytes = limit_bytes)
    }

    /// Sets what is recorded in place of an outcome that the store refuses to keep. Where `replacement` has nothing, the
    /// record says how long the outcome was, and no more.
    #[must_use]
    pub fn refused_outcome(self, replacement: fn(&Outcome) -> Option<Outcome>) -> Self {
        self.change(|settings| settings.replacement = Replacement::new(replacement))
    }

    /// Sets the most effects of one batch that run at the same time.
    #[must_use]
    pub fn concurrency(self, concurrency: usize) -> Self {
        self.change(|settings| settings.concurrency = concurrency)
    }

    /// Leaves the target alone while it is away: operations that call the same target share one breaker. Effects
    /// report an absent target with [`Failure::away`](super::Failure::away).
    #[must_use]
    pub fn breaker(mut self, breaker: &EffectBreaker) -> Self {
        self.breaker = Some(breaker.clone());
        self
    }

    /// Returns the breaker of its effects, if it has one.
    pub(super) fn breaker_of(&self) -> Option<EffectBreaker> {
        self.breaker.clone()
    }

    /// Sets the tenant of the operation: keys of different tenants never meet.
    #[must_use]
    pub fn tenant(mut self, tenant: &str) -> Self {
        self.tenant = tenant.into();
        self.rescope();
        self
    }

    /// Binds the key to this request: the same key with another request is [`Error::Conflict`]. Requests are compared
    /// as JSON, so that the order of members does not count, as a pipeline compares payloads.
    #[must_use]
    pub fn request(self, request: &(impl Serialize + ?Sized)) -> Self {
        match serde_json::to_vec(request) {
            Ok(json) => self.request_bytes(&json),
            Err(error) => {
                let message = "the request cannot be written as JSON";
                self.refuse(CoreError::new(ErrorKind::InvalidInput, message).with_source(error))
            }
        }
    }

    /// Binds the key to these bytes; see [`request`](Self::request). JSON is compared as JSON.
    #[must_use]
    pub fn request_bytes(mut self, request: &[u8]) -> Self {
        match read(request) {
            Ok(reading) => {
                self.reading = reading.map(Arc::new);
                self
            }
            Err(error) => self.refuse(error),
        }
    }

    /// Sets the time at which the request was first made: a request without a record that is older than the window is
    /// [`Error::TooOld`], since its record may have been forgotten. Without a birth, a duplicate that comes after the
    /// window counts as new.
    #[must_use]
    pub fn birth(mut self, birth: Timestamp) -> Self {
        self.birth = Some(birth);
        self
    }

    /// Sets the time at which the request was first made; see [`birth`](Self::birth). A time before 1970 counts as
    /// 1970.
    #[must_use]
    pub fn birth_at(self, birth: SystemTime) -> Self {
        let since = birth.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.birth(Timestamp::EPOCH.plus(since))
    }

    /// Sets the identity of the delivery that brought the request, so that a duplicate is known as a redelivery (the
    /// same one) or a republish (another).
    #[must_use]
    pub fn transport(mut self, id: impl Into<Bytes>) -> Self {
        self.transport = Some(id.into());
        self
    }

    /// Sets the trace of the request, as it came in the headers `traceparent` and `tracestate`, or as an effect or a
    /// handler was told it: the spans of the call, if the [observer](crate::event::Observer::wants_spans) wants any,
    /// become children of its span, whose mark decides about sampling, and
    /// [`Op::trace`](super::Op::trace) hands it on. All items of a batch belong to it. Without one, or with a
    /// `traceparent` that is not valid, each attempt begins a trace of its own.
    ///
    /// ```
    /// use semel_engine::effect::TraceHeaders;
    ///
    /// # use std::sync::Arc;
    /// # use semel_engine::once::Once;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let clock = Arc::new(semel_engine::system::SystemClock::new());
    /// # let once = Once::new(Arc::new(semel_store_memory::MemoryStore::new(clock)));
    /// let came_with = TraceHeaders {
    ///     parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into(),
    ///     state: None,
    /// };
    /// let charge = once.operation("charge").trace(came_with.clone());
    /// let receipt = charge.once("pay-1", async |op| {
    ///     // The provider is called with these headers; as nobody records spans here, they are those of the request.
    ///     Ok(op.trace().map(|trace| trace.parent.to_string()))
    /// });
    /// assert_eq!(receipt.await?.into_value(), Some(came_with.parent.to_string()));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn trace(mut self, trace: impl Into<Option<TraceHeaders>>) -> Self {
        self.trace = trace.into().and_then(TraceHeaders::carried);
        self
    }

    /// Lets the effect run only if `entity` has no version as high as this one; [`Error::Stale`] otherwise.
    #[must_use]
    pub fn version(mut self, entity: impl ToKey, version: u64) -> Self {
        match entity.to_key() {
            Ok(entity) => {
                self.gate = Some(VersionGate { entity, version });
                self
            }
            Err(unusable) => self.refuse(invalid("the entity is no key", unusable)),
        }
    }

    /// Returns the settings as they stand.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    fn change(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    fn refuse(mut self, fault: CoreError) -> Self {
        self.fault.get_or_insert(fault);
        self
    }

    fn rescope(&mut self) {
        match Scope::new(&self.tenant, &self.name) {
            Ok(scope) => self.scope = Some(scope),
            Err(why) => {
                let message = "the name or the tenant is not acceptable";
                self.fault.get_or_insert(invalid(message, why));
            }
        }
    }

    fn check(&self) -> Result<(), Error> {
        let checked = self
            .fault
            .clone()
            .map_or_else(|| self.settings.check(), Err);
        checked.map_err(|source| Error::Invalid { source })
    }

    pub(super) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Returns the operation of `key`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: the key, the name or a setting is not acceptable
    pub fn operation(&self, key: impl ToKey) -> Result<Operation, Error> {
        self.check()?;
        let refused = |source| Error::Invalid { source };
        let key = key.to_key();
        let key = key.map_err(|why| refused(invalid("the key is not acceptable", why)))?;
        match &self.scope {
            Some(scope) => Ok(Operation::new(scope.clone(), key)),
            None => Err(refused(CoreError::new(
                ErrorKind::Internal,
                "there is no scope",
            ))),
        }
    }

    /// Returns the claim to ask for: with a claim id of its own, and marked as this operation's class wants it.
    fn claim(&self, operation: Operation) -> ClaimRequest {
        let reading = self.reading.as_ref();
        let members = reading.and_then(|reading| reading.members(&operation));
        let Operation { scope, key } = operation;
        let claim_id = self.shared.surroundings.claim_id();
        ClaimRequest {
            fingerprint: reading.map(|reading| reading.fingerprint()),
            members,
            transport: self.transport.clone(),
            birth: self.birth,
            window: self.settings.window,
            lease: self.settings.lease,
            limits: self.settings.limits,
            start: self.settings.class.start(),
            gate: self.gate.clone(),
            ..ClaimRequest::new(scope, key, claim_id)
        }
    }

    /// Returns the claim to ask for, with the reading of its request.
    pub(super) fn wanted(&self, operation: Operation) -> Wanted {
        Wanted {
            claim: self.claim(operation),
            reading: self.reading.clone(),
        }
    }

    /// Returns the same as [`wanted`](Self::wanted), unless something else was refused meanwhile.
    pub(super) fn wanted_of(&self, operation: Operation) -> Result<Wanted, Error> {
        self.check()?;
        Ok(self.wanted(operation))
    }

    /// Returns a claim for an effect that commits together with its record, for an inbox.
    ///
    /// # Errors
    ///
    /// as [`operation`](Self::operation)
    pub fn claim_request(&self, key: impl ToKey) -> Result<ClaimRequest, Error> {
        let request = self.claim(self.operation(key)?);
        Ok(ClaimRequest {
            start: Start::Unmarked,
            ..request
        })
    }
}

/// A claim to ask for, and the reading of its request.
pub(super) struct Wanted {
    pub(super) claim: ClaimRequest,
    /// The reading, which names the members of a conflict.
    pub(super) reading: Option<Arc<Reading>>,
}

impl<S> Clone for Declared<S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            name: Arc::clone(&self.name),
            tenant: Arc::clone(&self.tenant),
            scope: self.scope.clone(),
            settings: self.settings.clone(),
            reading: self.reading.clone(),
            transport: self.transport.clone(),
            birth: self.birth,
            gate: self.gate.clone(),
            trace: self.trace.clone(),
            breaker: self.breaker.clone(),
            fault: self.fault.clone(),
        }
    }
}

impl<S> fmt::Debug for Declared<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Declared")
            .field("name", &self.name)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Reads a request as a pipeline reads a payload.
fn read(request: &[u8]) -> semel_core::Result<Option<Reading>> {
    let payload = Bytes::copy_from_slice(request);
    let message = Message {
        payload: &payload,
        headers: &[],
        coordinates: "",
    };
    FingerprintSelector::Payload
        .read(&View::new(message))
        .map_err(|why| invalid("the request cannot be compared", why))
}

fn invalid(message: &str, why: impl fmt::Display) -> CoreError {
    CoreError::new(ErrorKind::InvalidInput, format!("{message}: {why}"))
}
