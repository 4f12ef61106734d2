//! Requests in shadow: they pass unchanged, and what the route would have done is counted.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response};
use semel_core::{Key, Store};
use semel_engine::once::{Error, Receipt};
use semel_http::Tenant;

use crate::answered::Answers;
use crate::counts::{Counters, count};
use crate::exchange::Handler;
use crate::fingerprint::derived_key;
use crate::gate::Gate;
use crate::gather::{Gathered, gather, whole};
use crate::proof::{Answer, Past, Proof};

/// Passes a request with a key, and records the key beside it once its answer is there.
pub(crate) async fn observe<S: Store + Clone, H: Handler<R>, R: Answers>(
    gate: Arc<Gate<S>>,
    mut handler: H,
    request: Request<Body>,
    key: Option<Key>,
    tenant: Option<Tenant>,
) -> Result<Response<Body>, H::Error> {
    let (head, body) = request.into_parts();
    let (body, read) = match gather(body, gate.route.max_body_bytes).await {
        Gathered::Whole { bytes, trailers } => (whole(bytes.clone(), trailers), Some(bytes)),
        Gathered::Long(body) | Gathered::Broken(body) => (body, None),
    };
    if key.is_none()
        && let Some(read) = &read
        && gate.route.underivable(&head, read).is_some()
    {
        count(&gate.counters.refused);
        let response = handler.call(Request::from_parts(head, body)).await?;
        return Ok(response.map(Body::new));
    }
    let recording = read.and_then(|read| {
        let document = gate
            .route
            .fingerprint
            .document(&head, &read, tenant.is_some());
        let key = key.or_else(|| Key::new(&derived_key(&document)).ok())?;
        Some((gate.declared(&head, tenant.as_ref(), &document), key))
    });
    let response = handler.call(Request::from_parts(head, body)).await?;
    let answer = Answer {
        status: response.status(),
        headers: response.headers(),
        trailers: None,
        body: None,
        sender: response.extensions().get().copied().unwrap_or_default(),
    };
    let said = response.extensions().get::<Proof>().copied();
    let proof = match said {
        Some(said) => said,
        None if answer.is_half_read() => {
            count(&gate.counters.shadow_unjudged);
            return Ok(response.map(Body::new));
        }
        None => gate.route.proof(answer, Past::Clean),
    };
    match (proof, recording) {
        (Proof::NotApplied | Proof::MaybeApplied, _) => {}
        (Proof::Outcome, None) => count(&gate.counters.shadow_unrecorded),
        (Proof::Outcome, Some((declared, key))) => {
            let recorded = declared.once(&key, |_| async { Ok(()) });
            // Nobody waits for it: the request has its answer whatever the store does. It ends with the call.
            tokio::spawn(async move { gate.counters.shadow(&recorded.await) });
        }
    }
    Ok(response.map(Body::new))
}

impl Counters {
    fn shadow(&self, recorded: &Result<Receipt<()>, Error>) {
        count(match recorded {
            Ok(receipt) if receipt.is_replay() => &self.shadow_replayed,
            Ok(_) => &self.shadow_first,
            Err(Error::Conflict { .. }) => &self.shadow_conflicts,
            Err(_) => &self.shadow_unrecorded,
        });
    }
}
