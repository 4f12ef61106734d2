//! The requests of a listener that is another part's: who ends it has to know when the last answer has gone.

use std::sync::Arc;

use axum::body::Body;
use semel_http::held_until_gone;
use tokio::sync::watch;

/// The number of requests whose answers have not gone.
#[derive(Clone, Debug)]
pub(crate) struct OpenRequests(Arc<watch::Sender<usize>>);

impl OpenRequests {
    /// Counts a request until what this returns is dropped.
    pub(crate) fn begin(&self) -> OpenRequest {
        self.0.send_modify(|count| *count += 1);
        OpenRequest(self.clone())
    }

    /// Waits until there is none.
    ///
    /// # Cancel safety   safe
    pub(crate) async fn none(&self) {
        let mut count = self.0.subscribe();
        // The sender is in this.
        let _ = count.wait_for(|count| *count == 0).await;
    }
}

impl Default for OpenRequests {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

/// A request that counts.
#[derive(Debug)]
pub(crate) struct OpenRequest(OpenRequests);

impl OpenRequest {
    /// Counts until the body of its answer has gone.
    pub(crate) fn until_gone(self, body: Body) -> Body {
        held_until_gone(body, self)
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use axum::body::HttpBody;
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_request_counts_until_its_answer_has_gone() {
        let requests = OpenRequests::default();
        requests.none().await;
        let (one, other) = (requests.begin(), requests.begin());
        drop(other);
        let answer = one.until_gone(Body::from("kept"));
        assert_eq!(answer.size_hint().exact(), Some(4));
        let none = requests.none();
        tokio::pin!(none);
        let turn = tokio::task::yield_now();
        tokio::select! {
            biased;
            () = &mut none => panic!("an answer has not gone"),
            () = turn => {}
        }
        assert_eq!(answer.collect().await.expect("whole").to_bytes(), "kept");
        none.await;
    }
}
