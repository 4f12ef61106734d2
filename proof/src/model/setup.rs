//! What one configuration of the model lets happen, and how often.

/// How the effect takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Commits with its record.
    Transactional,
    /// The same, gated by version: operation 1 carries version 1 of an entity, operation 2 version 2.
    Versioned,
    /// A call whose provider forgets a key after a while.
    Keyed,
    /// A call that may be repeated.
    Repeat,
    /// A call that must not be.
    Park,
}

impl Class {
    /// Whether the effect and its completion are one step.
    pub(crate) const fn is_atomic(self) -> bool {
        match self {
            Self::Transactional | Self::Versioned => true,
            Self::Keyed | Self::Repeat | Self::Park => false,
        }
    }
}

/// How many of a message there are at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broker {
    /// One: a late acknowledgement of an earlier delivery takes it from whoever has it now.
    Single,
    /// Several: an acknowledgement takes away its own copy.
    Multi,
}

/// What a worker does. All but the first are wrong, to see that the model minds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// As it should.
    Right,
    /// Acknowledges as soon as the claim is granted. M04
    AcksFirst,
    /// Acknowledges a message whose operation somebody else works on. M07
    DropsBusy,
    /// Acknowledges although its completion was fenced. M06
    AcksFenced,
    /// Calls before it claims.
    CallsFirst,
    /// Completes before it calls. M01
    CompletesFirst,
    /// Derives the provider's key from the attempt. M08
    KeysByAttempt,
    /// Claims without a mark what must be marked. M10
    MarksNothing,
    /// Takes an answer that was lost for a success.
    TrustsSilence,
}

/// What a store does. All but the first are wrong, to see that the model minds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "what is wrong is for the tests")
)]
pub(crate) enum Keeping {
    /// What `decide` says.
    Right,
    /// Grants what was free when it looked, and looks early. M02
    ChecksThenActs,
    /// Takes the completion of any claim. M03
    CompletesAny,
    /// Takes the start of any claim. M11
    StartsAny,
    /// Takes the release of any claim. M12
    ReleasesAny,
    /// Takes the renewal of any claim. M13
    RenewsAny,
    /// Begins to count tokens anew when a record is removed. M14
    RestartsTokens,
    /// Removes whatever is finished, window or not. M05
    ForgetsEarly,
    /// Removes what is in doubt. M32
    SweepsDoubts,
    /// Believes at once that a doubtful effect did not happen. M33
    TrustsHaste,
    /// Gives a taken-over operation the first start of its latest attempt. M09
    MovesFirstStart,
    /// Forgets whatever it is told to.
    ForgetsAny,
    /// Reruns what is to be parked.
    RerunsParked,
    /// Resumes and starts its own claims past the provider's window.
    BeginsLate,
}

/// An order of an operator or a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Applied,
    NotApplied,
    Abandon,
    Release,
    Requeue,
    Hold,
    Unhold,
    Forget,
}

/// How often each may happen.
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
    /// Deliveries that the broker hands to somebody else.
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

/// One message: which operation, and whether it carries the other request.
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
    /// Whether a claim is marked by a step of its own instead of at once.
    pub(crate) marks_apart: bool,
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
    /// Whether calls arrive within `MARGIN` of the answer of the store that allowed them, which is assumed
    /// where a person may say that an effect did not happen, and of a provider's window.
    pub(crate) calls_are_prompt: bool,
    /// Whether the effect of a gated configuration looks at the version itself, as class D does: the completion of
    /// a claim that lost its entity counts (VER-2), so an effect that does not look may put an older version back.
    pub(crate) sink_is_gated: bool,
    pub(crate) budget: Budget,
    pub(crate) wishes: &'static [Wish],
    pub(crate) conduct: Conduct,
    pub(crate) keeping: Keeping,
}

/// For how long after the store's answer a prompt call may arrive.
pub(crate) const MARGIN: u8 = 1;
/// How quiet a doubt has to be.
pub(crate) const QUIET: u8 = 2;

pub(crate) const MOST_WORKERS: usize = 3;
pub(crate) const MOST_POSTS: usize = 3;
pub(crate) const MOST_OPERATIONS: usize = 2;

const FIRST: Post = Post {
    operation: 0,
    other_request: false,
};
const SECOND: Post = Post {
    operation: 1,
    other_request: false,
};
const REUSED: Post = Post {
    operation: 0,
    other_request: true,
};

impl Setup {
    /// One key, one message, two workers, and nothing goes wrong but time.
    pub(crate) const fn of(name: &'static str, class: Class) -> Self {
        Self {
            name,
            class,
            marks_apart: false,
            broker: Broker::Multi,
            workers: 2,
            posts: &[FIRST],
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

pub(crate) const TWICE: &[Post] = &[FIRST, FIRST];
pub(crate) const TWO: &[Post] = &[FIRST, SECOND];

/// What every merge checks.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn all() -> Vec<Setup> {
    use Class::{Keyed, Park, Repeat, Transactional};
    let single = |name, class| Setup {
        broker: Broker::Single,
        ticks: 3,
        budget: Budget {
            lost: 1,
            delayed: 1,
            redelivered: 1,
            ..Budget::default()
        },
        ..Setup::of(name, class)
    };
    let copies = |name, class| Setup {
        posts: TWICE,
        ticks: 3,
        budget: Budget {
            lost: 1,
            failures: 1,
            renewals: 1,
            ..Budget::default()
        },
        ..Setup::of(name, class)
    };
    let ends = |name, class| Setup {
        backoff: 1,
        ticks: 4,
        budget: Budget {
            crashes: 1,
            failures: 2,
            refusals: 1,
            redelivered: 1,
            given_back: 1,
            ..Budget::default()
        },
        ..Setup::of(name, class)
    };
    let window = |name, class| Setup {
        window: 2,
        ticks: 5,
        budget: Budget {
            delayed: 1,
            redelivered: 2,
            ..Budget::default()
        },
        ..Setup::of(name, class)
    };
    let three = |name, class| Setup {
        workers: 3,
        ticks: 3,
        budget: Budget {
            crashes: 1,
            lost: 1,
            redelivered: 2,
            ..Budget::default()
        },
        ..Setup::of(name, class)
    };
    vec![
        single("transaction, one copy", Transactional),
        copies("transaction, copies", Transactional),
        window("transaction, window over", Transactional),
        three("transaction, three workers", Transactional),
        capped("transaction, capped", Transactional),
        single("keyed, one copy", Keyed),
        copies("keyed, copies", Keyed),
        Setup {
            ticks: 4,
            ..window("keyed, window over", Keyed)
        },
        ends("keyed, every end", Keyed),
        Setup {
            marks_apart: true,
            budget: Budget {
                crashes: 1,
                lost: 1,
                delayed: 1,
                ..Budget::default()
            },
            ..single("keyed, marked apart", Keyed)
        },
        Setup {
            // All of it inside the provider's window, which is what survives a store that forgets.
            provider: 3,
            ticks: 3,
            budget: Budget {
                amnesia: 1,
                crashes: 1,
                lost: 1,
                delayed: 1,
                ..Budget::default()
            },
            ..Setup::of("keyed, store forgets", Keyed)
        },
        Setup {
            posts: &[FIRST, REUSED],
            budget: Budget {
                lost: 1,
                redelivered: 1,
                ..Budget::default()
            },
            ..single("keyed, key reused", Keyed)
        },
        single("repeat, one copy", Repeat),
        ends("repeat, every end", Repeat),
        single("park, one copy", Park),
        copies("park, copies", Park),
        window("park, window over", Park),
        three("park, three workers", Park),
        ends("park, every end", Park),
        Setup {
            marks_apart: true,
            ..single("park, marked apart", Park)
        },
        resolved("park, resolved", Park),
        Setup {
            ticks: 3,
            backoff: 1,
            budget: Budget {
                crashes: 1,
                lost: 1,
                redelivered: 1,
                given_back: 1,
                orders: 2,
                ..Budget::default()
            },
            wishes: &[Wish::Forget],
            ..Setup::of("transaction, forgotten by an operator", Transactional)
        },
        gated("gated, one copy", &[]),
        Setup {
            broker: Broker::Multi,
            ..gated("gated, copies", &[Wish::Release])
        },
    ]
}

/// Caps that one attempt reaches, and an operator who has to do with that.
fn capped(name: &'static str, class: Class) -> Setup {
    Setup {
        failed: 1,
        vanished: 1,
        window: 2,
        budget: Budget {
            crashes: 2,
            redelivered: 1,
            orders: 3,
            ..Budget::default()
        },
        wishes: &[Wish::Requeue, Wish::Release, Wish::Hold, Wish::Unhold],
        ..Setup::of(name, class)
    }
}

/// Doubts that a person or a probe resolves, rightly as far as can be seen.
fn resolved(name: &'static str, class: Class) -> Setup {
    Setup {
        calls_are_prompt: true,
        ticks: 5,
        budget: Budget {
            lost: 1,
            delayed: 1,
            orders: 1,
            ..Budget::default()
        },
        wishes: &[
            Wish::Applied,
            Wish::NotApplied,
            Wish::Abandon,
            Wish::Release,
        ],
        ..Setup::of(name, class)
    }
}

/// Two versions of one entity.
fn gated(name: &'static str, wishes: &'static [Wish]) -> Setup {
    Setup {
        posts: TWO,
        broker: Broker::Single,
        ticks: 2,
        budget: Budget {
            lost: 1,
            delayed: u8::from(wishes.is_empty()),
            redelivered: u8::from(wishes.is_empty()),
            renewals: u8::from(!wishes.is_empty()),
            orders: u8::from(!wishes.is_empty()),
            ..Budget::default()
        },
        wishes,
        ..Setup::of(name, Class::Versioned)
    }
}
