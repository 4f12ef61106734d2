use std::sync::{Mutex, PoisonError};

use semel_conformance::TestClock;
use semel_core::port::ingest::IngestJournal;
use semel_core::producer::ProducerOrder;
use semel_core::select::Selector;
use semel_core::{ByteString, Code, Fate, Timestamp};
use semel_store_memory::MemoryIngest;

use super::*;

/// A broker: it hands over what is sent to it, and what it is told is on record.
#[derive(Clone, Default)]
struct Broker(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    sent: Vec<Delivery>,
    next_id: u64,
    acknowledged: Vec<String>,
    requeued: usize,
    extended: Vec<DeliveryId>,
    hold: Option<Duration>,
    ends: bool,
    /// The messages that are handed over before one of them is settled, if that is bounded.
    most_out: Option<usize>,
    revoked: Vec<DeliveryId>,
}

impl Broker {
    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message of `producer`; what is not a number is no identity.
    fn send(&self, producer: &str, epoch: u64, sequence: u64) {
        let mut book = self.book();
        let coordinates = format!("t:{producer}-{epoch}-{sequence}");
        let mut delivery = Delivery::new(DeliveryId(book.next_id), "{}", coordinates);
        for (name, value) in [
            ("semel-producer", producer.to_owned()),
            ("semel-epoch", epoch.to_string()),
            ("semel-sequence", sequence.to_string()),
        ] {
            if value != "-" && value != "0" {
                delivery
                    .headers
                    .push((ByteString::from_static(name), value.into()));
            }
        }
        delivery.appended_at = Some(Timestamp::from_millis(7));
        book.next_id += 1;
        book.sent.push(delivery);
    }

    fn acknowledged(&self) -> Vec<String> {
        self.book().acknowledged.clone()
    }
}

struct Session {
    broker: Broker,
    out: BTreeMap<DeliveryId, Delivery>,
}

impl Source for Session {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        loop {
            {
                let mut book = self.broker.book();
                let room = book
                    .most_out
                    .map_or(max, |most| most.saturating_sub(self.out.len()));
                let count = max.min(book.sent.len()).min(room);
                let revoked = std::mem::take(&mut book.revoked);
                if !revoked.is_empty() {
                    return Ok(Fetched::Revoked(revoked));
                }
                let sent: Vec<_> = book.sent.drain(..count).collect();
                for delivery in &sent {
                    self.out.insert(delivery.id, delivery.clone());
                }
                if !sent.is_empty() {
                    return Ok(Fetched::Deliveries(sent));
                }
                if book.ends {
                    return Ok(Fetched::Ended);
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        let told = batch.iter().filter_map(|it| self.out.remove(&it.delivery));
        let places: Vec<_> = told.map(|it| it.coordinates.to_string()).collect();
        self.broker.book().acknowledged.extend(places);
        Ok(())
    }

    async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
        let back = batch.iter().filter_map(|id| self.out.remove(id));
        self.broker.book().requeued += back.count();
        Ok(())
    }

    async fn extend(&mut self, batch: &[DeliveryId]) -> Result<()> {
        self.broker.book().extended.extend(batch);
        Ok(())
    }

    async fn prefetch_more(&mut self, unsettled: usize) -> Result<()> {
        let mut book = self.broker.book();
        let Some(most) = book.most_out.filter(|most| unsettled >= *most) else {
            return Ok(());
        };
        book.most_out = Some(most * 2);
        for (id, mut delivery) in std::mem::take(&mut self.out) {
            book.revoked.push(id);
            delivery.id = DeliveryId(book.next_id);
            book.next_id += 1;
            book.sent.push(delivery);
        }
        Ok(())
    }

    fn progress(&self) -> Option<Progress> {
        None
    }

    fn hold(&self) -> Option<Duration> {
        self.broker.book().hold
    }
}

fn options() -> GateOptions {
    let header = |name: &str| Selector::Header(name.into());
    GateOptions {
        producer: header("semel-producer"),
        epoch: header("semel-epoch"),
        sequence: header("semel-sequence"),
        is_required: false,
        is_any_first: false,
        is_shared: false,
        stops_at_gap: false,
        hold: Duration::from_secs(3_600),
        most_held: None,
    }
}

async fn gated(broker: &Broker, options: GateOptions, journal: &AnyIngestJournal) -> GatedSource {
    let session = Session {
        broker: broker.clone(),
        out: BTreeMap::new(),
    };
    let clock = Arc::new(TestClock::new());
    let inner = AnySource::new(session);
    let opened = GatedSource::new(inner, options, "orders", journal.clone(), clock);
    opened.await.expect("a source")
}

fn journal() -> AnyIngestJournal {
    AnyIngestJournal::new(MemoryIngest::default())
}

/// The place of a message that was handed over, and the judgement on it.
fn shown(delivery: &Delivery) -> (String, &'static str) {
    let judgement = match &delivery.judgement {
        None => "runs",
        Some(Judgement::Known) => "known",
        Some(Judgement::Refused(unusable)) => unusable.code(),
    };
    (delivery.coordinates.to_string(), judgement)
}

/// Fetches so many deliveries, and settles them.
async fn take(source: &mut GatedSource, count: usize) -> Vec<(String, &'static str)> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let fetched = tokio::time::timeout(Duration::from_secs(60), source.fetch(10)).await;
        match fetched.expect("in time").expect("deliveries") {
            Fetched::Deliveries(deliveries) => {
                taken.extend(deliveries.iter().map(shown));
                let done = deliveries.iter();
                let done = done.map(|it| Acknowledgement::new(it.id, Fate::Applied));
                let done: Vec<_> = done.collect();
                source.acknowledge(&done).await.expect("told");
            }
            other => panic!("{other:?}"),
        }
    }
    taken
}

/// Lets the source work until this holds; it has nothing to hand over.
async fn until_true(source: &mut GatedSource, holds: impl Fn() -> bool) {
    while !holds() {
        let pause = Duration::from_millis(5);
        if let Ok(fetched) = tokio::time::timeout(pause, source.fetch(10)).await {
            panic!("{fetched:?}");
        }
    }
}

fn of(place: &str, judgement: &'static str) -> (String, &'static str) {
    (format!("t:{place}"), judgement)
}

#[tokio::test]
async fn each_message_is_judged_by_its_numbers() {
    let (broker, journal) = (Broker::default(), journal());
    let hold = Duration::ZERO;
    let mut source = gated(&broker, GateOptions { hold, ..options() }, &journal).await;
    for (sent, judgement) in [
        (("till", 1, 1), "runs"),
        (("till", 1, 2), "runs"),
        (("till", 1, 1), "known"),
        (("till", 1, 4), "sequence-gap"),
        (("till", 2, 3), "runs"),
        (("till", 1, 4), "producer-fenced"),
        // A broker repeats what an earlier opening sent.
        (("till", 1, 2), "known"),
        (("other", 1, 2), "producer-unknown"),
        (("-", 0, 0), "runs"),
        (("-", 1, 1), "producer-missing"),
        (("till", 0, 4), "producer-missing"),
        (("till", 2, 0), "producer-missing"),
        (("ti ll", 2, 4), "producer-missing"),
    ] {
        let (producer, epoch, sequence) = sent;
        broker.send(producer, epoch, sequence);
        let place = format!("{producer}-{epoch}-{sequence}");
        assert_eq!(
            take(&mut source, 1).await,
            [of(&place, judgement)],
            "{sent:?}"
        );
    }
    source.close().await.expect("closed");
    assert_eq!(broker.acknowledged().len(), 13, "each is acknowledged once");
}

#[tokio::test]
async fn what_is_required_or_allowed_is_said_by_the_settings() {
    let (broker, journal) = (Broker::default(), journal());
    let strict = GateOptions {
        is_required: true,
        is_any_first: true,
        ..options()
    };
    let mut source = gated(&broker, strict, &journal).await;
    broker.send("-", 0, 0);
    assert_eq!(
        take(&mut source, 1).await,
        [of("--0-0", "producer-missing")]
    );
    broker.send("till", 3, 70);
    assert_eq!(take(&mut source, 1).await, [of("till-3-70", "runs")]);
}

#[tokio::test]
async fn a_worker_that_is_killed_behind_the_store_leaves_a_message_that_runs_once() {
    let (broker, journal) = (Broker::default(), journal());
    let mut source = gated(&broker, options(), &journal).await;
    broker.send("till", 1, 1);
    // Killed with the message in the store and acknowledged, before its effect.
    let acknowledged = || !broker.acknowledged().is_empty();
    let fetched = source.fetch(10).await.expect("a delivery");
    assert!(matches!(fetched, Fetched::Deliveries(_)));
    drop(source);
    let mut source = gated(&broker, options(), &journal).await;
    if !acknowledged() {
        broker.send("till", 1, 1);
    }
    broker.send("till", 1, 1);
    let mut taken = take(&mut source, 2).await;
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken, [of("till-1-1", "known"), of("till-1-1", "runs")]);
    source.close().await.expect("closed");
    let mut source = gated(&broker, options(), &journal).await;
    broker.send("till", 1, 1);
    assert_eq!(take(&mut source, 1).await, [of("till-1-1", "known")]);
}

#[tokio::test]
async fn nothing_is_acknowledged_before_it_is_in_the_store() {
    let (broker, journal) = (Broker::default(), journal());
    let mut source = gated(&broker, options(), &journal).await;
    broker.send("till", 1, 1);
    until_true_or_handed(&mut source, || !broker.acknowledged().is_empty()).await;
    let name: ProducerName = "till".parse().expect("a name");
    let kept = journal.accepted(&name, "orders", 0, 10).await;
    let kept = kept.expect("an answer").expect("a stream");
    assert_eq!((kept.next, kept.standing.confirmed), (2, 0));
    assert_eq!(broker.acknowledged(), ["t:till-1-1"]);
}

/// Lets the source work until this holds, and settles nothing.
async fn until_true_or_handed(source: &mut GatedSource, holds: impl Fn() -> bool) {
    while !holds() {
        let _ = tokio::time::timeout(Duration::from_millis(5), source.fetch(10)).await;
    }
}

#[tokio::test]
async fn later_messages_wait_for_the_missing_one_and_are_not_acknowledged() {
    let (broker, journal) = (Broker::default(), journal());
    let mut source = gated(&broker, options(), &journal).await;
    broker.send("till", 1, 3);
    broker.send("till", 1, 2);
    broker.send("other", 1, 1);
    assert_eq!(take(&mut source, 1).await, [of("other-1-1", "runs")]);
    assert_eq!(source.held.deliveries().count(), 2);
    // The same once more, as a broker repeats it: to acknowledge either would lose both, were this worker killed now.
    broker.send("till", 1, 3);
    while source.held.deliveries().count() < 3 {
        let _ = tokio::time::timeout(Duration::from_millis(5), source.fetch(10)).await;
    }
    assert_eq!(broker.acknowledged(), ["t:other-1-1"]);
    broker.send("till", 1, 1);
    let mut all = take(&mut source, 4).await;
    all.sort();
    let runs = [1, 2, 3].map(|it| of(&format!("till-1-{it}"), "runs"));
    let mut expected = Vec::from(runs);
    expected.insert(2, of("till-1-3", "known"));
    assert_eq!(all, expected);
    assert!(source.held.is_empty());
}

/// The broker would deliver it to another consumer, again and again.
#[tokio::test(start_paused = true)]
async fn what_is_held_is_extended_while_others_are_acknowledged() {
    let (broker, journal) = (Broker::default(), journal());
    broker.book().hold = Some(Duration::from_secs(30));
    let mut source = gated(&broker, options(), &journal).await;
    broker.send("till", 1, 2);
    for sequence in 1..=20 {
        broker.send("other", 1, sequence);
        let runs = [of(&format!("other-1-{sequence}"), "runs")];
        assert_eq!(take(&mut source, 1).await, runs);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(broker.book().extended, [DeliveryId(0)]);
}

/// A fetch is not asked for then.
#[tokio::test]
async fn what_is_held_is_extended_while_the_engine_is_full() {
    let (broker, journal) = (Broker::default(), journal());
    broker.book().hold = Some(Duration::from_secs(30));
    let mut source = gated(&broker, options(), &journal).await;
    broker.send("till", 1, 2);
    broker.send("other", 1, 1);
    let fetched = source.fetch(10).await.expect("a delivery");
    let Fetched::Deliveries(deliveries) = fetched else {
        panic!("{fetched:?}");
    };
    source.extend(&[deliveries[0].id]).await.expect("told");
    assert_eq!(broker.book().extended, [DeliveryId(0)]);
}

/// A queue hands over in any order what a killed worker had.
#[tokio::test(start_paused = true)]
async fn what_is_next_comes_though_all_that_the_broker_hands_over_at_once_waits_for_it() {
    let (broker, journal) = (Broker::default(), journal());
    broker.book().most_out = Some(8);
    let few = GateOptions {
        hold: Duration::from_secs(60),
        ..options()
    };
    let mut source = gated(&broker, few, &journal).await;
    for sequence in (1..=40).rev() {
        broker.send("till", 1, sequence);
    }
    let mut taken = Vec::new();
    while taken.len() < 40 {
        taken.append(&mut take(&mut source, 1).await);
    }
    let runs = (1..=40).map(|it| of(&format!("till-1-{it}"), "runs"));
    assert_eq!(taken, runs.collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_gap_lasts_from_the_last_message_that_was_taken() {
    let (broker, journal) = (Broker::default(), journal());
    let hold = Duration::from_secs(30);
    let mut source = gated(&broker, GateOptions { hold, ..options() }, &journal).await;
    broker.send("till", 1, 100);
    let begun = Instant::now();
    for sequence in 1..=6 {
        broker.send("till", 1, sequence);
        let runs = [of(&format!("till-1-{sequence}"), "runs")];
        assert_eq!(take(&mut source, 1).await, runs);
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    let gap = [of("till-1-100", "sequence-gap")];
    assert_eq!(take(&mut source, 1).await, gap);
    assert!(begun.elapsed() >= Duration::from_secs(5 * 20 + 30));
}

#[tokio::test(start_paused = true)]
async fn a_gap_lasts_no_longer_while_the_broker_is_away() {
    let (broker, journal) = (Broker::default(), journal());
    let hold = Duration::from_secs(30);
    let mut source = gated(&broker, GateOptions { hold, ..options() }, &journal).await;
    broker.send("till", 1, 2);
    let nothing = async |source: &mut GatedSource, seconds| {
        let time = Duration::from_secs(seconds);
        let fetched = tokio::time::timeout(time, source.fetch(10)).await;
        assert!(fetched.is_err(), "{fetched:?}");
    };
    nothing(&mut source, 20).await;
    let away = Error::new(ErrorKind::Unavailable, "no connection");
    assert!(source.heard(Fetched::Away(away)).is_some());
    nothing(&mut source, 600).await;
    assert!(source.heard(Fetched::Back).is_some());
    nothing(&mut source, 5).await;
    let gap = [of("till-1-2", "producer-unknown")];
    assert_eq!(take(&mut source, 1).await, gap);
    // It cannot be taken any more, nor what is behind it.
    let begun = Instant::now();
    broker.send("till", 1, 3);
    let gap = [of("till-1-3", "producer-unknown")];
    assert_eq!(take(&mut source, 1).await, gap);
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn workers_that_have_every_other_message_hand_on_to_each_other() {
    let journal = journal();
    let (odd, even) = (Broker::default(), Broker::default());
    for sequence in 1..=40 {
        let broker = if sequence % 2 == 1 { &odd } else { &even };
        broker.send("till", 1, sequence);
    }
    let mut one = gated(&odd, options(), &journal).await;
    let mut two = gated(&even, options(), &journal).await;
    let begun = Instant::now();
    tokio::join!(take(&mut one, 20), take(&mut two, 20));
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn what_another_worker_took_closes_a_gap() {
    let (broker, journal) = (Broker::default(), journal());
    let mut source = gated(&broker, options(), &journal).await;
    broker.send("till", 1, 2);
    let is_held = |source: &GatedSource| !source.held.is_empty();
    while !is_held(&source) {
        until_true_or_handed(&mut source, || true).await;
        let _ = tokio::time::timeout(Duration::from_millis(5), source.fetch(10)).await;
    }
    let other = Broker::default();
    let mut rival = gated(&other, options(), &journal).await;
    other.send("till", 1, 1);
    assert_eq!(take(&mut rival, 1).await, [of("till-1-1", "runs")]);
    rival.close().await.expect("closed");
    assert_eq!(take(&mut source, 1).await, [of("till-1-2", "runs")]);
}

#[tokio::test]
async fn a_gap_that_lasts_ends_the_source_where_that_is_wanted_and_the_broker_keeps_its_messages() {
    let (broker, journal) = (Broker::default(), journal());
    let stops = GateOptions {
        hold: Duration::ZERO,
        stops_at_gap: true,
        ..options()
    };
    let mut source = gated(&broker, stops, &journal).await;
    broker.send("till", 1, 2);
    let fetched = tokio::time::timeout(Duration::from_secs(60), source.fetch(10)).await;
    let error = fetched.expect("in time").expect_err("a gap");
    assert_eq!(error.code(), Code::SequenceGap);
    source.close().await.expect("closed");
    assert!(broker.acknowledged().is_empty());
}

#[tokio::test]
async fn no_more_are_held_than_the_settings_allow() {
    let (broker, journal) = (Broker::default(), journal());
    let few = GateOptions {
        most_held: Some(2),
        ..options()
    };
    let mut source = gated(&broker, few, &journal).await;
    for sequence in [5, 6, 7] {
        broker.send("till", 1, sequence);
    }
    let set_aside = take(&mut source, 1).await;
    assert!(
        matches!(&*set_aside, [(_, "sequence-gap")]),
        "{set_aside:?}"
    );
    assert_eq!(source.held.deliveries().count(), 2);
    source.close().await.expect("closed");
    assert_eq!(broker.book().requeued, 2, "the others are given back");
}

#[tokio::test]
async fn a_source_with_an_end_waits_for_no_gap_and_ends_once_all_is_settled() {
    let (broker, journal) = (Broker::default(), journal());
    let mut source = gated(&broker, options(), &journal).await;
    broker.send("till", 1, 1);
    broker.send("till", 1, 3);
    broker.book().ends = true;
    let mut taken = take(&mut source, 2).await;
    taken.sort_unstable();
    assert_eq!(
        taken,
        [of("till-1-1", "runs"), of("till-1-3", "sequence-gap")]
    );
    let ended = tokio::time::timeout(Duration::from_secs(60), source.fetch(10)).await;
    assert!(matches!(ended, Ok(Ok(Fetched::Ended))), "{ended:?}");
}

#[tokio::test]
async fn what_a_frozen_producer_sends_is_acknowledged_and_kept() {
    let (broker, journal) = (Broker::default(), journal());
    let mut source = gated(&broker, options(), &journal).await;
    broker.send("till", 1, 1);
    assert_eq!(take(&mut source, 1).await, [of("till-1-1", "runs")]);
    let name: ProducerName = "till".parse().expect("a name");
    let order = |order| journal.order(&name, order);
    assert!(order(ProducerOrder::Freeze).await.expect("an order"));
    broker.send("till", 1, 2);
    until_true(&mut source, || broker.acknowledged().len() == 2).await;
    assert!(order(ProducerOrder::Thaw).await.expect("an order"));
    assert_eq!(take(&mut source, 1).await, [of("till-1-2", "runs")]);
}

#[tokio::test]
async fn a_message_comes_out_of_the_store_as_the_broker_had_it() {
    let (broker, journal) = (Broker::default(), journal());
    let mut source = gated(&broker, options(), &journal).await;
    broker.send("till", 1, 1);
    {
        let mut book = broker.book();
        let sent = book.sent.last_mut().expect("a message");
        sent.oversize_bytes = Some(9_000_000);
        // A sender's own header of that name ends nothing.
        let place = (ByteString::from_static("semel-gate-place"), "x".into());
        sent.headers.push(place);
    }
    let sent = broker.book().sent[0].clone();
    let fetched = source.fetch(10).await.expect("a delivery");
    let Fetched::Deliveries(deliveries) = fetched else {
        panic!("{fetched:?}");
    };
    let [delivery] = &*deliveries else {
        panic!("{deliveries:?}");
    };
    let (added, own) = delivery.headers.split_last().expect("headers");
    assert_eq!(own, &*sent.headers);
    assert_eq!(&*added.0, "semel-id");
    let of = |it: &Delivery| (it.coordinates.clone(), it.appended_at, it.oversize_bytes);
    assert_eq!(of(delivery), of(&sent));
}

#[tokio::test]
async fn what_another_consumer_has_now_is_neither_held_nor_set_aside() {
    let (broker, journal) = (Broker::default(), journal());
    let mut source = gated(&broker, options(), &journal).await;
    broker.send("till", 1, 2);
    broker.send("other", 1, 1);
    assert_eq!(take(&mut source, 1).await, [of("other-1-1", "runs")]);
    let held: Vec<_> = source.held.deliveries().collect();
    let revoked = source.heard(Fetched::Revoked(held));
    assert!(revoked.is_none(), "nobody else was told of them");
    assert!(source.held.is_empty());
    // Kafka's source waits for it, and keeps a place for it until then.
    until_true(&mut source, || broker.book().requeued == 1).await;
}
