use super::*;

const DAY: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3_600);
const NOW: Timestamp = Timestamp::from_millis(1_000 * 86_400_000);

fn terms(class: Class) -> Terms {
    Terms {
        class,
        window: Window::new(DAY * 7),
        in_hand: HOUR,
        has_birth: false,
        is_numbered: false,
        is_approximate: false,
        is_accepted: false,
    }
}

fn horizons(redelivery: Horizon, replay: Horizon) -> HorizonReport {
    HorizonReport {
        redelivery,
        replay,
        ..HorizonReport::unknown()
    }
}

fn kept(length: Duration) -> HorizonReport {
    horizons(Horizon::Within(length), Horizon::Within(length))
}

fn endless() -> HorizonReport {
    horizons(Horizon::Endless, Horizon::Endless)
}

const PARK: Class = Class::Unkeyed(OnDoubt::Park);

const fn keyed(provider_window: Duration) -> Class {
    Class::Keyed { provider_window }
}

#[test]
fn what_is_needed_is_the_farther_horizon_the_attempts_and_the_margin() {
    let within = Horizon::Within;
    for (redelivery, replay, needed) in [
        (within(DAY), within(DAY * 2), within(DAY * 2)),
        (within(DAY * 2), within(DAY), within(DAY * 2)),
        (within(DAY), Horizon::Endless, Horizon::Endless),
        (Horizon::Endless, within(DAY), Horizon::Endless),
        (within(DAY), Horizon::Unknown, Horizon::Unknown),
    ] {
        let judgement = terms(PARK).judge(&horizons(redelivery, replay), NOW);
        let margin = Duration::from_secs(60);
        assert_eq!(judgement.needed, needed.plus(HOUR).plus(margin));
    }
}

#[test]
fn a_window_is_enough_to_the_millisecond() {
    let least = Duration::from_secs(7 * 86_400 - 3_600 - 60);
    let judge = |kept: &HorizonReport| terms(Class::Transactional).judge(kept, NOW).verdict;
    assert_eq!(judge(&kept(least)), Verdict::Enough);
    let more = least + Duration::from_millis(1);
    assert_eq!(judge(&kept(more)), Verdict::Repeats);
}

#[test]
fn beyond_the_window_the_gate_decides() {
    let long = DAY * 8;
    for (horizons, has_birth, is_stamped, gate, verdict) in [
        (kept(DAY), false, false, Gate::Off, Verdict::Enough),
        (kept(DAY), true, false, Gate::Birth, Verdict::Enough),
        (kept(long), false, false, Gate::Off, Verdict::Repeats),
        (kept(long), true, false, Gate::Birth, Verdict::SetsAside),
        (kept(long), false, true, Gate::Appended, Verdict::SetsAside),
        (kept(long), true, true, Gate::Appended, Verdict::SetsAside),
        (endless(), false, false, Gate::Off, Verdict::Repeats),
        (endless(), true, false, Gate::Birth, Verdict::SetsAside),
        (
            HorizonReport::unknown(),
            false,
            false,
            Gate::Off,
            Verdict::Unknown,
        ),
        (
            HorizonReport::unknown(),
            true,
            false,
            Gate::Birth,
            Verdict::Unknown,
        ),
    ] {
        let terms = Terms {
            has_birth,
            ..terms(PARK)
        };
        let horizons = HorizonReport {
            is_stamped,
            ..horizons
        };
        let judgement = terms.judge(&horizons, NOW);
        assert_eq!(
            (judgement.gate, judgement.verdict),
            (gate, verdict),
            "{horizons:?}"
        );
    }
}

#[test]
fn a_class_bears_what_it_promises_no_more_than() {
    let needed = DAY * 8 + HOUR + Duration::from_secs(60);
    for (class, verdict) in [
        (Class::Transactional, Verdict::Repeats),
        (PARK, Verdict::Repeats),
        (Class::Unkeyed(OnDoubt::Repeat), Verdict::RepeatsBorne),
        (keyed(DAY), Verdict::Repeats),
        // The provider's own margin is subtracted.
        (keyed(needed), Verdict::Repeats),
        (
            keyed(needed + Duration::from_secs(60)),
            Verdict::RepeatsBorne,
        ),
    ] {
        assert_eq!(
            terms(class).judge(&kept(DAY * 8), NOW).verdict,
            verdict,
            "{class:?}"
        );
    }
    assert_eq!(
        terms(keyed(DAY * 999)).judge(&endless(), NOW).verdict,
        Verdict::Repeats
    );
    let approximate = Terms {
        is_approximate: true,
        ..terms(PARK)
    };
    assert_eq!(
        approximate.judge(&endless(), NOW).verdict,
        Verdict::RepeatsBorne
    );
}

#[test]
fn what_is_numbered_is_known_after_the_window() {
    let numbered = Terms {
        is_numbered: true,
        ..terms(PARK)
    };
    let judge = |horizons: &HorizonReport| numbered.judge(horizons, NOW).verdict;
    assert_eq!(judge(&kept(DAY)), Verdict::Enough);
    for beyond in [kept(DAY * 8), endless(), HorizonReport::unknown()] {
        assert_eq!(judge(&beyond), Verdict::Numbered);
    }
    let stamped = HorizonReport {
        is_stamped: true,
        ..endless()
    };
    assert_eq!(judge(&stamped), Verdict::SetsAside);
    // The store's own messages may be run again after a stop of all workers.
    let short = Terms {
        window: Window::new(DAY),
        ..numbered
    };
    assert_eq!(short.judge(&endless(), NOW).verdict, Verdict::Repeats);
}

#[test]
fn what_is_there_counts_more_than_what_is_set() {
    let aged = |horizons: HorizonReport, days: u32| HorizonReport {
        oldest: Some(NOW.minus(DAY * days)),
        ..horizons
    };
    let judge = |horizons: &HorizonReport| terms(PARK).judge(horizons, NOW).verdict;
    assert_eq!(judge(&aged(kept(DAY), 2)), Verdict::Enough);
    assert_eq!(judge(&aged(kept(DAY), 8)), Verdict::Repeats);
    assert_eq!(judge(&aged(HorizonReport::unknown(), 2)), Verdict::Unknown);
    assert_eq!(judge(&aged(HorizonReport::unknown(), 8)), Verdict::Repeats);
    assert_eq!(judge(&aged(endless(), 1)), Verdict::Repeats);
}

#[test]
fn only_what_would_be_refused_is_accepted() {
    let accepting = Terms {
        is_accepted: true,
        ..terms(PARK)
    };
    assert!(accepting.judge(&kept(DAY * 8), NOW).is_accepted);
    assert!(!accepting.judge(&kept(DAY), NOW).is_accepted);
    assert!(!terms(PARK).judge(&kept(DAY * 8), NOW).is_accepted);
}

#[test]
fn the_window_that_is_proposed_is_enough_and_easily_written() {
    let secs = Duration::from_secs;
    for (needed, proposed) in [
        (DAY * 14, "14d"),
        (DAY * 14 + secs(1), "15d"),
        (HOUR * 3 + Duration::from_millis(1), "4h"),
        (secs(90), "2m"),
        (secs(5), "5s"),
        (Duration::from_millis(1), "1s"),
    ] {
        assert_eq!(round(needed), proposed, "{needed:?}");
    }
}
