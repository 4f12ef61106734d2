//! One path of a listener: takes a request in, and answers it.

use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use semel_core::Clock;
use semel_http::{Hosts, Problem, needs_token};
use tokio::time::{Instant, timeout_at};

use super::answer;
use super::arrivals::{Arrival, Arrivals};
use super::inbox::{Ending, Inbox};
use super::message::{Message, slack_challenge};
use super::options::Options;
use super::request_body::{self, Bounds};
use super::scheme::Scheme;
use super::verification::Check;

/// One path of a listener, and the source behind it.
pub(crate) struct Route {
    options: Options,
    /// Of a listener that takes what nobody signs: no web page may call it.
    hosts: Option<Hosts>,
    clock: Arc<dyn Clock>,
    arrivals: Arc<Arrivals>,
    inbox: Inbox,
}

impl Route {
    /// The route of one of `paths` of a listener that takes so many connections.
    pub(crate) fn new(
        options: Options,
        clock: Arc<dyn Clock>,
        connections: usize,
        paths: usize,
    ) -> Self {
        let inbox = Inbox::new(options.max_in_hand, options.max_body_bytes);
        let arrivals = Arrivals::new(options.max_body_bytes, connections, paths);
        let arrivals = Arc::new(arrivals);
        let is_open = *options.verification.scheme() == Scheme::None;
        let hosts = is_open.then(|| {
            let is_loopback = !needs_token(options.listen);
            Hosts::new(&options.hosts, is_loopback).without_pages()
        });
        Self {
            options,
            hosts,
            clock,
            arrivals,
            inbox,
        }
    }

    pub(crate) const fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    pub(crate) const fn options(&self) -> &Options {
        &self.options
    }

    /// Answers a request once its message is on record, or its time is over.
    ///
    /// # Cancel safety
    ///
    /// A message that was put into the inbox stays in hand, whoever hung up.
    pub(crate) async fn answer(&self, request: Request) -> Response {
        let deadline = Instant::now() + self.options.answer_within;
        let (parts, body) = request.into_parts();
        let (mut check, mut arrival) = match self.admit(&parts, &body) {
            Ok(admitted) => admitted,
            Err(problem) => return request_body::unread(problem, &parts.headers, body).await,
        };
        let body = match self.read(body, &mut arrival, &mut check, deadline).await {
            Ok(body) => body,
            Err(problem) => return answer::ending(problem).into_response(),
        };
        let taken = self.take(&parts.headers, body, check);
        drop(arrival);
        match taken {
            Taken::InHand(ending) => self.wait(ending, deadline).await,
            Taken::Answered(response) => response,
        }
    }

    /// Checks a request before its body is read.
    fn admit(&self, parts: &Parts, body: &Body) -> Result<(Check, Arrival), Problem> {
        if let Some(hosts) = &self.hosts {
            hosts.check(parts)?;
        }
        if parts.method != Method::POST {
            return Err(answer::method_not_allowed());
        }
        if self.inbox.is_closed() {
            return Err(answer::closed());
        }
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > self.options.max_body_bytes {
            return Err(answer::too_large(self.options.max_body_bytes));
        }
        if !self.inbox.has_room(announced) {
            return Err(answer::no_room());
        }
        let check = self.options.verification.begin(&parts.headers);
        let check = check.map_err(|refusal| answer::refused(&refusal))?;
        let arrival = self.arrivals.begin().ok_or_else(answer::no_room)?;
        Ok((check, arrival))
    }

    /// Reads a whole body, and checks it on the way.
    async fn read(
        &self,
        body: Body,
        arrival: &mut Arrival,
        check: &mut Check,
        deadline: Instant,
    ) -> Result<Bytes, Problem> {
        let bounds = Bounds {
            max_bytes: self.options.max_body_bytes,
            within: self.options.answer_within,
        };
        request_body::read(body, bounds, arrival, deadline, |data| check.add(data)).await
    }

    /// Puts the message of a genuine request into the inbox.
    fn take(&self, headers: &HeaderMap, body: Bytes, check: Check) -> Taken {
        let Options {
            path,
            verification,
            max_message_bytes,
            ..
        } = &self.options;
        let answered = |problem: Problem| Taken::Answered(problem.into_response());
        if let Err(refusal) = check.end(self.clock.now()) {
            return answered(answer::refused(&refusal));
        }
        let scheme = verification.scheme();
        if let Some(text) = slack_challenge(scheme, &body) {
            return Taken::Answered(answer::challenged(text));
        }
        let Some(room) = self.inbox.room(body.len()) else {
            return answered(answer::no_room());
        };
        let message = Message::new(scheme, path, headers, body, *max_message_bytes);
        match self.inbox.put(message, room) {
            Some(ending) => Taken::InHand(ending),
            None => answered(answer::closed()),
        }
    }

    async fn wait(&self, ending: Receiver, deadline: Instant) -> Response {
        match timeout_at(deadline, ending).await {
            Ok(Ok(Ending::Settled(fate))) => answer::settled(fate),
            Ok(Ok(Ending::Closed) | Err(_)) => answer::closing().into_response(),
            Err(_) => answer::late(&self.options).into_response(),
        }
    }
}

type Receiver = tokio::sync::oneshot::Receiver<Ending>;

/// The way of a request whose body was read.
enum Taken {
    InHand(Receiver),
    Answered(Response),
}

#[cfg(test)]
mod tests;
