//! Orders: planned first, then carried out. A plan says what would happen and has a token; the order that follows shows
//! that token and a reason, and is refused if the plan no longer holds. Planning and carrying out is the work of
//! [`semel_operate`], as it is for the verbs.

mod execution;
mod messages;
mod plan;
mod planning;
mod request;
mod selection;
mod token;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use semel_core::{Clock, Code, Note, Timestamp};
use semel_http::member::{document, members, required};
use semel_http::{Caller, Problem};
use semel_operate::order::note;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::answer::text;
use crate::reading::{Readings, later};
use crate::settings::{Lent, Settings};
use plan::{Plan, PlanAnswer};
use request::Order;
use token::PlanToken;

pub(crate) use request::Action;
#[cfg(test)]
pub(crate) use request::MOST_REASON_BYTES;

/// The orders that are carried out, one after another.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    turn: Arc<Turn<()>>,
    /// Those that go on. A client that hangs up does not end them.
    running: Mutex<JoinSet<()>>,
}

/// Plans an order; changes nothing.
pub(crate) async fn plan(
    readings: &Readings,
    settings: &Settings,
    caller: &Caller,
    action: Action,
    body: &[u8],
) -> Result<Vec<u8>, Problem> {
    let order = Order::read(action, body, caller)?;
    let plan = made(readings, settings, &order, None).await?;
    let token = token_of(caller, action, body, &plan)?;
    text(&PlanAnswer::of(&plan, token))
}

impl Orders {
    /// Carries out the order that a token names, if its plan still holds.
    ///
    /// # Cancel safety
    ///
    /// Dropping it before the order has begun leaves everything as it is; one that has begun goes on to its end.
    pub(crate) async fn carry_out(
        &self,
        readings: &Readings,
        settings: &Settings,
        caller: &Caller,
        action: Action,
        body: &[u8],
    ) -> Result<Vec<u8>, Problem> {
        let document = document(body)?;
        let [token, reason] = members(document.root(), "", ["token", "reason"])?;
        let token = required(token, "", "token")?;
        let reason = request::reason(&required(reason, "", "reason")?)?;
        let shown = PlanToken::read(&token.text()?).map_err(|why| token.fault(why))?;
        shown
            .is_for(caller, action)
            .map_err(|refused| match refused {
                token::Misuse::OtherAction(action) => {
                    token.fault(format!("the plan is one of {action}")).into()
                }
                token::Misuse::OtherCaller => Problem::new(
                    StatusCode::FORBIDDEN,
                    Code::Forbidden.as_str(),
                    "somebody else made this plan; make one of your own",
                ),
            })?;
        let order = Order::read(action, shown.order(), caller)?;
        // One after another, so that a second order meets what the first has done.
        let turn = Arc::clone(&self.turn).lock_owned();
        let Ok(turn) = timeout(TURN, turn).await else {
            return Err(busy());
        };
        let now = settings.clock.now();
        let plan = if shown.has_expired(now) {
            None
        } else {
            let plan = made(readings, settings, &order, Some(shown.bounds())).await?;
            Some(plan).filter(|it| it.digest == shown.digest())
        };
        let Some(plan) = plan else {
            let fresh = made(readings, settings, &order, None).await?;
            let token = token_of(caller, action, shown.order(), &fresh)?;
            return Err(stale(&PlanAnswer::of(&fresh, token)));
        };
        let lent = readings.lent()?;
        let (to, done) = oneshot::channel();
        self.begin(Running {
            lent,
            plan,
            note: note(&caller.name, &reason),
            clock: Arc::clone(&settings.clock),
            to,
            _turn: turn,
        });
        let Ok(answer) = done.await else {
            let detail = "the worker ends; look at /v1/audit for what was done";
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let problem = Problem::new(status, Code::StoreUnavailable.as_str(), detail);
            return Err(problem.with("certainty", "maybe_applied"));
        };
        text(&answer?)
    }

    fn begin(&self, order: Running) {
        let running = self.running.lock();
        let mut running = running.unwrap_or_else(PoisonError::into_inner);
        while running.try_join_next().is_some() {}
        running.spawn(order.run());
    }
}

/// An order that goes on, whoever waits for it.
struct Running {
    lent: Lent,
    plan: Plan,
    note: Note,
    clock: Arc<dyn Clock>,
    to: oneshot::Sender<Result<execution::Answer, Problem>>,
    _turn: OwnedMutexGuard<()>,
}

impl Running {
    async fn run(self) {
        let answer = execution::carry_out(&self.lent, self.plan, &self.note, &*self.clock).await;
        // Whoever asked may have hung up.
        let _ = self.to.send(answer);
    }
}

/// Plans an order: now, or within the bounds of an earlier plan.
async fn made(
    readings: &Readings,
    settings: &Settings,
    order: &Order,
    bounds: Option<Bounds>,
) -> Result<Plan, Problem> {
    let reading = readings.begin().await?;
    let bounds = bounds.unwrap_or_else(|| Bounds::from_now(settings.clock.now()));
    planning::plan(&reading, settings, order, bounds).await
}

/// The time of a plan, and how late what is planned may have begun: what comes after is in no plan that was made before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    at: Timestamp,
    until: Option<Timestamp>,
}

impl Bounds {
    const fn from_now(at: Timestamp) -> Self {
        Self { at, until: None }
    }
}

fn token_of(caller: &Caller, action: Action, order: &[u8], plan: &Plan) -> Result<String, Problem> {
    let token = PlanToken::new(caller, action, order, plan).to_text();
    if token.len() <= MOST_TOKEN_BYTES {
        return Ok(token);
    }
    let detail = "the order is too long for the token of its plan; name fewer keys, or give a shorter outcome";
    let status = StatusCode::PAYLOAD_TOO_LARGE;
    Err(Problem::new(status, Code::BodyTooLarge.as_str(), detail))
}

/// The problem of a plan that no longer holds: it has the members of the new one.
fn stale(fresh: &PlanAnswer<'_>) -> Problem {
    let detail = "what was planned has changed meanwhile, and nothing was done; look at `changes`, and send the new \
                  `token` if that is what you want";
    let problem = Problem::new(StatusCode::CONFLICT, Code::PlanStale.as_str(), detail);
    fresh.members().into_iter().fold(
        problem.with("certainty", "not_applied"),
        |problem, (name, value)| problem.with(&name, value),
    )
}

fn busy() -> Problem {
    let detail = "another order is being carried out; ask again";
    later(Code::Throttled.as_str(), detail).with("certainty", "not_applied")
}

/// The longest wait for the order before.
const TURN: Duration = Duration::from_secs(2);
/// The longest body of a request.
pub const MOST_BODY_BYTES: usize = 4 << 20;
/// The longest token: it comes back in a body, with a reason.
const MOST_TOKEN_BYTES: usize = MOST_BODY_BYTES - (16 << 10);
/// The most changes of a plan, and the most keys or ids that an order names.
pub const MOST_CHANGES: usize = 2_000;
