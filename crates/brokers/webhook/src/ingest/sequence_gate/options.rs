//! The settings of a sequence gate.

use std::time::Duration;

use semel_core::select::Selector;

/// Settings of a sequence gate before a source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct GateOptions {
    /// The id of the producer.
    pub producer: Selector,
    /// The epoch of its opening.
    pub epoch: Selector,
    /// The sequence of the message.
    pub sequence: Selector,
    /// True if messages without an identity are set aside.
    pub is_required: bool,
    /// True if a producer that is not on record may begin with any sequence.
    pub is_any_first: bool,
    /// True if other workers may have the same journal.
    pub is_shared: bool,
    /// True if a gap that lasts ends the source, instead of setting aside what is behind it.
    pub stops_at_gap: bool,
    /// The time for which a message is held, and nothing of its producer was taken, before the gap before it is told.
    pub hold: Duration,
    /// The most messages that are held: with one more, the tenth that was read first is set aside. `None` where the broker
    /// bounds how many it hands over.
    pub most_held: Option<usize>,
}
