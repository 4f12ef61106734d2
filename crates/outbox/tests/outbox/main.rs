//! The relay between an outbox in memory and a sink that does as it is told, on a clock that tests move.

mod fakes;
mod producer;
mod spans;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Backoff, Error, ErrorKind};
use semel_outbox::{Observer, Recall, Relay, Settings, Summary};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use fakes::{FakeOutbox, FakeSink, Told, VirtualClock, name};

/// A relay that runs, and its surroundings.
struct Lab {
    outbox: FakeOutbox,
    sink: FakeSink,
    told: Told,
    stop: watch::Sender<bool>,
    recall: watch::Sender<Recall>,
    running: JoinHandle<semel_core::Result<Summary>>,
}

impl Lab {
    fn start(outbox: FakeOutbox, sink: FakeSink) -> Self {
        let told = Told::default();
        let observer = Arc::new(told.clone());
        Self::observed(outbox, sink, told, observer)
    }

    fn observed(
        outbox: FakeOutbox,
        sink: FakeSink,
        told: Told,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (recall, recalled) = watch::channel(Recall::Not);
        let relay = Relay {
            name: name(),
            settings: Settings {
                lease: Duration::from_secs(30),
                attempts: NonZeroU32::MIN.saturating_add(2),
                backoff: Backoff {
                    first: Duration::from_secs(1),
                    most: Duration::from_secs(60),
                },
                keep: None,
                patience: Duration::from_secs(10),
            },
            outbox: outbox.clone(),
            sink: sink.clone(),
            clock: Arc::new(VirtualClock::default()),
            observer,
            stop: stopped,
            recall: recalled,
        };
        Self {
            outbox,
            sink,
            told,
            stop,
            recall,
            running: tokio::spawn(relay.run()),
        }
    }

    /// Waits until so many messages are recorded.
    async fn recorded(&self, count: usize) {
        let recorded = async {
            while self.outbox.recorded().len() < count {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let hour = Duration::from_secs(3_600);
        timeout(hour, recorded).await.expect("they are recorded");
    }

    /// Recalls the run, and waits for its end.
    async fn recalled(self, how: Recall) -> (Summary, FakeOutbox, FakeSink, Told) {
        self.recall.send_replace(how);
        self.ended().await
    }

    async fn stop(self) -> (Summary, FakeOutbox, FakeSink, Told) {
        self.stop.send_replace(true);
        self.ended().await
    }

    async fn ended(self) -> (Summary, FakeOutbox, FakeSink, Told) {
        let ended = self.running.await.expect("no panic");
        let summary = ended.expect("it ends well");
        (summary, self.outbox, self.sink, self.told)
    }
}

#[tokio::test(start_paused = true)]
async fn each_message_is_published_under_its_id_and_recorded_once_it_is_confirmed() {
    let outbox = FakeOutbox::default();
    outbox.commit(1, Some("a"));
    outbox.commit(2, Some("a"));
    outbox.commit(3, None);
    let lab = Lab::start(outbox, FakeSink::default());
    lab.recorded(3).await;
    lab.outbox.commit(4, Some("a"));
    lab.recorded(4).await;
    let (summary, outbox, sink, _) = lab.stop().await;
    assert_eq!((summary.published, summary.dead), (4, 0));
    assert_eq!(sink.published(), [1, 3, 2, 4]);
    assert!(outbox.has_left(), "its leases are given back");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_fails_is_tried_again_and_then_dead_and_holds_up_its_order_key_alone() {
    let (outbox, sink) = (FakeOutbox::default(), FakeSink::default());
    sink.fails(1, ErrorKind::Internal);
    sink.fails(4, ErrorKind::InvalidInput);
    for (id, key) in [(1, "a"), (2, "a"), (3, "b"), (4, "c"), (5, "c")] {
        outbox.commit(id, Some(key));
    }
    let lab = Lab::start(outbox, sink);
    lab.recorded(1).await;
    // A try counts if the sink takes another message at that time.
    let mut others = 0;
    while lab.outbox.dead().len() < 2 {
        others += 1;
        lab.outbox.commit(100 + others, None);
        sleep(Duration::from_millis(100)).await;
    }
    let (summary, outbox, sink, told) = lab.stop().await;
    assert!(sink.published().iter().all(|id| *id == 3 || *id > 100));
    assert_eq!(outbox.dead(), [4, 1]);
    assert_eq!((summary.put_off, summary.dead), (2, 2));
    let put_off = told
        .lines()
        .iter()
        .filter(|it| it.starts_with("PutOff"))
        .count();
    assert_eq!(put_off, 2, "{:?}", told.lines());
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_away_is_waited_for_and_counts_no_attempt() {
    let (outbox, sink) = (FakeOutbox::default(), FakeSink::default());
    sink.fails(1, ErrorKind::Unavailable);
    outbox.commit(1, Some("a"));
    outbox.commit(2, Some("a"));
    let lab = Lab::start(outbox, sink);
    sleep(Duration::from_secs(600)).await;
    assert!(lab.outbox.recorded().is_empty() && lab.outbox.dead().is_empty());
    lab.sink.takes(1);
    lab.recorded(2).await;
    let (summary, _, sink, told) = lab.stop().await;
    assert_eq!((summary.published, summary.put_off), (2, 0));
    assert_eq!(sink.published(), [1, 2]);
    let lines = told.lines();
    let count = |word: &str| lines.iter().filter(|it| it.starts_with(word)).count();
    assert_eq!((count("SinkAway"), count("SinkBack")), (1, 1), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_fails_with_everything_makes_no_dead_messages() {
    let (outbox, sink) = (FakeOutbox::default(), FakeSink::default());
    for id in 1..=4 {
        sink.fails(id, ErrorKind::Internal);
        outbox.commit(id, None);
    }
    let lab = Lab::start(outbox, sink);
    sleep(Duration::from_secs(600)).await;
    assert!(lab.outbox.recorded().is_empty() && lab.outbox.dead().is_empty());
    for id in 1..=4 {
        lab.sink.takes(id);
    }
    lab.recorded(4).await;
    let (summary, ..) = lab.stop().await;
    assert_eq!((summary.published, summary.put_off), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_always_away_keep_no_others_from_going_out() {
    let (outbox, sink) = (FakeOutbox::default(), FakeSink::default());
    // More than a batch at the head of the stream, as of a partition without a leader.
    for id in 1..=500 {
        sink.fails(id, ErrorKind::Throttled);
        outbox.commit(id, None);
    }
    for id in 501..=510 {
        outbox.commit(id, Some("a"));
    }
    let lab = Lab::start(outbox, sink);
    lab.recorded(10).await;
    for id in 1..=500 {
        lab.sink.takes(id);
    }
    lab.recorded(510).await;
    let (summary, outbox, ..) = lab.stop().await;
    assert_eq!(
        (summary.published, summary.put_off, summary.dead),
        (510, 0, 0)
    );
    assert!(outbox.dead().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_message_that_times_out_again_and_again_holds_up_the_others_ever_less_often() {
    let (outbox, sink) = (FakeOutbox::default(), FakeSink::default());
    sink.fails_late(1, ErrorKind::Timeout, Duration::from_secs(10));
    outbox.commit(1, Some("slow"));
    let lab = Lab::start(outbox, sink);
    for id in 2..=1_200 {
        lab.outbox.commit(id, Some("a"));
        sleep(Duration::from_millis(500)).await;
    }
    // Pauses of 1, 2, 4 … 60 s between tries of 10 s each, in ten minutes.
    let tries = lab.sink.late_batches();
    assert!((8..=16).contains(&tries), "{tries}");
    lab.sink.takes(1);
    lab.recorded(1_200).await;
    let (summary, outbox, ..) = lab.stop().await;
    assert_eq!(
        (summary.published, summary.put_off, summary.dead),
        (1_200, 0, 0)
    );
    assert!(outbox.dead().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_fenced_counts_and_tells_nothing_as_dead() {
    let (outbox, sink) = (FakeOutbox::default(), FakeSink::default());
    sink.fails(1, ErrorKind::InvalidInput);
    outbox.commit(1, None);
    outbox.commit(2, None);
    sink.takes_its_time(Duration::from_secs(20));
    let lab = Lab::start(outbox, sink);
    sleep(Duration::from_secs(15)).await;
    lab.outbox.take_leases_away();
    lab.recorded(1).await;
    let (summary, outbox, _, told) = lab.stop().await;
    assert_eq!((summary.published, summary.dead), (1, 0));
    assert!(outbox.dead().is_empty(), "it is left to the new holder");
    let lines = told.lines();
    assert!(lines.iter().all(|it| !it.starts_with("Dead")), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_stop_leaves_published_and_unrecorded_is_counted_and_told() {
    let outbox = FakeOutbox::default();
    outbox.commit(1, None);
    outbox.commit(2, None);
    outbox.loses_records(u32::MAX);
    let lab = Lab::start(outbox, FakeSink::default());
    while !lab
        .told
        .lines()
        .iter()
        .any(|it| it.starts_with("OutboxAway"))
    {
        sleep(Duration::from_millis(10)).await;
    }
    let (summary, outbox, _, told) = lab.stop().await;
    assert_eq!((summary.published, summary.unrecorded), (0, 2));
    assert!(outbox.recorded().is_empty());
    let lines = told.lines();
    let unrecorded = lines
        .iter()
        .filter(|it| it.starts_with("Unrecorded { count: 2"));
    assert_eq!(unrecorded.count(), 1, "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_published_is_recorded_again_until_the_outbox_takes_it() {
    let outbox = FakeOutbox::default();
    outbox.commit(1, None);
    outbox.loses_records(5);
    let lab = Lab::start(outbox, FakeSink::default());
    lab.recorded(1).await;
    let (summary, _, sink, told) = lab.stop().await;
    assert_eq!(summary.published, 1);
    assert_eq!(sink.published(), [1], "published once, recorded late");
    assert!(told.lines().iter().any(|it| it.starts_with("OutboxAway")));
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_while_the_sink_takes_its_time_and_nothing_goes_out_without_one() {
    let (outbox, sink) = (FakeOutbox::default(), FakeSink::default());
    outbox.commit(1, Some("a"));
    outbox.commit(2, Some("a"));
    sink.takes_its_time(Duration::from_secs(100));
    let lab = Lab::start(outbox, sink);
    sleep(Duration::from_secs(85)).await;
    assert!(lab.outbox.renewals() >= 5, "{}", lab.outbox.renewals());
    // The partition goes to another process, while the first message is under way.
    lab.outbox.take_leases_away();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(
        lab.sink.published(),
        [1],
        "the second is left to the new holder"
    );
    let (summary, _, _, told) = lab.stop().await;
    assert_eq!(summary.published, 1);
    let fenced = told.lines();
    let fenced = fenced.iter().filter(|it| it.starts_with("Fenced"));
    assert_eq!(fenced.collect::<Vec<_>>(), ["Fenced { partitions: 32 }"]);
}

#[tokio::test(start_paused = true)]
async fn an_outbox_that_goes_away_during_a_publication_is_told_and_not_asked_without_a_pause() {
    let (outbox, sink) = (FakeOutbox::default(), FakeSink::default());
    outbox.commit(1, None);
    sink.takes_its_time(Duration::from_secs(100));
    let lab = Lab::start(outbox, sink);
    sleep(Duration::from_secs(1)).await;
    let before = lab.outbox.renewals();
    lab.outbox.goes_away();
    sleep(Duration::from_secs(90)).await;
    let asked = lab.outbox.renewals() - before;
    assert!((10..=60).contains(&asked), "{asked}");
    let lines = lab.told.lines();
    let away = lines.iter().filter(|it| it.starts_with("OutboxAway"));
    assert_eq!(away.count(), 1, "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_has_not_answered_by_the_end_is_not_told_to_be_back() {
    let (outbox, sink) = (FakeOutbox::default(), FakeSink::default());
    sink.fails(1, ErrorKind::Unavailable);
    outbox.commit(1, None);
    let lab = Lab::start(outbox, sink);
    sleep(Duration::from_secs(1)).await;
    lab.sink.takes_its_time(Duration::from_secs(3_600));
    sleep(Duration::from_secs(60)).await;
    let (summary, _, _, told) = lab.stop().await;
    assert_eq!(summary.published, 0);
    let lines = told.lines();
    let count = |word: &str| lines.iter().filter(|it| it.starts_with(word)).count();
    assert_eq!((count("SinkAway"), count("SinkBack")), (1, 0), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_is_busy_without_a_pause_leaves_others_their_share_all_the_same() {
    let (outbox, sink) = (FakeOutbox::default(), FakeSink::default());
    for id in 1..=6 {
        outbox.commit(id, Some("a"));
    }
    // Longer than a third of the lease, so that the leases are renewed within each publication.
    sink.takes_its_time(Duration::from_secs(15));
    let lab = Lab::start(outbox, sink);
    lab.recorded(6).await;
    assert!(lab.outbox.balances() >= 6, "{}", lab.outbox.balances());
    let (summary, _, sink, _) = lab.stop().await;
    assert_eq!(summary.published, 6);
    assert_eq!(sink.published(), (1..=6).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn what_was_kept_is_removed_at_once_where_nothing_is_kept_any_more() {
    let outbox = FakeOutbox::default();
    outbox.has_kept(100_000);
    let lab = Lab::start(outbox, FakeSink::default());
    sleep(Duration::from_millis(100)).await;
    assert_eq!(lab.outbox.kept(), 0, "as fast as it goes");
    lab.outbox.has_kept(1);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(lab.outbox.kept(), 0, "each second, whatever the lease");
    lab.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_has_patience_with_what_is_under_way_and_no_longer() {
    let (outbox, sink) = (FakeOutbox::default(), FakeSink::default());
    outbox.commit(1, None);
    sink.takes_its_time(Duration::from_secs(9));
    let lab = Lab::start(outbox, sink);
    sleep(Duration::from_secs(1)).await;
    let (summary, ..) = lab.stop().await;
    assert_eq!(summary.published, 1);

    let (outbox, sink) = (FakeOutbox::default(), FakeSink::default());
    outbox.commit(1, None);
    sink.takes_its_time(Duration::from_secs(3_600));
    let lab = Lab::start(outbox, sink);
    sleep(Duration::from_secs(1)).await;
    let (summary, outbox, ..) = lab.stop().await;
    assert_eq!(summary.published, 0);
    assert!(outbox.recorded().is_empty() && outbox.has_left());
}

#[tokio::test(start_paused = true)]
async fn a_recall_ends_behind_what_is_under_way_however_long_that_takes() {
    let (outbox, sink) = (FakeOutbox::default(), FakeSink::default());
    outbox.commit(1, Some("a"));
    outbox.commit(2, Some("a"));
    sink.takes_its_time(Duration::from_secs(600));
    let lab = Lab::start(outbox, sink);
    sleep(Duration::from_secs(1)).await;
    let (summary, outbox, sink, _) = lab.recalled(Recall::Now).await;
    assert_eq!(summary.published, 1, "it is recorded");
    assert_eq!(sink.published(), [1], "the next one of its key waits");
    assert!(outbox.has_left(), "others may go on");
    assert!(summary.elapsed >= Duration::from_secs(600));
}

#[tokio::test(start_paused = true)]
async fn a_recall_that_is_followed_by_a_stop_has_no_more_patience_than_that() {
    let (outbox, sink) = (FakeOutbox::default(), FakeSink::default());
    outbox.commit(1, None);
    sink.takes_its_time(Duration::from_secs(3_600));
    let lab = Lab::start(outbox, sink);
    sleep(Duration::from_secs(1)).await;
    lab.recall.send_replace(Recall::Now);
    sleep(Duration::from_secs(60)).await;
    let (summary, ..) = lab.stop().await;
    assert_eq!(summary.published, 0);
    assert!(summary.elapsed < Duration::from_secs(90));
}

#[tokio::test(start_paused = true)]
async fn a_drained_relay_publishes_what_is_due_first_and_waits_for_a_sink_that_is_away() {
    let (outbox, sink) = (FakeOutbox::default(), FakeSink::default());
    sink.fails(1, ErrorKind::Unavailable);
    for id in 1..=3 {
        outbox.commit(id, Some("a"));
    }
    let lab = Lab::start(outbox, sink);
    sleep(Duration::from_secs(1)).await;
    lab.recall.send_replace(Recall::WhenIdle);
    sleep(Duration::from_secs(60)).await;
    assert!(!lab.running.is_finished(), "nothing went out yet");
    lab.sink.takes(1);
    let (summary, outbox, sink, _) = lab.ended().await;
    assert_eq!(sink.published(), [1, 2, 3]);
    assert_eq!(summary.published, 3);
    assert!(outbox.has_left());
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_rests_is_recalled_at_once() {
    for how in [Recall::Now, Recall::WhenIdle] {
        let lab = Lab::start(FakeOutbox::default(), FakeSink::default());
        sleep(Duration::from_secs(3)).await;
        let (summary, ..) = lab.recalled(how).await;
        assert!(summary.elapsed < Duration::from_secs(4), "{summary:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_goes_on_until_what_another_process_had_has_come_to_this_one() {
    let outbox = FakeOutbox::default();
    outbox.is_shared(true);
    outbox.commit(1, None);
    let lab = Lab::start(outbox, FakeSink::default());
    sleep(Duration::from_secs(1)).await;
    lab.recall.send_replace(Recall::WhenIdle);
    sleep(Duration::from_secs(29)).await;
    assert!(!lab.running.is_finished(), "the other one may have died");
    lab.outbox.is_shared(false);
    let (summary, ..) = lab.ended().await;
    assert_eq!(summary.published, 1);

    // One that lives keeps its own: that is waited for no longer than a dead one takes.
    let outbox = FakeOutbox::default();
    outbox.is_shared(true);
    outbox.commit(1, None);
    let lab = Lab::start(outbox, FakeSink::default());
    let (summary, ..) = lab.recalled(Recall::WhenIdle).await;
    assert_eq!(summary.published, 0);
    let seconds = Duration::from_secs;
    assert!(
        summary.elapsed >= seconds(30) && summary.elapsed <= seconds(45),
        "{summary:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_its_outbox_is_recalled_at_once() {
    let lab = Lab::start(FakeOutbox::default(), FakeSink::default());
    lab.outbox.goes_away();
    // The pauses between the tries are five seconds by now.
    sleep(Duration::from_secs(120)).await;
    let told = lab.told.lines();
    assert!(
        told.iter().any(|it| it.starts_with("OutboxAway")),
        "{told:?}"
    );
    let (summary, ..) = lab.recalled(Recall::Now).await;
    assert!(summary.elapsed < Duration::from_secs(121), "{summary:?}");
}

#[tokio::test(start_paused = true)]
async fn an_outbox_that_refuses_the_relay_ends_it() {
    let outbox = FakeOutbox::default();
    outbox.refuses(Error::new(
        ErrorKind::InvalidConfig,
        "another relay is at it",
    ));
    let lab = Lab::start(outbox, FakeSink::default());
    let ended = lab.running.await.expect("no panic");
    assert_eq!(ended.expect_err("refused").kind(), ErrorKind::InvalidConfig);
}
