//! One request under a key: claimed, handed to the handler, its answer stored, and only then given.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use axum::response::IntoResponse;
use semel_core::{Code, Key, OpId, Operation, StateKind, Store};
use semel_engine::event::Event;
use semel_engine::once::{Declared, Error, Failure, Op, Receipt, Remember};
use semel_engine::trace::HttpExchange;
use semel_http::{Problem, Tenant};
use tokio::time::timeout;
use tower::Service;

use crate::answered::{Answered, Answers};
use crate::arrival::{body_broken, trailers};
use crate::counts::count;
use crate::fingerprint::derived_key;
use crate::gate::{Gate, OPERATION_ID_HEADER};
use crate::gather::{Gathered, gather, whole};
use crate::inbox::{InTransaction, Ticket};
use crate::key::KEY_HEADER;
use crate::proof::{Answer, Past, Proof};
use crate::reply::{Reply, UNPROTECTED_HEADER, internal, unkept_answer};
use crate::route::{Mode, Route};
use crate::stored::Stored;

/// A service that can be the handler of a layer.
pub(crate) trait Handler<R>:
    Service<Request<Body>, Response = Response<R>, Error: Send, Future: Send> + Clone + Send + 'static
{
}

impl<T, R> Handler<R> for T where
    T: Service<Request<Body>, Response = Response<R>, Error: Send, Future: Send>
        + Clone
        + Send
        + 'static
{
}

/// Runs a request under its key; one without a key gets one that is derived from it.
pub(crate) async fn run<S: Store + Clone, H: Handler<R>, R: Answers>(
    gate: Arc<Gate<S>>,
    handler: H,
    request: Request<Body>,
    key: Option<Key>,
    tenant: Option<Tenant>,
) -> Result<Response<Body>, H::Error> {
    let refused = |problem: Problem| {
        count(&gate.counters.refused);
        Ok(problem.into_response())
    };
    let (mut head, body) = request.into_parts();
    if let Some(key) = key.as_ref().filter(|_| semel_core::planted("M23")) {
        let declared = gate.declared(&head, tenant.as_ref(), b"");
        if let Some(replay) = recorded(&gate.route, &declared, key).await {
            return Ok(replay);
        }
    }
    let body = match gather(body, gate.route.max_body_bytes).await {
        Gathered::Whole {
            bytes,
            trailers: None,
        } => bytes,
        Gathered::Whole { .. } => return refused(trailers()),
        Gathered::Long(_) => return refused(gate.route.body_too_large()),
        Gathered::Broken(_) if semel_core::planted("H09") => Bytes::new(),
        Gathered::Broken(_) => return refused(body_broken()),
    };
    if key.is_none()
        && let Some(problem) = gate.route.underivable(&head, &body)
    {
        return refused(problem);
    }
    let document = gate
        .route
        .fingerprint
        .document(&head, &body, tenant.is_some());
    let declared = gate.declared(&head, tenant.as_ref(), &document);
    let key = match key {
        Some(key) => Ok(key),
        None => derive(&document, &mut head.headers),
    };
    let operation = key.ok().and_then(|key| declared.operation(key).ok());
    let Some(operation) = operation else {
        return refused(internal(None));
    };
    let place = gate.waiters.enter(operation.id());
    // Without a place it is decided at once.
    let declared = match place {
        Some(_) => declared,
        None => declared.wait(Duration::ZERO),
    };
    let request = Request::from_parts(head, Body::from(body));
    let exchange = Arc::new(Exchange::new(handler, request));
    let attempt = {
        let (gate, exchange) = (Arc::clone(&gate), Arc::clone(&exchange));
        let declared = declared.clone();
        move |op| async move { exchange.attempt(&gate, &declared, op).await }
    };
    let result = tokio::select! {
        biased;
        answer = exchange.unstored(), if semel_core::planted("M22") => return answer,
        result = declared.once(&operation.key, attempt) => result,
    };
    drop(place);
    if let Err(Error::ClaimLost {
        found: Some(StateKind::Completed),
        ..
    }) = &result
        && gate.hands_inboxes()
        && let Some(replay) = recorded(&gate.route, &declared, &operation.key).await
    {
        // Its commit was not answered, and was applied.
        return Ok(replay);
    }
    exchange.conclude(&gate, &operation, result).await
}

/// Gives a request without a key the one that its parts make.
fn derive(document: &[u8], headers: &mut HeaderMap) -> Result<Key, semel_core::Unusable> {
    let text = derived_key(document);
    if let Ok(value) = HeaderValue::from_str(&text) {
        headers.insert(KEY_HEADER, value);
    }
    Key::new(&text)
}

/// A request until its handler is called, and the answer from then on.
struct Exchange<H: Service<Request<Body>>> {
    request: Mutex<Option<(H, Request<Body>)>>,
    answer: Mutex<Option<Result<Response<Body>, H::Error>>>,
}

impl<H: Service<Request<Body>>> Exchange<H> {
    fn new(handler: H, request: Request<Body>) -> Self {
        Self {
            request: Mutex::new(Some((handler, request))),
            answer: Mutex::new(None),
        }
    }

    /// Calls the handler under a claim. Its answer is kept until the engine has told how the attempt ended.
    async fn attempt<S: Store + Clone, R: Answers>(
        &self,
        gate: &Gate<S>,
        declared: &Declared<S>,
        op: Op,
    ) -> Result<Stored, Failure>
    where
        H: Handler<R>,
    {
        let route: &Route = &gate.route;
        let Some((mut handler, mut request)) = locked(&self.request).take() else {
            return Err(Failure::not_applied("the request is gone"));
        };
        if let Ok(id) = HeaderValue::from_str(op.idempotency_key()) {
            request.headers_mut().insert(OPERATION_ID_HEADER, id);
        }
        request.extensions_mut().insert(op.clone());
        let ticket = gate.hand_inbox(&op, request.extensions_mut());
        let method = request.method().clone();
        let response = handler.call(request).await;
        if let Ok(response) = &response {
            // One that sent the request to a server has said so.
            op.exchanged_unless_noted(|| HttpExchange {
                method: Some(method.as_str().into()),
                status: Some(response.status().as_u16()),
                ..HttpExchange::default()
            });
        }
        if let Some(ticket) = &ticket {
            ticket.seal();
        }
        if let Some(stored) = ticket.as_ref().and_then(Ticket::committed) {
            // Any other answer would deny what is on record.
            let response = match response {
                Ok(response) if response.extensions().get::<InTransaction>().is_some() => {
                    response.map(Body::new)
                }
                Ok(_) | Err(_) => route.replay(stored.clone(), op.operation_id()),
            };
            *locked(&self.answer) = Some(Ok(response));
            return Ok(stored);
        }
        let response = match response {
            Ok(response) => response,
            Err(error) => {
                *locked(&self.answer) = Some(Err(error));
                return Err(Failure::maybe_applied("the service failed"));
            }
        };
        let Some(mut answered) = Answered::read(route, response).await else {
            let why = "its answer broke off";
            return Err(if semel_core::planted("H07") {
                Failure::not_applied(why)
            } else {
                Failure::maybe_applied(why)
            });
        };
        let was_tried = ticket.as_ref().is_some_and(Ticket::was_tried);
        let said = said(answered.answer(), &answered.head.extensions, route);
        let proof = match said {
            // The claim is released unless the commit was applied after all; nobody knows before the store has answered.
            _ if was_tried && semel_core::planted("H22") => Proof::NotApplied,
            _ if was_tried => Proof::MaybeApplied,
            Some(said) => said,
            None => prove(answered.answer(), gate, declared, &op).await,
        };
        let (status, stored) = (answered.head.status, answered.stored(route));
        if ticket.is_some() && proof == Proof::Outcome && status.is_success() {
            count(&gate.counters.unprotected);
            let reason = HeaderValue::from_static(OUTSIDE_TRANSACTION);
            answered.head.headers.insert(UNPROTECTED_HEADER, reason);
        }
        let response = if was_tried && status.is_success() {
            // It would tell the client of work that was rolled back.
            internal(Some(op.operation_id())).into_response()
        } else {
            answered.into_response()
        };
        *locked(&self.answer) = Some(Ok(response));
        let words = format!("the service answered {}", status.as_u16());
        match proof {
            Proof::Outcome => Ok(stored),
            Proof::NotApplied => Err(Failure::not_applied(words).retry_after(Duration::ZERO)),
            Proof::MaybeApplied if was_tried => {
                Err(Failure::maybe_applied(words).retry_after(Duration::ZERO))
            }
            Proof::MaybeApplied => Err(Failure::maybe_applied(words)),
        }
    }

    /// Waits for an answer, stored or not: the way of a planted bug.
    async fn unstored(&self) -> Result<Response<Body>, H::Error> {
        loop {
            if let Some(answer) = locked(&self.answer).take() {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Answers the client.
    async fn conclude<S: Store + Clone, R: Answers>(
        &self,
        gate: &Gate<S>,
        operation: &Operation,
        result: Result<Receipt<Stored>, Error>,
    ) -> Result<Response<Body>, H::Error>
    where
        H: Handler<R>,
    {
        let route = &gate.route;
        let answer = locked(&self.answer).take();
        let missing = || Ok(internal(Some(operation.id())).into_response());
        let error = match result {
            Ok(receipt) if receipt.is_replay() => {
                let id = receipt.operation_id();
                return Ok(route.replay(receipt.into_value(), id));
            }
            Ok(_) => return answer.unwrap_or_else(missing),
            Err(error) => error,
        };
        let response = match (route.reply(&error, answer.is_some()), answer) {
            (Reply::Problem(problem), _) => return Ok(problem.into_response()),
            (Reply::Handler, answer) => return answer.unwrap_or_else(missing),
            (Reply::Unprotected, Some(answer)) => answer,
            (Reply::Unprotected, None) => {
                let Some((mut handler, request)) = locked(&self.request).take() else {
                    return missing();
                };
                let attempt = 1;
                let event = Event::Unprotected { operation, attempt };
                gate.observer.observe(operation.scope.operation(), &event);
                handler
                    .call(request)
                    .await
                    .map(|response| response.map(Body::new))
            }
        };
        count(&gate.counters.unprotected);
        response.map(|mut response| {
            let reason = HeaderValue::from_static(Code::StoreUnavailable.as_str());
            response.headers_mut().insert(UNPROTECTED_HEADER, reason);
            response
        })
    }
}

/// Returns what a handler says itself about its answer; nothing of the stored answer to the first attempt.
fn said(answer: Answer<'_>, extensions: &Extensions, route: &Route) -> Option<Proof> {
    let is_first = route.is_keyed() && answer.is_replayed();
    extensions.get::<Proof>().copied().filter(|_| !is_first)
}

/// Finds out what an answer proves. Earlier attempts are looked up only where they matter.
async fn prove<S: Store + Clone>(
    answer: Answer<'_>,
    gate: &Gate<S>,
    declared: &Declared<S>,
    op: &Op,
) -> Proof {
    let route: &Route = &gate.route;
    let [clean, doubtful] = [Past::Clean, Past::Doubtful].map(|past| route.proof(answer, past));
    if clean == doubtful {
        return clean;
    }
    // A transaction that was not committed left nothing; a mark is from before the route had an inbox.
    let is_takeover = if gate.hands_inboxes() {
        op.first_started_at().is_some()
    } else {
        op.is_takeover()
    };
    if is_takeover || op.is_possible_repeat() {
        return doubtful;
    }
    match past(declared, op).await {
        Past::Clean => clean,
        Past::Doubtful => doubtful,
    }
}

/// Finds out whether an earlier attempt may have been applied. Where that cannot be found out, one may have been.
///
/// A time that ran out is no answer: a process that stood still finds it over and the answer there, or its connection
/// gone, so it asks once more.
async fn past<S: Store + Clone>(declared: &Declared<S>, op: &Op) -> Past {
    if semel_core::planted("H06") {
        return Past::Clean;
    }
    for _ in 0..PAST_LOOK_UPS {
        // The number of the attempt does not tell: an operator's retry counts anew, and keeps the doubt.
        match timeout(PAST_WITHIN, declared.record(op.key())).await {
            Ok(Ok(Some(record))) if record.doubt.is_none() => return Past::Clean,
            Ok(Ok(_)) => return Past::Doubtful,
            Ok(Err(_)) | Err(_) => {}
        }
    }
    Past::Doubtful
}

/// Returns the answer that is on record for a key, if that can be found out.
async fn recorded<S: Store + Clone>(
    route: &Route,
    declared: &Declared<S>,
    key: &Key,
) -> Option<Response<Body>> {
    let id = declared.operation(key).ok()?.id();
    let record = timeout(PAST_WITHIN, declared.record(key)).await.ok()?;
    let record = record.ok()??;
    let stored = Stored::from_outcome(record.outcome.as_ref()?).ok()?;
    Some(route.replay(stored, id))
}

impl Route {
    /// Answers a duplicate with the answer of the first time.
    fn replay(&self, stored: Stored, id: OpId) -> Response<Body> {
        let mut response = match stored {
            Stored::Answer {
                status,
                headers,
                body,
                trailers,
            } => {
                let mut response = Response::new(whole(body, trailers));
                *response.status_mut() = status;
                *response.headers_mut() = headers;
                response
            }
            Stored::Unkept { unkept, status } => {
                return unkept_answer(unkept, status, id).into_response();
            }
            Stored::ByHand { body } => by_hand(body),
        };
        let replayed = HeaderName::from_static(match self.mode {
            Mode::Ietf => "idempotency-replayed",
            Mode::Stripe => "idempotent-replayed",
        });
        let headers = response.headers_mut();
        headers.insert(replayed, HeaderValue::from_static("true"));
        response
    }
}

/// The answer that stands for an outcome without a status: that of a success.
fn by_hand(body: Bytes) -> Response<Body> {
    let is_json = semel_core::json::Document::parse(&body).is_ok();
    let is_empty = body.is_empty();
    let mut response = Response::new(Body::from(body));
    if is_empty {
        *response.status_mut() = StatusCode::NO_CONTENT;
        return response;
    }
    let kind = if is_json {
        "application/json"
    } else {
        "application/octet-stream"
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Locks a place that one task at a time uses, for as long as it takes to put something there.
fn locked<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The longest look-up of earlier attempts.
const PAST_WITHIN: Duration = Duration::from_secs(1);
/// The most look-ups of which none was answered.
const PAST_LOOK_UPS: u32 = 2;
/// The reason of an answer that a handler gave without its inbox.
const OUTSIDE_TRANSACTION: &str = "outside-transaction";
