//! The model of class E notices mistakes: each wrong member and each wrong broker breaks a law of it.

use super::Streamed;
use super::law::Law;
use super::setup::{Conduct, Fencing, Setup, all};
use crate::model::search;

/// One of the configurations that every merge checks.
#[track_caller]
fn named(name: &str) -> Setup {
    let found = all().into_iter().find(|setup| setup.name == name);
    found.expect("a configuration of this name")
}

#[track_caller]
fn broken(setup: Setup) -> Vec<&'static str> {
    search::broken::<Streamed>(setup)
}

/// Checks that the change `wrong` breaks this law; every merge finds that nothing is wrong without it.
#[track_caller]
fn breaks(right: Setup, wrong: impl FnOnce(&mut Setup), law: Law) {
    search::breaks::<Streamed>(right, wrong, law.name());
}

/// One move of the partition, and nothing else goes wrong.
fn moved() -> Setup {
    Setup::of("small")
}

#[test]
fn a_member_that_does_as_it_should_breaks_nothing() {
    assert_eq!(broken(moved()), [""; 0]);
}

#[test]
fn a_transaction_without_offsets_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::LeavesOffsetsOut;
    breaks(moved(), wrong, Law::FencedCommitsNothing);
}

#[test]
fn a_coordinator_that_fences_nobody_is_caught() {
    let wrong = |setup: &mut Setup| setup.fencing = Fencing::Nothing;
    breaks(moved(), wrong, Law::FencedCommitsNothing);
}

#[test]
fn metadata_that_are_read_after_the_look_are_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::LooksFirst;
    breaks(moved(), wrong, Law::FencedCommitsNothing);
}

#[test]
fn a_member_that_overlooks_its_loss_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::OverlooksLoss;
    breaks(moved(), wrong, Law::FencedCommitsNothing);
}

#[test]
fn a_member_that_takes_silence_for_success_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::TrustsSilence;
    breaks(named("streamed, answers lost"), wrong, Law::OnlyCommitted);
}

#[test]
fn a_member_that_reads_nothing_again_after_silence_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::ForgetsSilence;
    breaks(named("streamed, answers lost"), wrong, Law::OwnerKnows);
}

/// Found by the model in the adapter itself, in 25 steps: a batch is tried again when its committed records
/// are past their window.
#[test]
fn a_member_that_looks_for_a_lost_commit_inside_the_window_only_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::ForgetsTry;
    breaks(named("streamed, window over"), wrong, Law::SingleOutput);
}

#[test]
fn a_member_that_commits_without_a_last_look_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::SkipsLastLook;
    breaks(named("streamed, asked again"), wrong, Law::SingleOutput);
}

/// Found by the model in the adapter itself, in 31 steps: records that were found committed are acknowledged
/// while the commit behind them is unknown.
#[test]
fn a_member_that_commits_offsets_in_doubt_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::AcksInDoubt;
    breaks(named("streamed, two under way"), wrong, Law::OffsetsRise);
}

#[test]
fn an_owner_that_does_not_wait_for_markers_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::ReadsAtOnce;
    breaks(moved(), wrong, Law::OwnerKnows);
}

#[test]
fn an_owner_that_reads_what_is_not_committed_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::ReadsUncommitted;
    breaks(moved(), wrong, Law::OnlyCommitted);
}

#[test]
fn an_owner_that_does_not_wait_for_open_offsets_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::TakesUnstable;
    breaks(moved(), wrong, Law::FencedCommitsNothing);
}

#[test]
fn one_key_twice_in_a_transaction_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::TakesTwins;
    breaks(named("streamed, one name twice"), wrong, Law::SingleOutput);
}

#[test]
fn an_offset_that_skips_what_is_unfinished_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::SkipsUnfinished;
    breaks(named("streamed, transform fails"), wrong, Law::NothingLost);
}

#[test]
fn a_changelog_without_fingerprints_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::ForgetsRequests;
    breaks(named("streamed, key reused"), wrong, Law::NothingLost);
}

#[test]
fn a_window_without_an_age_gate_is_caught() {
    let wrong = |setup: &mut Setup| setup.age_gate = false;
    breaks(named("streamed, window over"), wrong, Law::SingleOutput);
}

#[test]
fn offsets_without_a_transaction_that_nobody_fences_are_caught() {
    let wrong = |setup: &mut Setup| setup.fencing = Fencing::Transactions;
    breaks(named("streamed, transform fails"), wrong, Law::OffsetsRise);
}
