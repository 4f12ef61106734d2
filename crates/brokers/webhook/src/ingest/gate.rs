//! One path that takes messages: keeps them in the journal, and answers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use semel_core::ingest::{GateAnswer, Submission};
use semel_core::port::ingest::{AnyIngestJournal, IngestJournal};
use semel_core::{Clock, Timestamp};
use semel_http::{Caller, Hosts, Problem, Role, needs_token};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::answer;
use super::identity::Identity;
use super::lanes::Lanes;
use super::messages::{memory, messages};
use super::options::{IngestOptions, Token};
use super::refusals;
use crate::answer as common;
use crate::answers::Answers;
use crate::arrivals::{Arrival, Arrivals};
use crate::entrance::Entrance;
use crate::request_body::{self, Bounds};

/// One path that takes messages, and the journal behind it.
pub(crate) struct Gate {
    options: IngestOptions,
    journal: AnyIngestJournal,
    /// Of a path without tokens, unless its listener has checked them: no web page may call it.
    hosts: Option<Hosts>,
    clock: Arc<dyn Clock>,
    arrivals: Arc<Arrivals>,
    lanes: Arc<Lanes>,
    answers: Arc<Answers>,
    /// The calls of the journal, which go on although their clients hang up.
    calls: Mutex<JoinSet<()>>,
}

impl Gate {
    pub(crate) fn new(
        options: IngestOptions,
        journal: AnyIngestJournal,
        clock: Arc<dyn Clock>,
        arrivals: Arrivals,
        answers: Arc<Answers>,
    ) -> Self {
        let lanes = Arc::<Lanes>::default();
        answers.show(Arc::clone(&lanes));
        let clients = options.tokens.iter().filter_map(Token::client);
        answers.refusals.expect(clients);
        let is_open = options.tokens.is_empty() && !is_of_admin(&options);
        let hosts = is_open.then(|| {
            let is_loopback = !needs_token(options.entrance.address());
            Hosts::new(&options.hosts, is_loopback).without_pages()
        });
        Self {
            options,
            journal,
            hosts,
            clock,
            arrivals: Arc::new(arrivals),
            lanes,
            answers,
            calls: Mutex::default(),
        }
    }

    pub(crate) const fn options(&self) -> &IngestOptions {
        &self.options
    }

    pub(crate) const fn journal(&self) -> &AnyIngestJournal {
        &self.journal
    }

    pub(crate) const fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lanes.is_closed()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Answers a request once its messages are kept, or refused.
    ///
    /// # Cancel safety
    ///
    /// Messages that are about to be kept are kept, whoever hung up.
    pub(crate) async fn answer(&self, request: Request) -> Response {
        let deadline = Instant::now() + self.options.body_within;
        let (parts, body) = request.into_parts();
        let (client, identity, mut arrival) = match self.admit(&parts, &body) {
            Ok(admitted) => admitted,
            Err(problem) => return request_body::unread(problem, &parts.headers, body).await,
        };
        let bounds = Bounds {
            max_bytes: self.options.max_body_bytes,
            within: self.options.body_within,
        };
        let read = request_body::read(body, bounds, &mut arrival, deadline, |_| {});
        let body = match read.await {
            Ok(body) => body,
            Err(problem) => return common::ending(problem).into_response(),
        };
        let taken = self.take(&parts.headers, &identity, &body, arrival).await;
        let answered = taken.map(|answer| {
            if let Some(reason) = refusals::reason(&answer) {
                self.answers.refusals.count(reason.as_str(), client);
            }
            let is_numbered = matches!(identity, Identity::Producer { .. });
            answer::decided(answer, is_numbered)
        });
        answered.unwrap_or_else(IntoResponse::into_response)
    }

    /// Checks a request before its body is read.
    fn admit<'r>(
        &'r self,
        parts: &'r Parts,
        body: &Body,
    ) -> Result<(Option<&'r str>, Identity, Arrival), Problem> {
        if let Some(hosts) = &self.hosts {
            hosts.check(parts)?;
        }
        if parts.method != Method::POST {
            return Err(common::method_not_allowed());
        }
        let client = self.authorize(parts)?;
        if self.is_closed() {
            return Err(common::closed());
        }
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > self.options.max_body_bytes {
            return Err(common::too_large(self.options.max_body_bytes));
        }
        let identity = Identity::read(&parts.headers, self.options.is_required);
        let identity = identity.inspect_err(|problem| {
            self.answers.refusals.count(problem.code(), client);
        })?;
        if let Identity::Producer { producer, .. } = &identity
            && !self.lanes.has_place(producer, self.options.max_producers)
        {
            return Err(answer::too_many_producers(self.options.max_producers));
        }
        if !self.lanes.has_room(self.options.max_waiting) {
            return Err(common::no_room());
        }
        let arrival = self.arrivals.begin().ok_or_else(common::no_room)?;
        Ok((client, identity, arrival))
    }

    /// Asks for a token, if there is any; returns the name of its client, if it has one.
    fn authorize<'r>(&'r self, parts: &'r Parts) -> Result<Option<&'r str>, Problem> {
        if is_of_admin(&self.options) {
            return operator(parts).map(Some);
        }
        let tokens = &self.options.tokens;
        let shown = parts.headers.get(AUTHORIZATION).and_then(|it| {
            let (scheme, token) = it.as_bytes().split_at_checked(7)?;
            scheme
                .eq_ignore_ascii_case(b"bearer ")
                .then_some(token.trim_ascii())
        });
        if tokens.is_empty() {
            return Ok(None);
        }
        // Each of them is compared, whichever it is.
        let known = shown.and_then(|shown| {
            let known = tokens.iter().filter(|it| it.is(shown));
            known.fold(None, |found, it| found.or(Some(it)))
        });
        known.map(Token::client).ok_or_else(answer::unauthorized)
    }

    /// Has the journal take the messages of a body.
    async fn take(
        &self,
        headers: &HeaderMap,
        identity: &Identity,
        body: &Bytes,
        arrival: Arrival,
    ) -> Result<GateAnswer, Problem> {
        let submission = Submission {
            numbering: identity.numbering(self.options.is_any_first, body),
            stream: self.options.stream.clone(),
            messages: messages(headers, identity, body, &self.options)?,
            at: self.clock.now(),
        };
        // From here on, it is in memory for as long as the journal takes.
        if !arrival.hold(memory(&submission.messages).max(body.len())) {
            return Err(common::no_room());
        }
        let (journal, lanes) = (self.journal.clone(), Arc::clone(&self.lanes));
        let (told, answered) = oneshot::channel();
        {
            let mut calls = self.calls();
            while calls.try_join_next().is_some() {}
            // Asked under the same lock that the source waits for its calls with.
            if self.is_closed() {
                return Err(common::closed());
            }
            // Others had their bodies read at the same time: asked before any of these is kept.
            let count = submission.count().into();
            let Some(place) = lanes.reserve(count, self.options.max_waiting) else {
                return Err(common::no_room());
            };
            calls.spawn(async move {
                let answer = journal.submit(&submission).await;
                // What is known may be new here: an answer that was lost, or another worker, took it.
                if let Ok(GateAnswer::Taken { new, next, .. }) = &answer {
                    lanes.took(&submission.producer(), *new, *next);
                }
                drop(place);
                // A client that hung up sends the messages again, and they are known.
                let _ = told.send(answer);
                drop(arrival);
            });
        }
        let answer = answered.await.map_err(|_| common::closing())?;
        answer.map_err(|error| Problem::from(&error))
    }

    /// Takes no more messages, and waits until those in hand are kept.
    pub(crate) async fn close(&self) {
        self.lanes.close();
        let mut calls = std::mem::take(&mut *self.calls());
        while calls.join_next().await.is_some() {}
    }

    /// Returns the number of requests whose messages the journal has in hand.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.arrivals.held()
    }

    fn calls(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells whether the listener of the admin API has found out who sends.
const fn is_of_admin(options: &IngestOptions) -> bool {
    matches!(options.entrance, Entrance::Admin(_))
}

/// Returns the name of a caller of the admin API who may send: an operator of every tenant, as a message may be of any. The
/// console has no page that sends messages, so no page may, not even its own.
fn operator(parts: &Parts) -> Result<&str, Problem> {
    let headers = &parts.headers;
    if headers.contains_key(ORIGIN) || headers.contains_key("sec-fetch-site") {
        return Err(answer::from_page());
    }
    let caller = parts.extensions.get::<Caller>();
    let caller = caller.ok_or_else(answer::unauthorized)?;
    caller.may(Role::Operator)?;
    if caller.tenant.is_some() {
        return Err(answer::confined());
    }
    Ok(&caller.name)
}
