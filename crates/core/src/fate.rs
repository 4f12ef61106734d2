//! Fates: how the handing-over of a message ended.

/// The final fate of one delivery: the engine counts it, and tells it to the source that handed the
/// delivery over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// Its effect happened in this run.
    Applied,
    /// A duplicate of something finished.
    Replayed,
    /// Older than what its entity has.
    Stale,
    /// Its key belongs to another request; quarantined.
    Conflict,
    /// No record, and older than the window; quarantined.
    TooOld,
    /// Given back unfinished, at shutdown or to whoever has it now. Such a delivery is requeued: it is the
    /// one fate that is never acknowledged.
    Released,
    /// Its operation is dead.
    Dead,
    /// Its operation is in doubt.
    InDoubt,
    /// It yields no usable key; quarantined.
    Quarantined,
    /// Its effect happened in this run without a claim, while the store was away and the pipeline failed
    /// open.
    Unprotected,
}
