//! The events that one configuration of the model allows, and their numbers.

use super::wrong::{Conduct, Keeping};

/// The way in which the effect takes part in the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Commits with its record.
    Transactional,
    /// The same, gated by version.
    Versioned,
    /// A call whose provider forgets a key after a while.
    Keyed,
    /// A call that may be repeated.
    Repeat,
    /// A call that must not be.
    Park,
    /// A call by a client of the claim API that declares no class: it may begin unmarked, and is parked once its client
    /// says that it may have begun.
    Call,
}

impl Class {
    /// Returns whether the effect and its completion are one step.
    pub(crate) const fn is_atomic(self) -> bool {
        match self {
            Self::Transactional | Self::Versioned => true,
            Self::Keyed | Self::Repeat | Self::Park | Self::Call => false,
        }
    }
}

/// The number of copies of a message that exist at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broker {
    /// One: a late acknowledgement of an earlier delivery takes it from the worker that has it now.
    Single,
    /// Several: an acknowledgement takes away its own copy.
    Multi,
}

/// An order of an operator or a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Applied,
    NotApplied,
    Abandon,
    Release,
    Requeue,
    Retry,
    Hold,
    Unhold,
    Forget,
}

/// The number of times that each event may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// Crashes of workers.
    pub(crate) crashes: u8,
    /// Answers lost, of the store or of the effect.
    pub(crate) lost: u8,
    /// Requests that arrive late or never.
    pub(crate) delayed: u8,
    /// Calls that surely were not applied.
    pub(crate) failures: u8,
    /// Calls that are refused for good.
    pub(crate) refusals: u8,
    /// Deliveries that the broker hands to another worker.
    pub(crate) redelivered: u8,
    /// Leases extended.
    pub(crate) renewals: u8,
    /// Claims given back at shutdown.
    pub(crate) given_back: u8,
    /// Orders.
    pub(crate) orders: u8,
    /// Writes that the store forgets.
    pub(crate) amnesia: u8,
}

/// One message: its operation, and whether it carries the other request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Post {
    pub(crate) operation: u8,
    pub(crate) other_request: bool,
}

/// One configuration. Times are in ticks of eight seconds.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent settings")]
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    /// True if a claim is marked by a step of its own instead of at once, or never.
    pub(crate) marks_apart: bool,
    /// True if claims are gated: operation 1 carries version 1 of an entity, operation 2 version 2.
    pub(crate) is_gated: bool,
    pub(crate) broker: Broker,
    pub(crate) workers: u8,
    /// The first is there from the beginning, the others may be published at any time.
    pub(crate) posts: &'static [Post],
    pub(crate) ticks: u8,
    pub(crate) lease: u8,
    pub(crate) window: u8,
    /// The provider's window as it was declared. It really is longer by `MARGIN`.
    pub(crate) provider: u8,
    pub(crate) backoff: u8,
    pub(crate) failed: u8,
    pub(crate) vanished: u8,
    pub(crate) age_gate: bool,
    /// True if calls arrive within `MARGIN` of the answer of the store that allowed them. That is assumed where a
    /// person may state that an effect did not happen, and of a provider's window.
    pub(crate) calls_are_prompt: bool,
    /// True if the effect of a gated configuration checks the version itself, as class D does: the completion of a
    /// claim that lost its entity counts (VER-2), so an effect that does not check may put an older version back.
    pub(crate) sink_is_gated: bool,
    /// True if a worker that learns of a doubt finds out what became of the effect, and reports it.
    pub(crate) probes: bool,
    pub(crate) budget: Budget,
    pub(crate) wishes: &'static [Wish],
    pub(crate) conduct: Conduct,
    pub(crate) keeping: Keeping,
}

/// For how long after the store's answer a prompt call may arrive.
pub(crate) const MARGIN: u8 = 1;
/// The time for which a doubt has to be quiet.
pub(crate) const QUIET: u8 = 2;

pub(crate) const MOST_WORKERS: usize = 3;
pub(crate) const MOST_POSTS: usize = 3;
pub(crate) const MOST_OPERATIONS: usize = 2;

impl Setup {
    /// One key, one message, two workers, and nothing goes wrong but time.
    pub(crate) const fn of(name: &'static str, class: Class) -> Self {
        Self {
            name,
            class,
            marks_apart: false,
            is_gated: matches!(class, Class::Versioned),
            broker: Broker::Multi,
            workers: 2,
            posts: &[Post {
                operation: 0,
                other_request: false,
            }],
            ticks: 4,
            lease: 1,
            window: 20,
            provider: 2,
            backoff: 0,
            failed: 2,
            vanished: 3,
            age_gate: true,
            sink_is_gated: true,
            calls_are_prompt: matches!(class, Class::Keyed),
            probes: false,
            budget: Budget {
                crashes: 1,
                lost: 1,
                delayed: 0,
                failures: 0,
                refusals: 0,
                redelivered: 1,
                renewals: 0,
                given_back: 0,
                orders: 0,
                amnesia: 0,
            },
            wishes: &[],
            conduct: Conduct::Right,
            keeping: Keeping::Right,
        }
    }

    /// The same, with more of everything.
    pub(crate) fn deeper(mut self, by: u8) -> Self {
        let budget = &mut self.budget;
        // Turn by turn, so that each step is affordable.
        for step in 0..by {
            match step % 4 {
                0 => budget.lost += 1,
                1 => budget.redelivered += 1,
                2 => budget.crashes += 1,
                _ => self.ticks += 1,
            }
        }
        self
    }
}
