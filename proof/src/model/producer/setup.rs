//! The events that one configuration of producers allows, and their numbers.

/// The behaviour of a process. All but the first are wrong, to show that the model notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "what is wrong is for the tests")
)]
pub(crate) enum Conduct {
    /// As it should.
    Right,
    /// Sends a message before the journal has it.
    SendsFirst,
    /// Takes what was sent for confirmed.
    TrustsSilence,
    /// Begins with what is new, and leaves what an earlier opening had.
    LeavesOlder,
}

/// The behaviour of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "what is wrong is for the tests")
)]
pub(crate) enum Gate {
    /// As it should: by `semel_core::ingest::decide`.
    Right,
    /// Goes by an epoch that never changes.
    FencesNobody,
    /// Knows no sequence.
    KnowsNothing,
    /// Takes whatever comes as the next.
    SeesNoGap,
}

/// The number of times that each event may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) openings: u8,
    pub(crate) kills: u8,
    /// Requests and answers that are lost.
    pub(crate) lost: u8,
    /// Requests that come twice.
    pub(crate) again: u8,
}

/// One configuration: a producer with one stream, two processes that open it, and the gate behind them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) name: &'static str,
    /// The number of messages.
    pub(crate) messages: u8,
    pub(crate) conduct: Conduct,
    pub(crate) gate: Gate,
    pub(crate) budget: Budget,
}

impl Setup {
    /// The same, with so many more of everything.
    pub(crate) fn deeper(self, by: u8) -> Self {
        let Budget {
            openings,
            kills,
            lost,
            again,
        } = self.budget;
        Self {
            messages: self.messages.saturating_add(by.div_ceil(2)),
            budget: Budget {
                openings: openings.saturating_add(by),
                kills: kills.saturating_add(by / 2),
                lost: lost.saturating_add(by),
                again: again.saturating_add(by / 2),
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
        gate: Gate::Right,
        budget,
    };
    let lives = Budget {
        openings: 3,
        kills: 2,
        lost: 2,
        again: 1,
    };
    let network = Budget {
        openings: 2,
        kills: 1,
        lost: 2,
        again: 2,
    };
    vec![
        with("producer, lives", 3, lives),
        with("producer, network", 3, network),
    ]
}
