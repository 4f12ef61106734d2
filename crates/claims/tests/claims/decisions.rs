//! Every decision about a claim, as a client meets it.

use serde_json::{Value, json};

use crate::batches;
use crate::site::{Site, claim_of};

/// Members of an answer beside `decision`, sorted.
fn members(decision: &Value) -> Vec<&str> {
    let members = decision.as_object().expect("an object").keys();
    let mut members: Vec<&str> = members.map(String::as_str).collect();
    members.retain(|name| *name != "decision");
    members.sort_unstable();
    members
}

#[tokio::test]
async fn a_new_key_is_granted() {
    let site = Site::new();
    let decision = site
        .claim(&claim_of("pay-1", json!({"lease": "10s"})))
        .await;
    let expected = [
        "attempt",
        "claim",
        "idempotency_key",
        "lease_until",
        "operation_id",
        "possible_repeat",
        "resumed",
        "takeover",
        "token",
    ];
    assert_eq!(decision["decision"], "granted");
    assert_eq!(members(&decision), expected);
    assert_eq!(decision["attempt"], 1);
    assert_eq!(decision["lease_until"], site.at(10));
    for flag in ["takeover", "resumed", "possible_repeat"] {
        assert_eq!(decision[flag], false, "{flag}");
    }
    let id = decision["operation_id"].as_str().expect("an id");
    assert_eq!(id.len(), 64);
    assert_eq!(decision["idempotency_key"], id);
    assert!(decision["token"].as_u64().is_some_and(|token| token > 0));
}

#[tokio::test]
async fn a_finished_key_replays_its_outcome() {
    let site = Site::new();
    let first = claim_of("pay-1", json!({"transport": "evt-1"}));
    let granted = site.claim(&first).await;
    let (id, claim) = (&granted["operation_id"], granted["claim"].as_str());
    let claim = claim.expect("a claim");
    let done = json!({"outcome": {"charge": "ch_1"}});
    assert_eq!(
        site.state_after(claim, "complete", &done).await,
        "completed"
    );
    let at = site.at(0);
    site.advance(5);
    for (more, duplicate) in [
        (json!({"transport": "evt-1"}), "redelivery"),
        (json!({"transport": "evt-2"}), "republish"),
        (json!({}), "unknown"),
    ] {
        let decision = site.claim(&claim_of("pay-1", more)).await;
        let expected = json!({
            "decision": "replay", "operation_id": id, "outcome": {"charge": "ch_1"}, "completed_at": at,
            "duplicate": duplicate,
        });
        assert_eq!(decision, expected);
    }
}

#[tokio::test]
async fn a_held_key_is_busy_until_its_lease_ends_and_then_taken_over() {
    let site = Site::new();
    let body = claim_of("pay-1", json!({"lease": "10s"}));
    let first = site.claim(&body).await;
    let until = site.at(10);
    site.advance(4);
    let id = &first["operation_id"];
    let expected = json!({
        "decision": "busy", "operation_id": id, "until": until, "retry_after_ms": 6_000,
    });
    assert_eq!(site.claim(&body).await, expected);
    site.advance(6);
    let second = site.claim(&body).await;
    assert_eq!(second["decision"], "granted");
    assert_eq!(second["takeover"], true);
    assert_eq!(second["attempt"], 2);
    assert!(second["token"].as_u64() > first["token"].as_u64());
    assert_eq!(second["idempotency_key"], first["idempotency_key"]);
    assert_ne!(second["claim"], first["claim"]);
}

#[tokio::test]
async fn a_released_key_is_busy_until_its_next_attempt_is_due() {
    let site = Site::new();
    let body = claim_of("pay-1", json!({}));
    let granted = site.claim(&body).await;
    let claim = granted["claim"].as_str().expect("a claim");
    let release = json!({"error": "away", "certainty": "not_applied", "not_before": site.at(60)});
    assert_eq!(
        site.state_after(claim, "release", &release).await,
        "released"
    );
    let busy = site.claim(&body).await;
    let id = &granted["operation_id"];
    let expected = json!({
        "decision": "busy", "operation_id": id, "until": site.at(60), "retry_after_ms": 60_000,
    });
    assert_eq!(busy, expected);
    site.advance(60);
    let again = site.claim(&body).await;
    assert_eq!(
        (&again["decision"], &again["attempt"]),
        (&json!("granted"), &json!(2))
    );
    assert_eq!(again["takeover"], false);
}

#[tokio::test]
async fn a_reused_key_is_a_conflict_whatever_its_state() {
    let site = Site::new();
    let body = |amount: Value| {
        claim_of(
            "pay-1",
            json!({"fingerprint": {"amount": amount, "to": "x"}}),
        )
    };
    let claim = site.granted(&body(json!(4200))).await;
    let conflict = site.claim(&body(json!(4300))).await;
    assert_eq!(conflict["decision"], "conflict");
    assert_eq!(members(&conflict), ["operation_id"]);
    site.state_after(&claim, "complete", &json!({"outcome": 1}))
        .await;
    assert_eq!(site.claim(&body(json!(4300))).await["decision"], "conflict");
    // The same request, written otherwise.
    let text =
        r#"{"operation":"charge","key":"pay-1","fingerprint":{ "to":"\u0078", "amount":42.00e2 }}"#;
    let same = site.post_text("/v1/claims", text).await;
    assert_eq!(same.json()["decision"], "replay");
    let none = site.claim(&claim_of("pay-1", json!({}))).await;
    assert_eq!(
        none["decision"], "replay",
        "without a fingerprint nothing is compared"
    );
    // `null` is a value like any other, and not an absent member.
    let null = site
        .claim(&claim_of("pay-1", json!({"fingerprint": null})))
        .await;
    assert_eq!(null["decision"], "conflict");
}

#[tokio::test]
async fn an_older_version_of_an_entity_is_stale() {
    let site = Site::new();
    let body =
        |key: &str, version: u64| claim_of(key, json!({"entity": "order-9", "version": version}));
    let claim = site.granted(&body("a", 3)).await;
    site.state_after(&claim, "complete", &json!({})).await;
    let stale = site.claim(&body("b", 3)).await;
    assert_eq!(
        (&stale["decision"], &stale["applied"]),
        (&json!("stale"), &json!(3))
    );
    assert_eq!(members(&stale), ["applied", "operation_id"]);
    assert_eq!(site.claim(&body("c", 4)).await["decision"], "granted");
}

#[tokio::test]
async fn a_request_older_than_the_window_without_a_record_is_too_old() {
    let site = Site::new();
    site.advance(86_400);
    let old = site.ago(3_600);
    let body = |key: &str, window: &str| claim_of(key, json!({"birth": old, "window": window}));
    let decision = site.claim(&body("a", "30m")).await;
    assert_eq!(decision["decision"], "too_old");
    assert_eq!(members(&decision), ["operation_id"]);
    assert_eq!(site.claim(&body("b", "2h")).await["decision"], "granted");
}

#[tokio::test]
async fn a_dead_operation_and_one_in_doubt_are_parked() {
    let site = Site::new();
    for (key, more, fail, state, certainty) in [
        (
            "a",
            json!({}),
            json!({"certainty": "not_applied"}),
            "dead",
            "not_applied",
        ),
        (
            "b",
            json!({"class": "unkeyed"}),
            json!({}),
            "in_doubt",
            "maybe_applied",
        ),
    ] {
        let claim = site.granted(&claim_of(key, more)).await;
        assert_eq!(site.state_after(&claim, "fail", &fail).await, state);
        let parked = site.claim(&claim_of(key, json!({}))).await;
        assert_eq!(
            (&parked["decision"], &parked["state"]),
            (&json!("parked"), &json!(state))
        );
        assert_eq!(parked["certainty"], certainty);
        assert_eq!(members(&parked), ["certainty", "operation_id", "state"]);
    }
}

#[tokio::test]
async fn the_same_claim_id_gets_its_claim_back_with_a_lease_that_runs() {
    let site = Site::new();
    let id = "00112233445566778899AABBCCDDEEFF";
    let body = claim_of(
        "pay-1",
        json!({"claim_id": id, "lease": "10s", "class": "unkeyed"}),
    );
    let first = site.claim(&body).await;
    assert_eq!(first["resumed"], false);
    // The lease is over, but nobody took the claim over.
    site.advance(25);
    let again = site.claim(&body).await;
    assert_eq!(
        (&again["decision"], &again["resumed"]),
        (&json!("granted"), &json!(true))
    );
    for same in ["claim", "token", "attempt", "idempotency_key"] {
        assert_eq!(again[same], first[same], "{same}");
    }
    assert_eq!(
        again["lease_until"],
        site.at(10),
        "no effect begins under a lease that is over"
    );
    let claim = again["claim"].as_str().expect("a claim");
    site.state_after(claim, "complete", &json!({"outcome": 7}))
        .await;
    let own = site.claim(&body).await;
    assert_eq!(
        (&own["decision"], &own["duplicate"]),
        (&json!("replay"), &json!("own"))
    );
    assert_eq!(own["outcome"], 7);
}

#[tokio::test]
async fn a_claim_id_is_given_back_to_nobody_who_asks_for_something_else() {
    let id = "00112233445566778899aabbccddeeff";
    let body = |fingerprint: Option<u64>| {
        let mut body = claim_of("pay-1", json!({"claim_id": id}));
        if let Some(fingerprint) = fingerprint {
            body["fingerprint"] = json!(fingerprint);
        }
        body
    };
    for (first, second) in [(Some(1), Some(2)), (Some(1), None), (None, Some(1))] {
        let site = Site::new();
        site.granted(&body(first)).await;
        let other = site.claim(&body(second)).await;
        assert_eq!(other["decision"], "conflict", "{first:?} {second:?}");
        let other = batches::claims(&site, &[body(second)]).await;
        assert_eq!(other[0]["decision"], "conflict", "{first:?} {second:?}");
        assert_eq!(site.claim(&body(first)).await["resumed"], true);
    }
}

#[tokio::test]
async fn the_class_decides_what_becomes_of_a_claim_that_vanished() {
    let site = Site::new();
    let keyed = json!({"class": "keyed", "provider_window": "80s"});
    let repeat = json!({"class": "unkeyed", "on_doubt": "repeat"});
    for (key, class, after, decision, possible_repeat) in [
        ("none", json!({}), 30, "granted", json!(false)),
        ("keyed", keyed.clone(), 30, "granted", json!(false)),
        // An eighth of the provider's window is margin.
        ("late", keyed, 70, "parked", Value::Null),
        ("repeat", repeat, 30, "granted", json!(true)),
        (
            "park",
            json!({"class": "unkeyed", "on_doubt": "park"}),
            30,
            "parked",
            Value::Null,
        ),
        (
            "default",
            json!({"class": "unkeyed"}),
            30,
            "parked",
            Value::Null,
        ),
    ] {
        let body = claim_of(key, class);
        site.granted(&body).await;
        site.advance(after);
        let next = site.claim(&body).await;
        assert_eq!(next["decision"], decision, "{key}: {next}");
        assert_eq!(next["possible_repeat"], possible_repeat, "{key}");
    }
}

#[tokio::test]
async fn a_class_marks_the_start_before_the_answer() {
    let site = Site::new();
    let look_up = async |key: &str| {
        let path = format!("/v1/operations?operation=charge&key={key}");
        site.get(&path).await.json()["state"].clone()
    };
    site.granted(&claim_of("a", json!({}))).await;
    assert_eq!(look_up("a").await, "claimed");
    site.granted(&claim_of("b", json!({"class": "unkeyed"})))
        .await;
    assert_eq!(look_up("b").await, "started");
    site.granted(&claim_of(
        "c",
        json!({"class": "keyed", "provider_window": "24h"}),
    ))
    .await;
    assert_eq!(look_up("c").await, "started");
}

#[tokio::test]
async fn the_window_is_that_of_the_completion_else_of_the_claim_else_configured() {
    let site = Site::new();
    for (key, claimed, completed, remembered_secs) in [
        ("configured", json!({}), json!({}), 7 * 86_400),
        ("claimed", json!({"window": "80s"}), json!({}), 80),
        (
            "completed",
            json!({"window": "80s"}),
            json!({"window": "160s"}),
            160,
        ),
    ] {
        let claim = site.granted(&claim_of(key, claimed)).await;
        site.state_after(&claim, "complete", &completed).await;
        let path = format!("/v1/operations?operation=charge&key={key}");
        let record = site.get(&path).await.json();
        assert_eq!(
            record["remembered_until"],
            site.at(remembered_secs),
            "{key}"
        );
    }
    // Forgotten an eighth and a second after its window.
    site.advance(92);
    assert_eq!(
        site.claim(&claim_of("claimed", json!({}))).await["decision"],
        "granted"
    );
    assert_eq!(
        site.claim(&claim_of("completed", json!({}))).await["decision"],
        "replay"
    );
}

#[tokio::test]
async fn keys_are_told_apart_by_type_and_by_value_in_full_precision() {
    let site = Site::new();
    let claim = async |key: &str| {
        let text = format!(r#"{{"operation":"charge","key":{key}}}"#);
        let answer = site.post_text("/v1/claims", text).await;
        assert_eq!(answer.status, 200, "{key}: {answer:?}");
        answer.json()["decision"]
            .as_str()
            .expect("a decision")
            .to_owned()
    };
    for (key, decision) in [
        ("1", "granted"),
        ("\"1\"", "granted"),
        ("1.0", "busy"),
        ("10e-1", "busy"),
        ("\"json:1\"", "granted"),
        ("9007199254740993", "granted"),
        ("9007199254740992", "granted"),
        ("9007199254740993.0", "busy"),
        ("-0", "granted"),
        ("0", "busy"),
        ("\"\\u0031\"", "busy"),
        ("\" 1\"", "granted"),
        ("\"Ä\"", "granted"),
        ("\"ä\"", "granted"),
    ] {
        assert_eq!(claim(key).await, decision, "{key}");
    }
}
