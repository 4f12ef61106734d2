//! A closure that runs as an effect.

use std::future::Future;
use std::time::Duration;

use super::message::{IntoOutcome, Message};
use crate::effect::{Call, Effect, Verdict};
use crate::once::{Failure, TimedOut};

/// A closure as an effect.
pub(super) struct Handler<F> {
    pub(super) handler: F,
    pub(super) timeout: Option<Duration>,
}

impl<R, F, Fut> Effect for Handler<F>
where
    R: IntoOutcome,
    F: Fn(Message) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = std::result::Result<R, Failure>> + Send,
{
    async fn call(&self, call: Call) -> Verdict {
        let running = (self.handler)(Message::new(call));
        let result = match self.timeout {
            None => running.await,
            Some(limit) => match tokio::time::timeout(limit, running).await {
                Ok(result) => result,
                Err(_) => Err(Failure::maybe_applied(TimedOut { limit })),
            },
        };
        match result {
            Ok(reply) => Verdict::Done(reply.into_outcome()),
            Err(failure) => failure.into(),
        }
    }
}
