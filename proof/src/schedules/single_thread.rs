//! Calls of one process that meet at one key (`once`): on one thread, with dice that decide how often each
//! store call and each effect lets all others go first, before it and after it.
//!
//! That is every order that tasks on one thread can have between two waits, as far as random draws find it; the
//! steps of two threads between two waits are not tested here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semel_core::{Claimant, Clock, Entropy, Result, Store, Timestamp};
use semel_engine::event::Unobserved;
use semel_engine::once::{Declared, Error, Once, Settings};
use semel_engine::surroundings::Surroundings;
use semel_store_memory::MemoryStore;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use super::Scenario;
use super::coverage::Coverage;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        law: "once: callers of one key run its effect once and share the outcome",
        seen: &[
            "a caller waited for another's effect",
            "woken at the moment of its end",
            "found it at a later look",
        ],
        play: |coverage, broken| on_one_thread(shared(coverage, broken)),
    },
    Scenario {
        law: "once: after close no effect runs, and who was refused ran none",
        seen: &["refused", "finished", "closed while an effect ran"],
        play: |coverage, broken| on_one_thread(closed(coverage, broken)),
    },
    Scenario {
        law: "once: of a caller who goes away, the effect runs once or is left to the next",
        seen: &["gone before it began", "gone while it ran", "stayed"],
        play: |coverage, broken| on_one_thread(gone(coverage, broken)),
    },
];

fn on_one_thread(play: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.expect("a runtime without threads").block_on(play);
}

/// The random draws that are left: one number after the other, from a seed.
#[derive(Clone)]
struct Dice(Arc<AtomicU64>);

impl Dice {
    /// Other dice for each order.
    fn of(coverage: &Coverage) -> Self {
        Self(Arc::new(AtomicU64::new(coverage.chance())))
    }

    fn below(&self, most: u64) -> u64 {
        let mut mixed = self.0.fetch_add(GOLDEN, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % most
    }

    /// Lets others go first, now and then for a while.
    async fn hesitate(&self) {
        for _ in 0..self.below(6) {
            yield_now().await;
        }
        if self.below(8) == 0 {
            sleep(Duration::from_millis(self.below(400))).await;
        }
    }
}

impl Entropy for Dice {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill_with(|| u8::try_from(self.below(256)).unwrap_or_default());
    }
}

struct PausedClock(Instant);

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        let since = u64::try_from(self.monotonic().as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_millis(1_800_000_000_000 + since)
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A store whose calls take their time, before and after.
#[derive(Clone)]
struct Hesitant {
    inner: Arc<MemoryStore>,
    dice: Dice,
}

macro_rules! hesitant {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {
        impl Store for Hesitant {
            $(async fn $name(&self, $($arg: $type),*) -> Result<$answer> {
                self.dice.hesitate().await;
                let answer = self.inner.$name($($arg),*).await;
                self.dice.hesitate().await;
                answer
            })*
        }
    };
}

semel_core::store_methods!(hesitant);

/// One process, and the runs of its effects.
#[derive(Clone)]
struct Site {
    once: Once<Hesitant>,
    /// The handle that the break gives to a second caller: as if there were another store.
    other: Once<Hesitant>,
    dice: Dice,
    clock: Instant,
    begun: Arc<AtomicU64>,
    ended: Arc<AtomicU64>,
    ended_at: Arc<Mutex<Duration>>,
}

impl Site {
    fn new(coverage: &Coverage) -> Self {
        let (dice, clock) = (Dice::of(coverage), Instant::now());
        let over = || {
            let time: Arc<dyn Clock> = Arc::new(PausedClock(clock));
            let store = Hesitant {
                inner: Arc::new(MemoryStore::new(Arc::clone(&time))),
                dice: dice.clone(),
            };
            let surroundings = Surroundings {
                clock: time,
                entropy: Arc::new(dice.clone()),
                claimant: Claimant::random(&dice),
                observer: Arc::new(Unobserved),
            };
            Once::with(store, surroundings, Settings::default(), None)
        };
        Self {
            once: over(),
            other: over(),
            dice: dice.clone(),
            clock,
            begun: Arc::default(),
            ended: Arc::default(),
            ended_at: Arc::default(),
        }
    }

    fn declared(&self, other: bool) -> Declared<Hesitant> {
        let once = if other { &self.other } else { &self.once };
        once.operation("awaits").wait(PATIENCE)
    }

    /// Makes a call with an effect that takes its time; returns the times of call and answer, and the answer.
    async fn call(self, other: bool) -> (Duration, Duration, std::result::Result<u64, Error>) {
        self.dice.hesitate().await;
        let came = self.clock.elapsed();
        let site = self.clone();
        let answer = self.declared(other).once("a", async move |_| {
            let number = site.begun.fetch_add(1, Ordering::SeqCst) + 1;
            site.dice.hesitate().await;
            sleep(Duration::from_millis(site.dice.below(3) * 500)).await;
            site.ended.fetch_add(1, Ordering::SeqCst);
            let mut at = site.ended_at.lock().unwrap_or_else(PoisonError::into_inner);
            *at = site.clock.elapsed();
            Ok(number)
        });
        let answer = answer.await.map(|receipt| *receipt.value());
        (came, self.clock.elapsed(), answer)
    }

    fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    fn ended(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }

    fn ended_at(&self) -> Duration {
        *self.ended_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn shared(coverage: &Coverage, broken: bool) {
    let site = Site::new(coverage);
    let callers: Vec<_> = (0..3)
        .map(|number| tokio::spawn(site.clone().call(broken && number == 2)))
        .collect();
    let (mut waited, mut at_once, mut later) = (0, false, false);
    for caller in callers {
        let (came, answered, answer) = caller.await.expect("a caller without a panic");
        coverage.law(matches!(answer, Ok(1)), || {
            format!("a caller was answered {answer:?}")
        });
        waited += u64::from(came < site.ended_at());
        at_once |= came < site.ended_at() && answered == site.ended_at();
        later |= came < site.ended_at() && answered > site.ended_at();
    }
    let begun = site.begun();
    coverage.law(begun == 1, || format!("the effect was begun {begun} times"));
    coverage.saw("a caller waited for another's effect", waited > 1);
    coverage.saw("woken at the moment of its end", at_once);
    coverage.saw("found it at a later look", later);
}

async fn closed(coverage: &Coverage, broken: bool) {
    let site = Site::new(coverage);
    let callers: Vec<_> = (0..2)
        .map(|_| tokio::spawn(site.clone().call(false)))
        .collect();
    let ending = {
        let site = site.clone();
        tokio::spawn(async move {
            for _ in 0..site.dice.below(4) {
                site.dice.hesitate().await;
            }
            let running = site.begun() > site.ended();
            // The break: no one waits for the close to end.
            let patience = if broken { Duration::ZERO } else { PATIENCE };
            let closed = timeout(patience, site.once.close()).await.is_ok();
            (running, closed, site.begun(), site.ended())
        })
    };
    let (running, closed, begun, ended) = ending.await.expect("a closer without a panic");
    coverage.law(broken || closed, || "it never closed".to_owned());
    coverage.law(begun == ended, || {
        format!("closed after {begun} effects began and {ended} ended")
    });
    let (mut refused, mut finished) = (0, 0);
    for caller in callers {
        let (_, _, answer) = caller.await.expect("a caller without a panic");
        match answer {
            Ok(_) => finished += 1,
            Err(Error::Closed) => refused += 1,
            Err(other) => coverage.law(false, || format!("neither done nor refused: {other}")),
        }
    }
    coverage.law(site.begun() == begun, || {
        "an effect began after the close".to_owned()
    });
    coverage.law(finished == 0 || site.ended() == 1, || {
        "told that it is done, and it is not".to_owned()
    });
    coverage.saw("refused", refused > 0);
    coverage.saw("finished", finished > 0);
    coverage.saw("closed while an effect ran", running);
}

async fn gone(coverage: &Coverage, broken: bool) {
    let site = Site::new(coverage);
    let patience = Duration::from_millis(site.dice.below(700));
    let first = tokio::spawn(timeout(patience, site.clone().call(false)));
    let first = first.await.expect("a caller without a panic");
    let (begun, ended) = (site.begun(), site.ended());
    let (_, _, answer) = site.clone().call(broken).await;
    coverage.law(matches!(answer, Ok(1)), || {
        format!("the next caller was answered {answer:?}")
    });
    let in_all = site.begun();
    coverage.law(in_all == 1, || {
        format!("the effect was begun {in_all} times")
    });
    coverage.saw("gone before it began", first.is_err() && begun == 0);
    coverage.saw("gone while it ran", first.is_err() && begun > ended);
    coverage.saw("stayed", first.is_ok());
}

const PATIENCE: Duration = Duration::from_secs(60);
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
