use super::*;

#[test]
fn every_law_holds_in_a_few_hundred_orders() {
    for scenario in scenarios() {
        assert_eq!(broken(scenario, false, 2), None, "{}", scenario.0.law);
    }
}

#[test]
fn every_scenario_sees_the_break_that_belongs_to_it() {
    for scenario in scenarios() {
        let seen = broken(scenario, true, CONTROLS);
        assert!(seen.is_some(), "not seen: {}", scenario.0.law);
    }
}

#[test]
fn a_seed_and_a_number_play_the_same_order_again() {
    for scenario in scenarios() {
        let once = broken(scenario, true, CONTROLS);
        assert!(once.is_some());
        assert_eq!(once, broken(scenario, true, CONTROLS), "{}", scenario.0.law);
    }
}

#[test]
fn a_scenario_that_sees_no_break_fails_the_tier() {
    let sees_nothing = Scenario {
        law: "none",
        seen: &[],
        play: |_, _| {},
    };
    let why = blind((&sees_nothing, Way::Awaits));
    assert_eq!(
        why.as_deref(),
        Some("does not see the break that belongs to it")
    );
    assert!(scenarios().all(|scenario| blind(scenario).is_none()));
}
