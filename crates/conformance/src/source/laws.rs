//! The cases. None of them relies on an order of redeliveries.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use semel_core::port::source::{Delivery, DeliveryId, Fetched, Source};
use tokio::time::{sleep, timeout};

use super::{HeldSubject, Message, SourceSubject, applied};

/// Every message is delivered whole, byte for byte.
pub async fn every_message_is_delivered_whole<S: SourceSubject>(place: S) {
    let mut messages = vec![
        Message::new("plain"),
        Message::new(Bytes::new()),
        Message::new((0..=255).collect::<Vec<u8>>()),
        Message::new(vec![b'x'; 200_000]),
    ];
    messages.push(Message {
        payload: "with headers".into(),
        headers: vec![
            ("Event-Id".into(), "e-1".into()),
            ("trace".into(), "00-ab".into()),
        ],
    });
    place.put(&messages).await;
    let mut source = place.source().await;
    let got = take::<S>(&mut source, messages.len()).await;
    let mut places = BTreeSet::new();
    for message in &messages {
        let found = got.iter().find(|it| it.payload == message.payload);
        let found = found.expect("every payload");
        for (name, value) in &message.headers {
            let is_there = found.headers.iter().any(|(there, it)| {
                let is_named = if S::KEEPS_CASE {
                    there == name
                } else {
                    there.eq_ignore_ascii_case(name)
                };
                is_named && it == value
            });
            assert!(is_there, "{name} in {:?}", found.headers);
        }
        assert_eq!(found.oversize_bytes, None);
        assert!(places.insert(found.coordinates.clone()), "a place each");
    }
    end(&mut source, &got).await;
}

/// A source hands over at most the requested number.
pub async fn no_more_is_handed_over_than_was_asked_for<S: SourceSubject>(place: S) {
    place.put(&numbered(0..50)).await;
    let mut source = place.source().await;
    let mut got = Vec::new();
    while got.len() < 50 {
        let some = fetch::<S>(&mut source, 7).await;
        assert!((1..=7).contains(&some.len()), "{} of 7", some.len());
        got.extend(some);
    }
    assert_eq!(numbers(&got), (0..50).collect());
    end(&mut source, &got).await;
}

/// An empty place is not an end.
pub async fn where_there_is_nothing_a_source_waits<S: SourceSubject>(place: S) {
    let mut source = place.source().await;
    let early = timeout(Duration::from_millis(500), source.fetch(10)).await;
    match early {
        // A consumer that is still joining may say that it is not there yet.
        Ok(Ok(Fetched::Away(_) | Fetched::Back | Fetched::Elsewhere { .. })) | Err(_) => {}
        Ok(fetched) => panic!("{fetched:?}"),
    }
    place.put(&numbered(0..1)).await;
    let got = take::<S>(&mut source, 1).await;
    assert_eq!(numbers(&got), BTreeSet::from([0]));
    end(&mut source, &got).await;
}

/// Fetching is cancel safe.
pub async fn a_fetch_that_is_dropped_loses_nothing<S: SourceSubject>(place: S) {
    place.put(&numbered(0..200)).await;
    let mut source = place.source().await;
    let (mut seen, mut ids) = (BTreeSet::new(), BTreeSet::new());
    let mut all = Vec::new();
    let begun = tokio::time::Instant::now();
    let mut patience = Duration::ZERO;
    while seen.len() < 200 {
        assert!(begun.elapsed() < S::PATIENCE, "{} of 200", seen.len());
        patience = (patience + Duration::from_micros(50)).min(Duration::from_millis(5));
        let fetched = timeout(patience, source.fetch(10)).await;
        let Ok(Ok(Fetched::Deliveries(some))) = fetched else {
            continue;
        };
        for delivery in &some {
            assert!(ids.insert(delivery.id), "an id is used once");
        }
        seen.extend(numbers(&some));
        all.extend(some);
    }
    assert_eq!(all.len(), 200, "each was handed over once");
    end(&mut source, &all).await;
}

/// The deliveries of a consumer that vanished are handed to the next one.
pub async fn what_a_vanished_consumer_held_comes_again<S: SourceSubject>(place: S) {
    place.put(&numbered(0..20)).await;
    let mut first = place.source().await;
    let held = take::<S>(&mut first, 20).await;
    assert_eq!(numbers(&held), (0..20).collect());
    drop(first);
    let mut next = place.source().await;
    let again = take::<S>(&mut next, 20).await;
    assert_eq!(numbers(&again), (0..20).collect());
    end(&mut next, &again).await;
}

/// A requeued delivery is delivered again.
pub async fn what_was_given_back_comes_again<S: SourceSubject>(place: S) {
    place.put(&numbered(0..20)).await;
    let mut first = place.source().await;
    let held = take::<S>(&mut first, 20).await;
    first.requeue(&ids(&held)).await.expect("it is given back");
    first.close().await.expect("an end");
    drop(first);
    let mut next = place.source().await;
    let again = take::<S>(&mut next, 20).await;
    assert_eq!(numbers(&again), (0..20).collect());
    end(&mut next, &again).await;
}

/// Coordinates, payload and headers are those of the first delivery.
pub async fn a_redelivery_is_the_same_message_at_the_same_place<S: SourceSubject>(place: S) {
    let mut messages = numbered(0..10);
    for message in &mut messages {
        message.headers.push(("n".into(), message.payload.clone()));
    }
    place.put(&messages).await;
    let mut first = place.source().await;
    let held = take::<S>(&mut first, 10).await;
    drop(first);
    let mut next = place.source().await;
    let again = take::<S>(&mut next, 10).await;
    let places = |deliveries: &[Delivery]| -> BTreeMap<_, _> {
        let place = |it: &Delivery| (it.coordinates.clone(), (it.payload.clone(), it.appended_at));
        deliveries.iter().map(place).collect()
    };
    assert_eq!(places(&held), places(&again));
    let n = |it: &Delivery| it.headers.contains(&("n".into(), it.payload.clone()));
    assert!(again.iter().all(n), "{again:?}");
    end(&mut next, &again).await;
}

/// A message that one consumer does not get, the other gets.
pub async fn two_consumers_get_everything_between_them<S: SourceSubject>(place: S) {
    let (mut one, mut other) = (place.source().await, place.source().await);
    place.put(&numbered(0..100)).await;
    let mut seen = BTreeSet::new();
    let begun = tokio::time::Instant::now();
    while seen.len() < 100 {
        assert!(begun.elapsed() < S::PATIENCE * 2, "{} of 100", seen.len());
        for source in [&mut one, &mut other] {
            let fetched = timeout(Duration::from_millis(50), source.fetch(10)).await;
            match fetched {
                Ok(Ok(Fetched::Deliveries(some))) => {
                    seen.extend(numbers(&some));
                    source
                        .acknowledge(&applied(&ids(&some)))
                        .await
                        .expect("a word");
                }
                Ok(Ok(Fetched::Revoked(revoked))) => {
                    source.requeue(&revoked).await.expect("a word");
                }
                Ok(Ok(Fetched::Ended)) => panic!("it ended"),
                Ok(Err(error)) => panic!("{error:?}"),
                Ok(Ok(Fetched::Away(_) | Fetched::Back | Fetched::Elsewhere { .. })) | Err(_) => {}
            }
        }
    }
    one.close().await.expect("an end");
    other.close().await.expect("an end");
}

/// An acknowledged message does not come again.
pub async fn what_was_acknowledged_before_a_close_is_over<S: SourceSubject>(place: S) {
    place.put(&numbered(0..30)).await;
    let mut first = place.source().await;
    let held = take::<S>(&mut first, 30).await;
    // In no order.
    for chunk in held.chunks(4).rev() {
        first
            .acknowledge(&applied(&ids(chunk)))
            .await
            .expect("a word");
    }
    first.close().await.expect("an end");
    drop(first);
    only_new_ones::<S>(&place).await;
}

/// An acknowledgement right before a close counts.
pub async fn a_close_right_after_an_acknowledgement_keeps_it<S: SourceSubject>(place: S) {
    for round in 0..5 {
        place.put(&numbered(round * 10..round * 10 + 10)).await;
        let mut source = place.source().await;
        let got = take::<S>(&mut source, 10).await;
        assert_eq!(
            numbers(&got),
            (round * 10..round * 10 + 10).collect(),
            "round {round}"
        );
        end(&mut source, &got).await;
    }
}

/// A delivery that was not named is delivered again.
pub async fn acknowledging_one_settles_no_other<S: SourceSubject>(place: S) {
    place.put(&numbered(0..20)).await;
    let mut first = place.source().await;
    let held = take::<S>(&mut first, 20).await;
    let (even, odd): (Vec<_>, Vec<_>) = held
        .into_iter()
        .partition(|it| number(it).is_multiple_of(2));
    for delivery in even.iter().rev() {
        first
            .acknowledge(&applied(&[delivery.id]))
            .await
            .expect("a word");
    }
    first.close().await.expect("an end");
    drop(first);
    let mut next = place.source().await;
    let (mut again, begun) = (Vec::new(), tokio::time::Instant::now());
    while !numbers(&odd).is_subset(&numbers(&again)) {
        let left = S::PATIENCE.saturating_sub(begun.elapsed());
        let more = timeout(left, fetch::<S>(&mut next, 20)).await;
        again.extend(more.unwrap_or_else(|_| panic!("{:?} came again", numbers(&again))));
    }
    end(&mut next, &again).await;
}

/// Neither an invented id nor one of another consumer has an effect.
pub async fn a_stale_acknowledgement_settles_nothing<S: SourceSubject>(place: S) {
    place.put(&numbered(0..10)).await;
    let mut first = place.source().await;
    let stale = ids(&take::<S>(&mut first, 10).await);
    drop(first);
    let mut next = place.source().await;
    let again = take::<S>(&mut next, 10).await;
    let current: BTreeSet<_> = ids(&again).into_iter().collect();
    let mut unknown: Vec<_> = stale
        .into_iter()
        .filter(|id| !current.contains(id))
        .collect();
    unknown.push(DeliveryId(u64::MAX));
    next.acknowledge(&applied(&unknown))
        .await
        .expect("it is ignored");
    next.extend(&unknown).await.expect("it is ignored");
    next.close().await.expect("an end");
    drop(next);
    let mut last = place.source().await;
    let still = take::<S>(&mut last, 10).await;
    assert_eq!(numbers(&still), (0..10).collect());
    end(&mut last, &still).await;
}

/// The second acknowledgement changes nothing.
pub async fn acknowledging_twice_is_harmless<S: SourceSubject>(place: S) {
    place.put(&numbered(0..10)).await;
    let mut source = place.source().await;
    let got = take::<S>(&mut source, 10).await;
    for _ in 0..2 {
        source
            .acknowledge(&applied(&ids(&got)))
            .await
            .expect("a word");
    }
    end(&mut source, &got).await;
    drop(source);
    only_new_ones::<S>(&place).await;
}

/// An extension at a third of the time keeps a delivery, however long that goes on.
pub async fn what_is_extended_is_handed_to_nobody_else<S: HeldSubject>(place: S) {
    place.put(&numbered(0..5)).await;
    let mut holder = place.source().await;
    let held = take::<S>(&mut holder, 5).await;
    let mut other = place.source().await;
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < S::HOLD * 3 {
        holder.extend(&ids(&held)).await.expect("a word");
        match timeout(S::HOLD / 3, other.fetch(5)).await {
            Ok(Ok(Fetched::Away(_) | Fetched::Back | Fetched::Elsewhere { .. })) | Err(_) => {}
            Ok(fetched) => panic!("{fetched:?}"),
        }
    }
    end(&mut holder, &held).await;
    other.close().await.expect("an end");
}

/// A consumer that stops extending loses the deliveries that it holds.
pub async fn what_is_not_extended_is_handed_to_another<S: HeldSubject>(place: S) {
    place.put(&numbered(0..5)).await;
    let mut holder = place.source().await;
    let held = take::<S>(&mut holder, 5).await;
    assert_eq!(held.len(), 5);
    sleep(S::HOLD).await;
    let mut other = place.source().await;
    let again = take::<S>(&mut other, 5).await;
    assert_eq!(numbers(&again), (0..5).collect());
    end(&mut other, &again).await;
}

/// An acknowledged delivery is settled, not merely held.
pub async fn what_was_acknowledged_does_not_come_when_its_time_is_over<S: HeldSubject>(place: S) {
    place.put(&numbered(0..20)).await;
    let mut first = place.source().await;
    let held = take::<S>(&mut first, 20).await;
    end(&mut first, &held).await;
    drop(first);
    sleep(S::HOLD + S::HOLD / 2).await;
    only_new_ones::<S>(&place).await;
}

/// Checks that the next consumer gets the new messages, and nothing else.
async fn only_new_ones<S: SourceSubject>(place: &S) {
    place.put(&numbered(900..901)).await;
    let mut next = place.source().await;
    let got = take::<S>(&mut next, 1).await;
    assert_eq!(numbers(&got), BTreeSet::from([900]));
    end(&mut next, &got).await;
}

/// Fetches until `count` different messages have arrived.
async fn take<S: SourceSubject>(source: &mut S::Source, count: usize) -> Vec<Delivery> {
    let mut got = Vec::new();
    let (mut places, begun) = (BTreeSet::new(), tokio::time::Instant::now());
    while places.len() < count {
        let left = S::PATIENCE.saturating_sub(begun.elapsed());
        assert!(!left.is_zero(), "{} of {count} came", places.len());
        let Ok(some) = timeout(left, fetch::<S>(source, count - places.len())).await else {
            continue;
        };
        places.extend(some.iter().map(|it| it.coordinates.clone()));
        got.extend(some);
    }
    got
}

/// The next deliveries; waits if the broker is unreachable for a moment.
async fn fetch<S: SourceSubject>(source: &mut S::Source, max: usize) -> Vec<Delivery> {
    loop {
        match source.fetch(max).await {
            Ok(Fetched::Deliveries(some)) => return some,
            Ok(Fetched::Revoked(_) | Fetched::Elsewhere { .. }) => {}
            Ok(Fetched::Away(_) | Fetched::Back) => sleep(Duration::from_millis(20)).await,
            Ok(Fetched::Ended) => panic!("it ended"),
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Acknowledges everything and closes.
async fn end(source: &mut impl Source, got: &[Delivery]) {
    source
        .acknowledge(&applied(&ids(got)))
        .await
        .expect("a word");
    source.close().await.expect("an end");
}

fn ids(deliveries: &[Delivery]) -> Vec<DeliveryId> {
    deliveries.iter().map(|it| it.id).collect()
}

fn numbered(range: std::ops::Range<u32>) -> Vec<Message> {
    range.map(|n| Message::new(n.to_string())).collect()
}

fn number(delivery: &Delivery) -> u32 {
    let text = std::str::from_utf8(&delivery.payload).expect("a number");
    text.parse().expect("a number")
}

fn numbers(deliveries: &[Delivery]) -> BTreeSet<u32> {
    deliveries.iter().map(number).collect()
}
