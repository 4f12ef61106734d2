//! Plans of the order that remembers every finished key of a pipeline for longer: a count of the keys.

use std::time::Duration;

use semel_core::Timestamp;
use semel_core::port::store::{ListQuery, Store};
use semel_http::Problem;
use semel_operate::value::Span;

use super::extension::{Extension, PlannedExtension, behind};
use super::lookup::refuse_streamed;
use super::plan::{Change, Digest, Plan, Work};
use crate::keys::declared;
use crate::query::invalid;
use crate::reading::Reading;
use crate::settings::Settings;

/// Makes the plan: counts the keys, for as long as a page of a list takes at most.
///
/// # Errors
///
/// Those of [`Reading::within`]; 400: several pipelines may be meant; 501: the records are in no store
pub(super) async fn plan(
    reading: &Reading,
    settings: &Settings,
    (window, within): (Duration, &ListQuery),
    at: Timestamp,
) -> Result<Plan, Problem> {
    let pipeline = pipeline_of(settings, within)?;
    let within = ListQuery {
        operation: Some(pipeline.clone()),
        ..within.clone()
    };
    refuse_streamed(settings, &within)?;
    let extension = Extension {
        pipeline,
        within,
        window,
    };
    let (mut keys, mut counted) = (0, true);
    let mut after = Some(extension.first());
    while let Some(query) = after.take() {
        let page = reading.within(reading.store.list(&query)).await?;
        keys += extension.proposed(page.items, at).count() as u64;
        after = page.next.map(|next| behind(query, next));
        if after.is_some() && reading.is_long() {
            counted = false;
            break;
        }
        // Whatever else waits for the store comes first.
        tokio::task::yield_now().await;
    }
    let mut digest = Digest::default();
    let mut changes = Vec::new();
    if keys > 0 || !counted {
        // How many there are changes from moment to moment; what the order does, does not.
        digest.text(&format!(
            "{} {:?} {window:?}",
            extension.pipeline, extension.within.tenant
        ));
        changes.push(Change::Extension(PlannedExtension {
            pipeline: extension.pipeline.clone(),
            tenant: extension.within.tenant.clone(),
            action: "extend",
            window: Span(window),
            keys,
            counted,
        }));
    }
    let work = Work::Extension(extension);
    Ok(Plan::of_names(
        at,
        changes,
        Vec::new(),
        digest.finish(),
        work,
    ))
}

/// Returns the pipeline that is meant: the one that is named, else the only one there is.
fn pipeline_of(settings: &Settings, within: &ListQuery) -> Result<Box<str>, Problem> {
    let declared = declared(settings);
    match (&within.operation, declared.pipelines) {
        (Some(name), _) => Ok(name.clone()),
        (None, [only]) if !declared.serves_clients => Ok(only.pipeline.name.clone()),
        (None, pipelines) => {
            let names = pipelines.iter().map(|it| &*it.pipeline.name);
            let names: Vec<&str> = names.collect();
            let detail = format!(
                "all of one pipeline, or operation of clients, are meant: name it; there are {}",
                names.join(", ")
            );
            Err(invalid("pipeline", detail))
        }
    }
}
