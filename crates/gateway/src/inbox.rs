//! Answers that a handler records itself, in the transaction of its own work.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::http::{Extensions, Response, response};
use axum::response::IntoResponse;
use futures_util::FutureExt;
use semel_core::{Certainty, Error, ErrorKind, Result, Settled, Settlement, StateKind, Window};
use semel_engine::once::{Op, Remember};

use crate::answered::Answered;
use crate::route::Route;
use crate::stored::Stored;

/// An inbox that records in transactions of the type `T`, of an asynchronous driver.
pub trait Transactions<T>: Send + Sync {
    /// Settles `completion` within `transaction`, and commits both if the answer is `Now(Completed)`. After any other
    /// answer, and after an error, nothing of the transaction is left.
    ///
    /// # Errors
    ///
    /// `Unavailable`, maybe applied: the commit was not answered. All other errors say that nothing was applied.
    ///
    /// # Cancel safety   a call that is dropped may have committed
    fn commit(
        &self,
        transaction: T,
        completion: &Settlement,
    ) -> impl Future<Output = Result<Settled>> + Send;
}

/// An inbox that records in transactions of the type `T`, of a driver that blocks.
pub trait BlockingTransactions<T> {
    /// Does what [`Transactions::commit`] does.
    ///
    /// # Errors
    ///
    /// as [`Transactions::commit`]
    fn commit(&self, transaction: T, completion: &Settlement) -> Result<Settled>;
}

/// The inbox of one request, among its extensions: [commits](RequestInbox::commit) the answer together with the work.
///
/// `I` is the inbox of a driver. Cheap to clone; clones are of the same request.
#[derive(Clone)]
pub struct RequestInbox<I> {
    inbox: I,
    ticket: Ticket,
}

impl<I> RequestInbox<I> {
    /// Returns the attempt: its key for the services that it calls, its number, its fencing token.
    pub const fn op(&self) -> &Op {
        &self.ticket.op
    }

    /// Records `answer` within `transaction`, commits, and returns it for the client. It is the last thing that a handler
    /// does: whatever it answers after this, the recorded answer is the one that counts.
    ///
    /// `transaction` is a whole one and not a savepoint, whose end the one around it can still take back. In `rusqlite` a
    /// savepoint is of another type, and one of `sqlx` is refused; `tokio-postgres` does not tell which it is.
    ///
    /// # Guarantee   INB-1, OUT-1: the work and its answer are committed together, once for the key
    /// # Shape       committed → the answer, also to every duplicate; any error → roll back what is left, answer any
    /// failure: the layer finds out what became of the commit, and gives the recorded answer if there is one. After an
    /// error that says not applied, another transaction may be committed
    /// # Cost        the statements of one completion, and the commit
    /// # Errors
    ///
    /// `InvalidInput`: the status is no outcome of the route; the transaction is a savepoint of `sqlx`; a commit of this request is under way or may have been
    /// applied; the handler has answered; the database does not take the answer, as one over MySQL's
    /// `max_allowed_packet`. `ClaimLost`: another attempt took the request over, or the transaction is not on the store of
    /// the layer. Nothing is applied then. `Unavailable`, maybe applied: the commit was not answered
    ///
    /// # Cancel safety   a call that is dropped may have committed; the layer finds out
    pub async fn commit<T>(
        &self,
        transaction: T,
        answer: impl IntoResponse + Send,
    ) -> Result<Response<Body>>
    where
        I: Transactions<T>,
    {
        let prepared = self.ticket.prepare(answer.into_response()).await?;
        let settled = self.inbox.commit(transaction, &prepared.completion).await;
        self.ticket.conclude(prepared, settled)
    }

    /// Does what [`commit`](RequestInbox::commit) does, and blocks meanwhile. The body of `answer` is there as a whole.
    ///
    /// # Errors
    ///
    /// as [`commit`](RequestInbox::commit); `InvalidInput` as well if the body comes in pieces that have to be waited for
    pub fn commit_blocking<T>(
        &self,
        transaction: T,
        answer: impl IntoResponse,
    ) -> Result<Response<Body>>
    where
        I: BlockingTransactions<T>,
    {
        let prepared = self.ticket.prepare(answer.into_response()).now_or_never();
        let is_stream = || invalid("the body of the answer is a stream".to_owned());
        let prepared = prepared.ok_or_else(is_stream)??;
        let settled = self.inbox.commit(transaction, &prepared.completion);
        self.ticket.conclude(prepared, settled)
    }
}

impl<I> fmt::Debug for RequestInbox<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestInbox")
            .field("op", &self.ticket.op)
            .finish_non_exhaustive()
    }
}

/// The mark of an answer that is committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InTransaction;

/// The knowledge of the inbox and the layer about one attempt.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    op: Op,
    route: Arc<Route>,
    window: Window,
    state: Arc<TicketState>,
}

#[derive(Debug, Default)]
struct TicketState {
    /// A commit was begun.
    was_tried: AtomicBool,
    phase: Mutex<Phase>,
    /// The answer that is surely committed.
    committed: Mutex<Option<Stored>>,
}

/// The turn of commits: a completion is recorded as often as it is asked for, so no second transaction may ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// None was begun, or all of them surely did nothing.
    #[default]
    Open,
    /// One is under way, or was dropped half way.
    Trying,
    /// One was applied, or may have been; or the handler has answered.
    Over,
}

/// An answer that is about to be recorded.
struct Prepared {
    head: response::Parts,
    body: Body,
    stored: Stored,
    completion: Settlement,
}

impl Ticket {
    pub(crate) fn new(op: Op, route: Arc<Route>, window: Window) -> Self {
        let state = Arc::default();
        Self {
            op,
            route,
            window,
            state,
        }
    }

    /// Lets no commit begin from now on: the handler has answered.
    pub(crate) fn seal(&self) {
        let mut phase = self.phase();
        if *phase == Phase::Open {
            *phase = Phase::Over;
        }
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.state
            .phase
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether a commit was begun.
    pub(crate) fn was_tried(&self) -> bool {
        self.state.was_tried.load(Ordering::Acquire) && !semel_core::planted("H14")
    }

    /// Returns the answer that is surely committed.
    pub(crate) fn committed(&self) -> Option<Stored> {
        let committed = self.state.committed.lock();
        committed.unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn prepare(&self, answer: Response<Body>) -> Result<Prepared> {
        let Some(answered) = Answered::read(&self.route, answer).await else {
            return Err(invalid("the body of the answer broke off".to_owned()));
        };
        let status = answered.head.status;
        if !self.route.may_be_outcome(status) {
            let message = format!(
                "an answer of {status} is no outcome of this route; roll back, and give it without the inbox"
            );
            return Err(invalid(message));
        }
        let stored = answered.stored(&self.route);
        let completion = self
            .op
            .completion(stored.to_outcome(usize::MAX), self.window);
        {
            let mut phase = self.phase();
            if *phase != Phase::Open && !semel_core::planted("H21") {
                let message = "a commit of this request is under way or may have been applied, or the request is \
                               answered; nothing more was committed";
                return Err(invalid(message.to_owned()));
            }
            *phase = Phase::Trying;
        }
        self.state.was_tried.store(true, Ordering::Release);
        if semel_core::planted("H13") {
            self.remember(stored.clone());
        }
        let (head, body) = answered.into_response().into_parts();
        Ok(Prepared {
            head,
            body,
            stored,
            completion,
        })
    }

    /// Takes the answer of the database. One that says that nothing was applied lets another transaction try.
    fn conclude(&self, prepared: Prepared, settled: Result<Settled>) -> Result<Response<Body>> {
        let ended = self.recorded(prepared, settled);
        let is_undone = |error: &Error| error.certainty() == Certainty::NotApplied;
        *self.phase() = match &ended {
            Err(error) if is_undone(error) => Phase::Open,
            Ok(_) | Err(_) => Phase::Over,
        };
        ended
    }

    fn recorded(&self, prepared: Prepared, settled: Result<Settled>) -> Result<Response<Body>> {
        match settled? {
            Settled::Now(StateKind::Completed) => {}
            Settled::Failed(error) => return Err(error),
            Settled::Now(found) | Settled::Fenced { found: Some(found) } => {
                let found = found.as_str();
                let message = format!(
                    "another attempt took the request over, and it is {found}; nothing was committed"
                );
                return Err(Error::new(ErrorKind::ClaimLost, message).not_applied());
            }
            Settled::Fenced { found: None } => {
                let message =
                    "this database has no claim of the request: is it the store of the layer?";
                return Err(Error::new(ErrorKind::ClaimLost, message).not_applied());
            }
        }
        self.remember(prepared.stored);
        let mut response = Response::from_parts(prepared.head, prepared.body);
        response.extensions_mut().insert(InTransaction);
        Ok(response)
    }

    fn remember(&self, stored: Stored) {
        let committed = self.state.committed.lock();
        *committed.unwrap_or_else(PoisonError::into_inner) = Some(stored);
        self.op.committed();
    }
}

/// Puts inboxes among the extensions of requests, whatever their driver is.
#[derive(Clone)]
pub(crate) struct Inboxes(Arc<Hand>);

type Hand = dyn Fn(Ticket, &mut Extensions) + Send + Sync;

impl Inboxes {
    pub(crate) fn of<I: Clone + Send + Sync + 'static>(inbox: I) -> Self {
        Self(Arc::new(move |ticket, extensions| {
            let inbox = inbox.clone();
            extensions.insert(RequestInbox { inbox, ticket });
        }))
    }

    pub(crate) fn hand(&self, ticket: Ticket, extensions: &mut Extensions) {
        (self.0)(ticket, extensions);
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidInput, message).not_applied()
}
