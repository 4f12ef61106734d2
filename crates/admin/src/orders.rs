//! Orders: planned first, then carried out. A plan says what would happen and has a token; the order that follows shows
//! that token and a reason, and is refused if the plan no longer holds. Planning and carrying out is the work of
//! [`semel_operate`], as it is for the verbs.

mod execution;
mod extension;
mod extension_plan;
mod letter;
mod letter_order;
mod letter_plan;
mod lookup;
mod messages;
mod pauses;
mod plan;
mod planning;
mod producing;
mod request;
mod rerun;
mod runs;
mod selection;
mod token;
mod traces;
mod used_tokens;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use semel_core::{Claimant, Clock, Code, Entropy, Note, Timestamp};
use semel_http::member::{document, members, required};
use semel_http::{Caller, Problem};
use semel_operate::order::note;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::answer::text;
use crate::reading::{Readings, Subject as Read, later};
use crate::settings::{Lent, Settings};
use execution::Execution;
use plan::{Plan, PlanAnswer, Work};
use request::Order;
use runs::{Asked, ExtensionTask, RunTask, Subject};
use token::PlanToken;
use traces::place_of;
use used_tokens::UsedTokens;

pub(crate) use execution::no_trail;
#[cfg(test)]
pub(crate) use request::MOST_REASON_BYTES;
pub(crate) use request::{Action, reason_alone};
pub(crate) use runs::{Run, Runs};

/// The orders that are carried out, one after another.
#[derive(Debug, Default)]
pub struct Orders {
    turn: Arc<Turn<()>>,
    /// Those that go on. A client that hangs up does not end them.
    running: Mutex<JoinSet<()>>,
    runs: Runs,
    used: Arc<UsedTokens>,
    is_stopping: Arc<AtomicBool>,
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
    /// Refuses orders from now on. One that is being carried out ends after the batch in hand.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.runs.stop();
    }

    /// Stops, and waits for the batch in hand, and for the messages that runs have in hand; for as long at most, then gives
    /// them up.
    ///
    /// # Cancel safety
    ///
    /// Safe: orders stay refused.
    pub async fn ended(&self, within: Duration) {
        self.stop();
        let ended = async {
            // No order and no run begins after this one.
            let _turn = self.turn.lock().await;
            self.runs.ended().await;
        };
        let is_late = timeout(within, ended).await.is_err();
        // A task holds the store for a little longer than its order takes.
        let mut running = std::mem::take(&mut *self.running());
        if is_late {
            running.abort_all();
        }
        while running.join_next().await.is_some() {}
    }

    /// The runs that go on, and the last ones that have ended.
    pub(crate) const fn runs(&self) -> &Runs {
        &self.runs
    }

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
    ) -> Result<Carried, Problem> {
        let prepared = timeout(
            PREPARATION,
            self.prepared(readings, settings, caller, action, body),
        );
        let prepared = prepared.await.unwrap_or_else(|_| Err(late()));
        // Until here, nothing was tried.
        let prepared = prepared.map_err(|it| it.with("certainty", "not_applied"))?;
        let (order, done) = match prepared {
            Prepared::Order(order, done) => (order, done),
            Prepared::Run(run) => {
                run.answered().await;
                return Ok(Carried::Run(run));
            }
        };
        let place = place_of(&order.plan.work, &settings.relays);
        self.begin(order.run());
        let (detail, code) = match timeout(EXECUTION, done).await {
            Ok(Ok(answer)) => return Ok(Carried::Order(text(&answer?)?)),
            Ok(Err(_)) => (
                format!("the order was not carried to its end; look at {place} for what was done"),
                Code::StoreUnavailable,
            ),
            Err(_) => (
                format!("the order goes on; look at {place} for what was done"),
                Code::Timeout,
            ),
        };
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, code.as_str(), detail);
        Err(problem.with("certainty", "maybe_applied"))
    }

    /// Prepares an order whose plan holds, and returns what its answer comes by: nothing is tried yet. A run begins here.
    async fn prepared(
        &self,
        readings: &Readings,
        settings: &Settings,
        caller: &Caller,
        action: Action,
        body: &[u8],
    ) -> Result<Prepared, Problem> {
        let document = document(body)?;
        let [token, reason] = members(document.root(), "", ["token", "reason"])?;
        let token = required(token, "", "token")?;
        let reason = request::reason(&required(reason, "", "reason")?)?;
        let sent = token.text()?;
        let shown = PlanToken::read(&sent).map_err(|why| token.fault(why))?;
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
        if let Some(run) = self.runs.begun_with(&sent) {
            return Ok(Prepared::Run(run));
        }
        let now = settings.clock.now();
        let plan = if shown.has_expired(now) || self.used.has(&sent) {
            None
        } else {
            let plan = made(readings, settings, &order, Some(shown.bounds())).await?;
            self.runs.check(&plan, caller)?;
            Some(plan).filter(|it| it.digest == shown.digest())
        };
        let Some(plan) = plan else {
            let fresh = made(readings, settings, &order, None).await?;
            let token = token_of(caller, action, shown.order(), &fresh)?;
            return Err(stale(&PlanAnswer::of(&fresh, token)));
        };
        self.takes_orders()?;
        let lent = readings.lent()?;
        let note = note(&caller.name, &reason);
        let asked = Asked {
            caller,
            action,
            token: &sent,
            reason: &note.reason,
            at: now,
        };
        if let Work::Extension(extension) = plan.work {
            let subject = Subject::of_keys(&extension.pipeline);
            let entropy = &*settings.entropy;
            let run = self.runs.begin(&asked, plan.changes, subject, entropy);
            let task = ExtensionTask {
                run: Arc::clone(&run),
                extension,
                lent,
                note,
                clock: Arc::clone(&settings.clock),
                end: self.runs.end(),
            };
            self.begin(task.run());
            return Ok(Prepared::Run(run));
        }
        if let Work::Rerun(rerun) = plan.work {
            let runner = lent.runner.clone().ok_or_else(no_runner)?;
            let subject = Subject::of_rerun(&rerun);
            let entropy = &*settings.entropy;
            let run = self.runs.begin(&asked, plan.changes, subject, entropy);
            let task = RunTask {
                run: Arc::clone(&run),
                rerun,
                runner,
                lent,
                pipelines: settings.pipelines.clone(),
                note,
                clock: Arc::clone(&settings.clock),
                entropy: Arc::clone(&settings.entropy),
                end: self.runs.end(),
            };
            self.begin(task.run());
            return Ok(Prepared::Run(run));
        }
        let (to, done) = oneshot::channel();
        let order = Running {
            lent,
            plan,
            note,
            clock: Arc::clone(&settings.clock),
            entropy: Arc::clone(&settings.entropy),
            is_stopping: Arc::clone(&self.is_stopping),
            token: sent.into_owned(),
            used: Arc::clone(&self.used),
            to,
            _turn: turn,
        };
        Ok(Prepared::Order(Box::new(order), done))
    }

    /// Refuses where the worker ends.
    fn takes_orders(&self) -> Result<(), Problem> {
        if self.is_stopping.load(Ordering::Relaxed) {
            let detail = "the worker ends, and takes no more orders; ask the next one";
            return Err(later(Code::StoreUnavailable.as_str(), detail));
        }
        Ok(())
    }

    fn begin(&self, order: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.running();
        while running.try_join_next().is_some() {}
        running.spawn(order);
    }

    fn running(&self) -> MutexGuard<'_, JoinSet<()>> {
        let running = self.running.lock();
        running.unwrap_or_else(PoisonError::into_inner)
    }
}

/// An order whose plan holds.
enum Prepared {
    /// It is to be carried out, and its answer comes by this channel.
    Order(Box<Running>, PendingAnswer),
    /// It is carried out by a run, which has begun.
    Run(Arc<Run>),
}

/// The answer to an order that was carried out, or is.
pub(crate) enum Carried {
    /// Its answer.
    Order(Vec<u8>),
    /// The run that carries it out, which may go on.
    Run(Arc<Run>),
}

/// The answer to an order, once there is one.
type PendingAnswer = oneshot::Receiver<Result<execution::Answer, Problem>>;

/// An order that goes on, whoever waits for it.
struct Running {
    lent: Lent,
    plan: Plan,
    note: Note,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    is_stopping: Arc<AtomicBool>,
    token: String,
    used: Arc<UsedTokens>,
    to: oneshot::Sender<Result<execution::Answer, Problem>>,
    _turn: OwnedMutexGuard<()>,
}

impl Running {
    async fn run(self) {
        let execution = Execution {
            lent: &self.lent,
            note: &self.note,
            clock: &*self.clock,
            entropy: &*self.entropy,
            claimant: Claimant::random(&*self.entropy),
            is_stopping: &self.is_stopping,
        };
        let (is_sweep, is_of_producers) = (
            matches!(self.plan.work, Work::Sweep(_)),
            matches!(self.plan.work, Work::Producers(..)),
        );
        let answer = execution.carry_out(self.plan).await;
        // A sweep does the same whenever it is carried out. One that failed is sent again, and its plan tells what was done;
        // but a release would hold, and release what came meanwhile.
        if !is_sweep && (answer.is_ok() || is_of_producers) {
            self.used.add(&self.token, self.clock.now());
        }
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
    let subject = match order {
        Order::Letters(..) => Read::Outboxes,
        Order::Pipelines(..) | Order::Producers(..) | Order::Sweep => Read::Named,
        _ => Read::Records,
    };
    let reading = readings.begin().await?.of(subject);
    let bounds = bounds.unwrap_or_else(|| Bounds::from_now(settings.clock.now()));
    let mut plan = planning::plan(&reading, settings, order, bounds).await?;
    if plan.changes.is_empty() && matches!(plan.work, Work::Extension(_)) {
        // No key takes no run.
        plan.work = Work::Orders(Vec::new());
    }
    Ok(plan)
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
    fresh
        .members()
        .into_iter()
        .fold(problem, |problem, (name, value)| problem.with(&name, value))
}

fn no_runner() -> Problem {
    let detail = "nobody here can run messages again; the verbs of the command line can";
    let status = StatusCode::NOT_IMPLEMENTED;
    Problem::new(status, Code::Unsupported.as_str(), detail)
}

fn busy() -> Problem {
    let detail = "another order is being carried out; ask again";
    later(Code::Throttled.as_str(), detail)
}

fn late() -> Problem {
    let detail = "the plan could not be compared in time, and nothing was done; ask again";
    later(Code::Timeout.as_str(), detail)
}

/// The longest time until an order begins: its turn, and its plan, which is made anew where it does not hold.
const PREPARATION: Duration = Duration::from_secs(12);
/// The longest wait for the end of an order, which goes on after that.
const EXECUTION: Duration = Duration::from_secs(45);
/// The longest time of a request. A connection of the listener has to last for longer.
pub const LONGEST: Duration = PREPARATION.saturating_add(EXECUTION);
/// The longest wait for the order before.
const TURN: Duration = Duration::from_secs(2);
/// The longest body of a request.
pub const MOST_BODY_BYTES: usize = 4 << 20;
/// The longest token: it comes back in a body, with a reason.
const MOST_TOKEN_BYTES: usize = MOST_BODY_BYTES - (16 << 10);
/// The most changes of a plan, and the most keys or ids that an order names.
pub const MOST_CHANGES: usize = 2_000;
