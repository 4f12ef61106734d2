use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use http_body_util::{BodyExt, Full};
use semel_conformance::TestClock;
use semel_core::port::source::Acknowledgement;
use serde_json::Value;

use super::*;
use crate::request_body::DISCARD;
use crate::verification::Verification;

fn route(max_in_hand: usize) -> Arc<Route> {
    let listen = ([127, 0, 0, 1], 0).into();
    let options = Options {
        max_in_hand,
        ..Options::new(listen, "/in", Verification::none())
    };
    Arc::new(Route::new(options, Arc::new(TestClock::new()), 4_096, 1))
}

fn request(body: Body) -> Request {
    let request = Request::post("/in").header("host", "localhost");
    request.body(body).expect("a request")
}

/// A body that announces no length.
fn unannounced(body: &'static str) -> Body {
    Body::new(Full::new(Bytes::from_static(body.as_bytes())).map_frame(|frame| frame))
}

async fn problem(response: Response) -> Value {
    let body = response.into_body().collect().await.expect("a body");
    serde_json::from_slice(&body.to_bytes()).expect("a problem")
}

async fn is_throttled(response: Response) -> bool {
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()[RETRY_AFTER], "1");
    let problem = problem(response).await;
    problem["code"] == "throttled" && problem["certainty"] == "not_applied"
}

#[tokio::test(start_paused = true)]
async fn what_is_not_on_record_in_time_is_asked_for_again_and_stays_in_hand() {
    let route = route(10);
    let began = Instant::now();
    let late = route.answer(request("{}".into())).await;
    assert_eq!(began.elapsed(), route.options.answer_within);
    assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(late.headers()[RETRY_AFTER], "5");
    let problem = problem(late).await;
    assert_eq!(problem["code"], "timeout");
    assert_eq!(problem["certainty"], "maybe_applied");
    let deliveries = route.inbox().next(10).await.expect("an open inbox");
    assert_eq!(deliveries.len(), 1, "it can still be applied");
    let told = Acknowledgement::new(deliveries[0].id, semel_core::Fate::Applied);
    route.inbox().settle(&[told]);
}

#[tokio::test(start_paused = true)]
async fn a_body_without_memory_is_to_come_again_whether_it_is_announced_or_not() {
    let route = route(10);
    let in_hand = route.inbox().room(64 << 20).expect("all that there is");
    for body in [Body::from("{}"), unannounced("{}")] {
        assert!(is_throttled(route.answer(request(body)).await).await);
    }
    drop(in_hand);
    let arriving = route.arrivals.begin().expect("a place");
    assert!(arriving.grow(32 << 20), "all that there is");
    for body in [Body::from("{}"), unannounced("{}")] {
        assert!(is_throttled(route.answer(request(body)).await).await);
    }
    drop(arriving);
    let taken = Arc::clone(&route);
    let taken = tokio::spawn(async move { taken.answer(request(unannounced("{}"))).await });
    let deliveries = route.inbox().next(10).await.expect("an open inbox");
    assert_eq!(deliveries[0].payload, "{}");
    assert!(!taken.is_finished());
}

#[tokio::test(start_paused = true)]
async fn the_place_that_was_there_may_be_gone_once_the_body_was_read() {
    let route = route(1);
    let two = [(); 2].map(|()| {
        let route = Arc::clone(&route);
        let body = unannounced("{}");
        let parts = request(body).into_parts();
        async move {
            let admitted = route.admit(&parts.0, &parts.1);
            let (mut check, mut arrival) = admitted.expect("there is room");
            let deadline = Instant::now() + DISCARD;
            let body = route.read(parts.1, &mut arrival, &mut check, deadline);
            (parts.0.headers, body.await.expect("a body"), check)
        }
    });
    let [one, other] = two;
    let (one, other) = tokio::join!(one, other);
    let first = route.take(&one.0, one.1, one.2);
    assert!(matches!(first, Taken::InHand(_)));
    let Taken::Answered(refused) = route.take(&other.0, other.1, other.2) else {
        panic!("there is one place");
    };
    assert!(is_throttled(refused).await);
}
