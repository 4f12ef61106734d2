//! Judgements over time: keys that begin again, storms, replays, tenants, payloads under new keys.

use semel_core::{Claimant, Key, Scope};
use semel_engine::effect::OnDoubt;
use semel_engine::event::Origin;
use semel_engine::once::{Failure, Once, Settings};
use semel_engine::surroundings::Surroundings;
use semel_engine::system::SystemEntropy;

use super::*;

/// The operation of a key of a tenant.
fn of(tenant: &str, key: u64) -> Operation {
    let scope = Scope::new(tenant, "pay").expect("a scope");
    Operation::new(scope, Key::from(key))
}

fn granted(pipeline: &PipelineMetrics, operation: &Operation, formerly_expired: bool) {
    let grant = grant(false, formerly_expired);
    pipeline.observe("pay", &Event::Granted { operation, grant });
}

fn completed(pipeline: &PipelineMetrics, operation: &Operation) {
    let takeover = false;
    let completed = Event::Completed {
        operation,
        takeover,
    };
    pipeline.observe("pay", &completed);
}

#[test]
fn a_key_that_begins_again_after_its_record_has_gone_is_likely_expired() {
    let metrics = metrics();
    let pay = metrics.pipeline("pay", "http");
    for key in 0..10 {
        granted(&pay, &of("", key), false);
        completed(&pay, &of("", key));
    }
    // Three come again after a sweep, each of them failing twice; two are found past their window.
    for key in 0..3 {
        granted(&pay, &of("", key), false);
        granted(&pay, &of("", key), false);
        granted(&pay, &of("", key), false);
        completed(&pay, &of("", key));
    }
    for key in 3..5 {
        granted(&pay, &of("", key), true);
    }
    for key in 100..200 {
        granted(&pay, &of("", key), false);
    }
    let series = |certainty| {
        format!("semel_expired_again_total{{pipeline=\"pay\",certainty=\"{certainty}\"}}")
    };
    is(&metrics, &series("likely"), 3);
    is(&metrics, &series("exact"), 2);
    // Whoever completed it, the process knows.
    let other = metrics.pipeline("other", "http");
    granted(&other, &of("", 9), false);
    let likely = "semel_expired_again_total{pipeline=\"other\",certainty=\"likely\"}";
    is(&metrics, likely, 1);
}

#[test]
fn a_transaction_that_is_its_own_claim_tells_of_a_key_that_begins_again() {
    let metrics = metrics();
    let pay = metrics.pipeline("pay", "sql");
    let verdict = &Verdict::Done([].as_slice().into());
    for key in [1, 2, 1] {
        let operation = &of("", key);
        let (took, with_claim) = (Duration::ZERO, true);
        let ended = Event::EffectEnded {
            operation,
            verdict,
            took,
            with_claim,
        };
        pay.observe("pay", &ended);
        completed(&pay, operation);
    }
    let likely = "semel_expired_again_total{pipeline=\"pay\",certainty=\"likely\"}";
    is(&metrics, likely, 1);
}

/// Plays a second with deliveries of this fate.
fn play(pay: &PipelineMetrics, fate: Fate, count: u64, sent_again: bool) {
    let operation = &operation();
    for _ in 0..count {
        if fate == Fate::Replayed {
            let duplicate = Duplicate::Redelivery;
            pay.observe(
                "pay",
                &Event::Replayed {
                    operation,
                    duplicate,
                },
            );
        } else {
            granted(pay, operation, false);
        }
        let settled = Event::Settled {
            delivery: DeliveryId(1),
            fate,
            overhead: None,
            sent_again,
        };
        pay.observe("pay", &settled);
    }
}

#[test]
fn a_storm_of_duplicates_is_told_and_its_duplicates_are_replays() {
    let metrics = metrics();
    let pay = metrics.pipeline("pay", "http");
    let mut second = 0;
    let mut look = || {
        second += 1;
        metrics.look(Duration::from_secs(second));
    };
    let storm = "semel_storm{pipeline=\"pay\"}";
    let replays = "semel_replays_total{pipeline=\"pay\"}";
    assert!(!metrics.text(Format::Prometheus).contains(storm));
    look();
    is(&metrics, storm, 0);
    // A tenth of the messages.
    for _ in 0..120 {
        play(&pay, Fate::Applied, 9, false);
        play(&pay, Fate::Replayed, 1, false);
        look();
        is(&metrics, storm, 0);
    }
    // Five were sent again on purpose.
    play(&pay, Fate::Applied, 5, true);
    look();
    is(&metrics, replays, 5);
    for _ in 0..60 {
        play(&pay, Fate::Replayed, 10, false);
        look();
    }
    is(&metrics, storm, 1);
    // The storm's, and those of the forty seconds before it was seen.
    let counted = value(&metrics, replays);
    assert!((605.0..=645.0).contains(&counted), "{counted}");
    for _ in 0..180 {
        play(&pay, Fate::Applied, 9, false);
        look();
    }
    is(&metrics, storm, 0);
}

#[test]
fn decisions_have_the_tenant_of_their_operation_where_there_is_one() {
    let metrics = metrics();
    let (pay, ship) = (
        metrics.pipeline("pay", "http"),
        metrics.pipeline("ship", "http"),
    );
    let text = metrics.text(Format::Prometheus);
    assert!(!text.contains("semel_tenant_decisions_total{"), "{text}");
    granted(&pay, &of("", 1), false);
    for key in 0..3 {
        granted(&pay, &of("acme", key), false);
    }
    granted(&ship, &of("acme", 7), false);
    let operation = &of("zeta", 1);
    ship.observe(
        "ship",
        &Event::Replayed {
            operation,
            duplicate: Duplicate::Unknown,
        },
    );
    for (tenant, decision, count) in [
        ("acme", "granted", 4),
        ("acme", "replay", 0),
        ("zeta", "granted", 0),
        ("zeta", "replay", 1),
        ("other", "granted", 0),
    ] {
        let series =
            format!("semel_tenant_decisions_total{{tenant=\"{tenant}\",decision=\"{decision}\"}}");
        is(&metrics, &series, count);
    }
    let text = metrics.text(Format::Prometheus);
    assert!(!text.contains("tenant=\"\""), "{text}");
}

#[test]
fn payloads_under_new_keys_are_a_share_where_keys_are_watched() {
    let metrics = metrics();
    let (pay, plain) = (
        metrics.pipeline("pay", "http").watching_keys(),
        metrics.pipeline("plain", "http"),
    );
    metrics.look(Duration::from_secs(1));
    for key in 0..4 {
        let origin = Origin::new("in:1", &[]).with_payload(b"the same");
        let (operation, grant) = (&of("", key), grant(false, false));
        let granted = Event::Granted { operation, grant };
        pay.observe_message("pay", &granted, origin);
        plain.observe_message("plain", &granted, origin);
    }
    metrics.look(Duration::from_secs(2));
    let share = value(&metrics, "semel_key_churn{pipeline=\"pay\"}");
    assert!((share - 0.75).abs() < 1e-9, "{share}");
    let text = metrics.text(Format::Prometheus);
    assert!(!text.contains("semel_key_churn{pipeline=\"plain\"}"));
    let granted = "semel_decisions_total{pipeline=\"pay\",decision=\"granted\"}";
    is(&metrics, granted, 4);
}

/// Two messages with equal payloads that are tried in turns, by their claims or by transactions that contain them.
#[test]
fn a_message_that_is_tried_again_is_no_other_key() {
    let origin = Origin::new("in:1", &[]);
    for is_transaction in [false, true] {
        let metrics = metrics();
        let pay = metrics.pipeline("pay", "http").watching_keys();
        metrics.look(Duration::from_secs(1));
        for attempt in 1..=3 {
            for key in [1, 2] {
                let operation = &of("", key);
                let error: Box<str> = "no answer".into();
                let failed = Verdict::NotApplied {
                    error,
                    retry_after: None,
                };
                let done = Verdict::Done([].as_slice().into());
                let event = if is_transaction {
                    Event::EffectEnded {
                        operation,
                        verdict: if attempt == 3 { &done } else { &failed },
                        took: Duration::ZERO,
                        with_claim: true,
                    }
                } else {
                    let grant = Grant {
                        attempt,
                        ..grant(false, false)
                    };
                    Event::Granted { operation, grant }
                };
                pay.observe_message("pay", &event, origin.with_payload(b"the same"));
            }
        }
        metrics.look(Duration::from_secs(2));
        let share = value(&metrics, "semel_key_churn{pipeline=\"pay\"}");
        assert!((share - 0.5).abs() < 1e-9, "{share}");
    }
}

#[test]
fn only_the_first_attempt_at_a_message_counts_for_new_keys() {
    let metrics = metrics();
    let pay = metrics.pipeline("pay", "http").watching_keys();
    metrics.look(Duration::from_secs(1));
    let first = grant(false, false);
    let second = Grant {
        attempt: 2,
        ..first
    };
    let resumed = Grant {
        resumed: true,
        ..first
    };
    let grants = [first, second, grant(true, false), resumed];
    for (key, grant) in (0..).zip(grants) {
        let (operation, origin) = (&of("", key), Origin::new("in:1", &[]));
        let granted = Event::Granted { operation, grant };
        pay.observe_message("pay", &granted, origin.with_payload(b"the same"));
    }
    metrics.look(Duration::from_secs(2));
    is(&metrics, "semel_key_churn{pipeline=\"pay\"}", 0);
}

#[test]
fn a_sample_may_be_no_whole_number_or_infinite() {
    let metrics = metrics();
    metrics.sample(|| {
        let each = [("a", 2.5), ("b", f64::INFINITY)];
        let samples = each.map(|(name, value)| Sample::real([("pipeline", name)], value));
        vec![SampledFamily::gauge(
            "semel_needed",
            "Help.",
            samples.into(),
        )]
    });
    let text = metrics.text(Format::Prometheus);
    for line in [
        "semel_needed{pipeline=\"a\"} 2.5",
        "semel_needed{pipeline=\"b\"} +Inf",
    ] {
        assert!(text.lines().any(|it| it == line), "{text}");
    }
}

#[tokio::test]
async fn calls_of_a_handle_count_as_messages_do() {
    let metrics = metrics();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = Arc::new(MemoryStore::new(Arc::clone(&clock)));
    let surroundings = Surroundings {
        clock,
        entropy: Arc::new(SystemEntropy),
        claimant: Claimant::random(&SystemEntropy),
        observer: Arc::new(metrics.pipeline("pay", "call")),
    };
    let handle = Once::with(store, surroundings, Settings::default(), None);
    let pay = || {
        let pay = handle.operation("pay").tenant("acme");
        pay.unkeyed(OnDoubt::Park)
    };
    for key in ["a", "b", "a", "a"] {
        let paid = pay().once(key, async |_| Ok("receipt".to_owned())).await;
        assert!(paid.is_ok());
    }
    let declined = async |_| Err::<String, _>(Failure::dead("declined"));
    assert!(pay().once("c", declined).await.is_err());
    for (series, count) in [
        ("decisions_total{pipeline=\"pay\",decision=\"granted\"}", 3),
        ("decisions_total{pipeline=\"pay\",decision=\"replay\"}", 2),
        (
            "effects_total{pipeline=\"pay\",effect=\"call\",verdict=\"applied\"}",
            2,
        ),
        (
            "effects_total{pipeline=\"pay\",effect=\"call\",verdict=\"failed\"}",
            1,
        ),
        ("effect_seconds_count{pipeline=\"pay\",effect=\"call\"}", 3),
        (
            "tenant_decisions_total{tenant=\"acme\",decision=\"granted\"}",
            3,
        ),
        (
            "tenant_decisions_total{tenant=\"acme\",decision=\"replay\"}",
            2,
        ),
    ] {
        is(&metrics, &format!("semel_{series}"), count);
    }
}
