//! The judge of a story: each message of the input is there, in order and under one id; behind a gate once.

use std::collections::{BTreeMap, BTreeSet};

use semel_core::port::ingest::IngestJournal;
use semel_core::producer::decode;

use super::scene::{KEYS, Published, STREAM, Scene};
use crate::seeded::scenario::Told;

/// Holds what arrived against the input.
pub(super) async fn judge(scene: &Scene) -> Told {
    let arrived = if scene.plan.has_gate {
        match behind_the_gate(scene).await {
            Ok(arrived) => arrived,
            Err(why) => {
                scene.course.violation(why);
                Vec::new()
            }
        }
    } else {
        scene.state().topic.clone()
    };
    let mut told = scene.course.told();
    let violations = &mut told.violations;
    let mut first: BTreeMap<u64, &Published> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    let mut latest: BTreeMap<u64, u64> = BTreeMap::new();
    let mut repeats = 0_u64;
    for message in &arrived {
        if let Some(before) = first.get(&message.row) {
            repeats += 1;
            if *before != message {
                violations.push(format!("{before:?} came again as {message:?}"));
            }
            continue;
        }
        first.insert(message.row, message);
        if !ids.insert(&message.id) {
            violations.push(format!("two messages have the id of {message:?}"));
        }
        let key = if scene.plan.is_in_waves {
            message.row % KEYS
        } else {
            0
        };
        let before = latest.insert(key, message.row);
        if before.is_some_and(|before| before > message.row) {
            violations.push(format!("{message:?} came out of order"));
        }
    }
    let lost = (0..scene.plan.rows).filter(|row| !first.contains_key(row));
    let lost: Vec<u64> = lost.collect();
    if !lost.is_empty() {
        violations.push(format!("never published: {lost:?}"));
    }
    if scene.plan.has_gate && repeats > 0 {
        violations.push(format!("{repeats} are behind the gate twice"));
    }
    if scene.course.blows() == 0 && repeats > 0 {
        violations.push(format!("{repeats} published again, and nothing went wrong"));
    }
    told.lost = lost.len() as u64;
    told
}

/// Reads what the gate let through.
async fn behind_the_gate(scene: &Scene) -> Result<Vec<Published>, String> {
    let senders = scene.gate.list().await.map_err(|error| error.to_string())?;
    let [sender] = &*senders else {
        return Err(format!("{} producers are known to the gate", senders.len()));
    };
    let mut arrived = Vec::new();
    let mut after = 0;
    loop {
        let page = scene.gate.accepted(&sender.name, STREAM, after, 1_000);
        let page = page.await.map_err(|error| error.to_string())?;
        let batches = page.map(|it| it.batches).unwrap_or_default();
        if batches.is_empty() {
            return Ok(arrived);
        }
        for batch in batches {
            let messages = decode(&batch.body).ok_or("the gate keeps no batch")?;
            for (sequence, message) in (batch.first..).zip(messages) {
                let row = std::str::from_utf8(&message.payload).ok();
                arrived.push(Published {
                    id: message.id.as_deref().unwrap_or_default().into(),
                    row: row.and_then(|it| it.parse().ok()).unwrap_or(u64::MAX),
                    sequence,
                });
            }
            after = batch.first + u64::from(batch.count) - 1;
        }
    }
}
