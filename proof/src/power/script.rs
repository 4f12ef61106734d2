//! One life of the embedded store, on a disk in memory, cut off after each operation in each way that
//! the disk may forget; and with each operation failing. The story and its disk are those of the store's
//! own tests, and so are the bugs that have to be found here.

#[expect(
    dead_code,
    reason = "a process that is killed while the power stays is a matter of other tests"
)]
#[path = "../../../crates/stores/embedded/tests/embedded/crash/disk.rs"]
mod disk;
#[path = "../../../crates/stores/embedded/tests/embedded/crash/exhaustive.rs"]
mod exhaustive;
#[path = "../../../crates/stores/embedded/tests/embedded/crash/life.rs"]
mod life;
#[path = "../../../crates/stores/embedded/tests/embedded/crash/model.rs"]
mod model;
#[path = "../../../crates/stores/embedded/tests/embedded/crash/planted.rs"]
mod planted;
#[path = "../../../crates/stores/embedded/tests/embedded/crash/state.rs"]
mod state;
#[path = "../../../crates/stores/embedded/tests/embedded/crash/values.rs"]
mod values;

use crate::report::Row;
use crate::stopwatch::Stopwatch;
use exhaustive::{crash_everywhere, fail_everywhere};
use planted::{Carried, Planted};

/// Cuts the power after each operation.
pub(crate) fn cut_row() -> Row {
    let since = Stopwatch::start();
    let mut row = Row::new("embedded, every file operation", "reopenings");
    let (points, cases, broken) = crash_everywhere(Planted::Nothing, 1, usize::MAX);
    row.tried = count(cases);
    row.faults.insert("power cut".to_owned(), count(points));
    row.lost = count(broken.len());
    row.violations = broken.into_iter().take(ENOUGH).collect();
    for planted in LOSING {
        let (_, _, broken) = crash_everywhere(planted, 3, 1);
        let case = format!("detected (control): {planted:?}");
        row.seen.insert(case, count(broken.len()));
    }
    row.seconds = since.elapsed().as_secs_f64();
    row
}

/// Makes each operation fail once, with no room or for no reason.
pub(crate) fn failure_row() -> Row {
    let since = Stopwatch::start();
    let mut row = Row::new("embedded, every file operation fails", "failures");
    let (points, retried, broken) = fail_everywhere(Planted::Nothing, 1, usize::MAX);
    row.tried = count(points);
    row.faults
        .insert("failed operation".to_owned(), count(points));
    row.seen
        .insert("went on in place".to_owned(), count(retried));
    row.lost = count(broken.len());
    row.violations = broken.into_iter().take(ENOUGH).collect();
    for planted in [Planted::NoRenewal, Planted::KeptThoughFailed] {
        let (_, _, broken) = fail_everywhere(planted, 1, 1);
        let case = format!("detected (control): {planted:?}");
        row.seen.insert(case, count(broken.len()));
    }
    row.seconds = since.elapsed().as_secs_f64();
    row
}

fn count(number: usize) -> u64 {
    number as u64
}

/// Bugs that a power cut reveals.
const LOSING: [Planted; 7] = [
    Planted::NoSync,
    Planted::NoDirSync,
    Planted::NoCarrying(Carried::Records),
    Planted::NoCarrying(Carried::Audit),
    Planted::OrdersToldLater,
    Planted::DropsToldLater,
    Planted::TokensNotRaised,
];
/// Violations that are reported.
const ENOUGH: usize = 5;
