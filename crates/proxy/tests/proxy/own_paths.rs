//! Paths that the proxy answers itself: no way to write one leads to the upstream.

use axum::Router;
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
