//! The processes that relay a stream: their shares, their leases, and who keeps out whom.

use std::time::Duration;

use semel_core::ErrorKind;
use semel_core::outbox::PARTITIONS;
use semel_core::port::outbox::{OutboxStore, RelayName, Unsent};
use tokio::time::sleep;

use super::super::readers::{LEASE, lease_of, leases, pending, read, relay, texts};
use super::super::{Change, OutboxSubject};
use super::{LONG_ENOUGH, put};

/// Two processes share the partitions; the tokens of one that died are worth nothing.
pub async fn two_processes_share_the_partitions_and_one_that_is_fenced_changes_nothing<
    S: OutboxSubject,
>(
    shop: S,
) {
    let outbox = shop.outbox().await;
    let second = shop.outbox().await;
    put(&shop, "a", Some("a")).await;
    let all = leases(&outbox, "one").await;
    assert_eq!(all.len(), usize::from(PARTITIONS));
    assert_eq!(leases(&second, "two").await, []);
    let half = leases(&outbox, "one").await;
    assert_eq!(half.len(), usize::from(PARTITIONS) / 2);
    let other = leases(&second, "two").await;
    assert_eq!(other.len(), usize::from(PARTITIONS) / 2);
    let is_kept = |mine| all.contains(mine);
    assert!(half.iter().all(is_kept), "kept with their tokens");
    for theirs in &other {
        assert!(half.iter().all(|mine| mine.partition != theirs.partition));
    }
    let by_one = pending(&outbox, "one", &half).await;
    let by_two = pending(&second, "two", &other).await;
    assert_eq!([by_one, by_two].concat(), ["a"], "one of them publishes it");
    // The first dies; its leases run out, and its successor has higher tokens.
    shop.alter(Change::RunOut { process: "one" }).await;
    let taken = leases(&second, "two").await;
    assert_eq!(taken.len(), usize::from(PARTITIONS));
    for stale in &half {
        let mut taken = taken.iter();
        let taken = taken.find(|it| it.partition == stale.partition);
        assert!(taken.expect("taken").token > stale.token);
    }
    let seen = read(&second, "two", &taken).await;
    assert_eq!(texts(&seen), ["a"]);
    assert_eq!(pending(&outbox, "one", &all).await, [""; 0]);
    let renewed = outbox.lease(&relay("one"), LEASE, false).await;
    assert_eq!(renewed.expect("none"), []);
    let stale = Unsent {
        id: seen[0].id,
        lease: lease_of(&all, &seen[0]),
        error: "stale".into(),
        wait: None,
        counted: true,
    };
    let changed = outbox.put_off(&relay("one"), &[stale]).await;
    assert_eq!(changed.expect("answered"), []);
    second.leave(&relay("two")).await.expect("left");
    assert_eq!(pending(&second, "two", &taken).await, [""; 0]);
    assert_eq!(leases(&outbox, "one").await.len(), usize::from(PARTITIONS));
}

/// A renewal says that the process is there, for as long as its leases.
pub async fn a_process_that_renews_its_leases_is_there_for_the_others<S: OutboxSubject>(shop: S) {
    let outbox = shop.outbox().await;
    let short = Duration::from_secs(2);
    let leased = outbox.lease(&relay("one"), short, true).await;
    assert_eq!(leased.expect("leases").len(), usize::from(PARTITIONS));
    let renewed = outbox.lease(&relay("one"), LEASE, false).await;
    assert_eq!(renewed.expect("leases").len(), usize::from(PARTITIONS));
    sleep(short + LONG_ENOUGH).await;
    let elsewhere = RelayName {
        sink: "file /elsewhere".into(),
        ..relay("two")
    };
    let refused = outbox.lease(&elsewhere, LEASE, true).await;
    let error = refused.expect_err("the first is there");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

/// Another relay, or one with another sink, takes a stream over once nobody is at it.
pub async fn a_stream_has_one_relay_and_that_one_sink<S: OutboxSubject>(shop: S) {
    let outbox = shop.outbox().await;
    leases(&outbox, "one").await;
    let elsewhere = RelayName {
        sink: "file /elsewhere".into(),
        ..relay("two")
    };
    let named = RelayName {
        name: "other".into(),
        ..relay("two")
    };
    for (name, why) in [
        (&elsewhere, "give both the same sink"),
        (&named, "stop that one first"),
    ] {
        let error = outbox.lease(name, LEASE, true).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains(why), "{error}");
    }
    outbox.leave(&relay("one")).await.expect("left");
    let moved = outbox.lease(&elsewhere, LEASE, true).await;
    assert_eq!(moved.expect("adopted").len(), usize::from(PARTITIONS));
}
