//! A member's decisions, by `semel_core::partition`: its image, and the position of its partition.

use semel_core::partition::{Entry, Image, Prefix};
use semel_core::port::streamed::Standing;
use semel_core::{Admission, ClaimRequest};

use super::Streamed;
use super::law::Case;
use super::setup::Conduct;
use super::world::{Assignment, Member, Work, World};
use crate::model::numbers::{NONE, claim_id, fingerprint, instant, ticks};

impl Streamed {
    /// The claim of a record.
    fn request(&self, record: usize) -> ClaimRequest {
        let post = self.setup.records[record];
        let operation = self.operations[usize::from(post.operation)].clone();
        let mut request =
            ClaimRequest::new(operation.scope.clone(), operation.key.clone(), claim_id(1));
        request.fingerprint = (self.setup.conduct != Conduct::ForgetsRequests)
            .then(|| fingerprint(post.other_request));
        request.transport = Some(vec![u8::from(record > 0), u8::from(record > 1)].into());
        request.birth = self.setup.age_gate.then(|| instant(0));
        request.window = self.window();
        request
    }

    fn window(&self) -> semel_core::Window {
        semel_core::Window::new(ticks(self.setup.window))
    }

    fn entry(&self, record: usize) -> Entry {
        let request = self.request(record);
        Entry::of(request.operation.id(), &request)
    }

    /// The content of the transactions that an image has taken in.
    fn image(&self, world: &World, own: Assignment) -> Image {
        let mut image = Image::new(self.window());
        for (at, transaction) in world.transactions().iter().enumerate() {
            if own.image & (1 << at) != 0 {
                let entries = self.records_of(transaction.records);
                image.insert(
                    instant(transaction.at),
                    entries.map(|record| self.entry(record)),
                );
            }
        }
        image
    }

    /// The records of a batch that were committed since they were granted.
    pub(crate) fn known(&self, world: &World, own: Assignment, work: Work) -> u8 {
        if own.image == 0 {
            return 0;
        }
        let image = self.image(world, own);
        let forgets = self.setup.conduct == Conduct::ForgetsTry;
        let tried = (work.tried != NONE && !forgets).then(|| instant(work.tried));
        let now = instant(world.now);
        let mut known = 0;
        for record in self.records_of(work.batch) {
            let entry = self.entry(record);
            if image.is_committed(&entry, tried, now) {
                known |= 1 << record;
                if !image.is_committed(&entry, None, now) {
                    self.meets(Case::KnownPastWindow);
                }
            }
        }
        known
    }

    /// Decides the records that come next behind those that are `pending`, and returns the granted ones.
    pub(crate) fn admit(
        &self,
        world: &mut World,
        name: u8,
        own: &mut Assignment,
        pending: u8,
    ) -> u8 {
        let image = self.image(world, *own);
        let (mut batch, mut taken) = (0_u8, 0);
        for record in usize::from(own.from)..self.setup.records.len() {
            let bit = 1 << record;
            if (own.finished | pending) & bit != 0 {
                continue;
            }
            if taken == self.setup.batch {
                break;
            }
            taken += 1;
            let request = self.request(record);
            let offset = i64::try_from(record).unwrap_or(0);
            let standing =
                image.admit(request.operation.id(), &request, offset, instant(world.now));
            let operation = self.setup.records[record].operation;
            let admission = match standing {
                Standing::Free(_) => {
                    let mut under_way = self.records_of(pending);
                    if under_way.any(|it| self.setup.records[it].operation == operation) {
                        self.meets(Case::Pending);
                        continue;
                    }
                    let twin = self
                        .records_of(batch)
                        .any(|it| self.setup.records[it].operation == operation);
                    if twin {
                        self.meets(Case::Twins);
                    }
                    if !twin || self.setup.conduct == Conduct::TakesTwins {
                        batch |= bit;
                    }
                    continue;
                }
                Standing::Ours(admission) => *admission,
                // An image never answers so.
                Standing::Gone => continue,
            };
            match admission {
                Admission::Replay { .. } => {
                    let by = |it: &super::world::Transaction| {
                        Member::are_one_s(it.name, name)
                            && self
                                .records_of(it.records)
                                .any(|it| self.setup.records[it].operation == operation)
                    };
                    self.meets(if world.transactions().iter().any(by) {
                        Case::ReplayOfOwn
                    } else {
                        Case::ReplayAfterRestore
                    });
                    own.finished |= bit;
                }
                Admission::Conflict { .. } => {
                    self.meets(Case::Conflict);
                    own.finished |= bit;
                    world.listed |= bit;
                }
                Admission::TooOld => {
                    self.meets(Case::TooOld);
                    own.finished |= bit;
                    world.listed |= bit;
                }
                // An image never gives any of these answers.
                Admission::Granted(_)
                | Admission::Busy { .. }
                | Admission::Stale { .. }
                | Admission::Parked { .. }
                | Admission::Failed(_) => {}
            }
        }
        batch
    }

    /// The position of the partition if these were finished, too.
    pub(crate) fn behind(&self, own: Assignment, done: u8) -> Option<u8> {
        if self.setup.conduct == Conduct::SkipsUnfinished && done != 0 {
            return u8::try_from(u8::BITS - done.leading_zeros()).ok();
        }
        let offset = |record: usize| i64::try_from(record).unwrap_or(0);
        let mut prefix = Prefix::default();
        for record in usize::from(own.from)..self.setup.records.len() {
            prefix.read(offset(record));
        }
        for record in self.records_of(own.finished) {
            prefix.finish(offset(record));
        }
        let done: Vec<i64> = self.records_of(done).map(offset).collect();
        let behind = prefix.behind(&done)?;
        u8::try_from(behind).ok()
    }

    /// The records of a set, by their offsets.
    pub(crate) fn records_of(&self, set: u8) -> impl Iterator<Item = usize> + use<> {
        (0..self.setup.records.len()).filter(move |record| set & (1 << record) != 0)
    }
}
