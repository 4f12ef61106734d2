//! Paths that the proxy answers itself: no way to write one leads to the upstream.

use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{CONNECTION, EXPECT};
use axum::response::IntoResponse;
use axum::routing::any;
use semel_proxy::{OwnPaths, PathPattern, Settings};

use crate::site::Site;
use crate::upstream::{Upstream, answer};

fn own(settings: &mut Settings) {
    let pattern = |text: &str| text.parse::<PathPattern>().expect("a pattern");
    settings.own = vec![OwnPaths {
        paths: vec![pattern("/v1/claims"), pattern("/v1/claims/*")],
        service: Router::new().fallback(any(async || "own")),
        needs_certificate: false,
    }];
}

#[tokio::test]
async fn no_way_to_write_an_own_path_leads_to_the_upstream() {
    let upstream = Upstream::answering(|_, _| answer("200 OK", "", "upstream")).await;
    let site = Site::before(upstream.address, own).await;
    for path in ["/v1/claims", "/v1/claims/batch", "/v1/claims?a=/../b"] {
        for method in ["GET", "POST", "DELETE"] {
            let line = format!("{method} {path}");
            let seen = site.send(&line, "idempotency-key: k\r\n", "{}").await;
            assert_eq!((seen.status, &seen.body[..]), (200, "own"), "{line}");
        }
    }
    for path in [
        "//v1/claims",
        "/x/../v1/claims",
        "/v1/%63laims",
        "/v1/claims;x=1",
        "/v1%2fclaims",
        "/v1/x/..%2Fclaims/batch",
        "/v1/claims/../charges",
        "/v1/claims/%2e%2e/charges",
        "/v1;x%2Fy/claims",
        "/v1/claims;x%2Fy",
        "//x%2Fy/../v1/claims",
    ] {
        let seen = site.send(&format!("POST {path}"), "", "{}").await;
        seen.problem(400, "invalid-input");
    }
    assert!(upstream.arrived().is_empty());
    for path in ["/v1/claimsx", "/v1", "/v1/charges/../notes", "/charges"] {
        let seen = site.send(&format!("POST {path}"), "", "{}").await;
        assert_eq!((seen.status, &seen.body[..]), (200, "upstream"), "{path}");
    }
    // It is neither without a route, nor refused.
    assert_eq!(
        (site.proxy.counts().unmatched, site.proxy.counts().refused),
        (3, 11)
    );
}

#[tokio::test]
async fn an_own_path_refuses_a_request_before_its_body_is_asked_for() {
    let upstream = Upstream::answering(|_, _| answer("200 OK", "", "upstream")).await;
    let refuse = any(async |request: Request| {
        if !request.headers().contains_key(EXPECT) {
            let _ = to_bytes(request.into_body(), 100).await;
        }
        (StatusCode::UNAUTHORIZED, [(CONNECTION, "close")], "who?").into_response()
    });
    let site = Site::before(upstream.address, |settings| {
        own(settings);
        settings.own[0].service = Router::new().fallback(refuse);
    })
    .await;
    let head =
        "POST /v1/claims HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n";
    let answer = site.raw(head).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

#[tokio::test]
async fn a_connection_does_not_take_the_identity_of_a_message_away() {
    let upstream = Upstream::answering(|_, _| answer("200 OK", "", "upstream")).await;
    let site = Site::before(upstream.address, own).await;
    for name in [
        "Semel-Producer",
        "semel-epoch",
        "semel-sequence",
        "semel-id",
    ] {
        let fields = format!("{name}: 1\r\nconnection: {name}\r\n");
        let seen = site.send("POST /v1/claims", &fields, "{}").await;
        seen.problem(400, "invalid-input");
    }
}
