//! Every step of a delivery × a crash or a cut there × every class: one named test per cell.
//!
//! The table is `docs`' too: each row prints itself. Two notes on reading it. A marked claim (keyed,
//! repeat, park) starts with its grant, so that S3 and S4 leave what other protocols leave only at
//! S5b; the step between claim and start is the attempt handle's, and `attempt.rs` tests it. A
//! transaction has no steps inside: whatever crashes before its commit is rolled back.

mod expected;
mod scene;

use std::time::Duration;

use semel_engine::summary::Fate::{self, Applied, InDoubt, Quarantined, Replayed, Stale, TooOld};

use crate::world::broker::OnAcknowledge;
use crate::world::faulty::Fault;
use crate::world::stage::Kind;
use expected::{Expected, done, doubt, fates, given_up, repeated};
use scene::{Moment, Pause, Scene, play};

/// One cell of the table.
struct Row {
    step: &'static str,
    what: &'static str,
    kind: Kind,
    scene: Scene,
    expected: Expected,
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "| {} | {} | {:?} | {} |",
            self.step, self.what, self.kind, self.expected
        )
    }
}

/// Writes the table, and one test per cell, named `step::kind`.
macro_rules! crash_table {
    ($($name:ident, $step:literal, $what:literal, $scene:expr => {
        $($test:ident $kind:ident: $expected:expr,)+
    })+) => {
        const ROWS: &[Row] = &[$($(Row {
            step: $step,
            what: $what,
            kind: Kind::$kind,
            scene: $scene,
            expected: $expected,
        },)+)+];

        $(mod $name {
            use super::*;

            $(#[tokio::test(start_paused = true)]
            async fn $test() {
                check($step, $what, Kind::$kind).await;
            })+
        })+
    };
}

async fn check(step: &str, what: &str, kind: Kind) {
    let row = ROWS
        .iter()
        .find(|row| (row.step, row.what, row.kind) == (step, what, kind));
    let row = row.expect("the macro writes a row for each test");
    let seen = Box::pin(play(row.kind, row.scene)).await;
    assert_eq!(seen, row.expected.seen(), "{row}");
}

crash_table! {
    s0, "S0", "handed over, nothing done; crash", Scene::HandedOver => {
        output Output: done(1, APPLIED),
        transaction Transaction: done(1, APPLIED),
        keyed Keyed: done(1, APPLIED),
        repeat Repeat: done(1, APPLIED),
        stream Stream: done(1, APPLIED),
        park Park: done(1, APPLIED),
        gated Gated: done(1, APPLIED),
    }
    s1, "S1", "no usable key", Scene::Unusable => {
        output Output: given_up(0, &["key-missing"], QUARANTINED),
        transaction Transaction: given_up(0, &["key-missing"], QUARANTINED),
        keyed Keyed: given_up(0, &["key-missing"], QUARANTINED),
        repeat Repeat: given_up(0, &["key-missing"], QUARANTINED),
        stream Stream: given_up(0, &["key-missing"], QUARANTINED),
        park Park: given_up(0, &["key-missing"], QUARANTINED),
        gated Gated: given_up(0, &["key-missing"], QUARANTINED),
    }
    s2_cut, "S2", "claim sent, not applied; cut", Scene::Claim(Fault::Cut) => {
        output Output: done(1, APPLIED),
        transaction Transaction: done(1, APPLIED),
        keyed Keyed: done(1, APPLIED),
        repeat Repeat: done(1, APPLIED),
        stream Stream: done(1, APPLIED),
        park Park: done(1, APPLIED),
        gated Gated: done(1, APPLIED),
    }
    s2_crash, "S2", "claim sent, not applied; crash", Scene::Claim(Fault::CrashBefore) => {
        output Output: done(1, APPLIED),
        transaction Transaction: done(1, APPLIED),
        keyed Keyed: done(1, APPLIED),
        repeat Repeat: done(1, APPLIED),
        stream Stream: done(1, APPLIED),
        park Park: done(1, APPLIED),
        gated Gated: done(1, APPLIED),
    }
    s3_cut, "S3", "claim applied, answer lost; cut", Scene::Claim(Fault::LoseAnswer) => {
        output Output: done(1, APPLIED),
        keyed Keyed: done(1, APPLIED),
        repeat Repeat: done(1, APPLIED),
        stream Stream: done(1, APPLIED),
        park Park: done(1, APPLIED),
        gated Gated: done(1, APPLIED),
    }
    s3_crash, "S3", "claim applied, answer lost; crash", Scene::Claim(Fault::CrashAfter) => {
        output Output: done(1, APPLIED),
        keyed Keyed: done(1, APPLIED),
        repeat Repeat: repeated(1, APPLIED),
        stream Stream: repeated(1, APPLIED),
        park Park: doubt(0, IN_DOUBT),
        gated Gated: done(1, APPLIED),
    }
    s3_items, "S3", "the claim's item fails alone; cut", Scene::Claim(Fault::Items) => {
        output Output: done(1, APPLIED),
        transaction Transaction: done(1, APPLIED),
        keyed Keyed: done(1, APPLIED),
        repeat Repeat: done(1, APPLIED),
        stream Stream: done(1, APPLIED),
        park Park: done(1, APPLIED),
        gated Gated: done(1, APPLIED),
    }
    s4, "S4", "effect running, nothing sent; crash", Scene::Effect(Moment::Before) => {
        output Output: done(1, APPLIED),
        transaction Transaction: done(1, APPLIED),
        keyed Keyed: done(1, APPLIED),
        repeat Repeat: repeated(1, APPLIED),
        stream Stream: repeated(1, APPLIED),
        park Park: doubt(0, IN_DOUBT),
        gated Gated: done(1, APPLIED),
    }
    s6_soon, "S6", "effect in flight, lands within the lease; crash", SOON => {
        output Output: done(1, APPLIED),
        transaction Transaction: done(1, APPLIED),
        keyed Keyed: done(1, APPLIED),
        repeat Repeat: repeated(2, APPLIED),
        stream Stream: repeated(2, APPLIED),
        park Park: doubt(1, IN_DOUBT),
        gated Gated: done(1, APPLIED),
    }
    s6_late, "S6", "effect in flight, lands after a takeover; crash", LATE => {
        keyed Keyed: done(1, APPLIED),
        repeat Repeat: repeated(2, APPLIED),
        stream Stream: repeated(2, APPLIED),
        park Park: doubt(1, IN_DOUBT),
        gated Gated: done(1, APPLIED),
    }
    s7_cut, "S7", "effect applied, answer lost; cut", Scene::Effect(Moment::Cut) => {
        output Output: done(1, APPLIED),
        transaction Transaction: done(1, APPLIED),
        keyed Keyed: done(1, APPLIED),
        repeat Repeat: repeated(2, APPLIED),
        stream Stream: repeated(2, APPLIED),
        park Park: doubt(1, IN_DOUBT),
        gated Gated: done(1, APPLIED),
    }
    s7_crash, "S7", "effect applied, answer lost; crash", Scene::Effect(Moment::Applied) => {
        output Output: done(1, APPLIED),
        transaction Transaction: done(1, REPLAYED),
        keyed Keyed: done(1, APPLIED),
        repeat Repeat: repeated(2, APPLIED),
        stream Stream: repeated(2, APPLIED),
        park Park: doubt(1, IN_DOUBT),
        gated Gated: done(1, APPLIED),
    }
    s8, "S8", "effect known done, completion not sent; crash", Scene::Effect(Moment::Known) => {
        output Output: done(1, APPLIED),
        keyed Keyed: done(1, APPLIED),
        repeat Repeat: repeated(2, APPLIED),
        stream Stream: repeated(2, APPLIED),
        park Park: doubt(1, IN_DOUBT),
        gated Gated: done(1, APPLIED),
    }
    s9a_cut, "S9a", "completion sent, not applied; cut", Scene::Settle(Fault::Cut) => {
        output Output: done(1, APPLIED),
        transaction Transaction: done(1, APPLIED),
        keyed Keyed: done(1, APPLIED),
        repeat Repeat: done(1, APPLIED),
        stream Stream: done(1, APPLIED),
        park Park: done(1, APPLIED),
        gated Gated: done(1, APPLIED),
    }
    s9a_crash, "S9a", "completion sent, not applied; crash", Scene::Settle(Fault::CrashBefore) => {
        output Output: done(1, APPLIED),
        transaction Transaction: done(1, APPLIED),
        keyed Keyed: done(1, APPLIED),
        repeat Repeat: repeated(2, APPLIED),
        stream Stream: repeated(2, APPLIED),
        park Park: doubt(1, IN_DOUBT),
        gated Gated: done(1, APPLIED),
    }
    s9a_items, "S9a", "the completion's item fails alone; cut", Scene::Settle(Fault::Items) => {
        output Output: done(1, APPLIED),
        transaction Transaction: done(1, APPLIED),
        keyed Keyed: done(1, APPLIED),
        repeat Repeat: done(1, APPLIED),
        stream Stream: done(1, APPLIED),
        park Park: done(1, APPLIED),
        gated Gated: done(1, APPLIED),
    }
    s9b_cut, "S9b", "completion applied, answer lost; cut", Scene::Settle(Fault::LoseAnswer) => {
        output Output: done(1, APPLIED),
        transaction Transaction: done(1, APPLIED),
        keyed Keyed: done(1, APPLIED),
        repeat Repeat: done(1, APPLIED),
        stream Stream: done(1, APPLIED),
        park Park: done(1, APPLIED),
        gated Gated: done(1, APPLIED),
    }
    s9b_crash, "S9b", "completion applied, answer lost; crash", Scene::Settle(Fault::CrashAfter) => {
        output Output: done(1, REPLAYED),
        transaction Transaction: done(1, REPLAYED),
        keyed Keyed: done(1, REPLAYED),
        repeat Repeat: done(1, REPLAYED),
        stream Stream: done(1, REPLAYED),
        park Park: done(1, REPLAYED),
        gated Gated: done(1, REPLAYED),
    }
    s10, "S10", "done, acknowledgement not sent; crash", Scene::Acknowledge(OnAcknowledge::Crash) => {
        output Output: done(1, REPLAYED),
        transaction Transaction: done(1, REPLAYED),
        keyed Keyed: done(1, REPLAYED),
        repeat Repeat: done(1, REPLAYED),
        stream Stream: done(1, REPLAYED),
        park Park: done(1, REPLAYED),
        gated Gated: done(1, REPLAYED),
    }
    s11, "S11", "acknowledgement sent, lost", Scene::Acknowledge(OnAcknowledge::Lose) => {
        output Output: done(1, BOTH),
        transaction Transaction: done(1, BOTH),
        keyed Keyed: done(1, BOTH),
        repeat Repeat: done(1, BOTH),
        stream Stream: done(1, BOTH),
        park Park: done(1, BOTH),
        gated Gated: done(1, BOTH),
    }
    s12, "S12", "sent again inside the window", Scene::Again => {
        output Output: done(1, BOTH),
        transaction Transaction: done(1, BOTH),
        keyed Keyed: done(1, BOTH),
        repeat Repeat: done(1, BOTH),
        stream Stream: done(1, BOTH),
        park Park: done(1, BOTH),
        gated Gated: done(1, BOTH),
    }
    s13, "S13", "sent again after eviction, age gate on", Scene::AgainLate { gate: true } => {
        output Output: given_up(1, &["too-old"], TOO_OLD),
        transaction Transaction: given_up(1, &["too-old"], TOO_OLD),
        keyed Keyed: given_up(1, &["too-old"], TOO_OLD),
        repeat Repeat: given_up(1, &["too-old"], TOO_OLD),
        stream Stream: given_up(1, &["too-old"], TOO_OLD),
        park Park: given_up(1, &["too-old"], TOO_OLD),
        gated Gated: given_up(1, &["too-old"], TOO_OLD),
    }
    s13_gate_off, "S13'", "sent again after eviction, gate off", Scene::AgainLate { gate: false } => {
        output Output: done(2, TWICE),
        transaction Transaction: done(2, TWICE),
        keyed Keyed: done(2, TWICE),
        repeat Repeat: done(2, TWICE),
        stream Stream: done(2, TWICE),
        park Park: done(2, TWICE),
        gated Gated: given_up(1, &[], STALE),
    }
    z1, "Z1", "paused before the claim, past eviction, gate on", Z1_GATE_ON => {
        output Output: given_up(1, &["too-old"], TOO_OLD),
        transaction Transaction: given_up(1, &["too-old"], TOO_OLD),
        keyed Keyed: given_up(1, &["too-old"], TOO_OLD),
        repeat Repeat: given_up(1, &["too-old"], TOO_OLD),
        stream Stream: given_up(1, &["too-old"], TOO_OLD),
        park Park: given_up(1, &["too-old"], TOO_OLD),
        gated Gated: given_up(1, &["too-old"], TOO_OLD),
    }
    z1_gate_off, "Z1", "paused before the claim, past eviction, gate off", Z1_GATE_OFF => {
        output Output: done(2, TWICE),
        transaction Transaction: done(2, TWICE),
        keyed Keyed: done(2, TWICE),
        repeat Repeat: done(2, TWICE),
        stream Stream: done(2, TWICE),
        park Park: done(2, TWICE),
        gated Gated: given_up(1, &[], STALE),
    }
    z2, "Z2", "paused after the claim, before the effect", Scene::Zombie(Pause::Claimed) => {
        output Output: done(1, BOTH),
        keyed Keyed: done(1, BOTH),
        repeat Repeat: repeated(1, BOTH),
        stream Stream: repeated(1, BOTH),
        park Park: doubt(0, TWO_IN_DOUBT),
        gated Gated: done(1, BOTH),
    }
    z3, "Z3", "paused after the start, before the call", Scene::Zombie(Pause::Started) => {
        keyed Keyed: done(1, BOTH),
        repeat Repeat: repeated(2, BOTH),
        stream Stream: repeated(2, BOTH),
        park Park: fates(1, &["in-doubt"], LATE_EVIDENCE),
        gated Gated: done(1, BOTH),
    }
    z4, "Z4", "paused inside the commit", Scene::Zombie(Pause::Committing) => {
        output Output: done(1, BOTH),
        transaction Transaction: done(1, BOTH),
    }
    z5, "Z5", "paused during the call", Scene::Zombie(Pause::Calling) => {
        keyed Keyed: done(1, BOTH),
        repeat Repeat: repeated(2, BOTH),
        stream Stream: repeated(2, BOTH),
        park Park: fates(1, &["in-doubt"], LATE_EVIDENCE),
        gated Gated: done(1, BOTH),
    }
    z6, "Z6", "paused after done, before the acknowledgement", Scene::Zombie(Pause::Acknowledging) => {
        output Output: done(1, BOTH),
        transaction Transaction: done(1, BOTH),
        keyed Keyed: done(1, BOTH),
        repeat Repeat: done(1, BOTH),
        stream Stream: done(1, BOTH),
        park Park: done(1, BOTH),
        gated Gated: done(1, BOTH),
    }
    z7, "Z7", "a zombie's renewal is refused and stops its call", Scene::Zombie(Pause::Renewing) => {
        keyed Keyed: done(1, BOTH),
        repeat Repeat: repeated(1, BOTH),
        gated Gated: done(1, BOTH),
    }
    k1, "K1", "unavailable at the claim for a minute", Scene::ClaimOutage(Fault::Cut) => {
        output Output: done(1, APPLIED).in_attempts(1),
        transaction Transaction: done(1, APPLIED).in_attempts(1),
        keyed Keyed: done(1, APPLIED).in_attempts(1),
        repeat Repeat: done(1, APPLIED).in_attempts(1),
        stream Stream: done(1, APPLIED).in_attempts(1),
        park Park: done(1, APPLIED).in_attempts(1),
        gated Gated: done(1, APPLIED).in_attempts(1),
    }
    k2, "K2", "unavailable at completion for a minute", Scene::SettleOutage(Fault::Cut) => {
        output Output: done(1, APPLIED).in_attempts(1),
        keyed Keyed: done(1, APPLIED).in_attempts(1),
        repeat Repeat: done(1, APPLIED).in_attempts(1),
        stream Stream: done(1, APPLIED).in_attempts(1),
        park Park: done(1, APPLIED).in_attempts(1),
        gated Gated: done(1, APPLIED).in_attempts(1),
    }
    k6_claim, "K6", "no space at the claim for a minute", Scene::ClaimOutage(Fault::Full) => {
        output Output: done(1, APPLIED).in_attempts(1),
        transaction Transaction: done(1, APPLIED).in_attempts(1),
        keyed Keyed: done(1, APPLIED).in_attempts(1),
        repeat Repeat: done(1, APPLIED).in_attempts(1),
        stream Stream: done(1, APPLIED).in_attempts(1),
        park Park: done(1, APPLIED).in_attempts(1),
        gated Gated: done(1, APPLIED).in_attempts(1),
    }
    k6_settle, "K6", "no space at completion for a minute", Scene::SettleOutage(Fault::Full) => {
        output Output: done(1, APPLIED).in_attempts(1),
        keyed Keyed: done(1, APPLIED).in_attempts(1),
        repeat Repeat: done(1, APPLIED).in_attempts(1),
        stream Stream: done(1, APPLIED).in_attempts(1),
        park Park: done(1, APPLIED).in_attempts(1),
        gated Gated: done(1, APPLIED).in_attempts(1),
    }
}

type Fates = &'static [(Fate, u64)];

const APPLIED: Fates = &[(Applied, 1)];
const REPLAYED: Fates = &[(Replayed, 1)];
const QUARANTINED: Fates = &[(Quarantined, 1)];
const IN_DOUBT: Fates = &[(InDoubt, 1)];
const TWO_IN_DOUBT: Fates = &[(InDoubt, 2)];
const TWICE: Fates = &[(Applied, 2)];
const BOTH: Fates = &[(Applied, 1), (Replayed, 1)];
const TOO_OLD: Fates = &[(Applied, 1), (TooOld, 1)];
const STALE: Fates = &[(Applied, 1), (Stale, 1)];
const LATE_EVIDENCE: Fates = &[(Applied, 1), (InDoubt, 1)];

const SOON: Scene = Scene::Effect(Moment::InFlight(Duration::from_secs(5)));
const LATE: Scene = Scene::Effect(Moment::InFlight(Duration::from_secs(45)));
const Z1_GATE_ON: Scene = Scene::Zombie(Pause::Unclaimed { gate: true });
const Z1_GATE_OFF: Scene = Scene::Zombie(Pause::Unclaimed { gate: false });

#[test]
fn the_table_has_every_step_and_no_cell_twice() {
    let mut steps: Vec<_> = ROWS.iter().map(|row| row.step).collect();
    steps.dedup();
    assert_eq!(
        steps,
        [
            "S0", "S1", "S2", "S3", "S4", "S6", "S7", "S8", "S9a", "S9b", "S10", "S11", "S12",
            "S13", "S13'", "Z1", "Z2", "Z3", "Z4", "Z5", "Z6", "Z7", "K1", "K2", "K6",
        ]
    );
    for (index, row) in ROWS.iter().enumerate() {
        let same = |other: &Row| (other.what, other.kind) == (row.what, row.kind);
        assert!(!ROWS[..index].iter().any(same), "{row} stands twice");
    }
}
