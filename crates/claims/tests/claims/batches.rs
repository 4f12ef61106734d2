//! Batches: item by item, in order.

use serde_json::{Value, json};

use crate::site::{Site, assert_problem, claim_of};

async fn batch(site: &Site, path: &str, member: &str, items: &[Value]) -> Vec<Value> {
    let answer = site.post(path, &json!({member: items})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let answers = answer.json()["answers"]
        .as_array()
        .expect("answers")
        .clone();
    assert_eq!(answers.len(), items.len());
    answers
}

pub(crate) async fn claims(site: &Site, items: &[Value]) -> Vec<Value> {
    batch(site, "/v1/claims/batch", "claims", items).await
}

pub(crate) async fn steps(site: &Site, items: &[Value]) -> Vec<Value> {
    batch(site, "/v1/settle/batch", "settlements", items).await
}

#[tokio::test]
async fn items_are_answered_on_their_own_and_in_order() {
    let site = Site::new();
    let done = site.granted(&claim_of("done", json!({}))).await;
    site.state_after(&done, "complete", &json!({"outcome": [1, 2]}))
        .await;
    let other = site.granted(&claim_of("other", json!({}))).await;
    site.state_after(&other, "complete", &json!({"outcome": "x"}))
        .await;
    site.advance(1);
    let id = "00112233445566778899aabbccddeeff";
    let resumed = claim_of("resumed", json!({"claim_id": id}));
    site.granted(&resumed).await;
    site.advance(20);
    let answers = claims(
        &site,
        &[
            claim_of("new", json!({})),
            claim_of("done", json!({})),
            claim_of("bad", json!({"lease": "0s"})),
            claim_of("new", json!({})),
            claim_of("waits", json!({"wait": "1s"})),
            resumed,
            claim_of("other", json!({})),
            json!(17),
            claim_of(true, json!({})),
        ],
    )
    .await;
    let decisions: Vec<_> = answers.iter().map(|it| it["decision"].as_str()).collect();
    let expected = [
        Some("granted"),
        Some("replay"),
        None,
        Some("busy"),
        None,
        Some("granted"),
        Some("replay"),
        None,
        None,
    ];
    assert_eq!(
        decisions, expected,
        "a key that occurs twice is asked for twice"
    );
    assert_eq!(answers[1]["outcome"], json!([1, 2]));
    assert_eq!(answers[6]["outcome"], "x");
    for replay in [1, 6] {
        assert_eq!(answers[replay]["completed_at"], site.ago(21));
    }
    assert_eq!(answers[5]["resumed"], true);
    assert_eq!(answers[5]["lease_until"], site.at(30));
    for (index, pointer) in [
        (2, "/claims/2/lease"),
        (4, "/claims/4/wait"),
        (7, "/claims/7"),
        (8, "/claims/8/key"),
    ] {
        assert_problem(&answers[index], 400, "invalid-input");
        assert_eq!(answers[index]["pointer"], pointer);
    }
}

#[tokio::test]
async fn steps_of_all_kinds_go_in_one_batch() {
    let site = Site::new();
    let keys = ["a", "b", "c", "d", "e"].map(|key| claim_of(key, json!({"class": "unkeyed"})));
    let granted = claims(&site, &keys).await;
    let claim = |index: usize| granted[index]["claim"].clone();
    let step = |index: usize, step: &str, more: Value| {
        let mut item = json!({"claim": claim(index), "step": step});
        let more = more.as_object().expect("members").clone();
        item.as_object_mut().expect("an object").extend(more);
        item
    };
    let answers = steps(
        &site,
        &[
            step(0, "complete", json!({"outcome": 0})),
            step(1, "renew", json!({"lease": "1h"})),
            step(1, "complete", json!({"outcome": 1})),
            step(1, "renew", json!({})),
            step(2, "release", json!({"certainty": "not_applied"})),
            step(3, "fail", json!({"certainty": "not_applied"})),
            step(4, "start", json!({})),
            json!({"claim": "nonsense", "step": "start"}),
            step(4, "explode", json!({})),
            step(4, "start", json!({"outcome": 1})),
            step(4, "complete", json!({"lease": "1s"})),
        ],
    )
    .await;
    let states: Vec<_> = answers.iter().map(|it| it["state"].as_str()).collect();
    let expected = [
        Some("completed"),
        Some("started"),
        Some("completed"),
        Some("completed"),
        Some("released"),
        Some("dead"),
        Some("started"),
        None,
        None,
        None,
        None,
    ];
    assert_eq!(states, expected);
    assert_eq!(answers[1]["lease_until"], site.at(3_600));
    assert_problem(&answers[3], 409, "claim-lost");
    for (index, pointer) in [
        (7, "/settlements/7/claim"),
        (8, "/settlements/8/step"),
        (9, "/settlements/9/outcome"),
        (10, "/settlements/10/lease"),
    ] {
        assert_problem(&answers[index], 400, "invalid-input");
        assert_eq!(answers[index]["pointer"], pointer);
    }
    assert_eq!(site.claim(&claim_of("b", json!({}))).await["outcome"], 1);
}

#[tokio::test]
async fn a_batch_has_at_most_a_thousand_items() {
    let site = Site::new();
    let items = |count: usize| {
        (0..count)
            .map(|key| claim_of(key, json!({})))
            .collect::<Vec<_>>()
    };
    assert_eq!(claims(&site, &items(0)).await, Vec::<Value>::new());
    assert_eq!(steps(&site, &[]).await, Vec::<Value>::new());
    let answers = claims(&site, &items(1_000)).await;
    assert!(answers.iter().all(|it| it["decision"] == "granted"));
    let completed: Vec<_> = answers
        .iter()
        .map(|it| json!({"claim": it["claim"], "step": "complete", "outcome": 1}))
        .collect();
    let states = steps(&site, &completed).await;
    assert!(states.iter().all(|it| it["state"] == "completed"));
    for (path, member) in [
        ("/v1/claims/batch", "claims"),
        ("/v1/settle/batch", "settlements"),
    ] {
        let answer = site.post(path, &json!({member: items(1_001)})).await;
        let problem = answer.problem(400, "invalid-input");
        assert_eq!(problem["pointer"], format!("/{member}"));
    }
}

#[tokio::test]
async fn the_outcomes_of_a_batch_are_bounded_and_the_others_are_asked_for_alone() {
    let site = Site::new();
    let bodies: Vec<_> = (0..14).map(|key| claim_of(key, json!({}))).collect();
    let outcome = "x".repeat(900_000);
    for body in &bodies {
        let claim = site.granted(body).await;
        let done = json!({"outcome": outcome});
        site.state_after(&claim, "complete", &done).await;
    }
    let answer = site
        .post("/v1/claims/batch", &json!({"claims": bodies}))
        .await;
    assert!(answer.text.len() < 9 << 20, "{} bytes", answer.text.len());
    let answer = answer.json();
    let answers = answer["answers"].as_array().expect("answers");
    assert_eq!(answers.len(), bodies.len());
    let (replays, others): (Vec<_>, Vec<_>) =
        answers.iter().partition(|it| it["decision"] == "replay");
    assert_eq!(replays.len(), 9);
    assert!(replays.iter().all(|it| it["outcome"] == outcome));
    assert!(replays.iter().all(|it| it["completed_at"] == site.at(0)));
    for other in others {
        assert_problem(other, 429, "throttled");
        assert!(other["operation_id"].is_string(), "{other}");
    }
    let alone = site.claim(&bodies[13]).await;
    assert_eq!(alone["decision"], "replay");
    assert_eq!(alone["operation_id"], answers[13]["operation_id"]);
    assert_eq!(alone["outcome"], outcome);
}

#[tokio::test]
async fn small_replays_are_all_in_the_answer_to_their_batch() {
    let site = Site::new();
    let bodies: Vec<_> = (0..1_000).map(|key| claim_of(key, json!({}))).collect();
    let granted = claims(&site, &bodies).await;
    let done: Vec<_> = granted
        .iter()
        .enumerate()
        .map(|(key, it)| json!({"claim": it["claim"], "step": "complete", "outcome": key}))
        .collect();
    steps(&site, &done).await;
    let answers = claims(&site, &bodies).await;
    for (key, answer) in answers.iter().enumerate() {
        assert_eq!(answer["outcome"], key, "{answer}");
        assert_eq!(answer["completed_at"], site.at(0));
    }
}

#[tokio::test]
async fn a_batch_of_three_megabytes_is_taken() {
    let site = Site::new();
    let filler = "x".repeat(3_000);
    let items: Vec<_> = (0..1_000)
        .map(|key| claim_of(key, json!({"fingerprint": {"filler": filler}})))
        .collect();
    let text = json!({"claims": items}).to_string();
    assert!(text.len() > 3_000_000);
    let answer = site.post_text("/v1/claims/batch", text).await;
    assert_eq!(answer.status, 200);
    let answers = answer.json();
    let answers = answers["answers"].as_array().expect("answers");
    assert!(answers.iter().all(|it| it["decision"] == "granted"));
}
