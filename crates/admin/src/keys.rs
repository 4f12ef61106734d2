//! Keys: those on record, one by what a person types, its whole record, and its explanation.

use axum::http::StatusCode;
use semel_core::port::store::{ListQuery, Listed, Store};
use semel_core::{Code, Operation, Record, StateKind};
use semel_http::Problem;
use semel_operate::in_doubt::{WholeDoubt, message_of};
use semel_operate::keys::{
    Candidates, Declared, Detail, ENOUGH, Explanation, Facts, KeyEntry, Traces, candidates,
    scopes_of, since,
};

use crate::answer::text;
use crate::page::{Cursor, List};
use crate::parked::sees_payloads;
use crate::query::{Query, invalid};
use crate::reading::{Reading, Readings};
use crate::settings::Settings;

/// The members that the query of a list may have.
pub(crate) const LISTED: &[&str] = &[
    "pipeline",
    "tenant",
    "state",
    "prefix",
    "held",
    "repeated",
    "older_than",
    "limit",
    "cursor",
];
/// The members that the query of a list of doubts may have.
pub(crate) const DOUBTFUL: &[&str] = &["pipeline", "tenant", "repeated", "limit", "cursor"];
/// The members that a query about one key may have.
pub(crate) const NAMED: &[&str] = &["key", "pipeline", "tenant"];

/// Lists the keys on record: a page of `semel keys list`.
pub(crate) async fn list(
    readings: &Readings,
    settings: &Settings,
    query: &Query,
) -> Result<List<KeyEntry>, Problem> {
    let within = ListQuery {
        state: query.state()?,
        repeated: query.flag("repeated")?,
        ..query.within()?
    };
    let (prefix, is_held) = (
        query.short_text("prefix")?.unwrap_or_default(),
        query.flag("held")?,
    );
    let age = query.duration("older_than")?;
    let latest = age.map(|age| settings.clock.now().minus(age));
    let is_wanted = |listed: &Listed| {
        listed.operation.key.as_str().starts_with(prefix)
            && (!is_held || listed.record.held)
            && latest.is_none_or(|latest| since(&listed.record) <= latest)
    };
    let cursor = Cursor::read("keys", query)?;
    page(readings, cursor, within, is_wanted).await
}

/// Lists the keys in doubt, or those whose effect may have happened twice: a page of `semel in-doubt list`.
pub(crate) async fn doubts(readings: &Readings, query: &Query) -> Result<List<KeyEntry>, Problem> {
    let repeated = query.flag("repeated")?;
    let within = ListQuery {
        state: (!repeated).then_some(StateKind::InDoubt),
        repeated,
        ..query.within()?
    };
    let cursor = Cursor::read("in-doubt", query)?;
    page(readings, cursor, within, |_| true).await
}

async fn page(
    readings: &Readings,
    cursor: Cursor,
    within: ListQuery,
    is_wanted: impl Fn(&Listed) -> bool + Send + Sync,
) -> Result<List<KeyEntry>, Problem> {
    let reading = readings.begin().await?;
    let entry = |listed: Listed| is_wanted(&listed).then(|| KeyEntry::of(listed));
    cursor.fill_from(&reading, &within, entry).await
}

/// Finds the records that a typed key can mean: in each pipeline and tenant, or by its operation id.
pub(crate) async fn find(
    readings: &Readings,
    settings: &Settings,
    query: &Query,
) -> Result<List<KeyEntry>, Problem> {
    let (_, found) = meant(readings, settings, query).await?;
    let entries = found
        .known
        .into_iter()
        .map(|(operation, record)| KeyEntry::of(Listed { operation, record }));
    let entries: Vec<KeyEntry> = entries.collect();
    // A search for a key that so many records have ends early.
    let is_whole = entries.len() < ENOUGH;
    Ok(List::of(entries, is_whole))
}

/// Shows the whole record of one key: that of `semel keys show`. A viewer does not see the bytes of its
/// outcome, unless that is allowed.
pub(crate) async fn show(
    readings: &Readings,
    settings: &Settings,
    query: &Query,
) -> Result<Vec<u8>, Problem> {
    let (_, found) = meant(readings, settings, query).await?;
    let (operation, record) = one(found.known)?.ok_or_else(unknown)?;
    let detail = Detail::of(&operation, &record, settings.clock.now());
    let detail = detail.masked(&settings.console.mask);
    if sees_payloads(&query.caller, settings) {
        text(&detail)
    } else {
        text(&detail.without_payload())
    }
}

/// Shows one doubt with the message that is kept for it: that of `semel in-doubt show`, without what the caller may not
/// see.
pub(crate) async fn show_doubt(
    readings: &Readings,
    settings: &Settings,
    query: &Query,
) -> Result<Vec<u8>, Problem> {
    let (reading, found) = meant(readings, settings, query).await?;
    let (operation, record) = one(found.known)?.ok_or_else(unknown)?;
    let state = record.state.kind();
    if state != StateKind::InDoubt {
        let state = state.as_str().replace('_', " ");
        let detail = format!("the key is not in doubt but {state}; /v1/keys/show shows it");
        let code = Code::KeyUnknown.as_str();
        return Err(Problem::new(StatusCode::NOT_FOUND, code, detail));
    }
    let message = reading
        .within(message_of(&reading.store, &operation))
        .await?;
    let arrival = declared(settings).arrival_of(&operation.scope);
    let now = settings.clock.now();
    let doubt = WholeDoubt::of(&operation, &record, message.as_ref(), arrival, now);
    let doubt = doubt.masked(&settings.console.mask);
    if sees_payloads(&query.caller, settings) {
        text(&doubt)
    } else {
        text(&doubt.without_payload())
    }
}

/// Explains one key: as `semel keys explain` does, with actions in the place of commands.
pub(crate) async fn explain(
    readings: &Readings,
    settings: &Settings,
    query: &Query,
) -> Result<Vec<u8>, Problem> {
    let (reading, found) = meant(readings, settings, query).await?;
    if let Some((operation, record)) = one(found.known)? {
        let traces = reading.within(Traces::of(&reading.store, &operation));
        let traces = traces.await?;
        return explained(settings, &operation, Some(&record), &traces);
    }
    // A forgotten key may have left traces.
    let within = query.within()?;
    for mut operation in found.operations {
        let pipeline = operation.scope.operation();
        let tenant = within.tenant.as_deref();
        if declared(settings).tenant_in(pipeline, tenant).is_none() {
            let within = ListQuery {
                operation: Some(pipeline.into()),
                ..ListQuery::default()
            };
            let scopes = reading.within(scopes_of(&reading.store, within, &operation.key));
            let scopes = scopes.await?;
            if scopes.len() > 1 {
                let names: Vec<_> = scopes.iter().map(semel_core::Scope::tenant).collect();
                return Err(which("tenant", &names));
            }
            operation.scope = scopes.into_iter().next().unwrap_or(operation.scope);
        }
        let traces = reading.within(Traces::of(&reading.store, &operation));
        let traces = traces.await?;
        if !traces.is_empty() {
            return explained(settings, &operation, None, &traces);
        }
    }
    Err(unknown())
}

fn explained(
    settings: &Settings,
    operation: &Operation,
    record: Option<&Record>,
    traces: &Traces,
) -> Result<Vec<u8>, Problem> {
    let declared = declared(settings);
    let facts = Facts {
        operation,
        record,
        pipeline: declared.pipeline_of(&operation.scope),
        arrival: declared.arrival_of(&operation.scope),
        messages: &traces.messages,
        message_count: traces.message_count,
        audit: &traces.audit,
        now: settings.clock.now(),
        // This process has the store open itself, and sees everything.
        beside: None,
    };
    text(&Explanation::of(&facts))
}

/// Finds what the key of a query can mean; returns the reading as well, which goes on.
async fn meant(
    readings: &Readings,
    settings: &Settings,
    query: &Query,
) -> Result<(Reading, Candidates), Problem> {
    let (key, within) = (query.one_key()?, query.within()?);
    let places = declared(settings).places(within);
    let reading = readings.begin().await?;
    let (store, keys) = (&reading.store, std::slice::from_ref(&key));
    let look_up = |operations| store.get(operations);
    let found = reading.within(candidates(store, &places, keys, look_up));
    let found = found.await?.pop().unwrap_or_default();
    Ok((reading, found))
}

pub(crate) const fn declared(settings: &Settings) -> Declared<'_> {
    Declared {
        pipelines: settings.pipelines.as_slice(),
        serves_clients: settings.serves_clients,
        routes: settings.routes.as_slice(),
    }
}

/// Takes the only record of several that may be meant.
pub(crate) fn one(
    mut known: Vec<(Operation, Record)>,
) -> Result<Option<(Operation, Record)>, Problem> {
    let last = known.pop();
    if known.is_empty() {
        return Ok(last);
    }
    let all = known.iter().chain(&last).map(|(operation, _)| operation);
    let of = |part: fn(&Operation) -> &str| {
        let mut names: Vec<_> = all.clone().map(part).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let keys = of(|it| it.key.as_str());
    let pipelines = of(|it| it.scope.operation());
    let tenants = of(|it| it.scope.tenant());
    if keys.len() > 1 {
        let detail = "several operation ids begin so; send more of it";
        return Err(invalid("key", detail));
    }
    if pipelines.len() > 1 {
        return Err(which("pipeline", &pipelines));
    }
    Err(which("tenant", &tenants))
}

/// The problem of a key that several pipelines or tenants have.
pub(crate) fn which(member: &str, names: &[&str]) -> Problem {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let names = names.join(", ");
    let detail = format!("the key is on record of {names}; name one with the member `{member}`");
    invalid(member, detail)
}

fn unknown() -> Problem {
    let detail = "nothing is on record under this key; /v1/keys lists what is";
    Problem::new(StatusCode::NOT_FOUND, Code::KeyUnknown.as_str(), detail)
}
