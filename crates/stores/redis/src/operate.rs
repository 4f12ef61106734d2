//! Operators' orders: change and audit trail together.
//!
//! # Guarantee   DBT-5, ORD-1, AUD-1; BAT-2

use futures_util::future::join_all;
use semel_core::decide::{Directed, Directive};
use semel_core::{OpId, Result};

use crate::session::Session;
use crate::versioned::{MOST_ITEMS, Orders, transact};

/// Carries out orders: those of one bucket together, which on a single server are all.
pub(crate) async fn operate(session: &Session, batch: &[Directive]) -> Result<Vec<Directed>> {
    let mut answers = Vec::with_capacity(batch.len());
    for some in batch.chunks(MOST_ITEMS) {
        match together(session, some).await {
            Ok(directed) => answers.extend(directed),
            Err(error) if answers.is_empty() && some.len() == batch.len() => return Err(error),
            Err(error) => answers.extend(some.iter().map(|_| Directed::Failed(error.clone()))),
        }
    }
    Ok(answers)
}

async fn together(session: &Session, batch: &[Directive]) -> Result<Vec<Directed>> {
    let ids: Vec<OpId> = batch.iter().map(|it| it.operation.id()).collect();
    let mut buckets: Vec<Vec<usize>> = session.buckets.all().map(|_| Vec::new()).collect();
    for (item, id) in ids.iter().enumerate() {
        buckets[session.buckets.of(id)].push(item);
    }
    buckets.retain(|items| !items.is_empty());
    if let [items] = &buckets[..] {
        return transact::<Orders>(session, batch, items, 0).await;
    }
    // The entries of one batch are in its order, whatever buckets they are in.
    let is_noted = batch.iter().any(|directive| directive.note.is_some());
    let stamp = if is_noted {
        latest(session, &ids, &buckets).await?
    } else {
        0
    };
    let parts = buckets
        .iter()
        .map(|items| transact::<Orders>(session, batch, items, stamp));
    let mut answers: Vec<Option<Directed>> = vec![None; batch.len()];
    for (items, done) in buckets.iter().zip(join_all(parts).await) {
        match done {
            Ok(directed) => {
                for (item, answer) in items.iter().zip(directed) {
                    answers[*item] = Some(answer);
                }
            }
            Err(error) => {
                for item in items {
                    answers[*item] = Some(Directed::Failed(error.clone()));
                }
            }
        }
    }
    Ok(answers.into_iter().flatten().collect())
}

/// Returns the latest of the stamps that these buckets would give out now.
async fn latest(session: &Session, ids: &[OpId], buckets: &[Vec<usize>]) -> Result<u64> {
    let mut latest = 0;
    for items in buckets {
        let bucket = items
            .first()
            .map_or(0, |item| session.buckets.of(&ids[*item]));
        latest = latest.max(session.instant(bucket).await?.1);
    }
    Ok(latest)
}
