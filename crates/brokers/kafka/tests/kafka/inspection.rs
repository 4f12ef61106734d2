//! Horizons of topics of a real cluster.

use std::time::Duration;

use semel_broker_kafka::inspect;
use semel_conformance::source::Message;
use semel_core::port::horizon::{Horizon, HorizonReport};
use semel_core::{ErrorKind, Timestamp};

use crate::cluster::{Topic, brokers};

fn fact<'a>(horizons: &'a HorizonReport, name: &str) -> &'a str {
    let mut facts = horizons.facts.iter();
    let fact = facts.find(|fact| &*fact.name == name);
    &fact
        .unwrap_or_else(|| panic!("no {name}: {horizons:?}"))
        .value
}

async fn horizons(settings: &[(&str, &str)]) -> HorizonReport {
    let topic = Topic::with(2, settings).await;
    inspect(&topic.options()).await.expect("an inspection")
}

#[tokio::test]
async fn a_topic_of_a_week_is_known_by_its_settings() {
    let week = ("retention.ms", "604800000");
    let horizons = horizons(&[week, ("segment.ms", "86400000")]).await;
    assert_eq!(horizons.unread, [], "everything may be read");
    assert_eq!(fact(&horizons, "retention.ms"), "7d");
    assert_eq!(fact(&horizons, "segment.ms"), "1d");
    assert_eq!(fact(&horizons, "cleanup.policy"), "delete");
    fact(&horizons, "offsets.retention.minutes");
    fact(&horizons, "log.retention.check.interval.ms");
    let Horizon::Within(kept) = horizons.redelivery else {
        panic!("{horizons:?}")
    };
    let (day, hour) = (Duration::from_secs(86_400), Duration::from_secs(3_600));
    assert!(kept > day * 8 && kept < day * 8 + hour * 2, "{kept:?}");
    assert_eq!(horizons.replay, horizons.redelivery);
    assert!(!horizons.is_stamped, "a producer's time is no evidence");
    assert_eq!(horizons.oldest, None);
    assert_eq!(horizons.warnings.len(), 0, "{horizons:?}");
}

#[tokio::test]
async fn what_goes_by_no_age_has_no_end() {
    for settings in [
        &[("retention.ms", "-1")][..],
        &[("cleanup.policy", "compact")],
    ] {
        let horizons = horizons(settings).await;
        assert_eq!(horizons.redelivery, Horizon::Endless, "{settings:?}");
    }
    let by_size = [("retention.ms", "-1"), ("retention.bytes", "1000000")];
    assert_eq!(horizons(&by_size).await.redelivery, Horizon::Unknown);
}

#[tokio::test]
async fn the_oldest_record_is_found_where_the_broker_stamps_them() {
    let topic = Topic::with(3, &[("message.timestamp.type", "LogAppendTime")]).await;
    let empty = inspect(&topic.options()).await.expect("an inspection");
    assert!(empty.is_stamped);
    assert_eq!(empty.oldest, None, "there is none");
    topic.put(1, &Message::new("first")).await;
    let first = inspect(&topic.options())
        .await
        .expect("an inspection")
        .oldest;
    let first = first.expect("a record");
    assert!(first > Timestamp::from_millis(1_700_000_000_000), "{first}");
    tokio::time::sleep(Duration::from_millis(50)).await;
    topic.put(0, &Message::new("second")).await;
    topic.put(1, &Message::new("third")).await;
    let after = inspect(&topic.options()).await.expect("an inspection");
    assert_eq!(after.oldest, Some(first));
    assert_eq!(fact(&after, "oldest record"), first.to_string());
    // Nobody has joined the group or committed for it.
    assert_eq!(topic.committed(3), [0, 0, 0]);
}

#[tokio::test]
async fn a_topic_that_is_missing_is_not_made_by_looking() {
    let topic = Topic::absent(&brokers());
    for _ in 0..2 {
        let error = inspect(&topic.options()).await.expect_err("no topic");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains(&topic.name), "{error}");
    }
}

#[tokio::test]
async fn a_cluster_that_is_absent_is_away() {
    let address = format!("127.0.0.1:{}", free_port::take().expect("a free port"));
    let topic = Topic::absent(&address);
    let error = inspect(&topic.options()).await.expect_err("nobody");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains(&address), "{error}");
}

#[tokio::test]
async fn commits_of_others_are_refused_by_the_look_too() {
    let topic = Topic::absent(&brokers());
    let mut options = topic.options();
    let auto = ("enable.auto.commit".into(), "true".into());
    options.properties.push(auto);
    let error = inspect(&options).await.expect_err("ours");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("enable.auto.commit"), "{error}");
}
