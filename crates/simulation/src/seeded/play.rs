//! A scenario from its beginning to its end: a phase with faults, a phase without faults in which everything must come
//! to an end, and the judge.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::store::ListQuery;
use semel_core::{Clock, Recovery, State, StateKind, Store};
use tokio::task::JoinSet;

use crate::seeded::dice::Site;
use crate::seeded::judge;
use crate::seeded::payload::number_of;
use crate::seeded::plan::{Turn, YEAR_2038_MILLIS, secs};
use crate::seeded::scenario::{Scenario, Told};
use crate::seeded::worker::work;
use crate::seeded::world::World;

/// Plays a scenario, without the faults in `muted`.
pub fn play(scenario: Scenario, muted: &BTreeSet<Site>) -> Told {
    // A runtime of its own, so that a scenario does not depend on the ones before it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(format!("no runtime: {error}")),
    };
    let played = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(tell(scenario, muted.clone()))
    }));
    played.unwrap_or_else(|_| failed("the scenario panicked".to_owned()))
}

fn failed(why: String) -> Told {
    Told {
        violations: vec![why],
        ..Told::default()
    }
}

async fn tell(scenario: Scenario, muted: BTreeSet<Site>) -> Told {
    let world = World::new(scenario, muted);
    let mut workers = JoinSet::new();
    for worker in 0..world.plan.workers.len() {
        workers.spawn(work(Arc::clone(&world), worker));
    }
    let mut beside = JoinSet::new();
    beside.spawn(sweep(Arc::clone(&world)));
    beside.spawn(befall(Arc::clone(&world)));

    tokio::time::sleep(world.plan.safety).await;
    world.calm();
    world.log(format_args!("no more faults from here on"));
    come_to_an_end(&world).await;
    saw_clocks(&world);

    world.end();
    let ended = tokio::time::timeout(SHUTDOWN, async {
        while let Some(joined) = workers.join_next().await {
            if joined.is_err() {
                world.violation("a worker panicked".to_owned());
            }
        }
    });
    if ended.await.is_err() {
        world.violation("the workers do not end".to_owned());
    }
    come_to_light(&world).await;
    judge::judge(&world).await
}

/// Notes the hard cases of clocks that are wrong from the beginning.
fn saw_clocks(world: &World) {
    let is_off = |skew: i64| skew.unsigned_abs() > 3_600_000;
    if world.plan.workers.iter().any(|it| is_off(it.skew_millis)) {
        world.saw("worker's clock hours off");
    }
    if world.clock(0).now().as_millis() >= YEAR_2038_MILLIS {
        world.saw("past January 2038");
    }
}

/// Waits until every message is acknowledged and nothing is on its way.
async fn come_to_an_end(world: &World) {
    let end = latest_end(world);
    while world.now() < end {
        if world.queue().is_done() && world.tally().in_flight == 0 {
            return;
        }
        tokio::time::sleep(secs(1)).await;
    }
    world.violation(format!(
        "not all is settled {LIVENESS:?} after the last fault"
    ));
}

/// Waits until sweeps have found every effect that was started and abandoned: a message may have been acknowledged
/// when its record was in doubt, before a probe let it go on.
async fn come_to_light(world: &World) {
    let end = latest_end(world);
    while world.now() < end {
        if world.tally().in_flight == 0 && !has_hidden_doubt(world).await {
            return;
        }
        tokio::time::sleep(secs(1)).await;
    }
    world.violation("a doubt does not come to light".to_owned());
}

/// The latest time at which everything without further faults must be over.
fn latest_end(world: &World) -> Duration {
    // A lease ends by the store's clock, which may have gone back since it began.
    let back = world.plan.turns.iter().map(|(_, turn)| match turn {
        Turn::Ahead(by) => Duration::from_millis(by.unsigned_abs()) * 2,
        Turn::Stand(_) => Duration::ZERO,
    });
    world.now() + LIVENESS + back.max().unwrap_or_default()
}

/// Returns whether there is a start that a sweep finds in doubt as soon as its lease is over.
async fn has_hidden_doubt(world: &World) -> bool {
    let all = ListQuery {
        limit: usize::MAX,
        ..ListQuery::default()
    };
    let records = world.store().list(&all).await;
    let records = records.map(|page| page.items).unwrap_or_default();
    let is_hidden = |state: &State| match state {
        State::Started { recovery, .. } => *recovery == Recovery::Park,
        State::Claimed { .. }
        | State::Released { .. }
        | State::Completed { .. }
        | State::Dead { .. }
        | State::InDoubt { .. } => false,
    };
    records.iter().any(|it| is_hidden(&it.record.state))
}

/// Sweeps as a worker does beside its work.
async fn sweep(world: Arc<World>) {
    loop {
        tokio::time::sleep(world.plan.sweep_every).await;
        if let Ok(swept) = world.store().sweep(100).await {
            if swept.doubted > 0 {
                world.log(format_args!(
                    "a sweep brings {} doubts to light",
                    swept.doubted
                ));
                world.saw("doubt found by a sweep");
            }
            if swept.removed > 0 {
                world.log(format_args!("a sweep removes {} records", swept.removed));
                world.saw("record forgotten in time");
            }
        }
    }
}

/// Deals the faults of the whole world, in order.
async fn befall(world: Arc<World>) {
    let plan = &world.plan;
    for outage in &plan.outages {
        if !world.is_muted(outage.site) {
            world.deal(
                outage.site,
                "store away",
                format_args!("the store is away: {outage:?}"),
            );
        }
    }
    let turns = plan.turns.iter().enumerate();
    let turns = turns.map(|(nth, &(at, turn))| (at, Some((nth, turn))));
    let amnesia = plan.amnesia_at.map(|at| (at, None));
    let mut events: Vec<_> = turns.chain(amnesia).collect();
    events.sort_by_key(|(at, _)| *at);
    for (at, turn) in events {
        tokio::time::sleep(at.saturating_sub(world.now())).await;
        if let Some((nth, turn)) = turn {
            befall_clock(&world, nth, turn).await;
        } else if world.deal(
            Site::at(&[5]),
            "store forgets",
            format_args!("the store forgets everything"),
        ) {
            remember(&world).await;
            world.forget_all();
        }
    }
}

async fn befall_clock(world: &World, nth: usize, turn: Turn) {
    // The first keeps the place that it had when there was only one.
    let site = match nth {
        0 => Site::at(&[4]),
        _ => Site::at(&[4, nth as u64]),
    };
    match turn {
        Turn::Ahead(by) => {
            let before = world.store_clock.now();
            if world.deal(
                site,
                "clock jumps",
                format_args!("the store's clock is {by} ms ahead from now on"),
            ) {
                world.store_clock.jump(by);
                world.saw(if world.store_clock.now() < before {
                    "store's clock back"
                } else {
                    "store's clock forward"
                });
            }
        }
        Turn::Stand(time) => {
            if world.deal(
                site,
                "clock stands still",
                format_args!("the store's clock stands still for {time:?}"),
            ) {
                world.store_clock.stop();
                tokio::time::sleep(time).await;
                world.store_clock.go_on();
                world.saw("store's clock stands still");
            }
        }
    }
}

/// Notes the operations that the store had recorded when it forgot.
async fn remember(world: &World) {
    let all = ListQuery {
        limit: usize::MAX,
        ..ListQuery::default()
    };
    let store = world.store();
    let records = store
        .list(&all)
        .await
        .map(|page| page.items)
        .unwrap_or_default();
    let parked = store
        .list_parked(&all)
        .await
        .map(|page| page.items)
        .unwrap_or_default();
    let is_settled = |state: StateKind| match state {
        StateKind::Completed | StateKind::Dead | StateKind::InDoubt => true,
        StateKind::Claimed | StateKind::Started | StateKind::Released => false,
    };
    let settled = records
        .iter()
        .filter(|it| is_settled(it.record.state.kind()));
    let numbers = settled.map(|it| number_of(&it.operation.key));
    let parked = parked
        .iter()
        .filter_map(|it| it.key.as_ref())
        .map(number_of);
    let numbers: Vec<_> = numbers.chain(parked).collect();
    world.tally().remembered.extend(numbers);
}

/// Plays a failing seed again and again with fewer faults, and returns the rest, for a person to read.
pub fn minimised(scenario: Scenario) -> String {
    let Scenario { kind, seed, .. } = scenario;
    let mut muted = BTreeSet::new();
    let mut told = play(scenario, &muted);
    if told.violations.is_empty() {
        return format!("{} stands with seed {seed}", kind.name());
    }
    loop {
        let before = muted.len();
        for (site, _) in told.dealt.clone() {
            muted.insert(site);
            let without = play(scenario, &muted);
            if without.violations.is_empty() {
                muted.remove(&site);
            } else {
                told = without;
            }
        }
        if muted.len() == before {
            break;
        }
    }
    let mut text = format!(
        "{}, seed {seed}, with {} of its faults:\n",
        kind.name(),
        told.dealt.len()
    );
    // Writing to a string cannot fail.
    for (_, fault) in &told.dealt {
        let _ = writeln!(text, "  {fault}");
    }
    text.push_str("what happened:\n");
    text.push_str(&told.log);
    for violation in &told.violations {
        let _ = writeln!(text, "so: {violation}");
    }
    text
}

/// The time that everything may take to come to an end once the faults are over.
const LIVENESS: Duration = secs(3_600);
/// The time that the workers may take to end, once they have nothing to do.
const SHUTDOWN: Duration = secs(600);
