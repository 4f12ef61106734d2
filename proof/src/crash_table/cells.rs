//! Every scene of the table, under the words that the page has for it.

use std::time::Duration;

use semel_simulation::on_cue::broker::OnAcknowledge;
use semel_simulation::on_cue::fault::Fault;
use semel_simulation::on_cue::stage::Kind;

use super::deal::{Deal, EVICTION, LONG, Moment};
use super::scene::{Gate, Scene};

/// One row of the table: a step and the fault there.
pub(crate) struct Cell {
    pub(crate) id: &'static str,
    pub(crate) step: &'static str,
    pub(crate) fault: &'static str,
    pub(crate) scene: Scene,
}

const fn cell(id: &'static str, step: &'static str, fault: &'static str, scene: Scene) -> Cell {
    Cell {
        id,
        step,
        fault,
        scene,
    }
}

/// The classes of the page, by the kind of effect that stands for each.
pub(crate) const CLASSES: [(&str, Kind); 7] = [
    ("output", Kind::Output),
    ("transaction", Kind::Transaction),
    ("keyed", Kind::Keyed),
    ("repeat", Kind::Repeat),
    ("stream", Kind::Stream),
    ("park", Kind::Park),
    ("gated", Kind::Gated),
];

use Deal::{Acknowledge, Claim, ClaimOutage, Effect, Fetch, Park, Renewal, Settle, SettleOutage};
use Fault::{CrashAfter, CrashBefore, Cut, DelayAfter, DelayBefore, Full, Items, LoseAnswer};
use Scene::{Again, AgainLate, Alone, AtOnce, Beside, Evicted, InTurn, Twice, Unusable};

const BEFORE: Fault = DelayBefore(LONG);
const AFTER: Fault = DelayAfter(LONG);
const DEAD: Deal = Effect(Moment::Dead);
const LATE: Deal = Claim(DelayBefore(EVICTION));
const SOON: Moment = Moment::InFlight(Duration::from_secs(5));
const AFTERWARDS: Moment = Moment::InFlight(Duration::from_secs(45));

pub(crate) const CELLS: &[Cell] = &[
    cell("S0", "delivery", "crash after", Alone(Fetch)),
    cell("S1", "no usable key", "none", Unusable(None)),
    cell(
        "S1",
        "no usable key, set aside",
        "error before",
        Unusable(Some(Park(Cut))),
    ),
    cell(
        "S1",
        "no usable key, set aside",
        "crash before",
        Unusable(Some(Park(CrashBefore))),
    ),
    cell(
        "S1",
        "no usable key, set aside",
        "answer lost",
        Unusable(Some(Park(LoseAnswer))),
    ),
    cell(
        "S1",
        "no usable key, set aside",
        "crash after",
        Unusable(Some(Park(CrashAfter))),
    ),
    cell(
        "S1",
        "no usable key, set aside",
        "pause beyond the lease",
        Unusable(Some(Park(BEFORE))),
    ),
    cell("S2", "claim", "error before", Alone(Claim(Cut))),
    cell("S2", "claim", "crash before", Alone(Claim(CrashBefore))),
    cell("S3", "claim", "its item fails alone", Alone(Claim(Items))),
    cell("S3", "claim", "answer lost", Alone(Claim(LoseAnswer))),
    cell("S3", "claim", "crash after", Alone(Claim(CrashAfter))),
    cell(
        "Z1",
        "claim",
        "pause before, while another does it",
        Beside(Claim(BEFORE)),
    ),
    cell(
        "Z1",
        "claim",
        "pause before, past eviction, age gate on",
        Evicted(LATE, Gate::On),
    ),
    cell(
        "Z1'",
        "claim",
        "pause before, past eviction, age gate off",
        Evicted(LATE, Gate::Off),
    ),
    cell(
        "Z2",
        "claim",
        "pause beyond the lease",
        Beside(Claim(AFTER)),
    ),
    cell(
        "S4",
        "effect",
        "crash before",
        Alone(Effect(Moment::Before)),
    ),
    cell(
        "S5",
        "effect",
        "error before",
        Alone(Effect(Moment::Refused)),
    ),
    cell("S5", "effect", "panic before", Alone(Effect(Moment::Panic))),
    cell("S5'", "effect", "refused for good", Alone(DEAD)),
    cell(
        "S5'",
        "effect, refused for good; set aside",
        "error before",
        Twice(DEAD, Park(Cut)),
    ),
    cell(
        "S5'",
        "effect, refused for good; set aside",
        "crash before",
        Twice(DEAD, Park(CrashBefore)),
    ),
    cell(
        "S5'",
        "effect, refused for good; set aside",
        "answer lost",
        Twice(DEAD, Park(LoseAnswer)),
    ),
    cell(
        "S5'",
        "effect, refused for good; set aside",
        "crash after",
        Twice(DEAD, Park(CrashAfter)),
    ),
    cell(
        "S6",
        "effect",
        "crash, it lands within the lease",
        Alone(Effect(SOON)),
    ),
    cell(
        "S6",
        "effect",
        "crash, it lands after a takeover",
        Alone(Effect(AFTERWARDS)),
    ),
    cell("S7", "effect", "answer lost", Alone(Effect(Moment::Cut))),
    cell(
        "S7",
        "effect",
        "crash after",
        Alone(Effect(Moment::Applied)),
    ),
    cell(
        "S7'",
        "effect; effect of the next attempt",
        "answer lost; refused for good",
        Twice(Effect(Moment::Cut), DEAD),
    ),
    cell(
        "S7'",
        "effect; effect of the next attempt",
        "crash after; refused for good",
        InTurn(Effect(Moment::Applied), DEAD),
    ),
    cell(
        "S7'",
        "effect; effect of the next attempt",
        "request lost; refused for good",
        Twice(Effect(Moment::Lost), DEAD),
    ),
    cell(
        "S7'",
        "effect; effect of the next attempt",
        "request lost; refused for good, for the earlier attempt too",
        Twice(Effect(Moment::Lost), Effect(Moment::DeadForAll)),
    ),
    cell(
        "S8",
        "effect",
        "crash after, its answer known",
        Alone(Effect(Moment::Known)),
    ),
    cell(
        "Z3",
        "effect",
        "pause beyond the lease, before it",
        Beside(Effect(Moment::SlowBefore)),
    ),
    cell(
        "Z5",
        "effect",
        "pause beyond the lease, after it",
        Beside(Effect(Moment::SlowAfter)),
    ),
    cell(
        "Z12",
        "effect",
        "pause beyond the lease; refused for good",
        Beside(Effect(Moment::LateDead)),
    ),
    cell(
        "Z12",
        "effect",
        "pause beyond the lease; refused for good, for every attempt",
        Beside(Effect(Moment::LateDeadForAll)),
    ),
    cell("R1", "renewal", "error before", Alone(Renewal(Cut))),
    cell("R1", "renewal", "crash before", Alone(Renewal(CrashBefore))),
    cell("R2", "renewal", "answer lost", Alone(Renewal(LoseAnswer))),
    cell("R2", "renewal", "crash after", Alone(Renewal(CrashAfter))),
    cell(
        "Z7",
        "renewal",
        "pause beyond the lease",
        Beside(Effect(Moment::Long)),
    ),
    cell(
        "Z11",
        "renewal",
        "pause beyond the lease, while another is at it",
        AtOnce(Effect(Moment::Long), Effect(Moment::Meanwhile)),
    ),
    cell("S9a", "completion", "error before", Alone(Settle(Cut))),
    cell(
        "S9a",
        "completion",
        "crash before",
        Alone(Settle(CrashBefore)),
    ),
    cell(
        "S9a",
        "completion",
        "its item fails alone",
        Alone(Settle(Items)),
    ),
    cell(
        "S9b",
        "completion",
        "answer lost",
        Alone(Settle(LoseAnswer)),
    ),
    cell(
        "S9b",
        "completion",
        "crash after",
        Alone(Settle(CrashAfter)),
    ),
    cell(
        "Z4",
        "completion",
        "pause beyond the lease, before it",
        Beside(Settle(BEFORE)),
    ),
    cell(
        "Z10",
        "completion",
        "pause beyond the lease, while another is at it",
        AtOnce(Settle(BEFORE), Effect(Moment::Meanwhile)),
    ),
    cell(
        "Z4",
        "completion",
        "pause beyond the lease, after it",
        Beside(Settle(AFTER)),
    ),
    cell(
        "S10",
        "acknowledgement",
        "crash before",
        Alone(Acknowledge(OnAcknowledge::Crash)),
    ),
    cell(
        "S11",
        "acknowledgement",
        "error before",
        Alone(Acknowledge(OnAcknowledge::Lose)),
    ),
    cell(
        "S11",
        "acknowledgement",
        "answer lost",
        Alone(Acknowledge(OnAcknowledge::LoseAnswer)),
    ),
    cell(
        "S11",
        "acknowledgement",
        "crash after",
        Alone(Acknowledge(OnAcknowledge::CrashAfter)),
    ),
    cell(
        "Z6",
        "acknowledgement",
        "pause beyond the lease",
        Beside(Acknowledge(OnAcknowledge::Delay(LONG))),
    ),
    cell("S12", "sent again", "inside the window", Again),
    cell(
        "S13",
        "sent again",
        "after eviction, age gate on",
        AgainLate(Gate::On),
    ),
    cell(
        "S13'",
        "sent again",
        "after eviction, age gate off",
        AgainLate(Gate::Off),
    ),
    cell(
        "K1",
        "claim",
        "store away for a minute",
        Alone(ClaimOutage(Cut)),
    ),
    cell(
        "K2",
        "completion",
        "store away for a minute",
        Alone(SettleOutage(Cut)),
    ),
    cell(
        "K6",
        "claim",
        "store full for a minute",
        Alone(ClaimOutage(Full)),
    ),
    cell(
        "K6",
        "completion",
        "store full for a minute",
        Alone(SettleOutage(Full)),
    ),
];
