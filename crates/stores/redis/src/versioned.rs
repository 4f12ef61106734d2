//! Records and entities that change together, and orders that change together with the audit trail: read at one
//! instant, decided here, written in one script on the condition that all of it still stands.
//!
//! # Guarantee   VER-1, VER-2, AUD-1; BAT-2

use std::collections::{HashMap, HashSet};

use semel_core::decide::{Directed, Directive};
use semel_core::ledger::{Found, Ledger};
use semel_core::{
    Admission, ClaimRequest, Entity, Error, FencingToken, OpId, Operation, Renewal, Renewed,
    Result, Scope, Settled, Settlement,
};

use crate::buckets::Name;
use crate::changes::Changes;
use crate::error::{contended, strange};
use crate::kinds::decode_entity;
use crate::record::{self, decode};
use crate::retry::{PATIENT, ROUNDS, pause};
use crate::session::Session;

/// Items of one bucket that are decided together.
pub(crate) trait Job: Sized {
    type Item: Sync;
    type Answer: Send;

    /// Set if these items need outcomes.
    const WANTS_OUTCOMES: bool;
    /// Set if items may use up tokens.
    const WANTS_TOKENS: bool = false;

    fn operation(item: &Self::Item) -> &Operation;

    /// Returns the entity that an item names itself.
    fn entity(_item: &Self::Item) -> Option<(&Scope, &Entity)> {
        None
    }

    fn decide(
        item: &Self::Item,
        id: OpId,
        ledger: &mut Ledger,
        tokens: &mut dyn Iterator<Item = FencingToken>,
    ) -> Option<Self::Answer>;

    fn failed(error: Error) -> Self::Answer;
}

/// Does the job of these items of `batch`, which are of one bucket: in turn, as many at once as a script should see,
/// again and again while others are in the way. `stamp` is the batch's own in the audit trail, where it is spread over
/// several buckets, else 0.
pub(crate) async fn transact<J: Job>(
    session: &Session,
    batch: &[J::Item],
    items: &[usize],
    stamp: u64,
) -> Result<Vec<J::Answer>> {
    let mut answers = Vec::with_capacity(items.len());
    let mut ahead: Vec<&[usize]> = items.chunks(MOST_ITEMS).rev().collect();
    while let Some(items) = ahead.pop() {
        let mut round = 0;
        loop {
            let attempt = match attempt::<J>(session, batch, items, stamp).await {
                Ok(attempt) => attempt,
                Err(error) if answers.is_empty() && ahead.is_empty() => return Err(error),
                Err(error) => {
                    Attempt::Done(items.iter().map(|_| J::failed(error.clone())).collect())
                }
            };
            match attempt {
                Attempt::Done(some) => answers.extend(some),
                Attempt::TooLarge if items.len() > 1 => {
                    let (front, back) = items.split_at(items.len() / 2);
                    ahead.extend([back, front]);
                }
                Attempt::Lost | Attempt::TooLarge if round < ROUNDS => {
                    if round >= PATIENT {
                        pause(round - PATIENT + 1).await;
                    }
                    round += 1;
                    continue;
                }
                Attempt::Lost | Attempt::TooLarge => {
                    answers.extend(items.iter().map(|_| J::failed(contended())));
                }
            }
            break;
        }
    }
    Ok(answers)
}

enum Attempt<A> {
    Done(Vec<A>),
    /// Another process wrote in between.
    Lost,
    /// Their outcomes are more than one answer should hold.
    TooLarge,
}

/// Reads, decides, writes.
async fn attempt<J: Job>(
    session: &Session,
    batch: &[J::Item],
    items: &[usize],
    stamp: u64,
) -> Result<Attempt<J::Answer>> {
    let ids: Vec<OpId> = items
        .iter()
        .map(|item| J::operation(&batch[*item]).id())
        .collect();
    let Some(first) = ids.first() else {
        return Ok(Attempt::Done(Vec::new()));
    };
    let bucket = session.buckets.of(first);
    let mut entities: Vec<(Scope, Entity)> = Vec::new();
    let mut once = HashSet::new();
    for (scope, entity) in items.iter().filter_map(|item| J::entity(&batch[*item])) {
        if once.insert(OpId::of(scope, entity)) {
            entities.push((scope.clone(), entity.clone()));
        }
    }
    let look = async |entities: &[(Scope, Entity)]| {
        See::all::<J>(session, bucket, batch, items, &ids, entities).await
    };
    let Some(mut seen) = look(&entities).await? else {
        return Ok(Attempt::TooLarge);
    };
    // The entities that gate the records show only now; a second look sees both at one instant.
    let mut gating = seen.ledger.gating_entities();
    gating.retain(|(scope, entity)| once.insert(OpId::of(scope, entity)));
    if !gating.is_empty() {
        entities.extend(gating);
        let Some(again) = look(&entities).await? else {
            return Ok(Attempt::TooLarge);
        };
        seen = again;
        let mut gating = seen.ledger.gating_entities().into_iter();
        if gating.any(|(scope, entity)| !once.contains(&OpId::of(&scope, &entity))) {
            return Ok(Attempt::Lost);
        }
    }
    let numbers = if J::WANTS_TOKENS { items.len() } else { 0 };
    let given = seen.stamp;
    let mut tokens = (0..numbers)
        .filter_map(|number| u16::try_from(number).ok())
        .map(|number| record::token(given, number));
    let mut answers = Vec::with_capacity(ids.len());
    let mut entered = Vec::new();
    for (item, id) in items.iter().zip(&ids) {
        let answer = J::decide(&batch[*item], *id, &mut seen.ledger, &mut tokens);
        answers.push(answer.ok_or_else(strange)?);
        entered.resize(seen.ledger.audited().len(), *item);
    }
    let changes = changes_of(session, bucket, &seen, &entered, stamp);
    let lost = changes.commit().await?;
    Ok(if lost.is_empty() {
        Attempt::Done(answers)
    } else {
        Attempt::Lost
    })
}

/// Collects the writes of a ledger, all in one group; `entered` are the items that its audit entries belong to.
fn changes_of<'s>(
    session: &'s Session,
    bucket: usize,
    seen: &See,
    entered: &[usize],
    stamp: u64,
) -> Changes<'s> {
    let See {
        ledger,
        records,
        entities,
        ..
    } = seen;
    let mut changes = Changes::new(session, bucket, ledger.now());
    let mut written = HashSet::new();
    for entry in ledger.changes() {
        changes.record(
            0,
            &entry.id,
            &entry.operation,
            entry.revision,
            entry.record.as_ref(),
        );
        written.insert((Name::Record, entry.id));
    }
    for entity in ledger.entity_changes() {
        let revision = entities.get(&entity.id).copied().flatten();
        changes.entity(0, &entity.scope, &entity.entity, revision, &entity.record);
        written.insert((Name::Entity, entity.id));
    }
    if changes.is_empty() && ledger.audited().is_empty() {
        return changes;
    }
    // Records that share an entity are one history, so that all of it has to stand, answered or changed.
    if !entities.is_empty() {
        let records = records.iter().map(|it| (Name::Record, it));
        for (name, (id, revision)) in records.chain(entities.iter().map(|it| (Name::Entity, it))) {
            if !written.contains(&(name, *id)) {
                changes.stands(0, name, id, *revision);
            }
        }
    }
    for (entry, item) in ledger.audited().iter().zip(entered) {
        changes.entry(0, item % MOST_ITEMS + 1, stamp, entry);
    }
    changes
}

/// State of some operations and entities at one instant.
struct See {
    ledger: Ledger,
    /// Revisions of the records and of the entities.
    records: HashMap<OpId, Option<u64>>,
    entities: HashMap<OpId, Option<u64>>,
    stamp: u64,
}

impl See {
    /// Reads all of it; `None` where the outcomes are too large to be seen at once.
    async fn all<J: Job>(
        session: &Session,
        bucket: usize,
        batch: &[J::Item],
        items: &[usize],
        ids: &[OpId],
        entities: &[(Scope, Entity)],
    ) -> Result<Option<Self>> {
        let mut places: Vec<usize> = (0..ids.len()).collect();
        let mut once = HashSet::new();
        places.retain(|at| once.insert(ids[*at]));
        let mut call = session.call(&session.scripts.read, bucket);
        for at in &places {
            call.key(session.buckets.id_key(bucket, Name::Record, &ids[*at]));
        }
        for (scope, entity) in entities {
            call.key(
                session
                    .buckets
                    .id_key(bucket, Name::Entity, &OpId::of(scope, entity)),
            );
        }
        call.arg(if J::WANTS_OUTCOMES { *b"1" } else { *b"0" });
        call.arg(if J::WANTS_TOKENS { items.len() } else { 0 }.to_string());
        let mut reply = session.ask(bucket, &call).await?;
        let (now, stamp) = (reply.now()?, reply.int()?);
        let mut ledger = Ledger::new(now);
        let mut records = HashMap::new();
        for at in places {
            let value = reply.bytes()?;
            let found = match decode(&value) {
                _ if value.is_empty() => Found::Absent,
                Ok(stored) if J::WANTS_OUTCOMES && stored.is_cut => return Ok(None),
                Ok(stored) => Found::Record(stored.revision, stored.record),
                Err(error) => Found::Damaged(error),
            };
            match &found {
                Found::Absent => {
                    records.insert(ids[at], None);
                }
                Found::Record(revision, _) => {
                    records.insert(ids[at], Some(*revision));
                }
                Found::Damaged(_) => {}
            }
            ledger.found(ids[at], J::operation(&batch[items[at]]), found);
        }
        let mut revisions = HashMap::new();
        for (scope, entity) in entities {
            let value = reply.bytes()?;
            let stored = (!value.is_empty())
                .then(|| decode_entity(&value))
                .transpose()?;
            let revision = stored.as_ref().map(|stored| stored.revision);
            revisions.insert(OpId::of(scope, entity), revision);
            ledger.found_entity(scope, entity, stored.map(|stored| stored.record));
        }
        Ok(Some(Self {
            ledger,
            records,
            entities: revisions,
            stamp,
        }))
    }
}

/// Claims, those with a version gate above all.
pub(crate) enum Claims {}

impl Job for Claims {
    type Item = ClaimRequest;
    type Answer = Admission;

    const WANTS_OUTCOMES: bool = true;
    const WANTS_TOKENS: bool = true;

    fn operation(item: &ClaimRequest) -> &Operation {
        &item.operation
    }

    fn entity(item: &ClaimRequest) -> Option<(&Scope, &Entity)> {
        let gate = item.gate.as_ref()?;
        Some((&item.operation.scope, &gate.entity))
    }

    fn decide(
        item: &ClaimRequest,
        id: OpId,
        ledger: &mut Ledger,
        mut tokens: &mut dyn Iterator<Item = FencingToken>,
    ) -> Option<Admission> {
        ledger.claim(id, item, &mut tokens)
    }

    fn failed(error: Error) -> Admission {
        Admission::Failed(error)
    }
}

macro_rules! jobs {
    ($($(#[$doc:meta])+ $job:ident($item:ident) -> $answer:ident = $decide:ident, $outcomes:literal;)+) => {
        $($(#[$doc])+
        pub(crate) enum $job {}

        impl Job for $job {
            type Item = $item;
            type Answer = $answer;

            const WANTS_OUTCOMES: bool = $outcomes;

            fn operation(item: &$item) -> &Operation {
                &item.operation
            }

            fn decide(
                item: &$item,
                id: OpId,
                ledger: &mut Ledger,
                _tokens: &mut dyn Iterator<Item = FencingToken>,
            ) -> Option<$answer> {
                Some(ledger.$decide(id, item))
            }

            fn failed(error: Error) -> $answer {
                $answer::Failed(error)
            }
        })+
    };
}

jobs! {
    /// Settlements of records that have a gate.
    Settlements(Settlement) -> Settled = settle, false;
    /// Renewals of records that have a gate.
    Renewals(Renewal) -> Renewed = renew, false;
    /// Operators' orders.
    Orders(Directive) -> Directed = operate, true;
}

/// Items at once: as many as a stamp has tokens, and as the audit trail numbers under one.
pub(crate) const MOST_ITEMS: usize = 1 << record::NUMBER_BITS;
