//! Persons' statements, written into records, and the messages that were kept, moved where they belong then.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use semel_core::decide::{Directed, Verdict};
use semel_core::port::store::Store;
use semel_core::{AnyStore, Error, Note, Parked, ParkedId, Result};

use super::{Case, MessageFate, dead_letter, message_id, messages};
use crate::paging::for_each_page;

/// The results of a batch.
#[derive(Debug)]
#[must_use = "an order may have been refused"]
pub struct Resolution {
    /// One answer for each case, in the same order.
    pub answers: Vec<Directed>,
    /// The failure that left messages where they are. The records stand as the answers say all the same.
    pub failure: Option<Error>,
}

/// Gives the orders of a batch, then moves the messages of those that were carried out. If it is interrupted in
/// between, the same statement again continues the work: the records follow it already, and the messages are left
/// over.
///
/// # Cost
///
/// One call of the store; reads the messages that are kept for doubts, if one has to be moved
///
/// # Errors
///
/// Those of the store, if it did not answer the orders.
pub async fn resolve(store: &AnyStore, batch: &[Case], note: &Note) -> Result<Resolution> {
    let open = batch.iter().filter(|case| !case.is_left_over());
    let directives: Vec<_> = open.map(|case| case.directive(note)).collect();
    let answers = if directives.is_empty() {
        Vec::new()
    } else {
        store.operate(directives.into()).await?
    };
    let mut answers = answers.into_iter();
    let (mut all, mut resolved) = (Vec::with_capacity(batch.len()), Vec::new());
    for case in batch {
        let answer = if case.is_left_over() {
            Directed::Now(Some(case.leads_to()))
        } else if let Some(answer) = answers.next() {
            answer
        } else {
            break;
        };
        if matches!(answer, Directed::Now(_)) {
            resolved.push(case);
        }
        all.push(answer);
    }
    let failure = settle_messages(store, &resolved, note).await.err();
    Ok(Resolution {
        answers: all,
        failure,
    })
}

async fn settle_messages(store: &AnyStore, resolved: &[&Case], note: &Note) -> Result<()> {
    let moved = resolved.iter().filter(|case| {
        matches!(
            case.message(),
            MessageFate::Dropped | MessageFate::DeadLetter
        )
    });
    let moved: BTreeMap<ParkedId, &Case> = moved
        .map(|case| (message_id(&case.doubt().operation), *case))
        .collect();
    if moved.is_empty() {
        return Ok(());
    }
    let is_abandoned = |case: &Case| matches!(case.verdict(), Verdict::Abandon { .. });
    if moved.values().any(|case| is_abandoned(case)) {
        let scopes: BTreeSet<_> = moved
            .values()
            .map(|it| &it.doubt().operation.scope)
            .collect();
        for scope in scopes {
            let query = messages(Some(scope));
            let mut dead = Vec::new();
            for_each_page(store, query, |messages: Vec<Parked>| {
                let messages = messages.into_iter();
                let messages = messages.filter(|message| moved.contains_key(&message.id()));
                dead.extend(messages.map(|message| dead_letter(message, note)));
                Ok(ControlFlow::Continue(()))
            })
            .await?;
            for few in dead.chunks(MESSAGES) {
                store.park(few.into()).await?;
            }
        }
    }
    let ids = moved.into_keys().collect();
    store.drop_parked(ids, Some(note)).await?;
    Ok(())
}

/// The number of messages that are parked at once; each may be long.
const MESSAGES: usize = 64;
