//! The model notices mistakes: each wrong worker, each wrong store, each wrong setting breaks a law of
//! it.

use super::configurations::{TWICE, TWO};
use super::law::Law;
use super::search;
use super::setup::{Broker, Budget, Class, Setup, Wish};
use super::subject::Protocol;
use super::wrong::{Conduct, Keeping};

/// Two workers, one message, and time for one takeover.
fn small(class: Class) -> Setup {
    Setup {
        ticks: 3,
        budget: Budget {
            crashes: 1,
            redelivered: 1,
            ..Budget::default()
        },
        ..Setup::of("small", class)
    }
}

fn with(setup: Setup, budget: impl FnOnce(&mut Budget)) -> Setup {
    let mut setup = setup;
    budget(&mut setup.budget);
    setup
}

#[track_caller]
fn broken(setup: Setup) -> Vec<&'static str> {
    search::broken::<Protocol>(setup)
}

/// Checks that nothing is wrong with the right setup, and that the change `wrong` breaks this law.
#[track_caller]
fn only_breaks(right: Setup, wrong: impl FnOnce(&mut Setup), law: Law) {
    assert_eq!(broken(right), [""; 0], "as it should be");
    search::breaks::<Protocol>(right, wrong, law.name());
}

#[test]
fn a_worker_that_acknowledges_before_it_completes_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::AcksFirst;
    for class in [Class::Transactional, Class::Keyed] {
        only_breaks(small(class), wrong, Law::AcknowledgedSettled);
    }
}

#[test]
fn a_worker_that_drops_what_is_busy_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::DropsBusy;
    only_breaks(small(Class::Transactional), wrong, Law::AcknowledgedSettled);
}

#[test]
fn a_fenced_worker_that_acknowledges_is_caught() {
    let right = Setup {
        broker: Broker::Single,
        ..small(Class::Transactional)
    };
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::AcksFenced;
    only_breaks(right, wrong, Law::AcknowledgedSettled);
}

#[test]
fn a_worker_that_calls_before_it_claims_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::CallsFirst;
    only_breaks(small(Class::Park), wrong, Law::SingleEffect);
}

#[test]
fn a_worker_that_completes_before_the_effect_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::CompletesFirst;
    only_breaks(small(Class::Transactional), wrong, Law::CompletedHappened);
}

#[test]
fn a_worker_whose_provider_key_contains_the_attempt_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::KeysByAttempt;
    only_breaks(small(Class::Keyed), wrong, Law::SingleEffect);
}

#[test]
fn a_worker_that_marks_no_start_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::MarksNothing;
    only_breaks(small(Class::Park), wrong, Law::SingleEffect);
}

#[test]
fn a_worker_that_takes_silence_for_success_is_caught() {
    let right = with(small(Class::Transactional), |budget| budget.delayed = 1);
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::TrustsSilence;
    let right = Setup { ticks: 1, ..right };
    only_breaks(
        Setup {
            class: Class::Park,
            ..right
        },
        wrong,
        Law::AcknowledgedSettled,
    );
}

/// A call by a client of the claim API that goes on when its lease is over, and that its entity is taken from.
fn overtaken_call() -> Setup {
    let setup = Setup {
        posts: TWO,
        is_gated: true,
        vanished: 9,
        ticks: 2,
        ..Setup::of("small", Class::Call)
    };
    with(setup, |budget| {
        *budget = Budget {
            lost: 1,
            redelivered: 1,
            ..Budget::default()
        };
    })
}

#[test]
fn a_client_that_may_have_begun_and_does_not_say_so_is_caught() {
    let wrong = |setup: &mut Setup| setup.conduct = Conduct::HidesBegun;
    only_breaks(overtaken_call(), wrong, Law::DoubtIsTold);
    let one_key = |setup: &mut Setup| {
        wrong(setup);
        setup.posts = &TWO[..1];
    };
    search::breaks::<Protocol>(overtaken_call(), one_key, Law::DoubtIsTold.name());
}

#[test]
fn a_call_that_is_run_again_though_it_was_started_is_caught() {
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::RerunsParked;
    let right = Setup {
        marks_apart: true,
        ..overtaken_call()
    };
    only_breaks(right, wrong, Law::BegunIsNotRerun);
}

#[test]
fn a_store_that_checks_and_then_acts_is_caught() {
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::ChecksThenActs;
    only_breaks(small(Class::Park), wrong, Law::OneLiveClaim);
}

#[test]
fn a_store_that_takes_any_completion_is_caught() {
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::CompletesAny;
    only_breaks(small(Class::Transactional), wrong, Law::FencedLeavesNoTrace);
}

#[test]
fn a_store_that_takes_any_start_is_caught() {
    let right = Setup {
        marks_apart: true,
        ..small(Class::Park)
    };
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::StartsAny;
    only_breaks(right, wrong, Law::FencedLeavesNoTrace);
}

#[test]
fn a_store_that_takes_any_release_is_caught() {
    let right = with(small(Class::Repeat), |budget| budget.failures = 1);
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::ReleasesAny;
    only_breaks(right, wrong, Law::FencedLeavesNoTrace);
}

#[test]
fn a_store_that_takes_any_renewal_is_caught() {
    let right = with(small(Class::Repeat), |budget| budget.renewals = 1);
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::RenewsAny;
    only_breaks(right, wrong, Law::FencedLeavesNoTrace);
}

#[test]
fn a_store_whose_tokens_begin_anew_is_caught() {
    // Its window is over while a claim of the message still comes, which only an open age gate lets in.
    let right = Setup {
        window: 2,
        posts: TWICE,
        age_gate: true,
        ..Setup::of("small", Class::Transactional)
    };
    let right = with(right, |budget| *budget = Budget::default());
    let wrong = |setup: &mut Setup| {
        setup.age_gate = false;
        setup.keeping = Keeping::RestartsTokens;
    };
    let mut setup = right;
    wrong(&mut setup);
    let laws = broken(setup);
    // Both are met on the same step.
    assert!(laws.contains(&Law::TokensRise.name()), "{laws:?}");
}

#[test]
fn a_store_that_forgets_early_is_caught() {
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::ForgetsEarly;
    only_breaks(small(Class::Transactional), wrong, Law::KeptItsWindow);
}

#[test]
fn a_sweep_that_removes_doubts_is_caught() {
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::SweepsDoubts;
    only_breaks(small(Class::Park), wrong, Law::UnresolvedStays);
}

#[test]
fn a_store_that_forgets_whatever_it_is_told_to_is_caught() {
    let right = Setup {
        wishes: &[Wish::Forget],
        ..with(small(Class::Transactional), |budget| budget.orders = 1)
    };
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::ForgetsAny;
    only_breaks(right, wrong, Law::UnresolvedStays);
}

#[test]
fn a_verdict_without_quiet_is_caught() {
    let right = Setup {
        wishes: &[Wish::NotApplied],
        calls_are_prompt: true,
        ..with(small(Class::Park), |budget| budget.orders = 1)
    };
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::TrustsHaste;
    only_breaks(right, wrong, Law::DoubtStays);
}

/// The hazard of O4: a call that lands between the look and the verdict.
#[test]
fn a_verdict_that_is_taken_for_newer_than_its_evidence_is_caught() {
    let right = Setup {
        probes: true,
        calls_are_prompt: true,
        ..with(small(Class::Park), |budget| budget.delayed = 1)
    };
    let dates_late = |setup: &mut Setup| setup.conduct = Conduct::DatesLate;
    only_breaks(right, dates_late, Law::EvidenceIsQuiet);
    let overlooks = |setup: &mut Setup| setup.keeping = Keeping::OverlooksAsked;
    only_breaks(right, overlooks, Law::EvidenceIsQuiet);
}

#[test]
fn a_first_start_that_moves_is_caught() {
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::MovesFirstStart;
    only_breaks(small(Class::Keyed), wrong, Law::FirstStartStays);
}

#[test]
fn a_parked_effect_that_is_rerun_is_caught() {
    let wrong = |setup: &mut Setup| setup.keeping = Keeping::RerunsParked;
    only_breaks(small(Class::Park), wrong, Law::ParkedIsNotRerun);
}

/// Found by the model in `decide` itself: a way of 11 steps, and of 12 where the start is marked apart.
#[test]
fn a_claim_that_begins_past_its_providers_window_is_caught() {
    for marks_apart in [false, true] {
        let right = with(small(Class::Keyed), |budget| {
            *budget = Budget {
                lost: 1,
                crashes: 1,
                ..Budget::default()
            };
        });
        let right = Setup {
            marks_apart,
            ..right
        };
        let wrong = |setup: &mut Setup| setup.keeping = Keeping::BeginsLate;
        only_breaks(right, wrong, Law::KeyInsideWindow);
    }
}

#[test]
fn a_window_without_an_age_gate_is_too_short_for_a_paused_worker() {
    let right = Setup {
        window: 2,
        ..Setup::of("small", Class::Transactional)
    };
    let right = with(right, |budget| {
        *budget = Budget {
            redelivered: 1,
            ..Budget::default()
        };
    });
    only_breaks(right, |setup| setup.age_gate = false, Law::SingleEffect);
}

#[test]
fn a_store_that_forgets_what_it_answered_loses_what_commits_with_it() {
    for (class, law) in [
        (Class::Park, Law::SingleEffect),
        (Class::Repeat, Law::RepeatsCounted),
    ] {
        let wrong = |setup: &mut Setup| setup.budget.amnesia = 1;
        only_breaks(small(class), wrong, law);
    }
}

#[test]
fn calls_that_come_late_need_a_provider_that_remembers() {
    let wrong = |setup: &mut Setup| setup.calls_are_prompt = false;
    only_breaks(small(Class::Keyed), wrong, Law::KeyInsideWindow);
}

#[test]
fn an_effect_that_does_not_look_at_the_version_may_put_an_older_one_back() {
    let right = Setup {
        posts: TWO,
        ..small(Class::Versioned)
    };
    let right = with(right, |budget| *budget = Budget::default());
    only_breaks(
        right,
        |setup| setup.sink_is_gated = false,
        Law::VersionsRise,
    );
}

#[test]
fn a_broken_law_is_told_by_a_way_to_it() {
    let setup = Setup {
        conduct: Conduct::DropsBusy,
        ..small(Class::Transactional)
    };
    let found = search::search::<Protocol>(setup, 1, None).expect("a protocol");
    let way = found.broken.first().expect("a broken law");
    let lines: Vec<&str> = way.story.lines().map(str::trim).collect();
    assert_eq!(
        lines,
        [
            "small",
            "1. worker 1 takes message 1",
            "2. the broker hands the message of worker 1 out again",
            "3. worker 2 takes message 1",
            "4. worker 2 claims -> claimed until 1 (claim 1, token 1)",
            "5. worker 1 claims",
            "6. worker 1 acknowledges <- breaks I2 acknowledged only with a record that carries it on \
             <- breaks I3 nothing acknowledged is lost",
        ]
    );
}
