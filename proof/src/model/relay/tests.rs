//! The model of relays notices mistakes: each wrong relay breaks a law of it.

use super::law::Law;
use super::setup::{Budget, Conduct, Setup, all};
use super::subject::Relay;
use crate::model::search;

/// Two messages, and little that goes wrong.
fn small() -> Setup {
    Setup {
        messages: 2,
        budget: Budget {
            kills: 1,
            expiries: 1,
            failures: 1,
            unanswered: 1,
        },
        ..all()[0]
    }
}

/// Checks that this conduct breaks this law; every merge finds that the right one breaks none.
#[track_caller]
fn breaks(conduct: Conduct, law: Law) {
    search::breaks::<Relay>(small(), |setup| setup.conduct = conduct, law.name());
}

#[test]
fn relays_that_do_as_they_should_break_nothing() {
    assert_eq!(search::broken::<Relay>(small()), [""; 0]);
}

#[test]
fn a_publication_without_the_lease_is_caught() {
    breaks(Conduct::OverlooksLease, Law::OnlyUnderLease);
}

#[test]
fn a_record_before_the_publication_is_caught() {
    breaks(Conduct::RecordsFirst, Law::OnlyPublished);
}

#[test]
fn a_relay_that_records_nothing_is_caught() {
    breaks(Conduct::RecordsNothing, Law::NoIdleRepeat);
}

#[test]
fn a_relay_that_goes_on_behind_a_message_that_failed_is_caught() {
    breaks(Conduct::GoesOn, Law::InOrder);
}

#[test]
fn a_relay_that_reads_behind_the_last_id_is_caught() {
    breaks(Conduct::ReadsBehindLast, Law::ToldOfAll);
}

#[test]
fn a_relay_that_reads_open_transactions_is_caught() {
    breaks(Conduct::ReadsOpen, Law::OnlyCommitted);
}
