//! A client of reqwest under the layers.

use std::num::NonZeroU32;

use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use semel_client::{Intent, Reason, ReqwestService, Retry, RetryLayer, Settings};
use semel_core::Certainty;
use tower::Layer;

use crate::scripted::DAY;
use crate::servers::{Books, Server, nowhere};

fn client(settings: Settings) -> Retry<ReqwestService> {
    let layer = RetryLayer::new(settings).expect("settings that hold");
    layer.layer(ReqwestService::new(reqwest::Client::builder()).expect("a client"))
}

fn charge(url: &str) -> (Intent, Request<Full<Bytes>>) {
    let request = Request::post(url).body(Full::new(Bytes::from_static(b"4200")));
    let intent = Intent::of("charge", 1).expect("an intent");
    (intent, request.expect("a request"))
}

#[tokio::test]
async fn requests_of_the_crate_http_go_out_by_reqwest() {
    let books = Books::default();
    let server = Server::start(books.app()).await;
    let (intent, request) = charge(&server.url("/charges"));
    let answer = client(Settings::keyed(DAY))
        .send(&intent, request)
        .await
        .expect("an answer");
    assert_eq!(answer.status(), 201);
    let body = answer
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    assert_eq!(body, "{\"charge\":4200,\"count\":1}");
    assert!(books.charges().contains_key(&intent.idempotency_key()));
}

#[tokio::test]
async fn a_server_that_is_away_is_told_without_its_address() {
    let url = format!("http://{}/charges?secret=s3cret", nowhere().await);
    let (intent, request) = charge(&url);
    let settings = Settings {
        attempts: NonZeroU32::MIN,
        ..Settings::keyed(DAY)
    };
    let error = client(settings)
        .send(&intent, request)
        .await
        .expect_err("nobody listens");
    assert_eq!(
        (error.reason(), error.certainty()),
        (Reason::Unreached, Certainty::NotApplied)
    );
    let mut next: Option<&dyn std::error::Error> = Some(&error);
    while let Some(cause) = next {
        let told = format!("{cause} {cause:?}");
        assert!(!told.contains("s3cret"), "{told}");
        next = cause.source();
    }
}

#[tokio::test]
async fn an_address_that_is_none_is_not_tried_again() {
    let (intent, request) = charge("/charges");
    let error = client(Settings::keyed(DAY))
        .send(&intent, request)
        .await
        .expect_err("no host");
    assert_eq!((error.reason(), error.attempts()), (Reason::Invalid, 1));
    assert_eq!(error.certainty(), Certainty::NotApplied);
}

/// The charge was made, and what it has become is elsewhere.
#[tokio::test]
async fn a_redirect_is_not_followed_but_given_to_the_caller() {
    let elsewhere = format!("http://{}/charges/1", nowhere().await);
    let location = elsewhere.clone();
    let app = Router::new().route(
        "/charges",
        post(async move || (StatusCode::SEE_OTHER, [("location", location)])),
    );
    let server = Server::start(app).await;
    let (intent, request) = charge(&server.url("/charges"));
    let settings = Settings {
        attempts: NonZeroU32::MIN,
        ..Settings::keyed(DAY)
    };
    let answer = client(settings)
        .send(&intent, request)
        .await
        .expect("the redirect");
    assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    assert_eq!(answer.headers()["location"], *elsewhere);
}
