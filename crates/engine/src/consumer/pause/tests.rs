use super::*;

const LONG: Duration = Duration::from_secs(3_600);

fn at(millis: u64) -> Moment {
    Moment {
        now: Duration::from_millis(millis),
        chance: 0,
    }
}

fn now(millis: u64) -> Duration {
    at(millis).now
}

fn id(number: u64) -> DeliveryId {
    DeliveryId(number)
}

fn away() -> Verdict {
    Verdict::Away {
        error: "connection refused".into(),
    }
}

fn dead(error: &str) -> Verdict {
    Verdict::Dead {
        error: error.into(),
        decisive: false,
    }
}

fn retry(error: &str) -> Verdict {
    Verdict::NotApplied {
        error: error.into(),
        retry_after: None,
    }
}

fn broken(certainty: Certainty) -> Verdict {
    Verdict::Broken {
        error: "exit code 1: no module".into(),
        certainty,
    }
}

fn done() -> Verdict {
    Verdict::Done(bytes::Bytes::new())
}

/// Returns a circuit that pauses after three failures and has worked before.
fn proven() -> Circuit {
    let mut circuit = Circuit::new(3, 1);
    assert_eq!(circuit.heard(at(0), id(0), &done()), Judged::AsSaid);
    circuit
}

fn causes(circuit: &mut Circuit) -> Vec<(Pause, bool)> {
    let told = circuit.told().into_iter().map(|told| match told {
        Told::Paused { cause, .. } => (cause, true),
        Told::Resumed { cause, .. } => (cause, false),
    });
    told.collect()
}

#[test]
fn a_target_that_is_away_pauses_at_once_and_is_tried_by_one_at_a_time() {
    let mut circuit = proven();
    for number in 1..=9 {
        assert_eq!(circuit.heard(at(0), id(number), &away()), Judged::GivenBack);
    }
    assert_eq!(causes(&mut circuit), [(Pause::TargetAway, true)]);
    assert_eq!(circuit.room(now(99), 0), 0);
    assert_eq!(circuit.next_try(now(99)), Some(now(100)));
    assert!(!circuit.begins(now(99), id(1)));

    assert_eq!(circuit.room(now(100), 7), 1);
    assert!(circuit.begins(now(100), id(1)));
    assert!(!circuit.begins(now(100), id(2)));
    assert_eq!(
        (circuit.room(now(100), 1), circuit.next_try(now(100))),
        (0, None)
    );
    assert_eq!(circuit.heard(at(150), id(1), &away()), Judged::GivenBack);
    assert_eq!(circuit.next_try(now(150)), Some(now(350)));

    // However long the target is away, it is tried at least once a second.
    let mut time = 350;
    for _ in 0..20 {
        assert!(circuit.begins(now(time), id(2)));
        circuit.heard(
            Moment {
                chance: 255,
                ..at(time)
            },
            id(2),
            &away(),
        );
        let next = circuit.next_try(now(time)).expect("it is waited for");
        assert!(next.saturating_sub(now(time)) <= Duration::from_secs(1));
        time = u64::try_from(next.as_millis()).expect("short") + 1;
    }
    assert_eq!(causes(&mut circuit), []);
    assert!(circuit.begins(now(time), id(3)));
    assert_eq!(circuit.heard(at(time), id(3), &done()), Judged::AsSaid);
    let lasted = now(time);
    let cause = Pause::TargetAway;
    assert_eq!(circuit.told(), [Told::Resumed { cause, lasted }]);
    assert_eq!(circuit.room(now(time), 999), usize::MAX);
}

#[test]
fn a_call_from_before_does_not_say_that_the_target_is_back() {
    let mut circuit = proven();
    circuit.heard(at(0), id(1), &away());
    assert_eq!(circuit.heard(at(10), id(2), &done()), Judged::AsSaid);
    assert_eq!(
        circuit.heard(at(10), id(3), &retry("broke off")),
        Judged::AsSaid
    );
    assert_eq!(causes(&mut circuit), [(Pause::TargetAway, true)]);
    // A target that refuses was reached.
    assert!(circuit.begins(now(100), id(4)));
    assert_eq!(
        circuit.heard(at(100), id(4), &dead("HTTP 400")),
        Judged::AsSaid
    );
    assert_eq!(causes(&mut circuit), [(Pause::TargetAway, false)]);
}

#[test]
fn the_same_failure_so_often_in_a_row_pauses_and_no_more_are_set_aside() {
    let mut circuit = proven();
    let unauthorised = |number: u64| dead(&format!("HTTP 401 from there: token {number}"));
    for number in 1..=3 {
        assert!(circuit.room(now(0), 0) > 0);
        let judged = circuit.heard(at(0), id(number), &unauthorised(number));
        assert_eq!(judged, Judged::AsSaid, "{number}");
    }
    assert_eq!(causes(&mut circuit), [(Pause::TargetFailing, true)]);
    for number in 4..=30 {
        let judged = circuit.heard(at(0), id(number), &unauthorised(number));
        assert_eq!(judged, Judged::GivenBack, "{number}");
    }
    let mut time = now(0);
    for seconds in [1, 2, 4, 8, 16, 24, 24] {
        let next = circuit.next_try(time).expect("it is waited for");
        assert_eq!(next.saturating_sub(time), Duration::from_secs(seconds));
        time = next;
        assert!(circuit.begins(time, id(5)));
        let moment = Moment {
            now: time,
            chance: 0,
        };
        assert_eq!(
            circuit.heard(moment, id(5), &unauthorised(5)),
            Judged::GivenBack
        );
    }
    assert_eq!(causes(&mut circuit), []);
    assert!(circuit.begins(time + LONG, id(6)));
    let moment = Moment {
        now: time + LONG,
        chance: 0,
    };
    assert_eq!(circuit.heard(moment, id(6), &done()), Judged::AsSaid);
    assert_eq!(causes(&mut circuit), [(Pause::TargetFailing, false)]);
}

#[test]
fn a_success_or_another_failure_in_between_begins_the_count_anew() {
    let mut circuit = proven();
    for verdict in [
        dead("a"),
        dead("a"),
        done(),
        dead("a"),
        dead("a"),
        dead("b"),
        dead("a"),
    ] {
        circuit.heard(at(0), id(1), &verdict);
    }
    assert_eq!(causes(&mut circuit), []);
    let mut off = Circuit::new(0, 1);
    for _ in 0..1_000 {
        assert_eq!(off.heard(at(0), id(1), &dead("a")), Judged::AsSaid);
    }
    assert_eq!(
        (causes(&mut off), off.room(now(0), 999)),
        (vec![], usize::MAX)
    );
}

#[test]
fn before_its_first_success_no_more_are_in_flight_than_may_be_set_aside() {
    let mut circuit = Circuit::new(3, 1);
    let rooms = |circuit: &Circuit| [0, 1, 3, 9].map(|in_flight| circuit.room(now(0), in_flight));
    assert_eq!(rooms(&circuit), [3, 2, 0, 0]);
    circuit.heard(at(0), id(1), &dead("a"));
    circuit.heard(at(0), id(1), &dead("a"));
    assert_eq!(rooms(&circuit), [1, 0, 0, 0]);
    circuit.heard(at(0), id(1), &done());
    assert_eq!(rooms(&circuit), [usize::MAX; 4]);
}

#[test]
fn what_else_goes_wrong_keeps_a_pause_and_another_answer_ends_it() {
    let mut circuit = proven();
    for number in 1..=3 {
        circuit.heard(at(0), id(number), &dead("HTTP"));
    }
    assert!(circuit.begins(now(1_000), id(4)));
    let judged = circuit.heard(at(1_000), id(4), &retry("no answer in time"));
    assert_eq!(judged, Judged::GivenBack);
    assert!(circuit.begins(now(3_000), id(5)));
    // The target is away now: it is tried more often, and all of it is emitted as one pause.
    assert_eq!(circuit.heard(at(3_000), id(5), &away()), Judged::GivenBack);
    assert!(circuit.begins(now(3_100), id(6)));
    assert_eq!(
        circuit.heard(at(3_100), id(6), &dead("no such card")),
        Judged::AsSaid
    );
    let told = circuit.told();
    let cause = Pause::TargetAway;
    let lasted = now(3_100);
    assert_eq!(told.last(), Some(&Told::Resumed { cause, lasted }));
    assert_eq!(told.len(), 3);
}

#[test]
fn a_probe_that_is_lost_makes_room_for_another() {
    let mut circuit = proven();
    circuit.heard(at(0), id(1), &away());
    assert!(circuit.begins(now(100), id(1)));
    circuit.lost(id(2));
    assert_eq!(circuit.room(now(100), 0), 0);
    circuit.lost(id(1));
    assert_eq!(circuit.room(now(100), 0), 1);
}

#[test]
fn a_broken_handler_costs_nobody_an_attempt_but_a_message_that_breaks_it_again_and_again() {
    let (seen, unseen) = (Certainty::MaybeApplied, Certainty::NotApplied);
    let mut circuit = proven();
    assert_eq!(
        circuit.heard(at(0), id(1), &broken(seen)),
        Judged::GivenBack
    );
    assert_eq!(
        circuit.heard(at(0), id(2), &broken(unseen)),
        Judged::GivenBack
    );
    assert!(circuit.begins(now(1_000), id(1)));
    // Broken for all messages, as far as the circuit knows.
    assert_eq!(
        circuit.heard(at(1_000), id(1), &broken(seen)),
        Judged::GivenBack
    );
    assert!(circuit.begins(now(3_000), id(2)));
    assert_eq!(circuit.heard(at(3_000), id(2), &done()), Judged::AsSaid);
    let told = [(Pause::HandlerBroken, true), (Pause::HandlerBroken, false)];
    assert_eq!(causes(&mut circuit), told);
    assert_eq!(
        circuit.heard(at(3_000), id(1), &broken(seen)),
        Judged::AsSaid
    );
    circuit.forget(id(1));
    assert_eq!(
        circuit.heard(at(3_000), id(1), &broken(seen)),
        Judged::GivenBack
    );
}

#[test]
fn a_reason_is_the_words_before_the_particulars() {
    let one = reason("HTTP 401 from http://there/: expired");
    assert_eq!(one, reason("HTTP 403 from http://there/: no such thing"));
    assert_ne!(one, reason("no answer from http://there/ within 30s"));
    assert_ne!(one, reason("HTTP 422 from http://there/: no such card"));
    assert_eq!(&*reason("exit code 17: ö"), "exit code 17");
    assert_eq!(&*reason("order 17 is gone: ö"), "order  is gone");
    assert_eq!(&*reason("HTTP"), "HTTP");
}

/// Begins as many messages as there is room for, from this number on.
fn begin_all(circuit: &mut Circuit, time: u64, first: u64) -> Vec<DeliveryId> {
    let room = u64::try_from(circuit.room(now(time), 0)).expect("few");
    let begun: Vec<_> = (first..first + room).map(id).collect();
    for delivery in &begun {
        assert!(circuit.begins(now(time), *delivery));
    }
    assert_eq!(circuit.room(now(time), 0), 0, "{begun:?}");
    begun
}

#[test]
fn a_target_that_takes_one_but_not_many_is_one_story() {
    let mut circuit = Circuit::new(3, 64);
    circuit.heard(at(0), id(0), &away());
    let mut time = 0;
    for _ in 0..20 {
        let next = circuit.next_try(now(time)).expect("it is waited for");
        time = u64::try_from(next.as_millis()).expect("short");
        assert_eq!(begin_all(&mut circuit, time, 1), [id(1)]);
        circuit.heard(at(time), id(1), &done());
        // Stages follow each other without a pause, as long as all of one succeed.
        for size in [2, 4] {
            let stage = begin_all(&mut circuit, time, 1);
            assert_eq!(stage.len(), size);
            for delivery in stage {
                circuit.heard(at(time), delivery, &done());
            }
        }
        let stage = begin_all(&mut circuit, time, 1);
        assert_eq!(stage.len(), 8);
        for delivery in stage {
            assert_eq!(
                circuit.heard(at(time), delivery, &away()),
                Judged::GivenBack
            );
        }
        assert_eq!(circuit.room(now(time), 0), 0);
    }
    assert_eq!(causes(&mut circuit), [(Pause::TargetAway, true)]);

    time += 1_000;
    for size in [1, 2, 4, 8, 16, 32] {
        let stage = begin_all(&mut circuit, time, 1);
        assert_eq!(stage.len(), size);
        for delivery in stage {
            circuit.heard(at(time + 10), delivery, &done());
        }
    }
    assert_eq!(causes(&mut circuit), []);
    assert!(circuit.begins(now(time), id(1)));
    circuit.heard(at(time + 20), id(1), &done());
    let (cause, lasted) = (Pause::TargetAway, now(time + 10));
    assert_eq!(circuit.told(), [Told::Resumed { cause, lasted }]);
    assert_eq!(circuit.room(now(time), 999), usize::MAX);
}

#[test]
fn a_relapse_waits_longer_and_what_else_was_under_way_says_nothing() {
    let mut circuit = Circuit::new(3, 64);
    circuit.heard(at(0), id(0), &away());
    assert!(circuit.begins(now(100), id(1)));
    circuit.heard(at(100), id(1), &done());
    let stage = begin_all(&mut circuit, 100, 2);
    assert_eq!(stage, [id(2), id(3)]);
    circuit.heard(at(100), id(2), &away());
    assert_eq!(circuit.next_try(now(100)), Some(now(300)), "not 200");
    assert_eq!(circuit.heard(at(101), id(3), &done()), Judged::AsSaid);
    assert_eq!(circuit.room(now(299), 0), 0);
    assert_eq!(circuit.room(now(300), 0), 1);
    assert_eq!(circuit.confirmed_at(), None);
    assert_eq!(causes(&mut circuit), [(Pause::TargetAway, true)]);
}

#[test]
fn little_traffic_confirms_a_return_in_time_or_the_end_of_the_run_does() {
    let mut circuit = Circuit::new(3, 64);
    circuit.confirm();
    circuit.heard(at(0), id(0), &away());
    circuit.confirm();
    assert_eq!(causes(&mut circuit), [(Pause::TargetAway, true)]);
    assert!(circuit.begins(now(100), id(1)));
    circuit.heard(at(150), id(1), &done());
    assert_eq!(circuit.next_try(now(150)), None, "it may be tried now");
    assert_eq!(circuit.confirmed_at(), Some(now(650)));
    assert!(circuit.begins(now(400), id(2)));
    assert_eq!(circuit.confirmed_at(), None, "one is not answered yet");
    circuit.heard(at(400), id(2), &done());
    assert_eq!(circuit.confirmed_at(), Some(now(650)), "from the first on");
    circuit.confirm();
    let (cause, lasted) = (Pause::TargetAway, now(150));
    assert_eq!(circuit.told(), [Told::Resumed { cause, lasted }]);
    assert!(!circuit.is_paused());
}

#[test]
fn a_return_is_not_confirmed_by_the_clock_alone() {
    let mut circuit = Circuit::new(3, 64);
    circuit.heard(at(0), id(0), &away());
    assert!(circuit.begins(now(100), id(1)));
    circuit.heard(at(100), id(1), &done());
    // A target that answers one and hangs: no more of them begin, however long it takes.
    let stage = begin_all(&mut circuit, 100, 2);
    assert_eq!((stage.len(), circuit.confirmed_at()), (2, None));
    assert_eq!(circuit.room(now(9_000), 0), 0);
    circuit.heard(at(9_000), id(2), &done());
    let told = [(Pause::TargetAway, true), (Pause::TargetAway, false)];
    assert_eq!(causes(&mut circuit), told, "one answer is enough by then");
}

#[test]
fn a_handler_that_worked_and_broke_is_soon_tried_again() {
    let mut circuit = Circuit::new(3, 64);
    for time in [0, 2_000, 6_000, 14_000] {
        circuit.begins(now(time), id(1));
        circuit.heard(at(time), id(1), &broken(Certainty::NotApplied));
    }
    let next = circuit.next_try(now(14_000)).expect("it is waited for");
    assert!(next > now(20_000), "{next:?}");
    assert!(circuit.begins(next, id(2)));
    let moment = Moment {
        now: next,
        chance: 0,
    };
    circuit.heard(moment, id(2), &done());
    assert!(circuit.begins(next, id(3)));
    circuit.heard(moment, id(3), &broken(Certainty::NotApplied));
    let soon = circuit.next_try(next).expect("it is waited for");
    assert!(soon <= next + now(1_250), "{soon:?}");
    assert_eq!(causes(&mut circuit), [(Pause::HandlerBroken, true)]);
}

#[test]
fn messages_that_fail_for_their_own_sake_do_not_hold_a_return() {
    let mut circuit = Circuit::new(3, 64);
    for number in 1..=3 {
        circuit.heard(at(0), id(number), &dead("HTTP 404"));
    }
    assert!(circuit.begins(now(1_000), id(4)));
    let judged = circuit.heard(at(1_000), id(4), &dead("HTTP 404"));
    assert_eq!(judged, Judged::GivenBack);
    assert!(circuit.begins(now(3_000), id(5)));
    circuit.heard(at(3_000), id(5), &done());
    // It failed before another succeeded, and again: it is to blame. A new one may not be.
    assert!(circuit.begins(now(3_000), id(4)));
    let judged = circuit.heard(at(3_000), id(4), &dead("HTTP 404"));
    assert_eq!(judged, Judged::AsSaid);
    assert!(circuit.begins(now(3_000), id(6)));
    let judged = circuit.heard(at(3_000), id(6), &dead("HTTP 404"));
    assert_eq!(judged, Judged::GivenBack);
    assert_eq!(circuit.room(now(3_000), 0), 2, "one failed, one succeeded");
    // More failures than successes: the target fails again.
    assert!(circuit.begins(now(3_000), id(7)));
    let judged = circuit.heard(at(3_000), id(7), &dead("HTTP 404"));
    assert_eq!(judged, Judged::GivenBack);
    assert_eq!(circuit.next_try(now(3_000)), Some(now(7_000)));
    assert_eq!(causes(&mut circuit), [(Pause::TargetFailing, true)]);
}
