use super::*;

fn first((scenario, way): (&Scenario, Way), with_break: bool, blocks: u64) -> Option<String> {
    let tally = Tally::new(scenario.seen);
    let mut seeds = 1..=blocks;
    seeds.find_map(|seed| played((scenario, way), &tally, with_break, seed, 250))
}

#[test]
fn every_law_holds_in_a_few_hundred_orders() {
    for scenario in scenarios() {
        assert_eq!(first(scenario, false, 2), None, "{}", scenario.0.law);
    }
}

#[test]
fn every_scenario_sees_the_break_that_belongs_to_it() {
    for scenario in scenarios() {
        let seen = first(scenario, true, 4);
        assert!(seen.is_some(), "not seen: {}", scenario.0.law);
    }
}

#[test]
fn a_seed_and_a_number_play_the_same_order_again() {
    for scenario in scenarios() {
        let once = first(scenario, true, 4);
        assert!(once.is_some());
        assert_eq!(once, first(scenario, true, 4), "{}", scenario.0.law);
    }
}
