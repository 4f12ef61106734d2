//! Answers of a sink, and the messages that are there afterwards.

use std::time::Duration;

use bytes::Bytes;
use lapin::ExchangeKind;
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use semel_broker_amqp::{AmqpSink, SinkOptions};
use semel_conformance::proxy::Proxy;
use semel_conformance::source::applied;
use semel_core::port::sink::{Publication, Sink};
use semel_core::port::source::Source;
use semel_core::{Advice, Certainty, Code, ErrorKind};
use tokio::time::{Instant, timeout};

use crate::lab::{Queue, address, by_way_of, header, ids, numbers, publication, some, take};
use crate::server::{MAX_MESSAGE_BYTES, Own};

fn batch(range: std::ops::Range<u32>) -> Vec<Publication> {
    range.map(|n| publication(&n.to_string())).collect()
}

#[tokio::test]
async fn what_is_confirmed_is_there_whole_and_in_order() {
    let queue = Queue::open().await;
    let sink = queue.sink();
    let mut sent = batch(0..200);
    sent[7].payload = Bytes::from(vec![b'1'; 400_000]);
    sent[7].headers = vec![
        ("n".into(), Bytes::from_static(&[0, 255])),
        ("amqp-type".into(), "t".into()),
    ];
    let begun = Instant::now();
    assert!(sink.publish(&sent).await.iter().all(Result::is_ok));
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "one after the other"
    );
    let mut source = queue.source();
    let mut got = Vec::new();
    while got.len() < 200 {
        got.extend(some(&mut source, 200).await);
    }
    for (sent, got) in sent.iter().zip(&got) {
        assert_eq!(sent.payload, got.payload);
        assert_eq!(header(got, "amqp-message-id"), Some(sent.id.as_bytes()));
        assert_eq!(*got.coordinates, format!("amqp:{}:{}", queue.name, sent.id));
    }
    assert_eq!(header(&got[7], "n"), Some(&[0, 255][..]));
    assert_eq!(header(&got[7], "amqp-type"), Some(&b"t"[..]));
}

#[tokio::test]
async fn batches_side_by_side_are_each_answered_though_one_is_given_up() {
    let queue = Queue::open().await;
    let sink = queue.sink();
    for round in 0..5_u32 {
        let of = |batch: u32| round * 1_000 + batch * 100;
        let batches = [0, 1, 2].map(|number| batch(of(number)..of(number) + 100));
        let given_up = batch(of(9)..of(9) + 100);
        let (one, two, three, late) = tokio::join!(
            sink.publish(&batches[0]),
            sink.publish(&batches[1]),
            sink.publish(&batches[2]),
            timeout(Duration::from_millis(1), sink.publish(&given_up)),
        );
        for answers in [one, two, three] {
            assert_eq!(answers.len(), 100);
            assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        }
        drop(late);
        let mut source = queue.source();
        let mut got = std::collections::BTreeSet::new();
        let sent: std::collections::BTreeSet<_> =
            batches.iter().flatten().map(|it| it.id.clone()).collect();
        while !sent.iter().all(|id| got.contains(&**id)) {
            let some = some(&mut source, 200).await;
            got.extend(some.iter().filter_map(|it| {
                let id = header(it, "amqp-message-id")?;
                Some(String::from_utf8_lossy(id).into_owned())
            }));
            let ids: Vec<_> = some.iter().map(|it| it.id).collect();
            source
                .acknowledge(&applied(&ids))
                .await
                .expect("the broker is there");
        }
        source.close().await.expect("the broker is there");
    }
}

#[tokio::test]
async fn a_message_that_no_queue_gets_is_no_success() {
    let queue = Queue::open().await;
    let sink =
        AmqpSink::new(SinkOptions::new(&queue.url, "", "semel-no-such-queue")).expect("options");
    for _ in 0..2 {
        for answer in sink.publish(&batch(0..20)).await {
            let error = answer.expect_err("nobody got it");
            assert_eq!(
                (error.kind(), error.code()),
                (ErrorKind::InvalidConfig, Code::TargetUnavailable)
            );
            assert!(error.to_string().contains("semel-no-such-queue"), "{error}");
        }
    }
    assert_eq!(queue.ready().await, 0);
}

/// The driver pairs returns and confirms by their order alone.
#[tokio::test]
async fn of_a_batch_those_fail_that_came_back_and_no_others() {
    let queue = Queue::open().await;
    let exchange = format!("{}-headers", queue.name);
    let transient = ExchangeDeclareOptions {
        auto_delete: true,
        ..ExchangeDeclareOptions::default()
    };
    let declared = queue.channel.exchange_declare(
        exchange.as_str().into(),
        ExchangeKind::Headers,
        transient,
        FieldTable::default(),
    );
    declared.await.expect("an exchange");
    let mut arguments = FieldTable::default();
    arguments.insert("to".into(), AMQPValue::LongString("us".into()));
    let name = queue.name.as_str();
    let bound = queue.channel.queue_bind(
        name.into(),
        exchange.as_str().into(),
        "".into(),
        QueueBindOptions::default(),
        arguments,
    );
    bound.await.expect("bound");
    let sink = AmqpSink::new(SinkOptions::new(&queue.url, &*exchange, "")).expect("options");
    for _ in 0..5 {
        let mut sent = batch(0..300);
        for (n, publication) in sent.iter_mut().enumerate() {
            let to = if n % 3 == 0 { "nobody" } else { "us" };
            publication.headers.push(("to".into(), to.into()));
        }
        for (n, answer) in sink.publish(&sent).await.into_iter().enumerate() {
            assert_eq!(answer.is_err(), n % 3 == 0, "{n}: {answer:?}");
        }
    }
    queue.until_ready(1_000).await;
    let deleted = queue
        .channel
        .queue_delete(name.into(), QueueDeleteOptions::default());
    deleted.await.expect("deleted");
}

#[tokio::test]
async fn a_confirm_that_is_lost_leaves_it_open_and_a_second_try_is_known_again() {
    let queue = Queue::open().await;
    let proxy = Proxy::start(address(&queue.url));
    let options = SinkOptions::new(by_way_of(&queue.url, proxy.address()), "", &queue.name);
    let sink = AmqpSink::connect(options).await.expect("up");
    proxy.cut_before_answer(1);
    let answers = sink.publish(&batch(0..3)).await;
    for (place, answer) in answers.iter().enumerate() {
        let error = answer.as_ref().expect_err("nobody answered");
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Unavailable, Code::TargetUnavailable)
        );
        // The first one was confirmed, and so is with the broker; the connection may have ended before the others
        // were sent.
        assert!(
            error.certainty() == Certainty::MaybeApplied || place > 0,
            "{error}"
        );
    }
    assert!(sink.publish(&batch(0..3)).await.iter().all(Result::is_ok));
    let mut source = queue.source();
    let mut got = Vec::new();
    let mut places = std::collections::BTreeSet::new();
    while got.len() < 4 || places.len() < 3 {
        got.extend(some(&mut source, 6).await);
        places.extend(got.iter().map(|it| it.coordinates.clone()));
    }
    assert_eq!(places.len(), 3, "one place each, both times");
    source
        .acknowledge(&applied(&ids(&got)))
        .await
        .expect("told");
    source.close().await.expect("an end");
}

#[tokio::test]
async fn what_was_never_sent_was_not_applied() {
    let queue = Queue::open().await;
    let proxy = Proxy::start(address(&queue.url));
    let options = SinkOptions::new(by_way_of(&queue.url, proxy.address()), "", &queue.name);
    let sink = AmqpSink::connect(options).await.expect("up");
    proxy.refuse(true);
    proxy.cut_now();
    proxy.until(|seen| seen.connections == 0).await;
    let gone = timeout(Duration::from_secs(10), async {
        loop {
            let error = sink
                .publish(&batch(0..1))
                .await
                .remove(0)
                .expect_err("nobody is there");
            if error.certainty() == Certainty::NotApplied {
                return error;
            }
        }
    });
    let error = gone.await.expect("in time");
    assert!(matches!(error.advice(), Advice::Retry { after } if !after.is_zero()));
    proxy.refuse(false);
    assert!(sink.publish(&batch(0..3)).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_broker_that_does_not_confirm_is_not_waited_for_forever() {
    let queue = Queue::open().await;
    let proxy = Proxy::start(address(&queue.url));
    let mut options = SinkOptions::new(by_way_of(&queue.url, proxy.address()), "", &queue.name);
    options.confirm_timeout = Duration::from_secs(1);
    let sink = AmqpSink::connect(options).await.expect("up");
    proxy.hold_answers();
    for answer in sink.publish(&batch(0..2)).await {
        let error = answer.expect_err("nobody answered");
        assert_eq!(
            (error.kind(), error.certainty()),
            (ErrorKind::Timeout, Certainty::MaybeApplied)
        );
    }
    proxy.heal();
    assert!(sink.publish(&batch(2..4)).await.iter().all(Result::is_ok));
    queue.until_ready(4).await;
}

#[tokio::test]
async fn a_batch_that_is_given_up_does_not_confirm_the_next_one() {
    let queue = Queue::open().await;
    let proxy = Proxy::start(address(&queue.url));
    let options = SinkOptions::new(
        by_way_of(&queue.url, proxy.address()),
        "",
        "semel-no-such-queue",
    );
    let sink = AmqpSink::connect(options).await.expect("up");
    proxy.hold_answers();
    let given_up = timeout(Duration::from_millis(300), sink.publish(&batch(0..3))).await;
    assert!(given_up.is_err());
    proxy.heal();
    for answer in sink.publish(&batch(3..4)).await {
        answer.expect_err("no queue has it");
    }
}

#[tokio::test]
async fn a_full_queue_refuses_and_says_when_to_try_again() {
    let more = [
        ("x-max-length", 3.into()),
        ("x-overflow", "reject-publish".into()),
    ];
    let queue = Queue::make(crate::lab::url(), &more).await;
    let answers = queue.sink().publish(&batch(0..20)).await;
    let refused: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
    assert!(
        (10..=17).contains(&refused.len()),
        "{} of 20",
        refused.len()
    );
    for error in refused {
        assert_eq!(
            (error.kind(), error.certainty()),
            (ErrorKind::Unavailable, Certainty::NotApplied)
        );
        assert!(matches!(error.advice(), Advice::Retry { .. }));
    }
}

#[tokio::test]
async fn a_message_that_is_too_long_fails_alone() {
    let mut own = Own::take().await;
    let queue = Queue::make(own.url(), &[]).await;
    let sink = queue.sink();
    let mut sent = batch(0..3);
    sent[1].payload = Bytes::from(vec![b'1'; MAX_MESSAGE_BYTES + 1]);
    let answers = sink.publish(&sent).await;
    let error = answers[1].as_ref().expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
    for answer in [&answers[0], &answers[2]] {
        if let Err(error) = answer {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        }
    }
    sent.remove(1);
    assert!(sink.publish(&sent).await.iter().all(Result::is_ok));
    let mut source = queue.source();
    assert_eq!(numbers(&take(&mut source, 2).await), [0, 2].into());
}

#[tokio::test]
async fn a_look_finds_what_is_missing_and_publishes_nothing() {
    let queue = Queue::open().await;
    let inspect =
        |exchange: &str, key: &str| AmqpSink::inspect(SinkOptions::new(&queue.url, exchange, key));
    inspect("", &queue.name).await.expect("the queue");
    inspect("amq.direct", "any").await.expect("the exchange");
    for (exchange, key) in [
        ("", "semel-no-such-queue"),
        ("semel-no-such-exchange", "any"),
    ] {
        let error = inspect(exchange, key).await.expect_err("not there");
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::InvalidConfig, Code::TargetUnavailable)
        );
        assert!(error.to_string().contains("semel-no-such"), "{error}");
    }
    assert_eq!(queue.ready().await, 0);
}
