//! The laws of relays, and the hard cases that must be met.

use crate::model::named::{laws, named};

laws! {
    /// A law of relays.
    Law:
    InOrder = "R1 what is published begins with what was committed first, and leaves nothing out",
    OnlyCommitted = "R2 nothing is published that was not committed",
    OnlyPublished = "R3 nothing is on record as sent that was not published",
    OnlyUnderLease = "R4 nobody begins to publish without the lease",
    ToldOfAll = "R5 whoever reads under the lease is told of what is committed and not sent",
    NoIdleRepeat = "R6 nothing is published twice while nothing goes wrong",
}

named! {
    /// A hard case of relays.
    Case:
    LateCommit = "relay: committed behind a message that began later",
    Fenced = "relay: read without the lease that it counted on",
    Withheld = "relay: read in time, and not published since the lease was lost",
    Again = "relay: published again",
    AfterDeath = "relay: published after its process had died",
    Finished = "relay: everything published and on record",
}

named! {
    /// A fault that relays are dealt.
    Fault:
    Killed = "relay killed",
    Expired = "lease of a relay that stands still",
    Failed = "publication that fails",
    Unanswered = "publication without an answer",
}
