//! Bugs of the relay of an outbox, and of producers.

use super::{Bug, Suite};

const fn relay(name: &'static str, what: &'static str, seen_by: &'static [&'static str]) -> Bug {
    Bug {
        name,
        class: "all",
        what,
        within: &[OUTBOX],
        suite: Suite::Library(OUTBOX),
        seen_by,
        tiers: &[],
    }
}

pub(super) const BUGS: &[Bug] = &[
    relay(
        "X01",
        "publishes in the last third of a lease",
        &["tenure::tests::a_lease_is_renewed_after_a_third_and_not_used_in_the_last"],
    ),
    relay(
        "X02",
        "publishes messages of one order key together",
        &["waves::tests::a_wave_has_one_message_of_each_order_key_and_none_behind_one_that_failed"],
    )
    .and(&["T2"]),
    relay(
        "X03",
        "takes the renewal of its leases for a division of the partitions",
        &["a_renewal_does_not_put_off_the_next_division"],
    ),
    relay(
        "X04",
        "counts the tries of an outage",
        &[
            "outcomes::tests::a_try_counts_if_the_sink_took_another_message_and_what_is_away_makes_room",
        ],
    ),
    relay(
        "X05",
        "asks a sink again sooner than it wished",
        &["absence::tests::a_wish_for_a_longer_pause_is_granted_up_to_a_minute"],
    ),
    relay(
        "X06",
        "goes on behind a message that failed",
        &["waves::tests::a_wave_has_one_message_of_each_order_key_and_none_behind_one_that_failed"],
    )
    .and(&["T2"]),
    running(
        "X07",
        "publishes under another id at each try",
        &["a_message_that_fails_is_tried_again_and_then_dead_and_holds_up_its_order_key_alone"],
    )
    .and(&["T2"]),
    running(
        "X08",
        "records what a sink that is away did not take",
        &["a_sink_that_is_away_is_waited_for_and_counts_no_attempt"],
    )
    .and(&["T2"]),
    running(
        "X09",
        "renews no lease while the sink takes its time",
        &["leases_are_renewed_while_the_sink_takes_its_time_and_nothing_goes_out_without_one"],
    )
    .and(&["T2"]),
    running(
        "X10",
        "forgets what it published while the outbox is away",
        &["what_was_published_is_recorded_again_until_the_outbox_takes_it"],
    ),
    running(
        "X11",
        "drops what is under way when it is asked to stop",
        &["a_stop_has_patience_with_what_is_under_way_and_no_longer"],
    ),
    store(
        "X12",
        MYSQL,
        "publishes what MySQL has shown, and has not on its disk yet",
        &["outbox::what_was_read_outlives_a_kill_of_the_server"],
    ),
    store(
        "X13",
        MYSQL,
        "reads an outbox in MySQL behind the last place that it saw",
        &["outbox_laws::a_transaction_that_commits_late_is_not_missed"],
    ),
    store(
        "X14",
        POSTGRES,
        "hears of no commit",
        &["outbox_laws::a_commit_is_noticed"],
    ),
    store(
        "X15",
        SQLITE,
        "puts messages off under leases that it does not hold",
        &["outbox_laws::two_processes_share_the_partitions_and_one_that_is_fenced_changes_nothing"],
    ),
    store(
        "X16",
        MYSQL,
        "gives places by the time of the insertion alone",
        &["outbox_laws::messages_of_an_order_key_are_in_order_of_insertion_and_then_of_commit"],
    ),
    store(
        "X17",
        SQLITE,
        "takes messages of a producer that is fenced",
        &["producer_laws::an_opening_has_a_higher_epoch_and_fences_the_one_before"],
    ),
    store(
        "X18",
        EMBEDDED,
        "takes messages of a producer that is fenced",
        &["producer_laws::an_opening_has_a_higher_epoch_and_fences_the_one_before"],
    ),
    store(
        "X19",
        EMBEDDED,
        "does not sync what a producer appends",
        &["producers::nothing_that_was_promised_is_lost_wherever_the_power_goes"],
    ),
    store(
        "X44",
        EMBEDDED,
        "tells of what a killed process wrote, which may not be on the disk",
        &["ingest::what_a_killed_process_wrote_is_on_the_disk_before_anybody_is_told_of_it"],
    ),
    store(
        "X43",
        EMBEDDED,
        "decides about submissions that are written together as if each were alone",
        &[
            "ingest::submissions::what_waits_for_the_disk_shares_a_write_and_a_sync",
            "ingest::submissions::what_is_written_together_is_read_where_it_lies",
        ],
    ),
    running(
        "X20",
        "sends messages of one order key of a producer together",
        &["in_waves_a_message_that_fails_holds_up_its_order_key_alone"],
    )
    .and(&["T2"]),
    running(
        "X21",
        "sends again without asking whether there is a later opening",
        &["what_waits_for_the_sink_is_not_sent_once_there_is_a_later_opening"],
    )
    .and(&["T2"]),
    running(
        "X22",
        "gives the messages of a producer new ids at each opening",
        &["what_was_sent_and_not_confirmed_comes_again_under_the_same_id_and_sequence"],
    )
    .and(&["T2"]),
    running(
        "X23",
        "sends what a frozen producer keeps",
        &["what_was_released_is_recorded_though_more_is_kept_behind_it"],
    )
    .and(&["T2"]),
    running(
        "X24",
        "sends any number of messages that are not confirmed",
        &["a_blow_repeats_no_more_than_the_bound"],
    ),
];

/// A bug that is seen by a relay that runs.
const fn running(name: &'static str, what: &'static str, seen_by: &'static [&'static str]) -> Bug {
    Bug {
        suite: Suite::Tests(OUTBOX, "outbox"),
        ..relay(name, what, seen_by)
    }
}

/// A bug of an outbox in a database, which is seen by tests that may need a server.
const fn store(
    name: &'static str,
    database: &'static Database,
    what: &'static str,
    seen_by: &'static [&'static str],
) -> Bug {
    Bug {
        within: database.within,
        suite: database.suite,
        ..relay(name, what, seen_by)
    }
}

/// A database with an outbox, and its tests.
struct Database {
    within: &'static [&'static str],
    suite: Suite,
}

const MYSQL: &Database = &Database {
    within: &["semel-store-mysql"],
    suite: Suite::Tests("semel-store-mysql", "mysql"),
};
const POSTGRES: &Database = &Database {
    within: &["semel-store-postgres"],
    suite: Suite::Tests("semel-store-postgres", "postgres"),
};
const SQLITE: &Database = &Database {
    within: &["semel-store-sqlite"],
    suite: Suite::Tests("semel-store-sqlite", "sqlite"),
};
const EMBEDDED: &Database = &Database {
    within: &["semel-store-embedded"],
    suite: Suite::Tests("semel-store-embedded", "embedded"),
};
const OUTBOX: &str = "semel-outbox";
