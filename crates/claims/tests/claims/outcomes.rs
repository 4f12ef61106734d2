//! Outcomes come back as they were given.

use serde_json::json;

use crate::site::{Site, claim_of};

/// Completes a key with this body, and returns the text of the replay.
async fn replayed(body: String) -> String {
    let site = Site::new();
    let claim = site.granted(&claim_of("pay-1", json!({}))).await;
    let answer = site
        .post_text(&format!("/v1/claims/{claim}/complete"), body)
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let replay = site.post("/v1/claims", &claim_of("pay-1", json!({}))).await;
    assert_eq!(replay.status, 200);
    assert_eq!(replay.json()["decision"], "replay");
    let record = site.get("/v1/operations?operation=charge&key=pay-1").await;
    for member in [
        "outcome",
        "outcome_base64",
        "content_type",
        "outcome_too_large",
    ] {
        assert_eq!(record.json()[member], replay.json()[member], "{member}");
    }
    replay.text
}

#[tokio::test]
async fn json_keeps_its_text() {
    for text in [
        r#"{"b" : 1.0,  "a":[1e2, 12345678901234567890123, -0.0],"a":2}"#,
        "null",
        "false",
        "\"\\u00e4 \\/ ä\"",
        "\"\"",
        "0.10",
        "[]",
        "{ }",
        "[\n  1,\t2\n]",
    ] {
        let replay = replayed(format!("{{ \"outcome\" : {text} }}")).await;
        let member = format!(r#""outcome":{text},"completed_at""#);
        assert!(replay.contains(&member), "{text}: {replay}");
    }
}

#[tokio::test]
async fn bytes_keep_their_content_type() {
    for (body, kind) in [
        (
            r#"{"outcome_base64":"iVBORw==","content_type":"image/png"}"#,
            "image/png",
        ),
        (r#"{"outcome_base64":"e30="}"#, "application/octet-stream"),
        (r#"{"outcome_base64":""}"#, "application/octet-stream"),
    ] {
        let replay: serde_json::Value =
            serde_json::from_str(&replayed(body.to_owned()).await).expect("JSON");
        let given: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(replay["outcome_base64"], given["outcome_base64"]);
        assert_eq!(replay["content_type"], kind);
        assert!(replay.get("outcome").is_none());
    }
}

#[tokio::test]
async fn no_outcome_is_none_and_not_null() {
    let replay = replayed("{}".to_owned()).await;
    assert!(!replay.contains("outcome"), "{replay}");
}

#[tokio::test]
async fn nine_hundred_kibibytes_are_kept_and_more_than_the_limit_is_completed_all_the_same() {
    let kept = format!("\"{}\"", "x".repeat(900 << 10));
    let replay = replayed(format!("{{\"outcome\":{kept}}}")).await;
    assert!(replay.contains(&kept));
    let large = format!("\"{}\"", "x".repeat(1 << 20));
    let replay = replayed(format!("{{\"outcome\":{large}}}")).await;
    assert!(replay.contains(r#""outcome_too_large":true"#));
    assert!(replay.len() < 300, "never half of it");
    let large = "AAAA".repeat(400_000);
    let replay = replayed(format!("{{\"outcome_base64\":\"{large}\"}}")).await;
    assert!(replay.contains(r#""outcome_too_large":true"#));
}
