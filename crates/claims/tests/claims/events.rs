//! The events that an observer is told, by the name of the operation.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use semel_claims::{MOST_NAMED, OTHERS};
use semel_engine::event::{Event, Observer};
use serde_json::json;

use crate::site::{Site, claim_of};

/// Notes the name of the pipeline and the kind of each event.
#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl Observer for Seen {
    fn observe(&self, pipeline: &str, event: &Event<'_>) {
        let event = format!("{event:?}");
        let kind = event.split([' ', '{']).next().unwrap_or_default();
        self.0
            .lock()
            .expect("no panic")
            .push(format!("{pipeline} {kind}"));
    }
}

impl Seen {
    /// Takes what was seen, all of it of the operation `charge`.
    fn take(&self) -> Vec<String> {
        let seen = std::mem::take(&mut *self.0.lock().expect("no panic"));
        let kind = |it: String| it.strip_prefix("charge ").map(str::to_owned);
        seen.into_iter()
            .map(|it| kind(it).expect("its name"))
            .collect()
    }
}

fn site() -> (Arc<Seen>, Site) {
    let seen = Arc::new(Seen::default());
    let observer = Arc::clone(&seen);
    let site = Site::with(|mut settings| {
        settings.surroundings.observer = observer;
        settings
    });
    (seen, site)
}

#[tokio::test]
async fn every_decision_is_told() {
    let (seen, site) = site();
    let body = claim_of("pay-1", json!({"fingerprint": 1}));
    let claim = site.granted(&body).await;
    site.claim(&body).await;
    site.claim(&claim_of("pay-1", json!({"fingerprint": 2})))
        .await;
    site.state_after(&claim, "complete", &json!({})).await;
    site.claim(&body).await;
    assert_eq!(
        seen.take(),
        ["Granted", "Busy", "Conflicted", "Completed", "Replayed"]
    );
    let old = json!({"birth": site.ago(30 * 86_400)});
    site.claim(&claim_of("old", old)).await;
    let gate = json!({"entity": "order-9", "version": 3});
    let claim = site.granted(&claim_of("a", gate.clone())).await;
    site.state_after(&claim, "complete", &json!({})).await;
    site.claim(&claim_of("b", gate)).await;
    assert_eq!(seen.take(), ["TooOld", "Granted", "Completed", "Stale"]);
}

#[tokio::test]
async fn names_that_clients_choose_are_bounded() {
    let (seen, site) = site();
    for number in 0..MOST_NAMED + 10 {
        let mut body = claim_of("a", json!({}));
        body["operation"] = json!(format!("charge-{number}"));
        site.claim(&body).await;
    }
    let seen = std::mem::take(&mut *seen.0.lock().expect("no panic"));
    let others = format!("{OTHERS} Granted");
    assert_eq!(seen.iter().filter(|it| **it == others).count(), 10);
    let names: HashSet<_> = seen.iter().collect();
    assert_eq!(names.len(), MOST_NAMED + 1);
}

#[tokio::test]
async fn every_end_of_an_attempt_is_told() {
    let (seen, site) = site();
    let surely = json!({"certainty": "not_applied"});
    for (key, verb, body, told) in [
        ("a", "release", surely.clone(), "Released"),
        ("b", "fail", surely, "Dead"),
        ("c", "fail", json!({}), "InDoubt"),
        ("d", "release", json!({}), "InDoubt"),
    ] {
        let claim = site.granted(&claim_of(key, json!({}))).await;
        site.state_after(&claim, verb, &body).await;
        assert_eq!(seen.take(), ["Granted", told], "{key}");
    }
    site.claim(&claim_of("c", json!({}))).await;
    assert_eq!(seen.take(), ["Parked"]);
    let body = claim_of("e", json!({"lease": "10s"}));
    let first = site.granted(&body).await;
    site.advance(10);
    site.claim(&body).await;
    for verb in ["renew", "complete"] {
        site.step(&first, verb, &json!({})).await;
    }
    assert_eq!(seen.take(), ["Granted", "Granted", "Fenced", "Fenced"]);
}
