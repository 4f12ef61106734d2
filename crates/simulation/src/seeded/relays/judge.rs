//! The judge of a story: what was committed is in the topic, in order, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use super::scene::Scene;
use crate::seeded::scenario::Told;

/// Holds the topic against what was committed.
pub(super) fn judge(scene: &Scene) -> Told {
    let state = scene.state();
    let mut told = scene.course.told();
    let violations = &mut told.violations;
    let mut in_order: Vec<_> = state.committed.iter().collect();
    in_order.sort_by_key(|(id, (place, _))| (*place, **id));
    // What a person has to decide about first holds up its order key.
    let (mut expected, mut dead) = (BTreeSet::new(), BTreeSet::new());
    let mut stopped = BTreeSet::new();
    for (id, (_, key)) in in_order {
        if key.is_some_and(|key| stopped.contains(&key)) {
            continue;
        }
        if scene.plan.poison.contains(id) {
            dead.insert(*id);
            stopped.extend(*key);
        } else {
            expected.insert(*id);
        }
    }
    let mut first = BTreeSet::new();
    let mut places: BTreeMap<u64, i64> = BTreeMap::new();
    let mut repeats = 0_u64;
    for id in &state.topic {
        if !first.insert(*id) {
            repeats += 1;
            continue;
        }
        if let Some((place, Some(key))) = state.committed.get(id) {
            let before = places.insert(*key, *place);
            if before.is_some_and(|before| before > *place) {
                violations.push(format!("message {id} of key {key} came out of order"));
            }
        }
    }
    let lost: Vec<_> = expected.difference(&first).collect();
    if !lost.is_empty() {
        violations.push(format!("committed and never published: {lost:?}"));
    }
    let unasked: Vec<_> = first.difference(&expected).collect();
    if !unasked.is_empty() {
        violations.push(format!("published before their turn: {unasked:?}"));
    }
    let given_up = state.rows.iter().filter(|(_, row)| row.is_dead);
    let given_up: BTreeSet<u128> = given_up.map(|(id, _)| *id).collect();
    if given_up != dead {
        violations.push(format!("given up: {given_up:?}, and not {dead:?}"));
    }
    if scene.course.blows() == 0 && repeats > 0 {
        violations.push(format!("{repeats} published again, and nothing went wrong"));
    }
    told.lost = lost.len() as u64;
    told
}
