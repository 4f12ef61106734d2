//! Bugs of the gates before messages that others send, and of the source behind them.

use super::{Bug, Suite};

const fn gate(name: &'static str, what: &'static str, seen_by: &'static [&'static str]) -> Bug {
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

pub(super) const BUGS: &[Bug] = &[
    gate(
        "X25",
        "takes messages of an opening that is over",
        &[
            "ingest::tests::an_answer_for_each_case",
            "ingest::tests::each_message_comes_through_once_in_order_and_without_a_gap",
        ],
    )
    .and(&["T1", "T2"]),
    gate(
        "X26",
        "takes messages behind others that are missing",
        &[
            "ingest::tests::an_answer_for_each_case",
            "ingest::tests::each_message_comes_through_once_in_order_and_without_a_gap",
        ],
    )
    .and(&["T1", "T2"]),
    gate(
        "X27",
        "takes the known beginning of a batch once more",
        &["ingest::tests::an_answer_for_each_case"],
    )
    .and(&["T1", "T2"]),
    gate(
        "X40",
        "forgets a silent producer whose messages wait, or which is frozen",
        &["ingest::tests::who_is_silent_is_forgotten_once_all_is_settled"],
    ),
    source(
        "X41",
        "takes a lower sequence for one that it has run, although its producer began anew",
        &[
            "ingest::source::tests::order::a_producer_that_was_forgotten_elsewhere_runs_in_its_new_life",
            "ingest::source::tests::order::a_new_life_that_is_as_long_as_the_earlier_one_runs",
        ],
    ),
    source(
        "X42",
        "takes a producer that began anew for the one whose end it read from a list",
        &[
            "ingest::source::tests::order::all_of_a_new_life_runs_whose_producer_was_listed_and_not_read",
        ],
    ),
    source(
        "X28",
        "settles messages when they are handed over",
        &["ingest::source::tests::what_is_not_settled_is_there_for_the_next_worker"],
    ),
    source(
        "X29",
        "hands over what a frozen producer keeps",
        &["ingest::source::tests::a_frozen_producer_is_parked_and_runs_in_order_once_it_thaws"],
    ),
    source(
        "X30",
        "takes what came before a producer's first request here for settled",
        &[
            "ingest::source::tests::order::requests_that_end_in_another_order_lose_nothing",
            "ingest::source::tests::order::what_another_worker_took_is_not_settled_with_what_came_behind_it",
        ],
    ),
    source(
        "X31",
        "hands over what was read before its producer was frozen",
        &["ingest::source::tests::order::a_freeze_holds_for_what_was_read_and_not_handed_over"],
    ),
    source(
        "X45",
        "acknowledges what waits for a message that is missing",
        &[
            "ingest::sequence_gate::tests::later_messages_wait_for_the_missing_one_and_are_not_acknowledged",
        ],
    ),
    source(
        "X46",
        "runs what a broker repeats, unless the record of its key tells",
        &["ingest::sequence_gate::tests::each_message_is_judged_by_its_numbers"],
    ),
    source(
        "X47",
        "drops what is new of an opening that is over",
        &["ingest::sequence_gate::tests::each_message_is_judged_by_its_numbers"],
    ),
];

/// A bug of the source.
const fn source(name: &'static str, what: &'static str, seen_by: &'static [&'static str]) -> Bug {
    Bug {
        within: &[WEBHOOK],
        suite: Suite::Library(WEBHOOK),
        ..gate(name, what, seen_by)
    }
}

const CORE: &str = "semel-core";
const WEBHOOK: &str = "semel-broker-webhook";
