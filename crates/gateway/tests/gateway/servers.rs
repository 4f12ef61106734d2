//! The layer in the servers that it is made for.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, Response};
use axum::routing::post;
use axum::{Extension, Router};
use http_body_util::{BodyExt, Empty, Full};
use semel_core::{Admission, ClaimRequest, Error, ErrorKind, Result, Store, forward_store};
use semel_engine::once::{Once, Op};
use semel_gateway::{IdempotencyLayer, OnOutage, Route};
use semel_store_memory::MemoryStore;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::site::{Seen, memory};

fn layer() -> IdempotencyLayer<Arc<MemoryStore>> {
    IdempotencyLayer::new(&Once::new(memory()), Route::default()).expect("settings that hold")
}

fn to(path: &str) -> Request<Body> {
    let request = Request::post(path).header("idempotency-key", "pay-1");
    request.body(Body::empty()).expect("a request")
}

async fn charge(Extension(op): Extension<Op>) -> String {
    format!("charged under {}", op.key())
}

#[tokio::test]
async fn a_router_of_axum_has_it_as_a_layer() {
    let app = Router::new().route("/charges", post(charge)).layer(layer());
    for is_replay in [false, true] {
        let response = app
            .clone()
            .oneshot(to("/charges"))
            .await
            .expect("an answer");
        let seen = Seen::of(response).await;
        assert_eq!(
            (&seen.body[..], seen.is_replay()),
            (&b"charged under pay-1"[..], is_replay)
        );
    }
}

#[tokio::test]
async fn nested_routers_do_not_share_an_answer() {
    let charges = Router::new().route("/charges", post(charge)).layer(layer());
    let app = Router::new()
        .nest("/v1", charges.clone())
        .nest("/v2", charges);
    let send = async |path: &str| {
        let response = app.clone().oneshot(to(path)).await.expect("an answer");
        Seen::of(response).await
    };
    assert_eq!(send("/v1/charges").await.status, 200);
    send("/v2/charges").await.problem(422, "key-reused");
}

/// The bodies of hyper are those of any other server.
#[tokio::test]
async fn any_bodies_will_do() {
    let inner = service_fn(async |_: Request<Body>| {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("ok"))))
    });
    let service = layer().layer(inner);
    for is_replay in [false, true] {
        let request = to("/").map(|_| Empty::<Bytes>::new());
        let response = service.clone().oneshot(request).await.expect("an answer");
        let seen = Seen::of(response).await;
        assert_eq!((&seen.body[..], seen.is_replay()), (&b"ok"[..], is_replay));
    }
}

#[tokio::test]
async fn grpc_gets_its_trailers_back_and_its_code_decides() {
    let inner = service_fn(async |request: Request<Body>| {
        let code = request.headers()["x-code"].clone();
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", code);
        let body = Full::new(Bytes::from_static(b"\x00\x00\x00\x00\x01x"));
        let body = body.with_trailers(std::future::ready(Some(Ok(trailers))));
        let response = Response::builder().header("content-type", "application/grpc");
        Ok::<_, Infallible>(
            response
                .header("grpc-encoding", "identity")
                .body(body)
                .expect("it"),
        )
    });
    let service = layer().layer(inner);
    let send = async |key: &str, code: &'static str| {
        let mut request = to("/shop.Charges/Create");
        request
            .headers_mut()
            .insert("idempotency-key", key.parse().expect("it"));
        request
            .headers_mut()
            .insert("te", "trailers".parse().expect("it"));
        request
            .headers_mut()
            .insert("x-code", code.parse().expect("it"));
        Seen::of(service.clone().oneshot(request).await.expect("an answer")).await
    };
    let first = send("pay-1", "0").await;
    let again = send("pay-1", "14").await;
    assert!(again.is_replay() && !first.is_replay());
    assert_eq!(
        (&first.body, &first.trailers),
        (&again.body, &again.trailers)
    );
    assert_eq!(again.headers["grpc-encoding"], "identity");
    // Unauthenticated: the key is free.
    assert_eq!(
        send("pay-2", "16").await.trailers.expect("trailers")["grpc-status"],
        "16"
    );
    assert_eq!(
        send("pay-2", "0").await.trailers.expect("trailers")["grpc-status"],
        "0"
    );
    // Internal; unavailable and resource exhausted, which a connection that breaks off has as well: nobody knows.
    for (key, code) in [("pay-3", "13"), ("pay-4", "14"), ("pay-5", "8")] {
        send(key, code).await;
        send(key, "0").await.problem(409, "in-doubt");
    }
}

/// An answer that is too long to be read has a message, so it is that of a success: no doubt.
#[tokio::test]
async fn grpc_over_the_limit_is_an_answer_that_was_not_kept() {
    for kind in ["application/grpc", "application/grpc-web+proto"] {
        let inner = service_fn(move |_: Request<Body>| async move {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().expect("it"));
            let body = Full::new(Bytes::from_static(b"\x00\x00\x00\x00\x09123456789"));
            let body = body.with_trailers(std::future::ready(Some(Ok(trailers))));
            let response = Response::builder().header("content-type", kind);
            Ok::<_, Infallible>(response.body(body).expect("it"))
        });
        let route = Route {
            max_answer_bytes: 10,
            ..Route::default()
        };
        let layer = IdempotencyLayer::new(&Once::new(memory()), route).expect("it holds");
        let service = layer.layer(inner);
        let send = async || {
            let answer = service.clone().oneshot(to("/shop.Charges/Create")).await;
            Seen::of(answer.expect("an answer")).await
        };
        let first = send().await;
        assert_eq!((first.status, first.body.len()), (200, 14), "{kind}");
        assert_eq!(first.trailers.expect("trailers")["grpc-status"], "0");
        let members = send().await.problem(410, "answer-too-large");
        assert_eq!(members["original_status"], 200);
    }
}

/// Requests that run without a key have no attempt: in the shadow all of them, and while the store is away.
#[tokio::test]
async fn a_handler_that_may_run_without_a_key_takes_an_attempt_or_none() {
    async fn charge(op: Option<Extension<Op>>) -> String {
        format!("under a claim: {}", op.is_some())
    }
    let sent = async |change: fn(&mut Route), is_away| {
        let mut route = Route {
            patience: Duration::from_millis(50),
            ..Route::default()
        };
        change(&mut route);
        let store = Away(memory(), is_away);
        let layer = IdempotencyLayer::new(&Once::new(store), route).expect("it holds");
        let app = Router::new().route("/charges", post(charge)).layer(layer);
        let answer = app.oneshot(to("/charges")).await.expect("an answer");
        let seen = Seen::of(answer).await;
        assert_eq!(seen.status, 200, "{seen:?}");
        String::from_utf8(seen.body.to_vec()).expect("text")
    };
    let open = |route: &mut Route| route.fail = OnOutage::Open;
    assert_eq!(sent(|_| {}, false).await, "under a claim: true");
    assert_eq!(sent(open, false).await, "under a claim: true");
    assert_eq!(sent(open, true).await, "under a claim: false");
    let shadow = sent(|route| route.shadow = true, false).await;
    assert_eq!(shadow, "under a claim: false");
}

/// A store that is away if it says so.
#[derive(Clone)]
struct Away(Arc<MemoryStore>, bool);

impl Store for Away {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        if self.1 {
            return Err(Error::new(ErrorKind::Unavailable, "refused").not_applied());
        }
        self.0.claim(batch).await
    }

    forward_store!(self => self.0; but claim);
}

/// A service is called only once it said that it is ready, and it is that one that is called.
#[tokio::test]
async fn the_service_that_is_ready_is_called() {
    struct Strict(bool);
    impl Clone for Strict {
        fn clone(&self) -> Self {
            Self(false)
        }
    }
    impl Service<Request<Body>> for Strict {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = std::future::Ready<std::result::Result<Response<Body>, Infallible>>;

        fn poll_ready(
            &mut self,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Result<(), Infallible>> {
            self.0 = true;
            std::task::Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            assert!(std::mem::take(&mut self.0), "it was not ready");
            std::future::ready(Ok(Response::new(Body::empty())))
        }
    }
    let mut service = layer().layer(Strict(false));
    for key in ["a", "b"] {
        let mut request = to("/");
        request
            .headers_mut()
            .insert("idempotency-key", key.parse().expect("it"));
        let response = ServiceExt::<Request<Body>>::ready(&mut service)
            .await
            .expect("ready");
        assert_eq!(
            response.call(request).await.expect("an answer").status(),
            200
        );
    }
}
