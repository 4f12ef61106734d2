//! From a delivery to a claim: key, tenant, fingerprint, transport id, birth, order, version.

mod tenant_scopes;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::birth;
use semel_core::claim::AttemptLimits;
use semel_core::fingerprint::FingerprintSelector;
use semel_core::json::Tape;
use semel_core::key::KeySelector;
use semel_core::port::source::{Delivery, DeliveryId, Judgement};
use semel_core::port::store::ListQuery;
use semel_core::port::transactional::Value;
use semel_core::select::{Message, Selected, Selector, View};
use semel_core::{
    Backoff, ByteString, ClaimId, ClaimRequest, Differing, Error, ErrorKind, Key, Members,
    Operation, Parked, Scope, Start, Timestamp, Unusable, VersionGate, Window, tenant,
};

use self::tenant_scopes::TenantScopes;
use crate::effect::{Class, OnDoubt};

/// The rules by which messages of one source become operations.
#[derive(Clone)]
pub struct Pipeline {
    /// The pipeline's name.
    pub name: Box<str>,
    /// Tenant and operation name of its keys; the operation name alone where each message has its own tenant.
    pub scope: Scope,
    /// The place of the tenant, where each message has its own: a part of the identity of its operation.
    pub tenant: Option<Selector>,
    /// The place of the key.
    pub key: KeySelector,
    /// The part that is compared when a key comes again.
    pub fingerprint: FingerprintSelector,
    /// The place of the transport id; the coordinates if none is named.
    pub transport: Option<Selector>,
    /// The place of the birth, for sources without an append time of their own.
    pub birth: Option<Selector>,
    /// The order key: messages with the same one run in source order; the key within its tenant if none is named.
    pub order: Option<KeySelector>,
    /// Entity and version of the version gate.
    pub gate: Option<(KeySelector, Selector)>,
    /// The deduplication window.
    pub window: Window,
    /// The time for which a claim lasts unless renewed.
    pub lease: Duration,
    /// Caps on attempts.
    pub limits: AttemptLimits,
    /// The wait between attempts.
    pub backoff: Backoff,
    /// Longest outcome that is kept, in bytes.
    pub outcome_limit_bytes: usize,
    /// Most messages in one store call.
    pub batch: usize,
    /// Most calls of the effect in flight.
    pub concurrency: usize,
    /// Longest message that is read, in bytes.
    pub max_message_bytes: u64,
    /// The number of equal failures in a row, with no success between, after which the pipeline pauses: then
    /// they are not the messages' fault. 0 never.
    pub pause_after: usize,
    /// Values for an effect in the store's transaction.
    pub bind: Option<Arc<dyn Bind>>,
    /// The effect is for live messages alone: a message with a [`REPLAY_ID`] that has no record is set aside,
    /// as `live-only`.
    pub live_only: bool,
}

/// The header by which a sender marks messages that it sends again, and names the replay.
pub const REPLAY_ID: &str = "semel-replay-id";

/// Tells whether a message is marked as sent again.
pub(crate) fn is_sent_again(headers: &[(ByteString, Bytes)]) -> bool {
    headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case(REPLAY_ID))
}

/// The rule for a pipeline's messages while its store does not answer.
///
/// It is part of the [`Policy`](crate::layer::outage::Policy) of a consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fail {
    /// They wait, in the source as far as possible; no effect begins without a claim.
    #[default]
    Closed,
    /// Their effects run **unprotected**: without a claim and without a record, so that each may run again,
    /// and nothing keeps another worker from running it. Only while the breaker is open, only for messages
    /// that were not claimed before, and counted apart
    /// ([`Fate::Unprotected`](crate::summary::Fate::Unprotected)).
    Open,
}

impl Fail {
    /// Checks that the rule is allowed for effects of this class.
    ///
    /// # Errors
    ///
    /// `Unsupported`: open, for a class whose promise rests on the record of each effect, or with a version
    /// gate, which is a record
    pub fn check(self, class: Class, has_gate: bool) -> semel_core::Result<()> {
        let refused = match class {
            _ if self == Self::Closed => return Ok(()),
            Class::Unkeyed(OnDoubt::Park) if semel_core::planted("U06") => return Ok(()),
            Class::Transactional => "a transactional effect",
            Class::Streamed => "a streamed effect",
            Class::Unkeyed(OnDoubt::Park) => "an effect that parks its doubts",
            Class::Keyed { .. } | Class::Unkeyed(OnDoubt::Repeat) if has_gate => "a version gate",
            Class::Keyed { .. } | Class::Unkeyed(OnDoubt::Repeat) => return Ok(()),
        };
        let message =
            format!("{refused} needs a store: use fail = \"closed\", or a class that may repeat");
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}

/// Finds the values that an effect in the store's transaction binds to its placeholders.
pub trait Bind: Send + Sync + 'static {
    /// Returns one value per parameter, in order.
    ///
    /// # Errors
    ///
    /// The reason why the message cannot be bound; it is quarantined.
    fn values(&self, view: &View<'_>) -> Result<Vec<Value>, Unusable>;
}

/// The parts read of a message: its order key, the claim to ask for, and the values to bind.
type Parts = (Option<Bytes>, ClaimRequest, Option<Arc<[Value]>>);

/// A delivery on its way: the claim to ask for, and the message to run and acknowledge then.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The delivery to acknowledge.
    pub delivery: DeliveryId,
    /// The message.
    pub payload: Bytes,
    /// Its headers.
    pub headers: Vec<(ByteString, Bytes)>,
    /// The place where it was read.
    pub coordinates: ByteString,
    /// Its order key, if the pipeline names one.
    pub order: Option<Bytes>,
    /// The claim to ask for.
    pub request: ClaimRequest,
    /// Values for an effect in the store's transaction; none for another effect.
    pub values: Option<Arc<[Value]>>,
    /// The message carries a replay id.
    pub(crate) is_sent_again: bool,
}

impl Incoming {
    /// Returns the order key, and the tenant within which it counts; an order key that the pipeline names counts
    /// over all tenants.
    pub(crate) fn order(&self) -> (&str, &[u8]) {
        if let Some(order) = &self.order {
            return ("", order);
        }
        let ClaimRequest {
            operation, gate, ..
        } = &self.request;
        // Versions of one entity are tried in source order, whatever their keys.
        let entity = gate.as_ref().map(|gate| gate.entity.as_bytes());
        let order = entity.unwrap_or_else(|| operation.key.as_bytes());
        (operation.scope.tenant(), order)
    }

    /// Returns the message, to be set aside with its operation, for `reason`.
    pub fn parked(&self, reason: &'static str, detail: impl Into<Box<str>>) -> Parked {
        Parked {
            scope: self.request.operation.scope.clone(),
            key: Some(self.request.operation.key.clone()),
            reason: reason.into(),
            detail: detail.into(),
            transport: self.request.transport.clone(),
            coordinates: self.coordinates.clone(),
            headers: self.headers.clone(),
            payload: self.payload.clone(),
            since: Timestamp::EPOCH,
        }
    }
}

/// A delivery without a usable key.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// The delivery to acknowledge.
    pub delivery: DeliveryId,
    /// The reason.
    pub unusable: Unusable,
    /// The message to be set aside.
    pub parked: Parked,
}

/// State that the reader of a pipeline's deliveries keeps between them.
pub struct Scratch {
    start: Start,
    keeps_members: bool,
    /// The scope of the pipeline, for the deliveries that are read now.
    scope: Scope,
    /// Those of its tenants.
    tenants: TenantScopes,
    tape: Tape,
}

impl Scratch {
    /// Returns state for deliveries of `pipeline` whose effects begin with `start`.
    pub fn new(pipeline: &Pipeline, start: Start) -> Self {
        Self {
            start,
            keeps_members: true,
            scope: pipeline.scope.clone(),
            tenants: TenantScopes::default(),
            tape: Tape::default(),
        }
    }

    /// Returns the same for a pipeline that does not keep the members of requests, so that none are hashed.
    #[must_use]
    pub fn without_members(mut self) -> Self {
        self.keeps_members = false;
        self
    }

    /// Begins a chunk: the deliveries that are read from now on go to another thread together.
    pub fn begin_chunk(&mut self) {
        self.scope = self.scope.detached();
        self.tenants.begin_chunk();
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch")
            .field("start", &self.start)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

impl Pipeline {
    /// Selects what is on record of the pipeline; of every tenant, where each message has its own.
    pub fn selection(&self) -> ListQuery {
        let mut selection = ListQuery::in_scope(&self.scope);
        if self.tenant.is_some() {
            selection.tenant = None;
        }
        selection
    }

    /// Returns whether the records of `scope` are those of the pipeline.
    pub fn has(&self, scope: &Scope) -> bool {
        let is_of_tenant = self.tenant.is_some() || scope.tenant() == self.scope.tenant();
        is_of_tenant && scope.operation() == self.scope.operation()
    }

    /// Reads one delivery.
    ///
    /// # Errors
    ///
    /// The delivery yields no usable key and is to be quarantined.
    pub fn read(
        &self,
        delivery: Delivery,
        claim_id: ClaimId,
        scratch: &mut Scratch,
    ) -> Result<Incoming, Box<Rejected>> {
        let read = if let Some(Judgement::Refused(unusable)) = &delivery.judgement {
            Err(unusable.clone())
        } else if let Some(size_bytes) = delivery.oversize_bytes {
            let limit_bytes = self.max_message_bytes;
            Err(Unusable::MessageTooLarge {
                size_bytes,
                limit_bytes,
            })
        } else {
            let message = Message {
                payload: &delivery.payload,
                headers: &delivery.headers,
                coordinates: &delivery.coordinates,
            };
            let view = View::onto(message, std::mem::take(&mut scratch.tape));
            let read = self.read_view(&view, &delivery, scratch, claim_id);
            scratch.tape = view.into_tape();
            read
        };
        match read {
            Ok((order, request, values)) => Ok(Incoming {
                delivery: delivery.id,
                is_sent_again: is_sent_again(&delivery.headers),
                payload: delivery.payload,
                headers: delivery.headers,
                coordinates: delivery.coordinates,
                order,
                request,
                values,
            }),
            Err(unusable) => {
                let parked = Parked {
                    scope: self.scope.clone(),
                    key: None,
                    reason: unusable.code().into(),
                    detail: unusable.to_string().into(),
                    transport: None,
                    coordinates: delivery.coordinates,
                    headers: delivery.headers,
                    payload: delivery.payload,
                    since: Timestamp::EPOCH,
                };
                Err(Box::new(Rejected {
                    delivery: delivery.id,
                    unusable,
                    parked,
                }))
            }
        }
    }

    /// Compares a message that is in conflict with the first one under its key, whose members are `first` if
    /// they were kept.
    pub fn differing(&self, incoming: &Incoming, first: Option<&Members>) -> Differing {
        let view = View::new(Message {
            payload: &incoming.payload,
            headers: &incoming.headers,
            coordinates: &incoming.coordinates,
        });
        match self.fingerprint.read(&view) {
            Ok(Some(reading)) => reading.differing(&incoming.request.operation, first),
            // The message was readable before.
            Ok(None) | Err(_) => Differing::NoMembers,
        }
    }

    fn read_view(
        &self,
        view: &View<'_>,
        delivery: &Delivery,
        scratch: &mut Scratch,
        claim_id: ClaimId,
    ) -> Result<Parts, Unusable> {
        let key = match &delivery.given_key {
            Some(given) => given.clone(),
            None => self.key.key(view)?,
        };
        let scope = self.scope_of(view, scratch)?;
        let gate = self
            .gate
            .as_ref()
            .map(|(entity, version)| gate(view, entity, version));
        let gate = gate.transpose()?;
        let order = self.order.as_ref().map(|order| order.key(view));
        let order = order.transpose()?.map(Key::into_bytes);
        let birth = match (delivery.appended_at, &self.birth) {
            _ if semel_core::planted("M18") => None,
            // Older than every window: a message without a record does not begin, in one step with the look
            // for a record.
            _ if self.live_only && is_sent_again(&delivery.headers) => Some(Timestamp::EPOCH),
            (Some(appended_at), _) => Some(appended_at),
            (None, Some(birth)) => Some(Timestamp::from_millis(birth::of(view, birth)?)),
            (None, None) => None,
        };
        let operation = Operation::new(scope, key);
        let reading = self.fingerprint.read(view)?;
        let read = reading.as_ref().filter(|_| scratch.keeps_members);
        let members = read.and_then(|it| it.members(&operation));
        let request = ClaimRequest {
            operation,
            claim_id,
            fingerprint: reading.map(|it| it.fingerprint()),
            members,
            transport: Some(self.transport(view, delivery)?),
            birth,
            window: self.window,
            lease: self.lease,
            limits: self.limits,
            start: scratch.start,
            gate,
            wants_outcome: false,
        };
        let values = match &self.bind {
            Some(bind) => Some(bind.values(view)?.into()),
            None => None,
        };
        Ok((order, request, values))
    }

    /// Returns the scope of a message: that of the pipeline, or that of its tenant.
    fn scope_of(&self, view: &View<'_>, scratch: &mut Scratch) -> Result<Scope, Unusable> {
        let Some(selector) = &self.tenant else {
            return Ok(scratch.scope.clone());
        };
        let tenant = tenant::of(view, selector)?;
        let scope = scratch.tenants.of(&tenant, self.scope.operation());
        scope.ok_or_else(|| Unusable::TenantMissing {
            at: selector.to_string().into(),
        })
    }

    /// Returns the transport id, cut to a digest if it is long.
    fn transport(&self, view: &View<'_>, delivery: &Delivery) -> Result<Bytes, Unusable> {
        let selected = self
            .transport
            .as_ref()
            .map(|selector| view.select(selector));
        let text = match selected.transpose()?.flatten() {
            Some(Selected::Text(text) | Selected::Number(text)) => {
                Bytes::copy_from_slice(text.as_bytes())
            }
            Some(Selected::Event(source, id)) => format!("{source} {id}").into(),
            Some(Selected::Bytes(bytes)) => Bytes::copy_from_slice(bytes),
            // A message without the id falls back to the place where it was read.
            Some(Selected::Null | Selected::Bool(_) | Selected::Nested(_)) | None => {
                delivery.coordinates.as_bytes().clone()
            }
        };
        Ok(if text.len() > MAX_TRANSPORT_BYTES {
            digest_of(&text)
        } else {
            text
        })
    }
}

fn gate(
    view: &View<'_>,
    entity: &KeySelector,
    version: &Selector,
) -> Result<VersionGate, Unusable> {
    let entity = entity
        .key(view)
        .map_err(|_| Unusable::EntityMissing { at: name(entity) })?;
    let version = match view.select(version)? {
        Some(Selected::Number(number)) => number.parse().ok(),
        Some(Selected::Text(text)) => text.parse().ok(),
        Some(_) | None => None,
    }
    .ok_or_else(|| Unusable::VersionInvalid {
        at: version.to_string().into(),
    })?;
    Ok(VersionGate { entity, version })
}

fn name(selector: &KeySelector) -> Box<str> {
    selector.to_string().into()
}

fn digest_of(text: &[u8]) -> Bytes {
    let mut hasher = siphasher::sip128::SipHasher13::new_with_keys(DIGEST_KEYS.0, DIGEST_KEYS.1);
    std::hash::Hasher::write(&mut hasher, text);
    let digest = siphasher::sip128::Hasher128::finish128(&hasher);
    format!("sip128:{:016x}{:016x}", digest.h1, digest.h2).into()
}

/// Longest transport id that is kept as it is.
const MAX_TRANSPORT_BYTES: usize = 255;
/// Fixed, so that the digest of a transport id is the same in every run.
const DIGEST_KEYS: (u64, u64) = (0x7365_6d65_6c2d_7472, 0x616e_7370_6f72_7431);
