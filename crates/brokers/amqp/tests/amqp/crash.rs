//! A server that is killed and comes back.

use std::collections::BTreeSet;
use std::time::Duration;

use semel_conformance::source::applied;
use semel_core::Certainty;
use semel_core::port::sink::Sink;
use semel_core::port::source::{Fetched, Source};
use tokio::time::timeout;

use crate::lab::{Queue, ids, numbers, publication, some, take};
use crate::server::Own;

#[tokio::test]
async fn a_killed_server_loses_nothing_and_the_source_goes_on_by_itself() {
    let mut own = Own::take().await;
    // Classic: a quorum queue of 3.10.8 that was killed alone finds no leader any more.
    let queue = Queue::make(own.url(), &[]).await;
    queue.put(0..20).await;
    written_down().await;
    // Reports before a close count, whatever happens then.
    let mut first = queue.source();
    let held = take(&mut first, 20).await;
    let done: Vec<_> = held
        .iter()
        .filter(|it| numbers(std::slice::from_ref(it)).iter().all(|n| n % 2 == 0))
        .collect();
    let done: Vec<_> = done.into_iter().map(|it| it.id).collect();
    first.acknowledge(&applied(&done)).await.expect("told");
    first.close().await.expect("an end");
    let mut source = queue.source();
    let held = take(&mut source, 10).await;
    let odd: BTreeSet<u32> = (0..20).filter(|n| n % 2 == 1).collect();
    assert_eq!(numbers(&held), odd);

    own.kill();
    assert!(matches!(source.fetch(10).await, Ok(Fetched::Revoked(revoked)) if revoked.len() == 10));
    assert!(matches!(source.fetch(10).await, Ok(Fetched::Away(_))));
    source
        .acknowledge(&applied(&ids(&held)))
        .await
        .expect("ignored");
    own.restart().await;

    // A classic queue syncs no acknowledgement: some of the others may be here again.
    let mut again = Vec::new();
    while !odd.is_subset(&numbers(&again)) {
        again.extend(some(&mut source, 20).await);
    }
    assert!(ids(&again).iter().all(|id| !ids(&held).contains(id)));
    source
        .acknowledge(&applied(&ids(&again)))
        .await
        .expect("told");
    source.close().await.expect("an end");
}

#[tokio::test]
async fn what_a_sink_has_confirmed_is_there_after_a_kill() {
    let mut own = Own::take().await;
    let queue = Queue::make(own.url(), &[]).await;
    written_down().await;
    let sink = queue.sink();
    let name = queue.name.clone();
    let publishing = tokio::spawn(async move {
        let mut confirmed = BTreeSet::new();
        let mut last = 0;
        for round in 0.. {
            let range = round * 50..(round + 1) * 50;
            let batch: Vec<_> = range
                .clone()
                .map(|n: u32| publication(&n.to_string()))
                .collect();
            let answers = sink.publish(&batch).await;
            last = range.end;
            for (n, answer) in range.zip(answers) {
                match answer {
                    Ok(()) => {
                        confirmed.insert(n);
                    }
                    Err(error) if error.certainty() == Certainty::MaybeApplied => {}
                    Err(error) => {
                        assert_eq!(error.certainty(), Certainty::NotApplied);
                        return (confirmed, last, sink);
                    }
                }
            }
        }
        (confirmed, last, sink)
    });
    tokio::time::sleep(Duration::from_millis(700)).await;
    own.kill();
    let (confirmed, last, sink) = timeout(Duration::from_secs(60), publishing)
        .await
        .expect("an end")
        .expect("a task");
    assert!(
        confirmed.len() > 50,
        "{} were confirmed of {last}",
        confirmed.len()
    );
    own.restart().await;
    // It goes on by itself.
    let mut tries = 0;
    while let Err(error) = sink.publish(&[publication("999999")]).await.remove(0) {
        tries += 1;
        assert!(tries < 20, "{error:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let options = semel_broker_amqp::Options::new(own.url(), &name);
    let mut source = semel_broker_amqp::AmqpSource::new(options).expect("options");
    let mut there = BTreeSet::new();
    while !there.contains(&999_999) {
        let got = some(&mut source, 100).await;
        there.extend(numbers(&got));
        source
            .acknowledge(&applied(&ids(&got)))
            .await
            .expect("told");
    }
    let missing: Vec<_> = confirmed.difference(&there).collect();
    assert!(missing.is_empty(), "confirmed and gone: {missing:?}");
    source.close().await.expect("an end");
}

/// Waits for the server to sync its list of queues, which it does a little late: one that is killed right after a
/// declaration was seen to know nothing of the queue any more.
async fn written_down() {
    tokio::time::sleep(Duration::from_secs(4)).await;
}
