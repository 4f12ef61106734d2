//! The far side of effects. The ledger only grows: no arrival is ever forgotten or merged.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_engine::effect::Call;

use super::message::member;
use super::time::PausedClock;

/// The duplicates that the far side of an effect recognises.
#[derive(Clone, Copy, Debug)]
pub enum Recognises {
    /// None: everything that arrives is applied.
    Nothing,
    /// Idempotency keys, for this long after their first arrival.
    Keys(Duration),
    /// Versions: only a later one is applied.
    Versions,
}

/// One arrival of an effect.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub key: String,
    pub attempt: u32,
    pub token: u64,
    pub idempotency_key: String,
    /// True if it changed anything.
    pub applied: bool,
    /// The entity that the message describes, and its version.
    entity: Option<String>,
    version: u64,
    at: Duration,
}

/// A call of an effect from its beginning to its end, dropped calls included.
#[derive(Clone, Debug)]
pub struct Span {
    pub key: String,
    pub payload: Vec<u8>,
    pub began: Duration,
    pub ended: Option<Duration>,
}

/// The far side.
#[derive(Debug)]
pub struct EffectSink {
    recognises: Recognises,
    clock: PausedClock,
    arrivals: Mutex<Vec<Arrival>>,
    spans: Mutex<Vec<Span>>,
}

impl EffectSink {
    pub fn new(recognises: Recognises, clock: PausedClock) -> Self {
        Self {
            recognises,
            clock,
            arrivals: Mutex::default(),
            spans: Mutex::default(),
        }
    }

    /// Records that the effect of `call` arrives.
    pub fn arrive(&self, call: &Call) {
        let claim = &call.claim;
        let arrival = Arrival {
            key: claim.operation.key.to_string(),
            attempt: claim.attempt,
            token: claim.token.get(),
            idempotency_key: call.idempotency_key(),
            applied: true,
            entity: member(&call.payload, "entity"),
            version: member(&call.payload, "version").map_or(0, |it| it.parse().unwrap_or(0)),
            at: self.clock.elapsed(),
        };
        self.take(arrival);
    }

    /// Records that a statement of a transaction is committed.
    pub fn commit(&self, key: &str) {
        self.take(Arrival {
            key: key.to_owned(),
            attempt: 0,
            token: 0,
            idempotency_key: String::new(),
            applied: true,
            entity: None,
            version: 0,
            at: self.clock.elapsed(),
        });
    }

    /// The number of times that the effect of `key` was applied.
    pub fn applied(&self, key: &str) -> usize {
        self.arrivals(key)
            .iter()
            .filter(|arrival| arrival.applied)
            .count()
    }

    /// Every arrival for `key`, applied or not.
    pub fn arrivals(&self, key: &str) -> Vec<Arrival> {
        let mut arrivals = self.all();
        arrivals.retain(|arrival| arrival.key == key);
        arrivals
    }

    /// Returns whether `entity` has this version or a later one.
    pub fn has(&self, entity: &str, version: u64) -> bool {
        let is_it = |arrival: &Arrival| {
            arrival.entity.as_deref() == Some(entity) && arrival.version >= version
        };
        self.all()
            .iter()
            .any(|arrival| arrival.applied && is_it(arrival))
    }

    /// Every arrival, in order.
    pub fn all(&self) -> Vec<Arrival> {
        self.arrivals
            .lock()
            .expect("the ledger never panics")
            .clone()
    }

    /// Every call, in the order in which they began.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().expect("the ledger never panics").clone()
    }

    /// Notes that a call begins; its end is noted when the answer is dropped.
    pub fn begin(self: &Arc<Self>, call: &Call) -> Open {
        let mut spans = self.spans.lock().expect("the ledger never panics");
        spans.push(Span {
            key: call.claim.operation.key.to_string(),
            payload: call.payload.to_vec(),
            began: self.clock.elapsed(),
            ended: None,
        });
        Open {
            sink: Arc::clone(self),
            index: spans.len() - 1,
        }
    }

    fn take(&self, arrival: Arrival) {
        let mut arrivals = self.arrivals.lock().expect("the ledger never panics");
        let mut former = arrivals.iter().filter(|former| former.applied);
        let applied = match self.recognises {
            Recognises::Nothing => true,
            Recognises::Keys(window) => !former.any(|former| {
                former.idempotency_key == arrival.idempotency_key && arrival.at < former.at + window
            }),
            Recognises::Versions => !former
                .any(|former| former.entity == arrival.entity && former.version >= arrival.version),
        };
        arrivals.push(Arrival { applied, ..arrival });
    }
}

/// A call under way.
pub struct Open {
    sink: Arc<EffectSink>,
    index: usize,
}

impl Drop for Open {
    fn drop(&mut self) {
        let ended = self.sink.clock.elapsed();
        if let Ok(mut spans) = self.sink.spans.lock() {
            spans[self.index].ended = Some(ended);
        }
    }
}
