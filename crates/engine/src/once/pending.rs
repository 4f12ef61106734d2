//! A call that runs once it is awaited.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::run::Boxed;

/// A call that runs once it is awaited. It borrows nothing, so it can be spawned or kept.
#[must_use = "a call does nothing until it is awaited"]
pub struct Pending<O>(Boxed<O>);

impl<O> Pending<O> {
    pub(super) fn new(call: impl Future<Output = O> + Send + 'static) -> Self {
        Self(Box::pin(call))
    }
}

impl<O> Future for Pending<O> {
    type Output = O;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<O> {
        self.0.as_mut().poll(context)
    }
}

impl<O> fmt::Debug for Pending<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}
