//! The laws of the output class, and the hard cases that must be met.

use crate::model::named::{laws, named};

laws! {
    /// A law of the output class. A line is recorded if it lies before the mark of its file.
    Law:
    SingleLine = "O1 one recorded line per operation",
    LineForRecord = "O2 MRK-1 MRK-2 what is completed has its recorded line",
    RecordForLine = "O3 MRK-1 MRK-2 a recorded line is of an operation that was completed",
    CoversMark = "O4 an output is never shorter than its mark",
    WholeLines = "O5 what is recorded is whole",
    BeforeStays = "O6 what an output held before it had a mark stays",
    AcknowledgedRecorded = "O7 acknowledged only what is recorded or set aside",
    NothingLost = "O8 nothing acknowledged is lost",
    RefusedLeavesNoTrace = "O9 MRK-1 a batch that is refused changes nothing",
}

named! {
    /// A hard case of the output class.
    Case:
    TailCut = "output: cut back after a crash",
    HalfCut = "output: half a line cut off",
    RecordedThenCrashed = "output: recorded, and crashed before it was known",
    FirstMark = "output: first mark behind what was there before",
    RecordedTwo = "output: two recorded together",
    RecordedAgain = "output: recorded again after a lost answer",
    RefusedWhole = "output: batch refused, nothing of it left",
    RefusedPartly = "output: batch refused, the rest recorded without what was lost",
    KnownByMark = "output: refused, but the mark knew that it was recorded",
    Takeover = "output: takeover",
    TakenWhileWriting = "output: taken over from a worker that has appended",
    Resumed = "output: claim resumed after a lost answer",
    GaveBack = "output: append failed, cut back and given back",
    FencedRelease = "output: given back too late",
    ReplayToAnother = "output: replay to another worker",
    ReplayOfOwn = "output: replay to the next life of its worker",
    Busy = "output: busy",
    TooOld = "output: too old",
    StaleAck = "output: stale acknowledgement",
    ClaimsForgotten = "output: claims forgotten by a store that was reopened",
    EvictedWhileHeld = "output: evicted while a delivery was held",
    AdmittedTwo = "output: two admitted together",
    AdmissionUndone = "output: append failed, and what was admitted taken back",
    CommitRefused = "output: commit of what was admitted refused",
    CommittedUnheard = "output: admitted, and its answer lost",
    CommittedAfterCrash = "output: admitted after its worker had crashed",
    WaitsWhole = "output: admission waited for a key that was busy",
}

named! {
    /// A fault that the output class is dealt.
    Fault:
    Crash = "crash",
    AnswerLost = "answer lost",
    Redelivered = "delivered to another as well",
    AppendFailed = "append failed",
    CrashedInAppend = "crash in the middle of an append",
    StoreReopened = "store reopened without its claims",
    CommitRefused = "commit refused",
}
