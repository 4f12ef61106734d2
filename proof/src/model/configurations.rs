//! The configurations that every merge searches.

use super::setup::{Broker, Budget, Class, Post, Setup, Wish};

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

pub(crate) const TWICE: &[Post] = &[FIRST, FIRST];
pub(crate) const TWO: &[Post] = &[FIRST, SECOND];

/// The configurations that every merge checks.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn all() -> Vec<Setup> {
    use Class::{Call, Keyed, Park, Repeat, Transactional};
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
            // All of it inside the provider's window, which is the part that survives a store that
            // forgets.
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
        retried("keyed, retried", Keyed),
        single("repeat, one copy", Repeat),
        retried("repeat, retried", Repeat),
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
            calls_are_prompt: true,
            probes: true,
            ticks: 4,
            budget: Budget {
                lost: 1,
                delayed: 1,
                redelivered: 1,
                ..Budget::default()
            },
            ..Setup::of("park, probed", Park)
        },
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
        Setup {
            ticks: 3,
            budget: Budget {
                crashes: 1,
                lost: 1,
                delayed: 1,
                redelivered: 1,
                ..Budget::default()
            },
            ..called("call, begun unmarked", Call)
        },
        Setup {
            failed: 1,
            budget: Budget {
                lost: 1,
                failures: 1,
                refusals: 1,
                redelivered: 1,
                renewals: 1,
                ..Budget::default()
            },
            ..called("call, every end", Call)
        },
        entities(called("call, entity taken", Call)),
        Setup {
            marks_apart: true,
            ..entities(called("call, started, entity taken", Call))
        },
    ]
}

/// A client of the claim API without a class; another one has the same key.
fn called(name: &'static str, class: Class) -> Setup {
    Setup {
        // More than there is time for: what vanishes unsaid is not known to have begun.
        vanished: 9,
        ..Setup::of(name, class)
    }
}

/// The same with two keys, whose versions are of one entity.
fn entities(setup: Setup) -> Setup {
    Setup {
        posts: TWO,
        is_gated: true,
        ticks: 2,
        budget: Budget {
            lost: 1,
            redelivered: 1,
            ..Budget::default()
        },
        ..setup
    }
}

/// Caps that one attempt reaches, and an operator who handles the result.
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

/// A doubt after one attempt, and an operator who orders another attempt, in time or not.
fn retried(name: &'static str, class: Class) -> Setup {
    Setup {
        failed: 1,
        vanished: 1,
        ticks: 4,
        budget: Budget {
            crashes: 1,
            lost: 1,
            redelivered: 1,
            orders: 2,
            ..Budget::default()
        },
        wishes: &[Wish::Retry],
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
