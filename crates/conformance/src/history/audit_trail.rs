//! The audit trail of a history: the expected entries, and the store's list.

use std::collections::BTreeMap;

use semel_core::port::store::ListQuery;
use semel_core::{AnyStore, Audited, Key, Store, Timestamp};

use super::call::{Answer, Call, Times};
use super::search::Event;
use super::spec::Spec;

/// The entries that a sequence should have left, oldest first.
#[derive(Debug, Default)]
pub(super) struct AuditTrail(Vec<Audited>);

impl AuditTrail {
    /// Notes a call that was answered as expected.
    pub(super) fn step(
        &mut self,
        (call, answer): (&Call, &Answer),
        (before, after): (&Spec, &Spec),
        now: Timestamp,
    ) {
        if let Some((directive, note)) = call.noted()
            && answer.is_done
        {
            let operation = &directive.operation;
            self.0.push(Audited {
                at: now,
                note: note.clone(),
                action: directive.order.action().into(),
                scope: Some(operation.scope.clone()),
                key: Some(operation.key.clone()),
                before: before.standing(&operation.key),
                after: after.standing(&operation.key),
            });
        }
    }

    /// Checks that the store lists these entries, in this order.
    pub(super) async fn check(&self, store: &AnyStore, times: Times) -> Result<(), String> {
        let blurred = |entries: &[Audited]| {
            let mut entries = entries.to_vec();
            for entry in &mut entries {
                times.blur(&mut entry.at);
            }
            entries
        };
        let (listed, expected) = (blurred(&listed(store).await?), blurred(&self.0));
        if listed == expected {
            return Ok(());
        }
        Err(format!(
            "the audit trail is {listed:?}, should be {expected:?}"
        ))
    }
}

/// Checks after a race that each key has as many entries as orders about it were carried out.
pub(super) async fn check_race(store: &AnyStore, events: &[Event]) -> Result<(), String> {
    let mut counts = BTreeMap::<Key, i64>::new();
    for event in events {
        if let Some((directive, _)) = event.call.noted()
            && event.answer.is_done
        {
            *counts.entry(directive.operation.key.clone()).or_default() += 1;
        }
    }
    for entry in listed(store).await? {
        let Some(key) = entry.key else { continue };
        *counts.entry(key).or_default() -= 1;
    }
    match counts.iter().find(|(_, count)| **count != 0) {
        None => Ok(()),
        Some((key, missing)) => Err(format!("the audit trail of {key} misses {missing} entries")),
    }
}

async fn listed(store: &AnyStore) -> Result<Vec<Audited>, String> {
    let mut query = ListQuery {
        limit: 3,
        ..ListQuery::default()
    };
    let mut listed = Vec::new();
    loop {
        let page = store.list_audit(&query).await;
        let page = page.map_err(|error| format!("the audit trail failed: {error:?}"))?;
        listed.extend(page.items);
        query.after = page.next;
        if query.after.is_none() {
            return Ok(listed);
        }
    }
}
