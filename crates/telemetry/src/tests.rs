use std::sync::Mutex;
use std::time::Duration;

use semel_core::port::source::DeliveryId;
use semel_core::port::store::{ListQuery, Swept};
use semel_core::{
    Certainty, ClaimId, ClaimRequest, Differing, Duplicate, Error, ErrorKind, FencingToken, Grant,
    Key, Operation, Result, Scope, StateKind, Store, Timestamp, forward_store,
};
use semel_engine::effect::Verdict;
use semel_engine::event::{Event, FanOut, Observer, Wait};
use semel_engine::summary::Fate;
use semel_engine::system::SystemClock;
use semel_store_memory::MemoryStore;

use super::*;

mod judged;

fn metrics() -> Metrics {
    Metrics::new(Build {
        version: "1.2.3",
        commit: "abc",
    })
}

fn operation() -> Operation {
    let scope = Scope::new("", "pay").expect("a scope");
    Operation::new(scope, Key::parse("secret-key").expect("a key"))
}

/// The value of a series in Prometheus's text.
#[track_caller]
fn value(metrics: &Metrics, series: &str) -> f64 {
    let text = metrics.text(Format::Prometheus);
    let rest = text.lines().find_map(|line| line.strip_prefix(series));
    let value = rest.and_then(|rest| rest.strip_prefix(' ')?.parse().ok());
    value.unwrap_or_else(|| panic!("no {series} in\n{text}"))
}

/// Asserts on a counter or a gauge, which is a whole number.
#[track_caller]
fn is(metrics: &Metrics, series: &str, expected: u32) {
    let value = value(metrics, series);
    assert!(
        (value - f64::from(expected)).abs() < 1e-9,
        "{series} {value}"
    );
}

fn grant(takeover: bool, formerly_expired: bool) -> Grant {
    Grant {
        token: FencingToken::new(1),
        attempt: 1,
        takeover,
        resumed: false,
        formerly_expired,
        possible_repeat: false,
    }
}

/// Asserts on the events of `each_answer_to_a_claim_is_a_decision`.
#[track_caller]
fn assert_decisions(metrics: &Metrics) {
    for (decision, count) in [
        ("granted", 3),
        ("replay", 5),
        ("busy", 1),
        ("conflict", 1),
        ("stale", 1),
        ("parked", 1),
        ("too_old", 2),
    ] {
        let series = format!("semel_decisions_total{{pipeline=\"pay\",decision=\"{decision}\"}}");
        is(metrics, &series, count);
    }
}

#[test]
fn each_answer_to_a_claim_is_a_decision() {
    let metrics = metrics();
    let pay = metrics.pipeline("pay", "http");
    let it = &operation();
    let at = "in:1";
    for (takeover, expired) in [(false, false), (true, false), (false, true)] {
        let grant = grant(takeover, expired);
        pay.observe(
            "pay",
            &Event::Granted {
                operation: it,
                grant,
            },
        );
    }
    for duplicate in [
        Duplicate::Redelivery,
        Duplicate::Republish,
        Duplicate::Republish,
        Duplicate::Unknown,
        Duplicate::Own,
    ] {
        let replayed = Event::Replayed {
            operation: it,
            duplicate,
        };
        pay.observe("pay", &replayed);
    }
    let wait = Duration::ZERO;
    pay.observe(
        "pay",
        &Event::Busy {
            operation: it,
            wait,
        },
    );
    pay.observe(
        "pay",
        &Event::Conflicted {
            operation: it,
            coordinates: at,
            duplicate: Duplicate::Unknown,
            differing: &Differing::NotKept,
        },
    );
    pay.observe(
        "pay",
        &Event::Stale {
            operation: it,
            applied: 1,
        },
    );
    pay.observe(
        "pay",
        &Event::Parked {
            operation: it,
            coordinates: at,
            state: StateKind::Dead,
        },
    );
    let (operation, coordinates) = (it, at);
    pay.observe(
        "pay",
        &Event::TooOld {
            operation,
            coordinates,
        },
    );
    pay.observe(
        "pay",
        &Event::LiveOnly {
            operation,
            coordinates,
        },
    );
    assert_decisions(&metrics);
    for (kind, count) in [("redelivery", 1), ("republish", 2), ("unknown", 1)] {
        let series = format!("semel_duplicates_total{{pipeline=\"pay\",kind=\"{kind}\"}}");
        is(&metrics, &series, count);
    }
    for (reason, count) in [
        ("fingerprint-conflict", 1),
        ("too-old", 1),
        ("live-only", 1),
    ] {
        let series = format!("semel_quarantined_total{{pipeline=\"pay\",reason=\"{reason}\"}}");
        is(&metrics, &series, count);
    }
    is(&metrics, "semel_takeovers_total{pipeline=\"pay\"}", 1);
    let exact = "semel_expired_again_total{pipeline=\"pay\",certainty=\"exact\"}";
    is(&metrics, exact, 1);
    let text = metrics.text(Format::Prometheus);
    assert!(!text.contains("secret-key"), "{text}");
}

#[test]
fn each_end_of_an_effect_is_counted_and_timed() {
    let metrics = metrics();
    let pay = metrics.pipeline("pay", "http");
    let error = || "why".into();
    let broken = |certainty| Verdict::Broken {
        error: error(),
        certainty,
    };
    let ends = [
        Verdict::Done([].as_slice().into()),
        Verdict::NotApplied {
            error: error(),
            retry_after: None,
        },
        Verdict::Away { error: error() },
        broken(Certainty::NotApplied),
        broken(Certainty::MaybeApplied),
        Verdict::MaybeApplied { error: error() },
        Verdict::Dead {
            error: error(),
            decisive: false,
        },
    ];
    for (place, verdict) in ends.iter().enumerate() {
        let ended = Event::EffectEnded {
            operation: &operation(),
            verdict,
            took: Duration::from_millis(3),
            with_claim: place == 0,
        };
        pay.observe("pay", &ended);
    }
    for (verdict, count) in [
        ("applied", 1),
        ("not_applied", 3),
        ("maybe_applied", 2),
        ("failed", 1),
    ] {
        let series = format!(
            "semel_effects_total{{pipeline=\"pay\",effect=\"http\",verdict=\"{verdict}\"}}"
        );
        is(&metrics, &series, count);
    }
    let bucket =
        |le| format!("semel_effect_seconds_bucket{{pipeline=\"pay\",effect=\"http\",le=\"{le}\"}}");
    is(&metrics, &bucket("0.0025"), 0);
    is(&metrics, &bucket("0.005"), 7);
    is(&metrics, &bucket("+Inf"), 7);
    let granted = "semel_decisions_total{pipeline=\"pay\",decision=\"granted\"}";
    is(&metrics, granted, 1);
}

#[test]
fn fates_waits_renewals_and_what_is_in_hand_are_counted() {
    let metrics = metrics();
    let pay = metrics.pipeline("pay", "sql");
    let other = metrics.pipeline("other", "sql");
    let settled = |fate, overhead| Event::Settled {
        delivery: DeliveryId(1),
        fate,
        overhead,
        sent_again: false,
    };
    let overhead = Some(Duration::from_micros(50));
    pay.observe("pay", &settled(Fate::Applied, overhead));
    pay.observe("pay", &settled(Fate::Quarantined, None));
    for why in Wait::ALL {
        pay.observe("pay", &Event::Waits { why: *why });
    }
    let (count, lost) = (5, 2);
    pay.observe("pay", &Event::Renewed { count, lost });
    let (running, held) = (7, 3);
    pay.observe("pay", &Event::InHand { running, held });
    let token = FencingToken::new(1);
    pay.observe(
        "pay",
        &Event::Fenced {
            operation: &operation(),
            token,
            found: None,
        },
    );
    pay.observe(
        "pay",
        &Event::Unprotected {
            operation: &operation(),
            attempt: 1,
        },
    );
    pay.observe(
        "pay",
        &Event::Completed {
            operation: &operation(),
            takeover: true,
        },
    );
    for (series, count) in [
        ("deliveries_total{pipeline=\"pay\",fate=\"applied\"}", 1),
        ("deliveries_total{pipeline=\"pay\",fate=\"quarantined\"}", 1),
        ("deliveries_total{pipeline=\"pay\",fate=\"dead\"}", 0),
        ("deliveries_total{pipeline=\"other\",fate=\"applied\"}", 0),
        ("overhead_seconds_count{pipeline=\"pay\"}", 1),
        ("overhead_seconds_bucket{pipeline=\"pay\",le=\"0.0001\"}", 1),
        ("waits_total{pipeline=\"pay\",why=\"busy\"}", 1),
        ("waits_total{pipeline=\"pay\",why=\"backoff\"}", 1),
        ("waits_total{pipeline=\"pay\",why=\"order\"}", 1),
        ("waits_total{pipeline=\"pay\",why=\"store\"}", 1),
        ("waits_total{pipeline=\"pay\",why=\"dead_letter\"}", 1),
        ("renewals_total{pipeline=\"pay\",result=\"renewed\"}", 5),
        ("renewals_total{pipeline=\"pay\",result=\"lost\"}", 2),
        ("in_flight{pipeline=\"pay\"}", 7),
        ("held{pipeline=\"pay\"}", 3),
        ("fenced_total{pipeline=\"pay\"}", 1),
        ("unprotected_total{pipeline=\"pay\"}", 1),
        ("takeovers_total{pipeline=\"pay\"}", 1),
    ] {
        is(&metrics, &format!("semel_{series}"), count);
    }
    drop(other);
    // Who watches a pipeline anew goes on where the last one ended.
    metrics
        .pipeline("pay", "sql")
        .observe("pay", &settled(Fate::Applied, None));
    let applied = "semel_deliveries_total{pipeline=\"pay\",fate=\"applied\"}";
    is(&metrics, applied, 2);
}

#[test]
fn what_began_again_and_what_ended_otherwise_is_counted_for_routes_and_operations_too() {
    let metrics = metrics();
    let observers: [(&str, Box<dyn Observer>); 3] = [
        ("pipeline", Box::new(metrics.pipeline("pipeline", "http"))),
        ("route", Box::new(metrics.route("route"))),
        ("operation", Box::new(metrics.operation("operation"))),
    ];
    let operation = &operation();
    let granted = |formerly_expired| Event::Granted {
        operation,
        grant: grant(false, formerly_expired),
    };
    let takeover = false;
    for (name, observer) in &observers {
        observer.observe(name, &granted(true));
        observer.observe(
            name,
            &Event::Completed {
                operation,
                takeover,
            },
        );
        observer.observe(name, &granted(false));
        observer.observe(name, &granted(false));
        observer.observe(name, &Event::OutcomeDiffers { operation });
        for (series, count) in [
            ("outcome_differs_total{pipeline=\"NAME\"}", 1),
            (
                "expired_again_total{pipeline=\"NAME\",certainty=\"exact\"}",
                1,
            ),
            (
                "expired_again_total{pipeline=\"NAME\",certainty=\"likely\"}",
                1,
            ),
        ] {
            is(
                &metrics,
                &format!("semel_{}", series.replace("NAME", name)),
                count,
            );
        }
    }
}

#[test]
fn each_fate_has_its_word() {
    let metrics = metrics();
    let pay = metrics.pipeline("pay", "http");
    let words = [
        (Fate::Applied, "applied"),
        (Fate::Replayed, "replayed"),
        (Fate::Stale, "stale"),
        (Fate::Conflict, "conflicts"),
        (Fate::TooOld, "too_old"),
        (Fate::Released, "released"),
        (Fate::Dead, "dead"),
        (Fate::InDoubt, "in_doubt"),
        (Fate::Quarantined, "quarantined"),
        (Fate::Unprotected, "unprotected"),
    ];
    assert_eq!(words.map(|(_, word)| word), pipeline::FATES);
    for (fate, word) in words {
        let settled = Event::Settled {
            delivery: DeliveryId(1),
            fate,
            overhead: None,
            sent_again: false,
        };
        pay.observe("pay", &settled);
        let series = format!("semel_deliveries_total{{pipeline=\"pay\",fate=\"{word}\"}}");
        is(&metrics, &series, 1);
    }
}

/// Goes on by a millisecond each time that it is read.
#[derive(Debug, Default)]
struct Ticking(Mutex<Duration>);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH
    }

    fn monotonic(&self) -> Duration {
        let mut now = self.0.lock().expect("no panic");
        *now += Duration::from_millis(1);
        *now
    }
}

/// Fails to settle, and sweeps as it is told.
struct Failing(MemoryStore);

impl Store for Failing {
    forward_store!(self => self.0; but settle, sweep);

    async fn settle(&self, _: Arc<[semel_core::Settlement]>) -> Result<Vec<semel_core::Settled>> {
        Err(Error::new(ErrorKind::Timeout, "no answer"))
    }

    async fn sweep(&self, _: usize) -> Result<Swept> {
        Ok(Swept {
            removed: 4,
            doubted: 2,
            abandoned: 1,
            more: false,
        })
    }
}

#[tokio::test]
async fn each_call_of_a_store_is_timed_and_a_failure_is_counted_by_its_code() {
    let metrics = metrics();
    let store = metrics.store("memory:", Arc::new(Ticking::default()));
    let store = store.measure(Failing(MemoryStore::new(Arc::new(SystemClock::new()))));
    let Operation { scope, key } = operation();
    let request = ClaimRequest::new(scope, key, ClaimId::from_u128(1));
    for _ in 0..3 {
        let _ = store.claim([request.clone()].into()).await.expect("memory");
    }
    assert!(store.settle([].into()).await.is_err());
    let _ = store.list(&ListQuery::default()).await.expect("memory");
    let _ = store.list_audit(&ListQuery::default()).await;
    let _ = store.get([operation()].into()).await.expect("memory");
    let _ = store.sweep(10).await.expect("as told");
    for (call, count) in [
        ("claim", 3),
        ("settle", 1),
        ("renew", 0),
        ("list", 2),
        ("read", 1),
        ("sweep", 1),
    ] {
        let labels = format!("{{store=\"memory:\",call=\"{call}\"}}");
        is(
            &metrics,
            &format!("semel_store_call_seconds_count{labels}"),
            count,
        );
    }
    let sum = "semel_store_call_seconds_sum{store=\"memory:\",call=\"claim\"}";
    assert!((value(&metrics, sum) - 0.003).abs() < 1e-9);
    let code = Error::new(ErrorKind::Timeout, "no answer").code();
    let errors = format!(
        "semel_store_errors_total{{store=\"memory:\",call=\"settle\",kind=\"{}\"}}",
        code.as_str()
    );
    is(&metrics, &errors, 1);
    for (what, count) in [("removed", 4), ("doubted", 2), ("abandoned", 1)] {
        let swept = format!("semel_swept_total{{store=\"memory:\",what=\"{what}\"}}");
        is(&metrics, &swept, count);
    }
}

/// Never answers a claim.
struct Silent(MemoryStore);

impl Store for Silent {
    forward_store!(self => self.0; but claim);

    async fn claim(&self, _: Arc<[ClaimRequest]>) -> Result<Vec<semel_core::Admission>> {
        std::future::pending().await
    }
}

/// Stands still until somebody moves it.
#[derive(Debug, Default)]
struct Moved(Mutex<Duration>);

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH
    }

    fn monotonic(&self) -> Duration {
        *self.0.lock().expect("no panic")
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_is_timed_and_fails_if_it_took_as_long_as_anybody_waits() {
    let metrics = metrics();
    let clock = Arc::new(Moved::default());
    let store = metrics.store("memory:", clock.clone());
    let store = store.measure(Silent(MemoryStore::new(Arc::new(SystemClock::new()))));
    for seconds in [29, 30] {
        {
            let call = store.claim([].into());
            let mut call = std::pin::pin!(call);
            let waited = tokio::time::timeout(Duration::ZERO, &mut call).await;
            assert!(waited.is_err());
            *clock.0.lock().expect("no panic") += Duration::from_secs(seconds);
        }
    }
    let count = "semel_store_call_seconds_count{store=\"memory:\",call=\"claim\"}";
    is(&metrics, count, 2);
    let errors = "semel_store_errors_total{store=\"memory:\",call=\"claim\",kind=\"timeout\"}";
    is(&metrics, errors, 1);
}

#[test]
fn a_scrape_gets_the_format_that_it_asks_for() {
    // What Prometheus 2 and 3 send, and what others do.
    let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
        text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
    let classic = "text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    for (accept, format) in [
        (None, Format::Prometheus),
        (Some("*/*"), Format::Prometheus),
        (Some(classic), Format::Prometheus),
        (Some(prometheus), Format::OpenMetrics),
    ] {
        assert_eq!(Format::asked_for(accept), format, "{accept:?}");
    }
    let metrics = metrics();
    let _ = metrics.pipeline("pay", "http");
    let classic = metrics.text(Format::Prometheus);
    assert!(
        classic.contains("# TYPE semel_decisions_total counter\n"),
        "{classic}"
    );
    assert!(!classic.contains("# EOF"), "{classic}");
    let open = metrics.text(Format::OpenMetrics);
    assert!(open.contains("# TYPE semel_decisions counter\n"), "{open}");
    assert!(open.ends_with("# EOF\n"), "{open}");
    is(
        &metrics,
        "semel_build_info{version=\"1.2.3\",commit=\"abc\"}",
        1,
    );
}

#[test]
fn samples_are_taken_at_each_scrape() {
    let metrics = metrics();
    let count = Arc::new(Mutex::new(0));
    let taken = Arc::clone(&count);
    metrics.sample(move || {
        let mut count = taken.lock().expect("no panic");
        *count += 1;
        let sample = Sample::new([("pipeline", "a\"b")], *count);
        let sampled = SampledFamily::counter("semel_sampled", "Help.", vec![sample.clone()]);
        vec![
            sampled,
            SampledFamily::gauge("semel_level", "Help.", vec![sample]),
        ]
    });
    is(&metrics, "semel_sampled_total{pipeline=\"a\\\"b\"}", 1);
    is(&metrics, "semel_level{pipeline=\"a\\\"b\"}", 2);
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_has_its_usual_metrics() {
    let metrics = metrics();
    assert!(value(&metrics, "process_resident_memory_bytes") > 1e6);
    assert!(value(&metrics, "process_open_fds") > 2.0);
    assert!(value(&metrics, "process_threads") >= 1.0);
    // Later than 2020, and not in a year to come.
    assert!((1.6e9..1e10).contains(&value(&metrics, "process_start_time_seconds")));
    assert!(value(&metrics, "process_cpu_seconds_total") >= 0.0);
}

#[test]
fn a_fan_out_tells_all() {
    let metrics = metrics();
    let (pay, other) = (
        metrics.pipeline("pay", "http"),
        metrics.pipeline("other", "http"),
    );
    let both = FanOut::new([Arc::new(pay) as Arc<dyn Observer>, Arc::new(other)]);
    both.observe("pay", &Event::Waits { why: Wait::Busy });
    for pipeline in ["pay", "other"] {
        let series = format!("semel_waits_total{{pipeline=\"{pipeline}\",why=\"busy\"}}");
        is(&metrics, &series, 1);
    }
}
