//! What must hold in every state, and the hard cases that must be met.

/// A law of the protocol, checked at every step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Law {
    SingleEffect,
    AcknowledgedSettled,
    NoLoss,
    OneLiveClaim,
    TokensRise,
    CompletedStays,
    DoubtStays,
    UnresolvedStays,
    KeptItsWindow,
    KeyInsideWindow,
    RepeatsCounted,
    FencedLeavesNoTrace,
    ResumedIsTheSame,
    AttemptsCapped,
    VersionsRise,
    FirstOutcome,
    LeaseIsItsOwn,
    CompletedHappened,
    DeadDidNotHappen,
    DoubtHasACause,
    TooOldIsNotNew,
    FirstStartStays,
    ParkedIsNotRerun,
    OneHolder,
    OnlyAttemptsCount,
    ReuseIsConflict,
    BackoffKept,
}

impl Law {
    pub(crate) const ALL: [Self; 27] = [
        Self::SingleEffect,
        Self::AcknowledgedSettled,
        Self::NoLoss,
        Self::OneLiveClaim,
        Self::TokensRise,
        Self::CompletedStays,
        Self::DoubtStays,
        Self::UnresolvedStays,
        Self::KeptItsWindow,
        Self::KeyInsideWindow,
        Self::RepeatsCounted,
        Self::FencedLeavesNoTrace,
        Self::ResumedIsTheSame,
        Self::AttemptsCapped,
        Self::VersionsRise,
        Self::FirstOutcome,
        Self::LeaseIsItsOwn,
        Self::CompletedHappened,
        Self::DeadDidNotHappen,
        Self::DoubtHasACause,
        Self::TooOldIsNotNew,
        Self::FirstStartStays,
        Self::ParkedIsNotRerun,
        Self::OneHolder,
        Self::OnlyAttemptsCount,
        Self::ReuseIsConflict,
        Self::BackoffKept,
    ];

    /// The invariant (I, as in the plan of the proof) or law that it is, in words.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SingleEffect => "I1 one effect per operation",
            Self::AcknowledgedSettled => "I2 acknowledged only with a record that carries it on",
            Self::NoLoss => "I3 nothing acknowledged is lost",
            Self::OneLiveClaim => "I4 CLM-1 CLM-6 one live claim",
            Self::TokensRise => "I5 CLM-2 tokens rise",
            Self::CompletedStays => "I6 OUT-1 a completed record never changes",
            Self::DoubtStays => {
                "I7 DBT-5 a doubt stays until its claim, a probe or a person ends it"
            }
            Self::UnresolvedStays => "I8 WIN-3 nothing unresolved is removed",
            Self::KeptItsWindow => "I9 WIN-1 a finished record is kept its window",
            Self::KeyInsideWindow => "I10 DBT-3 a key is reused inside its provider's window only",
            Self::RepeatsCounted => "DBT-4 every possible repeat is counted",
            Self::FencedLeavesNoTrace => "CLM-3 a superseded claim changes nothing",
            Self::ResumedIsTheSame => "CLM-4 a resumed claim is the same claim",
            Self::AttemptsCapped => "ATT-1 attempts are capped",
            Self::VersionsRise => "VER-1 versions are applied in rising order",
            Self::FirstOutcome => "I11 OUT-2 every duplicate gets the first outcome",
            Self::LeaseIsItsOwn => "CLM-5 a lease is extended by its own claim only",
            Self::CompletedHappened => "what is completed did happen",
            Self::DeadDidNotHappen => "ATT-1 what is dead did not happen",
            Self::DoubtHasACause => "DBT-1 what is in doubt was started",
            Self::TooOldIsNotNew => "WIN-2 what is too old is not new",
            Self::FirstStartStays => "DBT-3 the first start stays",
            Self::ParkedIsNotRerun => "DBT-1 what is to be parked is not rerun",
            Self::OneHolder => "VER-2 one live claim per entity",
            Self::OnlyAttemptsCount => "I14 ATT-2 only attempts count as attempts",
            Self::ReuseIsConflict => "FPR-1 a reused key is a conflict",
            Self::BackoffKept => "CLM-8 a backoff is kept",
        }
    }

    pub(crate) const fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// A hard case. A run that never met one of them did not try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Case {
    Takeover,
    TakenWhileAtIt,
    FencedStart,
    FencedCompletion,
    FencedRelease,
    FencedCommit,
    LateCompletion,
    ResumedAfterLostAnswer,
    ResumedAfterLease,
    TooOld,
    DeadByVanished,
    DeadByFailed,
    DeadByRefusal,
    DoubtByVanished,
    DoubtByWindow,
    DoubtByCap,
    DoubtBySweep,
    ReplayToAnother,
    ReplayOfOwn,
    StaleAck,
    EvictedWhileHeld,
    ForgottenUnswept,
    NotAppliedThenRerun,
    NotQuiet,
    ResolvedApplied,
    Abandoned,
    Requeued,
    ProviderReplayed,
    LostRenewal,
    RenewedAfterLease,
    BusyThenHandedBack,
    BackoffBusy,
    CommitUnknownApplied,
    CommitUnknownNot,
    LateClaimLanded,
    LateCallLanded,
    LateReportLanded,
    RepeatListed,
    RepeatHappened,
    Conflict,
    StaleVersion,
    OlderAfterNewer,
    EntityBusy,
    GivenBack,
    EndedByOperator,
    HeldBeyondWindow,
    StoreForgot,
}

impl Case {
    pub(crate) const COUNT: usize = Self::ALL.len();

    pub(crate) const ALL: [Self; 47] = [
        Self::Takeover,
        Self::TakenWhileAtIt,
        Self::FencedStart,
        Self::FencedCompletion,
        Self::FencedRelease,
        Self::FencedCommit,
        Self::LateCompletion,
        Self::ResumedAfterLostAnswer,
        Self::ResumedAfterLease,
        Self::TooOld,
        Self::DeadByVanished,
        Self::DeadByFailed,
        Self::DeadByRefusal,
        Self::DoubtByVanished,
        Self::DoubtByWindow,
        Self::DoubtByCap,
        Self::DoubtBySweep,
        Self::ReplayToAnother,
        Self::ReplayOfOwn,
        Self::StaleAck,
        Self::EvictedWhileHeld,
        Self::ForgottenUnswept,
        Self::NotAppliedThenRerun,
        Self::NotQuiet,
        Self::ResolvedApplied,
        Self::Abandoned,
        Self::Requeued,
        Self::ProviderReplayed,
        Self::LostRenewal,
        Self::RenewedAfterLease,
        Self::BusyThenHandedBack,
        Self::BackoffBusy,
        Self::CommitUnknownApplied,
        Self::CommitUnknownNot,
        Self::LateClaimLanded,
        Self::LateCallLanded,
        Self::LateReportLanded,
        Self::RepeatListed,
        Self::RepeatHappened,
        Self::Conflict,
        Self::StaleVersion,
        Self::OlderAfterNewer,
        Self::EntityBusy,
        Self::GivenBack,
        Self::EndedByOperator,
        Self::HeldBeyondWindow,
        Self::StoreForgot,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Takeover => "takeover",
            Self::TakenWhileAtIt => "taken over from a worker that goes on",
            Self::FencedStart => "fenced at start",
            Self::FencedCompletion => "fenced at completion",
            Self::FencedRelease => "fenced at release",
            Self::FencedCommit => "fenced commit rolled back",
            Self::LateCompletion => "late completion of a doubt",
            Self::ResumedAfterLostAnswer => "claim resent after a lost answer and resumed",
            Self::ResumedAfterLease => "claim resumed after its lease",
            Self::TooOld => "too old",
            Self::DeadByVanished => "dead by the cap of vanished attempts",
            Self::DeadByFailed => "dead by the cap of failed attempts",
            Self::DeadByRefusal => "dead by refusal",
            Self::DoubtByVanished => "in doubt after a worker vanished",
            Self::DoubtByWindow => "in doubt past the provider's window",
            Self::DoubtByCap => "in doubt at a cap",
            Self::DoubtBySweep => "in doubt by the sweep",
            Self::ReplayToAnother => "replay to another worker",
            Self::ReplayOfOwn => "replay of its own completion",
            Self::StaleAck => "stale acknowledgement",
            Self::EvictedWhileHeld => "evicted while a delivery was held",
            Self::ForgottenUnswept => "forgotten and not swept yet",
            Self::NotAppliedThenRerun => "found not applied and run again",
            Self::NotQuiet => "verdict refused: not quiet",
            Self::ResolvedApplied => "resolved as applied",
            Self::Abandoned => "abandoned",
            Self::Requeued => "requeued",
            Self::ProviderReplayed => "provider replayed its answer",
            Self::LostRenewal => "renewal lost",
            Self::RenewedAfterLease => "renewed after its lease",
            Self::BusyThenHandedBack => "busy",
            Self::BackoffBusy => "busy by backoff",
            Self::CommitUnknownApplied => "unknown commit that was applied",
            Self::CommitUnknownNot => "unknown commit that was fenced",
            Self::LateClaimLanded => "claim request that came late",
            Self::LateCallLanded => "call that came late",
            Self::LateReportLanded => "report that came late",
            Self::RepeatListed => "possible repeat listed",
            Self::RepeatHappened => "repeat that did happen",
            Self::Conflict => "conflict",
            Self::StaleVersion => "stale version",
            Self::OlderAfterNewer => "older version that came after a newer one",
            Self::EntityBusy => "entity busy",
            Self::GivenBack => "given back at shutdown",
            Self::EndedByOperator => "wait ended by an operator",
            Self::HeldBeyondWindow => "held beyond its window",
            Self::StoreForgot => "store forgot its newest write",
        }
    }
}

/// A fault that is dealt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Fault {
    Crash,
    AnswerLost,
    Delayed,
    Redelivered,
    CallFailed,
    WriteForgotten,
}

impl Fault {
    pub(crate) const ALL: [Self; 6] = [
        Self::Crash,
        Self::AnswerLost,
        Self::Delayed,
        Self::Redelivered,
        Self::CallFailed,
        Self::WriteForgotten,
    ];
    pub(crate) const COUNT: usize = Self::ALL.len();

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::AnswerLost => "answer lost",
            Self::Delayed => "request late or lost",
            Self::Redelivered => "delivered to another as well",
            Self::CallFailed => "call failed",
            Self::WriteForgotten => "write forgotten",
        }
    }
}
