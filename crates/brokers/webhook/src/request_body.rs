//! The body of a request: read whole within bounds, or let go.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::EXPECT;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use semel_http::Problem;
use tokio::time::{Instant, timeout, timeout_at};

use super::answer;
use super::arrivals::Arrival;

/// The bounds of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The largest.
    pub(crate) max_bytes: usize,
    /// The time for it, as the answer has it.
    pub(crate) within: Duration,
}

/// Reads a whole body, and takes memory for what has arrived of it: nobody knows yet whether it is genuine, so it
/// must not keep others out by what it announces, or by how slowly it comes. Each part is shown to `part` first.
pub(crate) async fn read(
    body: Body,
    bounds: Bounds,
    arrival: &mut Arrival,
    deadline: Instant,
    mut part: impl FnMut(&[u8]),
) -> Result<Bytes, Problem> {
    let mut body = Limited::new(body, bounds.max_bytes);
    let mut read = Vec::new();
    loop {
        let frame = tokio::select! {
            biased;
            // It has had its time: nothing more is read.
            () = arrival.is_sent_away() => return Err(answer::no_room()),
            frame = timeout_at(deadline, body.frame()) => frame,
        };
        let frame = match frame {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) if error.is::<LengthLimitError>() => {
                return Err(answer::too_large(bounds.max_bytes));
            }
            Ok(Some(Err(_))) => return Err(answer::broken_off()),
            Ok(None) => return Ok(read.into_boxed_slice().into()),
            Err(_) => return Err(answer::slow_body(bounds.within)),
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if !arrival.grow(read.len() + data.len()) {
            drop(read);
            arrival.end();
            discard(body, DISCARD).await;
            return Err(answer::no_room());
        }
        part(&data);
        read.extend_from_slice(&data);
    }
}

/// Answers a request whose body is not wanted. What is left of it is read up to a bound, since a client that sends
/// before it listens would find the connection closed otherwise, and no answer.
pub(crate) async fn unread(problem: Problem, headers: &HeaderMap, body: Body) -> Response {
    if !headers.contains_key(EXPECT) {
        let longest = match problem.status() {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => STRANGER,
            _ => DISCARD,
        };
        discard(Limited::new(body, DISCARDED_BYTES), longest).await;
    }
    answer::ending(problem).into_response()
}

/// Reads what is left of a body, up to its limit.
async fn discard(mut body: Limited<Body>, longest: Duration) {
    let discard = async { while let Some(Ok(_)) = body.frame().await {} };
    let _ = timeout(longest, discard).await;
}

/// The bytes of an unwanted body that are read: more than the largest body of the providers.
const DISCARDED_BYTES: usize = 64 << 20;
/// The time for them.
pub(crate) const DISCARD: Duration = Duration::from_secs(5);
/// The same where nobody knows who sends it, as at the claim API.
const STRANGER: Duration = Duration::from_secs(1);
