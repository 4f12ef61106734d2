//! Orders: the plan of one first, then what came of it.

mod order;
pub(crate) mod tables;
mod terms;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use semel_http::{Caller, Role, body};
use serde_json::Value;

use self::order::Order;
use self::tables::{left, table};
use self::terms::Terms;
use crate::api::{Api, Refusal};
use crate::form::{Form, MOST_REASON_LETTERS};
use crate::layout::{Place, page, page_with, refusal};
use crate::pages::runs;
use crate::text::{grouped, key_address, list, shown, text};

/// Reads an order that a page sends.
async fn read(path: &str, request: Request) -> Result<(Caller, &'static Order, Form), Response> {
    let (head, body) = request.into_parts();
    let caller = body::caller(&head, Role::Viewer).map_err(IntoResponse::into_response)?;
    let Some(order) = Order::of(path) else {
        return Err(unknown(&caller));
    };
    match Form::of_body(&head, body, &caller, Role::Operator).await {
        Ok(form) => Ok((caller, order, form)),
        Err(problem) => Err(refusal(
            &caller,
            order.place,
            problem.status(),
            problem.detail(),
        )),
    }
}

/// Plans an order; changes nothing.
pub(crate) async fn plan(
    State(api): State<Api>,
    Path(path): Path<String>,
    request: Request,
) -> Response {
    let (caller, order, form) = match read(&path, request).await {
        Ok(read) => read,
        Err(answer) => return answer,
    };
    let terms = Terms::of(order, &form);
    if !order.is_about_something(&form) {
        let detail = "Nothing is selected. Go back, and select what you mean.";
        return not_planned(&caller, order, StatusCode::BAD_REQUEST, detail);
    }
    let path = format!("/v1/{}/plan", order.path);
    match api.post(&caller, &path, &order.body(&form)).await {
        Ok(told) => confirm(&caller, order, &terms, (&told, None)),
        Err(refusal) => not_planned(&caller, order, refusal.status, &refusal.detail()),
    }
}

/// Carries an order out, if its plan still holds; shows the new plan if it does not.
pub(crate) async fn carry_out(
    State(api): State<Api>,
    Path(path): Path<String>,
    request: Request,
) -> Response {
    let (caller, order, form) = match read(&path, request).await {
        Ok(read) => read,
        Err(answer) => return answer,
    };
    let terms = Terms::of(order, &form);
    let path = format!("/v1/{}/do", order.path);
    let given = [form.text("token"), form.text("reason")];
    let [token, reason] = given;
    let body = serde_json::json!({ "token": token, "reason": reason });
    match api.post(&caller, &path, &body).await {
        Ok(run) if run.get("state").is_some() => {
            let content = html! {
                (runs::report(order.verb, &run))
                (runs::stopping(&run))
                p { a href=(order.back) { "Back" } " · " a href="/audit" { "Audit" } }
            };
            page(&caller, order.place, order.verb, &content)
        }
        Ok(told) => done(&caller, order, &terms, &told),
        Err(refusal) if text(&refusal.problem, "code") == "plan-stale" => {
            confirm(&caller, order, &terms, (&refusal.problem, Some(reason)))
        }
        Err(refusal) => not_done(&caller, order, &terms, (&refusal, given)),
    }
}

/// Shows why there is no plan.
fn not_planned(caller: &Caller, order: &Order, status: StatusCode, detail: &str) -> Response {
    let content = html! {
        h1 { "Not planned" }
        p.notice.bad role="alert" { (detail) }
        p { "Nothing was changed." }
        p { a href=(order.back) { "Back" } }
    };
    page_with(status, caller, order.place, "Not planned", &content)
}

/// Shows why an order was not carried out, or perhaps not; it can be sent once more as it is.
fn not_done(
    caller: &Caller,
    order: &Order,
    terms: &Terms,
    (refusal, [token, reason]): (&Refusal, [&str; 2]),
) -> Response {
    let is_certain = match text(&refusal.problem, "certainty") {
        "" => refusal.status.is_client_error(),
        certainty => certainty == "not_applied",
    };
    let title = if is_certain {
        "Not done"
    } else {
        "Perhaps done"
    };
    let verb = order.verb_of(terms.is_off());
    let content = html! {
        h1 { (verb) ": " (title.to_lowercase()) }
        p.notice.bad role="alert" { (refusal.detail()) }
        @if is_certain {
            p { "Nothing was changed. You can confirm the same plan again." }
        } @else {
            p {
                "Nobody knows whether it was done: " a href="/audit" { "Audit" } " has what was. To confirm it again does "
                "nothing twice."
            }
        }
        (terms.shown())
        (confirmation(order, terms, [token, reason], verb))
        p { a href=(order.back) { "Back" } }
    };
    page_with(refusal.status, caller, order.place, title, &content)
}

fn unknown(caller: &Caller) -> Response {
    let detail = "There is no such order.";
    refusal(caller, Place::Elsewhere, StatusCode::NOT_FOUND, detail)
}

/// Shows a plan, and asks for a reason; also in the place of one that no longer holds, for which there was this reason.
fn confirm(
    caller: &Caller,
    order: &Order,
    terms: &Terms,
    (plan, instead_of): (&Value, Option<&str>),
) -> Response {
    let changes = list(plan, "changes");
    let verb = order.verb_of(terms.is_off());
    let content = html! {
        h1 { (verb) "?" }
        @if instead_of.is_some() {
            p.notice.bad role="alert" {
                "Something has changed since this was planned, and nothing was done; or you have sent it already: "
                a href="/audit" { "Audit" } " has what was done. This is the plan now."
            }
        }
        (terms.shown())
        @if changes.is_empty() {
            p.notice { "Nothing would change." }
        } @else {
            h2 { "What would change" }
            (runs::sums("Foretold", &plan["foretold"]))
            (table(changes, false))
        }
        @if plan["complete"] == false {
            p.notice { "There is more than fits into one plan. Plan again after this." }
        }
        (left(list(plan, "left")))
        @if !changes.is_empty() {
            @let given = [text(plan, "token"), instead_of.unwrap_or_default()];
            (confirmation(order, terms, given, &format!("{verb} {}", number(changes))))
        }
        p { a href=(back(order, changes)) { "Back" } }
    };
    let status = if instead_of.is_some() {
        StatusCode::CONFLICT
    } else {
        StatusCode::OK
    };
    page_with(status, caller, order.place, verb, &content)
}

/// The form that carries out a plan.
fn confirmation(order: &Order, terms: &Terms, [token, reason]: [&str; 2], button: &str) -> Markup {
    html! {
        form.confirm method="post" action={ "/orders/do/" (order.path) } {
            input type="hidden" name="token" value=(token);
            (terms.hidden())
            label for="reason" { "Why? The audit trail keeps it, with your name." }
            input #reason name="reason" value=(reason) required maxlength=(MOST_REASON_LETTERS) autocomplete="off";
            button.primary { (button) }
        }
    }
}

/// Shows what came of an order.
fn done(caller: &Caller, order: &Order, terms: &Terms, told: &Value) -> Response {
    let changes = list(told, "changes");
    let is_whole = told["complete"] == true;
    let verb = order.verb_of(terms.is_off());
    let content = html! {
        h1 { (verb) ": " @if is_whole { "done" } @else { "not all of it" } }
        p.notice.good[is_whole].bad[!is_whole] role="status" {
            (shown(&told["done"])) " of " (number(changes)) " done."
        }
        (terms.shown())
        (table(changes, true))
        p { a href=(back(order, changes)) { "Back" } " · " a href="/audit" { "Audit" } }
    };
    page(caller, order.place, verb, &content)
}

fn number(changes: &[Value]) -> String {
    match changes.len() {
        1 => "one change".to_owned(),
        count => format!("{} changes", grouped(&count.to_string())),
    }
}

/// The page to go back to: that of the key, where it is about one.
fn back(order: &Order, changes: &[Value]) -> String {
    match changes {
        [one] if order.back == "/key" => key_address(one),
        _ => order.back.to_owned(),
    }
}
