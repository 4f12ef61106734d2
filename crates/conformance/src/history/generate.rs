//! Random calls of a task: few keys, few claimants, every step and every order.

use std::time::Duration;

use semel_core::decide::{Directive, Order, Verdict};
use semel_core::{
    AttemptLimits, Certainty, ClaimId, ClaimRequest, Fingerprint, Members, Note, Operation,
    Outcome, Recovery, Renewal, Settlement, Start, Step, Timestamp, Window,
};

use super::call::Call;
use super::random::Random;
use crate::lab::{gate, scope, text_key};
use crate::steps::{limits_of, outcome};

/// The alphabet of a history, from which its calls are drawn.
pub(super) struct Alphabet {
    /// Leases, backoffs, quiet times and provider windows.
    spans: &'static [Duration],
    /// The windows of finished records.
    windows: &'static [Window],
}

impl Alphabet {
    /// For a clock that stands still: a span is over at once, or never in this history.
    pub(super) const STILL: Self = Self {
        spans: &[Duration::ZERO, Duration::from_secs(3_600)],
        windows: &[Window::new(Duration::from_secs(3_600))],
    };

    /// For a clock that moves: spans end at, before and after the steps that time takes.
    pub(super) const MOVING: Self = Self {
        spans: &[
            Duration::ZERO,
            Duration::from_millis(100),
            Duration::from_millis(300),
            Duration::from_secs(1),
            Duration::from_secs(3_600),
        ],
        windows: &[
            Window::new(Duration::from_millis(800)),
            Window::new(Duration::from_millis(2_400)),
            Window::new(Duration::from_secs(3_600)),
        ],
    };

    /// A batch of like calls, mostly of one.
    pub(super) fn batch(&self, random: &mut Random) -> Vec<Call> {
        let count = if random.once_in(4) { 7 } else { 1 };
        let mut batch: Vec<Call> = Vec::with_capacity(count);
        for _ in 0..count {
            let call = self.call(random);
            if batch.first().is_none_or(|first| first.is_like(&call)) {
                batch.push(call);
            }
        }
        batch
    }

    fn call(&self, random: &mut Random) -> Call {
        let key = random.pick(&KEYS);
        let operation = Operation::new(scope(), text_key(key));
        let claim_id = ClaimId::from_u128(u128::from(random.below(CLAIMANTS)) + 1);
        match random.below(22) {
            0..=7 => Call::Claim(self.claim(random, key, operation, claim_id)),
            8..=14 => {
                let step = self.step(random, key);
                Call::Settle(Settlement {
                    operation,
                    claim_id,
                    step,
                })
            }
            15 => Call::Renew(Renewal {
                operation,
                claim_id,
                lease: random.pick(self.spans),
            }),
            16..=18 => {
                let order = self.order(random);
                let note = random.once_in(2).then(|| Note {
                    by: "on call".into(),
                    reason: random.below(u64::from(u32::MAX)).to_string().into(),
                });
                Call::Operate(Directive {
                    operation,
                    order,
                    note,
                })
            }
            19 | 20 => Call::Get(operation),
            _ => Call::Sweep,
        }
    }

    fn claim(
        &self,
        random: &mut Random,
        key: &str,
        operation: Operation,
        claim_id: ClaimId,
    ) -> ClaimRequest {
        let version = GATED.iter().position(|gated| *gated == key);
        let start = match random.below(3) {
            0 => Start::Unmarked,
            _ => Start::Marked(self.recovery(random, key)),
        };
        let fingerprint = (!random.once_in(4)).then(|| Fingerprint {
            scheme: 1,
            digest: [u8::from(random.once_in(12)); 16],
        });
        ClaimRequest {
            operation,
            claim_id,
            fingerprint,
            members: fingerprint.and_then(|it| Members::from_bytes(&[1, 0, 0, it.digest[0], 0])),
            transport: random
                .pick(&[None, Some("event-1"), Some("event-2")])
                .map(Into::into),
            birth: random.once_in(10).then_some(Timestamp::EPOCH),
            window: random.pick(self.windows),
            lease: random.pick(self.spans),
            limits: limits(random),
            start,
            gate: version.map(|version| gate("entity", version as u64 + 1)),
            wants_outcome: !random.once_in(4),
        }
    }

    fn step(&self, random: &mut Random, key: &str) -> Step {
        let window = random.pick(self.windows);
        match random.below(10) {
            kind @ 0..=2 => Step::Start {
                recovery: self.recovery(random, key),
                has_begun: kind == 0,
            },
            3..=5 => Step::Complete {
                outcome: some_outcome(random),
                window,
            },
            6..=8 => Step::Release {
                error: "an error".into(),
                certainty: random.pick(&[Certainty::NotApplied, Certainty::MaybeApplied]),
                after: random.pick(self.spans),
                counted: !random.once_in(4),
                limits: limits(random),
                window,
            },
            _ => Step::Fail {
                error: "a failure".into(),
                decisive: random.once_in(2),
                window,
            },
        }
    }

    fn order(&self, random: &mut Random) -> Order {
        let window = random.pick(self.windows);
        match random.below(11) {
            0 => Order::Resolve(Verdict::Applied {
                outcome: some_outcome(random),
                window,
            }),
            1 => Order::Resolve(Verdict::NotApplied {
                quiet: random.pick(self.spans),
                asked: None,
            }),
            2 => Order::Resolve(Verdict::Abandon { window }),
            3..=5 => Order::Requeue,
            6 => Order::Hold(random.once_in(2)),
            7 | 8 => Order::Release,
            9 => Order::Retry,
            _ => Order::Forget,
        }
    }

    fn recovery(&self, random: &mut Random, key: &str) -> Recovery {
        match random.below(3) {
            // A sweep of several keys is no single step in the history of the entity they share, so
            // a sweep must find nothing of theirs.
            _ if is_gated(key) => Recovery::Rerun,
            0 => Recovery::Rerun,
            1 => Recovery::RerunWithin(random.pick(self.spans)),
            _ => Recovery::Park,
        }
    }
}

/// Returns whether `key` shares its entity with others, so that their histories are one.
pub(super) fn is_gated(key: &str) -> bool {
    GATED.contains(&key)
}

fn limits(random: &mut Random) -> AttemptLimits {
    random.pick(&[limits_of(2, 2), limits_of(4, 3), limits_of(20, 20)])
}

fn some_outcome(random: &mut Random) -> Outcome {
    outcome(format!("outcome {}", random.below(1_000)))
}

const KEYS: [&str; 5] = ["a", "b", "json:1", "cart-1", "cart-2"];
const GATED: [&str; 2] = ["cart-1", "cart-2"];
const CLAIMANTS: u64 = 4;
