//! The layer of HTTP: clients that send a request under a key, again and again until they have a final answer, to a service
//! behind the layer. Some hang up before, and several may send one key together.

use std::sync::Arc;
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, Response, StatusCode};
use bytes::Bytes;
use semel_core::port::source::{Delivery, DeliveryId};
use semel_core::{Clock, Result, Timestamp};
use semel_engine::consumer::Consumer;
use semel_engine::effect::Verdict;
use semel_engine::once::Op;
use semel_engine::summary::Summary;
use semel_gateway::{IdempotencyLayer, KEY_HEADER, Route};
use tokio::time::timeout;
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};

use crate::seeded::broker::Feed;
use crate::seeded::effect::{Request as Called, run};
use crate::seeded::life::{Life, Mortal};
use crate::seeded::once::{attend, kept, leaves_after, once, others};
use crate::seeded::payload::{number_in, number_of};
use crate::seeded::plan::WorkerPlan;
use crate::seeded::store::SimStore;

/// The service behind the layer.
type Service = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// Answers clients until it is asked to stop.
pub(crate) async fn serve(
    life: Arc<Life>,
    plan: &WorkerPlan,
    consumer: Consumer<SimStore, Feed>,
) -> Result<Summary> {
    let once = once(&life, &consumer);
    let declared = once.operation(life.world.scope.operation());
    let mut route = Route::with_settings(declared.settings());
    route.operation = life.world.scope.operation().into();
    route.decisive = "402".parse().expect("the code is well formed");
    let layer = IdempotencyLayer::new(&once, route)?;
    let handler = {
        let life = Arc::clone(&life);
        service_fn(move |request| handle(Arc::clone(&life), request))
    };
    let service = Service::new(layer.layer(handler));
    attend(&life, plan, consumer, |delivery, clients| {
        let mut dice = life.dice(life.site(&[24, life.next("request over http")]));
        for _ in 0..=others(&life, &mut dice) {
            let client = Client {
                life: Arc::clone(&life),
                service: service.clone(),
                number: number_in(&delivery.payload),
                delivery: delivery.clone(),
                hangs_up_after: leaves_after(&mut dice),
            };
            clients.spawn(Mortal::new(&life, client.ask()));
        }
    })
    .await
}

/// Answers a request behind the layer, with a text that tells its runs apart.
async fn handle(
    life: Arc<Life>,
    request: Request<Body>,
) -> std::result::Result<Response<Body>, BoxError> {
    let Some(op) = request.extensions().get::<Op>() else {
        life.world.violation(format!("{life} runs without a claim"));
        return Err("there is no claim".into());
    };
    let number = number_of(op.key());
    let nth = {
        let mut tally = life.world.tally();
        tally.runs += 1;
        tally.runs
    };
    let key = request.headers().get(KEY_HEADER);
    let called = Called {
        number,
        idempotency_key: key.and_then(|it| it.to_str().ok()).unwrap_or("none").into(),
    };
    let began = life.world.now();
    let ran = run(Arc::clone(&life), called, began);
    let status = match Mortal::new(&life, ran).await {
        Verdict::Done(_) | Verdict::DoneUnkept { .. } => StatusCode::OK,
        Verdict::NotApplied { .. } | Verdict::Away { .. } | Verdict::Broken { .. } => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        Verdict::MaybeApplied { error } => match nth % 3 {
            0 => StatusCode::INTERNAL_SERVER_ERROR,
            1 => return Ok(Response::new(broken())),
            _ => return Err(error.to_string().into()),
        },
        Verdict::Dead { .. } if life.world.provider().refuses(number) => {
            StatusCode::PAYMENT_REQUIRED
        }
        // The first is an answer like any other, the second never is.
        Verdict::Dead { .. } if nth.is_multiple_of(2) => StatusCode::NOT_FOUND,
        Verdict::Dead { .. } => StatusCode::FORBIDDEN,
    };
    let mut response = Response::new(Body::from(format!("k{number}, run {nth}.")));
    *response.status_mut() = status;
    Ok(response)
}

/// The body of an answer that breaks off.
fn broken() -> Body {
    let pieces = [
        Ok(Bytes::from_static(b"k")),
        Err(std::io::Error::other("it breaks off")),
    ];
    Body::from_stream(futures_util::stream::iter(pieces))
}

/// One that sends a request.
struct Client {
    life: Arc<Life>,
    service: Service,
    number: usize,
    delivery: Delivery,
    hangs_up_after: Option<Duration>,
}

impl Client {
    /// Sends the request. Returns its delivery if its answer is final.
    async fn ask(self) -> Option<DeliveryId> {
        let Self {
            life,
            service,
            number,
            delivery,
            ..
        } = &self;
        if self.is_late() {
            life.world.log(format_args!("a client gives k{number} up"));
            life.world.tally().told_too_old.insert(*number);
            return Some(delivery.id);
        }
        let request = Request::builder()
            .method(Method::POST)
            .uri("/charges")
            .header(KEY_HEADER, format!("k{number}"))
            .body(Body::from(delivery.payload.clone()));
        let request = request.expect("the request is well formed");
        let before = self.kept().await;
        let answer = service.clone().oneshot(request);
        let limit = self.hangs_up_after.unwrap_or(Duration::MAX);
        let Ok(answer) = timeout(limit, answer).await else {
            life.world.saw("caller went away");
            life.world.touch(&[*number]);
            return None;
        };
        match answer {
            Ok(response) => self.conclude(response, before).await,
            Err(error) => {
                life.world
                    .log(format_args!("{life} fails before k{number}: {error}"));
                None
            }
        }
    }

    /// Returns whether the answer to an earlier request may be forgotten soon.
    fn is_late(&self) -> bool {
        let world = &self.life.world;
        let now = world.clock(0).now().as_millis();
        let birth = self.delivery.appended_at.map_or(now, Timestamp::as_millis);
        Duration::from_millis(now.saturating_sub(birth)) > world.plan.window / 2
    }

    /// Checks an answer against the record, and against the one that was on it `before` the request.
    async fn conclude(
        &self,
        response: Response<Body>,
        before: Option<Bytes>,
    ) -> Option<DeliveryId> {
        let Self { life, number, .. } = self;
        let world = &life.world;
        let (head, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.ok()?;
        let text = String::from_utf8_lossy(&body);
        world.log(format_args!(
            "{life} answers k{number}: {} {text}",
            head.status
        ));
        let code = code_of(&head.headers, &text);
        match (head.status.as_u16(), code) {
            // After an attempt that may have been applied, a refusal is not remembered.
            (404, None) if !self.is_kept(&body).await => return None,
            (200 | 402 | 404, None) => {
                if head.status != StatusCode::OK {
                    world.tally().told_refused.insert(*number);
                }
                if head.headers.contains_key("idempotency-replayed") {
                    world.saw("replay");
                }
                self.judge(&body, before.as_ref()).await;
            }
            (409, Some("in-doubt" | "dead")) => {
                if code == Some("dead") {
                    world.tally().told_dead.insert(*number);
                } else {
                    world.tally().told_in_doubt.insert(*number);
                }
                let has_forgotten = world.tally().remembered.contains(number);
                if !has_forgotten && !life.was_told_of_the_end(*number) {
                    world.violation(format!(
                        "{life} answered k{number} without a record: {text}"
                    ));
                }
            }
            (422, Some("key-reused")) => {
                world.tally().told_conflict.insert(*number);
            }
            // The request is sent again.
            (409, Some("in-progress")) => {
                world.saw("busy to the end");
                return None;
            }
            (403 | 500 | 503, None)
            | (409, Some("claim-lost"))
            | (500, Some("outcome-unrecorded"))
            | (502, Some("upstream-broken"))
            | (503, Some("store-unavailable"))
            | (504, Some("upstream-timeout")) => return None,
            (status, _) => {
                world.violation(format!("{life} answered k{number} with {status}: {text}"));
                return None;
            }
        }
        Some(self.delivery.id)
    }

    /// Checks that every client has the answer on record. The record may have been removed since the store answered.
    async fn judge(&self, body: &Bytes, before: Option<&Bytes>) {
        let Self { life, number, .. } = self;
        let world = &life.world;
        let is_on_record = match world.record(*number).await {
            Some(_) => self.is_kept(body).await,
            None => {
                before.is_some_and(|it| it.ends_with(body)) || life.was_told_of_the_end(*number)
            }
        };
        let has_forgotten = world.tally().remembered.contains(number);
        if !is_on_record && !has_forgotten {
            world.violation(format!(
                "{life} answered k{number} with {body:?}, which is not on record"
            ));
        }
    }

    /// Returns whether this is the body of the answer on record.
    async fn is_kept(&self, body: &Bytes) -> bool {
        self.kept().await.is_some_and(|it| it.ends_with(body))
    }

    async fn kept(&self) -> Option<Bytes> {
        self.life.world.record(self.number).await.and_then(kept)
    }
}

/// The code of a problem.
fn code_of<'a>(headers: &HeaderMap, text: &'a str) -> Option<&'a str> {
    let kind = headers.get("content-type")?;
    if kind != "application/problem+json" {
        return None;
    }
    let (_, rest) = text.split_once("\"code\":\"")?;
    rest.split('"').next()
}
