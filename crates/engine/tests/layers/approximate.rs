//! The promises that a store keeps although it loses a share of its effects, and the size of that
//! share.

use std::sync::Arc;
use std::time::Duration;

use semel_conformance::{Subject, TestClock, store_cases};
use semel_core::port::store::{Durability, ListQuery};
use semel_core::{
    Admission, ClaimId, ClaimRequest, Entropy, ErrorKind, Key, LawId, Outcome, Parked, Scope,
    Settled, Settlement, StateKind, Step, Store, Window,
};
use semel_engine::effect::{Class, OnDoubt};
use semel_engine::layer::approximate::{Approximate, Settings};
use semel_store_memory::MemoryStore;

/// Entropy that gives the same salt in every run.
struct Salt;

impl Entropy for Salt {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0x5e);
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

struct Filtered {
    clock: TestClock,
    kept: Arc<MemoryStore>,
    store: Arc<Approximate<Arc<MemoryStore>>>,
}

impl Filtered {
    fn with(settings: Settings) -> Self {
        let clock = TestClock::new();
        let shared = Arc::new(clock.clone());
        let kept = Arc::new(MemoryStore::new(shared.clone()));
        let store = Approximate::new(Arc::clone(&kept), settings, shared, &Salt);
        Self {
            clock,
            kept,
            store: Arc::new(store.expect("settings that hold")),
        }
    }

    /// Claims keys and completes those that are granted; returns their count.
    async fn run(&self, keys: impl Iterator<Item = String>) -> usize {
        let batch: Vec<_> = keys.map(|key| request(&key, 1)).collect();
        let answers = self
            .store
            .claim(batch.clone().into())
            .await
            .expect("an answer");
        let granted = batch.iter().zip(&answers);
        let granted = granted.filter(|(_, it)| matches!(it, Admission::Granted(_)));
        let settlements: Vec<_> = granted.map(|(it, _)| completion(it)).collect();
        let settled = self
            .store
            .settle(settlements.clone().into())
            .await
            .expect("an answer");
        let is_completed = |it: &Settled| matches!(it, Settled::Now(StateKind::Completed));
        assert!(settled.iter().all(is_completed));
        settlements.len()
    }
}

impl Subject for Filtered {
    type Store = Approximate<Arc<MemoryStore>>;

    async fn open() -> Self {
        Self::with(Settings {
            error_rate: 1e-9,
            ..Settings::new(Duration::from_secs(2), 10_000)
        })
    }

    fn store(&self) -> &Arc<Self::Store> {
        &self.store
    }

    fn clock(&self) -> Option<&TestClock> {
        Some(&self.clock)
    }
}

fn request(key: &str, claimant: u128) -> ClaimRequest {
    let scope = Scope::new("", "telemetry").expect("a scope");
    let key = Key::new(key).expect("a key");
    ClaimRequest {
        window: Window::new(HOUR),
        wants_outcome: false,
        ..ClaimRequest::new(scope, key, ClaimId::from_u128(claimant))
    }
}

fn completion(request: &ClaimRequest) -> Settlement {
    Settlement {
        operation: request.operation.clone(),
        claim_id: request.claim_id,
        step: Step::Complete {
            outcome: Outcome::empty(),
            window: request.window,
        },
    }
}

fn numbered(range: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    range.map(|number| format!("reading {number}"))
}

/// Laws that it keeps in every case: those that ask of a finished operation only that it is
/// finished.
const KEPT: [LawId; 8] = [
    LawId::OneClaim,
    LawId::LeaseOwned,
    LawId::Takeover,
    LawId::ReleasedAgain,
    LawId::DoubtParked,
    LawId::ProviderWindow,
    LawId::BusyIsNoAttempt,
    LawId::ParkedOnce,
];

#[test]
fn what_is_not_finished_is_kept_by_the_laws() {
    let mut kept = 0;
    for case in store_cases::<Filtered>() {
        if KEPT.contains(&case.law) {
            case.run();
            kept += 1;
        }
    }
    assert!(kept > 50, "{kept} cases");
}

#[tokio::test]
async fn a_finished_key_is_remembered_at_least_its_window_and_at_most_two() {
    for offset in [0, 1, 1_800, 3_599] {
        let site = Filtered::with(Settings::new(HOUR, 1_000));
        site.clock.advance(Duration::from_secs(offset));
        let key = || std::iter::once("a".to_owned());
        assert_eq!(site.run(key()).await, 1);
        for _ in 0..3_600 / 300 {
            site.clock.advance(Duration::from_secs(300));
            let known = site
                .store
                .claim([request("a", 2)].into())
                .await
                .expect("an answer");
            let skipped = matches!(known[..], [Admission::Replay { outcome: None, .. }]);
            assert!(skipped, "begun after {offset} s: {known:?}");
        }
        site.clock.advance(HOUR);
        assert_eq!(
            site.run(key()).await,
            1,
            "begun after {offset} s: new again"
        );
    }
}

#[tokio::test]
async fn after_a_long_silence_everything_is_forgotten() {
    let site = Filtered::with(Settings::new(HOUR, 1_000));
    assert_eq!(site.run(numbered(0..100)).await, 100);
    site.clock.advance(HOUR * 5);
    assert_eq!(site.run(numbered(0..100)).await, 100);
    assert_eq!(site.store.statistics().remembered, 100);
}

#[tokio::test]
async fn strange_keys_are_lost_at_most_at_the_declared_rate_and_that_is_measured() {
    for error_rate in [0.1, 0.01, 0.001] {
        let settings = Settings {
            error_rate,
            ..Settings::new(HOUR, 5_000)
        };
        let site = Filtered::with(settings);
        // As full as declared, twice over.
        for window in 0..2 {
            let mine = window * 5_000..(window + 1) * 5_000;
            let granted = site.run(numbered(mine)).await;
            assert!(granted >= 4_500, "{granted} at {error_rate}");
            if window == 0 {
                site.clock.advance(HOUR);
            }
        }
        let before = site.store.statistics();
        let strange: Vec<_> = numbered(1_000_000..1_030_000)
            .map(|key| request(&key, 1))
            .collect();
        let answers = site.store.claim(strange.into()).await.expect("an answer");
        let is_lost = |it: &&Admission| matches!(it, Admission::Replay { .. });
        let lost = answers.iter().filter(is_lost).count();
        let after = site.store.statistics();

        let share = f64::from(u32::try_from(lost).expect("few")) / 3e4;
        assert!(share <= error_rate, "{share} of {error_rate} are lost");
        assert!(
            share >= error_rate / 10.0,
            "{share} of {error_rate}: too large a filter"
        );
        assert!(after.estimated <= error_rate, "{after:?}");
        let probes = after.probes - before.probes;
        let mistaken = after.mistaken - before.mistaken;
        assert_eq!(probes, 30_000, "one for each claim");
        let measured = f64::from(u32::try_from(mistaken).expect("few")) / 3e4;
        let spread = (error_rate / 3e4).sqrt() * 5.0;
        assert!(
            (measured - share).abs() <= spread,
            "measured {measured}, true {share}"
        );
        assert!(after.measured().is_some_and(|it| it > 0.0));
    }
}

#[tokio::test]
async fn more_keys_than_declared_take_more_memory_and_no_more_losses_up_to_a_limit() {
    let settings = Settings {
        error_rate: 0.01,
        ..Settings::new(HOUR, 5_000)
    };
    let (declared, site) = (settings.bytes(), Filtered::with(settings));
    site.run(numbered(0..5_000)).await;
    let bytes = site.store.statistics().filter_bytes;
    assert!(bytes <= declared / 2 + 64, "{bytes} of {declared}");
    site.run(numbered(5_000..20_000)).await;
    let full = site.store.statistics();
    assert!(full.filter_bytes > bytes * 4, "{full:?}");
    assert!(full.estimated <= 0.01, "{full:?}");

    site.clock.advance(Duration::from_secs(600));
    let lost = 20_000 - full.finished;
    let more: Vec<_> = numbered(50_000..50_500)
        .map(|key| request(&key, 1))
        .collect();
    let answers = site
        .store
        .claim(more.clone().into())
        .await
        .expect("an answer");
    let mut refused = 0;
    for answer in &answers {
        if let Admission::Failed(error) = answer {
            assert_eq!(error.kind(), ErrorKind::Throttled);
            let after = Duration::from_secs(3_000);
            assert_eq!(error.advice(), semel_core::Advice::Retry { after });
            refused += 1;
        }
    }
    assert!(refused + lost + 50 >= 500, "{refused} refused");
    assert_eq!(site.store.statistics().refused, refused);
    let known = site
        .store
        .claim([request("reading 7", 2)].into())
        .await
        .expect("an answer");
    assert!(
        matches!(known[..], [Admission::Replay { .. }]),
        "duplicates go on"
    );

    site.clock.advance(Duration::from_secs(3_000));
    let again = site.store.claim(more.into()).await.expect("an answer");
    assert!(again.iter().all(|it| !matches!(it, Admission::Failed(_))));
}

#[tokio::test]
async fn an_attempt_that_failed_is_not_taken_for_finished() {
    let site = Filtered::with(Settings::new(HOUR, 1_000));
    let asked = request("a", 1);
    let granted = site
        .store
        .claim([asked.clone()].into())
        .await
        .expect("an answer");
    assert!(matches!(granted[..], [Admission::Granted(_)]));
    let failed = Settlement {
        step: Step::Release {
            error: "503".into(),
            certainty: semel_core::Certainty::NotApplied,
            after: Duration::ZERO,
            counted: true,
            limits: semel_core::AttemptLimits::default(),
            window: asked.window,
        },
        ..completion(&asked)
    };
    assert!(site.store.settle([failed].into()).await.is_ok());
    let again = site
        .store
        .claim([request("a", 2)].into())
        .await
        .expect("an answer");
    assert!(matches!(&again[..], [Admission::Granted(claim)] if claim.attempt == 2));
}

#[tokio::test]
async fn what_was_never_completed_is_not_taken_for_finished_once_its_record_is_gone() {
    let site = Filtered::with(Settings::new(HOUR, 1_000));
    let asked = request("a", 1);
    let granted = site.store.claim([asked.clone()].into()).await;
    assert!(granted.is_ok());
    let dead = Settlement {
        step: Step::Fail {
            decisive: false,
            error: "404".into(),
            window: asked.window,
        },
        ..completion(&asked)
    };
    assert!(site.store.settle([dead].into()).await.is_ok());
    site.clock.advance(HOUR + HOUR / 4);
    let again = site
        .store
        .claim([request("a", 2)].into())
        .await
        .expect("an answer");
    assert!(matches!(again[..], [Admission::Granted(_)]), "{again:?}");
}

#[tokio::test]
async fn a_completion_whose_answer_was_lost_can_be_repeated() {
    let site = Filtered::with(Settings::new(HOUR, 1_000));
    site.run(std::iter::once("a".to_owned())).await;
    let again = site
        .store
        .settle([completion(&request("a", 1))].into())
        .await
        .expect("an answer");
    assert!(matches!(again[..], [Settled::Now(StateKind::Completed)]));
    let strange = site
        .store
        .settle([completion(&request("b", 1))].into())
        .await
        .expect("an answer");
    assert!(matches!(strange[..], [Settled::Fenced { found: None }]));
}

#[tokio::test]
async fn a_late_completion_of_a_superseded_claim_is_not_taken_for_its_own() {
    let site = Filtered::with(Settings::new(HOUR, 1_000));
    let (late, next) = (request("a", 1), request("a", 2));
    for request in [&late, &next] {
        let claim = site.store.claim([request.clone()].into()).await;
        let claim = claim.expect("an answer");
        assert!(matches!(claim[..], [Admission::Granted(_)]), "{claim:?}");
        site.clock.advance(late.lease);
    }
    for (request, expected) in [(&next, true), (&late, false), (&next, true)] {
        let settled = site.store.settle([completion(request)].into()).await;
        let settled = settled.expect("an answer");
        let is_completed = matches!(settled[..], [Settled::Now(StateKind::Completed)]);
        let found = Some(StateKind::Completed);
        let is_fenced = matches!(settled[..], [Settled::Fenced { found: it }] if it == found);
        assert_eq!(
            (is_completed, is_fenced),
            (expected, !expected),
            "{settled:?}"
        );
    }
}

#[tokio::test]
async fn what_is_set_aside_is_kept_by_the_exact_store() {
    let site = Filtered::with(Settings::new(HOUR, 1_000));
    let parked = Parked {
        scope: Scope::new("", "telemetry").expect("a scope"),
        key: None,
        reason: "not-json".into(),
        detail: "".into(),
        transport: None,
        coordinates: "file:1".into(),
        headers: Vec::new(),
        payload: "no json".into(),
        since: semel_core::Timestamp::EPOCH,
    };
    let is_new = site
        .store
        .park([parked.clone()].into())
        .await
        .expect("an answer");
    assert_eq!(is_new, [true]);
    let query = ListQuery {
        limit: 10,
        ..ListQuery::default()
    };
    let kept = site.kept.list_parked(&query).await.expect("an answer");
    assert_eq!(kept.items.len(), 1);
    assert_eq!(site.store.stats().await.expect("an answer").parked, 1);
}

#[test]
fn classes_that_promise_more_are_refused_unless_the_pipeline_is_named() {
    let keyed = Class::Keyed {
        provider_window: HOUR,
    };
    let repeat = Class::Unkeyed(OnDoubt::Repeat);
    let settings = Settings::new(HOUR, 1_000);
    assert!(settings.check("telemetry", repeat, false).is_ok());
    for class in [Class::Transactional, keyed, Class::Unkeyed(OnDoubt::Park)] {
        let refused = settings.check("telemetry", class, false);
        let error = refused.expect_err("it loses effects");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{class:?}");
        let accepted = Settings {
            accepted_by: Some("telemetry".into()),
            ..settings.clone()
        };
        assert!(accepted.check("telemetry", class, false).is_ok());
        assert!(
            accepted.check("payments", class, false).is_err(),
            "by its own name"
        );
        assert!(accepted.check("telemetry", class, true).is_err(), "no gate");
    }
}

#[test]
fn what_cannot_be_sized_is_refused() {
    let fine = Settings::new(HOUR, 1_000);
    for settings in [
        Settings::new(HOUR, 0),
        Settings::new(Duration::ZERO, 1_000),
        Settings::new(HOUR, u64::MAX),
        Settings {
            error_rate: 0.0,
            ..fine.clone()
        },
        Settings {
            error_rate: 0.5,
            ..fine.clone()
        },
        Settings {
            error_rate: f64::NAN,
            ..fine
        },
    ] {
        let clock = Arc::new(TestClock::new());
        let kept = MemoryStore::new(clock.clone());
        let refused = Approximate::new(kept, settings.clone(), clock, &Salt);
        let error = refused.expect_err("it cannot be sized");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{settings:?}");
    }
}

#[tokio::test]
async fn it_says_that_it_is_approximate_forgets_and_is_alone() {
    let site = Filtered::with(Settings::new(HOUR, 1_000));
    let found = site.store.preflight().await.expect("an answer");
    assert_eq!(found.kind, "approximate");
    assert_eq!(found.durability, Durability::Process);
    assert!(!found.shared);
    assert!(found.warnings[0].contains("1000"), "{:?}", found.warnings);
}
