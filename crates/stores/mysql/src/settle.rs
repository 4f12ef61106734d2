//! Completions and renewals that are not gated by a version, in one call where the claims belong to the caller; all
//! others in a transaction.
//!
//! One statement completes the records that have the named claims; then those that are complete are read, within the
//! same transaction. The others are left to [`jobs`](crate::jobs), which lock, decide and write.
//!
//! # Guarantee   those of `settle` and `renew`; BAT-2

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::Duration;

use semel_core::{
    ClaimId, OpId, Outcome, Renewal, Renewed, Result, Settled, Settlement, StateKind, Step, Window,
};

use crate::answer::{Set, id, only, time};
use crate::jobs;
use crate::locked::CHUNK;
use crate::parts::parts;
use crate::pool::PooledConnection;
use crate::row::outcome_columns;
use crate::script::{Literal, Script, addend, optional, seconds};
use crate::session::Session;
use crate::transaction::{end, run_through, transact};

/// Settles every item. An error of a later part of a long batch is that of its items alone.
pub(crate) async fn settle(session: &Session, batch: &[Settlement]) -> Result<Vec<Settled>> {
    let weight = |it: &Settlement| match &it.step {
        Step::Complete {
            outcome: Outcome::Kept { bytes, .. },
            ..
        } => bytes.len(),
        Step::Complete { .. } | Step::Start { .. } | Step::Release { .. } | Step::Fail { .. } => 0,
    };
    let mut answers = Vec::with_capacity(batch.len());
    for part in parts(batch, weight) {
        match settle_part(session, part).await {
            Ok(settled) => answers.extend(settled),
            Err(error) if answers.is_empty() => return Err(error),
            Err(error) => answers.extend(part.iter().map(|_| Settled::Failed(error.clone()))),
        }
    }
    Ok(answers)
}

/// Renews every item; errors as in [`settle`].
pub(crate) async fn renew(session: &Session, batch: &[Renewal]) -> Result<Vec<Renewed>> {
    let mut answers = Vec::with_capacity(batch.len());
    for part in parts(batch, |_| 0) {
        match renew_part(session, part).await {
            Ok(renewed) => answers.extend(renewed),
            Err(error) if answers.is_empty() => return Err(error),
            Err(error) => answers.extend(part.iter().map(|_| Renewed::Failed(error.clone()))),
        }
    }
    Ok(answers)
}

async fn settle_part(session: &Session, part: &[Settlement]) -> Result<Vec<Settled>> {
    let ids: Vec<_> = part.iter().map(|it| it.operation.id()).collect();
    let mut completions = Vec::new();
    for place in alone(&ids) {
        if let Step::Complete { outcome, window } = &part[place].step
            && let Some(millis) = addend(window.duration())
        {
            let claim_id = part[place].claim_id;
            completions.push(Completion {
                id: ids[place],
                claim_id,
                outcome,
                window: *window,
                millis,
            });
        }
    }
    let mut completed = HashSet::new();
    if !completions.is_empty() {
        let mut connection = session.connection().await?;
        let done = complete(session, &mut connection, &mut completions).await;
        end(session, connection).await;
        completed = done?;
    }
    let is_open = |place: &usize| !completed.contains(&ids[*place]);
    let open: Vec<_> = (0..part.len()).filter(is_open).collect();
    let mut answers = vec![Settled::Now(StateKind::Completed); part.len()];
    if !open.is_empty() {
        let rest: Vec<_> = open.iter().map(|place| part[*place].clone()).collect();
        let settled = transact(session, jobs::Settle(&rest)).await?;
        for (place, answer) in open.into_iter().zip(settled) {
            answers[place] = answer;
        }
    }
    Ok(answers)
}

struct Completion<'b> {
    id: OpId,
    claim_id: ClaimId,
    outcome: &'b Outcome,
    window: Window,
    millis: u64,
}

/// Completes what can be completed; returns the ids of the records that are complete by these claims.
async fn complete(
    session: &Session,
    connection: &mut PooledConnection,
    completions: &mut [Completion<'_>],
) -> Result<HashSet<OpId>> {
    let texts = &session.texts;
    completions.sort_unstable_by_key(|it| it.id);
    let mut script = Script::default();
    session.add_now(&mut script);
    script.add(&texts.begin, &[]);
    for group in groups(completions, |it| it.window) {
        let is_same = group.iter().all(|it| it.outcome == group[0].outcome);
        let most = if is_same { CHUNK } else { DIFFERENT };
        for some in group.chunks(most) {
            add_complete(session, &mut script, some, is_same);
        }
    }
    let named = Named::of(completions.iter().map(|it| (it.id, it.claim_id)));
    let read = script.add(&texts.completed, &[&named.ids, &named.pairs]);
    script.add(&texts.commit, &[]);
    let sets = run_through(session, connection, &script).await?;
    found(&sets[read])
}

fn add_complete(session: &Session, script: &mut Script, some: &[&Completion<'_>], is_same: bool) {
    let window = some[0].window;
    let margin = Some(window).filter(|window| Window::new(window.duration()) != *window);
    let margin = optional(margin, |window| seconds(window.margin()));
    let blob = |bytes: Option<bytes::Bytes>| optional(bytes, |bytes| Literal::bytes(&bytes));
    let (codec, outcome) = if is_same {
        let (codec, bytes) = outcome_columns(Some(some[0].outcome));
        (codec, blob(bytes))
    } else {
        let (mut codecs, mut outcomes) = (Literal::code("CASE id"), Literal::code("CASE id"));
        for it in some {
            let (codec, bytes) = outcome_columns(Some(it.outcome));
            for (case, value) in [(&mut codecs, codec), (&mut outcomes, blob(bytes))] {
                case.push_code(" WHEN ");
                case.push_bytes(it.id.as_bytes());
                case.push_code(" THEN ");
                case.push(&value);
            }
        }
        codecs.push_code(" END");
        outcomes.push_code(" END");
        (codecs, outcomes)
    };
    let named = Named::of(some.iter().map(|it| (it.id, it.claim_id)));
    script.add(
        &session.texts.complete,
        &[
            &seconds(window.duration()),
            &margin,
            &codec,
            &outcome,
            &Literal::number(some[0].millis),
            &named.ids,
            &named.pairs,
        ],
    );
}

async fn renew_part(session: &Session, part: &[Renewal]) -> Result<Vec<Renewed>> {
    let ids: Vec<_> = part.iter().map(|it| it.operation.id()).collect();
    let mut extensions = Vec::new();
    for place in alone(&ids) {
        let Renewal {
            claim_id, lease, ..
        } = &part[place];
        if addend(*lease).is_some() {
            extensions.push((ids[place], *claim_id, *lease));
        }
    }
    let mut answers: Vec<Option<Renewed>> = vec![None; part.len()];
    if !extensions.is_empty() {
        let mut connection = session.connection().await?;
        let done = extend(session, &mut connection, &mut extensions).await;
        end(session, connection).await;
        let (now, extended) = done?;
        for (place, answer) in answers.iter_mut().enumerate() {
            if extended.contains(&ids[place]) {
                *answer = Some(Renewed::Until(now.plus(part[place].lease)));
            }
        }
    }
    let is_open = |place: &usize| answers[*place].is_none();
    let open: Vec<_> = (0..part.len()).filter(is_open).collect();
    if !open.is_empty() {
        let rest: Vec<_> = open.iter().map(|place| part[*place].clone()).collect();
        let renewed = transact(session, jobs::Renew(&rest)).await?;
        for (place, answer) in open.into_iter().zip(renewed) {
            answers[place] = Some(answer);
        }
    }
    Ok(answers.into_iter().flatten().collect())
}

/// Extends what can be extended; returns the time and the ids of those records.
async fn extend(
    session: &Session,
    connection: &mut PooledConnection,
    extensions: &mut [(OpId, ClaimId, Duration)],
) -> Result<(semel_core::Timestamp, HashSet<OpId>)> {
    let texts = &session.texts;
    extensions.sort_unstable_by_key(|(id, _, _)| *id);
    let mut script = Script::default();
    session.add_now(&mut script);
    let told = script.add(&texts.time, &[]);
    script.add(&texts.begin, &[]);
    let mut read = Vec::new();
    for group in groups(extensions, |(_, _, lease)| *lease) {
        let millis = Literal::number(addend(group[0].2).unwrap_or(0));
        let named = Named::of(group.iter().map(|(id, claim_id, _)| (*id, *claim_id)));
        script.add(&texts.renew, &[&millis, &millis, &named.ids, &named.pairs]);
        read.push(script.add(&texts.renewed, &[&millis, &named.ids, &named.pairs]));
    }
    script.add(&texts.commit, &[]);
    let sets = run_through(session, connection, &script).await?;
    let now = time(only(&sets[told])?, 0)?;
    let mut extended = HashSet::new();
    for place in read {
        extended.extend(found(&sets[place])?);
    }
    Ok((now, extended))
}

/// Ids with the claims that are to own them.
struct Named {
    ids: Literal,
    pairs: Literal,
}

impl Named {
    fn of(named: impl Iterator<Item = (OpId, ClaimId)>) -> Self {
        let named: Vec<_> = named.collect();
        let pair = |(id, claim): &(OpId, ClaimId)| [&id.as_bytes()[..], &claim.to_bytes()].concat();
        Self {
            ids: Literal::list(named.iter().map(|(id, _)| id.as_bytes())),
            pairs: Literal::list(named.iter().map(pair)),
        }
    }
}

/// Reads the ids in the first column.
fn found(set: &Set) -> Result<HashSet<OpId>> {
    set.rows.iter().map(|row| id(row, 0)).collect()
}

/// Returns the places of keys that occur once.
fn alone<K: Eq + Hash>(keys: &[K]) -> Vec<usize> {
    let mut counts = HashMap::with_capacity(keys.len());
    for key in keys {
        *counts.entry(key).or_insert(0_u32) += 1;
    }
    (0..keys.len())
        .filter(|place| counts[&keys[*place]] == 1)
        .collect()
}

/// Groups items that are alike in something, in their order.
fn groups<T, K: PartialEq>(items: &[T], of: impl Fn(&T) -> K) -> Vec<Vec<&T>> {
    let mut groups: Vec<Vec<&T>> = Vec::new();
    for item in items {
        match groups.iter_mut().find(|group| of(group[0]) == of(item)) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

/// Different outcomes that one statement holds: it looks for each by going through them.
const DIFFERENT: usize = 128;
