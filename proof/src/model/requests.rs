//! The requests to the store, in the core's types.

use std::num::NonZeroU32;

use semel_core::claim::{AttemptLimits, Start};
use semel_core::{Certainty, Step, VersionGate};

use super::answers::Report;
use super::numbers::{outcome, ticks, window};
use super::record::Recover;
use super::setup::Class;
use super::subject::Protocol;
use super::wrong::Conduct;

impl Protocol {
    pub(crate) fn gate(&self, operation: u8) -> Option<VersionGate> {
        self.setup.is_gated.then(|| VersionGate {
            entity: self.entity.clone(),
            version: u64::from(operation) + 1,
        })
    }

    pub(crate) fn recovery(&self) -> Recover {
        match self.setup.class {
            Class::Keyed => Recover::Within,
            Class::Repeat => Recover::Rerun,
            // Nobody has said that a call without a class may be repeated.
            Class::Park | Class::Call | Class::Transactional | Class::Versioned => Recover::Park,
        }
    }

    pub(crate) fn start(&self) -> Start {
        let setup = &self.setup;
        let unmarked = setup.marks_apart
            || setup.class == Class::Call
            || setup.conduct == Conduct::MarksNothing;
        if setup.class.is_atomic() || unmarked {
            Start::Unmarked
        } else {
            Start::Marked(self.recovery().to_core(setup))
        }
    }

    pub(crate) fn limits(&self) -> AttemptLimits {
        let cap = |cap: u8| NonZeroU32::new(cap.into()).unwrap_or(NonZeroU32::MIN);
        AttemptLimits {
            failed: cap(self.setup.failed),
            vanished: cap(self.setup.vanished),
        }
    }

    pub(crate) fn step(&self, report: Report) -> Step {
        let window = window(&self.setup);
        match report {
            Report::Start | Report::Begun => Step::Start {
                recovery: self.recovery().to_core(&self.setup),
                has_begun: report == Report::Begun,
            },
            Report::Complete { answer } => Step::Complete {
                outcome: outcome(answer),
                window,
            },
            Report::Release { maybe, counted } => Step::Release {
                error: "".into(),
                certainty: if maybe {
                    Certainty::MaybeApplied
                } else {
                    Certainty::NotApplied
                },
                after: ticks(self.setup.backoff),
                counted,
                limits: self.limits(),
                window,
            },
            Report::Fail { decisive } => Step::Fail {
                error: "".into(),
                decisive,
                window,
            },
        }
    }
}
