//! The sweep: in bounded steps, beside claims and beside another sweep.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use semel_conformance::TestClock;
use semel_core::{Admission, Recovery, Start, StateKind, Step, Store, Window};
use semel_store_postgres::{Options, PostgresStore};

use crate::lab::{Lab, claim, completion, connect, count, record, report, request, settle, state};

#[tokio::test]
async fn a_sweep_removes_no_more_than_it_is_told_and_says_whether_there_is_more() {
    let (lab, clock, store) = aged(25, 5).await;
    clock.advance(HOUR * 2);
    let user = lab.client().await;
    let mut left = 30_i64;
    for removed in [10_u64, 10, 5] {
        let swept = store.sweep(10).await.expect("a sweep");
        left -= removed.cast_signed();
        assert_eq!(
            (swept.removed, swept.more),
            (removed, removed == 10),
            "{swept:?}"
        );
        assert_eq!(count(&user, "records").await, left);
    }
    let swept = store.sweep(10).await.expect("a sweep");
    assert_eq!((swept.removed, swept.more), (0, false), "{swept:?}");
    // The sweep does not touch claimed and held records.
    assert_eq!(state(&store, "claimed-0").await, Some(StateKind::Claimed));
}

/// Otherwise a write that depends on the revision of a record that was removed meanwhile overwrites another one.
#[tokio::test]
async fn no_two_lives_of_a_key_share_a_revision() {
    let (lab, clock, store) = aged(0, 0).await;
    let user = lab.client().await;
    let select = format!("SELECT revision FROM {}.records", lab.schema());
    let mut last = 0;
    for life in 1..4_u128 {
        let _ = claim(&store, &request("a", life)).await;
        settle(&store, &completion("a", life, b"done")).await;
        let revision: i64 = user.query_one(&select, &[]).await.expect("it").get(0);
        assert!(revision > last + 1, "life {life}: {revision} after {last}");
        last = revision;
        clock.advance(HOUR * 24 * 365);
        assert_eq!(store.sweep(10).await.expect("a sweep").removed, 1);
    }
}

/// The claim draws its token, and before it inserts another life of the key comes and goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_was_overtaken_by_a_removal_is_not_given_out() {
    let (lab, clock, store) = aged(0, 0).await;
    let user = lab.client().await;
    let schema = lab.schema();
    let slow_inserts = format!(
        "CREATE FUNCTION {schema}.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         PERFORM pg_advisory_xact_lock(4082); RETURN NEW; END $$; \
         CREATE TRIGGER slow BEFORE INSERT ON {schema}.records FOR EACH ROW \
         WHEN (current_setting('application_name') = 'slow') EXECUTE FUNCTION {schema}.slow(); \
         CREATE FUNCTION {schema}.slow_delete() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         PERFORM pg_advisory_xact_lock(4083); RETURN OLD; END $$; \
         CREATE TRIGGER slow_delete BEFORE DELETE ON {schema}.records FOR EACH ROW \
         WHEN (current_setting('application_name') = 'slow') EXECUTE FUNCTION {schema}.slow_delete()"
    );
    user.batch_execute(&slow_inserts).await.expect("a trigger");
    let mut options = Options::default();
    options.clock = Some(Arc::new(clock.clone()));
    let url = format!("{}&application_name=slow", lab.site.url());
    let slow = Arc::new(connect(&url, options).await);
    // Sessions and scopes are there already.
    let hold = "SELECT pg_advisory_lock(4082), pg_advisory_lock(4083)";
    user.batch_execute(hold).await.expect("a lock");
    let calling = Arc::clone(&slow);
    let call = tokio::spawn(async move { claim(&calling, &request("a", 1)).await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'slow' \
                 AND wait_event_type = 'Lock'";
    loop {
        let waiting: i64 = user.query_one(waits, &[]).await.expect("it").get(0);
        if waiting > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let other = claim(&store, &request("a", 2)).await;
    settle(&store, &completion("a", 2, b"done")).await;
    clock.advance(HOUR * 24 * 365);
    assert_eq!(store.sweep(10).await.expect("a sweep").removed, 1);
    let release = "SELECT pg_advisory_unlock(4082)";
    user.batch_execute(release).await.expect("no lock");
    // Nor does anybody see it: it is not there until somebody removes it.
    let removes = format!("{waits} AND query LIKE '%DELETE%'");
    while !call.is_finished() {
        let removing: i64 = user.query_one(&removes, &[]).await.expect("it").get(0);
        assert_eq!(removing, 0, "it was inserted, and is being removed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let granted = call.await.expect("a task");
    assert!(
        granted.token > other.token,
        "{:?} after {:?}",
        granted.token,
        other.token
    );
    assert_eq!(granted.attempt, 1, "{granted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sweeps_beside_claims_remove_everything_once() {
    let (lab, clock, store) = aged(3_000, 0).await;
    clock.advance(HOUR * 2);
    let other = reopen(&lab, &clock).await;
    let store = Arc::new(store);
    let done = Arc::new(AtomicBool::new(false));
    let claiming = {
        let (store, done) = (Arc::clone(&store), Arc::clone(&done));
        tokio::spawn(async move {
            let mut claimed = 0;
            while !done.load(Ordering::Relaxed) {
                // New keys, and keys that are being swept: either replayed or granted anew.
                let batch: Vec<_> = (0..20)
                    .map(|n| match n % 2 {
                        0 => request(&format!("new-{claimed}-{n}"), 1),
                        _ => request(&format!("done-{}", claimed * 20 + n), 7),
                    })
                    .collect();
                for answer in store.claim(batch.into()).await.expect("answers") {
                    assert!(
                        matches!(
                            answer,
                            Admission::Granted(_)
                                | Admission::Replay { .. }
                                | Admission::Busy { .. }
                        ),
                        "{answer:?}"
                    );
                }
                claimed += 1;
            }
            claimed
        })
    };
    let (one, two) = tokio::join!(sweep_all(&store), sweep_all(&other));
    done.store(true, Ordering::Relaxed);
    let claimed = claiming.await.expect("a task");
    assert!(claimed > 0);
    let user = lab.client().await;
    let old = count(&user, "records WHERE state = 3").await;
    assert_eq!(old, 0, "{one} and {two} removed");
    // Each was removed once: by one of them, or by a claim that took its place.
    let taken = count(
        &user,
        "records WHERE convert_from(key, 'UTF8') LIKE 'done-%'",
    )
    .await;
    assert!(
        one + two <= 3_000 && one + two + taken.cast_unsigned() >= 3_000,
        "{one} {two} {taken}"
    );
}

#[tokio::test]
async fn a_vanished_effect_comes_to_light() {
    let (_lab, clock, store) = aged(0, 0).await;
    for n in 0..5 {
        let mut started = request(&format!("started-{n}"), 1);
        started.start = Start::Marked(Recovery::Park);
        let claim = claim(&store, &started).await;
        assert_eq!(claim.attempt, 1);
    }
    let swept = store.sweep(100).await.expect("a sweep");
    assert_eq!(swept.doubted, 0, "their leases run: {swept:?}");
    clock.advance(Duration::from_secs(31));
    let swept = store.sweep(3).await.expect("a sweep");
    assert_eq!((swept.doubted, swept.more), (3, true), "{swept:?}");
    let swept = store.sweep(3).await.expect("a sweep");
    assert_eq!((swept.doubted, swept.more), (2, false), "{swept:?}");
    for n in 0..5 {
        let record = record(&store, &format!("started-{n}"))
            .await
            .expect("a record");
        assert_eq!(record.state.kind(), StateKind::InDoubt);
        assert_eq!((record.vanished, record.past.len()), (1, 1));
    }
}

#[tokio::test]
async fn a_row_that_somebody_holds_is_left_to_the_next_sweep() {
    let (lab, clock, store) = aged(3, 0).await;
    clock.advance(HOUR * 2);
    let mut user = lab.client().await;
    let held = user.transaction().await.expect("a transaction");
    let lock = "SELECT FROM records WHERE convert_from(key, 'UTF8') = 'done-1' FOR UPDATE";
    assert_eq!(held.query(lock, &[]).await.expect("a row").len(), 1);
    let swept = store.sweep(100).await.expect("a sweep");
    assert_eq!(swept.removed, 2, "it does not wait: {swept:?}");
    held.rollback().await.expect("a rollback");
    let swept = store.sweep(100).await.expect("a sweep");
    assert_eq!(swept.removed, 1, "{swept:?}");
}

/// Opens a store with so many completed and so many claimed records, under a clock that stands still.
async fn aged(completed: usize, claimed: usize) -> (Lab, TestClock, PostgresStore) {
    let (lab, clock) = (Lab::new(), TestClock::new());
    let store = reopen(&lab, &clock).await;
    let done: Vec<_> = (0..completed).map(|n| format!("done-{n}")).collect();
    let open: Vec<_> = (0..claimed).map(|n| format!("claimed-{n}")).collect();
    let claims: Vec<_> = done
        .iter()
        .chain(&open)
        .map(|key| request(key, 1))
        .collect();
    for answer in store.claim(claims.into()).await.expect("answers") {
        assert!(matches!(answer, Admission::Granted(_)));
    }
    let step = Step::Complete {
        outcome: semel_core::Outcome::empty(),
        window: Window::new(HOUR),
    };
    let reports: Vec<_> = done
        .iter()
        .map(|key| report(key, 1, step.clone()))
        .collect();
    drop(store.settle(reports.into()).await.expect("answers"));
    (lab, clock, store)
}

async fn reopen(lab: &Lab, clock: &TestClock) -> PostgresStore {
    let mut options = Options::default();
    options.clock = Some(Arc::new(clock.clone()));
    connect(&lab.site.url(), options).await
}

async fn sweep_all(store: &PostgresStore) -> u64 {
    let mut removed = 0;
    loop {
        let swept = store.sweep(50).await.expect("a sweep");
        assert!(swept.removed <= 50, "{swept:?}");
        removed += swept.removed;
        if !swept.more {
            return removed;
        }
    }
}

const HOUR: Duration = Duration::from_secs(3_600);
