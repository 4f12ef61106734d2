//! The decisions, with the mistakes of each bug before or after them.

use std::num::NonZeroU32;

use semel_core::decide::{self, Change, Decision};
use semel_core::{
    Admission, ClaimId, ClaimRequest, Duplicate, EntityRecord, Fingerprint, Outcome, Record,
    Recovery, Settled, Settlement, Start, State, StateKind, Step, Timestamp,
};

use super::Bug;
use super::store::{Loaded, Planted};

impl Planted {
    /// Decides a claim, as far as the bug lets it.
    pub(super) fn decide_claim(
        &self,
        loaded: &Loaded,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Decision<Admission> {
        let mut request = request.clone();
        let mut record = loaded.record.clone();
        let mut entity = loaded.entity.clone();
        self.mistake_claim(&mut request);
        if let Some(record) = &mut record {
            self.mistake_record(record, &request, now);
        }
        if let Some(entity) = &mut entity {
            self.mistake_entity(entity);
        }
        let mut decision = decide::claim(
            record.as_ref(),
            entity.as_ref(),
            &request,
            now,
            loaded.token,
        );
        if let Change::Put(record) = &mut decision.change {
            match self.bug {
                Bug::RepeatsUncounted => record.possible_repeats = 0,
                Bug::MembersReplaced => record.members.clone_from(&request.members),
                Bug::StartUnmarked => {
                    if let Start::Marked(_) = request.start
                        && let State::Started { lease_until, .. } = record.state
                    {
                        record.state = State::Claimed { lease_until };
                    }
                }
                _ => {}
            }
        }
        if let (Bug::ResumptionCutsLease, Admission::Granted(claim), Some(record)) =
            (self.bug, &decision.answer, record)
            && claim.resumed
        {
            decision.change = Change::Put(record);
        }
        if self.has(Bug::MembersUntold)
            && let Admission::Conflict { first, .. } = &mut decision.answer
        {
            *first = None;
        }
        if self.has(Bug::DuplicatesUnnamed)
            && let Admission::Replay { duplicate, .. } | Admission::Conflict { duplicate, .. } =
                &mut decision.answer
        {
            *duplicate = Duplicate::Unknown;
        }
        decision
    }

    /// Decides a settlement, as far as the bug lets it.
    pub(super) fn decide_settle(
        &self,
        loaded: &Loaded,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Decision<Settled> {
        let mut settlement = settlement.clone();
        let mut record = loaded.record.clone();
        let mut entity = loaded.entity.clone();
        match self.bug {
            Bug::StaleClaimCompletes => {
                if let (Step::Complete { .. }, Some(record)) = (&settlement.step, &record) {
                    settlement.claim_id = record.claim_id;
                }
            }
            Bug::StaleClaimReleases => {
                if let (Step::Release { .. }, Some(record)) = (&settlement.step, &record) {
                    settlement.claim_id = record.claim_id;
                }
            }
            Bug::OutcomeOverwritten => {
                if let (Step::Complete { .. }, Some(record)) = (&settlement.step, &mut record)
                    && let State::Completed { .. } = record.state
                {
                    record.state = State::Claimed { lease_until: now };
                }
            }
            Bug::LateEvidenceRefused => {
                if let Some(Record {
                    state: State::InDoubt { .. },
                    ..
                }) = &record
                {
                    settlement.claim_id = NOBODY;
                }
            }
            Bug::DoubtsDropped => {
                if let Step::Fail { decisive, .. } = &mut settlement.step {
                    *decisive = true;
                }
            }
            Bug::DoubtsNeverDropped => {
                if let Step::Fail { decisive, .. } = &mut settlement.step {
                    *decisive = false;
                }
            }
            Bug::GiveBacksCounted => {
                if let Step::Release { counted, .. } = &mut settlement.step {
                    *counted = true;
                }
            }
            Bug::VersionLowered => {
                if let Some(known) = &mut entity {
                    known.applied = None;
                }
            }
            Bug::OutcomeCut => {
                if let Step::Complete {
                    outcome: Outcome::Kept { bytes, .. },
                    ..
                } = &mut settlement.step
                {
                    bytes.truncate(65_535);
                }
            }
            Bug::CodecLost => {
                if let Step::Complete {
                    outcome: Outcome::Kept { codec, .. },
                    ..
                } = &mut settlement.step
                {
                    *codec = 0;
                }
            }
            _ => {}
        }
        let mut decision = decide::settle(record.as_ref(), entity.as_ref(), &settlement, now);
        if self.has(Bug::MembersDropped)
            && let Change::Put(record) = &mut decision.change
        {
            record.members = None;
        }
        if self.has(Bug::EntityNotFreed)
            && let Settled::Now(StateKind::Released) = decision.answer
        {
            decision.entity = None;
        }
        decision
    }

    fn mistake_claim(&self, request: &mut ClaimRequest) {
        match self.bug {
            Bug::FingerprintsIgnored => request.fingerprint = None,
            Bug::SchemesCompared => request.fingerprint = without_scheme(request.fingerprint),
            Bug::AgeGateOff => request.birth = None,
            Bug::NoAttemptCap => {
                request.limits.failed = NonZeroU32::MAX;
                request.limits.vanished = NonZeroU32::MAX;
            }
            _ => {}
        }
    }

    fn mistake_record(&self, record: &mut Record, request: &ClaimRequest, now: Timestamp) {
        match (self.bug, &mut record.state) {
            (Bug::SchemesCompared, _) => record.fingerprint = without_scheme(record.fingerprint),
            (Bug::NeverResumed, _) if record.claim_id == request.claim_id => {
                record.claim_id = NOBODY;
            }
            (
                Bug::SupersededResumed,
                State::Claimed { lease_until } | State::Started { lease_until, .. },
            ) if *lease_until <= now => {
                let mut past = record.past.iter();
                if let Some(old) = past.find(|old| old.claim_id == request.claim_id) {
                    (record.claim_id, record.token) = (old.claim_id, old.token);
                }
            }
            (
                Bug::ResumptionCutsLease,
                State::Claimed { lease_until } | State::Started { lease_until, .. },
            ) if record.claim_id == request.claim_id => {
                *lease_until = record.claimed_at.plus(request.lease);
            }
            (
                Bug::LeasesIgnored,
                State::Claimed { lease_until } | State::Started { lease_until, .. },
            ) => *lease_until = now,
            (Bug::BackoffIgnored, State::Released { not_before }) => *not_before = now,
            (Bug::ParksRerun, State::Started { recovery, .. }) => *recovery = Recovery::Rerun,
            (Bug::DoubtsRerun, State::InDoubt { .. }) => {
                (record.state, record.doubt) = (State::Released { not_before: now }, None);
            }
            (Bug::ProviderWindowRenewed, State::Started { lease_until, .. }) => {
                record.first_started_at = Some(*lease_until);
            }
            (Bug::NeverForgotten, _) => record.held = true,
            _ => {}
        }
    }

    fn mistake_entity(&self, entity: &mut EntityRecord) {
        match self.bug {
            Bug::EqualVersionsPass => {
                entity.applied = entity.applied.map(|applied| applied.saturating_sub(1));
            }
            Bug::VersionsAreSigned => {
                entity.applied = entity.applied.filter(|it| i64::try_from(*it).is_ok());
            }
            Bug::EntityNotHeld => entity.holder = None,
            _ => {}
        }
    }
}

fn without_scheme(fingerprint: Option<Fingerprint>) -> Option<Fingerprint> {
    fingerprint.map(|it| Fingerprint { scheme: 0, ..it })
}

/// No claimant has this id.
pub(super) const NOBODY: ClaimId = ClaimId::from_u128(u128::MAX - 1);
