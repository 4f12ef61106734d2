//! Bugs of the relay of an outbox.

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
    ),
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
];

const OUTBOX: &str = "semel-outbox";
