//! Every step of a claim: what it does, and that repeating it is harmless.

use serde_json::{Value, json};

use crate::batches;
use crate::site::{Site, claim_of};

/// A kind of claim, by the members that it has beside its key.
fn kinds() -> [(&'static str, Value); 4] {
    [
        ("none", json!({})),
        ("keyed", json!({"class": "keyed", "provider_window": "24h"})),
        ("repeat", json!({"class": "unkeyed", "on_doubt": "repeat"})),
        ("park", json!({"class": "unkeyed", "on_doubt": "park"})),
    ]
}

/// Makes a step of a new claim of each kind, twice, and compares the states.
async fn each_kind(verb: &str, body: Value, states: [&str; 4]) {
    for ((kind, more), state) in kinds().into_iter().zip(states) {
        let site = Site::new();
        let claim = site.granted(&claim_of(kind, more)).await;
        for time in ["once", "twice"] {
            let now = site.state_after(&claim, verb, &body).await;
            assert_eq!(now, state, "{verb} {body} of {kind}, {time}");
        }
        let path = format!("/v1/operations?operation=charge&key={kind}");
        let record = site.get(&path).await.json();
        assert_eq!(record["state"], state);
        assert_eq!(record["attempts"], 1, "{verb} {body} of {kind}");
    }
}

#[tokio::test]
async fn a_start_marks_the_effect_and_a_renewal_tells_the_state() {
    each_kind("start", json!({}), ["started"; 4]).await;
    let renewed = ["claimed", "started", "started", "started"];
    each_kind("renew", json!({}), renewed).await;
    each_kind("renew", json!({"lease": "1h"}), renewed).await;
}

#[tokio::test]
async fn a_completion_completes() {
    each_kind("complete", json!({}), ["completed"; 4]).await;
    each_kind("complete", json!({"outcome": {"a": 1}}), ["completed"; 4]).await;
}

#[tokio::test]
async fn certainty_and_class_decide_a_release() {
    let surely = json!({"error": "away", "certainty": "not_applied"});
    each_kind("release", surely, ["released"; 4]).await;
    let doubted = ["in_doubt", "released", "released", "in_doubt"];
    each_kind("release", json!({"certainty": "maybe_applied"}), doubted).await;
    // Who says nothing may have applied it.
    each_kind("release", json!({}), doubted).await;
}

#[tokio::test]
async fn certainty_decides_a_failure() {
    let surely = json!({"error": "declined", "certainty": "not_applied"});
    each_kind("fail", surely, ["dead"; 4]).await;
    let doubted = ["in_doubt"; 4];
    each_kind("fail", json!({"certainty": "maybe_applied"}), doubted).await;
    each_kind("fail", json!({"error": "declined"}), doubted).await;
    each_kind("fail", json!({"decisive": true}), ["dead"; 4]).await;
    each_kind("fail", json!({"decisive": false}), doubted).await;
}

#[tokio::test]
async fn a_start_without_a_class_parks_on_doubt() {
    let site = Site::new();
    let body = claim_of("pay-1", json!({"lease": "10s"}));
    let claim = site.granted(&body).await;
    assert_eq!(
        site.state_after(&claim, "start", &json!({})).await,
        "started"
    );
    assert_eq!(
        site.state_after(&claim, "renew", &json!({})).await,
        "started"
    );
    site.advance(10);
    let next = site.claim(&body).await;
    assert_eq!(
        (&next["decision"], &next["state"]),
        (&json!("parked"), &json!("in_doubt"))
    );
    // Whoever knows better completes it all the same.
    assert_eq!(
        site.state_after(&claim, "complete", &json!({})).await,
        "completed"
    );
}

#[tokio::test]
async fn a_start_keeps_what_its_class_says_of_a_doubt() {
    let site = Site::new();
    let body = claim_of(
        "a",
        json!({"class": "unkeyed", "on_doubt": "repeat", "lease": "10s"}),
    );
    let claim = site.granted(&body).await;
    site.state_after(&claim, "start", &json!({})).await;
    site.advance(10);
    assert_eq!(site.claim(&body).await["possible_repeat"], true);
}

#[tokio::test]
async fn only_a_decisive_failure_drops_the_doubt_of_an_earlier_attempt() {
    for (decisive, state) in [(false, "in_doubt"), (true, "dead")] {
        let site = Site::new();
        let body = claim_of("pay-1", json!({"class": "keyed", "provider_window": "24h"}));
        let first = site.granted(&body).await;
        let unsure = json!({"error": "timed out", "certainty": "maybe_applied"});
        assert_eq!(
            site.state_after(&first, "release", &unsure).await,
            "released"
        );
        let second = site.granted(&body).await;
        let fail = json!({"error": "404", "certainty": "not_applied", "decisive": decisive});
        assert_eq!(site.state_after(&second, "fail", &fail).await, state);
    }
}

#[tokio::test]
async fn a_late_failure_settles_a_doubt_only_where_it_is_decisive() {
    let late = async |found: bool| {
        let site = Site::new();
        let body = claim_of("pay-1", json!({"class": "unkeyed", "lease": "10s"}));
        let claim = site.granted(&body).await;
        site.advance(10);
        if found {
            assert_eq!(site.claim(&body).await["state"], "in_doubt");
        }
        (site, body, claim)
    };
    let (site, body, claim) = late(true).await;
    for fail in [
        json!({"error": "404", "certainty": "not_applied"}),
        json!({"certainty": "maybe_applied"}),
        json!({"decisive": false}),
    ] {
        assert_eq!(site.state_after(&claim, "fail", &fail).await, "in_doubt");
        assert_eq!(site.claim(&body).await["certainty"], "maybe_applied");
    }
    let decisive = json!({"error": "card declined", "decisive": true});
    for time in ["once", "twice"] {
        let state = site.state_after(&claim, "fail", &decisive).await;
        assert_eq!(state, "dead", "{time}");
    }
    let parked = site.claim(&body).await;
    assert_eq!(
        (&parked["state"], &parked["certainty"]),
        (&json!("dead"), &json!("not_applied"))
    );
    let path = "/v1/operations?operation=charge&key=pay-1";
    let record = site.get(path).await.json();
    assert_eq!(record["last_error"], "card declined");
    // Where nobody found the doubt yet, a failure of the attempt speaks for the only one.
    let (site, _, claim) = late(false).await;
    let sure = json!({"certainty": "not_applied"});
    assert_eq!(site.state_after(&claim, "fail", &sure).await, "dead");
}

#[tokio::test]
async fn a_renewed_claim_is_not_taken_over() {
    let site = Site::new();
    let body = claim_of("pay-1", json!({"lease": "10s"}));
    let claim = site.granted(&body).await;
    site.advance(9);
    let answer = site.step(&claim, "renew", &json!({"lease": "20s"})).await;
    assert_eq!(
        answer.json(),
        json!({"state": "claimed", "lease_until": site.at(20)})
    );
    site.advance(19);
    assert_eq!(site.claim(&body).await["decision"], "busy");
    // Without a lease of its own a renewal asks for that of the claim.
    let answer = site.step(&claim, "renew", &json!({})).await;
    assert_eq!(answer.json()["lease_until"], site.at(10));
}

#[tokio::test]
async fn a_lost_claim_changes_nothing_and_names_the_operation() {
    let site = Site::new();
    let body = claim_of("pay-1", json!({"lease": "10s"}));
    let first = site.granted(&body).await;
    site.advance(10);
    let second = site.claim(&body).await;
    let steps = ["renew", "start", "complete", "release", "fail"];
    for verb in steps {
        let problem = site
            .step(&first, verb, &json!({}))
            .await
            .problem(409, "claim-lost");
        assert_eq!(problem["operation_id"], second["operation_id"], "{verb}");
        assert_eq!(problem["state"], "claimed", "{verb}");
    }
    let claim = second["claim"].as_str().expect("a claim");
    let done = json!({"outcome": "second"});
    assert_eq!(
        site.state_after(claim, "complete", &done).await,
        "completed"
    );
    let late = site
        .step(&first, "complete", &json!({"outcome": "first"}))
        .await;
    assert_eq!(late.problem(409, "claim-lost")["state"], "completed");
    assert_eq!(site.claim(&body).await["outcome"], "second");
    // Of a key that is forgotten, nothing is on record.
    site.advance(9 * 86_400);
    let problem = site
        .step(&first, "complete", &json!({}))
        .await
        .problem(409, "claim-lost");
    assert_eq!(
        (&problem["operation_id"], &problem["state"]),
        (&Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn what_may_have_happened_without_a_start_is_never_said_not_to_have() {
    for (verb, body) in [
        ("release", json!({"error": "timed out"})),
        ("fail", json!({"certainty": "maybe_applied"})),
    ] {
        let site = Site::new();
        let body_of_claim = claim_of("pay-1", json!({}));
        let claim = site.granted(&body_of_claim).await;
        for step in [
            (verb, body.clone()),
            (verb, body),
            ("complete", json!({"outcome": 1})),
        ] {
            let state = site.state_after(&claim, step.0, &step.1).await;
            let expected = if step.0 == verb {
                "in_doubt"
            } else {
                "completed"
            };
            assert_eq!(state, expected, "{step:?}");
            if step.0 == verb {
                let parked = site.claim(&body_of_claim).await;
                assert_eq!(parked["certainty"], "maybe_applied", "{parked}");
            }
        }
    }
    // In a batch each keeps its own answer.
    let site = Site::new();
    let granted =
        batches::claims(&site, &["a", "b", "c"].map(|key| claim_of(key, json!({})))).await;
    let step = |at: usize, step: &str| json!({"claim": granted[at]["claim"], "step": step});
    let steps = [step(0, "fail"), step(1, "complete"), step(2, "release")];
    let answers = batches::steps(&site, &steps).await;
    let states: Vec<_> = answers.iter().map(|it| it["state"].clone()).collect();
    assert_eq!(states, ["in_doubt", "completed", "in_doubt"]);
}

#[tokio::test]
async fn what_became_of_an_effect_counts_though_its_entity_went_to_another_claim() {
    let sure = json!({"certainty": "not_applied"});
    for (verb, body, state) in [
        ("fail", json!({"certainty": "maybe_applied"}), "in_doubt"),
        ("fail", sure.clone(), "dead"),
        ("release", json!({"error": "timed out"}), "in_doubt"),
        ("release", sure, "released"),
        ("complete", json!({}), "completed"),
    ] {
        let site = Site::new();
        let of_entity = |key: &str, version: u64| {
            claim_of(
                key,
                json!({"entity": "order-9", "version": version, "lease": "10s"}),
            )
        };
        let first = site.granted(&of_entity("pay-1", 3)).await;
        site.advance(10);
        let second = site.granted(&of_entity("pay-2", 4)).await;
        let lost = site.step(&first, "start", &json!({})).await;
        lost.problem(409, "claim-lost");
        for time in ["once", "twice"] {
            let now = site.state_after(&first, verb, &body).await;
            assert_eq!(now, state, "{verb} {body}, {time}");
        }
        // The entity stays with the claim that has it.
        let busy = site.claim(&of_entity("pay-3", 5)).await;
        assert_eq!(busy["decision"], "busy", "{busy}");
        let done = site.state_after(&second, "complete", &json!({})).await;
        assert_eq!(done, "completed");
    }
}

#[tokio::test]
async fn a_claim_that_is_in_doubt_is_told_that_a_completion_settles_it() {
    let site = Site::new();
    let body = claim_of("pay-1", json!({"class": "unkeyed", "lease": "10s"}));
    let claim = site.granted(&body).await;
    site.advance(10);
    assert_eq!(site.claim(&body).await["state"], "in_doubt");
    for verb in ["renew", "start"] {
        let lost = site.step(&claim, verb, &json!({})).await;
        let lost = lost.problem(409, "claim-lost");
        assert_eq!(lost["state"], "in_doubt");
        let detail = lost["detail"].as_str().expect("a sentence");
        assert!(detail.contains("complete it with this claim"), "{detail}");
        assert!(!detail.contains("discard"), "{detail}");
    }
    let state = site.state_after(&claim, "complete", &json!({})).await;
    assert_eq!(state, "completed");
}

#[tokio::test]
async fn a_repeated_completion_keeps_the_first_outcome() {
    let site = Site::new();
    let body = claim_of("pay-1", json!({}));
    let claim = site.granted(&body).await;
    for outcome in [json!("first"), json!("second")] {
        let done = json!({"outcome": outcome});
        assert_eq!(
            site.state_after(&claim, "complete", &done).await,
            "completed"
        );
    }
    assert_eq!(site.claim(&body).await["outcome"], "first");
}

#[tokio::test]
async fn a_claim_outlives_the_server_that_granted_it() {
    let site = Site::new();
    let more = json!({"class": "unkeyed", "on_doubt": "repeat", "window": "80s", "tenant": "acme", "lease": "15s"});
    let claim = site.granted(&claim_of(7, more.clone())).await;
    let other = site.restarted();
    assert_eq!(
        other.claim(&claim_of(7, more.clone())).await["decision"],
        "busy"
    );
    let renewed = other.step(&claim, "renew", &json!({})).await.json();
    assert_eq!(
        renewed,
        json!({"state": "started", "lease_until": site.at(15)})
    );
    assert_eq!(
        other
            .state_after(&claim, "complete", &json!({"outcome": 1}))
            .await,
        "completed"
    );
    let path = "/v1/operations?operation=charge&key=json:7&tenant=acme";
    assert_eq!(site.get(path).await.json()["remembered_until"], site.at(80));
}

#[tokio::test]
async fn attempts_that_fail_too_often_end() {
    let site = Site::with(|mut settings| {
        settings.limits.failed = std::num::NonZeroU32::MIN.saturating_add(2);
        settings
    });
    let body = claim_of("pay-1", json!({}));
    for state in ["released", "released", "dead"] {
        let claim = site.granted(&body).await;
        let release = json!({"error": "away", "certainty": "not_applied"});
        assert_eq!(site.state_after(&claim, "release", &release).await, state);
    }
    assert_eq!(site.claim(&body).await["state"], "dead");
}

#[tokio::test]
async fn a_reason_is_kept_in_one_line_and_never_refused_for_its_length() {
    let site = Site::new();
    for (key, error, kept) in [
        (
            "a",
            "card\ndeclined\t\u{7}\n".to_owned(),
            "card declined".to_owned(),
        ),
        ("b", "ü".repeat(5_000), "ü".repeat(2_048)),
    ] {
        let claim = site.granted(&claim_of(key, json!({}))).await;
        let fail = json!({"error": error, "certainty": "not_applied"});
        site.state_after(&claim, "fail", &fail).await;
        let path = format!("/v1/operations?operation=charge&key={key}");
        assert_eq!(site.get(&path).await.json()["last_error"], kept);
    }
}

#[tokio::test]
async fn a_step_without_members_needs_no_body() {
    use axum::body::Body;
    use axum::http::Request;
    let site = Site::new();
    let claim = site.granted(&claim_of("pay-1", json!({}))).await;
    for (verb, state) in [
        ("renew", "claimed"),
        ("start", "started"),
        ("complete", "completed"),
    ] {
        let request = Request::post(format!("/v1/claims/{claim}/{verb}"));
        let answer = site
            .send(request.body(Body::empty()).expect("a request"))
            .await;
        assert_eq!(
            (answer.status, &answer.json()["state"]),
            (200, &json!(state)),
            "{verb}"
        );
    }
}
