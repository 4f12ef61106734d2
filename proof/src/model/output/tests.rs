//! The model of the output class notices mistakes: each wrong worker, each wrong store breaks a law
//! of it.

use super::Output;
use super::law::Law;
use super::setup::{Conduct, Keeping, Setup, all};
use crate::model::search;

/// One of the configurations that every merge checks, so nothing is wrong with it.
#[track_caller]
fn named(name: &str) -> Setup {
    let found = all().into_iter().find(|setup| setup.name == name);
    found.expect("a configuration of this name")
}

#[track_caller]
fn broken(setup: Setup) -> Vec<&'static str> {
    search::broken::<Output>(setup)
}

#[track_caller]
fn breaks(right: Setup, wrong: impl FnOnce(&mut Setup), law: Law) {
    search::breaks::<Output>(right, wrong, law.name());
}

fn crashes() -> Setup {
    named("output, crashes")
}

#[test]
fn an_output_that_is_kept_as_it_should_breaks_nothing() {
    assert_eq!(broken(named("output, window over")), [""; 0]);
}

/// Found by T2 in the engine itself: recorded, the answer lost, the next try refused.
#[test]
fn a_worker_that_cuts_without_asking_the_mark_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::CutsUnasked;
    breaks(named("output, window over"), wrong, Law::CoversMark);
}

#[test]
fn a_worker_that_leaves_its_tail_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::KeepsTail;
    breaks(crashes(), wrong, Law::WholeLines);
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::KeepsTail;
    breaks(named("output, store reopened"), wrong, Law::SingleLine);
}

#[test]
fn a_worker_that_takes_its_tail_for_recorded_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::AdoptsTail;
    breaks(named("output, store reopened"), wrong, Law::RecordForLine);
}

#[test]
fn a_worker_that_cuts_off_what_was_there_before_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::CutsUnmarked;
    breaks(crashes(), wrong, Law::BeforeStays);
}

#[test]
fn a_worker_that_leaves_a_failed_append_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::KeepsHalf;
    breaks(named("output, appends fail"), wrong, Law::WholeLines);
}

#[test]
fn a_worker_that_leaves_the_lines_of_a_refused_batch_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::KeepsRefused;
    breaks(named("output, batches"), wrong, Law::SingleLine);
}

#[test]
fn a_worker_that_acknowledges_before_it_records_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::AcksFirst;
    breaks(crashes(), wrong, Law::AcknowledgedRecorded);
}

#[test]
fn a_worker_that_records_before_it_appends_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::RecordsFirst;
    breaks(crashes(), wrong, Law::CoversMark);
}

#[test]
fn completions_without_their_mark_are_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::RecordsApart;
    breaks(crashes(), wrong, Law::LineForRecord);
}

#[test]
fn a_worker_that_takes_silence_for_success_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::TrustsSilence;
    breaks(named("output, batches"), wrong, Law::AcknowledgedRecorded);
}

#[test]
fn two_writers_of_one_file_are_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::SharesFile;
    breaks(named("output, batches"), wrong, Law::CoversMark);
}

#[test]
fn a_store_that_settles_what_it_can_of_a_batch_is_caught() {
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::SettlesSome;
    breaks(named("output, batches"), wrong, Law::RefusedLeavesNoTrace);
}

#[test]
fn a_store_that_marks_what_it_refused_is_caught() {
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::MarksAnyway;
    breaks(named("output, batches"), wrong, Law::RefusedLeavesNoTrace);
}

#[test]
fn a_store_that_forgets_its_marks_is_caught() {
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::ForgetsMarks;
    breaks(named("output, store reopened"), wrong, Law::NothingLost);
}

#[test]
fn a_window_without_an_age_gate_is_caught() {
    let wrong = |setup: &mut Setup| setup.age_gate = false;
    breaks(named("output, window over"), wrong, Law::SingleLine);
}

fn admitted() -> Setup {
    named("output, admitted")
}

#[test]
fn a_mark_that_is_read_while_a_commit_is_under_way_is_caught() {
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::MarkAtOnce;
    breaks(admitted(), wrong, Law::CoversMark);
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::MarkAtOnce;
    breaks(crashes(), wrong, Law::LineForRecord);
}

#[test]
fn a_store_that_serves_others_while_lines_are_appended_is_caught() {
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::ServesOthers;
    breaks(admitted(), wrong, Law::SingleLine);
}

#[test]
fn a_store_that_does_not_see_its_own_batch_is_caught() {
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::DecidesApart;
    breaks(named("output, admitted twice"), wrong, Law::SingleLine);
}

#[test]
fn a_store_that_has_lines_appended_twice_is_caught() {
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::WritesTwice;
    breaks(admitted(), wrong, Law::SingleLine);
}

#[test]
fn a_store_that_commits_what_was_not_appended_is_caught() {
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::CommitsFailed;
    breaks(admitted(), wrong, Law::LineForRecord);
}

#[test]
fn a_worker_that_undoes_what_may_be_admitted_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::UndoesUnknown;
    breaks(admitted(), wrong, Law::CoversMark);
}

#[test]
fn a_worker_that_acknowledges_before_what_is_admitted_is_committed_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::AcksFirst;
    breaks(admitted(), wrong, Law::AcknowledgedRecorded);
}

#[test]
fn a_worker_that_commits_before_it_appends_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::RecordsFirst;
    breaks(admitted(), wrong, Law::CoversMark);
}
