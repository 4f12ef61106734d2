//! Many keys in one call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use semel_core::decide::{Directive, Order};
use semel_core::{StateKind, Store};
use semel_engine::effect::OnDoubt;
use semel_engine::once::{Error, Failure, Granted, Happened, Op, Receipt};
use tokio::time::{sleep, timeout};

use super::{Count, declared, process, secs};
use crate::world::World;
use crate::world::fault::{Fault, Method};

type Result<T> = std::result::Result<T, Failure>;

/// Shows each result: `value`, or `value*` for a replay, or the code of the error.
fn shown<T: std::fmt::Display>(results: &[std::result::Result<Receipt<T>, Error>]) -> Vec<String> {
    let show = |result: &std::result::Result<Receipt<T>, Error>| match result {
        Ok(receipt) if receipt.is_replay() => format!("{}*", receipt.value()),
        Ok(receipt) => receipt.value().to_string(),
        Err(error) => error.code().to_owned(),
    };
    results.iter().map(show).collect()
}

#[tokio::test(start_paused = true)]
async fn a_batch_costs_one_claim_and_one_settlement() {
    let world = World::new();
    let (site, plan) = process(&world);
    let operation = declared(&site);
    let items = (0..100_u64).map(|number| (number, number * 2));
    let results = operation
        .batch(items)
        .each(async |_, double| Ok(double))
        .await;
    assert_eq!(results.len(), 100);
    for (number, result) in (0..100_u64).zip(results) {
        assert_eq!(*result.expect("it ran").value(), number * 2);
    }
    assert_eq!(
        (plan.calls(Method::Claim), plan.calls(Method::Settle)),
        (1, 1)
    );
    assert_eq!(plan.largest(Method::Settle), 100);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_comes_twice_is_decided_as_if_asked_twice_in_a_row() {
    let world = World::new();
    let (site, plan) = process(&world);
    assert!(
        declared(&site)
            .once("old", async |_| Ok(0_u64))
            .await
            .is_ok()
    );
    let before = plan.calls(Method::Claim);
    let items = [
        ("a", 1_u64),
        ("b", 2),
        ("a", 3),
        (" ", 4),
        ("old", 5),
        ("a", 6),
    ];
    let operation = declared(&site);
    let results = operation.once_batch(items, async |_, item| Ok(item)).await;
    assert_eq!(
        shown(&results),
        ["1", "2", "1*", "invalid-input", "0*", "1*"]
    );
    assert_eq!(
        plan.calls(Method::Claim) - before,
        2,
        "one more for the duplicates"
    );
}

#[tokio::test(start_paused = true)]
async fn items_fail_on_their_own() {
    let world = World::new();
    let (site, _) = process(&world);
    let items = ["works", "refused", "dead", "panics", "hangs"].map(|name| (name, name));
    let operation = declared(&site);
    let results = operation
        .batch(items)
        .each(async |_: Op, item: &str| -> Result<String> {
            match item {
                "refused" => Err(Failure::not_applied("no")),
                "dead" => Err(Failure::dead("no")),
                "panics" => panic!("on purpose"),
                "hangs" => std::future::pending().await,
                _ => Ok(item.to_owned()),
            }
        });
    let results = results.await;
    assert_eq!(
        shown(&results),
        ["works", "effect-failed", "dead", "in-doubt", "in-doubt"]
    );
    assert_eq!(world.state("works").await, Some(StateKind::Completed));
}

#[tokio::test(start_paused = true)]
async fn the_doubts_of_a_batch_are_asked_for_in_one_call() {
    for (fault, expected) in [
        (None, [Happened::Maybe, Happened::No, Happened::No]),
        // Nobody knows better.
        (Some(Fault::Cut), [Happened::Maybe; 3]),
    ] {
        let world = World::new();
        let (site, plan) = process(&world);
        let charge = declared(&site).keyed(secs(600));
        let silent = async |_: Op| Result::<()>::Err(Failure::maybe_applied("no answer"));
        assert!(charge.once("a", silent).await.is_err());
        sleep(secs(60)).await;
        let before = plan.calls(Method::Get);
        if let Some(fault) = fault {
            let next = u32::try_from(before).expect("few") + 1;
            plan.nth(Method::Get, next, fault);
        }
        let items = [("a", ()), ("b", ()), ("c", ())];
        let refused = async |_: Op, ()| Result::<()>::Err(Failure::not_applied("429"));
        let results = charge.once_batch(items, refused).await;
        let happened = results
            .iter()
            .map(|it| it.as_ref().err().map(Error::happened));
        let happened: Vec<_> = happened.collect();
        assert_eq!(happened, expected.map(Some), "{results:?}");
        assert_eq!(plan.calls(Method::Get) - before, 1);
        assert_eq!(plan.largest(Method::Get), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_item_holds_no_other_outcome_back() {
    let world = World::new();
    let (site, _) = process(&world);
    let operation = declared(&site);
    let items = [("fast", secs(0)), ("slow", secs(20))];
    let batch = operation.batch(items).each(async |_, nap| {
        sleep(nap).await;
        Ok(())
    });
    let (results, ()) = tokio::join!(batch, async {
        sleep(secs(1)).await;
        assert_eq!(world.state("fast").await, Some(StateKind::Completed));
        assert_eq!(world.state("slow").await, Some(StateKind::Started));
    });
    assert!(results.iter().all(std::result::Result::is_ok));
}

/// A record is read to compare its outcome with that of a lost claim, and the store takes minutes for it.
#[tokio::test(start_paused = true)]
async fn a_comparison_of_outcomes_holds_back_no_answer_and_no_closing() {
    let world = World::new();
    let (site, plan) = process(&world);
    let (other, _) = process(&world);
    plan.outage(Method::Get, secs(3_600), Fault::DelayBefore(secs(120)));
    let one = declared(&site).unkeyed(OnDoubt::Repeat);
    let batch = one.batch(["a", "b"].map(|key| (key, key)));
    let batch = batch.each(async |_, _| {
        sleep(secs(5)).await;
        Ok("first".to_owned())
    });
    let taking = async {
        sleep(secs(1)).await;
        let directive = Directive {
            operation: world.operation("a"),
            order: Order::Release,
            note: None,
        };
        let directed = world.store.operate([directive].into()).await;
        directed.expect("the store answers");
        let two = declared(&other).unkeyed(OnDoubt::Repeat);
        two.once("a", async |_| Ok("second".to_owned())).await
    };
    let (results, second) = tokio::join!(batch, taking);
    assert!(second.is_ok());
    assert!(
        matches!(
            &results[..],
            [
                Err(Error::ClaimLost {
                    found: Some(StateKind::Completed),
                    ..
                }),
                Ok(_)
            ]
        ),
        "{results:?}"
    );
    assert_eq!(world.clock.elapsed(), secs(5));
    sleep(Duration::from_millis(10)).await;
    assert_eq!(plan.calls(Method::Get), 1, "it was to be compared");
    site.close().await;
    assert_eq!(world.clock.elapsed(), Duration::from_millis(5_010));
}

#[tokio::test(start_paused = true)]
async fn no_more_effects_run_at_once_than_allowed() {
    let world = World::new();
    let (site, _) = process(&world);
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counting, peak) = (Arc::clone(&running), Arc::clone(&most));
    let operation = declared(&site).concurrency(3);
    let items = (0..20_u64).map(|number| (number, ()));
    let results = operation.batch(items).each(move |_, ()| {
        let (running, most) = (Arc::clone(&counting), Arc::clone(&peak));
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(secs(10)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
    });
    assert!(results.await.iter().all(std::result::Result::is_ok));
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn each_key_can_be_bound_to_its_item() {
    let world = World::new();
    let (site, _) = process(&world);
    let operation = declared(&site);
    let items = [("a", 1_u64), ("a", 1), ("a", 2)];
    let results = operation
        .batch(items)
        .bound()
        .each(async |_, item| Ok(item))
        .await;
    assert_eq!(shown(&results), ["1", "1*", "fingerprint-conflict"]);
}

#[tokio::test(start_paused = true)]
async fn one_effect_can_take_all_that_was_granted() {
    let world = World::new();
    let (site, plan) = process(&world);
    assert!(declared(&site).once("b", async |_| Ok(0_u64)).await.is_ok());
    let before = plan.calls(Method::Settle);
    let operation = declared(&site);
    let items = [("a", 1_u64), ("b", 2), ("c", 3), ("d", 4)];
    let results = operation
        .batch(items)
        .whole(async |granted: Vec<Granted<u64>>| {
            assert_eq!(
                granted
                    .iter()
                    .map(|granted| granted.item)
                    .collect::<Vec<_>>(),
                [1, 3, 4]
            );
            let works = |granted: &Granted<u64>| match granted.item {
                3 => Err(Failure::not_applied("no")),
                item => Ok(item * 10),
            };
            // The last item gets no result.
            granted.iter().take(2).map(works).collect()
        });
    let results = results.await;
    assert_eq!(shown(&results), ["10", "0*", "effect-failed", "in-doubt"]);
    assert_eq!(
        results[3].as_ref().err().map(Error::happened),
        Some(Happened::Maybe)
    );
    assert_eq!(plan.calls(Method::Settle) - before, 1);
}

#[tokio::test(start_paused = true)]
async fn a_whole_batch_that_panics_or_hangs_is_all_in_doubt() {
    let world = World::new();
    let (site, _) = process(&world);
    let operation = declared(&site);
    let items = [("a", ()), ("b", ())];
    let panics = async |_: Vec<Granted<()>>| -> Vec<Result<u64>> { panic!("on purpose") };
    assert_eq!(
        shown(&operation.batch(items).whole(panics).await),
        ["in-doubt", "in-doubt"]
    );
    let items = [("c", ()), ("d", ())];
    let hangs = async |_: Vec<Granted<()>>| -> Vec<Result<u64>> { std::future::pending().await };
    assert_eq!(
        shown(&operation.batch(items).whole(hangs).await),
        ["in-doubt", "in-doubt"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_caller_goes_away_ends_what_has_begun_and_begins_no_more() {
    let world = World::new();
    let (site, _) = process(&world);
    let count = Count::default();
    let counting = count.clone();
    let operation = declared(&site).concurrency(1);
    let items = ["a", "b", "c"].map(|key| (key, ()));
    let batch = operation.batch(items).each(move |_, ()| {
        let count = counting.clone();
        async move {
            count.begin();
            sleep(secs(10)).await;
            Ok(())
        }
    });
    assert!(timeout(secs(15), batch).await.is_err());
    sleep(secs(20)).await;
    assert_eq!(count.begun(), 2);
    let mut states = Vec::new();
    for key in ["a", "b", "c"] {
        states.push(world.state(key).await);
    }
    let done = Some(StateKind::Completed);
    assert_eq!(states, [done, done, Some(StateKind::Released)]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_batch_asks_nothing() {
    let world = World::new();
    let (site, plan) = process(&world);
    let operation = declared(&site);
    let none: [(&str, ()); 0] = [];
    assert!(
        operation
            .batch(none)
            .each(async |_, ()| Ok(()))
            .await
            .is_empty()
    );
    assert_eq!(plan.calls(Method::Claim), 0);
}

#[tokio::test(start_paused = true)]
async fn items_that_the_store_could_not_decide_or_settle_are_asked_for_alone() {
    for method in [Method::Claim, Method::Settle] {
        let world = World::new();
        let (site, plan) = process(&world);
        plan.nth(method, 1, Fault::Items);
        let count = Count::default();
        let counting = count.clone();
        let operation = declared(&site);
        let items = ["a", "b"].map(|key| (key, ()));
        let results = operation.batch(items).each(move |_, ()| {
            let count = counting.clone();
            async move { Ok(count.begin() as u64) }
        });
        assert!(
            results.await.iter().all(std::result::Result::is_ok),
            "{method:?}"
        );
        assert_eq!(count.begun(), 2, "{method:?}");
        assert_eq!(plan.calls(method), 3, "{method:?}");
    }
}
