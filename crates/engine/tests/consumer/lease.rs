//! Leases: renewed while an effect runs, lost when a worker was away for too long.

use std::time::Duration;

use bytes::Bytes;
use semel_core::StateKind;
use semel_engine::effect::Verdict;
use semel_engine::summary::Fate;
use semel_engine::sweep::sweep_once;

use super::{broker_with, broker_with_many, many};
use crate::world::fault::{Fault, Method};
use crate::world::scripted::{Act, Scripted};
use crate::world::watch::Seen;
use crate::world::worker::Manner;
use crate::world::worker::Run;
use crate::world::{KEYED, LEASE, PARK, REPEAT, World};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_long_effect_keeps_its_claim() {
    for class in [KEYED, REPEAT, PARK] {
        let world = World::new();
        let broker = broker_with(&world, &["a", "b"]);
        let copy = broker.copy();
        let (first, second) = (world.worker(&broker), world.worker(&copy));
        let long = Scripted::always(&world, &first.crash, Act::Slow(LEASE * 5, LEASE * 5));
        let effect = Scripted::new(&world, &second.crash, []);
        let (first, second) = tokio::join!(first.each(long, class), async {
            tokio::time::sleep(SECOND).await;
            second.each(effect, class).await
        });

        let (first, second) = (first.summary(), second.summary());
        assert_eq!((first.of(Fate::Applied), first.fenced), (2, 0), "{class:?}");
        assert_eq!(
            (second.of(Fate::Replayed), second.takeovers),
            (2, 0),
            "{class:?}"
        );
        assert_eq!(
            (world.sink.applied("a"), world.sink.applied("b")),
            (1, 1),
            "{class:?}"
        );
        let renewals = world.watch.times(&Seen::Renewed(2));
        assert!(
            (29..=31).contains(&renewals),
            "at a third of the lease: {renewals}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_stream_keeps_its_claims() {
    for manner in [Manner::Stream, Manner::Bulk] {
        let world = World::new();
        let broker = broker_with(&world, &["a", "b"]);
        let copy = broker.copy();
        let (first, second) = (world.worker(&broker), world.worker(&copy));
        let long = Scripted::always(&world, &first.crash, Act::Slow(LEASE * 2, LEASE * 2));
        let effect = Scripted::new(&world, &second.crash, []);
        let (first, second) = tokio::join!(first.by(manner, long, REPEAT), async {
            tokio::time::sleep(SECOND).await;
            second.by(manner, effect, REPEAT).await
        });

        let (first, second) = (first.summary(), second.summary());
        assert_eq!((first.of(Fate::Applied), first.fenced), (2, 0));
        assert_eq!((second.of(Fate::Replayed), second.takeovers), (2, 0));
        assert_eq!((world.sink.applied("a"), world.sink.applied("b")), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_claim_stops_its_effect_and_acknowledges_nothing_until_replayed() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let copy = broker.copy();
    let (zombie, second) = (world.worker(&broker), world.worker(&copy));
    zombie
        .plan
        .nth(Method::Renew, 1, Fault::DelayBefore(LEASE * 2));
    let never = Scripted::always(
        &world,
        &zombie.crash,
        Act::Slow(LEASE * 100, Duration::ZERO),
    );
    let effect = Scripted::new(&world, &second.crash, []);
    let (zombie, second) = tokio::join!(zombie.each(never, KEYED), async {
        tokio::time::sleep(LEASE + SECOND).await;
        let run = second.each(effect, KEYED).await;
        assert_eq!(
            broker.acknowledged(),
            0,
            "the zombie has nothing to acknowledge yet"
        );
        run
    });

    let (zombie, second) = (zombie.summary(), second.summary());
    assert_eq!((zombie.of(Fate::Replayed), zombie.fenced), (1, 1));
    assert_eq!((second.of(Fate::Applied), second.takeovers), (1, 1));
    let fenced = Seen::Fenced("a".to_owned(), Some(StateKind::Completed));
    assert_eq!(world.watch.times(&fenced), 1, "{:?}", world.watch.all());
    assert_eq!(world.sink.applied("a"), 1, "the zombie's call was dropped");
    assert!(
        zombie.elapsed < LEASE * 3,
        "stopped when the loss was known: {:?}",
        zombie.elapsed
    );
}

#[tokio::test(start_paused = true)]
async fn a_completion_by_a_lost_claim_is_discarded_and_acknowledges_nothing() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let copy = broker.copy();
    let (zombie, second) = (world.worker(&broker), world.worker(&copy));
    // It stands still with its completion in hand; the new owner then works on it for long.
    zombie
        .plan
        .nth(Method::Settle, 1, Fault::DelayBefore(LEASE * 2));
    let effect = Scripted::new(&world, &zombie.crash, []);
    let long = Scripted::always(&world, &second.crash, Act::Slow(LEASE * 3, Duration::ZERO));
    let (zombie, second) = tokio::join!(zombie.each(effect, REPEAT), async {
        tokio::time::sleep(LEASE + SECOND).await;
        let watching = async {
            tokio::time::sleep(LEASE * 2).await;
            let fenced = Seen::Fenced("a".to_owned(), Some(StateKind::Started));
            assert_eq!(world.watch.times(&fenced), 1, "{:?}", world.watch.all());
            assert_eq!(broker.acknowledged(), 0, "the new owner may still die");
        };
        tokio::join!(second.each(long, REPEAT), watching).0
    });

    assert_eq!(zombie.summary().of(Fate::Replayed), 1);
    assert_eq!(second.summary().of(Fate::Applied), 1);
    assert_eq!(world.repeated().await, ["a"], "the repeat is listed");
}

#[tokio::test(start_paused = true)]
async fn another_outcome_than_the_one_that_is_recorded_is_told() {
    for (ended_with, differs) in [("another", 1), ("done", 0)] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let copy = broker.copy();
        let (zombie, second) = (world.worker(&broker), world.worker(&copy));
        let late = Fault::DelayBefore(LEASE * 2);
        zombie.plan.nth(Method::Settle, 1, late);
        let done = Verdict::Done(Bytes::from_static(ended_with.as_bytes()));
        let effect = Scripted::new(&world, &zombie.crash, [Act::DoAndSay(done)]);
        let long = Scripted::always(&world, &second.crash, Act::Slow(LEASE * 3, Duration::ZERO));
        let (zombie, _) = tokio::join!(zombie.each(effect, REPEAT), async {
            tokio::time::sleep(LEASE + SECOND).await;
            second.each(long, REPEAT).await
        });

        assert_eq!(zombie.summary().of(Fate::Replayed), 1);
        let told = Seen::OutcomeDiffers("a".to_owned());
        let all = world.watch.all();
        assert_eq!(world.watch.times(&told), differs, "{all:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_read_for_a_lost_claim_only_if_somebody_watches() {
    for is_watched in [true, false] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let copy = broker.copy();
        let (mut zombie, second) = (world.worker(&broker), world.worker(&copy));
        if !is_watched {
            zombie.unobserved();
        }
        let late = Fault::DelayBefore(LEASE * 2);
        zombie.plan.nth(Method::Settle, 1, late);
        let plan = zombie.plan.clone();
        let effect = Scripted::new(&world, &zombie.crash, []);
        let long = Scripted::always(&world, &second.crash, Act::Slow(LEASE * 3, Duration::ZERO));
        let (zombie, _) = tokio::join!(zombie.each(effect, REPEAT), async {
            tokio::time::sleep(LEASE + SECOND).await;
            second.each(long, REPEAT).await
        });
        let zombie = zombie.summary();
        assert_eq!((zombie.of(Fate::Replayed), zombie.fenced), (1, 1));
        assert_eq!(plan.outcomes_wanted() > 0, is_watched);
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_late_is_given_back_and_asked_for_anew() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let copy = broker.copy();
    let (slow, second) = (world.worker(&broker), world.worker(&copy));
    let late = LEASE * 5 / 6;
    slow.plan.nth(Method::Claim, 1, Fault::DelayAfter(late));
    let plan = slow.plan.clone();
    let long = Scripted::always(&world, &slow.crash, Act::Slow(LEASE, Duration::ZERO));
    let effect = Scripted::new(&world, &second.crash, []);
    // The second worker comes right after the end of the lease that the late grant began with.
    let (slow, second) = tokio::join!(slow.each(long, REPEAT), async {
        tokio::time::sleep(LEASE + SECOND).await;
        second.each(effect, REPEAT).await
    });

    let (slow, second) = (slow.summary(), second.summary());
    let began = world.sink.spans()[0].began;
    assert!(began >= late, "not before a second look: {began:?}");
    assert_eq!(plan.calls(Method::Claim), 2);
    assert_eq!((slow.of(Fate::Applied), slow.fenced), (1, 0));
    assert_eq!((second.of(Fate::Replayed), second.takeovers), (1, 0));
    assert_eq!(world.sink.applied("a"), 1);
    assert_eq!(
        world.record("a").await.map(|record| record.attempts),
        Some(1)
    );
}

#[tokio::test(start_paused = true)]
async fn two_workers_with_the_same_input_have_each_effect_once() {
    for class in [KEYED, REPEAT, PARK] {
        let world = World::new();
        let broker = broker_with_many(&world, 200);
        let copy = broker.copy();
        let (first, second) = (world.worker(&broker), world.worker(&copy));
        let act = Act::Slow(Duration::from_millis(3), Duration::from_millis(4));
        let effect = Scripted::always(&world, &first.crash, act.clone());
        let other = Scripted::always(&world, &second.crash, act);
        let (first, second) = tokio::join!(first.each(effect, class), second.each(other, class));

        let (first, second) = (first.summary(), second.summary());
        assert_eq!(
            first.of(Fate::Applied) + second.of(Fate::Applied),
            200,
            "{class:?}"
        );
        assert_eq!(
            first.of(Fate::Replayed) + second.of(Fate::Replayed),
            200,
            "{class:?}"
        );
        assert_eq!(first.takeovers + second.takeovers, 0, "{class:?}");
        for key in many(200) {
            assert_eq!(world.sink.applied(&key), 1, "{class:?}: {key}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_killed_worker_had_in_hand_is_taken_over() {
    for (class, once) in [(KEYED, true), (REPEAT, false)] {
        let world = World::with_sink(match class {
            KEYED => crate::world::sink::Recognises::Keys(crate::world::PROVIDER_WINDOW),
            _ => crate::world::sink::Recognises::Nothing,
        });
        let broker = broker_with_many(&world, 60);
        let first = world.worker(&broker);
        first.plan.nth(Method::Settle, 4, Fault::CrashBefore);
        let act = Act::Slow(Duration::from_millis(3), Duration::from_millis(4));
        let effect = Scripted::always(&world, &first.crash, act.clone());
        assert!(matches!(first.each(effect, class).await, Run::Crashed));
        let survivor = world.worker(&broker);
        let effect = Scripted::always(&world, &survivor.crash, act);
        let summary = survivor.each(effect, class).await.summary();

        assert!(summary.takeovers > 0, "{summary:?}");
        let repeated = world.repeated().await;
        for key in many(60) {
            let applied = world.sink.applied(&key);
            assert!(
                applied == 1 || (!once && repeated.contains(&key)),
                "{key}: {applied}"
            );
        }
        let doubles = world.sink.all().len() - 60;
        assert!(doubles > 0, "the kill hit something in flight");
        let arrivals = world.sink.all();
        for arrival in &arrivals {
            let same = arrivals.iter().filter(|other| other.key == arrival.key);
            let mut tokens: Vec<_> = same.clone().map(|it| (it.attempt, it.token)).collect();
            tokens.dedup();
            assert!(tokens.is_sorted_by_key(|(attempt, token)| (*attempt, *token)));
            assert!(
                same.clone()
                    .all(|other| other.idempotency_key == arrival.idempotency_key),
                "the key to pass on is the same on every attempt"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_late_leaves_no_doubt_of_a_call_that_never_was() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let copy = broker.copy();
    let (slow, second) = (world.worker(&broker), world.worker(&copy));
    let late = LEASE * 59 / 60;
    slow.plan.nth(Method::Claim, 1, Fault::DelayAfter(late));
    let effect = Scripted::new(&world, &slow.crash, []);
    let other = Scripted::new(&world, &second.crash, []);
    let (slow, second) = tokio::join!(slow.each(effect, PARK), async {
        tokio::time::sleep(LEASE + SECOND / 4).await;
        second.each(other, PARK).await
    });

    let (slow, second) = (slow.summary(), second.summary());
    let fates = |fate| slow.of(fate) + second.of(fate);
    assert_eq!((fates(Fate::Applied), fates(Fate::Replayed)), (1, 1));
    assert_eq!(world.sink.applied("a"), 1);
    assert_eq!(world.parked().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_granted_beside_a_slow_settlement_begins_at_once() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b"]);
    let mut worker = world.worker(&broker);
    worker.pipeline.concurrency = 1;
    let slow = Fault::DelayBefore(LEASE * 2);
    worker.plan.nth(Method::Settle, 1, slow);
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(SECOND, Duration::ZERO));
    let (run, ()) = tokio::join!(worker.each(effect, PARK), async {
        tokio::time::sleep(LEASE + SECOND * 5).await;
        sweep_once(&world.store)
            .await
            .expect("the memory store sweeps");
    });

    let summary = run.summary();
    assert_eq!(summary.of(Fate::Applied), 2, "{summary:?}");
    assert_eq!((summary.fenced, summary.takeovers), (0, 0));
    let second = world.sink.spans()[1].began;
    assert!(
        second < LEASE / 3,
        "it waited for the settlement: {second:?}"
    );
    for key in ["a", "b"] {
        let record = world.record(key).await.expect("a record");
        assert_eq!((record.attempts, world.sink.applied(key)), (1, 1), "{key}");
        assert_eq!(record.past.len(), 0, "{key}: nothing was given back");
    }
}

/// A full disk refuses claims while renewals still go through.
#[tokio::test(start_paused = true)]
async fn claims_that_wait_for_the_store_do_not_cost_what_runs_its_lease() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b"]);
    let copy = broker_with(&world, &["a"]);
    let mut first = world.worker(&broker);
    first.feed.at_most = 1;
    first.feed.pause = SECOND;
    first
        .plan
        .nth(Method::Claim, 2, Fault::DelayBefore(LEASE * 3));
    let second = world.worker(&copy);
    let long = Scripted::always(&world, &first.crash, Act::Slow(LEASE * 5, Duration::ZERO));
    let effect = Scripted::new(&world, &second.crash, []);
    let (first, second) = tokio::join!(first.each(long, REPEAT), async {
        tokio::time::sleep(LEASE * 2).await;
        second.each(effect, REPEAT).await
    });

    let (first, second) = (first.summary(), second.summary());
    assert_eq!((first.of(Fate::Applied), first.fenced), (2, 0));
    assert_eq!((second.of(Fate::Replayed), second.takeovers), (1, 0));
    assert_eq!(world.sink.applied("a"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_source_is_told_what_is_still_worked_on() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "a", "b"]);
    let worker = world.worker(&broker);
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(LEASE * 3, Duration::ZERO));
    worker.each(effect, KEYED).await.summary();
    // The second `a` waits behind the first, and is extended as well.
    let extended = broker.extended();
    assert!(
        extended.len() >= 8,
        "every third of the lease: {extended:?}"
    );
    assert_eq!(extended[0], 3, "{extended:?}");
}

/// A broker may hold deliveries for less than the lease.
#[tokio::test(start_paused = true)]
async fn a_source_that_holds_for_less_than_the_lease_is_told_more_often() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b"]);
    let mut worker = world.worker(&broker);
    worker.feed.hold = Some(LEASE / 3);
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(LEASE * 3, Duration::ZERO));
    worker.each(effect, KEYED).await.summary();
    let extended = broker.extended();
    assert!(
        extended.len() >= 26,
        "every third of what it holds: {extended:?}"
    );
}
