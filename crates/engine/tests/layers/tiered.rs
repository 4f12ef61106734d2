//! A cached store keeps the laws of the store behind it, and does nothing that it may not do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use semel_conformance::{CheckpointSubject, Subject, TestClock, TransferSubject};
use semel_core::decide::{Directive, Order};
use semel_core::port::store::ListQuery;
use semel_core::{
    Admission, ClaimId, ClaimRequest, Clock, Duplicate, Fingerprint, Key, Outcome, Scope,
    Settlement, Step, Store, Timestamp, Window,
};
use semel_engine::layer::tiered::{Settings, Statistics, Tiered};
use semel_store_memory::MemoryStore;

use crate::insistent::{How, Insistent};
use crate::slow::Slow;

/// A cache that is asked for every answer until it comes from memory.
struct Again(TestClock, Arc<Insistent>);

/// A cache that is warmed before each claim.
struct Warmed(TestClock, Arc<Insistent>);

macro_rules! subject {
    ($subject:ident) => {
        impl Subject for $subject {
            type Store = Insistent;

            async fn open() -> Self {
                let clock = TestClock::new();
                let shared = Arc::new(clock.clone());
                let memory = Arc::new(MemoryStore::new(shared.clone()));
                let tiered = Tiered::new(memory, Settings::default(), shared);
                let how = How::$subject;
                Self(clock, Arc::new(Insistent { tiered, how }))
            }

            fn store(&self) -> &Arc<Insistent> {
                &self.1
            }

            fn clock(&self) -> Option<&TestClock> {
                Some(&self.0)
            }
        }

        impl CheckpointSubject for $subject {
            type Checkpoint = Insistent;

            fn checkpoint(&self) -> Arc<Insistent> {
                Arc::clone(&self.1)
            }
        }

        impl TransferSubject for $subject {
            type Transfer = Insistent;

            fn transfer(&self) -> Arc<Insistent> {
                Arc::clone(&self.1)
            }
        }
    };
}

subject!(Again);
subject!(Warmed);

mod again {
    use super::Again;

    semel_conformance::store_laws!(Again);
    semel_conformance::checkpoint_laws!(Again);
    semel_conformance::transfer_laws!(Again);
    semel_conformance::checkpoint_transfer_laws!(Again);
    semel_conformance::history_laws!(Again);
}

mod warmed {
    use super::Warmed;

    semel_conformance::history_laws!(Warmed);

    #[test]
    fn a_cache_that_is_always_warm_keeps_every_law() {
        for case in semel_conformance::store_cases::<Warmed>() {
            case.run();
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// A cache over a store that other processes use, too.
struct Site {
    clock: TestClock,
    authority: Arc<Slow>,
    tiered: Arc<Tiered<Arc<Slow>>>,
}

impl Site {
    fn new() -> Self {
        Self::with(Settings::default())
    }

    fn with(settings: Settings) -> Self {
        let clock = TestClock::new();
        let shared = Arc::new(clock.clone());
        let memory = Arc::new(MemoryStore::new(shared.clone()));
        let authority = Arc::new(Slow::over(&memory));
        let tiered = Arc::new(Tiered::new(Arc::clone(&authority), settings, shared));
        Self {
            clock,
            authority,
            tiered,
        }
    }

    async fn claim(&self, request: &ClaimRequest) -> Admission {
        let answers = self.tiered.claim([request.clone()].into()).await;
        answers.expect("an answer").remove(0)
    }

    /// Claims and completes through this cache.
    async fn finish(&self, request: &ClaimRequest, outcome: &Outcome) {
        let admission = self.claim(request).await;
        assert!(matches!(admission, Admission::Granted(_)), "{admission:?}");
        let settlement = Settlement {
            operation: request.operation.clone(),
            claim_id: request.claim_id,
            step: Step::Complete {
                outcome: outcome.clone(),
                window: request.window,
            },
        };
        let settled = self.tiered.settle([settlement].into()).await;
        assert!(settled.is_ok());
    }

    /// Asks until the answer comes from memory.
    async fn know(&self, request: &ClaimRequest) {
        for _ in 0..3 {
            let admission = self.claim(request).await;
            assert!(
                matches!(admission, Admission::Replay { .. }),
                "{admission:?}"
            );
        }
        let before = self.tiered.statistics();
        let _ = self.claim(request).await;
        assert_eq!(self.tiered.statistics().answered, before.answered + 1);
    }

    async fn forget_at(&self, store: &impl Store, request: &ClaimRequest) {
        let directive = Directive {
            operation: request.operation.clone(),
            order: Order::Forget,
            note: None,
        };
        let directed = store.operate([directive].into()).await.expect("an answer");
        assert!(
            format!("{directed:?}").contains("Now(None)"),
            "{directed:?}"
        );
    }

    fn counts(&self) -> (u64, u64, u64) {
        let Statistics {
            answered,
            read,
            asked,
            ..
        } = self.tiered.statistics();
        (answered, read, asked)
    }
}

fn request(key: &str, claimant: u128) -> ClaimRequest {
    let scope = Scope::new("", "test").expect("a scope");
    let key = Key::new(key).expect("a key");
    ClaimRequest {
        window: Window::new(HOUR),
        transport: Some(Bytes::from(format!("event {claimant}"))),
        ..ClaimRequest::new(scope, key, ClaimId::from_u128(claimant))
    }
}

fn outcome(text: &'static str) -> Outcome {
    Outcome::Kept {
        codec: 7,
        bytes: Bytes::from_static(text.as_bytes()),
    }
}

#[tokio::test]
async fn a_duplicate_is_read_once_and_then_answered_from_memory() {
    let site = Site::new();
    site.finish(&request("a", 1), &outcome("first")).await;
    assert_eq!(site.counts(), (0, 0, 1));
    for _ in 0..5 {
        let Admission::Replay {
            outcome: replayed,
            duplicate,
        } = site.claim(&request("a", 2)).await
        else {
            panic!("it is completed");
        };
        assert_eq!(
            replayed,
            Some(outcome("first")),
            "byte for byte, with its codec"
        );
        assert_eq!(duplicate, Duplicate::Republish);
    }
    assert_eq!(site.counts(), (4, 1, 1));
}

#[tokio::test]
async fn what_others_completed_is_known_after_its_second_duplicate() {
    let site = Site::new();
    let other = Site {
        tiered: Arc::new(Tiered::new(
            Arc::clone(&site.authority),
            Settings::default(),
            Arc::new(site.clock.clone()),
        )),
        clock: site.clock.clone(),
        authority: Arc::clone(&site.authority),
    };
    other.finish(&request("a", 1), &outcome("theirs")).await;
    for _ in 0..4 {
        let _ = site.claim(&request("a", 2)).await;
    }
    assert_eq!(site.counts(), (2, 1, 1), "replayed, read, known, known");
}

#[tokio::test]
async fn the_delivery_of_the_claim_itself_is_told_from_a_redelivery_and_a_republish() {
    let site = Site::new();
    site.finish(&request("a", 1), &outcome("done")).await;
    site.know(&request("a", 1)).await;
    let redelivered = ClaimRequest {
        claim_id: ClaimId::from_u128(9),
        ..request("a", 1)
    };
    let nameless = ClaimRequest {
        transport: None,
        ..redelivered.clone()
    };
    for (request, expected) in [
        (request("a", 1), Duplicate::Own),
        (redelivered, Duplicate::Redelivery),
        (request("a", 2), Duplicate::Republish),
        (nameless, Duplicate::Unknown),
    ] {
        match site.claim(&request).await {
            Admission::Replay { duplicate, .. } => assert_eq!(duplicate, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_reused_key_is_a_conflict_from_memory_too() {
    let print = |digest| Fingerprint {
        scheme: 1,
        digest: [digest; 16],
    };
    let with = |claimant, fingerprint| ClaimRequest {
        fingerprint,
        ..request("a", claimant)
    };
    let site = Site::new();
    site.finish(&with(1, Some(print(1))), &outcome("done"))
        .await;
    site.know(&with(2, Some(print(1)))).await;
    let before = site.counts();
    let admission = site.claim(&with(3, Some(print(2)))).await;
    assert!(
        matches!(admission, Admission::Conflict { .. }),
        "{admission:?}"
    );
    let admission = site.claim(&with(4, None)).await;
    assert!(
        matches!(admission, Admission::Replay { .. }),
        "{admission:?}"
    );
    assert_eq!(site.counts(), (before.0 + 2, before.1, before.2));
}

#[tokio::test]
async fn what_is_forgotten_here_is_forgotten_at_once() {
    let site = Site::new();
    site.finish(&request("a", 1), &outcome("done")).await;
    site.know(&request("a", 2)).await;
    site.forget_at(&*site.tiered, &request("a", 1)).await;
    let admission = site.claim(&request("a", 3)).await;
    assert!(matches!(admission, Admission::Granted(_)), "{admission:?}");
}

#[tokio::test]
async fn what_is_forgotten_elsewhere_is_skipped_for_a_minute_at_most() {
    let site = Site::new();
    site.finish(&request("a", 1), &outcome("done")).await;
    site.know(&request("a", 2)).await;
    site.forget_at(&*site.authority, &request("a", 1)).await;
    site.clock.advance(SECOND * 59);
    let admission = site.claim(&request("a", 3)).await;
    assert!(
        matches!(admission, Admission::Replay { .. }),
        "{admission:?}"
    );
    site.clock.advance(SECOND);
    let admission = site.claim(&request("a", 3)).await;
    assert!(matches!(admission, Admission::Granted(_)), "{admission:?}");
}

#[tokio::test]
async fn an_entry_does_not_stay_fresh_while_the_machine_sleeps() {
    let (clock, awake) = (TestClock::new(), Arc::new(Suspended::default()));
    let authority = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    awake.0.store(clock.now().as_millis(), Ordering::SeqCst);
    let tiered = Tiered::new(Arc::clone(&authority), Settings::default(), awake.clone());
    let claim = async |number| {
        let asked = [request("a", number)];
        tiered
            .claim(asked.into())
            .await
            .expect("an answer")
            .remove(0)
    };
    assert!(matches!(claim(1).await, Admission::Granted(_)));
    let first = request("a", 1);
    let done = Settlement {
        operation: first.operation.clone(),
        claim_id: first.claim_id,
        step: Step::Complete {
            outcome: outcome("done"),
            window: first.window,
        },
    };
    assert!(authority.settle([done].into()).await.is_ok());
    for number in 2..5 {
        assert!(matches!(claim(number).await, Admission::Replay { .. }));
    }
    assert!(tiered.statistics().answered > 0, "it is in memory");
    let forget = Directive {
        operation: first.operation,
        order: Order::Forget,
        note: None,
    };
    assert!(authority.operate([forget].into()).await.is_ok());
    assert!(
        matches!(claim(5).await, Admission::Replay { .. }),
        "from memory"
    );
    awake.0.fetch_add(60_000, Ordering::SeqCst);
    assert!(matches!(claim(6).await, Admission::Granted(_)));
}

/// The clocks of a machine that sleeps: its wall clock goes on, its monotonic one stands still.
#[derive(Default)]
struct Suspended(AtomicU64);

impl Clock for Suspended {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

#[tokio::test]
async fn being_asked_for_does_not_keep_an_entry_fresh() {
    let site = Site::new();
    site.finish(&request("a", 1), &outcome("done")).await;
    site.know(&request("a", 2)).await;
    site.forget_at(&*site.authority, &request("a", 1)).await;
    for _ in 0..11 {
        site.clock.advance(SECOND * 5);
        let admission = site.claim(&request("a", 3)).await;
        assert!(
            matches!(admission, Admission::Replay { .. }),
            "{admission:?}"
        );
    }
    site.clock.advance(SECOND * 5);
    let admission = site.claim(&request("a", 3)).await;
    assert!(matches!(admission, Admission::Granted(_)), "{admission:?}");
}

#[tokio::test]
async fn a_hint_decides_nothing() {
    let site = Site::new();
    site.finish(&request("a", 1), &outcome("done")).await;
    // No call has read the record here, and it is gone.
    site.forget_at(&*site.authority, &request("a", 1)).await;
    let admission = site.claim(&request("a", 2)).await;
    assert!(matches!(admission, Admission::Granted(_)), "{admission:?}");
}

#[tokio::test]
async fn an_entry_is_not_used_past_the_window_of_its_record() {
    let settings = Settings {
        fresh: HOUR,
        ..Settings::default()
    };
    let window = Window::new(SECOND * 80);
    let with = |claimant| ClaimRequest {
        window,
        ..request("a", claimant)
    };
    let site = Site::with(settings);
    site.finish(&with(1), &outcome("done")).await;
    site.know(&with(2)).await;
    let hold = Directive {
        operation: with(1).operation,
        order: Order::Hold(true),
        note: None,
    };
    // Its margin is ten seconds. On hold, it stays at the authority; the cache stops believing it all the
    // same.
    assert!(site.authority.operate([hold].into()).await.is_ok());
    site.clock.advance(SECOND * 69);
    let before = site.counts();
    let _ = site.claim(&with(3)).await;
    assert_eq!(site.counts().0, before.0 + 1);
    site.clock.advance(SECOND);
    for _ in 0..5 {
        let admission = site.claim(&with(3)).await;
        assert!(
            matches!(admission, Admission::Replay { .. }),
            "{admission:?}"
        );
    }
    let after = site.counts();
    assert_eq!(after.0, before.0 + 1, "none from memory");
    site.forget_at(&*site.authority, &with(1)).await;
    let admission = site.claim(&with(4)).await;
    assert!(matches!(admission, Admission::Granted(_)), "{admission:?}");
}

#[tokio::test]
async fn only_completed_records_are_kept() {
    let site = Site::new();
    for (key, step) in [
        (
            "dead",
            Step::Fail {
                decisive: false,
                error: "404".into(),
                window: Window::new(HOUR),
            },
        ),
        (
            "busy",
            Step::Start {
                recovery: semel_core::Recovery::Rerun,
                has_begun: false,
            },
        ),
    ] {
        // Completed, known, and begun anew by another process.
        site.finish(&request(key, 1), &outcome("done")).await;
        site.know(&request(key, 1)).await;
        site.forget_at(&*site.authority, &request(key, 1)).await;
        let again = request(key, 2);
        let claimed = site.authority.claim([again.clone()].into()).await;
        assert!(claimed.is_ok());
        let settlement = Settlement {
            operation: again.operation.clone(),
            claim_id: again.claim_id,
            step,
        };
        assert!(site.authority.settle([settlement].into()).await.is_ok());
    }
    site.clock.advance(SECOND * 60);
    // The known records are read anew: now one is dead and one busy, and stays so however often it is
    // asked.
    for _ in 0..5 {
        let of = |key| ClaimRequest {
            wants_outcome: false,
            ..request(key, 3)
        };
        let admission = site.claim(&of("dead")).await;
        assert!(
            matches!(admission, Admission::Parked { .. }),
            "{admission:?}"
        );
        let admission = site.claim(&of("busy")).await;
        let is_running = matches!(admission, Admission::Busy { .. } | Admission::Granted(_));
        assert!(is_running, "{admission:?}");
    }
}

#[tokio::test]
async fn an_outcome_that_is_too_long_to_keep_is_given_back_whole_by_the_authority() {
    let settings = Settings {
        outcome_bytes: 10,
        ..Settings::default()
    };
    let site = Site::with(settings);
    let long = outcome("far more than ten bytes");
    site.finish(&request("a", 1), &long).await;
    for _ in 0..4 {
        match site.claim(&request("a", 2)).await {
            Admission::Replay { outcome, .. } => assert_eq!(outcome, Some(long.clone())),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(site.counts(), (0, 4, 1), "one read each, no claim");
    let unwanted = ClaimRequest {
        wants_outcome: false,
        ..request("a", 3)
    };
    for _ in 0..2 {
        match site.claim(&unwanted).await {
            Admission::Replay { outcome, .. } => assert_eq!(outcome, None),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(site.counts(), (2, 4, 1));
}

#[tokio::test]
async fn an_outcome_that_was_not_wanted_at_first_is_read_when_it_is() {
    let site = Site::new();
    site.finish(&request("a", 1), &outcome("done")).await;
    let unwanted = ClaimRequest {
        wants_outcome: false,
        ..request("a", 2)
    };
    site.know(&unwanted).await;
    for _ in 0..2 {
        match site.claim(&request("a", 3)).await {
            Admission::Replay { outcome: it, .. } => assert_eq!(it, Some(outcome("done"))),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_batch_from_three_places_is_answered_in_order() {
    let site = Site::new();
    for key in ["known", "hinted"] {
        site.finish(&request(key, 1), &outcome("done")).await;
    }
    site.know(&request("known", 2)).await;
    let lapsed = request("lapsed", 1);
    site.finish(&lapsed, &outcome("done")).await;
    site.forget_at(&*site.authority, &lapsed).await;
    let batch: Vec<_> = ["new", "known", "lapsed", "hinted", "new", "known", "lapsed"]
        .into_iter()
        .zip(10..)
        .map(|(key, claimant)| request(key, claimant))
        .collect();
    let answers = site.tiered.claim(batch.into()).await.expect("an answer");
    let shown: Vec<_> = answers
        .iter()
        .map(|admission| match admission {
            Admission::Granted(claim) => claim.operation.key.as_str(),
            Admission::Replay { .. } => "replay",
            Admission::Busy { .. } => "busy",
            _ => "other",
        })
        .collect();
    assert_eq!(
        shown,
        [
            "new", "replay", "lapsed", "replay", "busy", "replay", "busy"
        ]
    );
}

#[tokio::test]
async fn what_was_read_before_an_order_is_not_kept_after_it() {
    let site = Site::new();
    site.finish(&request("a", 1), &outcome("done")).await;
    site.authority.holds_read.store(true, Ordering::SeqCst);
    let tiered = Arc::clone(&site.tiered);
    let reading = tokio::spawn(async move { tiered.claim([request("a", 2)].into()).await });
    let held = tokio::time::timeout(SECOND * 30, site.authority.is_held.notified());
    held.await.expect("the record is read");
    site.forget_at(&*site.tiered, &request("a", 1)).await;
    site.authority.go_on.notify_one();
    let early = reading.await.expect("no panic").expect("an answer");
    assert!(
        matches!(early[..], [Admission::Replay { .. }]),
        "asked before"
    );
    let admission = site.claim(&request("a", 3)).await;
    assert!(matches!(admission, Admission::Granted(_)), "{admission:?}");
}

#[tokio::test]
async fn memory_is_bounded_and_what_is_asked_for_stays() {
    let settings = Settings {
        bytes: 100_000,
        ..Settings::default()
    };
    let site = Site::with(settings);
    site.finish(&request("hot", 1), &outcome("done")).await;
    site.know(&request("hot", 2)).await;
    for number in 0..5_000 {
        let key = format!("key {number}");
        site.finish(&request(&key, 1), &outcome("done")).await;
        let _ = site.claim(&request(&key, 2)).await;
        if number % 20 == 0 {
            let _ = site.claim(&request("hot", 3)).await;
        }
        let kept = site.tiered.statistics().kept_bytes;
        assert!(kept <= 100_000, "{kept} bytes after {number}");
    }
    assert!(site.tiered.statistics().kept > 100);
    let before = site.counts();
    let _ = site.claim(&request("hot", 3)).await;
    assert_eq!(site.counts().0, before.0 + 1);
}

#[tokio::test]
async fn a_warm_cache_knows_what_was_completed_before_it() {
    let site = Site::new();
    for number in 0..2_500 {
        site.finish(&request(&format!("{number}"), 1), &outcome("done"))
            .await;
    }
    let _ = site.claim(&request("running", 1)).await;
    let restarted = Tiered::new(
        Arc::clone(&site.authority),
        Settings::default(),
        Arc::new(site.clock.clone()),
    );
    assert_eq!(
        restarted
            .warm(ListQuery::default(), u64::MAX)
            .await
            .expect("a list"),
        2_500
    );
    let batch: Vec<_> = (0..2_500)
        .map(|number| ClaimRequest {
            wants_outcome: false,
            ..request(&format!("{number}"), 2)
        })
        .collect();
    let answers = restarted.claim(batch.into()).await.expect("an answer");
    assert!(
        answers
            .iter()
            .all(|it| matches!(it, Admission::Replay { .. }))
    );
    assert_eq!(restarted.statistics().answered, 2_500);

    let bounded = Tiered::new(
        Arc::clone(&site.authority),
        Settings::default(),
        Arc::new(site.clock.clone()),
    );
    assert_eq!(
        bounded
            .warm(ListQuery::default(), 1_500)
            .await
            .expect("a list"),
        2_000,
        "whole pages"
    );
    let elsewhere = Scope::new("", "elsewhere").expect("a scope");
    assert_eq!(
        bounded
            .warm(ListQuery::in_scope(&elsewhere), 9)
            .await
            .expect("a list"),
        0
    );
}

#[tokio::test]
async fn without_the_authority_nothing_but_what_is_known_is_answered() {
    let site = Site::new();
    site.finish(&request("known", 1), &outcome("done")).await;
    site.finish(&request("hinted", 1), &outcome("done")).await;
    site.know(&request("known", 2)).await;
    site.authority.is_cut.store(true, Ordering::SeqCst);
    let (answered, read, asked) = site.counts();
    let admission = site.claim(&request("known", 3)).await;
    assert!(
        matches!(admission, Admission::Replay { .. }),
        "{admission:?}"
    );
    let failed = site.tiered.claim([request("absent", 3)].into()).await;
    assert!(failed.is_err(), "{failed:?}");
    let expected = (answered + 1, read, asked + 1);
    assert_eq!(site.counts(), expected, "a miss that failed is a miss");
    for key in ["new", "hinted"] {
        let alone = site.tiered.claim([request(key, 3)].into()).await;
        let is_failed = match &alone {
            Err(_) => true,
            Ok(answers) => matches!(answers[..], [Admission::Failed(_)]),
        };
        assert!(is_failed, "{key}: {alone:?}");
    }
    let mixed = [request("known", 3), request("new", 3)];
    let answered = site.tiered.claim(mixed.into()).await;
    assert!(answered.is_err(), "nothing is known of the batch");
}

#[tokio::test]
async fn a_store_that_others_use_is_told_with_what_the_cache_may_miss() {
    let site = Site::new();
    let alone = site.tiered.preflight().await.expect("an answer");
    let before = alone.warnings.len();
    site.authority.is_shared.store(true, Ordering::SeqCst);
    let shared = site.tiered.preflight().await.expect("an answer");
    assert_eq!(shared.warnings.len(), before + 1);
    assert!(
        shared.warnings[before].contains("60s"),
        "{:?}",
        shared.warnings
    );
    assert_eq!(shared.kind, "memory", "the store is what it was");
}
