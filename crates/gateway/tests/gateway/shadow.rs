//! Routes in shadow.

use std::time::Duration;

use axum::body::Body;
use semel_core::StoreExt;
use semel_gateway::{Counts, Proof};

use crate::site::{Site, answer, created, with};

async fn counted(site: &Site, expected: impl Fn(Counts) -> bool + Send + Sync) {
    let counted = async {
        while !expected(site.layer.counts()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let counted = tokio::time::timeout(Duration::from_secs(10), counted).await;
    assert!(counted.is_ok(), "{:?}", site.layer.counts());
}

#[tokio::test]
async fn a_shadow_counts_and_changes_nothing() {
    let site = Site::counting(|it| it.shadow = true);
    for call in [1, 2, 3] {
        site.post("pay-1").await.is_created(call, false);
        counted(&site, |it| {
            it.shadow_first == 1 && it.shadow_replayed == call as u64 - 1
        })
        .await;
    }
    let other = with(&[("idempotency-key", "pay-1")], "{}");
    site.send(other).await.is_created(4, false);
    counted(&site, |it| it.shadow_conflicts == 1).await;
    // The keys of the route itself are untouched.
    let operation = site
        .once
        .operation("http")
        .operation("pay-1")
        .expect("a key");
    let record = site.once.store().expect("open").get_one(operation).await;
    assert!(record.expect("an answer").is_none());
}

#[tokio::test]
async fn a_shadow_refuses_nothing() {
    let site = Site::new(
        |it| {
            it.shadow = true;
            it.require_key = true;
            it.max_body_bytes = 10;
        },
        async |call, request: axum::http::Request<Body>| {
            let body = http_body_util::BodyExt::collect(request.into_body()).await;
            assert_eq!(body.expect("whole").to_bytes().len(), 12);
            Ok(created(call))
        },
    );
    site.send(with(&[], "0123456789ab"))
        .await
        .is_created(1, false);
    site.send(with(&[("idempotency-key", "\"")], "0123456789ab"))
        .await
        .is_created(2, false);
    site.post_long().await.is_created(3, false);
    let counts = site.layer.counts();
    assert_eq!(
        (
            counts.refused,
            counts.shadow_unrecorded,
            counts.shadow_first
        ),
        (2, 1, 0)
    );
}

#[tokio::test]
async fn a_shadow_records_no_answer_that_is_no_outcome() {
    let site = Site::scripted(|it| it.shadow = true, &[500, 503, 200]);
    for status in [500, 503, 200] {
        assert_eq!(site.post("pay-1").await.status, status);
    }
    counted(&site, |it| it.shadow_first == 1).await;
    assert_eq!(site.layer.counts().shadow_replayed, 0);
}

#[tokio::test]
async fn a_shadow_takes_the_handlers_word() {
    let site = Site::new(
        |it| it.shadow = true,
        async |call, _| {
            let mut response = answer([200, 502, 502][call - 1], "");
            let proofs = [Proof::MaybeApplied, Proof::Outcome, Proof::Outcome];
            response.extensions_mut().insert(proofs[call - 1]);
            Ok(response)
        },
    );
    for (status, replayed) in [(200, None), (502, Some(0)), (502, Some(1))] {
        assert_eq!(site.post("pay-1").await.status, status);
        if let Some(replayed) = replayed {
            counted(&site, |it| {
                (it.shadow_first, it.shadow_replayed) == (1, replayed)
            })
            .await;
        }
    }
}

/// Its code is in trailers that have not come when the request is judged.
#[tokio::test]
async fn a_shadow_says_what_it_cannot_judge() {
    let site = Site::new(
        |it| it.shadow = true,
        async |call, _| {
            let mut response = answer(200, "");
            let headers = response.headers_mut();
            headers.insert("content-type", "application/grpc".parse().expect("it"));
            if call == 2 {
                headers.insert("grpc-status", "5".parse().expect("it"));
            }
            Ok(response)
        },
    );
    site.post("pay-1").await;
    assert_eq!(site.layer.counts().shadow_unjudged, 1);
    site.post("pay-1").await;
    counted(&site, |it| it.shadow_first == 1).await;
    assert_eq!(site.layer.counts().shadow_unjudged, 1);
}

impl Site {
    async fn post_long(&self) -> crate::site::Seen {
        let pieces = ["0123456789", "ab"].map(Ok::<_, std::io::Error>);
        let body = Body::from_stream(futures_util::stream::iter(pieces));
        let request = axum::http::Request::post("/").header("idempotency-key", "k");
        self.send(request.body(body).expect("a request")).await
    }
}
