use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use semel_config::PipelineSettings;
use semel_conformance::TestClock;
use semel_core::{Code, Operation, Record, Store, forward_store};
use semel_engine::surroundings::OnProgress;
use semel_store_memory::MemoryStore;
use tokio::task::JoinSet;

use super::*;

/// A store that answers everything but look-ups: those it refuses, or leaves without an answer.
struct Mute {
    inner: MemoryStore,
    is_silent: bool,
    answers: Arc<AtomicBool>,
}

impl Store for Mute {
    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        if self.answers.load(Ordering::Relaxed) {
            return self.inner.get(batch).await;
        }
        if self.is_silent {
            std::future::pending::<()>().await;
        }
        Err(Error::new(
            ErrorKind::Internal,
            "permission denied for table record",
        ))
    }

    forward_store!(self => self.inner; but get);
}

/// Remembers the codes of the orders that could not be read.
#[derive(Default)]
struct Unread(Mutex<Vec<Code>>);

impl Reporter for Unread {
    fn report(&self, notice: &Notice<'_>) {
        if let Notice::PausesUnread(error) = notice {
            self.0.lock().expect("no panic").push(error.code());
        }
    }

    fn progress(&self, _: &PipelineSettings) -> OnProgress {
        Arc::new(|_, _| {})
    }
}

#[tokio::test(start_paused = true)]
async fn orders_that_cannot_be_read_are_told_of_and_asked_for_again() {
    for (is_silent, expected) in [(false, Code::Internal), (true, Code::Timeout)] {
        let clock = TestClock::new();
        let health = Arc::new(Health::new(SILENCE, Arc::new(clock.clone())));
        let reporter = Arc::new(Unread::default());
        let answers: Arc<AtomicBool> = Arc::default();
        let store = AnyStore::new(Mute {
            inner: MemoryStore::new(Arc::new(clock)),
            is_silent,
            answers: Arc::clone(&answers),
        });
        let pauses = Pauses::about(["pay".into()]);
        let mut order = pauses.of("pay");
        let watch = pauses.watch(store, Arc::clone(&health), Arc::clone(&reporter) as _);
        let mut tasks = JoinSet::new();
        tasks.spawn(watch);
        sleep(SILENCE + PATIENCE * 2).await;
        assert_eq!(*order.borrow(), KnownOrder::Unknown);
        assert!(health.store_fails());
        let told = || reporter.0.lock().expect("no panic").clone();
        assert_eq!(told(), [expected]);
        sleep(MENTION).await;
        assert_eq!(told(), [expected; 2], "now and then");
        answers.store(true, Ordering::Relaxed);
        let known = order.wait_for(|order| *order == KnownOrder::Run).await;
        assert!(known.is_ok(), "it is asked again");
    }
}

fn paused_at(since: u64) -> OrderedPause {
    OrderedPause {
        kind: PauseKind::Pause,
        since: semel_core::Timestamp::from_millis(since),
        by: "ada".into(),
        reason: "".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_was_known_is_no_new_one() {
    let pauses = Pauses::about(["pay".into(), "ship".into()]);
    pauses.know(vec![Some(paused_at(1)), None]);
    let both = ["pay".into(), "ship".into()];
    let mut wait = Box::pin(pauses.paused_anew(&both));
    let mut is_paused = async || timeout(EVERY, &mut wait).await.is_ok();
    assert!(!is_paused().await, "one of them was paused before");
    pauses.know(vec![None, None]);
    assert!(!is_paused().await, "it is resumed");
    pauses.know(vec![Some(paused_at(1)), None]);
    assert!(is_paused().await, "it is paused again");

    let other = pauses.paused_anew(&["ship".into()]);
    pauses.know(vec![Some(paused_at(2)), Some(paused_at(2))]);
    assert!(timeout(EVERY, other).await.is_ok(), "since the call");
    let none = pauses.paused_anew(&["another".into()]);
    assert!(timeout(EVERY, none).await.is_err());
}
