//! Decisions by tenant: the busiest tenants by name, all others together.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::families::DECISIONS;
use crate::sampled::{Sample, SampledFamily};

/// The decisions of all pipelines by tenant, in bounded memory.
///
/// [`SHOWN`] tenants have series of their own. Which they are follows from a *space-saving* count of [`COUNTED`]
/// tenants: one that is new takes the place, and the count, of the least busy. What it inherits so is the error of its
/// count, and is left out where tenants are compared. All counts are halved every [`HALVED`] decisions, so that the
/// busiest are those of late. A tenant begins at zero when it is shown, and what it decided before stays in `other`. If
/// it is no longer shown, its series end, and what they counted is in no series any more: the sum of all series is that
/// of all decisions without those.
#[derive(Debug, Default)]
pub(crate) struct Tenants(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    counted: HashMap<Box<str>, Counted>,
    shown: usize,
    other: Decisions,
    decided: u64,
}

#[derive(Debug)]
struct Counted {
    /// An upper bound of its decisions of late.
    busy: u64,
    /// The part of it that others may have decided.
    error: u64,
    /// Its decisions since it is shown.
    shown: Option<Decisions>,
}

type Decisions = [u64; DECISIONS.len()];

impl Tenants {
    /// Counts a decision, the number of its word in [`DECISIONS`].
    pub(crate) fn decided(&self, tenant: &str, decision: usize) {
        let mut state = self.lock();
        let state = &mut *state;
        state.decided += 1;
        if state.decided.is_multiple_of(HALVED) {
            for counted in state.counted.values_mut() {
                counted.busy /= 2;
                counted.error /= 2;
            }
        }
        // A tenant that has the name of all others is one of them.
        if tenant == OTHER {
            state.other[decision] += 1;
            return;
        }
        if !state.counted.contains_key(tenant) {
            state.enter(tenant);
        }
        let Some(counted) = state.counted.get_mut(tenant) else {
            state.other[decision] += 1;
            return;
        };
        counted.busy += 1;
        let sure = counted.sure();
        if counted.shown.is_none() && (state.shown < SHOWN || sure.is_multiple_of(COMPARED)) {
            state.show(tenant, sure);
        }
        let shown = state
            .counted
            .get_mut(tenant)
            .and_then(|it| it.shown.as_mut());
        shown.unwrap_or(&mut state.other)[decision] += 1;
    }

    /// Returns the family as it is now; without a series if no operation had a tenant.
    pub(crate) fn family(&self) -> SampledFamily {
        let state = self.lock();
        let samples = |tenant: &str, decisions: &Decisions| -> Vec<_> {
            let counts = DECISIONS.iter().zip(*decisions);
            let sample = |(decision, count): (&&str, u64)| {
                Sample::new([("tenant", tenant), ("decision", decision)], count)
            };
            counts.map(sample).collect()
        };
        let mut all = Vec::new();
        for (tenant, counted) in &state.counted {
            if let Some(decisions) = &counted.shown {
                all.extend(samples(tenant, decisions));
            }
        }
        if state.decided > 0 {
            all.extend(samples(OTHER, &state.other));
        }
        SampledFamily::counter(
            "semel_tenant_decisions",
            "Answers to claims by tenant: the busiest, and all others.",
            all,
        )
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a tenant that is new, in the place of the least busy that is not shown if there is no room.
    fn enter(&mut self, tenant: &str) {
        let mut busy = 0;
        if self.counted.len() >= COUNTED {
            let hidden = self.counted.iter().filter(|(_, it)| it.shown.is_none());
            let least = hidden.min_by_key(|(_, it)| it.busy);
            let Some(least) = least.map(|(name, _)| name.clone()) else {
                return;
            };
            busy = self.counted.remove(&least).map_or(0, |it| it.busy);
        }
        let shown = None;
        let error = busy;
        let counted = Counted { busy, error, shown };
        self.counted.insert(tenant.into(), counted);
    }

    /// Shows a tenant, if it is busier than one that is shown, by a quarter so that the two do not take turns.
    fn show(&mut self, tenant: &str, sure: u64) {
        if self.shown >= SHOWN {
            let shown = self.counted.iter().filter(|(_, it)| it.shown.is_some());
            let Some((least, least_sure)) = shown
                .min_by_key(|(_, it)| it.sure())
                .map(|(name, it)| (name.clone(), it.sure()))
            else {
                return;
            };
            if sure <= least_sure + least_sure / 4 {
                return;
            }
            if let Some(least) = self.counted.get_mut(&least) {
                least.shown = None;
                self.shown -= 1;
            }
        }
        if let Some(counted) = self.counted.get_mut(tenant) {
            counted.shown = Some([0; DECISIONS.len()]);
            self.shown += 1;
        }
    }
}

impl Counted {
    /// Returns a lower bound of its decisions of late.
    const fn sure(&self) -> u64 {
        self.busy.saturating_sub(self.error)
    }
}

/// The label of all tenants that are not shown.
const OTHER: &str = "other";
/// Tenants that are shown by name: contract, "the 20 busiest".
const SHOWN: usize = 20;
/// Tenants that are counted.
const COUNTED: usize = 200;
/// Decisions after which all counts are halved.
const HALVED: u64 = 100_000;
/// A tenant that is not shown is compared with those that are after this many decisions.
const COMPARED: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// The decisions of each tenant that is shown.
    fn shown(tenants: &Tenants) -> Vec<(String, u64)> {
        let state = tenants.lock();
        let shown = state.counted.iter();
        let shown = shown.filter_map(|(name, it)| Some((name.to_string(), it.shown?.iter().sum())));
        let mut shown: Vec<_> = shown.collect();
        shown.sort();
        shown
    }

    #[test]
    fn few_tenants_are_counted_exactly() {
        let tenants = Tenants::default();
        for round in 0..30 {
            for tenant in 0..SHOWN {
                tenants.decided(&format!("t{tenant}"), round % 2);
            }
        }
        tenants.decided(OTHER, 3);
        assert_eq!(shown(&tenants).len(), SHOWN);
        assert!(shown(&tenants).iter().all(|(_, count)| *count == 30));
        let state = tenants.lock();
        assert_eq!(state.counted["t7"].shown, Some([15, 15, 0, 0, 0, 0, 0]));
        assert_eq!(state.other, [0, 0, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn the_busiest_have_names_and_nothing_is_lost_or_counted_twice() {
        let tenants = Tenants::default();
        // The many small ones come first and take the places.
        let mut decided = 0;
        for tenant in 0..5_000 {
            tenants.decided(&format!("small-{tenant}"), 0);
            decided += 1;
        }
        // Some 600 decisions each, 60 of the small ones for each round.
        for round in 0..600 {
            for tenant in 0..SHOWN {
                tenants.decided(&format!("big-{tenant}"), 1);
            }
            for tenant in 0..60 {
                tenants.decided(&format!("small-{}", (round * 60 + tenant) % 5_000), 0);
            }
            decided += SHOWN as u64 + 60;
        }
        let shown = shown(&tenants);
        let big = shown.iter().filter(|(name, _)| name.starts_with("big-"));
        assert_eq!(big.count(), SHOWN, "{shown:?}");
        let state = tenants.lock();
        assert!(state.counted.len() <= COUNTED);
        // Those of a tenant that was shown once and is not any more are gone with its series.
        let sum = shown.iter().map(|(_, count)| count).sum::<u64>();
        let others = state.other.iter().sum::<u64>();
        let gone = decided - sum - others;
        assert!(gone <= 200, "{gone}");
        for (name, count) in &shown {
            assert!((300..=600).contains(count), "{name} {count}");
        }
    }

    #[test]
    fn a_tenant_that_grows_quiet_gives_way() {
        let tenants = Tenants::default();
        for tenant in 0..SHOWN {
            for _ in 0..3_000 {
                tenants.decided(&format!("old-{tenant}"), 0);
            }
        }
        for _ in 0..400_000 {
            tenants.decided("new", 0);
        }
        assert!(shown(&tenants).iter().any(|(name, _)| name == "new"));
        assert_eq!(shown(&tenants).len(), SHOWN);
    }

    #[test]
    fn tenants_that_come_once_never_displace_those_that_stay() {
        let tenants = Tenants::default();
        for tenant in 0..SHOWN {
            for _ in 0..50 {
                tenants.decided(&format!("stays-{tenant}"), 0);
            }
        }
        // Their counts, inherited one from another, reach some 400.
        for tenant in 0..80_000 {
            tenants.decided(&format!("once-{tenant}"), 0);
        }
        let shown = shown(&tenants);
        assert!(
            shown
                .iter()
                .all(|(name, count)| name.starts_with("stays-") && *count == 50),
            "{shown:?}"
        );
    }
}
