//! Every law by name. `docs/spec` states them at length; the conformance suite tests them.

use std::fmt;

macro_rules! laws {
    ($($(#[doc = $sentence:literal])+ $name:ident = $id:literal,)+) => {
        /// A promise that every store, source or sink keeps, or the engine over any of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum LawId {
            $($(#[doc = $sentence])+ $name,)+
        }

        impl LawId {
            /// Every law.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The id, as in `CLM-1`.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id,)+ }
            }

            /// The law in one sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$name => concat!($($sentence),+),)+ }
            }
        }
    };
}

laws! {
    /// At most one live claim exists per operation.
    OneClaim = "CLM-1",
    /// Fencing tokens rise with every claim over the whole life of a store, across deletion and restart.
    TokensRise = "CLM-2",
    /// A claim that was superseded changes nothing.
    StaleClaimFenced = "CLM-3",
    /// Asking again with the same claim id resumes the same claim.
    ClaimResumed = "CLM-4",
    /// A lease is extended only by its own claim, also after its end if nobody took over.
    LeaseOwned = "CLM-5",
    /// A claim whose lease ended is taken over by the next claimant, never before.
    Takeover = "CLM-6",
    /// Two operations never meet: tenant, operation name and key, byte for byte and by type, tell them apart.
    Identity = "CLM-7",
    /// A released operation is granted again, no earlier than its backoff.
    ReleasedAgain = "CLM-8",
    /// An outcome is written once, and repeating the same completion is harmless.
    OutcomeOnce = "OUT-1",
    /// Every duplicate inside the window gets the first outcome, byte for byte.
    SameOutcome = "OUT-2",
    /// A key reused for another request is a conflict and leaves the record unchanged.
    Reuse = "FPR-1",
    /// Fingerprints of different schemes, or none, are never a conflict.
    Incomparable = "FPR-2",
    /// The members of the first request are kept with its fingerprint and handed out with every conflict.
    MembersKept = "FPR-3",
    /// A finished record is kept at least its window.
    KeptInWindow = "WIN-1",
    /// A message without a record and older than the window less its margin is too old, never new.
    AgeGate = "WIN-2",
    /// An unresolved record is never forgotten on its own.
    UnresolvedKept = "WIN-3",
    /// A finished record counts as absent at the latest an eighth of its window plus one second after it.
    ForgottenInTime = "WIN-4",
    /// A started effect is never run again on its own where its recovery is to park.
    DoubtParked = "DBT-1",
    /// A late completion of the same claim resolves a doubt.
    LateEvidence = "DBT-2",
    /// A started effect is rerun inside its provider's window and in doubt past it, counted from the first start.
    ProviderWindow = "DBT-3",
    /// Every attempt that may have repeated an effect is counted on the record.
    RepeatsCounted = "DBT-4",
    /// Only a person or a probe turns a doubt into anything else, and "not applied" only after quiescence.
    Resolved = "DBT-5",
    /// A failure drops the doubt of earlier attempts only where it speaks for them as well.
    DecisiveOnly = "DBT-6",
    /// Attempts are capped by the store's own count: dead where surely not applied, else in doubt.
    AttemptsCapped = "ATT-1",
    /// Busy answers, resumed claims and work given back at shutdown are no attempts.
    BusyIsNoAttempt = "ATT-2",
    /// Attempts that ended without completing are kept on the record with their end, the latest sixteen; of two in a row that were given back, the earlier goes first.
    PastKept = "ATT-3",
    /// An older or equal version of an entity is stale.
    VersionGate = "VER-1",
    /// At most one live claim works on one entity.
    OneClaimPerEntity = "VER-2",
    /// Items of a batch are answered in order and succeed or fail on their own.
    BatchOrder = "BAT-1",
    /// One key twice in a batch is decided as if asked twice in a row.
    BatchRepeats = "BAT-2",
    /// A batch settled together with a mark is applied whole or not at all.
    MarkTogether = "MRK-1",
    /// Operations admitted together with a mark are complete with it, or none of them is.
    AdmittedTogether = "MRK-2",
    /// A parked message is kept once, whole, until somebody drops it.
    ParkedOnce = "PRK-1",
    /// Records of a durable store survive reopening it.
    Durable = "DUR-1",
    /// Lists are complete and paged without a repeat while nothing changes.
    ListComplete = "LST-1",
    /// An order ends a wait for the next claim and for nobody else.
    ReleaseOrdered = "ORD-1",
    /// An order with a note leaves one audit entry, written together with its change.
    AuditedOnce = "AUD-1",
    /// A store that imported an export decides every key as the exported store would have.
    Transferred = "XFR-1",
    /// An import adds what is not there and replaces nothing.
    ImportAdds = "XFR-2",
    /// A message that was not acknowledged is delivered again, to this consumer or the next, whole and with the same coordinates.
    DeliveredAgain = "SRC-1",
    /// A message that was acknowledged before a source was closed is not delivered again, unless something older was not.
    NotDeliveredAgain = "SRC-2",
    /// Acknowledging one delivery settles no other; a stale id settles nothing.
    SettledAlone = "SRC-3",
    /// A delivery that was told to be still worked on is handed to nobody else.
    Held = "SRC-4",
    /// A message that a sink has confirmed is with the broker, whole.
    Confirmed = "SNK-1",
    /// Effect and record commit together.
    Together = "INB-1",
    /// One message's failing statement fails that message alone, and leaves nothing of it behind.
    StatementAlone = "INB-2",
}

impl fmt::Display for LawId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_shows_as_its_id() {
        assert_eq!(LawId::VersionGate.to_string(), "VER-1");
    }
}
