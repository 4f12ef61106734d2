//! Bugs in front of a service of HTTP.

use super::{
    Bug, CLAIMED, CLAIMS, GATEWAY, HTTP, LISTENER, LISTENER_UNIT, MODEL, PROXIED, PROXY,
    PROXY_UNIT, Suite,
};

const fn gateway(name: &'static str, what: &'static str, seen_by: &'static [&'static str]) -> Bug {
    Bug {
        name,
        class: "all",
        what,
        within: &[GATEWAY],
        suite: HTTP,
        seen_by,
        tiers: &[],
    }
}

/// A bug at the other doors: of who is let in, and of what clients say.
const fn door(
    name: &'static str,
    what: &'static str,
    within: &'static [&'static str],
    suite: Suite,
    seen_by: &'static [&'static str],
) -> Bug {
    Bug {
        name,
        class: "all",
        what,
        within,
        suite,
        seen_by,
        tiers: &[],
    }
}

pub(super) const BUGS: &[Bug] = &[
    gateway(
        "M22",
        "gives an answer before it is stored",
        &["faults::no_answer_leaves_before_it_is_stored"],
    )
    .and(&["T2"]),
    gateway(
        "M23",
        "replays an answer before it has read the request",
        &["bodies::a_replay_comes_after_the_whole_body_was_read"],
    ),
    gateway(
        "H01",
        "takes requests with other bodies for the same",
        &["keys::a_reused_key_is_refused_and_nothing_is_shown"],
    ),
    gateway("H02", "shows a caller the answer to another one", &["keys"]),
    gateway(
        "H03",
        "remembers an answer that may change with the next try",
        &["doubts"],
    )
    .and(&["T2"]),
    gateway(
        "H04",
        "remembers an answer that says that nothing was applied",
        &["doubts::what_was_not_applied_frees_the_key_however_often"],
    )
    .and(&["T2"]),
    gateway(
        "H05",
        "lets any answer speak for the attempt before it",
        &["doubts", "random"],
    )
    .and(&["T2"]),
    gateway(
        "H06",
        "forgets the doubt that an operator's retry leaves",
        &["doubts::a_doubt_outlives_an_operators_retry"],
    ),
    gateway(
        "H07",
        "takes an answer that breaks off for not applied",
        &["doubts::an_answer_that_breaks_off_may_have_been_applied"],
    )
    .and(&["T2"]),
    gateway(
        "H08",
        "replays a part of an answer",
        &["answers::an_answer_over_the_limit_reaches_the_first_client_whole_and_no_other"],
    ),
    gateway(
        "H09",
        "hands on a part of a request",
        &["bodies::a_body_that_breaks_off_burns_no_key"],
    ),
    gateway(
        "H10",
        "runs a key unprotected that somebody else is at",
        &["faults::a_key_that_was_seen_busy_never_runs_unprotected"],
    ),
    gateway(
        "H11",
        "replays what belongs to one caller",
        &["answers::a_request_that_is_sent_again_gets_the_first_answer"],
    ),
    gateway(
        "H12",
        "lets any number of requests wait for a key",
        &["waits::a_thousand_wait_and_no_more"],
    ),
    gateway(
        "H13",
        "takes an answer for committed before its transaction is",
        &["inbox::a_transaction_that_is_not_committed_frees_the_key"],
    ),
    gateway(
        "H14",
        "remembers the answer of a handler whose transaction is lost",
        &["inbox::a_refusal_after_a_failed_commit_is_not_remembered"],
    ),
    gateway(
        "H21",
        "commits a second transaction where the first may have been applied",
        &["inbox::a_second_transaction_is_refused_once_the_first_may_have_been_applied"],
    ),
    gateway(
        "H22",
        "says of a lost commit that nothing was applied, though nobody could look",
        &["inbox::nobody_is_told_not_applied_while_nobody_can_look"],
    ),
    gateway(
        "H24",
        "gives an answer that came too late to be recorded",
        &["doubts::an_answer_that_came_as_its_time_ran_out_is_not_given"],
    ),
    Bug {
        name: "H15",
        class: "all",
        what: "leaves an address while clients are still sent to it",
        within: &["semel-http"],
        suite: Suite::Library("semel-http"),
        seen_by: &["one_that_leaves_has_the_early_clients_and_no_late_one"],
        tiers: &[],
    },
    door(
        "H16",
        "passes a path on that is read as one of its own",
        &[PROXY],
        PROXIED,
        &["own_paths::no_way_to_write_an_own_path_leads_to_the_upstream"],
    ),
    door(
        "H17",
        "lets callers in without the token that they need",
        &[LISTENER],
        LISTENER_UNIT,
        &["access::tests::any_other_address_needs_one"],
    ),
    door(
        "H18",
        "believes a token that nobody has signed",
        &[PROXY],
        PROXY_UNIT,
        &["jwt::tests::a_token_that_was_changed_or_signed_by_nobody_proves_nothing"],
    ),
    door(
        "H19",
        "believes a token whose time is over",
        &[PROXY],
        PROXY_UNIT,
        &["jwt::tests::a_token_is_good_within_its_times_for_its_issuer_and_its_audience"],
    ),
    door(
        "H20",
        "lets the holder of any certificate in",
        &[LISTENER],
        LISTENER_UNIT,
        &["access::tests::the_holder_of_a_certificate_is_known_by_its_subject"],
    ),
    door(
        "H23",
        "lets a client of the claim API say that its effect may have happened, and records that it did not",
        &[CLAIMS, MODEL],
        CLAIMED,
        &["steps::what_may_have_happened_without_a_start_is_never_said_not_to_have"],
    )
    .and(&["T1", "T2"]),
];
