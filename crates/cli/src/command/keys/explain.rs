//! `semel keys explain`.

use std::collections::BTreeSet;

use semel_core::port::store::{ListQuery, Store};
use semel_core::{Audited, Key, Operation, Parked, Record, Result, Scope};
use semel_operate::keys::{Explanation, Facts};
use semel_operate::paging::for_each_page;

use super::explanation::Command;
use super::unknown::tell_missing;
use crate::Exit;
use crate::args::keys::Explain;
use crate::command::operate::{self, Found, Ground, usage, which_scope};
use crate::output::{Answers, Go};

/// Prints the whole story of one key.
pub(crate) fn explain(arguments: &Explain) -> Result<Exit> {
    operate::look(&arguments.common, async |ground| {
        let key = &arguments.key;
        match ground.find_one(key).await? {
            Found::Known(operation, record) => {
                let rest = Rest::of(ground, &operation).await?;
                tell(ground, arguments, &operation, Some(&record), &rest)
            }
            Found::Unknown(unknown) => {
                // A forgotten key may have left traces.
                for operation in &left_by(ground, unknown.clone()).await? {
                    let rest = Rest::of(ground, operation).await?;
                    if !rest.audit.is_empty() || rest.message_count > 0 {
                        return tell(ground, arguments, operation, None, &rest);
                    }
                }
                tell_missing(ground, key, &unknown).await?;
                Ok(Exit::No)
            }
        }
    })
}

/// The operations that may have left traces: for one whose tenant is not known, that of the tenant in the traces of its
/// key.
///
/// # Cost     reads the trail and the kept messages of each pipeline with tenants
/// # Errors   `InvalidInput`: several tenants have left traces of a key
async fn left_by(ground: &Ground, unknown: Vec<Operation>) -> Result<Vec<Operation>> {
    let mut all = Vec::with_capacity(unknown.len());
    for mut operation in unknown {
        if let Some(within) = ground.open_tenants(&operation.scope) {
            let scopes = scopes_of(ground, within, &operation.key).await?;
            if scopes.len() > 1 {
                let scopes: Vec<_> = scopes.iter().map(|scope| (scope, "")).collect();
                return Err(usage(which_scope(operation.key.as_str(), &scopes)));
            }
            operation.scope = scopes.into_iter().next().unwrap_or(operation.scope);
        }
        all.push(operation);
    }
    Ok(all)
}

/// The scopes in which a key has left traces.
async fn scopes_of(ground: &Ground, within: ListQuery, key: &Key) -> Result<BTreeSet<Scope>> {
    let mut scopes = BTreeSet::new();
    let fetch = async |query: &ListQuery| ground.store.list_audit(query).await;
    for_each_page(within.clone(), fetch, |entries| {
        let entries = entries.into_iter();
        let of_key = entries.filter(|entry| entry.key.as_ref() == Some(key));
        scopes.extend(of_key.filter_map(|entry| entry.scope));
        Ok(Go::Continue(()))
    })
    .await?;
    let fetch = async |query: &ListQuery| ground.store.list_parked(query).await;
    for_each_page(within, fetch, |messages| {
        let messages = messages.into_iter();
        let of_key = messages.filter(|message| message.key.as_ref() == Some(key));
        scopes.extend(of_key.map(|message| message.scope));
        Ok(Go::Continue(()))
    })
    .await?;
    Ok(scopes)
}

/// The facts about a key that are not in its record.
struct Rest {
    audit: Vec<Audited>,
    messages: Vec<Parked>,
    message_count: usize,
}

impl Rest {
    async fn of(ground: &Ground, operation: &Operation) -> Result<Self> {
        let (messages, message_count) = messages_of(ground, operation).await?;
        Ok(Self {
            audit: audit_of(ground, operation).await?,
            messages,
            message_count,
        })
    }
}

fn tell(
    ground: &Ground,
    arguments: &Explain,
    operation: &Operation,
    record: Option<&Record>,
    rest: &Rest,
) -> Result<Exit> {
    let facts = Facts {
        operation,
        record,
        pipeline: ground.pipeline_of(&operation.scope),
        arrival: ground.arrival_of(&operation.scope),
        messages: &rest.messages,
        message_count: rest.message_count,
        audit: &rest.audit,
        now: ground.now(),
        beside: ground.beside,
    };
    let explanation = Explanation::of(&facts);
    let explanation = explanation.with_choices(|choice| Command::of(ground, &choice));
    let _ = Answers::new(arguments.format).print(&explanation)?;
    Ok(Exit::Done)
}

/// Finds the audit entries of one key.
///
/// # Cost   reads the trail of its pipeline
async fn audit_of(ground: &Ground, operation: &Operation) -> Result<Vec<Audited>> {
    let query = ListQuery::in_scope(&operation.scope);
    let mut found = Vec::new();
    let fetch = async |query: &ListQuery| ground.store.list_audit(query).await;
    for_each_page(query, fetch, |entries| {
        let entries = entries.into_iter();
        found.extend(entries.filter(|entry| entry.key.as_ref() == Some(&operation.key)));
        Ok(Go::Continue(()))
    })
    .await?;
    Ok(found)
}

/// Finds the first few messages that are kept under one key, without their payloads, and counts all of them.
///
/// # Cost   reads the kept messages of its pipeline
async fn messages_of(ground: &Ground, operation: &Operation) -> Result<(Vec<Parked>, usize)> {
    let query = ListQuery::in_scope(&operation.scope);
    let (mut first, mut count) = (Vec::new(), 0);
    let fetch = async |query: &ListQuery| ground.store.list_parked(query).await;
    for_each_page(query, fetch, |messages| {
        for mut message in messages {
            if message.key.as_ref() != Some(&operation.key) {
                continue;
            }
            count += 1;
            if first.len() < TOLD_AT_MOST {
                message.payload.clear();
                first.push(message);
            }
        }
        Ok(Go::Continue(()))
    })
    .await?;
    first.sort_by_key(|message| message.since);
    Ok((first, count))
}

const TOLD_AT_MOST: usize = 20;
