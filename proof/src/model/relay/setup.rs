//! The events that one configuration of relays allows, and their numbers.

/// The behaviour of a relay. All but the first are wrong, to show that the model notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "what is wrong is for the tests")
)]
pub(crate) enum Conduct {
    /// As it should.
    Right,
    /// Publishes without a look at its lease.
    OverlooksLease,
    /// Records a message as sent, and publishes it then.
    RecordsFirst,
    /// Records nothing as sent.
    RecordsNothing,
    /// Goes on with the next message where one has failed.
    GoesOn,
    /// Reads messages with ids behind the last one that was sent. M27
    ReadsBehindLast,
    /// Reads messages whose transactions are open.
    ReadsOpen,
}

/// The number of times that each event may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) kills: u8,
    pub(crate) expiries: u8,
    pub(crate) failures: u8,
    pub(crate) unanswered: u8,
}

/// One configuration: messages of one order key, each in a transaction of its own, and two relays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    /// The number of messages; their ids are in the order in which their transactions began.
    pub(crate) messages: u8,
    pub(crate) conduct: Conduct,
    pub(crate) budget: Budget,
}

impl Setup {
    /// The same, with so many more of everything.
    pub(crate) fn deeper(self, by: u8) -> Self {
        let Budget {
            kills,
            expiries,
            failures,
            unanswered,
        } = self.budget;
        Self {
            messages: self.messages.saturating_add(by / 2).min(MOST_MESSAGES),
            budget: Budget {
                kills: kills.saturating_add(by),
                expiries: expiries.saturating_add(by),
                failures: failures.saturating_add(by),
                unanswered: unanswered.saturating_add(by / 2),
            },
            ..self
        }
    }
}

/// The configurations that every merge checks.
pub(crate) fn all() -> Vec<Setup> {
    let with = |name, messages, budget| Setup {
        name,
        messages,
        conduct: Conduct::Right,
        budget,
    };
    let lives = Budget {
        kills: 2,
        expiries: 1,
        failures: 1,
        unanswered: 1,
    };
    let leases = Budget {
        kills: 0,
        expiries: 3,
        failures: 0,
        unanswered: 1,
    };
    vec![
        with("relay, lives", 3, lives),
        with("relay, leases", 3, leases),
    ]
}

/// A message is a bit of a byte.
const MOST_MESSAGES: u8 = 8;
