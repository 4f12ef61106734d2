//! Confirmed messages are in the stream, and the errors of the others are honest.

use std::time::Duration;

use async_nats::jetstream::stream::{DiscardPolicy, Stream};
use bytes::Bytes;
use semel_broker_nats::{NatsSink, SinkOptions};
use semel_core::port::sink::{Placement, Publication, Sink};
use semel_core::{Certainty, Code, ErrorKind, Result};
use tokio::time::Instant;

use crate::in_front_of;
use crate::own::Own;
use crate::test_stream::TestStream;

fn sink(url: &str, test_stream: &TestStream) -> NatsSink {
    NatsSink::new(SinkOptions::new(url, &test_stream.name)).expect("good options")
}

fn publication(id: u32) -> Publication {
    Publication {
        id: id.to_string().into(),
        order: None,
        payload: Bytes::from(id.to_string()),
        headers: Vec::new(),
    }
}

fn publications(range: std::ops::Range<u32>) -> Vec<Publication> {
    range.map(publication).collect()
}

async fn count(stream: &Stream) -> u64 {
    stream.get_info().await.expect("there").state.messages
}

fn errors(answers: &[Result<()>]) -> Vec<(usize, ErrorKind, Certainty)> {
    let errors = answers
        .iter()
        .enumerate()
        .filter_map(|(at, answer)| Some((at, answer.as_ref().err()?)));
    errors
        .map(|(at, error)| (at, error.kind(), error.certainty()))
        .collect()
}

#[tokio::test]
async fn what_is_confirmed_is_there_whole_and_in_order() {
    let test_stream = TestStream::open().await;
    let sink = sink(&test_stream.url, &test_stream);
    sink.connect().await.expect("there is a stream");
    let mut batch = publications(0..3_000);
    batch[1].payload = Bytes::from((0..=255).collect::<Vec<u8>>());
    batch[1].headers = vec![
        ("Event-Id".into(), "e".into()),
        ("Nats-Rollup".into(), "all".into()),
        ("nats-msg-id".into(), "0".into()),
    ];
    assert_eq!(errors(&sink.publish(&batch).await), []);
    let stream = test_stream.stream().await;
    assert_eq!(count(&stream).await, 3_000);
    for at in [0, 1, 2_999] {
        let stored = stream.get_raw_message(at as u64 + 1).await.expect("there");
        assert_eq!(stored.payload, batch[at].payload);
        let id = stored.headers.get("Nats-Msg-Id").expect("an id");
        assert_eq!(id.as_str(), &*batch[at].id);
        assert_eq!(stored.headers.get("Event-Id").is_some(), at == 1);
        assert_eq!(
            stored.headers.get("Nats-Rollup"),
            None,
            "a command to the server"
        );
    }
}

#[tokio::test]
async fn a_second_publication_of_the_same_id_is_dropped() {
    let test_stream = TestStream::open().await;
    let sink = sink(&test_stream.url, &test_stream);
    for _ in 0..2 {
        assert_eq!(errors(&sink.publish(&publications(0..10)).await), []);
    }
    assert_eq!(count(&test_stream.stream().await).await, 10);
}

#[tokio::test]
async fn a_subject_that_no_stream_takes_in_is_named() {
    let test_stream = TestStream::open().await;
    let sink =
        NatsSink::new(SinkOptions::new(&test_stream.url, "no.such.place")).expect("good options");
    let answers = sink.publish(&publications(0..2)).await;
    for answer in &answers {
        let error = answer.as_ref().expect_err("nobody takes it in");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
        assert!(error.to_string().contains("no.such.place"), "{error}");
    }
    assert_eq!(answers.len(), 2);
    let error = sink.connect().await.expect_err("nobody takes it in");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

#[tokio::test]
async fn a_message_that_is_too_large_fails_alone() {
    let test_stream = TestStream::open().await;
    let sink = sink(&test_stream.url, &test_stream);
    let mut batch = publications(0..3);
    batch[1].payload = Bytes::from(vec![0; 2 << 20]);
    let refused = [(1, ErrorKind::InvalidInput, Certainty::NotApplied)];
    assert_eq!(errors(&sink.publish(&batch).await), refused);
    // A limit of the stream, which the server alone knows.
    test_stream
        .make(|config| config.max_message_size = 1_000)
        .await;
    batch[1].payload = Bytes::from(vec![0; 2_000]);
    assert_eq!(errors(&sink.publish(&batch).await), refused);
    assert_eq!(count(&test_stream.stream().await).await, 2);
}

#[tokio::test]
async fn a_full_stream_is_told_as_not_published() {
    let test_stream = TestStream::open().await;
    test_stream
        .make(|config| {
            config.max_messages = 2;
            config.discard = DiscardPolicy::New;
        })
        .await;
    let answers = sink(&test_stream.url, &test_stream)
        .publish(&publications(0..3))
        .await;
    assert_eq!(
        errors(&answers),
        [(2, ErrorKind::Unavailable, Certainty::NotApplied)]
    );
}

#[tokio::test]
async fn a_lost_confirmation_is_told_as_one() {
    let test_stream = TestStream::open().await;
    let (proxy, url) = in_front_of(&test_stream.url);
    let sink = sink(&url, &test_stream);
    sink.connect().await.expect("connected");
    proxy.cut_before_answer(1);
    let answers = sink.publish(&publications(0..5)).await;
    let found = errors(&answers);
    assert!(!found.is_empty(), "an answer was cut");
    for (_, kind, certainty) in found {
        assert_eq!(
            (kind, certainty),
            (ErrorKind::Unavailable, Certainty::MaybeApplied)
        );
    }
    // The same once more: the server knows those that it has.
    assert_eq!(errors(&sink.publish(&publications(0..5)).await), []);
    assert_eq!(count(&test_stream.stream().await).await, 5);
}

#[tokio::test]
async fn a_server_that_falls_silent_is_not_waited_for_longer_than_the_timeout() {
    let test_stream = TestStream::open().await;
    let (proxy, url) = in_front_of(&test_stream.url);
    let mut options = SinkOptions::new(url, &test_stream.name);
    options.timeout = Duration::from_secs(2);
    let sink = NatsSink::new(options).expect("good options");
    sink.connect().await.expect("connected");
    proxy.hold_answers();
    let begun = Instant::now();
    let answers = sink.publish(&publications(0..3)).await;
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    let lost = |at| (at, ErrorKind::Timeout, Certainty::MaybeApplied);
    assert_eq!(errors(&answers), [lost(0), lost(1), lost(2)]);
}

#[tokio::test]
async fn a_server_that_is_not_there_got_nothing() {
    let mut own = Own::start().await;
    let test_stream = TestStream::at(&own.url()).await;
    let sink = sink(&own.url(), &test_stream);
    assert_eq!(errors(&sink.publish(&publications(0..1)).await), []);
    own.kill();
    // The first may still go to a connection that is not yet seen to be broken.
    let _ = sink.publish(&publications(1..2)).await;
    let answers = sink.publish(&publications(1..3)).await;
    let gone = |at| (at, ErrorKind::Unavailable, Certainty::NotApplied);
    assert_eq!(errors(&answers), [gone(0), gone(1)]);
    assert_eq!(
        answers[0].as_ref().expect_err("gone").code(),
        Code::TargetUnavailable
    );
    own.restart().await;
    assert_eq!(errors(&sink.publish(&publications(1..3)).await), []);
    assert_eq!(count(&test_stream.stream().await).await, 3);
}

#[tokio::test]
async fn the_stream_says_how_long_it_drops_repeats() {
    let test_stream = TestStream::open().await;
    let window = sink(&test_stream.url, &test_stream)
        .duplicate_window()
        .await;
    let config = test_stream.stream().await.cached_info().config.clone();
    assert_eq!(window.expect("a window"), config.duplicate_window);
    assert!(!config.duplicate_window.is_zero());
    let nobody = SinkOptions::new(&test_stream.url, "nobody-takes-this-in");
    let nobody = NatsSink::new(nobody).expect("good options");
    let error = nobody.duplicate_window().await.expect_err("no stream");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

/// Places are told to a caller that asks for them: the sequence of each message, and whether the stream had it.
#[tokio::test]
async fn places_are_those_in_the_stream_and_a_message_that_is_there_is_known() {
    let test_stream = TestStream::open().await;
    let sink = sink(&test_stream.url, &test_stream);
    let placed = |offset, is_duplicate| Placement {
        partition: None,
        offset: Some(offset),
        is_duplicate,
    };
    let place = async |batch: &[Publication]| {
        let answers = sink.place(batch).await.into_iter();
        answers.map(|it| it.expect("confirmed")).collect::<Vec<_>>()
    };
    let [one, two, three] = [1, 2, 3].map(|at| placed(at, false));
    assert_eq!(place(&publications(0..3)).await, [one, two, three]);
    // The middle one is new.
    let batch = [publication(2), publication(7), publication(0)];
    let again = [placed(3, true), placed(4, false), placed(1, true)];
    assert_eq!(place(&batch).await, again);
    assert_eq!(count(&test_stream.stream().await).await, 4);
}
