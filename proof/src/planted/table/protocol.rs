//! Bugs in the decisions, in their inputs, and in a store.

use super::{Bug, MODEL};
use crate::planted::build::Suite;

pub(super) const BUGS: &[Bug] = &[
    Bug {
        within: &[MEMORY, MODEL],
        ..laws(
            "M02",
            "looks at a record, and claims it a moment later",
            &[
                "of_64_claimants_at_once_exactly_one_is_granted",
                "history_laws",
            ],
        )
    }
    .and(&["T1", "T2", "T4"]),
    tiers("M03", "takes the completion of any claim", &["T2"]),
    tiers(
        "M05",
        "forgets what it finished long before its window is over",
        &["T2", "T7"],
    ),
    tiers("M09", "has no end of the provider's window", &["T2"]),
    tiers("M11", "takes the start of any claim", &[]),
    laws(
        "M12",
        "takes the release of any claim",
        &["a_superseded_release_is_fenced"],
    )
    .and(&["T1", "T2"]),
    laws(
        "M13",
        "takes the renewal of any claim",
        &["a_renewal_after_a_takeover_is_lost"],
    )
    .and(&["T1", "T2"]),
    // The model has it in its own tests, where the age gate is open: behind it no key comes back.
    Bug {
        within: &[MEMORY],
        ..laws(
            "M14",
            "begins to count tokens anew when a record is removed",
            &["tokens_rise_over_the_removal_of_a_record", "history_laws"],
        )
    },
    // No store of Semel has another clock than its server's: the bug is in the world of the stories.
    Bug {
        within: &[SIMULATION],
        suite: Suite::Tier("T10"),
        ..unit("M17", "goes by the clock of the worker that asks", &[])
    }
    .and(&["T2"]),
    unit("M24", "leaves the tenant out of the id", &["key::tests"]).and(&["T6"]),
    unit(
        "M25",
        "joins the parts of an id without their lengths",
        &["key::tests"],
    )
    .and(&["T6"]),
    unit(
        "M26",
        "takes the fingerprint of the text, whatever it says",
        &["fingerprint::tests::the_payload_counts_by_what_it_says"],
    ),
    postgres(
        "M27",
        "reads an outbox behind the last place that it saw",
        &["outbox::a_transaction_that_commits_late_is_not_missed"],
    ),
    postgres(
        "M28",
        "goes by the time at which a transaction began",
        &["time::"],
    ),
    laws(
        "M29",
        "compares keys without regard to case",
        &["keys_differ_by_case"],
    )
    .and(&["T6"]),
    postgres(
        "M31",
        "returns the connection of a call that was given up to the pool, in the middle of its transaction",
        &["cancellation::"],
    ),
    laws(
        "M32",
        "sweeps what is not finished",
        &["unresolved_records_are_never_swept"],
    )
    .and(&["T1", "T2"]),
    laws(
        "M33",
        "believes at once that an effect did not happen",
        &["not_applied_is_refused_before_it_is_quiet"],
    )
    .and(&["T1", "T2"]),
    laws(
        "M39",
        "takes any failure for one that speaks for earlier attempts as well",
        &["a_failure_after_a_doubt_is_in_doubt"],
    )
    .and(&["T1", "T2", "T7"]),
    laws(
        "M40",
        "has a doubt tried again that forbids another attempt",
        &["retrying_what_may_not_run_again_is_refused"],
    )
    .and(&["T1"]),
    laws(
        "M41",
        "forgets the doubt of what an operator has tried again",
        &["a_retried_rerun_counts_its_possible_repeat"],
    )
    .and(&["T1"]),
    laws(
        "M42",
        "takes any late failure for the end of a doubt",
        &["a_late_decisive_failure_resolves_the_doubt"],
    )
    .and(&["T1"]),
    laws(
        "M43",
        "refuses the word that an effect has begun where its entity is another's",
        &["a_claim_that_lost_its_entity_says_how_it_ended"],
    )
    .and(&["T1"]),
    // No claim is read from a replica, however late: a claim writes, which the server refuses there.
    postgres(
        "M36",
        "takes a replica for the server that it follows",
        &["refusals::a_replica_and_a_server_that_takes_no_writes_are_refused"],
    ),
    unit(
        "M37",
        "cuts a long outcome, and does not say so",
        &["outcome::tests::a_result_that_comes_in_pieces_is_measured_whole"],
    ),
];

/// A bug that is seen by tests of the core alone.
const fn unit(name: &'static str, what: &'static str, seen_by: &'static [&'static str]) -> Bug {
    Bug {
        name,
        class: "all",
        what,
        within: &[CORE],
        suite: Suite::Library(CORE),
        seen_by,
        tiers: &[],
    }
}

/// A bug that is seen by the memory store's laws: by cases, and by T5's histories.
const fn laws(name: &'static str, what: &'static str, seen_by: &'static [&'static str]) -> Bug {
    let suite = Suite::Tests(MEMORY, "conformance");
    Bug {
        suite,
        ..unit(name, what, seen_by)
    }
}

/// A bug that is seen by the model, and by other tiers.
const fn tiers(name: &'static str, what: &'static str, tiers: &'static [&'static str]) -> Bug {
    let suite = Suite::Tier("T1");
    Bug {
        suite,
        ..unit(name, what, &[])
    }
    .and(tiers)
}

/// A bug that is seen by tests that need a server.
const fn postgres(name: &'static str, what: &'static str, seen_by: &'static [&'static str]) -> Bug {
    Bug {
        within: &[POSTGRES],
        suite: Suite::Tests(POSTGRES, "postgres"),
        ..unit(name, what, seen_by)
    }
}

const POSTGRES: &str = "semel-store-postgres";
const SIMULATION: &str = "semel-simulation";
const CORE: &str = "semel-core";
const MEMORY: &str = "semel-store-memory";
