//! The ends of a producer: fenced, stopped, or with a journal that is not what it was.

use std::sync::atomic::Ordering;
use std::time::Duration;

use semel_core::producer::InputMark;
use semel_core::{Certainty, Code, ErrorKind};
use semel_outbox::producer::{Fate, Feed, Receipt, Rows, TakenRows, UnsureRows};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::SOON;
use super::lab::{Mood, World, fates, messages};

#[tokio::test(start_paused = true)]
async fn a_later_opening_ends_one_whose_sink_does_not_answer() {
    let world = World::default();
    world.broker.is(Mood::Deaf);
    let earlier = world.producer().await;
    let waiting = tokio::spawn({
        let earlier = earlier.clone();
        async move { earlier.publish(messages(["a"])).await }
    });
    sleep(Duration::from_secs(20)).await;
    let later = world.producer().await;
    let error = timeout(Duration::from_secs(10), waiting).await;
    let error = error.expect("it learns of it while the call hangs");
    let error = error.expect("no panic").expect_err("fenced");
    assert_eq!(error.code(), Code::ProducerFenced);
    later.stop().await.expect("stopped");
}

#[tokio::test(start_paused = true)]
async fn after_a_long_pause_nothing_is_sent_before_the_journal_is_asked() {
    let world = World::default();
    world.broker.is(Mood::Deaf);
    let producer = world.producer().await;
    let confirms = || world.journal.0.confirms.load(Ordering::Relaxed);
    let publishing = tokio::spawn(async move { producer.publish(messages(["a"])).await });
    sleep(Duration::from_secs(60)).await;
    let asked = confirms();
    assert!(
        (10..=20).contains(&asked),
        "asked {asked} times in a minute"
    );
    publishing.abort();
}

#[tokio::test(start_paused = true)]
async fn an_append_that_was_perhaps_made_before_the_fencing_is_not_told_as_not_applied() {
    let world = World::default();
    let earlier = world.producer().await;
    world.journal.0.lost_answers.store(1, Ordering::Relaxed);
    let waiting = tokio::spawn({
        let earlier = earlier.clone();
        async move { earlier.publish(messages(["a"])).await }
    });
    sleep(Duration::from_millis(5)).await;
    assert_eq!(world.unconfirmed().await, (1, 1), "the answer was lost");
    let later = world.producer().await;
    let error = waiting.await.expect("no panic").expect_err("fenced");
    let found = (error.code(), error.certainty());
    assert_eq!(found, (Code::ProducerFenced, Certainty::MaybeApplied));
    later.close().await.expect("closed");
    assert_eq!(world.broker.texts(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_appends_what_was_handed_over_and_sends_none_of_it() {
    let world = World::default();
    world.broker.is(Mood::Away);
    let producer = world.producer().await;
    let mut submitted = Vec::new();
    for part in 0..10 {
        let part = messages(part * 1_000..(part + 1) * 1_000);
        submitted.push(producer.submit(part, None).await.expect("handed over"));
    }
    world.broker.is(Mood::Well);
    let summary = producer.clone().stop().await.expect("stopped");
    assert_eq!((summary.published, summary.kept), (0, 10_000));
    assert_eq!(world.unconfirmed().await, (1, 10_000));
    for mut submission in submitted {
        let error = submission.confirmed().await.expect_err("it has ended");
        assert_eq!(error.certainty(), Certainty::MaybeApplied, "{error}");
    }
    let refused = producer.publish(messages(["late"])).await;
    let error = refused.expect_err("it has ended");
    assert_eq!(error.certainty(), Certainty::NotApplied, "{error}");
    world.producer().await.close().await.expect("closed");
    assert_eq!(world.broker.texts().len(), 10_000);
}

#[tokio::test(start_paused = true)]
async fn rows_whose_append_is_not_answered_are_not_told_as_taken() {
    let world = World::default();
    world.broker.is(Mood::Away);
    let producer = world.producer().await;
    let (sender, rows) = mpsc::channel(4);
    let (stop, stopped) = watch::channel(false);
    let feeding = tokio::spawn({
        let producer = producer.clone();
        async move {
            let mut feed = Feed::default();
            let is_whole = feed.hand_over(&producer, Some(rows), stopped).await;
            (feed, is_whole.expect("no failure"))
        }
    });
    let appends = || world.journal.0.appends.load(Ordering::Relaxed);
    // The second line of the input is blank.
    for (text, last, is_answered) in [("a", 2, true), ("b c", 4, false), ("d", 5, false)] {
        world
            .journal
            .0
            .is_dumb
            .store(!is_answered, Ordering::Relaxed);
        let sent = Rows {
            messages: messages(text.split(' ')),
            last,
            ..Rows::default()
        };
        sender.send(Ok(sent)).await.expect("a reader");
        while appends() < last.min(4) / 2 {
            sleep(Duration::from_millis(1)).await;
        }
        sleep(Duration::from_millis(10)).await;
    }
    stop.send_replace(true);
    let (feed, is_whole) = feeding.await.expect("no panic");
    assert!(!is_whole);
    let summary = producer.stop().await.expect("stopped");
    assert_eq!(summary.kept, 1);
    let unsure = UnsureRows {
        last: 4,
        next_without: 2,
        next_with: 4,
    };
    let taken = TakenRows {
        sure: 2,
        unsure: Some(unsure),
    };
    assert_eq!(feed.taken().await, taken);
    assert_eq!(
        world.unconfirmed().await,
        (1, 3),
        "they are there this time"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_records_what_was_confirmed_though_a_call_hangs() {
    let world = World::default();
    let producer = world.producer().await;
    let publishing = tokio::spawn({
        let producer = producer.clone();
        async move {
            let some = producer.publish(messages(0..1_500)).await;
            (some, producer.publish(messages(0..1_500)).await)
        }
    });
    while world.broker.messages().len() < 1_500 {
        sleep(Duration::from_micros(100)).await;
    }
    world.broker.is(Mood::Deaf);
    sleep(Duration::from_millis(20)).await;
    producer.stop().await.expect("stopped");
    let (first, last) = world.unconfirmed().await;
    assert!(first > 1_500, "{first} to {last}");
    publishing.abort();
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_went_back_ends_the_producer() {
    let world = World::default();
    let producer = world.producer().await;
    producer.publish(messages(["a"])).await.expect("published");
    // Restored: the epoch is the same, and the sequence is an earlier one.
    world.journal.0.gone_back.store(5, Ordering::Relaxed);
    let error = timeout(SOON, producer.publish(messages(["b"]))).await;
    let error = error.expect("an end").expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_missing_in_the_journal_is_damage() {
    let world = World::default();
    world.broker.is(Mood::Deaf);
    let producer = world.producer().await;
    for text in ["a", "b", "c"] {
        let handed_over = producer.submit(messages([text]), None).await;
        drop(handed_over.expect("handed over"));
        sleep(Duration::from_millis(5)).await;
    }
    drop(producer);
    world.broker.is(Mood::Well);
    world.journal.0.hidden.store(2, Ordering::Relaxed);
    let error = world.producer().await.close().await.expect_err("damage");
    assert_eq!(error.code(), Code::RecordCorrupt, "{error}");
    assert_eq!(world.broker.texts(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_the_journal_refuses_is_told_to_its_caller_alone() {
    let world = World::default();
    world.journal.0.most_bytes.store(100, Ordering::Relaxed);
    let producer = world.producer().await;
    // They wait together, so that most are one batch at first.
    let texts = ["a".into(), "x".repeat(200), "b".into(), "c".into()];
    let callers = texts.map(|text| {
        let producer = producer.clone();
        tokio::spawn(async move { producer.publish(messages([text])).await })
    });
    let mut answers = Vec::new();
    for caller in callers {
        answers.push(caller.await.expect("no panic"));
    }
    let error = answers.remove(1).expect_err("too large");
    let found = (error.kind(), error.certainty());
    assert_eq!(found, (ErrorKind::InvalidInput, Certainty::NotApplied));
    for (receipts, sequence) in answers.into_iter().zip(1..) {
        let receipts = receipts.expect("published");
        assert_eq!(fates(&receipts), [Fate::Published]);
        assert_eq!(receipts[0].sequence, sequence);
    }
    // Of what one caller hands over at once, nothing overtakes it either.
    world.journal.0.most_bytes.store(20_000, Ordering::Relaxed);
    let mut long = messages(["x".repeat(20_000)]);
    long.extend(messages(0..2_000));
    let error = producer.publish(long).await.expect_err("too large");
    let found = (error.kind(), error.certainty());
    assert_eq!(found, (ErrorKind::InvalidInput, Certainty::NotApplied));
    let after = producer.publish(messages(["d"])).await.expect("published");
    assert_eq!(after[0].sequence, 4, "no sequence is left out");
    assert_eq!(world.broker.texts(), ["a", "b", "c", "d"]);
    producer.close().await.expect("closed");
}

#[tokio::test(start_paused = true)]
async fn nothing_that_is_submitted_overtakes_what_the_journal_refuses() {
    let world = World::default();
    world.journal.0.most_bytes.store(100, Ordering::Relaxed);
    let producer = world.producer().await;
    let large = "x".repeat(200);
    let mut submissions = Vec::new();
    for (text, rows) in ["a", &large, "b"].into_iter().zip(1..) {
        let mark = InputMark {
            digest: [7; 32],
            rows,
            bytes: rows,
            is_whole: false,
        };
        let submitted = producer.submit(messages([text]), Some(mark)).await;
        submissions.push(submitted.expect("taken"));
    }
    let mut answers = Vec::new();
    for submission in &mut submissions {
        answers.push(submission.confirmed().await);
    }
    for answer in &answers[1..] {
        let error = answer.as_ref().expect_err("refused");
        let found = (error.kind(), error.certainty());
        assert_eq!(found, (ErrorKind::InvalidInput, Certainty::NotApplied));
    }
    let error = producer.close().await.expect_err("ended");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(world.unconfirmed().await.1, 1, "the row alone is there");
}

/// A receipt says where the broker has the message; a message that the broker has twice is counted, and so is one whose
/// call broke.
#[tokio::test(start_paused = true)]
async fn receipts_have_places_and_repeats_are_counted() {
    let world = World::default();
    let producer = world.producer().await;
    let receipts = producer.publish(messages(["a", "b"])).await;
    let places = |receipts: Vec<Receipt>| {
        let placements = receipts.into_iter().map(|it| it.placement);
        placements
            .map(|it| (it.offset, it.is_duplicate))
            .collect::<Vec<_>>()
    };
    let there = [(Some(0), false), (Some(1), false)];
    assert_eq!(places(receipts.expect("published")), there);
    // The broker takes it, and the process dies before it hears of that.
    world.broker.is(Mood::Dumb);
    let lost = producer.submit(messages(["c"]), None).await;
    let _waits = lost.expect("handed over");
    while world.broker.texts().len() < 3 {
        sleep(Duration::from_millis(5)).await;
    }
    drop(producer);
    world.broker.is(Mood::Away);
    let producer = world.producer().await;
    // `c` goes out alone, and three calls break: it is sent again once they have, and counts once.
    while world.broker.contents().calls < 6 {
        sleep(Duration::from_millis(5)).await;
    }
    let later = producer.submit(messages(["d"]), None).await;
    let mut later = later.expect("handed over");
    world.broker.is(Mood::Well);
    let receipts = later.confirmed().await.expect("published");
    assert_eq!(places(receipts), [(Some(4), false)]);
    assert!(world.told.has("Duplicates { count: 1 }"));
    let summary = producer.close().await.expect("closed");
    assert_eq!((summary.published, summary.duplicates), (2, 1));
    assert_eq!(summary.resent, 1, "each once: {summary:?}");
}
