//! A user who may not use the name of its transactions.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_broker_kafka::{KafkaSource, KafkaStream, StreamOptions};
use semel_conformance::TestClock;
use semel_core::partition::Entry;
use semel_core::port::source::{Delivery, Source};
use semel_core::port::streamed::{
    AtOnce, Claimed, Committed, Finished, Outgoing, Standing, StreamedStore,
};
use semel_core::{ClaimId, ClaimRequest, Code, ErrorKind, Key, Result, Scope, Window};
use tokio::time::Instant;

use crate::cluster::{Topic, take};
use crate::own::{Own, PASSWORD};
use crate::rights::login;

const WINDOW: Duration = Duration::from_secs(7 * 86_400);

fn request(delivery: &Delivery) -> ClaimRequest {
    let text = std::str::from_utf8(&delivery.payload).expect("text");
    let scope = Scope::new("", "copy").expect("a scope");
    let key = Key::parse(text).expect("a key");
    let mut request = ClaimRequest::new(scope, key, ClaimId::from_u128(1));
    request.window = Window::new(WINDOW);
    request.transport = Some(Bytes::copy_from_slice(delivery.coordinates.as_bytes()));
    request
}

fn claimed<'a>((delivery, request): (&Delivery, &'a ClaimRequest)) -> Claimed<'a> {
    Claimed {
        delivery: delivery.id,
        id: request.operation.id(),
        request,
    }
}

async fn commit(
    stream: &KafkaStream,
    deliveries: &[Delivery],
    requests: &[ClaimRequest],
) -> Result<Vec<Committed>> {
    let all = deliveries.iter().zip(requests);
    let batch: Vec<_> = all
        .map(|(delivery, request)| Finished {
            delivery: delivery.id,
            key: request.operation.key.clone(),
            id: request.operation.id(),
            entry: Entry::of(request.operation.id(), request),
            output: Some(Outgoing {
                payload: delivery.payload.clone(),
                headers: Vec::new(),
            }),
        })
        .collect();
    stream.commit(&Arc::new(batch), AtOnce).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_lacks_a_right_is_made_as_soon_as_it_is_granted() {
    let own = Own::get().await;
    let input = Topic::on(&own.open(), 1, &[]).await;
    let output = Topic::on(&own.open(), 1, &[]).await;
    let changelog = format!("{}-changelog", input.name);
    let name = format!("{}-writer", input.name);
    let topics = [
        "--topic",
        &input.name,
        "--topic",
        &output.name,
        "--topic",
        &changelog,
    ];
    let all = [&["--operation", "All", "--group", &input.name][..], &topics].concat();
    own.rights("--add", &all).await;
    input.number(0..3, 1).await;

    let mut options = input.options();
    options.brokers = own.guarded().into();
    options.properties.extend(login(PASSWORD));
    let mut to = StreamOptions::new(&output.name, &changelog, &name, Window::new(WINDOW));
    to.is_copartitioned = true;
    to.properties = login(PASSWORD);
    let clock = Arc::new(TestClock::new());
    let (mut source, stream) = KafkaSource::streamed(options, to, clock).expect("a member");
    let got = take(&mut source, 3).await;
    let requests: Vec<_> = got.iter().map(request).collect();
    let asked: Vec<_> = got.iter().zip(&requests).map(claimed).collect();
    for standing in stream.admit(&asked).await.expect("standings") {
        assert!(matches!(standing, Standing::Free(_)), "{standing:?}");
    }

    for _ in 0..2 {
        let begun = Instant::now();
        let error = commit(&stream, &got, &requests).await.expect_err("refused");
        assert!(begun.elapsed() < Duration::from_secs(30), "{error:?}");
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Unavailable, Code::TargetUnavailable),
            "{error:?}"
        );
        assert!(
            error.to_string().contains("on the transactional id"),
            "{error:?}"
        );
        assert!(!format!("{error:?}").contains("geheim"), "{error:?}");
    }
    assert!(output.all(0).is_empty());
    assert_eq!(input.committed(1), [0]);

    let right = ["--operation", "All", "--transactional-id"];
    own.rights("--add", &[&right[..], &[&name]].concat()).await;
    let begun = Instant::now();
    loop {
        match commit(&stream, &got[..1], &requests[..1]).await {
            Ok(done) => break assert_done(&done),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it is granted");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(output.all(1), ["0"]);

    let alternate = format!("{name}.alternate");
    let hindrance = stream.hindrance().expect("that name is not granted");
    assert!(hindrance.to_string().contains(&alternate), "{hindrance:?}");
    assert!(
        !format!("{hindrance:?}").contains("geheim"),
        "{hindrance:?}"
    );
    own.rights("--add", &[&right[..], &[&alternate]].concat())
        .await;
    let begun = Instant::now();
    while stream.hindrance().is_some() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is granted");
        let (one, other) = tokio::join!(
            commit(&stream, &got[1..2], &requests[1..2]),
            commit(&stream, &got[2..], &requests[2..]),
        );
        assert_done(&one.expect("answers"));
        assert_done(&other.expect("answers"));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let mut all = output.all(3);
    all.sort_unstable();
    assert_eq!(all, ["0", "1", "2"]);
    assert_eq!(input.committed(1), [3]);
    source.close().await.expect("an end");
}

fn assert_done(answers: &[Committed]) {
    assert!(
        answers.iter().all(|it| matches!(it, Committed::Done)),
        "{answers:?}"
    );
}
