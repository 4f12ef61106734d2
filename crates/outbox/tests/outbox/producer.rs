//! A producer between a journal in memory and a sink that does as it is told.

mod contents;
mod ends;
mod lab;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use semel_core::port::producer::AnyProducerJournal;
use semel_core::producer::{ProducerMessage, ProducerOrder};
use semel_core::{Certainty, Code};
use semel_outbox::Producer;
use semel_outbox::producer::{Fate, MOST_UNCONFIRMED, ProducerSettings};
use tokio::time::{sleep, timeout};

use crate::fakes::VirtualClock;
use lab::{Mood, World, fates, keyed, messages, opening};

#[tokio::test(start_paused = true)]
async fn messages_are_published_once_with_their_ids_and_sequences() {
    let world = World::default();
    let producer = world.producer().await;
    let mine = ProducerMessage {
        id: Some("mine".into()),
        ..ProducerMessage::new("b")
    };
    let batch = [messages(["a"]), vec![mine]].concat();
    let receipts = producer.publish(batch).await.expect("published");
    assert_eq!(fates(&receipts), [Fate::Published, Fate::Published]);
    assert_eq!(receipts[1].sequence, 2);
    assert_eq!(producer.publish(Vec::new()).await.expect("nothing"), []);
    let ids: Vec<_> = world
        .broker
        .messages()
        .into_iter()
        .map(|it| it.id)
        .collect();
    assert_eq!(ids, [producer.id_of(1), "mine".to_owned()]);
    let summary = producer.close().await.expect("closed");
    assert_eq!(
        (summary.published, summary.kept, summary.repeated),
        (2, 0, 0)
    );
    assert_eq!(world.unconfirmed().await, (3, 2), "all is on record");
}

#[tokio::test(start_paused = true)]
async fn many_callers_share_one_append_and_one_call_of_the_sink() {
    let world = World::default();
    let producer = world.producer().await;
    let mut callers = tokio::task::JoinSet::new();
    for number in 0..2_000 {
        let producer = producer.clone();
        callers.spawn(async move { producer.publish(messages([number])).await });
    }
    for receipts in callers.join_all().await {
        assert_eq!(fates(&receipts.expect("published")), [Fate::Published]);
    }
    producer.close().await.expect("closed");
    assert_eq!(world.broker.messages().len(), 2_000);
    let appends = world.journal.0.appends.load(Ordering::Relaxed);
    assert!(appends < 100, "{appends} appends for 2,000 messages");
    assert!(world.broker.contents().largest_call > 20);
}

#[tokio::test(start_paused = true)]
async fn what_was_durable_and_not_sent_is_sent_by_the_next_opening_before_anything_new() {
    let world = World::default();
    world.broker.is(Mood::Deaf);
    let producer = world.producer().await;
    let publishing = producer.publish(messages(["a", "b"]));
    assert!(timeout(SOON, publishing).await.is_err(), "nobody answers");
    drop(producer);
    assert_eq!(world.unconfirmed().await, (1, 2));
    world.broker.is(Mood::Well);
    let producer = world.producer().await;
    let receipts = producer.publish(messages(["c"])).await.expect("published");
    assert_eq!(receipts[0].sequence, 3);
    assert_eq!(world.broker.texts(), ["a", "b", "c"]);
    assert!(world.told.has("Repeated { count: 2 }"));
    let messages = world.broker.messages();
    assert!(messages.iter().all(|it| it.epoch == 2), "{messages:?}");
    let summary = producer.close().await.expect("closed");
    assert_eq!((summary.published, summary.repeated), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_and_not_confirmed_comes_again_under_the_same_id_and_sequence() {
    let world = World::default();
    world.broker.is(Mood::Dumb);
    let producer = world.producer().await;
    let publishing = producer.publish(messages(["a", "b", "c"]));
    assert!(timeout(SOON, publishing).await.is_err(), "nobody answers");
    drop(producer);
    let first = world.broker.messages();
    assert_eq!(first.len(), 3);
    world.broker.is(Mood::Well);
    world.producer().await.close().await.expect("closed");
    let both = world.broker.messages();
    assert_eq!(both.len(), 6);
    for (before, after) in first.iter().zip(&both[3..]) {
        assert_eq!((&before.id, before.sequence), (&after.id, after.sequence));
        assert_eq!((before.epoch, after.epoch), (1, 2));
    }
    assert_eq!(world.broker.by_ids(), ["a", "b", "c"]);
    world.producer().await.close().await.expect("closed");
    assert_eq!(
        world.broker.messages().len(),
        6,
        "once it is confirmed, never again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_blow_repeats_no_more_than_the_bound() {
    let world = World::default();
    world.broker.is(Mood::Dumb);
    let producer = world.producer().await;
    let publishing = producer.publish(messages(0..20_000));
    assert!(timeout(SOON, publishing).await.is_err(), "nobody answers");
    drop(producer);
    let (first, last) = world.unconfirmed().await;
    assert!(last - first < MOST_UNCONFIRMED, "{first} to {last}");
    world.broker.is(Mood::Well);
    let producer = world.producer().await;
    let published = producer.publish(messages(0..20_000)).await;
    published.expect("published");
    // Killed between two confirmations.
    drop(producer);
    let (first, last) = world.unconfirmed().await;
    assert!(last + 1 - first <= MOST_UNCONFIRMED, "{first} to {last}");
}

#[tokio::test(start_paused = true)]
async fn a_blow_sends_again_no_more_than_the_bound_however_much_was_sent_before() {
    let world = World::default();
    let mut repeats = 0;
    for blow in 1..=5 {
        world.broker.is(Mood::Well);
        let before = world.broker.messages().len();
        let producer = world.producer().await;
        let mut publishing = tokio::task::JoinSet::new();
        publishing.spawn(async move { producer.publish(messages(0..20_000)).await });
        // More than the bound is confirmed, and then the answers are lost.
        while world.broker.messages().len() < before + 9_000 {
            sleep(Duration::from_micros(100)).await;
        }
        world.broker.is(Mood::Dumb);
        sleep(Duration::from_millis(20)).await;
        publishing.shutdown().await;
        let published = world.broker.messages();
        let sequences: BTreeSet<_> = published.iter().map(|it| it.sequence).collect();
        let again = (published.len() - sequences.len()) as u64 - repeats;
        assert!(again <= MOST_UNCONFIRMED, "blow {blow}: {again} came again");
        repeats += again;
    }
    assert!(repeats > 0, "the blows came where nothing was under way");
}

#[tokio::test(start_paused = true)]
async fn a_later_opening_fences_and_nothing_of_the_earlier_one_is_sent_then() {
    let world = World::default();
    let earlier = world.producer().await;
    earlier.publish(messages(["a"])).await.expect("published");
    let later = world.producer().await;
    let error = earlier.publish(messages(["late"])).await;
    let error = error.expect_err("fenced");
    assert_eq!(error.code(), Code::ProducerFenced, "{error}");
    assert_eq!(error.certainty(), Certainty::NotApplied);
    // Whoever asks is told why: another error would have a service open it again, and the two take turns.
    for _ in 0..3 {
        let again = earlier.publish(messages(["later still"])).await;
        let error = again.expect_err("it has ended");
        assert_eq!(error.code(), Code::ProducerFenced, "{error}");
        assert_eq!(error.certainty(), Certainty::NotApplied);
    }
    let closed = earlier.clone().close().await.expect_err("fenced");
    assert_eq!(closed.code(), Code::ProducerFenced);
    later.publish(messages(["b"])).await.expect("published");
    assert_eq!(world.broker.texts(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_the_sink_is_not_sent_once_there_is_a_later_opening() {
    let world = World::default();
    world.broker.is(Mood::Away);
    let earlier = world.producer().await;
    let waiting = tokio::spawn({
        let earlier = earlier.clone();
        async move { earlier.publish(messages(["a"])).await }
    });
    sleep(Duration::from_secs(20)).await;
    assert!(world.told.has("SinkAway"));
    let later = world.producer().await;
    world.broker.is(Mood::Well);
    let error = waiting.await.expect("no panic").expect_err("fenced");
    assert_eq!(error.code(), Code::ProducerFenced);
    let certainty = error.certainty();
    assert_eq!(certainty, Certainty::MaybeApplied, "the later one sends it");
    later.close().await.expect("closed");
    let messages = world.broker.messages();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(messages[0].epoch, 2);
    assert!(world.told.has("SinkBack") || world.told.has("Repeated"));
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_away_is_waited_for_and_told_once() {
    let world = World::default();
    world.broker.is(Mood::Away);
    let producer = world.producer().await;
    let publishing = tokio::spawn({
        let producer = producer.clone();
        async move { producer.publish(messages(["a", "b"])).await }
    });
    sleep(Duration::from_secs(60)).await;
    world.broker.is(Mood::Well);
    publishing.await.expect("no panic").expect("published");
    assert_eq!(world.broker.texts(), ["a", "b"]);
    let told = world.told.0.lock().expect("no panic").clone();
    let away = told.iter().filter(|it| it.starts_with("SinkAway"));
    assert_eq!(away.count(), 1, "{told:?}");
    assert!(world.told.has("SinkBack"));
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_does_not_answer_is_told_of() {
    let world = World::default();
    world.broker.is(Mood::Deaf);
    let producer = world.producer().await;
    let publishing = producer.publish(messages(["a"]));
    assert!(timeout(Duration::from_secs(30), publishing).await.is_err());
    assert!(world.told.has("SinkSilent"));
    // A stop has patience, and then none.
    let summary = producer.stop().await.expect("stopped");
    assert_eq!(summary.kept, 1);
}

#[tokio::test(start_paused = true)]
async fn in_waves_a_message_that_fails_holds_up_its_order_key_alone() {
    let world = World::default();
    world.broker.contents().failing.insert("a1".to_owned());
    let settings = ProducerSettings {
        is_sent_in_waves: true,
        ..ProducerSettings::default()
    };
    let producer = world.producer_with(settings).await;
    let batch = vec![
        keyed("a1", "a"),
        keyed("b1", "b"),
        keyed("a2", "a"),
        keyed("b2", "b"),
        ProducerMessage::new("free"),
    ];
    let publishing = tokio::spawn(async move { producer.publish(batch).await });
    sleep(Duration::from_secs(30)).await;
    assert_eq!(world.broker.texts(), ["b1", "free", "b2"]);
    world.broker.contents().failing.clear();
    publishing.await.expect("no panic").expect("published");
    assert_eq!(world.broker.texts(), ["b1", "free", "b2", "a1", "a2"]);
}

#[tokio::test(start_paused = true)]
async fn in_waves_a_refused_message_is_told_as_refused_and_each_has_its_place() {
    let world = World::default();
    let settings = ProducerSettings {
        is_sent_in_waves: true,
        ..ProducerSettings::default()
    };
    let producer = world.producer_with(settings).await;
    let batch = vec![
        keyed("too large", "k"),
        keyed("b", "k"),
        keyed("c", "k"),
        keyed("too large", "k"),
    ];
    let receipts = producer.publish(batch).await.expect("answered");
    let is_refused = |it: &Fate| matches!(it, Fate::Refused(why) if why.contains("too large"));
    let found = fates(&receipts);
    assert!(is_refused(&found[0]) && is_refused(&found[3]), "{found:?}");
    assert_eq!(found[1..3], [Fate::Published, Fate::Published]);
    let offsets: Vec<_> = receipts.iter().map(|it| it.placement.offset).collect();
    assert_eq!(offsets, [None, Some(0), Some(1), None]);
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_later_than_the_rest_of_its_batch_takes_nothing_of_its_receipts() {
    let world = World::default();
    world.broker.contents().failing.insert("b".to_owned());
    let producer = world.producer().await;
    let batch = messages(["too large", "a", "b"]);
    let publishing = tokio::spawn(async move { producer.publish(batch).await });
    while !world.told.has("SinkAway") {
        sleep(Duration::from_millis(5)).await;
    }
    world.broker.contents().failing.clear();
    let receipts = publishing.await.expect("no panic").expect("answered");
    let found = fates(&receipts);
    assert!(matches!(found[0], Fate::Refused(_)), "{found:?}");
    let offsets: Vec<_> = receipts.iter().map(|it| it.placement.offset).collect();
    assert_eq!(offsets, [None, Some(0), Some(1)]);
}

#[tokio::test(start_paused = true)]
async fn what_the_sink_takes_in_no_case_is_told_and_passed_over() {
    let world = World::default();
    let producer = world.producer().await;
    let receipts = producer.publish(messages(["a", "too large", "b"])).await;
    let fates = fates(&receipts.expect("answered"));
    assert!(matches!(&fates[1], Fate::Refused(why) if why.contains("too large")));
    assert_eq!((&fates[0], &fates[2]), (&Fate::Published, &Fate::Published));
    assert_eq!(world.broker.texts(), ["a", "b"]);
    assert!(world.told.has("Refused { sequence: 2"));
    let summary = producer.close().await.expect("closed");
    assert_eq!((summary.published, summary.refused), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn an_append_whose_answer_is_lost_is_made_again_and_appends_once() {
    let world = World::default();
    let producer = world.producer().await;
    world.journal.0.lost_answers.store(3, Ordering::Relaxed);
    producer
        .publish(messages(["a", "b"]))
        .await
        .expect("published");
    assert!(world.told.has("JournalAway") && world.told.has("JournalBack"));
    assert_eq!(world.broker.texts(), ["a", "b"]);
    assert_eq!(world.unconfirmed().await.1, 2);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_stops_waiting_cancels_nothing() {
    let world = World::default();
    let producer = world.producer().await;
    let submitted = producer.submit(messages(["a"]), None).await;
    drop(submitted.expect("submitted"));
    let _ = timeout(Duration::from_micros(10), producer.publish(messages(["b"]))).await;
    producer.publish(messages(["c"])).await.expect("published");
    assert_eq!(world.broker.texts(), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn frozen_messages_are_kept_and_come_out_in_order_when_they_are_released() {
    let world = World::default();
    let producer = world.producer().await;
    producer.publish(messages(["a"])).await.expect("published");
    world.order(ProducerOrder::Freeze).await;
    // More than is held in memory.
    let kept = producer.publish(messages(0..9_000)).await.expect("kept");
    assert!(kept.iter().all(|it| it.fate == Fate::Kept), "{:?}", kept[0]);
    assert!(world.told.has("Frozen"));
    assert_eq!(world.broker.texts(), ["a"]);
    world.order(ProducerOrder::Release).await;
    let receipts = producer.publish(messages(["still kept"])).await;
    assert_eq!(fates(&receipts.expect("kept")), [Fate::Kept]);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.broker.texts().len(), 9_001);
    // A process that comes later lets out what was kept before what is new.
    let summary = producer.close().await.expect("closed");
    assert_eq!(summary.kept, 1);
    world.order(ProducerOrder::Thaw).await;
    let producer = world.producer().await;
    producer
        .publish(messages(["new"]))
        .await
        .expect("published");
    producer.close().await.expect("closed");
    let texts = world.broker.texts();
    let expected = ["a".to_owned()].into_iter();
    let expected = expected.chain((0..9_000).map(|it| it.to_string()));
    let expected = expected.chain(["still kept".to_owned(), "new".to_owned()]);
    assert!(texts.iter().cloned().eq(expected), "{:?}", &texts[9_000..]);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_the_sink_is_not_sent_once_the_producer_is_frozen() {
    let world = World::default();
    world.broker.is(Mood::Away);
    let producer = world.producer().await;
    let publishing = producer.publish(messages(["a", "b"]));
    let ordering = async {
        sleep(Duration::from_secs(20)).await;
        world.order(ProducerOrder::Freeze).await;
        world.broker.is(Mood::Well);
    };
    let (receipts, ()) = tokio::join!(publishing, ordering);
    assert_eq!(fates(&receipts.expect("kept")), [Fate::Kept, Fate::Kept]);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.broker.texts(), Vec::<String>::new());
    world.order(ProducerOrder::Thaw).await;
    producer.publish(messages(["c"])).await.expect("published");
    producer.close().await.expect("closed");
    assert_eq!(world.broker.texts(), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_sink_has_in_hand_is_not_told_as_kept() {
    let world = World::default();
    world.broker.is(Mood::Deaf);
    let producer = world.producer().await;
    let publishing = tokio::spawn({
        let producer = producer.clone();
        async move { producer.publish(messages(["a"])).await }
    });
    sleep(Duration::from_secs(1)).await;
    world.order(ProducerOrder::Freeze).await;
    sleep(Duration::from_secs(60)).await;
    assert!(world.told.has("Frozen"), "it is known while the call hangs");
    assert!(!publishing.is_finished(), "it may be published yet");
    publishing.abort();
}

#[tokio::test(start_paused = true)]
async fn what_was_released_is_recorded_though_more_is_kept_behind_it() {
    let world = World::default();
    world.producer().await.close().await.expect("closed");
    world.order(ProducerOrder::Freeze).await;
    let producer = world.producer().await;
    producer.publish(messages(["a", "b"])).await.expect("kept");
    producer.close().await.expect("closed");
    world.order(ProducerOrder::Release).await;
    let producer = world.producer().await;
    let kept = producer.publish(messages(["c"])).await.expect("kept");
    assert_eq!(fates(&kept), [Fate::Kept]);
    let closed = timeout(Duration::from_secs(60), producer.close()).await;
    assert_eq!(closed.expect("an end").expect("closed").kept, 1);
    assert_eq!(world.unconfirmed().await, (3, 3));
    assert_eq!(world.broker.texts(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_older_than_the_memory_of_the_broker_is_told_once_and_counted() {
    let world = World::default();
    world.broker.is(Mood::Dumb);
    let producer = world.producer().await;
    let _ = timeout(SOON, producer.publish(messages(["a", "b"]))).await;
    drop(producer);
    world.broker.is(Mood::Well);
    let settings = ProducerSettings {
        broker_window: Some(Duration::ZERO),
        ..ProducerSettings::default()
    };
    // The clock of the next process goes on from where it begins: it is later than the batch only after a while.
    let clock = Arc::new(VirtualClock::default());
    sleep(Duration::from_secs(300)).await;
    let told = Arc::new(world.told.clone());
    let journal = AnyProducerJournal::new(world.journal.clone());
    let opening = opening();
    let sink = world.broker.clone();
    let producer = Producer::open(journal, sink, &opening, settings, clock, told);
    let producer = producer.await.expect("opened");
    let summary = producer.close().await.expect("closed");
    assert_eq!(summary.late, 2);
    assert!(world.told.has("Late"));
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_comes_after_the_memory_of_the_broker_is_told_and_counted() {
    let world = World::default();
    let settings = ProducerSettings {
        broker_window: Some(Duration::from_secs(120)),
        ..ProducerSettings::default()
    };
    let producer = world.producer_with(settings).await;
    for (seconds, late) in [(60, false), (600, true)] {
        world.broker.is(Mood::Away);
        let publishing = tokio::spawn({
            let producer = producer.clone();
            async move { producer.publish(messages(["a", "b"])).await }
        });
        sleep(Duration::from_secs(seconds)).await;
        world.broker.is(Mood::Well);
        publishing.await.expect("no panic").expect("published");
        assert_eq!(world.told.has("Late"), late, "{seconds} s");
    }
    assert_eq!(producer.close().await.expect("closed").late, 2);
}

#[tokio::test(start_paused = true)]
async fn a_random_life_loses_nothing_and_repeats_under_the_same_ids() {
    for seed in 0..20_u64 {
        let world = World::default();
        let (mut chance, mut handed_over) = (seed + 1, Vec::new());
        let mut draw = |most: u64| {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (chance >> 33) % most
        };
        for round in 0..8 {
            let moods = [Mood::Well, Mood::Well, Mood::Dumb, Mood::Deaf, Mood::Away];
            world
                .broker
                .is(moods[usize::try_from(draw(5)).expect("few")]);
            let producer = world.producer().await;
            let texts: Vec<_> = (0..draw(3_000)).map(|it| format!("{round}-{it}")).collect();
            let publishing = producer.publish(messages(&texts));
            let _ = timeout(Duration::from_millis(draw(30)), publishing).await;
            drop(producer);
            // What is in the journal is to be published, and what is not was never promised.
            let (_, last) = world.unconfirmed().await;
            let taken = usize::try_from(last).expect("few") - handed_over.len();
            handed_over.extend_from_slice(&texts[..taken]);
        }
        world.broker.is(Mood::Well);
        world.producer().await.close().await.expect("closed");
        assert_eq!(world.broker.by_ids(), handed_over, "seed {seed}");
        let mut ids: BTreeMap<u64, String> = BTreeMap::new();
        for message in world.broker.messages() {
            let id = ids.entry(message.sequence).or_insert(message.id.clone());
            assert_eq!(*id, message.id, "seed {seed}");
        }
    }
}

const SOON: Duration = Duration::from_secs(2);
