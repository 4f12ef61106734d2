//! The paths of the API.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::LOCATION;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::routing::{MethodRouter, get, post};
use semel_core::Code;
use semel_http::{Leave, Problem, Role, body};
use semel_operate::parked::{DeadLetter, Quarantined};
use semel_worker::replay::Kind;

use crate::answer::{Answer, json, json_text};
use crate::checks::{self, Checks};
use crate::events::Events;
use crate::exports::Exports;
use crate::openapi::OPENAPI;
use crate::orders::{self, Action, Carried, MOST_BODY_BYTES, Orders, Run};
use crate::page::List;
use crate::query::{Query, invalid};
use crate::reading::Readings;
use crate::settings::Settings;
use crate::{audit, keys, parked, producers, relay_letters, series, worker};

/// Everything that a request is answered with.
struct Service {
    settings: Settings,
    readings: Readings,
    orders: Arc<Orders>,
    events: Events,
    checks: Checks,
    exports: Exports,
}

type Shared = State<Arc<Service>>;

/// Returns the admin API: every path of `/v1/openapi.json`.
///
/// The listener puts a [`Caller`](semel_http::Caller) into the extensions of each request; one without is refused. The
/// end of the worker waits for `orders`, by [`Orders::ended`].
pub fn router(settings: Settings, orders: Arc<Orders>) -> Router {
    let readings = Readings::new(settings.store.clone());
    let service = Arc::new(Service {
        settings,
        readings,
        orders,
        events: Events::new(),
        checks: Checks::new(),
        exports: Exports::new(),
    });
    let paths = paths().into_iter();
    let router = paths.fold(Router::new(), |router, (path, _, method)| {
        router.route(path, method)
    });
    let router = router.route(STOP, post(stop_run));
    let router = router.route(EXPORT, post(export));
    Action::ALL
        .into_iter()
        .fold(router, |router, action| {
            let [plan, carry_out] = [Step::Plan, Step::Do];
            router
                .route(&plan.path(action), order(action, plan))
                .route(&carry_out.path(action), order(action, carry_out))
        })
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .with_state(service)
}

/// A path, the members that its query may have, and its answer.
type Path = (
    &'static str,
    &'static [&'static str],
    MethodRouter<Arc<Service>>,
);

fn paths() -> [Path; 24] {
    [
        ("/v1/status", &[], get(status)),
        ("/v1/pipelines", &[], get(pipelines)),
        ("/v1/keys", keys::LISTED, get(list_keys)),
        ("/v1/keys/find", keys::NAMED, get(find_key)),
        ("/v1/keys/show", keys::NAMED, get(show_key)),
        ("/v1/keys/explain", keys::NAMED, get(explain_key)),
        ("/v1/in-doubt", keys::DOUBTFUL, get(list_doubts)),
        ("/v1/in-doubt/show", keys::NAMED, get(show_doubt)),
        ("/v1/dead-letters", parked::MEMBERS, get(list_dead_letters)),
        (
            "/v1/dead-letters/show",
            parked::NAMED,
            get(show_dead_letter),
        ),
        ("/v1/quarantine", parked::MEMBERS, get(list_quarantine)),
        ("/v1/quarantine/show", parked::NAMED, get(show_quarantined)),
        (
            "/v1/relays/dead-letters",
            relay_letters::MEMBERS,
            get(list_relay_letters),
        ),
        (
            "/v1/relays/dead-letters/show",
            relay_letters::NAMED,
            get(show_relay_letter),
        ),
        ("/v1/producers", producers::MEMBERS, get(list_producers)),
        ("/v1/audit", audit::MEMBERS, get(list_audit)),
        ("/v1/store", &[], get(store)),
        ("/v1/check", checks::MEMBERS, get(check)),
        ("/v1/config", &[], get(config)),
        ("/v1/runs", &[], get(list_runs)),
        ("/v1/runs/{id}", &[], get(show_run)),
        ("/v1/series", series::MEMBERS, get(all_series)),
        ("/v1/events", &[], get(events)),
        ("/v1/openapi.json", &[], get(openapi)),
    ]
}

/// The two requests of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Plan,
    Do,
}

impl Step {
    /// The path of this step of an order.
    pub(crate) fn path(self, action: Action) -> String {
        let step = match self {
            Self::Plan => "plan",
            Self::Do => "do",
        };
        format!("/v1/{}/{step}", action.path())
    }
}

fn order(action: Action, step: Step) -> MethodRouter<Arc<Service>> {
    post(move |service: Shared, request: Request| answered(service, request, action, step))
}

/// Answers one step of an order.
async fn answered(State(service): Shared, request: Request, action: Action, step: Step) -> Answer {
    refuse_query(&request)?;
    let (caller, body) = body::read(request, action.role(), MOST_BODY_BYTES).await?;
    let Service {
        settings,
        readings,
        orders,
        ..
    } = &*service;
    let text = match step {
        Step::Plan => orders::plan(readings, settings, &caller, action, &body).await?,
        Step::Do => {
            let done = orders.carry_out(readings, settings, &caller, action, &body);
            match done.await? {
                Carried::Order(text) => text,
                Carried::Run(run) => return run_answer(&run),
            }
        }
    };
    Ok(json_text(text.into()))
}

/// Refuses a query where all is said in the body.
fn refuse_query(request: &Request) -> Result<(), Problem> {
    if request.uri().query().is_some_and(|it| !it.is_empty()) {
        let detail = "the path takes no query; send a JSON object in the body";
        return Err(invalid("", detail));
    }
    Ok(())
}

/// The path of the order that stops a run.
pub(crate) const STOP: &str = "/v1/runs/{id}/stop";
/// The path of the export of the store.
pub(crate) const EXPORT: &str = "/v1/store/export";

/// Answers with a run; one that goes on is found again at its path.
fn run_answer(run: &Run) -> Answer {
    let is_running = run.is_running();
    let mut answer = json_text(run.text()?.into());
    if is_running {
        *answer.status_mut() = StatusCode::ACCEPTED;
        let path = HeaderValue::from_str(&format!("/v1/runs/{}", run.id()));
        answer
            .headers_mut()
            .extend(path.ok().map(|it| (LOCATION, it)));
    }
    Ok(answer)
}

/// Returns each path of the API that reads, with the members that its query may have.
#[cfg(test)]
pub(crate) fn described() -> Vec<(&'static str, &'static [&'static str])> {
    let paths = paths().into_iter();
    paths.map(|(path, members, _)| (path, members)).collect()
}

async fn status(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, &[])?;
    json(&worker::status(&service.settings, &query)?)
}

async fn pipelines(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, &[])?;
    json(&worker::pipelines(&service.settings, &query)?)
}

async fn list_keys(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, keys::LISTED)?;
    json(&keys::list(&service.readings, &service.settings, &query).await?)
}

async fn find_key(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, keys::NAMED)?;
    json(&keys::find(&service.readings, &service.settings, &query).await?)
}

async fn show_key(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, keys::NAMED)?;
    let text = keys::show(&service.readings, &service.settings, &query).await?;
    Ok(json_text(text.into()))
}

async fn explain_key(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, keys::NAMED)?;
    let text = keys::explain(&service.readings, &service.settings, &query).await?;
    Ok(json_text(text.into()))
}

async fn list_doubts(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, keys::DOUBTFUL)?;
    json(&keys::doubts(&service.readings, &query).await?)
}

async fn show_doubt(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, keys::NAMED)?;
    let text = keys::show_doubt(&service.readings, &service.settings, &query).await?;
    Ok(json_text(text.into()))
}

async fn list_dead_letters(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, parked::MEMBERS)?;
    let clock = &*service.settings.clock;
    json(&parked::list::<DeadLetter>(&service.readings, clock, &query, Kind::DeadLetters).await?)
}

async fn list_quarantine(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, parked::MEMBERS)?;
    let clock = &*service.settings.clock;
    json(&parked::list::<Quarantined>(&service.readings, clock, &query, Kind::Quarantined).await?)
}

async fn show_dead_letter(service: Shared, head: Parts) -> Answer {
    show_message(service, head, Kind::DeadLetters).await
}

async fn show_quarantined(service: Shared, head: Parts) -> Answer {
    show_message(service, head, Kind::Quarantined).await
}

async fn show_message(State(service): Shared, head: Parts, kind: Kind) -> Answer {
    let query = Query::read(&head, parked::NAMED)?;
    let text = parked::show(&service.readings, &service.settings, &query, kind).await?;
    Ok(json_text(text.into()))
}

async fn list_relay_letters(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, relay_letters::MEMBERS)?;
    let (readings, settings) = (&service.readings, &service.settings);
    json(&relay_letters::list(readings, settings, &*settings.clock, &query).await?)
}

async fn show_relay_letter(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, relay_letters::NAMED)?;
    let text = relay_letters::show(&service.readings, &service.settings, &query).await?;
    Ok(json_text(text.into()))
}

async fn list_audit(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, audit::MEMBERS)?;
    json(&audit::list(&service.readings, &*service.settings.clock, &query).await?)
}

async fn list_producers(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, producers::MEMBERS)?;
    json(&producers::list(&service.readings, &service.settings, &query).await?)
}

async fn list_runs(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, &[])?;
    let runs = service.orders.runs().list(&query.caller);
    json(&List::whole(runs.iter().map(|it| it.entry()).collect()))
}

async fn show_run(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, &[])?;
    let id = head.uri.path().rsplit('/').next().unwrap_or_default();
    let run = service.orders.runs().find(id, &query.caller)?;
    Ok(json_text(run.text()?.into()))
}

/// Stops a run; answers as the order that began it was answered.
async fn stop_run(State(service): Shared, request: Request) -> Answer {
    refuse_query(&request)?;
    let path = request.uri().path().to_owned();
    let id = path.rsplit('/').nth(1).unwrap_or_default();
    let (caller, body) = body::read(request, Role::Operator, MOST_BODY_BYTES).await?;
    let run = service.orders.runs().find(id, &caller)?;
    run.stopped(&caller, &body, service.settings.clock.now())
        .await?;
    run_answer(&run)
}

async fn store(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, &[])?;
    let text = worker::store(&service.readings, &service.settings, &query).await?;
    Ok(json_text(text.into()))
}

/// Hands over everything that the store holds.
async fn export(State(service): Shared, mut request: Request) -> Answer {
    refuse_query(&request)?;
    let leave = request.extensions_mut().remove::<Leave>();
    let (caller, body) = body::read(request, Role::Admin, MOST_BODY_BYTES).await?;
    let (readings, settings) = (&service.readings, &service.settings);
    let caller = (&caller, leave.as_ref());
    service
        .exports
        .begin(readings, settings, caller, &body)
        .await
}

async fn check(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, checks::MEMBERS)?;
    let text = service.checks.answer(&service.settings, &query).await?;
    Ok(json_text(text.into()))
}

async fn config(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, &[])?;
    let text = worker::config(&service.settings, &query)?.to_owned();
    Ok(json_text(text.into()))
}

async fn all_series(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, series::MEMBERS)?;
    let text = worker::series(&service.settings, &query)?;
    Ok(json_text(text.into()))
}

async fn events(State(service): Shared, head: Parts) -> Answer {
    let query = Query::read(&head, &[])?;
    service.events.open(&service.settings.worker, &query)
}

async fn openapi(head: Parts) -> Answer {
    Query::read(&head, &[])?;
    Ok(json_text(OPENAPI.into()))
}

async fn unknown_path(_: Request) -> Problem {
    let detail = "there is nothing at this path; /v1/openapi.json describes those that there are";
    Problem::new(StatusCode::NOT_FOUND, Code::PathUnknown.as_str(), detail)
}

async fn unknown_method() -> Problem {
    let detail = "the path takes another method, which the header `allow` names";
    let status = StatusCode::METHOD_NOT_ALLOWED;
    Problem::new(status, Code::MethodNotAllowed.as_str(), detail)
}
