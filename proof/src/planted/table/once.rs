//! Bugs around a single call, and the callers that wait for it.

use super::{Bug, UNIT, WORLD, engine};

pub(super) const BUGS: &[Bug] = &[
    engine(
        "O01",
        "all",
        "runs the effect of a key that somebody else is at",
        WORLD,
        &["once::callers"],
    ),
    engine(
        "O02",
        "all",
        "reads an outcome of any codec, type and version",
        UNIT,
        &["once::outcome"],
    ),
    engine(
        "O03",
        "all",
        "renews no lease of a call",
        WORLD,
        &["once::effects::the_lease_is_renewed_for_as_long_as_the_effect_runs"],
    ),
    engine(
        "O04",
        "all",
        "takes a panic for not applied",
        WORLD,
        &[
            "once::effects::what_may_have_happened_is_decided_by_the_class",
            "once::swarm",
        ],
    ),
    engine(
        "O05",
        "all",
        "answers a fenced result as a success",
        WORLD,
        &["once::effects::a_result_that_comes_too_late_is_never_a_success"],
    ),
    engine(
        "O06",
        "all",
        "drops an effect with its caller",
        WORLD,
        &["once::callers::an_effect_that_has_begun_runs_on_when_its_caller_goes_away"],
    ),
    engine(
        "O07",
        "all",
        "takes any error for not applied",
        UNIT,
        &["once::failure"],
    ),
    engine(
        "O08",
        "all",
        "takes a time-out for not applied",
        WORLD,
        &["once::effects", "once::swarm"],
    ),
    engine(
        "O09",
        "all",
        "begins effects for callers who went away",
        WORLD,
        &["once::callers", "once::batch"],
    ),
    engine(
        "O10",
        "all",
        "begins under a lease that may have ended",
        WORLD,
        &["once::store::an_effect_never_begins_under_a_lease_that_may_have_ended"],
    ),
    engine(
        "O11",
        "all",
        "gives up a settlement at its first failure",
        WORLD,
        &["once::store"],
    ),
    engine(
        "O12",
        "keyed",
        "begins under a lease that was renewed beyond its provider's window",
        WORLD,
        &["once::store::a_lease_that_is_renewed_makes_no_providers_window_longer"],
    ),
    engine(
        "O13",
        "all",
        "calls an effect out of time that has ended",
        WORLD,
        &["once::effects::an_effect_that_ends_with_its_time_has_ended"],
    ),
];
