//! Requests to the claim API.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use futures_util::FutureExt;
use semel_claims::{Settings, router};
use semel_engine::system::SystemClock;
use semel_http::Caller;
use semel_store_memory::MemoryStore;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

use super::Fate;

/// Checks the body of a batch of claims: each item has a decision or a problem in its place, and each claim that is
/// granted can be completed, and is replayed.
pub(crate) fn check(data: &[u8]) -> Result<Fate, String> {
    let router = service();
    let Some(answers) = batch(&router, "/v1/claims/batch", data.to_vec())? else {
        return Ok(Fate::Refused);
    };
    let mut fate = Fate::Refused;
    for answer in answers {
        let Some(claim) = answer["claim"].as_str() else {
            continue;
        };
        fate = Fate::Accepted;
        let path = format!("/v1/claims/{claim}/complete");
        match post(&router, &path, b"{\"outcome\":1}".to_vec())? {
            (StatusCode::OK, state) if state["state"] == "completed" => {}
            (status, said) => return Err(format!("{claim} ends with {status}: {said}")),
        }
    }
    if fate == Fate::Accepted {
        let again = batch(&router, "/v1/claims/batch", data.to_vec())?.unwrap_or_default();
        if let Some(granted) = again.iter().find(|it| it["decision"] == "granted") {
            return Err(format!("{granted} is granted once more"));
        }
    }
    Ok(fate)
}

/// Checks the body of a batch of steps, in which `CLAIM` stands for a claim that was granted, and a text that may be a
/// claim: each has its answer, and nothing is accepted for another claim than the one that was granted.
pub(crate) fn check_steps(data: &[u8]) -> Result<Fate, String> {
    let router = service();
    let claim =
        json!({"operation": "charge", "key": 1, "class": "unkeyed", "claim_id": "0".repeat(32)});
    let (_, granted) = post(&router, "/v1/claims", claim.to_string().into_bytes())?;
    let claim = granted["claim"]
        .as_str()
        .ok_or("the first claim is not granted")?;
    let body = String::from_utf8_lossy(data).replace("CLAIM", claim);
    let Some(answers) = batch(&router, "/v1/settle/batch", body.clone().into_bytes())? else {
        return Ok(Fate::Refused);
    };
    let is_accepted = answers.iter().any(|answer| answer["state"].is_string());
    if is_accepted && !body.contains(claim) {
        return Err("a step of no claim is accepted".to_owned());
    }
    Ok(if is_accepted {
        Fate::Accepted
    } else {
        Fate::Refused
    })
}

fn service() -> Router {
    let store = MemoryStore::new(Arc::new(SystemClock::new()));
    router(Arc::new(store), Settings::default())
}

/// Returns the answers to a batch; none if it was refused as a whole, with the pointer to what is wrong.
fn batch(router: &Router, path: &str, body: Vec<u8>) -> Result<Option<Vec<Value>>, String> {
    let (status, said) = post(router, path, body)?;
    if status == StatusCode::BAD_REQUEST && said["pointer"].is_string() {
        return Ok(None);
    }
    let answers = said["answers"]
        .as_array()
        .filter(|_| status == StatusCode::OK);
    let answers = answers.ok_or_else(|| format!("{status}: {said}"))?;
    let is_answer = |answer: &&Value| {
        let is_problem = answer["status"].as_u64().is_some_and(|status| status < 500);
        answer["decision"].is_string() || answer["state"].is_string() || is_problem
    };
    match answers.iter().find(|answer| !is_answer(answer)) {
        Some(odd) => Err(format!("{odd} is no answer")),
        None => Ok(Some(answers.clone())),
    }
}

fn post(router: &Router, path: &str, body: Vec<u8>) -> Result<(StatusCode, Value), String> {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .extension(Caller::loopback())
        .body(Body::from(body));
    let request = request.map_err(|error| error.to_string())?;
    let answer = async {
        let Ok(response) = router.clone().oneshot(request).await;
        let status = response.status();
        let text = to_bytes(response.into_body(), usize::MAX).await;
        (status, text.unwrap_or_default())
    };
    // The memory store answers at once, and a claim of a batch does not wait; but it may only wait where there are timers.
    let answer = TIMERS.with(|timers| {
        let _here = timers.as_ref()?.enter();
        answer.now_or_never()
    });
    let (status, text) = answer.ok_or("the answer is late")?;
    let said = serde_json::from_slice(&text).map_err(|error| format!("{status}: {error}"))?;
    Ok((status, said))
}

thread_local! {
    static TIMERS: Option<Runtime> = Builder::new_current_thread().enable_time().build().ok();
}

pub(crate) const WORDS: &[&[u8]] = &[
    b"{\"claims\":[",
    b"{\"settlements\":[",
    b"]}",
    b"{\"operation\":\"charge\",\"key\":",
    b"\"claim\":\"CLAIM\",\"step\":\"complete\"",
    b"\"claim_id\":\"00112233445566778899aabbccddeeff\"",
    b"\"class\":\"unkeyed\"",
    b"\"class\":\"keyed\",\"provider_window\":\"24h\"",
    b"\"fingerprint\":",
    b"\"entity\":\"e\",\"version\":1",
    b"\"lease\":\"0s\"",
    b"\"wait\":\"1s\"",
    b"\"birth\":\"2026-11-20T10:00:00Z\"",
    b"\"outcome\":",
    b"\"outcome_base64\":\"",
    b"\"content_type\":\"text/plain\"",
    b"\"certainty\":\"not_applied\"",
    b"\"not_before\":\"2026-11-20T10:00:00Z\"",
    b"\"decisive\":true",
    b"null",
    b"1e999999999",
    b"\\u0000",
];
