//! The consequences of each action in class E.

use super::Streamed;
use super::law::Case;
use super::setup::{Conduct, Fencing, Names};
use super::steps::{Action, Came, Net};
use super::world::{
    Assignment, Member, RESTARTED, Restore, Stage, Stands, Transaction, Work, World,
};
use crate::model::numbers::NONE;
use crate::model::steps::index;

impl Streamed {
    pub(crate) fn happens(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Tick => next.now += 1,
            Action::Take { member, came } => self.take(&mut next, usize::from(member), came)?,
            Action::Go { member, net } => self.goes(&mut next, usize::from(member), net),
            Action::Ahead { member } => self.goes_ahead(&mut next, usize::from(member)),
            Action::Again { member } => {
                next.left.again -= 1;
                let member = &mut next.members[usize::from(member)];
                member.ahead = member.work.map(|work| Work {
                    producer: 1 - work.producer,
                    stage: Stage::Ready,
                    ..work
                });
            }
            Action::Restore { member } => self.restore(&mut next, usize::from(member)),
            Action::Ack { member } => self.ack(&mut next, usize::from(member)),
            Action::Rebalance { to } => {
                next.left.rebalances -= 1;
                next.group.generation += 1;
                next.group.owner = to;
            }
            Action::ThrownOut { member } => {
                next.members[usize::from(member)].generation = NONE;
            }
            Action::Rejoin { member } => {
                let group = next.group;
                let is_owner = group.owner == member;
                let member = &mut next.members[usize::from(member)];
                member.generation = group.generation;
                member.assignment = is_owner.then(|| Assignment::new(group.generation));
            }
            Action::Crash { member } => {
                next.left.crashes -= 1;
                next.members[usize::from(member)] = RESTARTED;
                if self.setup.names == Names::Fresh {
                    for transaction in &mut next.log {
                        if Member::are_one_s(transaction.name, member) {
                            transaction.name = NONE;
                        }
                    }
                }
            }
            Action::TimeOut { at } => {
                let mut works = next.members.iter().flat_map(Member::works);
                if works.any(|it| it.transaction() == Some(at)) {
                    next.left.timeouts -= 1;
                }
                self.aborts(&mut next, at, Case::AbortedByTime);
            }
            Action::Mark { at, changelog } => self.marks(&mut next, at, changelog),
            Action::Land => self.lands(&mut next),
        }
        if let Some(fault) = action.fault() {
            self.tally.deals(fault as usize);
        }
        self.look(&mut next);
        Some(next)
    }

    /// Decides the next records, and transforms the granted ones.
    fn take(&self, world: &mut World, member: usize, came: Came) -> Option<()> {
        let mut assignment = world.members[member].assignment?;
        let before = world.members[member].work;
        let producer = before.map_or(0, |before| 1 - before.producer);
        let pending = before.map_or(0, |before| before.batch);
        let name = Member::name(self.setup.names, index(member), producer);
        let mut batch = self.admit(world, name, &mut assignment, pending);
        match came {
            Came::Done => {}
            Came::Fails | Came::Refused if batch == 0 => return None,
            Came::Fails => {
                world.left.failures -= 1;
                batch &= batch - 1;
            }
            Came::Refused => {
                world.left.refusals -= 1;
                let first = batch & batch.wrapping_neg();
                batch &= !first;
                world.listed |= first;
                assignment.finished |= first;
                self.meets(Case::Refused);
            }
        }
        let member = &mut world.members[member];
        if batch == 0 && member.assignment == Some(assignment) {
            return None;
        }
        member.assignment = Some(assignment);
        let work = (batch != 0).then_some(Work {
            assignment: assignment.id,
            batch,
            tried: NONE,
            producer,
            stage: Stage::Ready,
        });
        if before.is_some() {
            member.ahead = work;
        } else {
            member.work = work;
        }
        Some(())
    }

    /// The next step of a transaction.
    fn goes(&self, world: &mut World, member: usize, net: Net) {
        let at = world.members[member];
        let Some(mut work) = at.work else {
            return;
        };
        let own = at.assignment.filter(|it| it.id == work.assignment);
        match work.stage {
            Stage::Ready => return self.begins(world, member, own, work, false),
            Stage::Wrote { at: to } if self.is_out_of_date(world, own, work) => {
                self.aborts(world, to, Case::KnownAtLast);
                work.stage = Stage::Ready;
            }
            Stage::Wrote { at: to } if self.setup.conduct == Conduct::LooksFirst => {
                return self.looks(world, member, own, work, to, NONE);
            }
            Stage::Wrote { at: to } => {
                work.stage = Stage::Knows {
                    at: to,
                    generation: at.generation,
                };
            }
            Stage::Knows { at: to, generation } => {
                return self.looks(world, member, own, work, to, generation);
            }
            Stage::Looked {
                at: to,
                generation,
                behind,
            } => {
                let late = self.setup.conduct == Conduct::LooksFirst;
                let generation = if late { at.generation } else { generation };
                work.stage = self.offers(world, member, work.producer, to, generation, behind);
            }
            Stage::Offered { at: to } => return self.asks(world, member, work, to, net),
        }
        world.members[member].work = Some(work);
    }

    /// Returns whether some of the written records were committed since, or whether that is not known.
    fn is_out_of_date(&self, world: &World, own: Option<Assignment>, work: Work) -> bool {
        own.is_some_and(|own| {
            let is_looked = self.setup.conduct != Conduct::SkipsLastLook;
            own.restore != Restore::Done || (is_looked && self.known(world, own, work) != 0)
        })
    }

    /// Takes the next step of the batch that is written while another one is committed.
    fn goes_ahead(&self, world: &mut World, member: usize) {
        let at = world.members[member];
        let Some(mut ahead) = at.ahead else {
            return;
        };
        let Some(written) = ahead.transaction() else {
            let own = at.assignment.filter(|it| it.id == ahead.assignment);
            return self.begins(world, member, own, ahead, true);
        };
        if world.log[usize::from(written)].stands == Stands::Open {
            self.aborts(world, written, Case::FellBack);
        }
        ahead.stage = Stage::Ready;
        world.members[member].ahead = Some(ahead);
    }

    /// Begins a transaction over records that are not known to be committed, with a producer that ends the
    /// former one.
    fn begins(
        &self,
        world: &mut World,
        member: usize,
        own: Option<Assignment>,
        mut work: Work,
        is_ahead: bool,
    ) {
        let name = Member::name(self.setup.names, index(member), work.producer);
        let producer = 1 << work.producer;
        let Some(mut assignment) = own else {
            self.meets(Case::LostBefore);
            world.members[member].goes_on(is_ahead, None);
            return;
        };
        let known = self.known(world, assignment, work);
        if known != 0 {
            self.meets(Case::KnownAgain);
            assignment.finished |= known;
            work.batch &= !known;
            let it = &mut world.members[member];
            it.assignment = Some(assignment);
            it.goes_on(is_ahead, (work.batch != 0).then_some(work));
            return;
        }
        if world.members[member].producers & producer == 0 {
            let mut open = world.transactions().iter();
            let open = open.rposition(|it| it.name == name && it.stands == Stands::Open);
            if let Some(open) = open {
                self.aborts(world, index(open), Case::AbortedBySuccessor);
            }
            world.members[member].producers |= producer;
            world.newest[usize::from(name)] = index(member);
            return;
        }
        if usize::from(world.newest[usize::from(name)]) != member {
            self.meets(Case::ThrownOutByTwin);
            world.members[member].producers &= !producer;
            return;
        }
        let at = world.len;
        world.log[usize::from(at)] = Transaction {
            name,
            records: work.batch,
            at: world.now,
            assignment: work.assignment,
            behind: NONE,
            is_older: false,
            stands: Stands::Open,
        };
        world.len += 1;
        work.stage = Stage::Wrote { at };
        world.members[member].goes_on(is_ahead, Some(work));
    }

    /// Checks that the partition is its own, and finds the position that the batch moves it to.
    fn looks(
        &self,
        world: &mut World,
        member: usize,
        own: Option<Assignment>,
        mut work: Work,
        at: u8,
        generation: u8,
    ) {
        let is_lost = world.members[member].generation == NONE
            && self.setup.conduct != Conduct::OverlooksLoss;
        work.stage = if let Some(own) = own.filter(|_| !is_lost) {
            let done = own.finished | work.batch;
            let behind = self.behind(own, work.batch).unwrap_or(own.from);
            if u32::from(behind) < u8::BITS - done.leading_zeros() {
                self.meets(Case::HeldBack);
            }
            Stage::Looked {
                at,
                generation,
                behind,
            }
        } else {
            self.aborts(world, at, Case::LossSeen);
            Stage::Ready
        };
        world.members[member].work = Some(work);
    }

    /// Puts the offsets into the transaction; the group coordinator may refuse them.
    fn offers(
        &self,
        world: &mut World,
        member: usize,
        producer: u8,
        at: u8,
        generation: u8,
        behind: u8,
    ) -> Stage {
        if world.log[usize::from(at)].stands != Stands::Open {
            self.meets(Case::FencedProducer);
            world.members[member].producers &= !(1 << producer);
            return Stage::Ready;
        }
        if self.setup.conduct == Conduct::LeavesOffsetsOut {
            return Stage::Offered { at };
        }
        let is_taken = match self.setup.fencing {
            // A client in no generation is no member, and nothing is required of its generation.
            Fencing::Generation | Fencing::Transactions => {
                generation == world.group.generation || generation == NONE
            }
            Fencing::Nothing => true,
        };
        if !is_taken {
            self.aborts(world, at, Case::FencedOffsets);
            return Stage::Ready;
        }
        world.log[usize::from(at)].behind = behind;
        Stage::Offered { at }
    }

    /// Asks for the commit.
    fn asks(&self, world: &mut World, member: usize, work: Work, at: u8, net: Net) {
        let is_open = world.log[usize::from(at)].stands == Stands::Open;
        if !is_open {
            self.meets(Case::FencedProducer);
            return self.unknown(world, member, work);
        }
        match net {
            Net::Answered => {
                self.commits(world, at);
                self.answered(world, member, work, at);
            }
            Net::AnswerLost => {
                world.left.lost -= 1;
                self.commits(world, at);
                self.meets(Case::CommitUnknownApplied);
                if self.setup.conduct == Conduct::TrustsSilence {
                    return self.answered(world, member, work, at);
                }
                self.unknown(world, member, work);
            }
            Net::Delayed => {
                world.left.delayed -= 1;
                world.late = Some(at);
                if self.setup.conduct == Conduct::TrustsSilence {
                    return self.answered(world, member, work, at);
                }
                self.unknown(world, member, work);
            }
        }
    }

    fn answered(&self, world: &mut World, member: usize, work: Work, at: u8) {
        let behind = world.log[usize::from(at)].behind;
        let member = &mut world.members[member];
        if let Some(ahead) = member.ahead
            && ahead.batch != work.batch
            && ahead.transaction().is_some()
        {
            self.meets(Case::WrittenAhead);
        }
        member.goes_on(false, None);
        match &mut member.assignment {
            Some(own) if own.id == work.assignment => {
                own.finished |= work.batch;
                own.image |= 1 << at;
                if behind != NONE {
                    own.acked = behind;
                }
            }
            Some(_) | None => self.meets(Case::MovedMeanwhile),
        }
    }

    /// The result of a commit is unknown: makes another producer, and reads the image on.
    fn unknown(&self, world: &mut World, member: usize, mut work: Work) {
        if let Some(at) = work.transaction() {
            work.tried = world.log[usize::from(at)].at;
        }
        let member = &mut world.members[member];
        member.producers &= !(1 << work.producer);
        if let Some(again) = &mut member.ahead
            && again.batch == work.batch
        {
            again.tried = work.tried;
        }
        work.stage = Stage::Ready;
        member.work = Some(work);
        if self.setup.conduct != Conduct::ForgetsSilence
            && let Some(own) = &mut member.assignment
            && own.restore != Restore::Position
        {
            own.restore = Restore::Offsets;
        }
    }

    /// Commits offsets without a transaction.
    fn ack(&self, world: &mut World, member: usize) {
        let at = world.members[member];
        let Some(mut own) = at.assignment else {
            return;
        };
        let Some(behind) = self.behind(own, 0) else {
            return;
        };
        let is_taken = match self.setup.fencing {
            Fencing::Generation => at.generation == world.group.generation,
            Fencing::Transactions | Fencing::Nothing => true,
        };
        if !is_taken {
            self.meets(Case::AckFenced);
            return;
        }
        self.meets(Case::AckedAlone);
        for transaction in &mut world.log {
            transaction.is_older |= transaction.holds_offsets();
        }
        own.acked = behind;
        world.members[member].assignment = Some(own);
        Self::moves(world, behind);
    }

    fn restore(&self, world: &mut World, member: usize) {
        let Some(mut own) = world.members[member].assignment else {
            return;
        };
        own.restore = match own.restore {
            Restore::Position => {
                own.from = world.group.committed;
                own.acked = own.from;
                Restore::Offsets
            }
            Restore::Offsets => Restore::End,
            Restore::End => Restore::Until { end: world.len },
            Restore::Until { end } => {
                let early = self.setup.conduct == Conduct::ReadsUncommitted;
                let to = if early { world.len } else { world.stable_end() };
                for at in own.next..to {
                    let transaction = &world.log[usize::from(at)];
                    if transaction.is_committed() || early {
                        own.image |= 1 << at;
                    }
                }
                own.next = own.next.max(to).max(end);
                Restore::Done
            }
            Restore::Done => Restore::Done,
        };
        world.members[member].assignment = Some(own);
        self.forgets(world);
    }
}
