//! The calls of an effect that ended, counted alike for a pipeline and for the routes of a gateway.

use prometheus_client::metrics::counter::Counter;
use semel_engine::effect::Verdict;

use crate::families::{Families, labels};

/// The series of the calls of one effect, by their end.
#[derive(Debug)]
pub(crate) struct Effects {
    applied: Counter,
    not_applied: Counter,
    maybe_applied: Counter,
    failed: Counter,
}

impl Effects {
    pub(crate) fn new(families: &Families, name: &str, effect: &str) -> Self {
        let ended = |verdict| {
            let labels = labels([("pipeline", name), ("effect", effect), ("verdict", verdict)]);
            families.effects.get_or_create_owned(&labels)
        };
        Self {
            applied: ended("applied"),
            not_applied: ended("not_applied"),
            maybe_applied: ended("maybe_applied"),
            failed: ended("failed"),
        }
    }

    pub(crate) fn of(&self, verdict: &Verdict) -> &Counter {
        match verdict.as_str() {
            "applied" => &self.applied,
            "not_applied" => &self.not_applied,
            "maybe_applied" => &self.maybe_applied,
            _ => &self.failed,
        }
    }
}
