//! The whole state at one instant: store, provider, broker, workers, and everything on its way.

use super::numbers::NONE;
use super::record::{Ent, Rec};
use super::setup::{Budget, MOST_OPERATIONS, MOST_POSTS, MOST_WORKERS, Setup};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) now: u8,
    pub(crate) records: [Option<Rec>; MOST_OPERATIONS],
    pub(crate) entity: Ent,
    pub(crate) next_token: u8,
    /// The highest token that was granted.
    pub(crate) top_token: u8,
    pub(crate) lives: [Life; MOST_OPERATIONS],
    /// The version that the effect applied last.
    pub(crate) version: u8,
    pub(crate) posts: [Message; MOST_POSTS],
    pub(crate) workers: [Worker; MOST_WORKERS],
    pub(crate) late: Option<Late>,
    /// The record that the newest write of the store replaced, if the store may forget that write.
    pub(crate) before: Option<Before>,
    pub(crate) left: Budget,
    /// The laws that are broken, a bit each.
    pub(crate) broken: u32,
}

/// The true history of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Life {
    pub(crate) effects: u8,
    /// The time since which the provider knows the key.
    pub(crate) known_since: u8,
    /// The token of the call that the provider remembers.
    pub(crate) answer: u8,
    /// The effect is refused for good by the provider itself.
    pub(crate) refused: bool,
    pub(crate) acknowledged: bool,
    /// A message of it was set aside, where people find it.
    pub(crate) listed: bool,
    /// A later version was applied before.
    pub(crate) superseded: bool,
    /// It was completed, dead or in doubt at some time.
    pub(crate) ended: bool,
    pub(crate) abandoned: bool,
    /// An operator had it forgotten.
    pub(crate) forgotten: bool,
    /// The number of times that its effect had happened by then: later effects are new.
    pub(crate) before: u8,
    /// The most possible repeats that its record has counted.
    pub(crate) repeats: u8,
    /// A client said that its effect has begun, or is about to.
    pub(crate) begun: bool,
    /// The claims that were taken over from clients that may have begun, and said nothing.
    pub(crate) untold: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Message {
    pub(crate) published: bool,
    pub(crate) queued: u8,
    /// The only copy was acknowledged.
    pub(crate) gone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Worker {
    pub(crate) phase: Phase,
    pub(crate) post: u8,
    pub(crate) claim: u8,
    pub(crate) token: u8,
    /// The time of the store's latest answer.
    pub(crate) since: u8,
    /// The broker has delivered the message to another worker.
    pub(crate) stale: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Idle,
    /// About to claim, for the first time or again.
    Asking {
        asked: bool,
    },
    /// About to mark its claim.
    Starting,
    /// May begin its effect.
    Granted,
    /// The effect happened; about to complete.
    Called {
        answer: u8,
    },
    /// About to release.
    Failed {
        maybe: bool,
    },
    /// About to fail for good.
    Refused {
        /// True if that speaks for the earlier attempts as well.
        decisive: bool,
    },
    /// Learned of a doubt, and when; about to find out what became of the effect.
    Probing {
        told_at: u8,
    },
    /// Has found out; about to report to the store.
    Finding {
        told_at: u8,
        applied: bool,
    },
    Acknowledging {
        lists: bool,
    },
    HandingBack,
}

/// A request on its way whose answer no worker awaits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Late {
    Claim {
        post: u8,
        claim: u8,
    },
    Start {
        operation: u8,
        claim: u8,
    },
    Commit {
        operation: u8,
        claim: u8,
        token: u8,
    },
    Complete {
        operation: u8,
        claim: u8,
        answer: u8,
    },
    Release {
        operation: u8,
        claim: u8,
        maybe: bool,
    },
    Call {
        operation: u8,
        token: u8,
        until: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Before {
    pub(crate) operation: u8,
    pub(crate) record: Option<Rec>,
    pub(crate) entity: Ent,
}

pub(crate) const IDLE: Worker = Worker {
    phase: Phase::Idle,
    post: 0,
    claim: NONE,
    token: 0,
    since: 0,
    stale: false,
};

impl World {
    /// Nothing has happened yet.
    pub(crate) fn new(setup: &Setup) -> Self {
        let mut posts = [Message {
            published: false,
            queued: 0,
            gone: false,
        }; MOST_POSTS];
        posts[0].published = true;
        posts[0].queued = 1;
        let life = Life {
            effects: 0,
            known_since: NONE,
            answer: 0,
            refused: false,
            acknowledged: false,
            listed: false,
            superseded: false,
            ended: false,
            abandoned: false,
            forgotten: false,
            before: 0,
            repeats: 0,
            begun: false,
            untold: 0,
        };
        Self {
            now: 0,
            records: [None; MOST_OPERATIONS],
            entity: Ent {
                applied: 0,
                holder: None,
            },
            next_token: 1,
            top_token: 0,
            lives: [life; MOST_OPERATIONS],
            version: 0,
            posts,
            workers: [IDLE; MOST_WORKERS],
            late: None,
            before: None,
            left: setup.budget,
            broken: 0,
        }
    }

    /// A claim id that is used nowhere: as good as a fresh one, and there are few of them.
    pub(crate) fn fresh_claim(&self) -> u8 {
        let before = self.before.and_then(|before| before.record);
        let held = |entity: &Ent| entity.holder.map(|(claim, _)| claim);
        let late = self.late.map(|late| match late {
            Late::Claim { claim, .. }
            | Late::Start { claim, .. }
            | Late::Commit { claim, .. }
            | Late::Complete { claim, .. }
            | Late::Release { claim, .. } => claim,
            Late::Call { .. } => NONE,
        });
        let records = self.records.iter().flatten().chain(before.iter());
        let used = records
            .map(|record| record.claim)
            .chain(held(&self.entity))
            .chain(self.before.and_then(|before| held(&before.entity)))
            .chain(self.workers.iter().map(|worker| worker.claim))
            .chain(late)
            .filter(|&claim| claim != NONE)
            .fold(0_u32, |used, claim| used | 1 << claim);
        u8::try_from(used.trailing_ones()).unwrap_or(NONE)
    }

    /// The record as the protocol sees it: forgotten is absent.
    pub(crate) fn standing(&self, operation: usize, setup: &Setup) -> Option<Rec> {
        self.records[operation].filter(|record| !record.is_forgotten(self.now, setup))
    }
}
