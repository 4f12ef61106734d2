//! The model of producers notices mistakes: each wrong process and each wrong gate breaks a law of it.

use super::law::Law;
use super::setup::{Budget, Conduct, Gate, Setup, all};
use super::subject::Sender;
use crate::model::search;

/// Two openings, and little that goes wrong.
fn small() -> Setup {
    Setup {
        messages: 2,
        budget: Budget {
            openings: 2,
            kills: 1,
            lost: 1,
            again: 1,
        },
        ..all()[0]
    }
}

/// Checks that the change `wrong` breaks this law; every merge finds that nothing is wrong without it.
#[track_caller]
fn breaks(wrong: impl FnOnce(&mut Setup), law: Law) {
    search::breaks::<Sender>(small(), wrong, law.name());
}

#[test]
fn a_producer_and_a_gate_that_do_as_they_should_break_nothing() {
    assert_eq!(search::broken::<Sender>(small()), [""; 0]);
}

#[test]
fn a_message_that_is_sent_before_the_journal_has_it_is_caught() {
    breaks(
        |setup| setup.conduct = Conduct::SendsFirst,
        Law::OnlyAppended,
    );
}

#[test]
fn silence_that_is_taken_for_an_answer_is_caught() {
    breaks(
        |setup| setup.conduct = Conduct::TrustsSilence,
        Law::OnlyTaken,
    );
}

#[test]
fn an_opening_that_leaves_what_an_earlier_one_had_is_caught() {
    breaks(|setup| setup.conduct = Conduct::LeavesOlder, Law::OnlyTaken);
}

#[test]
fn a_gate_that_fences_nobody_is_caught() {
    breaks(|setup| setup.gate = Gate::FencesNobody, Law::FencedIsOver);
}

#[test]
fn a_gate_that_knows_nothing_is_caught() {
    breaks(|setup| setup.gate = Gate::KnowsNothing, Law::OnceInOrder);
}

#[test]
fn a_gate_that_sees_no_gap_is_caught() {
    breaks(|setup| setup.gate = Gate::SeesNoGap, Law::OnceInOrder);
}
