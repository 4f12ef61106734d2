//! A life of a store, cut off after every single file operation, in every way in which a file system may forget
//! unsynced writes; and with every single operation failing. T9 of the proof plays all of it with every merge; here,
//! where it takes many times as long, every third operation.

#![expect(clippy::print_stdout, reason = "a test says how much it tried")]

pub(crate) mod disk;
mod exhaustive;
mod life;
mod model;
pub(crate) mod planted;
mod state;
mod values;

use exhaustive::{crash_everywhere, fail_everywhere};
use planted::{Carried, Planted};

#[test]
fn nothing_acknowledged_is_lost_wherever_the_power_goes() {
    let (points, cases, broken) = crash_everywhere(Planted::Nothing, STEP, usize::MAX);
    println!("{points} crash points, {cases} reopenings");
    assert!(points > 100, "{points} crash points are too few");
    assert!(cases > 1_000, "{cases} cases are too few");
    assert!(
        broken.is_empty(),
        "{} broken:\n{}",
        broken.len(),
        broken[..broken.len().min(5)].join("\n")
    );
}

#[test]
fn a_skipped_sync_is_detected() {
    assert_detected(Planted::NoSync);
}

#[test]
fn a_skipped_directory_sync_is_detected() {
    assert_detected(Planted::NoDirSync);
}

#[test]
fn skipped_carrying_is_detected() {
    assert_detected(Planted::NoCarrying(Carried::Records));
}

#[test]
fn an_audit_trail_that_is_not_carried_forward_is_detected() {
    assert_detected(Planted::NoCarrying(Carried::Audit));
}

#[test]
fn an_audit_entry_in_a_frame_behind_its_order_is_detected() {
    assert_detected(Planted::OrdersToldLater);
}

#[test]
fn an_audit_entry_in_a_frame_behind_its_drop_is_detected() {
    assert_detected(Planted::DropsToldLater);
}

#[test]
fn tokens_that_an_import_did_not_raise_are_detected() {
    assert_detected(Planted::TokensNotRaised);
}

#[test]
fn every_operation_may_fail_once() {
    let (points, undone, broken) = fail_everywhere(Planted::Nothing, STEP, usize::MAX);
    println!("{points} failures, {undone} of them taken back and retried in place");
    assert!(points > 200, "{points} failures are too few");
    assert!(undone > 16, "{undone} retried in place are too few");
    assert!(
        broken.is_empty(),
        "{} broken:\n{}",
        broken.len(),
        broken[..broken.len().min(5)].join("\n")
    );
}

#[test]
fn trusting_the_page_cache_after_a_failed_sync_is_detected() {
    let (_, _, broken) = fail_everywhere(Planted::NoRenewal, 1, 1);
    assert!(!broken.is_empty(), "the test would not notice");
}

#[test]
fn an_admitted_batch_that_is_kept_without_its_output_is_detected() {
    let (_, _, broken) = fail_everywhere(Planted::KeptThoughFailed, 1, 1);
    println!(
        "detected {} times: {}",
        broken.len(),
        broken.concat().lines().next().unwrap_or("")
    );
    assert!(!broken.is_empty(), "the test would not notice");
}

fn assert_detected(planted: Planted) {
    let (points, cases, broken) = crash_everywhere(planted, STEP, 1);
    println!(
        "{planted:?}: detected after {points} crash points, {cases} reopenings: {}",
        broken.join("")
    );
    assert!(!broken.is_empty(), "the test would not notice");
}

const STEP: usize = 3;
