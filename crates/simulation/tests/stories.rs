//! Scenarios by the dozen, each played twice, and scenarios that once failed.

use std::collections::BTreeSet;

use semel_simulation::seeded::{
    Kind, PUBLISHED_CASES, RELAYED_CASES, Scenario, Told, minimised, play, published, relayed,
};

macro_rules! scenarios {
    ($($test:ident $kind:ident,)+) => {
        $(#[test]
        fn $test() {
            for seed in 1..=STORIES {
                stands(Scenario::new(Kind::$kind, seed));
            }
            for seed in 1..=STORIES / 3 {
                stands(Scenario::new(Kind::$kind, seed).with_wild_clocks());
            }
        })+
    };
}

scenarios! {
    outputs_stay_exact Output,
    transactions_stay_exact Transaction,
    keyed_calls_stay_exact Keyed,
    repeated_calls_are_listed Repeat,
    repeated_calls_of_a_stream_are_listed Stream,
    parked_calls_happen_at_most_once Park,
    gated_writes_end_in_their_last_version Gated,
    commits_of_a_broker_stay_exact Streamed,
    calls_at_the_door_stay_exact Once,
    parked_calls_at_the_door_happen_at_most_once OnceParked,
    requests_of_clients_stay_exact Http,
    parked_requests_of_clients_happen_at_most_once HttpParked,
    what_clients_of_claims_say_counts Claims,
}

/// Seeds that failed once, and the reason.
const FAILED: &[(Kind, u64, &str)] = &[
    (
        Kind::Park,
        770,
        "a probe was asked before an old call landed, and believed after",
    ),
    (
        Kind::Park,
        115_664,
        "a probe took long, and a claim beside it ran out before it began",
    ),
    (
        Kind::Park,
        118_611,
        "a probe took long, and a claim beside it ran out before it began",
    ),
    (
        Kind::Park,
        122_362,
        "a probe took long, and a claim beside it ran out before it began",
    ),
    (
        Kind::Output,
        686,
        "an append was recorded, its answer lost, its next try refused: it was cut off",
    ),
    // From here on the judge was wrong.
    (Kind::Output, 181_943, FORGOTTEN),
    (Kind::Output, 249_665, FORGOTTEN),
    (Kind::Transaction, 338_005, FORGOTTEN),
    (Kind::Keyed, 355_720, FORGOTTEN),
    (Kind::Park, 26_704, FORGOTTEN),
    (Kind::Park, 63_332, TOO_EARLY),
    (Kind::Park, 211_949, TOO_EARLY),
    (Kind::Park, 246_486, TOO_EARLY),
    (
        Kind::Park,
        519_119,
        "a doubt was listed, a probe let it go on, and who found it dead was gone: it was called lost",
    ),
    (Kind::Repeat, 92_962, NOT_ITS_OWNER),
    (Kind::Stream, 67_363, NOT_ITS_OWNER),
    (
        Kind::Keyed,
        317_397,
        "a worker died with a claim whose message had been handed on: the doubt was said to have no cause",
    ),
    (Kind::Once, 24_157, ALL_TOLD),
    (Kind::Once, 44_422, ALL_TOLD),
    (
        Kind::HttpParked,
        1_101,
        "clients were told of a doubt, a late refusal ended it, and its record was forgotten: it was called lost",
    ),
];

const FORGOTTEN: &str = "a record left its window between an answer and its acknowledgement, which was called too early";
const TOO_EARLY: &str =
    "a start that nobody had come back to was called lost before a sweep could find it";
const ALL_TOLD: &str = "the store forgot, a late claim of somebody who was gone came first, and all who asked were told of another request: it was called lost";
const NOT_ITS_OWNER: &str =
    "a claim whose answer was lost ran out: it was blamed on an owner that had released it before";

#[test]
fn what_failed_once_stands() {
    for &(kind, seed, _why) in FAILED {
        stands(Scenario::new(kind, seed));
    }
}

#[track_caller]
fn stands(scenario: Scenario) {
    let told = play(scenario, &BTreeSet::new());
    assert_eq!(
        told.violations,
        Vec::<String>::new(),
        "{}",
        minimised(scenario)
    );
    let again = play(scenario, &BTreeSet::new());
    assert_eq!(told, again, "{scenario:?}: another result each time");
}

#[test]
fn what_is_committed_is_relayed_in_order() {
    stand(relayed);
}

#[test]
fn stories_of_relays_meet_what_is_hard() {
    meet(relayed, &RELAYED_CASES);
}

#[test]
fn what_a_producer_is_given_is_published_in_order() {
    stand(published);
}

#[test]
fn stories_of_producers_meet_what_is_hard() {
    meet(published, &PUBLISHED_CASES);
}

/// Checks that nothing is broken, and that a seed tells the same each time.
#[track_caller]
fn stand(play: fn(u64) -> Told) {
    for seed in 1..=3 * STORIES {
        let told = play(seed);
        let words = &told.log;
        assert!(
            told.violations.is_empty(),
            "{seed}: {:?}\n{words}",
            told.violations
        );
        assert_eq!(told, play(seed), "{seed}: another result each time");
    }
}

/// Checks that a few seeds meet all of these cases, and no other.
#[track_caller]
fn meet(play: fn(u64) -> Told, cases: &[&'static str]) {
    let seeds = 1..=STORIES_UNTIL_ALL_IS_SEEN;
    let seen: BTreeSet<_> = seeds.flat_map(|seed| play(seed).seen.into_keys()).collect();
    assert_eq!(seen, cases.iter().copied().collect());
}

#[test]
fn seeds_differ_from_each_other() {
    let one = play(Scenario::new(Kind::Keyed, 1), &BTreeSet::new());
    let other = play(Scenario::new(Kind::Keyed, 2), &BTreeSet::new());
    assert_ne!(one.log, other.log);
}

#[test]
fn a_fault_that_is_switched_off_is_not_dealt() {
    let told = play(Scenario::new(Kind::Park, 1), &BTreeSet::new());
    let all: BTreeSet<_> = told.dealt.iter().map(|(site, _)| *site).collect();
    assert!(!all.is_empty(), "the scenario has faults");
    let without = play(Scenario::new(Kind::Park, 1), &all);
    assert!(without.dealt.iter().all(|(site, _)| !all.contains(site)));
}

/// In this build, whose arithmetic is checked. A merge plays 2,000 of each kind besides, as T2, and 300 as T10.
const STORIES: u64 = 3;
const STORIES_UNTIL_ALL_IS_SEEN: u64 = 60;
