//! The store: each step is decided by `semel_core::decide`.

use semel_core::claim::ClaimRequest;
use semel_core::decide;
use semel_core::{
    Admission, Change, EntityRecord, FencingToken, Renewal, Renewed, Settled, Settlement, StateKind,
};

use super::answers::{Report, Told};
use super::judge::Cause;
use super::law::{Case, Law};
use super::numbers::{claim_id, fingerprint, instant, ticks, window};
use super::record::{Ent, Rec};
use super::subject::Protocol;
use super::world::{Before, Phase, Worker, World};
use super::wrong::Keeping;

impl Protocol {
    /// Asks for the claim of `post`.
    pub(crate) fn claim(&self, world: &mut World, post: u8, claim: u8) -> Told {
        let setup = &self.setup;
        let post = setup.posts[usize::from(post)];
        let at = usize::from(post.operation);
        let standing = world.standing(at, setup);
        let request = ClaimRequest {
            operation: self.operations[at].clone(),
            claim_id: claim_id(claim),
            fingerprint: Some(fingerprint(post.other_request)),
            members: None,
            transport: None,
            birth: setup.age_gate.then(|| instant(0)),
            window: window(setup),
            lease: ticks(setup.lease),
            limits: self.limits(),
            start: self.start(),
            gate: self.gate(post.operation),
            wants_outcome: true,
        };
        let found = self.found(world, at);
        let known = self.known(found, claim);
        let record = found.map(|record| record.to_core(&known, &self.entity));
        let entity = self.entity_record(world);
        let decision = decide::claim(
            record.as_ref(),
            entity.as_ref(),
            &request,
            instant(world.now),
            FencingToken::new(world.next_token.into()),
        );
        let mut after = Self::after(&decision.change, world.records[at]);
        if setup.keeping == Keeping::MovesFirstStart
            && standing.is_some()
            && decision.change != Change::Keep
            && let Some(after) = &mut after
            && after.lease().is_some()
        {
            after.first_start = world.now;
        }
        let granted = matches!(&decision.answer, Admission::Granted(claim) if !claim.resumed);
        self.write(
            world,
            at,
            after,
            decision.entity.as_ref(),
            Cause::Claim { granted },
        );
        self.told(world, at, standing, &decision.answer, claim)
    }

    /// Settles. Returns the state that the claim gets, or nothing if it is fenced.
    pub(crate) fn settle(
        &self,
        world: &mut World,
        operation: u8,
        claim: u8,
        report: Report,
    ) -> Option<StateKind> {
        let setup = &self.setup;
        let at = usize::from(operation);
        let any = match (report, setup.keeping) {
            (Report::Start, Keeping::StartsAny)
            | (Report::Complete { .. }, Keeping::CompletesAny)
            | (Report::Release { .. }, Keeping::ReleasesAny) => true,
            (
                Report::Start
                | Report::Begun
                | Report::Complete { .. }
                | Report::Release { .. }
                | Report::Fail { .. },
                _,
            ) => false,
        };
        let found = world.records[at];
        let known = if report == Report::Start {
            self.known(found, claim)
        } else {
            *setup
        };
        let record = found.map(|record| record.to_core(&known, &self.entity));
        let entity = self.entity_record(world);
        let as_claim = found.filter(|_| any).map_or(claim, |record| record.claim);
        let settlement = Settlement {
            operation: self.operations[at].clone(),
            claim_id: claim_id(as_claim),
            step: self.step(report),
        };
        let decision = decide::settle(
            record.as_ref(),
            entity.as_ref(),
            &settlement,
            instant(world.now),
        );
        let after = Self::after(&decision.change, found);
        let given_back = matches!(report, Report::Release { counted: false, .. });
        let cause = Cause::Settle {
            claim,
            given_back,
            decisive: report == Report::Fail { decisive: true },
        };
        self.write(world, at, after, decision.entity.as_ref(), cause);
        match decision.answer {
            Settled::Now(state) => {
                self.notes_begun(world, at, report);
                let was_in_doubt = found.is_some_and(|record| record.is_in_doubt());
                match (report, state) {
                    (Report::Complete { .. }, StateKind::Completed) if was_in_doubt => {
                        self.meets(Case::LateCompletion);
                    }
                    (Report::Fail { .. }, StateKind::Dead) if was_in_doubt => {
                        self.meets(Case::LateRefusal);
                    }
                    (Report::Fail { .. }, StateKind::Dead) => self.meets(Case::DeadByRefusal),
                    (Report::Fail { .. }, StateKind::InDoubt) => self.meets(Case::DoubtByRefusal),
                    (Report::Release { .. }, StateKind::Dead) => self.meets(Case::DeadByFailed),
                    (Report::Release { .. }, StateKind::InDoubt) => self.meets(Case::DoubtByCap),
                    (
                        Report::Start
                        | Report::Begun
                        | Report::Complete { .. }
                        | Report::Release { .. }
                        | Report::Fail { .. },
                        _,
                    ) => {}
                }
                Some(state)
            }
            Settled::Fenced { .. } | Settled::Failed(_) => None,
        }
    }

    /// Extends a lease. Returns whether the claim still has it.
    pub(crate) fn renew(&self, world: &mut World, operation: u8, claim: u8) -> bool {
        let at = usize::from(operation);
        let found = world.records[at];
        let any = self.setup.keeping == Keeping::RenewsAny;
        let as_claim = found.filter(|_| any).map_or(claim, |record| record.claim);
        let record = found.map(|record| record.to_core(&self.setup, &self.entity));
        let entity = self.entity_record(world);
        let renewal = Renewal {
            operation: self.operations[at].clone(),
            claim_id: claim_id(as_claim),
            lease: ticks(self.setup.lease),
        };
        let decision = decide::renew(
            record.as_ref(),
            entity.as_ref(),
            &renewal,
            instant(world.now),
        );
        let after = Self::after(&decision.change, found);
        let entity = decision.entity.as_ref();
        self.write(world, at, after, entity, Cause::Renew { claim });
        match decision.answer {
            Renewed::Until(_) => {
                let lease = found.and_then(|record| record.lease());
                if lease.is_some_and(|until| until <= world.now) {
                    self.meets(Case::RenewedAfterLease);
                }
                true
            }
            Renewed::Lost { .. } | Renewed::Failed(_) => {
                self.meets(Case::LostRenewal);
                false
            }
        }
    }

    /// Sweeps one record. Returns whether that changed it.
    pub(crate) fn sweep(&self, world: &mut World, operation: u8) -> bool {
        let at = usize::from(operation);
        let Some(found) = world.records[at] else {
            return false;
        };
        let change = match self.setup.keeping {
            Keeping::ForgetsEarly if found.finished().is_some() => Change::Remove,
            Keeping::SweepsDoubts if found.is_in_doubt() => Change::Remove,
            Keeping::Right
            | Keeping::ChecksThenActs
            | Keeping::CompletesAny
            | Keeping::StartsAny
            | Keeping::ReleasesAny
            | Keeping::RenewsAny
            | Keeping::RestartsTokens
            | Keeping::ForgetsEarly
            | Keeping::SweepsDoubts
            | Keeping::TrustsHaste
            | Keeping::MovesFirstStart
            | Keeping::RerunsParked
            | Keeping::ForgetsAny
            | Keeping::OverlooksAsked
            | Keeping::BeginsLate => decide::sweep(
                &found.to_core(&self.setup, &self.entity),
                instant(world.now),
            ),
        };
        if change == Change::Keep {
            return false;
        }
        let after = Self::after(&change, Some(found));
        if after.is_none() {
            if self.setup.keeping == Keeping::RestartsTokens {
                world.next_token = 1;
            }
            let post = |worker: &Worker| usize::from(worker.post);
            let holds = |worker: &Worker| {
                worker.phase != Phase::Idle && self.setup.posts[post(worker)].operation == operation
            };
            if world.workers.iter().any(holds) {
                self.meets(Case::EvictedWhileHeld);
            }
        } else {
            self.meets(Case::DoubtBySweep);
        }
        self.write(world, at, after, None, Cause::Sweep);
        true
    }

    /// The store forgets its newest write.
    pub(crate) fn forget(&self, world: &mut World) {
        if let Some(before) = world.before.take() {
            world.records[usize::from(before.operation)] = before.record;
            world.entity = before.entity;
            self.meets(Case::StoreForgot);
        }
    }

    /// Writes what was decided, and checks it against the laws.
    pub(crate) fn write(
        &self,
        world: &mut World,
        at: usize,
        after: Option<Rec>,
        entity: Option<&EntityRecord>,
        cause: Cause,
    ) {
        let raw = world.records[at];
        let before = world.standing(at, &self.setup);
        let entity = entity.map_or(world.entity, Ent::of);
        if raw == after && entity == world.entity {
            return;
        }
        if raw.is_some() && before.is_none() && after != raw {
            self.meets(Case::ForgottenUnswept);
        }
        if let Some(before) = before {
            self.judge(world, before, after, entity, cause);
        } else if after.is_some_and(|record| record.attempts != 1) {
            world.breaks(Law::OnlyAttemptsCount);
        }
        if world.left.amnesia > 0 {
            world.before = Some(Before {
                operation: u8::from(at > 0),
                record: raw,
                entity: world.entity,
            });
        }
        world.records[at] = after;
        world.entity = entity;
        let ended = |record: Rec| record.finished().is_some() || record.is_in_doubt();
        world.lives[at].ended |= after.is_some_and(ended);
    }

    pub(crate) fn after(change: &Change, found: Option<Rec>) -> Option<Rec> {
        match change {
            Change::Keep => found,
            Change::Put(record) => Some(Rec::of(record)),
            Change::Remove => None,
        }
    }

    pub(crate) fn entity_record(&self, world: &World) -> Option<EntityRecord> {
        self.setup.is_gated.then(|| world.entity.to_core())
    }
}
