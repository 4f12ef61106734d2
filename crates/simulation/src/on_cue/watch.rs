//! An observer that remembers.

use std::sync::Mutex;
use std::time::Duration;

use semel_core::{Code, Duplicate, Operation, StateKind};
use semel_engine::event::{Event, Observer, Pause};

/// The observed events, in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Granted {
        key: String,
        attempt: u32,
        takeover: bool,
    },
    Completed(String),
    Replayed(String, Duplicate),
    Busy(String),
    Conflicted(String),
    Stale(String),
    TooOld(String),
    LiveOnly(String),
    Unusable(&'static str),
    Released(String),
    Dead(String),
    InDoubt(String),
    Parked(String, StateKind),
    Fenced(String, Option<StateKind>),
    OutcomeDiffers(String),
    StoreFailed,
    BreakerOpened(Code),
    BreakerClosed(Duration),
    Unprotected {
        key: String,
        attempt: u32,
    },
    TargetAway,
    /// See [`Event::TargetBack`].
    TargetBack,
    Paused(Pause),
    Resumed(Pause, Duration),
    DeadLetterRefused(String),
    Renewed(usize),
    Swept {
        removed: u64,
        doubted: u64,
    },
}

/// The observer.
#[derive(Debug, Default)]
pub struct Watch(Mutex<Vec<Seen>>);

impl Watch {
    /// Everything so far.
    pub fn all(&self) -> Vec<Seen> {
        self.0.lock().expect("watching never panics").clone()
    }

    /// The number of events that `wanted` accepts.
    pub fn count(&self, wanted: impl Fn(&Seen) -> bool) -> usize {
        self.all().iter().filter(|seen| wanted(seen)).count()
    }

    /// The number of events equal to this one.
    pub fn times(&self, wanted: &Seen) -> usize {
        self.count(|seen| seen == wanted)
    }
}

impl Observer for Watch {
    fn observe(&self, _pipeline: &str, event: &Event<'_>) {
        let seen = match *event {
            Event::Granted { operation, grant } => Seen::Granted {
                key: key(operation),
                attempt: grant.attempt,
                takeover: grant.takeover,
            },
            Event::Completed { operation, .. } => Seen::Completed(key(operation)),
            Event::Replayed {
                operation,
                duplicate,
            } => Seen::Replayed(key(operation), duplicate),
            Event::Busy { operation, .. } => Seen::Busy(key(operation)),
            Event::Conflicted { operation, .. } => Seen::Conflicted(key(operation)),
            Event::Stale { operation, .. } => Seen::Stale(key(operation)),
            Event::TooOld { operation, .. } => Seen::TooOld(key(operation)),
            Event::LiveOnly { operation, .. } => Seen::LiveOnly(key(operation)),
            Event::Unusable { unusable, .. } => Seen::Unusable(unusable.code()),
            Event::Released { operation, .. } => Seen::Released(key(operation)),
            Event::Dead { operation, .. } => Seen::Dead(key(operation)),
            Event::InDoubt { operation, .. } => Seen::InDoubt(key(operation)),
            Event::Parked {
                operation, state, ..
            } => Seen::Parked(key(operation), state),
            Event::Fenced {
                operation, found, ..
            } => Seen::Fenced(key(operation), found),
            Event::StoreFailed { .. } => Seen::StoreFailed,
            Event::OutcomeDiffers { operation } => Seen::OutcomeDiffers(key(operation)),
            Event::BreakerOpened { error, .. } => Seen::BreakerOpened(error.code()),
            Event::BreakerClosed { lasted } => Seen::BreakerClosed(lasted),
            Event::Unprotected { operation, attempt } => Seen::Unprotected {
                key: key(operation),
                attempt,
            },
            Event::TargetAway { .. } => Seen::TargetAway,
            Event::TargetBack { .. } => Seen::TargetBack,
            Event::Paused { cause, .. } => Seen::Paused(cause),
            Event::Resumed { cause, lasted } => Seen::Resumed(cause, lasted),
            Event::DeadLetterRefused { coordinates, .. } => {
                Seen::DeadLetterRefused(coordinates.to_owned())
            }
            Event::Renewed { count, lost } => Seen::Renewed(count + lost),
            Event::Swept { removed, doubted } => Seen::Swept { removed, doubted },
            // Follows each of the others; the fates are counted by the summary. The rest are figures, not decisions.
            Event::Settled { .. }
            | Event::EffectEnded { .. }
            | Event::Waits { .. }
            | Event::InHand { .. } => return,
            _ => unreachable!("every event has its name here"),
        };
        self.0.lock().expect("watching never panics").push(seen);
    }
}

fn key(operation: &Operation) -> String {
    operation.key.to_string()
}
