//! Messages that are published by HTTP requests, each under its own id.

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use semel_core::json::Document;
use semel_core::port::sink::{Publication, Sink};
use semel_core::{Code, Error, ErrorKind, Result};
use semel_engine::effect::Verdict;

use super::{HttpEffect, OURS, Settings, Template};

/// Publishes each message by one request, whose `Idempotency-Key` is the id of the message.
///
/// # Shape
///
/// As [`HttpEffect`]: 2xx → published; not reached, or an answer that asks to try again → an outage, and so are 3xx,
/// 401, 403, 404, 405 and 407, which are about the place and not the message; a broken or late answer, 5xx → failed,
/// perhaps published; other 4xx → refused for good
#[derive(Debug)]
pub struct HttpSink(HttpEffect);

impl HttpSink {
    /// Returns a sink that sends to `settings.url`. Needs a tokio runtime.
    ///
    /// # Errors
    ///
    /// As [`HttpEffect::new`]
    pub fn new(settings: Settings) -> Result<Self> {
        HttpEffect::new(settings).map(Self)
    }
}

impl Sink for HttpSink {
    /// # Cancel safety
    ///
    /// Requests that were sent may be applied
    async fn publish(&self, batch: &[Publication]) -> Vec<Result<()>> {
        let mut answers = Vec::with_capacity(batch.len());
        for some in batch.chunks(AT_ONCE) {
            answers.extend(together(some.iter().map(|it| self.send(it))).await);
        }
        answers
    }
}

impl HttpSink {
    async fn send(&self, message: &Publication) -> Result<()> {
        let request = match self.0.template.request_of(message) {
            Ok(request) => request,
            Err(error) => {
                return Err(Error::new(ErrorKind::InvalidInput, error.to_string()));
            }
        };
        let answered = self.0.send(request).await;
        answer_of(answered.verdict, answered.is_of_the_place)
    }
}

/// Returns what a verdict says of a message.
fn answer_of(verdict: Verdict, is_of_the_place: bool) -> Result<()> {
    let (kind, error) = match verdict {
        Verdict::Done(_) | Verdict::DoneUnkept { .. } => return Ok(()),
        Verdict::Dead { error, .. } if is_of_the_place => {
            return Err(Error::new(ErrorKind::InvalidConfig, error).not_applied());
        }
        Verdict::Dead { error, .. } => (ErrorKind::InvalidInput, error),
        Verdict::NotApplied { error, retry_after } => {
            let throttled = Error::new(ErrorKind::Throttled, error);
            return Err(throttled.retry_after(retry_after.unwrap_or_default()));
        }
        Verdict::Away { error } => {
            let away = Error::new(ErrorKind::Unavailable, error);
            return Err(away.with_code(Code::TargetAway).not_applied());
        }
        Verdict::MaybeApplied { error } | Verdict::Broken { error, .. } => {
            (ErrorKind::Internal, error)
        }
    };
    Err(Error::new(kind, error).with_code(Code::EffectFailed))
}

impl Template {
    /// Returns the request of a message: its headers, and below them those of the settings and our own.
    fn request_of(&self, message: &Publication) -> hyper::http::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(&self.method)
            .uri(self.target.path_and_query())
            .body(Full::new(message.payload.clone()))?;
        let headers = request.headers_mut();
        for (name, value) in &message.headers {
            let name = HeaderName::from_bytes(name.as_bytes())?;
            if !OURS.contains(&name.as_str()) {
                headers.append(name, HeaderValue::from_bytes(value)?);
            }
        }
        for name in self.headers.keys() {
            headers.remove(name);
        }
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        if !headers.contains_key(CONTENT_TYPE) {
            let is_json = Document::parse(&message.payload).is_ok();
            let kind = if is_json {
                "application/json"
            } else {
                "application/octet-stream"
            };
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        headers.insert("idempotency-key", HeaderValue::try_from(&*message.id)?);
        Ok(request)
    }
}

/// Waits for all of these at once; the answers are in their order.
async fn together<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.map(|it| (Box::pin(it), None)).collect();
    std::future::poll_fn(|context| {
        let mut is_pending = false;
        for (future, answer) in &mut running {
            if answer.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(ended) => *answer = Some(ended),
                    std::task::Poll::Pending => is_pending = true,
                }
            }
        }
        if is_pending {
            std::task::Poll::Pending
        } else {
            std::task::Poll::Ready(())
        }
    })
    .await;
    running
        .into_iter()
        .filter_map(|(_, answer)| answer)
        .collect()
}

/// Requests that are under way at once.
const AT_ONCE: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_that_are_refused_are_an_outage_and_not_the_fault_of_a_message() {
        let refused = || Verdict::Dead {
            error: "HTTP 401".into(),
            decisive: false,
        };
        let kind = |is_of_the_place| {
            let answer = answer_of(refused(), is_of_the_place);
            answer.expect_err("refused").kind()
        };
        assert_eq!(kind(true), ErrorKind::InvalidConfig);
        assert_eq!(kind(false), ErrorKind::InvalidInput);
    }
}
