//! Orders: the plan of a worker is shown as that of a store of this machine is, and carried out with its token once the
//! operator said yes.

use std::env::args_os;
use std::ops::ControlFlow;

use semel_core::{Code, Key, Result, Scope};
use semel_operate::order::{Left, note};
use semel_remote::{Done, Failure, Planned, place_of};
use semel_render::names::place_text;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::door::Door;
use crate::Exit;
use crate::args::dead_letters::Matching;
use crate::args::{Audit, Confirm, Within};
use crate::command::operate::usage;
use crate::output::{self, Plan, key_text};

/// An order as it is told to a worker.
pub(super) struct Order<'a> {
    /// Its path below `/v1/`.
    pub(super) action: &'a str,
    pub(super) body: Map<String, Value>,
    pub(super) audit: &'a Audit,
    pub(super) confirm: Confirm,
    pub(super) unmet: Unmet,
}

/// The consequence of a name that nothing has: that of the verb on a store of this machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unmet {
    /// The rest is carried out.
    Left,
    /// Nothing is done.
    Stops,
    /// Nothing is done, since it is a mistake of the command line.
    Mistake,
}

/// The result of an order.
pub(super) enum Ordered<C> {
    /// Nothing was done, and it is all told. The flag says that there was nothing to do.
    Over(Exit, bool),
    /// It was carried out. The flag says that all that was asked for was planned.
    Done(Done<C>, bool),
}

/// A plan that the operator has consented to.
pub(super) enum Consented<C> {
    Over(Exit, bool),
    /// The plan, the reason, and the flag that says that it has all that was asked for.
    Yes(Planned<C>, String, bool),
}

impl<C: DeserializeOwned> Ordered<C> {
    /// Plans an order, shows the plan, and carries it out once the operator said yes. `fill` adds the changes to an empty
    /// plan.
    pub(super) async fn of(
        door: &Door,
        order: &Order<'_>,
        plan: Plan,
        fill: impl Fn(&mut Plan, &[C]),
    ) -> Result<Self> {
        let again = plan.clone();
        let (planned, reason, is_whole) = match consented(door, order, plan, &fill).await? {
            Consented::Over(exit, is_none) => return Ok(Self::Over(exit, is_none)),
            Consented::Yes(planned, reason, is_whole) => (planned, reason, is_whole),
        };
        let carried_out = tokio::select! {
            biased;
            () = interrupted() => {
                output::note(format_args!(
                    "the order may have been given; what {} has done is to be seen at {}",
                    door.worker.address(),
                    place_of(order.action)
                ));
                return Ok(Self::Over(Exit::Environment, false));
            }
            it = door.worker.carry_out(order.action, planned.token(), &reason) => it,
        };
        match carried_out {
            Ok(done) => Ok(Self::Done(done, is_whole)),
            Err(failure) => told(failure, again, &fill).map(|exit| Self::Over(exit, false)),
        }
    }
}

/// Plans an order, shows the plan, and returns it once the operator said yes.
pub(super) async fn consented<C: DeserializeOwned>(
    door: &Door,
    order: &Order<'_>,
    mut plan: Plan,
    fill: &impl Fn(&mut Plan, &[C]),
) -> Result<Consented<C>> {
    let reason = reason(order)?;
    let body = Value::Object(order.body.clone());
    let planned: Planned<C> = match door.worker.plan(order.action, &body).await {
        Ok(planned) => planned,
        Err(failure) => {
            return told(failure, plan, fill).map(|exit| Consented::Over(exit, false));
        }
    };
    let is_whole = tell_left(door, &planned.left);
    if let Some(unmet) = planned.left.iter().find(|it| it.is_unknown()) {
        match order.unmet {
            Unmet::Left => {}
            Unmet::Stops => {
                output::note(
                    "nothing was changed: say the same without the names that nothing has",
                );
                return Ok(Consented::Over(Exit::No, false));
            }
            Unmet::Mistake => return Err(usage(format!("{}: {}", name_of(unmet), unmet.why))),
        }
    }
    fill(&mut plan, &planned.changes);
    if !is_whole {
        plan.refuse();
    }
    if !planned.complete {
        plan.remark("there are more than fit into one plan: say the same again after this");
    }
    if !order.confirm.yes {
        plan.remark(format_args!(
            "the worker at {} carries it out when you say --yes",
            door.worker.address()
        ));
        if reason.is_empty() {
            plan.ask_for_reason();
        }
    }
    if let ControlFlow::Break(exit) = plan.confirmed::<Exit>(order.confirm, args_os()) {
        let is_none = exit == Exit::Done;
        let exit = if is_whole { exit } else { Exit::No };
        return Ok(Consented::Over(exit, is_none));
    }
    let is_whole = is_whole && planned.complete;
    Ok(Consented::Yes(planned, reason, is_whole))
}

/// Tells the operator why nothing was done, where that is an answer: a plan that no longer holds is shown anew.
pub(super) fn told<C: DeserializeOwned>(
    failure: Failure,
    mut plan: Plan,
    fill: &impl Fn(&mut Plan, &[C]),
) -> Result<Exit> {
    match failure {
        Failure::Refused(problem) if problem.code == Code::PlanStale => {
            output::note(format_args!(
                "nothing was done: {} [{}]",
                problem.detail, problem.code
            ));
            if let Some(planned) = Planned::of_stale(&problem) {
                fill(&mut plan, &planned.changes);
                plan.tell();
                output::note("nothing was done; look, and say the same again");
            }
            Ok(Exit::No)
        }
        Failure::Refused(problem) if super::door::is_absence(problem.code) => {
            output::note(format_args!("{} [{}]", problem.detail, problem.code));
            Ok(Exit::No)
        }
        failure => Err(failure.into()),
    }
}

/// The reason for the audit trail, on one line.
///
/// # Errors   `InvalidInput`: there is none, and the order is to be carried out; or the operator says to be somebody
fn reason(order: &Order<'_>) -> Result<String> {
    let Audit { reason, by } = order.audit;
    let of_environment = std::env::var("SEMEL_OPERATOR").ok();
    if by.is_some() && *by != of_environment {
        return Err(usage(
            "--by does not go with --admin: the audit trail has the name of the token",
        ));
    }
    let reason = note("", reason.as_deref().unwrap_or_default()).reason;
    if reason.is_empty() && order.confirm.yes {
        return Err(usage(
            "a worker wants to know why, for the audit trail: --reason TEXT",
        ));
    }
    Ok(reason.into())
}

/// Tells what is left as it is; returns whether nothing is but what is so already.
fn tell_left(door: &Door, left: &[Left]) -> bool {
    for it in left.iter().take(TOLD) {
        let name = name_of(it);
        let why = &it.why;
        if it.already {
            output::note(format_args!("{name}: {why}; left as it is"));
        } else if let Some(next) = &it.next {
            output::note(format_args!("{name}: {why}: {}", door.command_for(next)));
        } else {
            output::note(format_args!("{name}: {why}"));
        }
    }
    if left.len() > TOLD {
        output::note(format_args!(
            "… and {} more are left as they are",
            left.len() - TOLD
        ));
    }
    left.iter().all(|it| it.already)
}

fn name_of(left: &Left) -> String {
    match (&left.key, &left.id, &left.pipeline) {
        (Some(key), _, _) => key_text(key).into_owned(),
        (None, Some(name), _) | (None, None, Some(name)) => name.clone(),
        (None, None, None) => "all".to_owned(),
    }
}

/// Waits until the operator interrupts the verb. From the first look on, an interrupt ends nothing by itself.
pub(super) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Makes the exit code of an order from what became of its changes, after each that was not made was told; passes those
/// that were made to `visit`.
pub(super) fn carried<C>(
    done: Done<C>,
    is_whole: bool,
    name: impl Fn(&C) -> String,
    mut visit: impl FnMut(C) -> Result<()>,
) -> Result<Exit> {
    let (mut is_done, mut is_known) = (is_whole, true);
    for it in done.changes {
        let why = it.why.as_deref().unwrap_or_default();
        match &*it.result {
            "done" => {
                if !why.is_empty() {
                    is_done = false;
                    output::note(format_args!("{}: {why}", name(&it.change)));
                }
                visit(it.change)?;
            }
            result => {
                is_done = false;
                is_known &= matches!(result, "refused" | "not_tried");
                let result = result.replace('_', " ");
                let why = if why.is_empty() {
                    String::new()
                } else {
                    format!(": {why}")
                };
                output::note(format_args!("{}: {result}{why}", name(&it.change)));
            }
        }
    }
    Ok(match (is_done, is_known) {
        (_, false) => Exit::Environment,
        (true, true) => Exit::Done,
        (false, true) => Exit::No,
    })
}

/// The members of an order that `--pipeline` and `--tenant` are.
pub(super) fn body_within(within: &Within) -> Map<String, Value> {
    let mut body = Map::new();
    for (name, value) in super::door::place(within) {
        body.insert(name.to_owned(), value.into());
    }
    body
}

/// Adds the members of an order that is about keys, or about all that something is true of.
pub(super) fn select(body: &mut Map<String, Value>, keys: &[Key], matching: &Matching) {
    if matching.all {
        body.insert("all".to_owned(), true.into());
        if let Some(age) = matching.older_than {
            let age = semel_core::units::duration_text(age);
            body.insert("older_than".to_owned(), age.into());
        }
        if let Some(like) = &matching.reason_like {
            body.insert("reason_like".to_owned(), like.as_str().into());
        }
    } else {
        let keys: Vec<_> = keys.iter().map(Key::as_str).collect();
        body.insert("keys".to_owned(), keys.into());
    }
}

/// The line of a plan about a key: its place, its name, and what becomes of it.
pub(super) fn add(
    plan: &mut Plan,
    (pipeline, tenant): (&str, Option<&str>),
    name: &str,
    what: impl std::fmt::Display,
) {
    match Scope::new(tenant.unwrap_or_default(), pipeline) {
        Ok(scope) => plan.add_of(
            &scope,
            format_args!("{}  {}  {what}", place_text(&scope), key_text(name)),
        ),
        Err(_) => plan.add(format_args!("{pipeline}  {}  {what}", key_text(name))),
    }
}

/// The number of things left as they are that are told one by one.
const TOLD: usize = 20;
