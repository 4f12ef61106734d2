//! The laws of producers and of the gate, and the hard cases that must be met.

use crate::model::named::{laws, named};

laws! {
    /// A law of producers.
    Law:
    OnceInOrder = "P1 each message is taken once, in the order of its producer",
    OnlyAppended = "P2 nothing is taken that the journal does not have",
    OnlyTaken = "P3 nothing is confirmed that was not taken",
    FencedIsOver = "P4 nothing of an opening is taken once a later one was heard of",
}

named! {
    /// A hard case of producers.
    Case:
    Known = "producer: the gate knows a request",
    PartlyKnown = "producer: the gate knows the beginning of a request",
    Gap = "producer: a request overtook the one before it",
    FencedAtGate = "producer: fenced at the gate",
    FencedAtJournal = "producer: fenced at the journal",
    SentAgain = "producer: sent again by a later opening",
    TakenAfterDeath = "producer: taken after its process had died",
    Finished = "producer: everything taken and confirmed",
}

named! {
    /// A fault that producers are dealt.
    Fault:
    Killed = "producer killed",
    Lost = "request or answer lost",
    Again = "request that comes twice",
    OpenedBeside = "opened beside a process that goes on",
}
