//! Settlements and renewals: one call does the part that needs no decision and returns the rest.
//!
//! # Guarantee   those of `settle` and `renew`; BAT-2

use futures_util::future::join_all;
use semel_core::ledger::{Found, Ledger};
use semel_core::{
    Error, OpId, Operation, Outcome, Renewal, Renewed, Result, Settled, Settlement, StateKind,
    Step, Timestamp,
};

use crate::buckets::Name;
use crate::changes::{Write, write};
use crate::error::strange;
use crate::record::{self, decode};
use crate::rounds::{Done, Following, Part, Rounds, each};
use crate::script::{Call, Script, Scripts};
use crate::session::Session;
use crate::versioned::{self, Job};

/// One kind of report of a claim.
pub(crate) trait Report {
    type Item: Sync;
    type Answer: Send;
    type Versioned: Job<Item = Self::Item, Answer = Self::Answer>;

    fn script(scripts: &Scripts) -> &Script;

    fn operation(item: &Self::Item) -> &Operation;

    /// Gives the script the items that it can handle alone, and nothing of the others.
    fn ready(call: &mut Call<'_>, items: &[Option<&Self::Item>]);

    /// Returns the approximate size of that in bytes.
    fn size(item: &Self::Item) -> usize;

    /// Returns the answer to the script's work at `now`.
    fn done(item: &Self::Item, now: Timestamp) -> Self::Answer;

    fn decide(ledger: &mut Ledger, id: OpId, item: &Self::Item) -> Self::Answer;

    fn failed(error: Error) -> Self::Answer;
}

/// Reports a batch.
pub(crate) async fn report<R: Report>(
    session: &Session,
    batch: &[R::Item],
) -> Result<Vec<R::Answer>> {
    let mut rounds = Rounds::new(session, batch.iter().map(R::operation));
    let mut apart = Vec::new();
    while rounds.goes_on().await {
        let (parts, following) = rounds.parts(|item| R::size(&batch[item]));
        let ids = &rounds.ids;
        let found = each(&parts, |part| {
            ask::<R>(session, batch, ids, part, &following)
        })
        .await;
        let is_gated = found.iter().flatten().any(|found| found.is_gated);
        let decided = found.into_iter().map(async |found| {
            let found = found?;
            if is_gated {
                Ok(found.undecided())
            } else {
                Ok((found.decide::<R>(batch, ids).await?, Vec::new()))
            }
        });
        let decided = join_all(decided).await;
        let (done, left): (Vec<_>, Vec<_>) = decided
            .into_iter()
            .map(|decided| match decided {
                Ok((done, left)) => (Ok(done), left),
                Err(error) => (Err(error), Vec::new()),
            })
            .unzip();
        apart.extend(left.into_iter().flatten());
        rounds.take(&parts, &following, done, R::failed)?;
    }
    apart.sort_unstable();
    rounds.transact::<R::Versioned>(batch, &apart).await?;
    Ok(rounds.finish(R::failed))
}

/// Items of a part that a script has left.
struct Left<'s, A> {
    session: &'s Session,
    bucket: usize,
    ledger: Ledger,
    /// Items of the keys that were found, in order.
    open: Vec<usize>,
    done: Done<A>,
    /// Set if some records have a gate. Their decisions depend on the items beside them, so the whole rest of the batch
    /// is decided together with their entities.
    is_gated: bool,
}

/// Asks about the keys of one part.
async fn ask<'s, R: Report>(
    session: &'s Session,
    batch: &[R::Item],
    ids: &[OpId],
    part: &Part,
    following: &Following,
) -> Result<Left<'s, R::Answer>> {
    let mut call = session.call(R::script(&session.scripts), part.bucket);
    call.reserve(part.items.len(), part.items.len() * 2 + 1);
    let mut ready = Vec::with_capacity(part.items.len());
    for item in &part.items {
        call.key(
            session
                .buckets
                .id_key(part.bucket, Name::Record, &ids[*item]),
        );
        let is_alone = !following.contains_key(&ids[*item]);
        ready.push(Some(&batch[*item]).filter(|_| is_alone));
    }
    R::ready(&mut call, &ready);
    let mut reply = session.ask(part.bucket, &call).await?;
    drop(call);
    let now = reply.now()?;
    let mut left = Left {
        session,
        bucket: part.bucket,
        ledger: Ledger::new(now),
        open: Vec::new(),
        done: Done::with_capacity(part.items.len()),
        is_gated: false,
    };
    let mut next = 0;
    let was_done = |item: &usize| (*item, R::done(&batch[*item], now));
    while !reply.is_empty() {
        let number = usize::try_from(reply.int()?).map_err(|_| strange())?;
        let value = reply.bytes()?;
        let place = number
            .checked_sub(1)
            .filter(|place| *place < part.items.len());
        let place = place.ok_or_else(strange)?;
        left.done
            .answers
            .extend(part.items[next..place].iter().map(was_done));
        next = place + 1;
        let item = part.items[place];
        let found = match decode(&value) {
            _ if value.is_empty() => Found::Absent,
            Ok(stored) => {
                left.is_gated |= stored.record.gate.is_some();
                Found::Record(stored.revision, stored.record)
            }
            Err(error) => Found::Damaged(error),
        };
        left.ledger
            .found(ids[item], R::operation(&batch[item]), found);
        left.open.push(item);
        left.open
            .extend(following.get(&ids[item]).into_iter().flatten());
    }
    left.done
        .answers
        .extend(part.items[next..].iter().map(was_done));
    left.open.sort_unstable();
    Ok(left)
}

impl<A> Left<'_, A> {
    /// Decides nothing more here; returns the items that are left.
    fn undecided(self) -> (Done<A>, Vec<usize>) {
        (self.done, self.open)
    }

    /// Decides the items that are left, and writes the changes, each record for itself.
    async fn decide<R: Report<Answer = A>>(
        mut self,
        batch: &[R::Item],
        ids: &[OpId],
    ) -> Result<Done<A>> {
        let decide = |item: usize| (item, R::decide(&mut self.ledger, ids[item], &batch[item]));
        let decided: Vec<_> = self.open.iter().copied().map(decide).collect();
        let written = write(self.session, self.bucket, &self.ledger).await?;
        for (item, answer) in decided {
            match written.of(ids[item]) {
                Write::Done => self.done.answers.push((item, answer)),
                Write::Lost => self.done.again.push(item),
                Write::Failed(error) => self.done.answers.push((item, R::failed(error))),
            }
        }
        Ok(self.done)
    }
}

/// Start, complete, release, fail.
pub(crate) enum Settle {}

impl Report for Settle {
    type Item = Settlement;
    type Answer = Settled;
    type Versioned = versioned::Settlements;

    fn script(scripts: &Scripts) -> &Script {
        &scripts.complete
    }

    fn operation(item: &Settlement) -> &Operation {
        &item.operation
    }

    fn ready(call: &mut Call<'_>, items: &[Option<&Settlement>]) {
        let completion = |item: Option<&Settlement>| {
            let Settlement { claim_id, step, .. } = item?;
            let Step::Complete { outcome, window } = step else {
                return None;
            };
            let (keep, state) = record::completion(outcome, *window)?;
            Some((*claim_id, keep, state))
        };
        let all: Vec<_> = items.iter().copied().map(completion).collect();
        // Mostly all windows of a batch are the same.
        let mut keeps = all.iter().flatten().map(|(_, keep, _)| *keep);
        let common = keeps
            .next()
            .filter(|common| keeps.all(|keep| keep == *common));
        call.arg(common.map_or_else(String::new, |keep| keep.to_string()));
        for ready in all {
            match ready {
                None => call.arg(Vec::new()).arg(Vec::new()),
                Some((claim, _, state)) if common.is_some() => {
                    call.arg(claim.to_bytes()).arg(state)
                }
                Some((claim, keep, state)) => {
                    let state = [&keep.to_be_bytes()[..], &state].concat();
                    call.arg(claim.to_bytes()).arg(state)
                }
            };
        }
    }

    fn size(item: &Settlement) -> usize {
        let outcome = match &item.step {
            Step::Complete { outcome, .. } => Some(outcome),
            Step::Start { .. } | Step::Release { .. } | Step::Fail { .. } => None,
        };
        256 + match outcome {
            Some(Outcome::Kept { bytes, .. }) => bytes.len(),
            Some(Outcome::TooLarge { .. }) | None => 0,
        }
    }

    fn done(_: &Settlement, _: Timestamp) -> Settled {
        Settled::Now(StateKind::Completed)
    }

    fn decide(ledger: &mut Ledger, id: OpId, item: &Settlement) -> Settled {
        ledger.settle(id, item)
    }

    fn failed(error: Error) -> Settled {
        Settled::Failed(error)
    }
}

/// Longer leases.
pub(crate) enum Renew {}

impl Report for Renew {
    type Item = Renewal;
    type Answer = Renewed;
    type Versioned = versioned::Renewals;

    fn script(scripts: &Scripts) -> &Script {
        &scripts.renew
    }

    fn operation(item: &Renewal) -> &Operation {
        &item.operation
    }

    fn ready(call: &mut Call<'_>, items: &[Option<&Renewal>]) {
        for item in items {
            let item = item.filter(|item| record::is_countable(item.lease));
            call.arg(item.map_or_else(Vec::new, |item| {
                let lease = Timestamp::EPOCH.plus(item.lease).as_millis();
                [&item.claim_id.to_bytes()[..], &lease.to_be_bytes()].concat()
            }));
        }
    }

    fn size(_: &Renewal) -> usize {
        128
    }

    fn done(item: &Renewal, now: Timestamp) -> Renewed {
        Renewed::Until(now.plus(item.lease))
    }

    fn decide(ledger: &mut Ledger, id: OpId, item: &Renewal) -> Renewed {
        ledger.renew(id, item)
    }

    fn failed(error: Error) -> Renewed {
        Renewed::Failed(error)
    }
}
