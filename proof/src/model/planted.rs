//! The mistakes of the model's own workers and store, where T14 plants them: bugs of the product are planted
//! there.

use semel_core::planted;

use super::setup::Setup;
use super::wrong::{Conduct, Keeping};

/// The setup with the bug that this process has, if it has one.
pub(super) fn into(setup: Setup) -> Setup {
    let conduct = if planted("M01") {
        Conduct::CompletesFirst
    } else if planted("M04") {
        Conduct::AcksFirst
    } else if planted("M06") {
        Conduct::AcksFenced
    } else if planted("M07") {
        Conduct::DropsBusy
    } else if planted("M08") {
        Conduct::KeysByAttempt
    } else if planted("M10") {
        Conduct::MarksNothing
    } else if planted("H23") {
        Conduct::HidesBegun
    } else {
        setup.conduct
    };
    let keeping = if planted("M02") {
        Keeping::ChecksThenActs
    } else {
        setup.keeping
    };
    Setup {
        conduct,
        keeping,
        age_gate: setup.age_gate && !planted("M18"),
        ..setup
    }
}
