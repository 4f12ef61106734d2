//! The consequences of each action of producers.

use semel_core::ingest::{GateAnswer, Position, decide};

use super::law::{Case, Fault, Law};
use super::setup::{Conduct, Gate};
use super::steps::Action;
use super::subject::Sender;
use super::world::{Process, Request, World};
use crate::model::numbers::small;

impl Sender {
    pub(crate) fn happens(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Open { process } => self.opens(&mut next, usize::from(process)),
            Action::Append { process } => self.appends(&mut next, usize::from(process))?,
            Action::Send {
                process,
                first,
                count,
            } => self.sends(&mut next, usize::from(process), first, count)?,
            Action::Arrive {
                at,
                is_answered,
                stays,
            } => self.arrives(&mut next, usize::from(at), is_answered, stays)?,
            Action::Lose { at } => {
                next.left.lost -= 1;
                next.requests[usize::from(at)] = None;
            }
            Action::Confirm { process } => self.confirms(&mut next, usize::from(process))?,
            Action::Kill { process } => {
                next.left.kills -= 1;
                next.processes[usize::from(process)] = None;
            }
        }
        for fault in action.faults() {
            self.tally.deals(fault as usize);
        }
        // Requests are on their way in no order.
        next.requests.sort_unstable();
        self.look(&mut next);
        Some(next)
    }

    fn opens(&self, world: &mut World, process: usize) {
        world.left.openings -= 1;
        if world.processes.iter().any(Option::is_some) {
            self.tally.deals(Fault::OpenedBeside as usize);
        }
        world.journal.epoch += 1;
        let journal = world.journal;
        world.processes[process] = Some(Process {
            epoch: journal.epoch,
            next: journal.next,
            answered: match self.setup.conduct {
                Conduct::LeavesOlder => journal.next - 1,
                Conduct::Right | Conduct::SendsFirst | Conduct::TrustsSilence => journal.confirmed,
            },
        });
    }

    /// Lets the journal refuse an opening that is not the latest, which ends its process.
    fn is_fenced(&self, world: &mut World, process: usize) -> Option<bool> {
        let is_fenced = world.processes[process]?.epoch < world.journal.epoch;
        if is_fenced {
            world.processes[process] = None;
            self.meets(Case::FencedAtJournal);
        }
        Some(is_fenced)
    }

    fn appends(&self, world: &mut World, process: usize) -> Option<()> {
        if !self.is_fenced(world, process)? {
            world.journal.next += 1;
            world.processes[process].as_mut()?.next = world.journal.next;
        }
        Some(())
    }

    fn sends(&self, world: &mut World, process: usize, first: u8, count: u8) -> Option<()> {
        let open = world.processes[process].as_mut()?;
        let request = Request {
            epoch: open.epoch,
            first,
            count,
        };
        let end = first + count - 1;
        if self.setup.conduct == Conduct::TrustsSilence {
            open.answered = end;
        }
        // The same once more on its way is no other state.
        if world.requests.contains(&Some(request)) {
            return None;
        }
        if request.epoch > 1 && request.first <= world.journal.sent {
            self.meets(Case::SentAgain);
        }
        world.journal.sent = world.journal.sent.max(end);
        *world.requests.iter_mut().find(|it| it.is_none())? = Some(request);
        Some(())
    }

    fn arrives(&self, world: &mut World, at: usize, is_answered: bool, stays: bool) -> Option<()> {
        let request = world.requests[at]?;
        world.left.lost -= u8::from(!is_answered);
        world.left.again -= u8::from(stays);
        if !stays {
            world.requests[at] = None;
        }
        let on_record = (world.gate.next > 0).then(|| Position {
            epoch: match self.setup.gate {
                Gate::FencesNobody => 0,
                Gate::Right | Gate::KnowsNothing | Gate::SeesNoGap => world.gate.epoch.into(),
            },
            next: match self.setup.gate {
                Gate::KnowsNothing => Some(world.gate.next.min(request.first).into()),
                Gate::SeesNoGap => Some(world.gate.next.max(request.first).into()),
                Gate::Right | Gate::FencesNobody => Some(world.gate.next.into()),
            },
            is_frozen: false,
        });
        let (epoch, first) = (request.epoch.into(), request.first.into());
        let is_any_first = self.setup.gate == Gate::SeesNoGap;
        match decide(on_record, epoch, first, request.count.into(), is_any_first) {
            GateAnswer::Taken {
                known, new, next, ..
            } => {
                self.takes(world, request, (small(known.into()), small(new.into())));
                world.gate.next = small(next);
                if is_answered {
                    answer(world, request);
                }
            }
            GateAnswer::Fenced { .. } => self.meets(Case::FencedAtGate),
            GateAnswer::Gap { .. } | GateAnswer::Unknown { .. } => self.meets(Case::Gap),
        }
        Some(())
    }

    fn takes(&self, world: &mut World, request: Request, (known, new): (u8, u8)) {
        if request.epoch < world.gate.epoch {
            world.broken |= Law::FencedIsOver.bit();
        }
        world.gate.epoch = world.gate.epoch.max(request.epoch);
        match (known, new) {
            (0, _) => {}
            (_, 0) => self.meets(Case::Known),
            (_, _) => self.meets(Case::PartlyKnown),
        }
        let mut openings = world.processes.iter().flatten();
        if new > 0 && openings.all(|it| it.epoch != request.epoch) {
            self.meets(Case::TakenAfterDeath);
        }
        let from = request.first + known;
        // What is wrong for long enough is no further state.
        if world.taken.len() < usize::from(self.setup.messages) + 2 {
            world.taken.extend(from..from + new);
        }
    }

    fn confirms(&self, world: &mut World, process: usize) -> Option<()> {
        if !self.is_fenced(world, process)? {
            let answered = world.processes[process]?.answered;
            world.journal.confirmed = world.journal.confirmed.max(answered);
        }
        Some(())
    }

    /// Checks the laws that a state by itself can break.
    fn look(&self, world: &mut World) {
        let count = small(world.taken.len() as u64);
        if !world.taken.iter().copied().eq(1..=count) {
            world.broken |= Law::OnceInOrder.bit();
        }
        if world.taken.iter().any(|it| *it >= world.journal.next) {
            world.broken |= Law::OnlyAppended.bit();
        }
        if (1..=world.journal.confirmed).any(|it| !world.taken.contains(&it)) {
            world.broken |= Law::OnlyTaken.bit();
        }
        if world.journal.confirmed == self.setup.messages {
            self.meets(Case::Finished);
        }
    }
}

/// Tells the process that sent the request, if it is still there.
fn answer(world: &mut World, request: Request) {
    let mut openings = world.processes.iter_mut().flatten();
    if let Some(open) = openings.find(|it| it.epoch == request.epoch) {
        open.answered = open.answered.max(request.first + request.count - 1);
    }
}
