//! The laws of class E, and the hard cases that must be met.

use crate::model::named::{laws, named};

laws! {
    /// A law of class E.
    Law:
    SingleOutput = "E1 one output per operation",
    NothingLost = "E2 nothing is read past that was neither put out nor set aside",
    FencedCommitsNothing = "E3 nobody commits for a partition once its next owner was told its offsets",
    OwnerKnows = "E4 whoever may decide knows everything that was committed",
    OnlyCommitted = "E5 nothing is known as committed that was not",
    OffsetsRise = "E6 how far the input was read never goes back",
}

named! {
    /// A hard case of class E.
    Case:
    FencedOffsets = "streamed: offsets of another generation refused",
    LossSeen = "streamed: thrown out between its records and its offsets",
    LostBefore = "streamed: partition lost before its transaction",
    CommittedAfterRebalance = "streamed: transaction committed after its partition had moved",
    WaitedForOffsets = "streamed: owner waits for an open transaction over its partition",
    WaitedForChangelog = "streamed: owner waits for the changelog's markers",
    AbortedBySuccessor = "streamed: transaction of a crash ended by the next producer of its name",
    AbortedByTime = "streamed: transaction ended by its timeout",
    FencedProducer = "streamed: producer found its transaction ended",
    ThrownOutByTwin = "streamed: producer thrown out by another one of its name",
    CommitUnknownApplied = "streamed: unknown commit that was applied",
    CommitUnknownNot = "streamed: unknown commit that was not",
    LateCommitLanded = "streamed: commit that came late",
    KnownAgain = "streamed: committed before its answer was lost, and known again",
    KnownPastWindow = "streamed: the same, known again past its window",
    ReplayAfterRestore = "streamed: replay by what another committed",
    ReplayOfOwn = "streamed: replay by what it committed itself",
    Conflict = "streamed: conflict",
    TooOld = "streamed: too old",
    Twins = "streamed: one key twice in a batch",
    HeldBack = "streamed: offset held back by an unfinished record",
    Refused = "streamed: set aside as dead",
    AckedAlone = "streamed: offsets committed without a transaction",
    AckFenced = "streamed: offsets without a transaction refused",
    MovedMeanwhile = "streamed: committed, and its partition moved before the answer",
    OlderOffsets = "streamed: marker of older offsets after that of newer ones",
    WrittenAhead = "streamed: committed behind a batch that was committed after it was written",
    FellBack = "streamed: what was written behind a batch that is written again",
    KnownAtLast = "streamed: found committed at the last look",
    Pending = "streamed: held back while its operation is committed",
}

named! {
    /// A fault that class E is dealt.
    Fault:
    Crash = "crash",
    AnswerLost = "answer lost",
    Delayed = "request late or lost",
    Rebalanced = "partition moved",
    TimedOut = "transaction timed out",
    TransformFailed = "call failed",
    AskedAgain = "asked again",
}
