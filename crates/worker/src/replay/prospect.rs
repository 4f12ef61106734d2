//! The fate that a parked message would have if it ran now, found by the very decisions that a run makes,
//! without changing anything.

use std::fmt;
use std::sync::Arc;

use semel_core::decide::{self, Change, Order};
use semel_core::port::source::{Delivery, DeliveryId};
use semel_core::port::store::ListQuery;
use semel_core::{
    Admission, ClaimId, ClaimRequest, FencingToken, Key, Operation, Parked, Record, Recovery,
    Result, StateKind, Timestamp,
};
use semel_engine::pipeline::{Incoming, Pipeline, Rejected, Scratch};

use super::{Kind, distinct};
use crate::settings::EffectSettings;

/// The fate that a parked message would have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prospect {
    /// Its effect is called.
    Runs {
        /// True if an earlier attempt may have applied the effect already.
        possible_repeat: bool,
        /// True if its operation was given up and its record has been forgotten since.
        forgotten: bool,
    },
    /// It is published to its source again, for the worker that has its partition, and is kept until that is
    /// done.
    Published,
    /// Its operation is completed: no effect is called, and the message is dropped.
    Done,
    /// Its operation is claimed, or in its backoff, until then; its fate depends on the result.
    Waits {
        /// End of the lease or of the backoff.
        until: Timestamp,
    },
    /// It is quarantined, for this reason.
    Stays(Box<str>),
    /// Its operation was given up: dead or in doubt; the message becomes that operation's.
    GivenUp(StateKind),
    /// It is left alone, for this reason.
    Refused(Box<str>),
}

impl Prospect {
    /// The name as printed: `runs`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Runs { .. } => "runs",
            Self::Published => "published",
            Self::Done => "done",
            Self::Waits { .. } => "waits",
            Self::Stays(_) => "stays",
            Self::GivenUp(_) => "given_up",
            Self::Refused(_) => "refused",
        }
    }
}

impl fmt::Display for Prospect {
    /// One line for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runs {
                possible_repeat: false,
                forgotten: false,
            } => f.write_str("its effect is called"),
            Self::Runs {
                forgotten: true, ..
            } => f.write_str("its effect is called as if new: its record has been forgotten"),
            Self::Runs { .. } => {
                f.write_str("its effect is called; an earlier attempt may have happened")
            }
            Self::Published => {
                f.write_str("goes to its partition again, and is kept until it is done")
            }
            Self::Done => f.write_str("completed already: nothing is called, the message goes"),
            Self::Waits { until } => write!(f, "somebody is at it, or it rests, until {until}"),
            Self::Stays(reason) => write!(f, "stays in quarantine: {reason}"),
            Self::GivenUp(StateKind::InDoubt) => f.write_str("its operation is in doubt"),
            Self::GivenUp(_) => f.write_str("its operation is dead: it becomes a dead letter"),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

/// Reads parked messages as their pipeline does, and predicts their fates.
pub struct Assessor {
    pipeline: Pipeline,
    scratch: Scratch,
    kind: Kind,
    /// The key under which quarantined messages run, in place of their own.
    key: Option<Key>,
    is_streamed: bool,
}

/// A parked message and the findings about it.
#[derive(Clone, Debug)]
pub struct Assessed {
    /// The message.
    pub message: Parked,
    /// The state of the record of its key; `None` is absent, or no usable key.
    pub state: Option<StateKind>,
    /// The fate that it would have.
    pub prospect: Prospect,
    pub(super) read: Result<Incoming, Box<Rejected>>,
    /// The record of its key.
    pub(super) record: Option<Record>,
}

impl Assessor {
    /// An assessor of messages of this kind for `pipeline`, which [`Assessor::prepared`] returned.
    pub fn new(pipeline: Pipeline, effect: &EffectSettings, kind: Kind) -> Self {
        Self {
            scratch: Scratch::new(&pipeline, effect.class().start()),
            pipeline,
            kind,
            key: None,
            is_streamed: matches!(effect, EffectSettings::Streamed(_)),
        }
    }

    /// The same for quarantined messages that run under `key`, in place of the one that the pipeline finds in them.
    #[must_use]
    pub fn under(mut self, key: Option<Key>) -> Self {
        self.key = key;
        self
    }

    /// The pipeline as it runs parked messages: without the age gate, through which a person, or an earlier
    /// claim, has let the message.
    pub fn prepared(mut pipeline: Pipeline, effect: &EffectSettings) -> Pipeline {
        if let EffectSettings::Sql(binding) = effect {
            pipeline.bind = Some(Arc::new(binding.clone()));
        }
        pipeline.birth = None;
        pipeline.live_only = false;
        pipeline
    }

    pub(super) fn batch(&self) -> usize {
        self.pipeline.batch
    }

    pub(super) fn selection(&self) -> ListQuery {
        self.pipeline.selection()
    }

    /// Predicts the fate of each message at `now`, in order; leaves out messages of another kind. `look_up`
    /// returns the records of operations, one answer for each, as [`Store::get`](semel_core::Store::get)
    /// does, and receives the request that each of the messages makes.
    ///
    /// # Cost   one look-up for all of them
    ///
    /// # Errors
    ///
    /// Those of `look_up`.
    pub async fn assess<F>(
        &mut self,
        look_up: impl FnOnce(Vec<Operation>, Vec<Option<ClaimRequest>>) -> F,
        messages: Vec<Parked>,
        now: Timestamp,
    ) -> Result<Vec<Assessed>>
    where
        F: Future<Output = Result<Vec<Option<Record>>>>,
    {
        let mut operations = Vec::with_capacity(messages.len());
        let mut requests = Vec::with_capacity(messages.len());
        let mut known = Vec::with_capacity(messages.len());
        for message in messages {
            let read = self.read(&message);
            let operation = match self.kind {
                Kind::DeadLetters | Kind::InDoubt => own_operation(&message),
                Kind::Quarantined => read.as_ref().ok().map(|it| it.request.operation.clone()),
            };
            let has_operation = operation.is_some();
            if let Some(operation) = operation {
                operations.push(operation);
                requests.push(read.as_ref().ok().map(|it| it.request.clone()));
            }
            known.push((message, read, has_operation));
        }
        let records = if operations.is_empty() {
            Vec::new()
        } else {
            look_up(operations, requests).await?
        };
        let mut records = records.into_iter();
        let mut assessed = Vec::with_capacity(known.len());
        for (message, read, has_operation) in known {
            let record = has_operation.then(|| records.next()).flatten().flatten();
            assessed.push(self.assessed(message, read, record, now));
        }
        assessed.retain(|it| self.kind.has(&it.message, it.state));
        Ok(assessed)
    }

    fn assessed(
        &self,
        message: Parked,
        read: Result<Incoming, Box<Rejected>>,
        record: Option<Record>,
        now: Timestamp,
    ) -> Assessed {
        let state = record.as_ref().map(|record| record.state.kind());
        let known = record.clone();
        let prospect = match self.kind {
            Kind::Quarantined if self.is_streamed => refused(STREAMED),
            Kind::DeadLetters | Kind::InDoubt => {
                match self.given_up(&message, &read, record, now) {
                    Prospect::Runs { .. } if self.is_streamed => Prospect::Published,
                    prospect => prospect,
                }
            }
            Kind::Quarantined => quarantined(&message, &read, record.as_ref(), now),
        };
        Assessed {
            message,
            state,
            prospect,
            read,
            record: known,
        }
    }

    /// The fate of a dead letter, or of the message of a doubt.
    fn given_up(
        &self,
        message: &Parked,
        read: &Result<Incoming, Box<Rejected>>,
        record: Option<Record>,
        now: Timestamp,
    ) -> Prospect {
        let Some(doubt) = record
            .as_ref()
            .filter(|it| it.state.kind() == StateKind::InDoubt)
        else {
            return dead_letter(message, read, record, now);
        };
        if self.kind == Kind::DeadLetters {
            return refused("its operation is in doubt: resolve it first");
        }
        match ordered(doubt, &Order::Retry, now) {
            Some(retried) => dead_letter(message, read, Some(retried), now),
            None => refused(unretried(doubt)),
        }
    }

    fn read(&mut self, message: &Parked) -> Result<Incoming, Box<Rejected>> {
        // No store is asked with this claim id.
        let claim_id = ClaimId::from_u128(0);
        let delivery = delivery(DeliveryId(0), message, (self.kind, self.key.as_ref()));
        self.pipeline.read(delivery, claim_id, &mut self.scratch)
    }
}

impl fmt::Debug for Assessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assessor")
            .field("pipeline", &self.pipeline.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// A parked message of a kind as its source would hand it over, without its age, and with the key that a person gives
/// it now, or gave it before it was set aside.
pub(super) fn delivery(
    id: DeliveryId,
    message: &Parked,
    (kind, given): (Kind, Option<&Key>),
) -> Delivery {
    let (payload, coordinates) = (message.payload.clone(), message.coordinates.clone());
    let mut delivery = Delivery::new(id, payload, coordinates);
    delivery.headers.clone_from(&message.headers);
    match (kind, given) {
        (Kind::Quarantined, Some(key)) => {
            distinct::give(&mut delivery.headers, key);
            delivery.given_key = Some(key.clone());
        }
        (Kind::Quarantined, None) => {}
        (Kind::DeadLetters | Kind::InDoubt, _) => {
            delivery.given_key = distinct::given_key(message);
        }
    }
    delivery
}

/// The reason for a streamed pipeline: only the worker that has the partition may commit for it.
const STREAMED: &str = "its pipeline is streamed, and only the worker that has its partition can run it: publish it to \
                        the source again (show KEY --payload prints it), then drop it";

/// The reason for a message that would run as that of another tenant than it was set aside for.
const OTHER_TENANT: &str = "as configured now, the pipeline finds another tenant in it";

/// The operation that a message was parked for.
fn own_operation(message: &Parked) -> Option<Operation> {
    let key = message.key.clone()?;
    Some(Operation::new(message.scope.clone(), key))
}

fn dead_letter(
    message: &Parked,
    read: &Result<Incoming, Box<Rejected>>,
    record: Option<Record>,
    now: Timestamp,
) -> Prospect {
    let incoming = match read {
        Ok(incoming) => incoming,
        Err(rejected) => {
            let code = rejected.unusable.code();
            let why = format!("as configured now, the pipeline cannot use it: {code}");
            return Prospect::Refused(why.into());
        }
    };
    if Some(&incoming.request.operation.key) != message.key.as_ref() {
        return refused("as configured now, the pipeline finds another key in it");
    }
    if incoming.request.operation.scope != message.scope {
        return refused(OTHER_TENANT);
    }
    let was_in_doubt = &*message.reason == "in-doubt";
    let record = match record {
        None if was_in_doubt => {
            return refused(
                "it was in doubt, and how that ended is forgotten: it may have happened",
            );
        }
        Some(record) if record.state.kind() == StateKind::Dead => {
            ordered(&record, &Order::Requeue, now).or(Some(record))
        }
        record => record,
    };
    foretell(incoming, record.as_ref(), true, now)
}

fn quarantined(
    message: &Parked,
    read: &Result<Incoming, Box<Rejected>>,
    record: Option<&Record>,
    now: Timestamp,
) -> Prospect {
    if &*message.reason == TOO_LARGE {
        return refused("only its beginning was kept: raise max_message and deliver it again");
    }
    match read {
        // A message without a key is kept in the scope of its pipeline, whatever tenant is found in it by now.
        Ok(incoming)
            if message.key.is_some() && incoming.request.operation.scope != message.scope =>
        {
            refused(OTHER_TENANT)
        }
        Ok(incoming) => foretell(incoming, record, false, now),
        Err(rejected) => Prospect::Stays(rejected.unusable.code().into()),
    }
}

/// The record after an order that lets it be attempted again, if the order is carried out.
fn ordered(record: &Record, order: &Order, now: Timestamp) -> Option<Record> {
    match decide::operate(Some(record), None, order, now).change {
        Change::Put(ordered) => Some(ordered),
        Change::Keep | Change::Remove => None,
    }
}

/// The reason why an operation in doubt is not to be attempted again.
pub const fn unretried(record: &Record) -> &'static str {
    match record.doubt {
        Some(Recovery::RerunWithin(_)) => {
            "its provider has forgotten the key by now, so that another call might be a second effect: find out what \
             became of it, and resolve it"
        }
        Some(Recovery::Park | Recovery::Rerun) | None => {
            "its pipeline parks what may have happened, since nothing recognises a second call: find out what became \
             of it, and resolve it"
        }
    }
}

fn foretell(
    incoming: &Incoming,
    record: Option<&Record>,
    is_dead_letter: bool,
    now: Timestamp,
) -> Prospect {
    let token = FencingToken::new(0);
    let forgotten = is_dead_letter && record.is_none();
    match decide::claim(record, None, &incoming.request, now, token).answer {
        Admission::Granted(claim) => Prospect::Runs {
            possible_repeat: claim.possible_repeat,
            forgotten,
        },
        Admission::Replay { .. } => Prospect::Done,
        Admission::Busy { until, .. } => Prospect::Waits { until },
        Admission::Conflict { .. } if is_dead_letter => {
            refused("its key belongs to another request by now")
        }
        Admission::Conflict { .. } => Prospect::Stays("fingerprint-conflict".into()),
        Admission::Parked { state, .. } => Prospect::GivenUp(state),
        Admission::TooOld => Prospect::Stays("too-old".into()),
        // Without the entity's record no version is stale, and a decision never fails.
        Admission::Stale { .. } => refused("its entity has a later version"),
        Admission::Failed(error) => refused(&error.to_string()),
    }
}

fn refused(why: &str) -> Prospect {
    Prospect::Refused(why.into())
}

/// The code of [`Unusable::MessageTooLarge`](semel_core::Unusable::MessageTooLarge).
pub(super) const TOO_LARGE: &str = "message-too-large";
