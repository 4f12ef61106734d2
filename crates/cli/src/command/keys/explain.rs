//! `semel keys explain`.

use semel_core::{Operation, Record, Result};
use semel_operate::keys::{Explanation, Facts, Traces, scopes_of};
use semel_render::names::which_scope;
use semel_render::reports::keys::Command;

use super::unknown::tell_missing;
use crate::Exit;
use crate::args::keys::Explain;
use crate::command::operate::{self, Found, Ground, usage};
use crate::output::Answers;

/// Prints the whole story of one key.
pub(crate) fn explain(arguments: &Explain) -> Result<Exit> {
    operate::look(&arguments.common, async |ground| {
        let key = &arguments.key;
        match ground.find_one(key).await? {
            Found::Known(operation, record) => {
                let traces = Traces::of(&ground.store, &operation).await?;
                tell(ground, arguments, &operation, Some(&record), &traces)
            }
            Found::Unknown(unknown) => {
                // A forgotten key may have left traces.
                for operation in &left_by(ground, unknown.clone()).await? {
                    let traces = Traces::of(&ground.store, operation).await?;
                    if !traces.is_empty() {
                        return tell(ground, arguments, operation, None, &traces);
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
            let scopes = scopes_of(&ground.store, within, &operation.key).await?;
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

fn tell(
    ground: &Ground,
    arguments: &Explain,
    operation: &Operation,
    record: Option<&Record>,
    traces: &Traces,
) -> Result<Exit> {
    let facts = Facts {
        operation,
        record,
        pipeline: ground.pipeline_of(&operation.scope),
        arrival: ground.arrival_of(&operation.scope),
        messages: &traces.messages,
        message_count: traces.message_count,
        audit: &traces.audit,
        now: ground.now(),
        beside: ground.beside,
    };
    let explanation = Explanation::of(&facts);
    let explanation = explanation
        .with_choices(|choice| Command::new(&choice, ground.command_for(&choice.action)));
    let _ = Answers::new(arguments.format).print(&explanation)?;
    Ok(Exit::Done)
}
