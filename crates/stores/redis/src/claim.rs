//! Claims: one call adds absent records and returns the rest; the rest is decided here and written by compare and set.
//!
//! # Guarantee   those of `claim`; BAT-2

use std::collections::HashSet;

use semel_core::ledger::{Found, Ledger};
use semel_core::{
    Admission, Change, ClaimRequest, Error, ErrorKind, FencingToken, OpId, Result, Timestamp,
    decide,
};

use crate::buckets::Name;
use crate::changes::{Write, write};
use crate::error::{corrupt, strange, ungated};
use crate::record::{self, decode, is_countable, token};
use crate::rounds::{Done, Following, Part, Rounds, each};
use crate::session::Session;
use crate::versioned;

/// Claims a batch.
pub(crate) async fn claim(session: &Session, batch: &[ClaimRequest]) -> Result<Vec<Admission>> {
    let mut rounds = Rounds::new(session, batch.iter().map(|it| &it.operation));
    let apart = rounds.take_apart(batch);
    while rounds.goes_on().await {
        let (parts, following) = rounds.parts(|_| 512);
        let done = each(&parts, |part| {
            ask(session, batch, &rounds.ids, part, &following)
        })
        .await;
        rounds.take(&parts, &following, done, Admission::Failed)?;
    }
    rounds.transact::<versioned::Claims>(batch, &apart).await?;
    Ok(rounds.finish(Admission::Failed))
}

impl Rounds<'_, Admission> {
    /// Takes out items whose keys have a request that no single script can answer: one with a version gate, or with a
    /// lease that scripts cannot count. A cluster refuses gates altogether.
    fn take_apart(&mut self, batch: &[ClaimRequest]) -> Vec<usize> {
        let is_plain =
            |request: &ClaimRequest| request.gate.is_none() && is_countable(request.lease);
        if batch.iter().all(is_plain) {
            return Vec::new();
        }
        if self.session.is_cluster() {
            let (versioned, open): (Vec<usize>, Vec<usize>) = self
                .open
                .iter()
                .partition(|item| batch[**item].gate.is_some());
            for item in versioned {
                self.answer(item, Admission::Failed(ungated()));
            }
            self.open = open;
        }
        let open = std::mem::take(&mut self.open);
        let special: HashSet<OpId> = open
            .iter()
            .filter(|item| !is_plain(&batch[**item]))
            .map(|item| self.ids[*item])
            .collect();
        let (apart, open) = open
            .iter()
            .partition(|item| special.contains(&self.ids[**item]));
        self.open = open;
        apart
    }
}

/// Asks about the keys of one part.
async fn ask(
    session: &Session,
    batch: &[ClaimRequest],
    ids: &[OpId],
    part: &Part,
    following: &Following,
) -> Result<Done<Admission>> {
    let mut call = session.call(&session.scripts.claim, part.bucket);
    call.reserve(part.items.len(), part.items.len() + 5);
    let mut packed = Vec::with_capacity(part.items.len() * 32);
    let mut values = Vec::with_capacity(part.items.len());
    for (number, item) in (0..).zip(&part.items) {
        let request = &batch[*item];
        let id = &ids[*item];
        call.key(session.buckets.id_key(part.bucket, Name::Record, id));
        packed.extend_from_slice(id.as_bytes());
        let record = granted(request, Timestamp::EPOCH, FencingToken::new(number))?.1;
        values.push(record::fresh(&request.operation, &record));
    }
    let is_wanted = part.items.iter().any(|item| {
        let others = following.get(&ids[*item]).into_iter().flatten();
        std::iter::once(item)
            .chain(others)
            .any(|item| batch[*item].wants_outcome)
    });
    let (oldest, young) = young_until(part.items.iter().map(|item| &batch[*item]));
    call.arg(if is_wanted { *b"1" } else { *b"0" })
        .arg(oldest)
        .arg(young)
        .arg(packed);
    // Mostly all leases of a batch are the same, and one copy of their values will do.
    let common = values.first().map(|(moving, _)| *moving);
    let common = common.filter(|common| values.iter().all(|(moving, _)| moving == common));
    call.arg(common.as_ref().map_or(&[][..], |common| &common[..]));
    for (moving, value) in values {
        if common.is_some() {
            call.arg(value);
        } else {
            call.arg([&moving[..], &value].concat());
        }
    }
    let mut reply = session.ask(part.bucket, &call).await?;
    let (now, stamp) = (reply.now()?, reply.int()?);
    let mut decided = Decided {
        session,
        batch,
        ids,
        stamp,
        bucket: part.bucket,
        added: Ledger::new(now),
        found: Ledger::new(now),
        done: Done::with_capacity(part.items.len()),
        open: Vec::new(),
    };
    let mut next = 0;
    while !reply.is_empty() {
        let number = usize::try_from(reply.int()?).map_err(|_| strange())?;
        let value = reply.value()?;
        let place = number
            .checked_sub(1)
            .filter(|place| *place < part.items.len());
        let place = place.ok_or_else(strange)?;
        for (at, item) in part.items.iter().enumerate().take(place).skip(next) {
            decided.was_added(at, *item, now, following)?;
        }
        next = place + 1;
        decided.was_found(part.items[place], value.as_deref(), following);
    }
    for (at, item) in part.items.iter().enumerate().skip(next) {
        decided.was_added(at, *item, now, following)?;
    }
    decided.finish(part.items.len()).await
}

/// Decisions on a part.
struct Decided<'b> {
    session: &'b Session,
    batch: &'b [ClaimRequest],
    ids: &'b [OpId],
    bucket: usize,
    stamp: u64,
    /// Records that the script has added and that further items of the batch ask about.
    added: Ledger,
    /// Records that the script has found.
    found: Ledger,
    done: Done<Admission>,
    /// Items that a ledger is to decide; `true` if it is the ledger of the found records.
    open: Vec<(usize, bool)>,
}

impl Decided<'_> {
    /// Takes in an item that the script has granted; the script wrote the record that `decide` makes of it.
    fn was_added(
        &mut self,
        number: usize,
        item: usize,
        now: Timestamp,
        following: &Following,
    ) -> Result<()> {
        let number = u16::try_from(number).map_err(|_| strange())?;
        let request = &self.batch[item];
        let (answer, record) = granted(request, now, token(self.stamp, number))?;
        self.done.answers.push((item, answer));
        if let Some(others) = following.get(&self.ids[item]) {
            let found = Found::Record(self.stamp, record);
            self.added.found(self.ids[item], &request.operation, found);
            self.open.extend(others.iter().map(|item| (*item, false)));
        }
        Ok(())
    }

    fn was_found(&mut self, item: usize, value: Option<&[u8]>, following: &Following) {
        let (id, request) = (self.ids[item], &self.batch[item]);
        let others = following.get(&id).into_iter().flatten().copied();
        let items: Vec<usize> = std::iter::once(item).chain(others).collect();
        let found = match value {
            Some([]) => Found::Absent,
            Some(value) => match decode(value) {
                Ok(stored)
                    if stored.is_cut && items.iter().any(|it| self.batch[*it].wants_outcome) =>
                {
                    self.done.was_cut = true;
                    self.done.again.extend(items);
                    return;
                }
                Ok(stored) => Found::Record(stored.revision, stored.record),
                Err(error) => Found::Damaged(error),
            },
            None => Found::Damaged(corrupt("record")),
        };
        self.found.found(id, &request.operation, found);
        self.open.extend(items.into_iter().map(|item| (item, true)));
    }

    /// Decides the open items, in the order of the batch, and writes the changes.
    async fn finish(mut self, count: usize) -> Result<Done<Admission>> {
        self.open.sort_unstable();
        // The numbers under this stamp that no record has taken.
        let taken: HashSet<u16> = self
            .done
            .answers
            .iter()
            .filter_map(|(_, it)| number_of(it))
            .collect();
        let spare = self.stamp > 0;
        let spare = (0..count)
            .filter(|_| spare)
            .filter_map(|number| u16::try_from(number).ok());
        let stamp = self.stamp;
        let mut spare = spare
            .filter(|it| !taken.contains(it))
            .map(|number| token(stamp, number));
        let mut decided = Vec::with_capacity(self.open.len());
        for (item, was_found) in &self.open {
            let (id, request) = (self.ids[*item], &self.batch[*item]);
            let answer = if *was_found {
                self.found.claim(id, request, &mut spare)
            } else {
                // A token under the stamp of the record itself would not be sure to rise.
                self.added.claim(id, request, &mut std::iter::empty())
            };
            decided.push((*item, answer));
        }
        let mut written = write(self.session, self.bucket, &self.added).await?;
        written.and(write(self.session, self.bucket, &self.found).await?);
        for (item, answer) in decided {
            match (answer, written.of(self.ids[item])) {
                (None, _) | (Some(_), Write::Lost) => self.done.again.push(item),
                (Some(_), Write::Failed(error)) => {
                    self.done.answers.push((item, Admission::Failed(error)));
                }
                (Some(answer), Write::Done) => self.done.answers.push((item, answer)),
            }
        }
        Ok(self.done)
    }
}

/// Returns the claim and record that `decide` makes of a request that finds nothing.
fn granted(
    request: &ClaimRequest,
    now: Timestamp,
    token: FencingToken,
) -> Result<(Admission, semel_core::Record)> {
    let decision = decide::claim(None, None, request, now, token);
    match (decision.answer, decision.change) {
        (answer @ Admission::Granted(_), Change::Put(record)) => Ok((answer, record)),
        (answer, _) => Err(Error::new(
            ErrorKind::Internal,
            format!("a claim was added that is not granted: {answer:?}"),
        )),
    }
}

fn number_of(admission: &Admission) -> Option<u16> {
    match admission {
        Admission::Granted(claim) => record::token_parts(claim.token).map(|(_, number)| number),
        Admission::Replay { .. }
        | Admission::Busy { .. }
        | Admission::Conflict { .. }
        | Admission::Stale { .. }
        | Admission::Parked { .. }
        | Admission::TooOld
        | Admission::Failed(_) => None,
    }
}

/// Returns, in milliseconds, until when each request is new to a store that knows nothing of it, and the earliest of
/// these times; nothing where no age gate is open.
fn young_until<'r>(requests: impl Iterator<Item = &'r ClaimRequest>) -> (Vec<u8>, Vec<u8>) {
    let until = |request: &ClaimRequest| {
        let window = request
            .window
            .duration()
            .saturating_sub(request.window.margin());
        let window = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        let birth = request.birth?.as_millis();
        Some(birth.saturating_add(window).min(FOREVER))
    };
    let all: Vec<_> = requests.map(until).collect();
    let Some(oldest) = all.iter().flatten().min() else {
        return (Vec::new(), Vec::new());
    };
    let packed = all
        .iter()
        .flat_map(|until| until.unwrap_or(FOREVER).to_be_bytes());
    (oldest.to_string().into_bytes(), packed.collect())
}

/// A time later than any clock, and still exact where scripts count.
const FOREVER: u64 = 1_000 << 42;
