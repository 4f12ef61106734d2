//! Brokers that do more than deliver: they are away for a while, and take deliveries away.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::port::source::{Acknowledgement, Delivery, DeliveryId, Fetched, Progress, Source};
use semel_core::{Claimant, Error, ErrorKind, Result};
use semel_engine::effect::OnDoubt;
use semel_engine::event::{Event, Observer};
use semel_engine::handler::Builder;
use semel_engine::once::Settings;
use semel_engine::summary::{Fate, Summary};
use semel_engine::surroundings::Surroundings;
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_store_memory::MemoryStore;
use tokio::sync::Notify;

/// The calls of a source and the events of the engine, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().expect("no panic").push(what.into());
    }

    fn count(&self, what: &str) -> usize {
        let log = self.0.lock().expect("no panic");
        log.iter().filter(|it| *it == what).count()
    }
}

impl Observer for Log {
    fn observe(&self, _pipeline: &str, event: &Event<'_>) {
        match event {
            Event::SourceAway { error } => self.note(format!("away: {error}")),
            Event::SourceBack { .. } => self.note("back"),
            Event::Revoked {
                deliveries,
                given_back,
            } => self.note(format!("revoked {deliveries}, given back {given_back}")),
            _ => {}
        }
    }
}

/// Gives its answers one after the other; waits before those that say so.
struct Script {
    answers: VecDeque<Answer>,
    log: Log,
}

enum Answer {
    Now(Result<Fetched>),
    /// Once this is notified.
    When(Arc<Notify>, Fetched),
}

impl Source for Script {
    async fn fetch(&mut self, _max: usize) -> Result<Fetched> {
        if let Some(Answer::When(told, _)) = self.answers.front() {
            Arc::clone(told).notified().await;
        }
        match self.answers.pop_front() {
            Some(Answer::Now(answer)) => answer,
            Some(Answer::When(_, answer)) => Ok(answer),
            None => Ok(Fetched::Ended),
        }
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        for told in batch {
            self.log.note(format!("acknowledged {}", told.delivery.0));
        }
        Ok(())
    }

    async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
        for id in batch {
            self.log.note(format!("requeued {}", id.0));
        }
        Ok(())
    }

    async fn extend(&mut self, _batch: &[DeliveryId]) -> Result<()> {
        Ok(())
    }

    async fn close(&mut self) -> Result<()> {
        self.log.note("closed");
        Ok(())
    }

    fn progress(&self) -> Option<Progress> {
        None
    }
}

fn deliveries(ids: impl IntoIterator<Item = u64>) -> Fetched {
    let delivery = |id: u64| {
        let payload = format!("key {}", id % 100);
        Delivery::new(DeliveryId(id), payload, format!("place {id}"))
    };
    Fetched::Deliveries(ids.into_iter().map(delivery).collect())
}

/// Runs the script with one call at a time; the first one waits until `may_end`.
async fn run(answers: Vec<Answer>, begun: &Arc<Notify>, may_end: &Arc<Notify>) -> (Summary, Log) {
    let log = Log::default();
    let surroundings = Surroundings {
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        claimant: Claimant::random(&SystemEntropy),
        observer: Arc::new(log.clone()),
    };
    let source = Script {
        answers: answers.into(),
        log: log.clone(),
    };
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
    let settings = Settings::default();
    let builder = Builder::new("script", source, store, surroundings, &settings)
        .unkeyed(OnDoubt::Repeat)
        .concurrency(1)
        .batch(10);
    let (begun, may_end) = (Arc::clone(begun), Arc::clone(may_end));
    let ran = log.clone();
    let summary = builder.run(move |message| {
        let (begun, may_end, ran) = (Arc::clone(&begun), Arc::clone(&may_end), ran.clone());
        async move {
            ran.note(format!("ran {}", message.coordinates()));
            if message.coordinates() == "place 0" {
                begun.notify_one();
                may_end.notified().await;
            }
            Ok(())
        }
    });
    let summary = tokio::time::timeout(Duration::from_secs(20), summary).await;
    (summary.expect("an end").expect("a summary"), log)
}

/// Lets the first call end once everything that happens beside it has happened.
fn end_later(may_end: &Arc<Notify>) {
    let may_end = Arc::clone(may_end);
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        may_end.notify_one();
    });
}

#[tokio::test]
async fn what_is_taken_away_and_has_not_begun_is_given_back_and_not_run() {
    let (begun, may_end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    // 0 runs; 1 to 5 are ready, 100 waits behind 0 for its key, and all but 3 and 4 go.
    let gone = [0, 1, 2, 5, 100].map(DeliveryId).to_vec();
    let answers = vec![
        Answer::Now(Ok(deliveries([0, 1, 2, 3, 4, 5, 100]))),
        Answer::When(Arc::clone(&begun), Fetched::Revoked(gone)),
        Answer::Now(Ok(deliveries([6]))),
    ];
    end_later(&may_end);
    let (summary, log) = run(answers, &begun, &may_end).await;
    for id in [1, 2, 5, 100] {
        assert_eq!(log.count(&format!("requeued {id}")), 1, "{:?}", log.0);
        assert_eq!(log.count(&format!("ran place {id}")), 0, "{:?}", log.0);
    }
    // The calls that had begun end, and so do the messages that stay.
    for id in [0, 3, 4, 6] {
        assert_eq!(log.count(&format!("acknowledged {id}")), 1, "{:?}", log.0);
    }
    assert_eq!(log.count("revoked 5, given back 4"), 1, "{:?}", log.0);
    assert_eq!(log.count("closed"), 1, "{:?}", log.0);
    let counts = (summary.of(Fate::Applied), summary.of(Fate::Released));
    assert_eq!(counts, (4, 4), "{summary:?}");
}

#[tokio::test]
async fn a_key_whose_first_message_is_taken_away_goes_on_with_the_next() {
    let (begun, may_end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    // 1 and 101 have one key, on two partitions.
    let answers = vec![
        Answer::Now(Ok(deliveries([0, 1, 101]))),
        Answer::When(Arc::clone(&begun), Fetched::Revoked(vec![DeliveryId(1)])),
    ];
    end_later(&may_end);
    let (summary, log) = run(answers, &begun, &may_end).await;
    assert_eq!(log.count("requeued 1"), 1, "{:?}", log.0);
    assert_eq!(log.count("ran place 1"), 0, "{:?}", log.0);
    assert_eq!(log.count("ran place 101"), 1, "{:?}", log.0);
    let counts = (summary.of(Fate::Applied), summary.of(Fate::Released));
    assert_eq!(counts, (2, 1), "{summary:?}");
}

#[tokio::test]
async fn a_broker_that_is_away_is_told_and_waited_for() {
    let (begun, may_end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    may_end.notify_one();
    let away = || Error::new(ErrorKind::Unavailable, "nobody answers").not_applied();
    let answers = vec![
        Answer::Now(Ok(Fetched::Away(away()))),
        Answer::Now(Ok(deliveries([0, 1]))),
        Answer::Now(Ok(Fetched::Away(away()))),
        Answer::Now(Ok(Fetched::Away(away()))),
        Answer::Now(Ok(Fetched::Back)),
        Answer::Now(Ok(Fetched::Back)),
        Answer::Now(Ok(deliveries([2]))),
    ];
    let (summary, log) = run(answers, &begun, &may_end).await;
    assert_eq!(summary.of(Fate::Applied), 3);
    // Back by a delivery, or by the source's own word; once each.
    assert_eq!(log.count("back"), 2, "{:?}", log.0);
    assert_eq!(log.count("away: nobody answers"), 3, "{:?}", log.0);
    assert_eq!(log.count("closed"), 1);
}
