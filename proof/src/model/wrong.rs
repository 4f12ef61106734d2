//! Workers and stores that make mistakes, to show that the model notices.

/// The behaviour of a worker. All but the first are wrong, to show that the model notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// As it should.
    Right,
    /// Acknowledges as soon as the claim is granted. M04
    AcksFirst,
    /// Acknowledges a message whose operation another worker works on. M07
    DropsBusy,
    /// Acknowledges although its completion was fenced. M06
    AcksFenced,
    /// Calls before it claims.
    CallsFirst,
    /// Completes before it calls. M01
    CompletesFirst,
    /// Derives the provider's key from the attempt. M08
    KeysByAttempt,
    /// Does not mark a claim that must be marked. M10
    MarksNothing,
    /// Says that its unmarked effect may have been applied, and not that it has begun. H23
    HidesBegun,
    /// Takes a lost answer for a success.
    TrustsSilence,
    /// Dates a probe's finding to the time at which the store gets it.
    DatesLate,
}

/// The behaviour of a store. All but the first are wrong, to show that the model notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "what is wrong is for the tests")
)]
pub(crate) enum Keeping {
    /// As `decide` says.
    Right,
    /// Grants a key that was free when it looked, and looks early. M02
    ChecksThenActs,
    /// Takes the completion of any claim. M03
    CompletesAny,
    /// Takes the start of any claim. M11
    StartsAny,
    /// Takes the release of any claim. M12
    ReleasesAny,
    /// Takes the renewal of any claim. M13
    RenewsAny,
    /// Begins to count tokens anew when a record is removed. M14
    RestartsTokens,
    /// Removes every finished record, inside its window or not. M05
    ForgetsEarly,
    /// Removes records in doubt. M32
    SweepsDoubts,
    /// Believes at once that a doubtful effect did not happen. M33
    TrustsHaste,
    /// Gives a taken-over operation the first start of its latest attempt. M09
    MovesFirstStart,
    /// Forgets any record that an order names.
    ForgetsAny,
    /// Reruns effects that are to be parked.
    RerunsParked,
    /// Takes the evidence of a probe for as new as its arrival.
    OverlooksAsked,
    /// Resumes and starts its own claims past the provider's window.
    BeginsLate,
}
