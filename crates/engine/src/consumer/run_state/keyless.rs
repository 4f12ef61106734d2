//! A pipeline whose first messages have no usable key: then the selector is wrong, not that many messages.
//!
//! The messages are held until one has a key, and the run ends if none of the first hundred has: nothing is
//! quarantined, nothing acknowledged. They are not held for long: if fewer come, because the broker hands over no
//! more before some are acknowledged, they are quarantined like any others.

use std::collections::BTreeSet;
use std::time::Duration;

use semel_core::port::source::DeliveryId;
use semel_core::{Code, Error, ErrorKind, Store};

use super::RunState;
use crate::pipeline::{Pipeline, Rejected};

/// The first messages without a usable key; see the module.
pub(super) struct Keyless {
    held: Vec<Rejected>,
    /// The time at which the first of them came.
    since: Option<Duration>,
    /// A message had a usable key, or the pipeline does not mind.
    is_over: bool,
}

impl Keyless {
    pub(super) const fn new(is_over: bool) -> Self {
        Self {
            held: Vec::new(),
            since: None,
            is_over,
        }
    }

    /// Lets go of the held messages among `deliveries`, and returns their deliveries.
    pub(super) fn withdraw(&mut self, deliveries: &BTreeSet<DeliveryId>) -> Vec<DeliveryId> {
        let gone = |rejected: &mut Rejected| deliveries.contains(&rejected.delivery);
        let gone = self.held.extract_if(.., gone);
        gone.map(|rejected| rejected.delivery).collect()
    }

    /// Returns the time at which the messages have been held for long enough, if any are held.
    pub(super) fn ends_at(&self) -> Option<Duration> {
        let is_held = !self.held.is_empty() && self.held.len() < MOST_HELD;
        self.since
            .filter(|_| is_held)
            .map(|since| since + LONGEST_HOLD)
    }

    /// Lets go of all messages, and counts them.
    pub(super) fn abandon(&mut self) -> usize {
        std::mem::take(&mut self.held).len()
    }
}

impl<S: Store + Clone> RunState<S> {
    /// Deals with messages without a usable key, some of which come before the first one that has one.
    pub(super) fn rejected(&mut self, rejected: Vec<Rejected>, first_usable: Option<DeliveryId>) {
        for rejected in rejected {
            if self.keyless.held.len() >= MOST_HELD {
                // The run ends, and these are given back with the others.
                self.keyless.held.push(rejected);
                continue;
            }
            if rejected.unusable.is_beside_the_key() || self.keyless.is_over {
                self.outcomes.quarantine(rejected);
                continue;
            }
            if first_usable.is_some_and(|usable| usable < rejected.delivery) {
                self.quarantine_held();
                self.outcomes.quarantine(rejected);
                continue;
            }
            let now = self.now();
            self.keyless.since.get_or_insert(now);
            self.keyless.held.push(rejected);
            if self.keyless.held.len() == MOST_HELD {
                let first = self.keyless.held.first();
                let error = first.map(|first| no_usable_key(&self.context.pipeline, first));
                if let Some(error) = error {
                    self.outstanding.fail(error);
                }
            }
        }
        if first_usable.is_some() && self.keyless.held.len() < MOST_HELD {
            self.quarantine_held();
        }
    }

    /// Quarantines the held messages if they were held for long enough.
    pub(super) fn end_hold(&mut self) {
        if let Some(end) = self.keyless.ends_at()
            && end <= self.now()
        {
            self.quarantine_held();
        }
    }

    /// Quarantines the held messages: the next ones without a key are no surprise any more.
    pub(super) fn quarantine_held(&mut self) {
        if self.keyless.held.len() >= MOST_HELD {
            return;
        }
        self.keyless.is_over = true;
        for rejected in std::mem::take(&mut self.keyless.held) {
            self.outcomes.quarantine(rejected);
        }
    }
}

fn no_usable_key(pipeline: &Pipeline, first: &Rejected) -> Error {
    let Rejected {
        unusable, parked, ..
    } = first;
    let (name, key, coordinates) = (&pipeline.name, &pipeline.key, &parked.coordinates);
    let mut shown = String::new();
    for letter in String::from_utf8_lossy(&parked.payload).chars() {
        if shown.len() + letter.len_utf8() > MOST_SHOWN_BYTES {
            shown.push('…');
            break;
        }
        shown.push(if letter.is_control() { ' ' } else { letter });
    }
    let message = format!(
        "{name}: none of the first {MOST_HELD} messages has a usable key: {unusable}; correct the selector, \
         key = \"{key}\"; {coordinates} is {shown}"
    );
    Error::new(ErrorKind::InvalidInput, message)
        .with_code(Code::NoUsableKey)
        .not_applied()
}

/// This many messages without a usable key, and none with one before, are a mistake in the selector.
const MOST_HELD: usize = 100;
const MOST_SHOWN_BYTES: usize = 200;
/// The time for which messages without a usable key are held for a first one that has one.
const LONGEST_HOLD: Duration = Duration::from_secs(30);
